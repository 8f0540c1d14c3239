"""A mapped layer as Timeloop's YAML, v0.4 (docs/export.md): problem, architecture and mapping.

Levels and containers, outer to inner, have the same names for every machine:

    DRAM, RowBuffer, GlobalBuffer, ArrayRows (H), ArrayColumns (W), PEBuffer, Lanes (Internal), MAC

A level with a separate buffer for each tensor is three storages, `GlobalBufferInputs`, `GlobalBufferWeights`,
`GlobalBufferOutputs`. The innermost of them has the level's loops, so that the tile in each covers these.
"""

from pathlib import Path
from typing import Any

import yaml

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Direction, Level, Tensor
from cpsat_pim.base.files import file_stem, replacing
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

VERSION = 0.4

#: The dataspaces by Timeloop's names.
DATASPACES = {Tensor.I: "Inputs", Tensor.W: "Weights", Tensor.O: "Outputs"}

STORAGES = {
    Level.DRAM: "DRAM",
    Level.ROW_BUFFER: "RowBuffer",
    Level.GLOBAL_BUFFER: "GlobalBuffer",
    Level.PE: "PEBuffer",
}

#: The parallel directions as containers, and the axis of the mesh that each uses.
CONTAINERS = {
    Direction.H: ("ArrayRows", "meshY"),
    Direction.W: ("ArrayColumns", "meshX"),
    Direction.INTERNAL: ("Lanes", "meshX"),
}

#: Each level with the parallel directions directly below it, outer to inner.
NEST = (
    (Level.DRAM, ()),
    (Level.ROW_BUFFER, ()),
    (Level.GLOBAL_BUFFER, (Direction.H, Direction.W)),
    (Level.PE, (Direction.INTERNAL,)),
)

#: For each axis of a dataspace the terms of its coordinate: a dim, or a dim times a coefficient (Eq. 2, 3).
PROJECTIONS = {
    Tensor.I: (
        (("N",),),
        (("G",),),
        (("C",),),
        (("S", "Hdilation"), ("Q", "Hstride")),
        (("R", "Wdilation"), ("P", "Wstride")),
    ),
    Tensor.W: ((("G",),), (("K",),), (("C",),), (("S",),), (("R",),)),
    Tensor.O: ((("N",),), (("G",),), (("K",),), (("Q",),), (("P",),)),
}

#: Attributes that Accelergy requires and a machine here does not have.
SYSTEM = {"technology": "45nm", "global_cycle_seconds": 1e-9}

COEFFICIENTS = ("Wstride", "Hstride", "Wdilation", "Hdilation")


class _Tagged(dict[str, Any]):
    """A YAML mapping with a tag."""

    def __init__(self, tag: str, entries: dict[str, Any]) -> None:
        super().__init__(entries)
        self.tag = tag


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    """Writes tags, and never abbreviates by aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(_Tagged, lambda dumper, node: dumper.represent_mapping(node.tag, dict(node), flow_style=False))


def write_timeloop(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping, directory: str | Path) -> list[Path]:
    """Write `LAYER.arch.yaml`, `LAYER.problem.yaml` and `LAYER.mapping.yaml` to a directory, made if need be.

    Raises:
        OSError: they cannot be written.
        ValueError: the mapping has uneven residency.
    """
    documents = {
        "arch": architecture(layer, arch),
        "problem": problem(layer),
        "mapping": {"mapping": directives(mapping, arch)},
    }
    Path(directory).mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, document in documents.items():
        paths.append(Path(directory) / f"{file_stem(layer.name)}.{kind}.yaml")
        with replacing(paths[-1]) as file:
            yaml.dump(document, file, _Dumper, sort_keys=False, default_flow_style=None, width=120)
    return paths


# --- Problem ---------------------------------------------------------------------------------------------------------


def problem(layer: ConvWorkload) -> dict[str, Any]:
    """Build the problem: the shape that all layers share, and this layer's bounds, strides and dilations."""
    shape = {
        "name": "GroupedConv",
        "dimensions": [d.name for d in Dim],
        "coefficients": [{"name": name, "default": 1} for name in COEFFICIENTS],
        "data_spaces": [_dataspace(tensor) for tensor in Tensor],
    }
    bounds = {d.name: layer.bounds[d] for d in Dim}
    strides = dict(zip(COEFFICIENTS, (*layer.stride, *layer.dilation), strict=True))
    return {"problem": {"version": VERSION, "shape": shape, "instance": {**bounds, **strides}}}


def _dataspace(tensor: Tensor) -> dict[str, Any]:
    projection = [[list(term) for term in axis] for axis in PROJECTIONS[tensor]]
    return {"name": DATASPACES[tensor], "projection": projection, "read_write": tensor is Tensor.O}


# --- Architecture ----------------------------------------------------------------------------------------------------


