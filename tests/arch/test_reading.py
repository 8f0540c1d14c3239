"""Presets and architecture files: what is read, and the one line that a mistake gets."""

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import yaml

from cpsat_pim.arch import MemoryLevel, PEArray, PhyDim2, PIMArchitecture, SeparateEntries
from cpsat_pim.arch.reading import arch_names, build_arch, change_arch, read_arch
from cpsat_pim.base.dims import Level, Tensor
from tests.conftest import FileWriter

THREE_LEVELS = ", ".join(f"{{name: {name}, entries: 8}}" for name in "bcd")


@pytest.fixture
def write(file_writer: FileWriter) -> Callable[[str | bytes], str]:
    """Write `mine.yaml` in a directory of its own and return its name."""
    return file_writer("mine.yaml")


def complaint(name):
    """The message of the ValueError that reading raises; it is one line."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_arch(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- Files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", arch_names())
def test_plain_data_of_a_machine_reads_back(write, name):
    """What `to_dict` gives is an architecture file but for the version."""
    arch = read_arch(name)
    plain = yaml.safe_load(yaml.safe_dump({"version": 1} | _plain(arch.to_dict())))
    assert read_arch(write(yaml.safe_dump(plain))) == arch


def _plain(value):
    """Tuples as lists, which is what YAML has."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, tuple | list) else value


def test_absent_fields_keep_their_defaults(write):
    """A file states what differs; its stem is the machine's name."""
    text = "version: 1\npage_policy: closed\npe_array: {array_shape: {h: 2, w: 3}}\n"
    assert read_arch(write(text)) == PIMArchitecture(
        name="mine", page_policy="closed", pe_array=PEArray(array_shape=PhyDim2(h=2, w=3))
    )


