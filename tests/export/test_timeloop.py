"""Timeloop's files, read back: a second reading of the nest, the tiles and the machine."""

import math
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from hypothesis import given, settings

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import arch_names, read_arch
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.export.timeloop import architecture, directives, problem, write_timeloop
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import box_elems
from cpsat_pim.workload import ConvWorkload
from tests.cross.cases import Case, cases

#: Where loops and storages are, outer to inner, as the architecture lists them.
PLACES = ["DRAM", "RowBuffer", "GlobalBuffer", "ArrayRows", "ArrayColumns", "PEBuffer", "Lanes"]
LEVELS = {"DRAM": Level.DRAM, "RowBuffer": Level.ROW_BUFFER, "GlobalBuffer": Level.GLOBAL_BUFFER, "PEBuffer": Level.PE}
DATASPACES = {"Inputs": Tensor.I, "Weights": Tensor.W, "Outputs": Tensor.O}
DIMS = {d.name for d in Dim}

Loop = tuple[str, str, int]
#: A machine whose levels have one buffer each.
SHARED = PIMArchitecture()


class Loader(yaml.SafeLoader):
    """Reads `!Container` and `!Component` as plain mappings with their tags."""


Loader.add_multi_constructor("!", lambda loader, tag, node: {"tag": tag, **loader.construct_mapping(node, deep=True)})


def factors(directive: dict[str, Any]) -> dict[str, int]:
    """`["R=3", ...]` as numbers by dim, each dim once."""
    pairs = [word.split("=") for word in directive["factors"]]
    assert len(pairs) == len(dict(pairs))
    return {dim: int(factor) for dim, factor in pairs}


def loops(listed: list[dict[str, Any]]) -> list[Loop]:
    """The nest from the outermost loop inwards, as (place, dim, factor); permutations begin with the innermost."""
    nest = []
    for place in PLACES:
        (directive,) = [d for d in listed if d["target"] == place and d["type"] != "dataspace"]
        assert directive["type"] == ("temporal" if place in LEVELS else "spatial")
        assert sorted(directive["permutation"]) == sorted(DIMS)
        nest += [(place, dim, factors(directive)[dim]) for dim in reversed(directive["permutation"])]
    return nest


def product(nest: list[Loop], **which: Any) -> int:
    """Turns of the loops of a dim, or in some places."""
    dims, places = which.get("dims", DIMS), which.get("places", PLACES)
    return math.prod(factor for place, dim, factor in nest if dim in dims and place in places)


def tile(shape: dict[str, Any], instance: dict[str, int], dataspace: dict[str, Any], nest: list[Loop]) -> int:
    """Elements of a dataspace that the loops of a nest span, by its projection: an axis adds up its terms' ranges."""
    defaults = {c["name"]: c["default"] for c in shape["coefficients"]}
    elements = 1
    for axis in dataspace["projection"]:
        ranges = [
            (product(nest, dims=[dim]) - 1) * math.prod(instance.get(c, defaults[c]) for c in scale)
            for dim, *scale in axis
        ]
        elements *= 1 + sum(ranges)
    return elements


@settings(max_examples=150)
@given(cases())
def test_mapping_is_the_same_nest(case: Case) -> None:
    """Factors multiply to the bounds, steps and MACs; orders, places and what is stored are the mapping's."""
    mapping, listed = case.mapping, directives(case.mapping, SHARED)
    nest = loops(listed)
    assert {dim: product(nest, dims=[dim]) for dim in DIMS} == {d.name: case.layer.bounds[d] for d in Dim}
    assert product(nest) == case.layer.macs
    assert product(nest, places=LEVELS) == mapping.compute_steps
    assert product(nest, places=["Lanes"]) * mapping.used_pes == mapping.parallel_macs
    for place, level in LEVELS.items():
        assert [dim for where, dim, factor in nest if where == place and factor > 1] == [
            d.name for d in mapping.order[level]
        ]
        (stores,) = [d for d in listed if d["target"] == place and d["type"] == "dataspace"]
        assert sorted(stores["keep"] + stores["bypass"]) == sorted(DATASPACES)
        kept = {DATASPACES[name] for name in stores["keep"]}
        assert kept == {t for t in Tensor if level is Level.DRAM or mapping.stored[level][t]}


