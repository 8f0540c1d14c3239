"""Warnings about doubtful figures of machine files."""

from collections.abc import Callable

import pytest

from cpsat_pim.arch.plausibility import arch_warnings
from cpsat_pim.arch.reading import arch_names, read_arch
from tests.conftest import FileWriter


@pytest.fixture
def write(file_writer: FileWriter) -> Callable[[str | bytes], str]:
    """Write `mine.yaml` in a directory of its own and return its name."""
    return file_writer("mine.yaml")


@pytest.mark.parametrize("name", arch_names())
def test_presets_are_plausible(name: str) -> None:
    """No preset is warned of."""
    assert arch_warnings(read_arch(name)) == []


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ("clock: 500", "clock: 500 Hz is outside"),  # meant: 500 MHz
        ("dram_timings: {tRC: 40}", "dram_timings.tRC: 40 cycles are less than tRAS + tRP = 47"),
        (
            "hierarchy: {DRAM: {access_cost: 0.44 nJ/bit}}",
            "hierarchy[3].access_cost: 3.52 nJ an element of 1 B are 440",
        ),
        ("hierarchy: {PE: {write_cost: 1 uJ}}", "hierarchy[0].write_cost: "),
        ("pe_array: {compute_unit: {mac_energy: 560 nJ}}", "pe_array.compute_unit.mac_energy: 560 nJ are more than 1"),
        ("activation_energy: 1 mJ", "activation_energy: "),
    ],
)
def test_wrong_unit_is_warned_of(write: Callable[[str], str], change: str, start: str) -> None:
    """One line each, with the field and what it comes to."""
    path = write(f"version: 1\nextends: default\n{change}\n")
    (line,) = arch_warnings(read_arch(path), path)
    assert line.startswith(start)


def test_levels_without_the_width_of_words_are_warned_of(write: Callable[[str], str]) -> None:
    """Those that the file lists without it; levels of a machine that is extended have theirs."""
    levels = [f"- {{name: {name}, entries: 4096, double_buffered: false}}" for name in "abc"]
    levels.append("- {name: d, entries: 4096, word_bytes: 2, double_buffered: false}")
    path = write("\n".join(["version: 1", "hierarchy:", *levels]))
    line, *_ = arch_warnings(read_arch(path), path)
    assert line.startswith("hierarchy[0], hierarchy[1], hierarchy[2].word_bytes: is missing")
    path = write("version: 1\nextends: hbm-pim\nclock: 300 MHz\n")
    assert arch_warnings(read_arch(path), path) == []


WHOLE = """
version: 1
activation_energy: 1.2 nJ
dram_timings: {RL: 20, WL: 8, tRCDRD: 14, tRP: 14, tRAS: 33, tRC: 47, tRTP: 5, tCCD_L: 4, BL: 2, co_w: 32 B}
pe_array: {array_shape: {h: 4, w: 4}, compute_unit: {unit_type: simd, num_macs: 8, mac_energy: 0.5 pJ}}
hierarchy:
- {name: a, entries: 64, word_bytes: 1, access_cost: 0.05 pJ}
- {name: b, entries: 1, word_bytes: 1, stores: [false, false, false], bypass_defined: true}
- {name: c, entries: 2048, word_bytes: 1, access_cost: 3 pJ, row_buffer_size: 2 KiB}
- {name: d, entries: 1 MiB, word_bytes: 1, access_cost: 7 pJ}
"""


@pytest.mark.parametrize(
    ("left_out", "told"),
    [
        (", row_buffer_size: 2 KiB", "hierarchy[2].row_buffer_size = 1024 B"),
        ("activation_energy: 1.2 nJ\n", "activation_energy = 0.828 nJ"),
        (", co_w: 32 B", "dram_timings.co_w = 256 bit"),
        (", tRC: 47", "dram_timings.tRC = 47 cycles"),
        (", access_cost: 7 pJ", "hierarchy[3].access_cost = 0 nJ/element"),
        (", mac_energy: 0.5 pJ", "pe_array.compute_unit.mac_energy = 0.00056 nJ"),
        (", num_macs: 8", "pe_array.compute_unit.num_macs = 1"),
    ],
)
def test_a_figure_that_a_whole_machine_lacks_is_told_with_what_is_taken(
    write: Callable[[str], str], left_out: str, told: str
) -> None:
    """The optimum of a chip with another row size is proven as easily. A level that stores nothing needs no energy."""
    path = write(WHOLE)
    assert arch_warnings(read_arch(path), path) == []
    assert left_out in WHOLE
    path = write(WHOLE.replace(left_out, "").replace("64,", "64, double_buffered: false,"))
    (line,) = arch_warnings(read_arch(path), path)
    assert line == f"figures are missing, so defaults are taken: {told}"


def test_whole_records_that_are_missing_are_told_figure_by_figure(write: Callable[[str], str]) -> None:
    """Neither timings nor array: a line with the figures of each, none of the optional timings."""
    lines = [line for line in WHOLE.splitlines() if not line.startswith(("dram_timings", "pe_array"))]
    path = write("\n".join(lines))
    (line,) = arch_warnings(read_arch(path), path)
    for told in ("dram_timings.RL = 25 cycles", "dram_timings.BL = 8", "pe_array.array_shape.h = 16"):
        assert told in line
    assert "tRFC" not in line
    assert "activation_energy" not in line