def test_levels_are_read_inner_to_outer(write):
    """Every kind of value in a level: text, integer, number with an exponent, list, boolean, nothing."""
    first = "{name: a, entries: 4, access_cost: 1e-3, write_cost: null, stores: [true, false, true], ports: 1}"
    arch = read_arch(write(f"version: 1\nhierarchy: [{first}, {THREE_LEVELS}]\n"))
    assert arch.hierarchy[0] == MemoryLevel(name="a", entries=4, access_cost=0.001, stores=(True, False, True), ports=1)
    assert [level.name for level in arch.hierarchy] == list("abcd")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vault_count: 0", "14: vault_count: must be a positive integer (got 0)"),
        ("vault_count: 1.5", "14: vault_count: must be a positive integer (got 1.5)"),
        ("vault_count: '2'", "14: vault_count: must be a positive integer (got '2')"),
        ("vault_count: true", "14: vault_count: must be a positive integer (got true)"),
        ("vault_count: 1e30", "14: vault_count: must stay below 2^62 (got 1e30)"),
        ("vault_count: 1e999", "14: vault_count: must be a number below 2^62, of at most 40 digits (got 1e999)"),
        ("name: 5", "7: name: must be text (got 5)"),
        ("name: ", "6: name: must be text (got nothing)"),
        ("page_policy: shut", "14: page_policy: must be one of open, closed (got shut)"),
        ("page_policy: opn", "14: page_policy: must be one of open, closed (got opn); did you mean 'open'?"),
        ("multicast: 1", "12: multicast: must be true or false (got 1)"),
        ("multicast: yes", "12: multicast: must be true or false (got yes)"),
        ("activation_energy: .nan", "20: activation_energy: must be a finite number of at least 0 (got .nan)"),
        (
            "activation_energy: -1 pJ",
            "20: activation_energy: must be a finite number of at least 0 (got -1 pJ = -0.001 nJ)",
        ),
        ("activation_energy: 1 pj", "20: activation_energy: has the unknown unit 'pj' (got 1 pj); did you mean pJ?"),
        ("activation_energy: 1 ns", "20: activation_energy: must be in nJ, not in ns (got 1 ns)"),
        (
            "activation_energy: much",
            "20: activation_energy: must be a number, or one with a unit such as nJ (got much)",
        ),
        (
            "activation_energy: 0.12345678901234567891",
            "20: activation_energy: comes to 12345678901234567891/100000000000000000000, which no decimal number of "
            "15 digits gives exactly (got 0.12345678901234567891)",
        ),
        ("page_polcy: open", "1: page_polcy: unknown key; did you mean 'page_policy'?"),
        ("dram_timings: {tRP: -1}", "21: dram_timings.tRP: must be an integer of at least 0 (got -1)"),
        (
            "dram_timings: {tRP: 14 ns}",
            "21: dram_timings.tRP: needs the machine's clock, such as `clock: 500 MHz` (got 14 ns)",
        ),
        ("dram_timings: {tRCDR: 1}", "16: dram_timings.tRCDR: unknown key; did you mean 'tRCDRD'?"),
        ("dram_timings: {node_banks: 2}", "16: dram_timings.node_banks: unknown key; it is a key of the file itself"),
        ("dram_timings: {co_w: 12}", "22: dram_timings.co_w: must be a multiple of 8 bits (got 12)"),
        ("dram_timings: HBM2", "15: dram_timings: must be a mapping of fields (got HBM2)"),
        (
            "dram_timings: {co_w: 24}",
            "-1: hierarchy[2].row_buffer_size: must be a multiple of the column width 3 B (got 1024)",
        ),
        ("pe_array: {}", "11: pe_array.array_shape: is missing"),
        ("pe_array: {array_shape: {h: 0, w: 1}}", "29: pe_array.array_shape.h: must be a positive integer (got 0)"),
        ("pe_array: {array_shape: [1, 1]}", "25: pe_array.array_shape: must be a mapping of fields (got [1, 1])"),
        (
            "pe_array: {array_shape: {h: 1, w: 1}, compute_unit: {num_macs: 2}}",
            "64: pe_array.compute_unit.num_macs: a scalar unit has 1 (got 2)",
        ),
        ("hierarchy: big", "12: hierarchy: must be a list of four levels (got big)"),
        ("hierarchy: {PE: {entries: 1}}", "12: hierarchy: must be a list of four levels (got a mapping)"),
        ("hierarchy: [5]", "13: hierarchy[0]: must be a mapping of fields (got 5)"),
        ("hierarchy: [{name: a}]", "13: hierarchy[0].entries: is missing"),
        (
            "hierarchy: [{name: a, entries: 1}]",
            "12: hierarchy: must have 4 levels (PE, global buffer, row buffer, DRAM) (got a)",
        ),
        (
            "hierarchy: [{name: a, entries: 3 B, word_bytes: 2}]",
            "32: hierarchy[0].entries: must be a positive integer (got 3 B = 1.5 element)",
        ),
        (
            "hierarchy: [{name: a, entries: {I: 1, O: 2}}]",
            "32: hierarchy[0].entries.W: is missing",
        ),
        (
            "hierarchy: [{name: a, entries: {I: 1, W: 3 B, O: 2}, word_bytes: 2}]",
            "42: hierarchy[0].entries.W: must be an integer of at least 0 (got 3 B = 1.5 element)",
        ),
        (
            f"hierarchy: [{THREE_LEVELS}, {{name: e, entries: {{I: 1, W: 1, O: 1}}}}]",
            "101: hierarchy[3].entries: must be one number, all tensors share the DRAM",
        ),
        (
            f"hierarchy: [{THREE_LEVELS}, {{name: e, entries: 1, latncy: 2}}]",
            "104: hierarchy[3].latncy: unknown key; did you mean 'latency'?",
        ),
        (
            f"hierarchy: [{THREE_LEVELS}, {{name: e, entries: 1, stores: [true, true, false]}}]",
            "112: hierarchy[3].stores: the DRAM stores all tensors (got [True, True, False])",
        ),
        ("x: [", "5: is not YAML: expected the node content, but found '<stream end>'"),
    ],
)
def test_mistake_in_a_field_names_its_place_and_path(write, text, message):
    """`<file>:<line>:<column>: <path.to.field>: ...`, the value as it stands in the file."""
    place = f"mine.yaml:2:{message}" if not message.startswith("-1") else f"mine.yaml:1:1{message[2:]}"
    assert complaint(write(f"version: 1\n{text}")) == place