@settings(max_examples=150)
@given(cases())
def test_problem_spans_the_same_tiles(case: Case) -> None:
    """What the projections make of the loops at and inside a level is the box there, and of all loops the tensor."""
    nest = loops(directives(case.mapping, SHARED))
    written = problem(case.layer)["problem"]
    assert {d: written["instance"][d] for d in written["shape"]["dimensions"]} == {
        d.name: case.layer.bounds[d] for d in Dim
    }
    for dataspace in written["shape"]["data_spaces"]:
        tensor = DATASPACES[dataspace["name"]]
        assert dataspace["read_write"] == (tensor is Tensor.O)
        assert tile(written["shape"], written["instance"], dataspace, nest) == case.layer.elements(tensor)
        for place, level in LEVELS.items():
            inside = [loop for loop in nest if loop[0] in PLACES[PLACES.index(place) :]]
            box = box_elems(case.layer, case.mapping.extents(level), tensor)
            assert tile(written["shape"], written["instance"], dataspace, inside) == box


# --- The machine -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", arch_names())
def test_architecture_lists_levels_and_meshes_outer_to_inner(name: str) -> None:
    """Rows lie along Y, columns and lanes along X; sizes are the machine's, and a tile that fits here fits there."""
    arch = read_arch(name)
    nodes = architecture(ConvWorkload(psum_bytes=4), arch)["architecture"]["nodes"]
    places = [[*DATASPACES] if is_separate(arch, place) else [""] for place in PLACES]
    listed = [place + name for place, names in zip(PLACES, places, strict=True) for name in names]
    assert [node["name"] for node in nodes] == ["System", *listed, "MAC"]
    by_name = {node["name"]: node for node in nodes}
    shape = arch.pe_array.array_shape
    assert by_name["ArrayRows"]["spatial"] == {"meshY": shape.h}
    assert by_name["ArrayColumns"]["spatial"] == {"meshX": shape.w}
    assert by_name["Lanes"]["spatial"] == {"meshX": arch.pe_array.compute_unit.num_macs}
    for place, level in LEVELS.items():
        if level is not Level.DRAM:
            sizes = [node["attributes"] for name, node in by_name.items() if name.startswith(place)]
            words = [s["depth"] * s["width"] // s["datawidth"] // s["multiple_buffering"] for s in sizes]
            assert sum(words) == arch.usable_bytes(level)  # words of a byte, the narrowest element


def is_separate(arch: PIMArchitecture, place: str) -> bool:
    """Whether a place is a level with a buffer for each tensor."""
    return place in LEVELS and not arch.hierarchy[LEVELS[place]].is_shared


def test_bandwidths_count_words_over_all_ports() -> None:
    """64 bytes a cycle and port, 3 ports, 2-byte words: 96 words a cycle; no limit is not written."""
    layer = ConvWorkload(input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=4)
    nodes = {n["name"]: n for n in architecture(layer, PIMArchitecture())["architecture"]["nodes"]}
    buffer = nodes["GlobalBuffer"]["attributes"]
    assert (buffer["read_bandwidth"], buffer["write_bandwidth"], buffer["datawidth"]) == (96, 96, 16)
    assert "read_bandwidth" not in nodes["PEBuffer"]["attributes"]


def test_level_smaller_than_a_word_has_one() -> None:
    """A buffer that a machine lacks has one byte there; Timeloop wants a size that is positive."""
    layer = ConvWorkload(input_bytes=4, weight_bytes=4, output_bytes=4, psum_bytes=4)
    levels = [attrs.evolve(level, entries=1) for level in PIMArchitecture().hierarchy]
    nodes = architecture(layer, PIMArchitecture(hierarchy=tuple(levels)))["architecture"]["nodes"]
    assert all(n["attributes"].get("depth", 1) > 0 for n in nodes if n.tag == "!Component")


def test_separate_buffers_are_three_storages_around_the_same_loops() -> None:
    """Each keeps one tensor and has its own size; the innermost one has the level's loops, the others none."""
    level = attrs.evolve(SHARED.hierarchy[1], entries={"I": 16, "W": 144, "O": 32}, word_bytes=2)
    arch = attrs.evolve(SHARED, hierarchy=(SHARED.hierarchy[0], level, *SHARED.hierarchy[2:]))
    layer = ConvWorkload(K=6, input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=4)
    names = [f"GlobalBuffer{dataspace}" for dataspace in DATASPACES]
    nodes = {n["name"]: n for n in architecture(layer, arch)["architecture"]["nodes"]}
    assert [name for name in nodes if name.startswith("GlobalBuffer")] == names
    # 64 bytes a cycle, of which a word takes 2: a port for each.
    sizes = [(nodes[n]["attributes"]["depth"], nodes[n]["attributes"]["read_bandwidth"]) for n in names]
    assert sizes == [(16, 32), (144, 32), (32, 32)]
    ones = [1] * 8
    mapping = Mapping(
        temporal=[ones, [1, 1, 1, 1, 1, 6, 1, 1], ones, ones],
        spatial=[ones] * 3,
        order=[[], [Dim.K], [], []],
        stored=[[False] * 3, [True, False, True], [False] * 3],
    )
    listed = [d for d in directives(mapping, arch) if d["target"].startswith("GlobalBuffer")]
    kept = {d["target"]: d["keep"] for d in listed if d["type"] == "dataspace"}
    assert [kept[name] for name in names] == [["Inputs"], [], ["Outputs"]]
    assert [factors(d)["K"] for d in listed if d["type"] == "temporal"] == [1, 1, 6]
    assert [d["target"] for d in listed[::2]] == names


# --- The files -------------------------------------------------------------------------------------------------------


def test_directions_of_the_mesh_are_told_by_the_split() -> None:
    """Loops before `split` lie along X: all eight of columns and lanes, none of rows."""
    mapping = Mapping(temporal=[[1] * 8] * 4, spatial=[[1] * 8] * 3, order=[[]] * 4, stored=[[True] * 3] * 3)
    listed = directives(mapping, SHARED)
    splits = {d["target"]: d["split"] for d in listed if d["type"] == "spatial"}
    assert splits == {"ArrayRows": 0, "ArrayColumns": 8, "Lanes": 8}


def test_uneven_residency_is_refused() -> None:
    """Timeloop's levels hold even tiles."""
    mapping = Mapping(
        temporal=[[2] + [1] * 7, *[[1] * 8] * 3],
        spatial=[[1] * 8] * 3,
        order=[[Dim.R], [], [], []],
        stored=[[True] * 3] * 3,
        outside=[[0, 1, 0], [0, 0, 0]],
    )
    with pytest.raises(ValueError, match="uneven residency has no form"):
        directives(mapping, SHARED)


def test_files_read_back_as_what_was_written(tmp_path: Path) -> None:
    """Three documents with the keys that Timeloop's front end merges, tags and plain numbers; names safe as files'."""
    layer = ConvWorkload(name="a/b", P=4, stride=(2, 1))
    mapping = Mapping(
        temporal=[[1, 1, 4, 1, 1, 1, 1, 1], *[[1] * 8] * 3],
        spatial=[[1] * 8] * 3,
        order=[[Dim.P], [], [], []],
        stored=[[True, True, False], [True] * 3, [False] * 3],
    )
    arch = PIMArchitecture()
    paths = write_timeloop(layer, arch, mapping, tmp_path / "new" / "place")
    assert [path.name for path in paths] == ["a_b.arch.yaml", "a_b.problem.yaml", "a_b.mapping.yaml"]
    read = [yaml.load(path.read_text(), Loader) for path in paths]
    nodes = read[0]["architecture"]["nodes"]
    containers = {node["name"] for node in nodes if node.pop("tag") == "Container"}
    assert containers == {"System", "ArrayRows", "ArrayColumns", "Lanes"}
    assert nodes == architecture(layer, arch)["architecture"]["nodes"]
    assert read[1] == problem(layer)
    assert read[2] == {"mapping": directives(mapping, arch)}
    assert read[0]["architecture"]["version"] == read[1]["problem"]["version"] == 0.4
