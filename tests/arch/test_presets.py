"""The presets: every figure has its source, and agrees with it."""

import re
from pathlib import Path

import attrs
import pytest

import cpsat_pim.arch
from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import arch_names, read_arch
from cpsat_pim.base.dims import Level

PRESETS = Path(cpsat_pim.arch.__file__).parent / "presets"
FILES = (
    "attacc",
    "ddr4-near-bank",
    "gddr6-aim",
    "hbm-pim",
    "prover-comparison",
    "stacked-3d",
    "stacked-3d-16x16",
    "stacked-3d-4x4",
    "stacked-3d-4x8",
    "upmem",
)


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
        # attacc_simulator HBM3-PIM.cpp, HBM3_5.2Gbps_NPC; a MAC each 4 tCK
        ("attacc", 4, 1, {"RL": 19, "tRCDRD": 19, "tRP": 19, "tRAS": 45, "tRC": 63, "tRTP": 8, "tCCD_L": 4}),
        # uPIMulator's defaults, in ns of 1 / 2400 MHz
        ("upmem", 1000 / 350, 1 / 2.4, {"RL": 32, "tRCDRD": 32, "tRP": 32, "tRAS": 78, "tRC": 110}),
        # DRAMsim3 DDR4_8Gb_x8_2400.ini
        ("ddr4-near-bank", 5, 0.833, {"RL": 16, "tRCDRD": 16, "tRP": 16, "tRAS": 39, "tRC": 55, "tCCD_L": 6}),
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
        ("attacc", 5 * 16 * 2 * 32, 5 * 16 * 2**30, 1024),  # 5 stacks of 16 GiB
        ("upmem", 2560, 2560 * 64 * 2**20, 1024),  # 20 channels, 2 ranks, 64 DPUs
        ("ddr4-near-bank", 16, 8 * 2**30, 8192),  # a rank of eight 8 Gbit chips
        ("stacked-3d", 32, 256 * 8 * 2**20, 8 * 2048),  # 256 banks of 8 MiB, 8 of them with bound rows of 2 KiB
    ],
)
def test_nodes_and_bytes_add_up_to_the_device(name, nodes, total_bytes, row_bytes):
    """Nodes times the bytes of one are the device's bytes."""
    arch = read_arch(name)
    assert arch.vault_count * arch.pu_count == nodes
    assert nodes * arch.hierarchy[Level.DRAM].capacity_bytes == total_bytes
    assert arch.row_bytes == row_bytes


@pytest.mark.parametrize(
    ("name", "banks", "acting_as_one"),
    [
        ("hbm-pim", 64 * 16, 1),  # 64 pseudo-channels of 4 groups of 4 banks
        ("gddr6-aim", 32 * 16, 1),  # 32 channels of 4 groups of 4 banks
        ("attacc", 5 * 16 * 2 * 2 * 4 * 4, 1),  # stacks, channels, pseudo-channels, ranks, groups, banks
        ("upmem", 2560, 1),  # each DPU has its own MRAM
        ("ddr4-near-bank", 4 * 4, 1),  # a rank of 4 groups of 4 banks
        # NicePIM: the bound banks of a node work as one with a wider port.
        ("stacked-3d", 256, 8),
        ("stacked-3d-4x4", 256, 16),
        ("stacked-3d-4x8", 256, 8),
        ("stacked-3d-16x16", 256, 1),
    ],
)
def test_nodes_have_the_banks_of_the_device(name: str, banks: int, acting_as_one: int) -> None:
    """All nodes' banks are the device's, those that act as one counted once; tensors have to share them."""
    arch = read_arch(name)
    assert arch.node_banks == banks // acting_as_one // arch.nodes
    assert arch.bank_bytes == arch.hierarchy[Level.DRAM].capacity_bytes // arch.node_banks


@pytest.mark.parametrize(
    ("name", "level", "read_pj", "write_pj"),
    [
        ("hbm-pim", Level.DRAM, 804 / 32, 1068 / 32),  # 64 B are 32 elements of 2 B
        ("gddr6-aim", Level.DRAM, 1310 / 256, 691 / 16),  # 512 B are 256 elements, 32 B are 16
        ("stacked-3d", Level.DRAM, 0.88 * 16, None),
        ("attacc", Level.DRAM, 0.44 * 16, None),
        ("attacc", Level.GLOBAL_BUFFER, 0.0034 * 2, None),
        # Eight chips: 1.2 V, 4 tCK of 0.833 ns, currents above IDD3N = 43 mA; 32 elements.
        ("ddr4-near-bank", Level.DRAM, 2943 / 32, 2559 / 32),
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


def test_ddr4_energies_are_those_of_the_currents():
    """Micron's currents by DRAMsim3's formulas, to the last digit that the preset gives."""
    volts, chips, tck_ns = 1.2, 8, 0.833
    idd0, idd2n, idd3n, idd4w, idd4r = 48, 34, 43, 123, 135
    arch = read_arch("ddr4-near-bank")
    act_pj = volts * chips * tck_ns * (idd0 * 55 - idd3n * 39 - idd2n * 16)
    assert arch.activation_energy * 1000 == pytest.approx(act_pj, abs=5)
    bank = arch.hierarchy[Level.DRAM]
    for cost, current in ((bank.access_cost, idd4r), (bank.write_cost, idd4w)):
        assert cost * 32 * 1000 == pytest.approx(volts * chips * tck_ns * 4 * (current - idd3n), abs=1)


def test_prover_comparison_is_the_machine_of_the_comparison():
    """200, 6, 1 and 1 pJ a word, 128 KiB and 512 B, all of it usable; a DRAM without rows or columns."""
    arch = read_arch("prover-comparison")
    assert [level.access_cost * 1000 for level in arch.hierarchy] == [1, 6, 0, 200]
    assert arch.pe_array.compute_unit.mac_energy * 1000 == 1
    assert (arch.usable_bytes(Level.PE), arch.usable_bytes(Level.GLOBAL_BUFFER)) == (512, 128 * 1024)
    assert (arch.activation_energy, arch.column_bytes, arch.pe_array.macs_per_cycle) == (0, 1, 256)
    assert (arch.multicast, arch.spatial_reduction) == (True, True)
