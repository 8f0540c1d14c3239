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
    (line,) = arch_warnings(read_arch(path), path)
    assert line.startswith("hierarchy[0], hierarchy[1], hierarchy[2].word_bytes: is missing")
    path = write("version: 1\nextends: hbm-pim\nclock: 300 MHz\n")
    assert arch_warnings(read_arch(path), path) == []
