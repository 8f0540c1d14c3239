"""Presets and architecture files: what is read, and the one line that a mistake gets."""

import re
from pathlib import Path

import attrs
import pytest
import yaml

import cpsat_pim.arch
from cpsat_pim.arch import MemoryLevel, PEArray, PhyDim2, PIMArchitecture
from cpsat_pim.arch.reading import arch_names, read_arch
from cpsat_pim.dims import Level

PRESETS = Path(cpsat_pim.arch.__file__).parent / "presets"
FILES = ("gddr6-aim", "hbm-pim", "stacked-3d")
FOUR_LEVELS = "\n".join(f"- {{name: {name}, entries: 8}}" for name in "bcd")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write `mine.yaml` in a directory of its own and return its name."""
    monkeypatch.chdir(tmp_path)

    def write_file(text):
        Path("mine.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return "mine.yaml"

    return write_file


def complaint(name):
    """The message of the ValueError that reading raises; it is one line."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_arch(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- Presets ---------------------------------------------------------------------------------------------------------


def test_names_are_the_default_and_the_files():
    """Every preset can be read by its name and bears it."""
    assert arch_names() == ("default", *FILES)
    assert [read_arch(name).name for name in arch_names()] == list(arch_names())
    assert read_arch("default") == PIMArchitecture()


@pytest.mark.parametrize("name", FILES)
def test_every_figure_of_a_preset_has_its_source(name):
    """A line with a figure or a choice ends in a comment that cites a source or says that it is an assumption."""
    head, _, body = (PRESETS / f"{name}.yaml").read_text().partition(f"version: 1\nname: {name}\n")
    sources = set(re.findall(r"\[([A-Z])\]", head))
    for line in body.splitlines():
        if line.endswith(":") or line.startswith("- name: "):
            continue
        _, _, comment = line.partition("  # ")
        cited = set(re.findall(r"\[([A-Z])\]", comment))
        assert cited <= sources, line
        assert cited or re.search(r"assumption: |see \w+", comment), line


@pytest.mark.parametrize(
    ("name", "clock_ns", "tck_ns", "source"),
    [
        # PIMSimulator HBM2_samsung_2M_16B_x64.ini
        ("hbm-pim", 4, 1, {"RL": 20, "WL": 8, "tRCDRD": 14, "tRP": 14, "tRAS": 33, "tRC": 47, "tRTP": 5, "tCCD_L": 4}),
        # aim_simulator GDDR6.cpp
        ("gddr6-aim", 1, 0.5, {"RL": 50, "tRCDRD": 56, "tRP": 32, "tRAS": 54, "tRC": 89, "tRTP": 12, "tCCD_L": 2}),
        # HBM2 in ns, at NicePIM's 400 MHz
        ("stacked-3d", 2.5, 1, {"RL": 20, "tRCDRD": 14, "tRP": 14, "tRAS": 34, "tRC": 48, "tRTP": 5, "tCCD_L": 4}),
    ],
)
def test_timings_last_at_least_as_long_as_their_source_and_less_than_a_cycle_more(name, clock_ns, tck_ns, source):
    """Converted to the machine's clock and rounded up."""
    timings = attrs.asdict(read_arch(name).dram_timings)
    for key, tcks in source.items():
        assert 0 <= timings[key] * clock_ns - tcks * tck_ns < clock_ns, key


@pytest.mark.parametrize(
    ("name", "nodes", "total_bytes", "row_bytes"),
    [
        ("hbm-pim", 64 * 8, 64 * 16 * 16 * 2**20, 1024),  # 64 pseudo-channels of 16 banks of 16 MiB
        ("gddr6-aim", 32 * 16, 32 * 16 * 32 * 2**20, 2048),  # 32 channels of 16 banks of 32 MiB
        ("stacked-3d", 32, 256 * 8 * 2**20, 8 * 2048),  # 256 banks of 8 MiB, 8 of them with bound rows of 2 KiB
    ],
)
def test_nodes_and_banks_add_up_to_the_device(name, nodes, total_bytes, row_bytes):
    """Nodes times the bytes of one are the device's bytes."""
    arch = read_arch(name)
    assert arch.vault_count * arch.pu_count == nodes
    assert nodes * arch.hierarchy[Level.DRAM].capacity_bytes == total_bytes
    assert arch.row_bytes == row_bytes