def architecture(layer: ConvWorkload, arch: PIMArchitecture) -> dict[str, Any]:
    """Build the architecture of one node. A word has the width of the layer's narrowest element, so that no legal tile
    is too large.
    """
    word_bytes = min(layer.width_bytes)
    sizes = {
        Direction.H: arch.pe_array.array_shape.h,
        Direction.W: arch.pe_array.array_shape.w,
        Direction.INTERNAL: arch.pe_array.compute_unit.num_macs,
    }
    nodes = [_Tagged("!Container", {"name": "System", "attributes": SYSTEM})]
    for level, directions in NEST:
        for name, tensors in storages(arch, level):
            nodes.append(_component(name, *_storage(arch, level, tensors, word_bytes)))
        for direction in directions:
            name, side = CONTAINERS[direction]
            nodes.append(_Tagged("!Container", {"name": name, "spatial": {side: sizes[direction]}}))
    nodes.append(_component("MAC", "intmac", {"datawidth": int(8 * word_bytes)}))
    return {"architecture": {"version": VERSION, "nodes": nodes}}


def _component(name: str, kind: str, attributes: dict[str, Any]) -> _Tagged:
    return _Tagged("!Component", {"name": name, "class": kind, "attributes": attributes})


def storages(arch: PIMArchitecture, level: Level) -> list[tuple[str, tuple[Tensor, ...]]]:
    """Return a level's storages, outer to inner: name and tensors, one for all of them or one for each."""
    if arch.hierarchy[level].is_shared:
        return [(STORAGES[level], tuple(Tensor))]
    return [(STORAGES[level] + DATASPACES[tensor], (tensor,)) for tensor in Tensor]


def _storage(
    arch: PIMArchitecture, level: Level, tensors: tuple[Tensor, ...], word_bytes: int
) -> tuple[str, dict[str, Any]]:
    """Return class and attributes of a storage."""
    if level is Level.DRAM:
        return "DRAM", {"width": 8 * arch.column_bytes, "datawidth": int(8 * word_bytes)}
    return "regfile" if level is Level.PE else "SRAM", _buffer(arch, level, tensors, word_bytes)


def _buffer(arch: PIMArchitecture, level: Level, tensors: tuple[Tensor, ...], word_bytes: int) -> dict[str, Any]:
    """Return the capacity in words, and the words per cycle over all ports."""
    memory = arch.hierarchy[level]
    attributes: dict[str, Any] = {
        "depth": max(1, memory.entries_of(tensors[0]) * memory.word_bytes // word_bytes),
        "width": int(8 * word_bytes),
        "datawidth": int(8 * word_bytes),
        "multiple_buffering": 2 if arch.is_halved(level) else 1,
    }
    limits = {"read_bandwidth": memory.read_bandwidth_limit, "write_bandwidth": memory.write_bandwidth_limit}
    ports = memory.ports if memory.is_shared else 1  # a port serves one tensor at a time
    return attributes | {name: limit * ports / word_bytes for name, limit in limits.items() if limit is not None}


# --- Mapping ---------------------------------------------------------------------------------------------------------


def directives(mapping: Mapping, arch: PIMArchitecture) -> list[dict[str, Any]]:
    """Build the mapping directives: what each level stores, and its loops, outer to inner."""
    if mapping.is_uneven:
        raise ValueError(
            "a mapping with uneven residency has no form in Timeloop's files: a level's tiles are even there"
        )
    listed = []
    for level, directions in NEST:
        *outer, (innermost, tensors) = storages(arch, level)
        for name, others in outer:
            listed += [_stores(mapping, level, name, others), _loops(name, "temporal", (1,) * len(Dim), ())]
        listed.append(_stores(mapping, level, innermost, tensors))
        listed.append(_loops(innermost, "temporal", mapping.temporal[level], mapping.order[level]))
        listed.extend(_spreads(mapping, direction) for direction in directions)
    return listed


def _stores(mapping: Mapping, level: Level, name: str, tensors: tuple[Tensor, ...]) -> dict[str, Any]:
    """Build the directive of what a storage for some tensors keeps."""
    kept = {t: t in tensors and (level is Level.DRAM or mapping.stored[level][t]) for t in Tensor}
    return {
        "target": name,
        "type": "dataspace",
        "keep": [DATASPACES[tensor] for tensor in Tensor if kept[tensor]],
        "bypass": [DATASPACES[tensor] for tensor in Tensor if not kept[tensor]],
    }


def _spreads(mapping: Mapping, direction: Direction) -> dict[str, Any]:
    """Build the spatial directive: the loops before `split` lie along X, the others along Y."""
    name, side = CONTAINERS[direction]
    split = len(Dim) if side == "meshX" else 0
    return _loops(name, "spatial", mapping.spatial[direction], ()) | {"split": split}


def _loops(target: str, kind: str, factors: tuple[int, ...], order: tuple[Dim, ...]) -> dict[str, Any]:
    """Build the loops of all dims. A permutation begins with the innermost loop; loops of factor 1 come first."""
    permutation = [d for d in Dim if d not in order] + list(reversed(order))
    return {
        "target": target,
        "type": kind,
        "factors": [f"{d.name}={factors[d]}" for d in Dim],
        "permutation": [d.name for d in permutation],
    }
