"""Mapping files: what is written reads back, what is read by hand means what it says, and mistakes have places."""

import json
from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapping import BANKS, Mapping
from cpsat_pim.mapping.mapping_file import build_mapping, format_mapping_file, read_mapping_file
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import read_network
from tests.conftest import FileWriter
from tests.cross.cases import cases

ONES = [1] * 8
HEAD = "version: 1\nlayers:\n- name: a\n  mapping:\n"
STORED = "    stored: {ROW_BUFFER: '', GLOBAL_BUFFER: IW, PE: W}\n"


@pytest.fixture
def write(file_writer: FileWriter) -> Callable[[str | bytes], str]:
    """Write `map.yaml` in a directory of its own and return its name."""
    return file_writer("map.yaml")


def complaints(name):
    """The lines of the ValueError that reading raises."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_mapping_file(name)
    return str(caught.value).splitlines()


# --- There and back --------------------------------------------------------------------------------------------------


@given(cases(uneven=True))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mapping_that_is_written_reads_back(tmp_path, case):
    """Layer, machine and mapping, whatever they are."""
    path = tmp_path / "m.yaml"
    path.write_text(format_mapping_file(case.arch, [(evolve(case.layer, name="x: y"), case.mapping)]))
    file = read_mapping_file(path)
    assert file.arch == case.arch
    (entry,) = file.layers
    assert (entry.name, entry.mapping) == ("x: y", case.mapping)
    assert entry.layer is not None
    assert entry.layer.shape == case.layer.shape


@given(cases(uneven=True))
@settings(max_examples=60)
def test_any_mapping_of_json_results_reads_back(case):
    """What `to_dict` gives, after JSON, is read by the description of mapping files."""
    assert build_mapping("f", json.loads(json.dumps(case.mapping.to_dict()))) == case.mapping


def test_presets_are_written_by_their_names():
    """A machine that is one; a changed one is written in full."""
    mapping = Mapping(temporal=[ONES] * 4, spatial=[ONES] * 3, order=[()] * 4, stored=[[False] * 3] * 3)
    assert "arch: hbm-pim\n" in format_mapping_file(read_arch("hbm-pim"), [(ConvWorkload(), mapping)])


# --- By hand ---------------------------------------------------------------------------------------------------------


def test_loops_are_in_the_order_in_which_they_are_written(write):
    """Unless `order` says otherwise; absent factors are 1, absent layouts the first."""
    text = """
    temporal:
      DRAM: {K: 4, C: 2, P: 1}
      GLOBAL_BUFFER: {Q: 2, P: 3}
    spatial: {W: {K: 8}}
    order: {GLOBAL_BUFFER: PQ}
    layout: {W: SRCGK}