@pytest.mark.parametrize(
    ("name", "level", "read_pj", "write_pj"),
    [
        ("hbm-pim", Level.DRAM, 804 / 32, 1068 / 32),  # 64 B are 32 elements of 2 B
        ("gddr6-aim", Level.DRAM, 1310 / 256, 691 / 16),  # 512 B are 256 elements, 32 B are 16
        ("stacked-3d", Level.DRAM, 0.88 * 16, None),
        ("hbm-pim", Level.ROW_BUFFER, 0.44 * 16, None),
        ("stacked-3d", Level.ROW_BUFFER, 0.44 * 16, None),
    ],
)
def test_energies_are_per_element_of_two_bytes(name, level, read_pj, write_pj):
    """The published figures per burst, divided by its elements, in nJ."""
    memory = read_arch(name).hierarchy[level]
    assert memory.word_bytes == 2
    assert memory.access_cost == pytest.approx(read_pj / 1000)
    assert memory.write_cost == (None if write_pj is None else pytest.approx(write_pj / 1000))


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
    first = "- {name: a, entries: 4, access_cost: 1e-3, write_cost: null, stores: [true, false, true], ports: 1}"
    arch = read_arch(write(f"version: 1\nhierarchy:\n{first}\n{FOUR_LEVELS}\n"))
    assert arch.hierarchy[0] == MemoryLevel(name="a", entries=4, access_cost=0.001, stores=(True, False, True), ports=1)
    assert [level.name for level in arch.hierarchy] == list("abcd")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vault_count: 0", "vault_count: must be a positive integer (got 0)"),
        ("vault_count: 1.5", "vault_count: must be a positive integer (got 1.5)"),
        ("vault_count: '2'", "vault_count: must be a positive integer (got '2')"),
        ("vault_count: true", "vault_count: must be a positive integer (got True)"),
        ("name: 5", "name: must be text (got 5)"),
        ("name: ", "name: must be text (got None)"),
        ("page_policy: shut", "page_policy: must be one of open, closed (got 'shut')"),
        ("multicast: 1", "multicast: must be true or false (got 1)"),
        ("activation_energy: '1e-3'", "activation_energy: must be a finite number of at least 0 (got '1e-3')"),
        ("activation_energy: .nan", "activation_energy: must be a finite number of at least 0 (got nan)"),
        ("page_polcy: open", "page_polcy: unknown key, did you mean 'page_policy'?"),
        ("dram_timings: {tRP: -1}", "dram_timings.tRP: must be an integer of at least 0 (got -1)"),
        ("dram_timings: {tRCDR: 1}", "dram_timings.tRCDR: unknown key, did you mean 'tRCDRD'?"),
        ("dram_timings: {co_w: 12}", "dram_timings.co_w: must be a multiple of 8 bits (got 12)"),
        ("dram_timings: HBM2", "dram_timings: must be a mapping of fields (got 'HBM2')"),
        (
            "dram_timings: {co_w: 24}",
            "hierarchy[2].row_buffer_size: must be a multiple of the column width 3 B (got 1024)",
        ),
        ("pe_array: {}", "pe_array.array_shape: is missing"),
        ("pe_array: {array_shape: {h: 0, w: 1}}", "pe_array.array_shape.h: must be a positive integer (got 0)"),
        ("pe_array: {array_shape: [1, 1]}", "pe_array.array_shape: must be a mapping of fields (got a list)"),
        (
            "pe_array: {array_shape: {h: 1, w: 1}, compute_unit: {num_macs: 2}}",
            "pe_array.compute_unit.num_macs: a scalar unit has 1 (got 2)",
        ),
        ("hierarchy: big", "hierarchy: must be a list of four levels (got 'big')"),
        ("hierarchy: {a: 1}", "hierarchy: must be a list of four levels (got a mapping)"),
        ("hierarchy: [5]", "hierarchy[0]: must be a mapping of fields (got 5)"),
        ("hierarchy: [{name: a}]", "hierarchy[0].entries: is missing"),
        (
            "hierarchy: [{name: a, entries: 1}]",
            "hierarchy: must have 4 levels (PE, global buffer, row buffer, DRAM) (got a)",
        ),
        (
            f"hierarchy:\n{FOUR_LEVELS}\n- {{name: e, entries: 1, latncy: 2}}",
            "hierarchy[3].latncy: unknown key, did you mean 'latency'?",
        ),
        (
            f"hierarchy:\n{FOUR_LEVELS}\n- {{name: e, entries: 1, stores: [true, true, false]}}",
            "hierarchy[3].stores: the DRAM stores all tensors (got [True, True, False])",
        ),
        ("pu_count: 1\npu_count: 2", "pu_count is given twice"),
        ("x: [", "line 2: is not YAML: expected the node content, but found '<stream end>'"),
        ("x: &a [*a]", "is nested too deeply"),
    ],
)
def test_mistake_in_a_field_names_its_path(write, text, message):
    """`<file>: <path.to.field>: ...`, the value shown."""
    assert complaint(write(f"version: 1\n{text}")) == f"mine.yaml: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a mapping of fields (got nothing)"),
        ("- 1", "must be a mapping of fields (got a list)"),
        ("5", "must be a mapping of fields (got 5)"),
        ("name: a", "version: is missing (this program reads 1)"),
        ("version: 2", "version: must be 1 (got 2)"),
        ("version: true", "version: must be 1 (got True)"),
        (b"\xff\xfe\x00\x01", "is not a YAML text file"),
        (b"\x00\x01\x02", "is not a YAML text file"),
    ],
)
def test_file_of_another_kind_is_one_line(write, text, message):
    """Whatever is in the file, the answer names it and what is wrong."""
    assert complaint(write(text)) == f"mine.yaml: {message}"


def test_file_that_cannot_be_read_is_one_line(write, tmp_path):
    """A missing file and a directory."""
    write("")
    (tmp_path / "dir.yml").mkdir()
    assert complaint("none.yaml") == "none.yaml: cannot be read: No such file or directory"
    assert complaint(Path("dir.yml")) == "dir.yml: cannot be read: Is a directory"


def test_unknown_name_is_met_with_the_nearest():
    """A slip gets a suggestion, anything else the list."""
    assert "did you mean 'hbm-pim'?" in complaint("hbm-pin")
    assert "there are default, gddr6-aim, hbm-pim, stacked-3d" in complaint("xyz")