def test_all_mistakes_of_a_file_are_told_at_once(write):
    """Four lines in the order of the file, whatever is wrong there."""
    lines = ["version: 2", "clok: 1 GHz", "vault_count: 0", "pe_array: {array_shape: {h: 1}}"]
    with pytest.raises(ValueError, match=r".") as caught:
        read_arch(write("\n".join(lines)))
    assert str(caught.value).splitlines() == [
        "mine.yaml:1:10: version: must be 1 (got 2)",
        "mine.yaml:2:1: clok: unknown key; did you mean 'clock'?",
        "mine.yaml:3:14: vault_count: must be a positive integer (got 0)",
        "mine.yaml:4:25: pe_array.array_shape.w: is missing",
    ]


def test_a_misspelt_clock_is_one_mistake(write):
    """Not one more for each time in ns, which needs a clock."""
    text = "version: 1\nclok: 1 GHz\ndram_timings: {tRP: 14 ns, tRAS: 33 ns}\n"
    assert complaint(write(text)) == "mine.yaml:2:1: clok: unknown key; did you mean 'clock'?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " is empty"),
        ("- 1", "1:1: must be a mapping of fields (got [1])"),
        ("5", "1:1: must be a mapping of fields (got 5)"),
        ("name: a", "1:1: version: is missing"),
        ("version: 2", "1:10: version: must be 1 (got 2)"),
        ("version: true", "1:10: version: must be 1 (got true)"),
        (b"\xff\xfe\x00\x01", " is not a YAML text file"),
        (b"\x00\x01\x02", " is not a YAML text file"),
    ],
)
def test_file_of_another_kind_is_one_line(write, text, message):
    """Whatever the file contains, the message names the file and the mistake."""
    assert complaint(write(text)) == f"mine.yaml:{message}"


# --- Units -----------------------------------------------------------------------------------------------------------


def test_amounts_are_read_in_the_units_of_the_classes(write):
    """Bytes become elements of the level's own width, nanoseconds cycles of the clock, rounded up."""
    text = """
version: 1
clock: 400 MHz
activation_energy: 828 pJ
dram_timings: {tRP: 14 ns, tRAS: 35 ns, co_w: 32 B}
pe_array: {array_shape: {h: 1, w: 1}, interconnect_bandwidth: 1.6 GB/s}
hierarchy:
- {name: a, entries: 512 B, word_bytes: 16 bit, access_cost: 0.5 pJ/bit, latency: 5 ns}
- {name: b, entries: 64 KiB, access_cost: 804 pJ / 64 B}
- {name: c, entries: 1 KiB, row_buffer_size: 1 KiB, read_bandwidth_limit: 32 B/cycle}
- {name: d, entries: 1 GiB, access_cost: 1.2 pJ, write_cost: 3 nJ/element}
"""
    arch = read_arch(write(text))
    assert (arch.clock, arch.activation_energy) == (400_000_000, 0.828)
    # 14 ns are 5.6 cycles of 2.5 ns, 35 ns are 14.
    assert (arch.dram_timings.tRP, arch.dram_timings.tRAS, arch.dram_timings.co_w) == (6, 14, 256)
    assert arch.pe_array.interconnect_bandwidth == 4  # 1.6e9 / 4e8
    a, b, c, d = arch.hierarchy
    assert (a.entries, a.access_cost, a.latency) == (256, 0.008, 2)  # 16 bit x 0.5 pJ = 8 pJ
    assert (b.entries, b.access_cost) == (65536, 0.0125625)  # 804 / 64 pJ
    assert (c.row_buffer_size, c.read_bandwidth_limit) == (1024, 32)
    assert (d.entries, d.access_cost, d.write_cost) == (2**30, 0.0012, 3)


# --- Extending -------------------------------------------------------------------------------------------------------