"""
    (entry,) = read_mapping_file(write(HEAD + text + STORED)).layers
    mapping = entry.mapping
    assert mapping.order == ((), (Dim.P, Dim.Q), (), (Dim.K, Dim.C))
    assert mapping.temporal[Level.DRAM] == (1, 1, 1, 1, 2, 4, 1, 1)
    assert mapping.spatial == (tuple(ONES), (1, 1, 1, 1, 1, 8, 1, 1), tuple(ONES))
    assert mapping.stored == ((False, True, False), (True, True, False), (False, False, False))
    assert (mapping.layout, mapping.block_h, mapping.block_w) == ((0, 1, 0), 0, 0)
    assert entry.layer is None


def test_bank_counts_are_those_of_i_w_o(write):
    """`[8, 4, 4]`; a mapping with one bank a part does not mention them."""
    head, arch = f"{HEAD}    temporal: {{}}\n{STORED}", evolve(read_arch("default"), name="mine")
    (plain,), (several,) = (read_mapping_file(write(head + t)).layers for t in ("", "    bank_counts: [8, 4, 4]\n"))
    assert (plain.mapping.bank_counts, several.mapping.bank_counts) == ((1, 1, 1), (8, 4, 4))
    assert "bank_counts" not in plain.mapping.to_dict()
    assert build_mapping("f", several.mapping.to_dict()) == several.mapping
    written = write(format_mapping_file(arch, [(ConvWorkload(name="a"), several.mapping)]))
    assert read_mapping_file(written).layers[0].mapping == several.mapping


@pytest.mark.parametrize("text", BANKS)
def test_banks_name_the_tensors_that_share_one(write, text):
    """`IW|O`; a mapping with a bank for each tensor does not mention them."""
    (entry,) = read_mapping_file(write(f"{HEAD}    temporal: {{}}\n{STORED}    banks: {text}\n")).layers
    assert entry.mapping.banks == BANKS[text]
    assert entry.mapping.to_dict().get("banks", "I|W|O") == text
    assert build_mapping("f", entry.mapping.to_dict()) == entry.mapping
    arch = evolve(read_arch("default"), name="mine")
    written = write(format_mapping_file(arch, [(ConvWorkload(name="a"), entry.mapping)]))
    assert read_mapping_file(written).layers[0].mapping == entry.mapping


def test_resident_names_the_loops_that_a_tile_covers(write):
    """The innermost ones of its level, none or all; what is not named covers all."""
    text = """
    temporal: {GLOBAL_BUFFER: {P: 3, C: 2, R: 3, S: 3}, PE: {K: 4, C: 2}}
    resident: {GLOBAL_BUFFER: {W: RS, I: PCRS}, PE: {W: ''}}
"""
    (entry,) = read_mapping_file(write(HEAD + text + STORED)).layers
    assert entry.mapping.outside == ((0, 2, 0), (0, 2, 0))
    assert entry.mapping.to_dict()["resident"] == {"GLOBAL_BUFFER": {"W": "RS"}, "PE": {"W": ""}}
    # W at the global buffer: C = 2 of the PE, K = 4 of the PE, R and S; at the PE: nothing but lanes.
    assert entry.mapping.tile(Level.GLOBAL_BUFFER, Tensor.W) == (3, 3, 1, 1, 2, 4, 1, 1)
    assert entry.mapping.tile(Level.GLOBAL_BUFFER, Tensor.I) == (3, 3, 3, 1, 4, 4, 1, 1)
    assert entry.mapping.tile(Level.PE, Tensor.W) == (1,) * 8


def test_even_mapping_says_nothing_of_residency():
    """Its JSON is that of a machine without."""
    mapping = Mapping(temporal=[ONES] * 4, spatial=[ONES] * 3, order=[()] * 4, stored=[[False] * 3] * 3)
    assert "resident" not in mapping.to_dict()
    assert not mapping.is_uneven


def test_shapes_and_machines_may_be_looked_up(write, tmp_path):
    """A network's layer by its name, a machine from a file beside this one; a shape of its own prevails."""
    (tmp_path / "m.yaml").write_text("version: 1\nextends: upmem\n")
    text = "version: 1\narch: m.yaml\nnetwork: alexnet\nlayers:\n"
    mapping = f"  mapping:\n    temporal: {{}}\n{STORED}"
    file = read_mapping_file(write(f"{text}- name: fc7\n{mapping}- name: b\n  shape: {{P: 3}}\n{mapping}"))
    assert file.arch is not None
    assert (file.arch.name, file.arch.hierarchy) == ("m", read_arch("upmem").hierarchy)
    fc7 = next(node.workload for node in read_network("alexnet").layers if node.name == "fc7")
    assert [entry.layer for entry in file.layers] == [fc7, ConvWorkload(name="b", P=3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "    temporal: {DRAM: {K: 0}}\n",
            "5:26: layers[a].mapping.temporal.DRAM.K: must be a positive integer (got 0)",
        ),
        (
            "    temporal: {DRAM: {X: 2}}\n",
            "5:23: layers[a].mapping.temporal.DRAM.X: unknown key; there are R, S, P, Q, C, K, N, G",
        ),
        ("    temporal: {DRM: {}}\n", "5:16: layers[a].mapping.temporal.DRM: unknown key; did you mean 'DRAM'?"),
        ("    temporal: 5\n", "5:15: layers[a].mapping.temporal: must be a mapping of fields (got 5)"),
        (
            "    temporal: {}\n    order: {PE: KK}\n",
            "6:17: layers[a].mapping.order.PE: must be letters of RSPQCKNG, each at most once (got KK)",
        ),
        (
            "    temporal: {}\n    layout: {I: HWC}\n",
            "6:17: layers[a].mapping.layout.I: must be one of NGCHW, NHWGC (got HWC); did you mean 'NHWGC'?",
        ),
        (
            "    temporal: {}\n    layout: {I: {mode: row_aligned, order: NGCHW}}\n",
            "6:24: layers[a].mapping.layout.I.mode: must be sequential, the row buffer does not store I",
        ),
        (
            "    temporal: {}\n    input_block: {h: 1}\n",
            "6:18: layers[a].mapping.input_block.w: is missing",
        ),
        (
            "    temporal: {}\n    input_block: 3\n",
            "6:18: layers[a].mapping.input_block: must be the height h and width w of blocks, or nothing (got 3)",
        ),
        (
            "    temporal: {PE: {K: 4, C: 2}}\n    resident: {PE: {W: K}}\n",
            "6:24: layers[a].mapping.resident.PE.W: must be the innermost of the loops KC (got K)",
        ),
        (
            "    temporal: {}\n    banks: WI|O\n",
            "6:12: layers[a].mapping.banks: must be one of I|W|O, IW|O, IO|W, I|WO, IWO (got WI|O); "
            "did you mean 'I|WO'?",
        ),
        (
            "    temporal: {}\n    bank_counts: [3, 1, 1]\n",
            "6:18: layers[a].mapping.bank_counts: must be three powers of two [input, weight, output] (got [3, 1, 1])",
        ),
        (
            "    temporal: {}\n    resident: {ROW_BUFFER: {W: ''}}\n",
            "6:16: layers[a].mapping.resident.ROW_BUFFER: unknown key; did you mean 'GLOBAL_BUFFER'?",
        ),
        ("", "5:5: layers[a].mapping.temporal: is missing"),
    ],
)
def test_mistake_in_a_mapping_names_its_place(write, text, message):
    """Line, column and path."""
    assert complaints(write(HEAD + text + STORED)) == [f"map.yaml:{message}"]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("version: 1\nlayers: []\n", ["map.yaml:2:9: layers: must be a list of at least one layer (got [])"]),
        ("version: 1\nlayers: [{name: a}]\n", ["map.yaml:2:10: layers[a].mapping: is missing"]),
        (
            f"{HEAD}    temporal: {{}}\n{STORED}- name: a\n  mapping: 3\n",
            [
                "map.yaml:7:9: layers[1].name: there is a layer of this name already",
                "map.yaml:8:12: layers[1].mapping: must be a mapping of fields (got 3)",
            ],
        ),
        (
            f"{HEAD}    temporal: {{}}\n    stored: {{PE: W}}\n",
            [
                "map.yaml:6:13: layers[a].mapping.stored.ROW_BUFFER: is missing",
                "map.yaml:6:13: layers[a].mapping.stored.GLOBAL_BUFFER: is missing",
            ],
        ),
        (
            f"{HEAD}    temporal: {{}}\n{STORED}arch: upmen\n",
            ["map.yaml: unknown architecture 'upmen'; did you mean 'upmem'?; a file's name ends in .yaml or .yml"],
        ),
        (
            f"{HEAD}    temporal: {{}}\n{STORED}network: alexnet\n",
            [
                "map.yaml: layers[a]: alexnet has no layer of this name; "
                "there are conv1, conv2, conv3, conv4, conv5, fc6, fc7, fc8"
            ],
        ),
    ],
)
def test_mistakes_in_a_file_are_told(write, text, messages):
    """All of them."""
    assert sorted(complaints(write(text))) == sorted(messages)