def test_file_that_extends_a_preset_changes_what_it_names(write):
    """Nested fields and single levels; the name is the file's own; times follow the new clock."""
    text = """
version: 1
extends: hbm-pim
clock: 500 MHz
dram_timings: {tRP: 16 ns}
node_banks: null
hierarchy:
  DRAM: {num_banks: 2}
"""
    arch, base = read_arch(write(text)), read_arch("hbm-pim")
    # 14 ns at 2 ns are 7 cycles, 33 are 16.5, 16 are 8.
    assert (arch.dram_timings.tRCDRD, arch.dram_timings.tRAS, arch.dram_timings.tRP) == (7, 17, 8)
    assert arch.hierarchy[3] == attrs.evolve(base.hierarchy[3], num_banks=2)
    assert (arch.node_banks, base.node_banks) == (None, 2)
    assert arch.hierarchy[:3] == base.hierarchy[:3]
    assert (arch.name, arch.vault_count, arch.pe_array) == ("mine", base.vault_count, base.pe_array)


def test_file_may_extend_a_file_beside_it_and_that_another(write, tmp_path):
    """Chains are followed relative to each file; lists replace lists."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a.yaml").write_text("version: 1\nname: a\nvault_count: 2\npu_count: 3\n")
    (tmp_path / "far" / "b.yaml").write_text("version: 1\nextends: a.yaml\npu_count: 4\n")
    arch = read_arch(write("version: 1\nextends: far/b.yaml\npage_policy: closed\n"))
    assert arch == PIMArchitecture(name="mine", vault_count=2, pu_count=4, page_policy="closed")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: hbm-pin", "2:10: extends: unknown architecture 'hbm-pin'; did you mean 'hbm-pim'?; "),
        ("extends: hbm-pin\nhierarchy: {PE: {entries: 8}}", "2:10: extends: unknown architecture 'hbm-pin'; did you"),
        ("extends: none.yaml", "2:10: extends: none.yaml: cannot be read: No such file or directory"),
        ("extends: mine.yaml", "2:10: extends: mine.yaml: extends itself: mine.yaml -> mine.yaml"),
        ("extends: 5", "2:10: extends: must be text (got 5)"),
        ("extends: [hbm-pim]", "2:10: extends: must be text (got [hbm-pim])"),
        (
            "extends: hbm-pim\nhierarchy: {PES: {entries: 1}}",
            "3:13: PES: what is extended has no such item; did you mean 'PE'?",
        ),
        (
            "extends: hbm-pim\nhierarchy: {PE: {entries: 0}}",
            "3:27: hierarchy[0].entries: must be a positive integer (got 0)",
        ),
    ],
)
def test_mistake_in_extending_names_its_place(write, text, message):
    """In the file that extends, where it says what."""
    assert complaint(write(f"version: 1\n{text}")).startswith(f"mine.yaml:{message}")


def test_mistake_in_what_is_extended_names_that_file(write, tmp_path):
    """Its own line and column."""
    (tmp_path / "base.yaml").write_text("version: 1\nvault_count: 0\n")
    place = "base.yaml:2:14: vault_count: must be a positive integer (got 0)"
    assert complaint(write("version: 1\nextends: base.yaml\n")) == place


def test_file_that_cannot_be_read_is_one_line(write, tmp_path):
    """A missing file and a directory."""
    write("")
    (tmp_path / "dir.yml").mkdir()
    assert complaint("none.yaml") == "none.yaml: cannot be read: No such file or directory"
    assert complaint(Path("dir.yml")) == "dir.yml: cannot be read: Is a directory"


def test_unknown_name_is_met_with_the_nearest():
    """A slip gets a suggestion, anything else the list."""
    assert "did you mean 'hbm-pim'?" in complaint("hbm-pin")
    assert f"there are default, {', '.join(arch_names()[1:])}" in complaint("xyz")


def test_separate_entries_are_read_merged_changed_and_written(write):
    """In units, key by key over what is extended, at paths, and back from plain data; a number takes their place."""
    text = "version: 1\nextends: stacked-3d\nhierarchy: {GLOBAL_BUFFER: {entries: {I: 16 KiB, W: 8, O: 0}}}"
    arch = read_arch(write(text))
    assert arch.hierarchy[1].entries == SeparateEntries(I=8192, W=8, O=0)  # words of two bytes
    assert [arch.usable_bytes_of(Level.GLOBAL_BUFFER, t) for t in Tensor] == [8192, 8, 0]  # halves
    assert arch.usable_bytes(Level.GLOBAL_BUFFER) == 8200
    assert [arch.storing_choices(Level.GLOBAL_BUFFER, t) for t in Tensor] == [(False, True), (False, True), (False,)]
    assert build_arch("x", arch.to_dict()) == arch
    larger = change_arch(arch, {"hierarchy.GLOBAL_BUFFER.entries.W": "32 B"})
    assert larger.hierarchy[1].entries == SeparateEntries(I=8192, W=16, O=0)
    assert change_arch(arch, {"hierarchy.GLOBAL_BUFFER.entries": 5}).hierarchy[1].entries == 5
    with pytest.raises(ValueError, match=r"hierarchy\[1\].entries.I: is missing"):
        change_arch(read_arch("stacked-3d"), {"hierarchy.GLOBAL_BUFFER.entries.W": 3})


def test_separate_entries_of_listings_name_each_tensor():
    """By name or by `Tensor`; a level that must store a tensor has a buffer for it."""
    named, by_tensor = (dict.fromkeys(keys, 1) for keys in ("IWO", Tensor))
    assert MemoryLevel(name="a", entries=named) == MemoryLevel(name="a", entries=by_tensor)
    for entries, message in (
        ({"I": 1, "W": 1}, "MemoryLevel.entries.O: is missing (0: no buffer for it)"),
        (named | {"X": 1}, "MemoryLevel.entries.X: no such tensor, there are I, W, O"),
        (
            named | {"W": 0},
            "MemoryLevel.entries.W: the level must store W (`bypass_defined`), but has no buffer for it",
        ),
    ):
        with pytest.raises(ValueError, match=r".") as caught:
            MemoryLevel(name="a", entries=entries, bypass_defined=True)
        assert str(caught.value) == message


def test_mistakes_between_fields_are_told_beside_others(write):
    """A row that is no multiple of a column, and both rules of the timings, though other fields cannot be read."""
    path = write(
        "version: 1\nextends: default\nclok: 1\ndram_timings: {co_w: 264, tCCD_L: 99, tRAS: -1}\n"
        "hierarchy: {ROW_BUFFER: {row_buffer_size: 1000}, PE: {latency: x}}\n"
    )
    with pytest.raises(ValueError, match=r".") as caught:
        read_arch(path)
    text = str(caught.value)
    assert "clok: unknown key" in text
    assert "hierarchy[0].latency: must be" in text
    assert "dram_timings.tRAS: must be" in text
    assert "dram_timings.tCCD_L: must be at most tRCDRD + tRTP + tRP" in text
    path = write("version: 1\nextends: default\nclok: 1\nhierarchy: {ROW_BUFFER: {row_buffer_size: 1000}}\n")
    with pytest.raises(ValueError, match=r"row_buffer_size: must be a multiple of the column width 32 B \(got 1000\)"):
        read_arch(path)


def test_clock_that_cannot_be_read_is_told_once(write):
    """Times in seconds need it, but are no mistakes of their own."""
    path = write("version: 1\nextends: hbm-pim\nclock: fast\ndram_timings: {RL: 20 ns, WL: 3 parsecs}\n")
    with pytest.raises(ValueError, match=r".") as caught:
        read_arch(path)
    clock, latency = str(caught.value).splitlines()
    assert "clock: must be" in clock
    assert "dram_timings.WL: has the unknown unit 'parsecs'" in latency


def test_missing_levels_are_told_beside_others(write):
    """Rules between levels need all four."""
    level = "{name: a, entries: 8, word_bytes: 3}"
    path = write(f"version: 1\nclok: 1\ndram_timings: {{tRC: 1}}\nhierarchy: [{level}, {level}]\n")
    with pytest.raises(ValueError, match=r".") as caught:
        read_arch(path)
    text = str(caught.value)
    assert "clok: unknown key" in text
    assert "hierarchy: must have 4 levels (PE, global buffer, row buffer, DRAM) (got a, a)" in text
