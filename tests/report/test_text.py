"""Display units, gaps and lines."""

import io

import pytest
from rich.console import Console

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.report.format import format_bytes, format_energy, format_gap, format_machine
from cpsat_pim.report.text import open_console, print_plain


@pytest.mark.parametrize(
    ("energy_fj", "text"),
    [
        (0, "0.000 nJ"),
        (5_791_040, "5.791 nJ"),
        (999_400_000, "999.4 nJ"),
        (1_000_000_000, "1.000 uJ"),
        (23_120_000_000, "23.12 uJ"),
        (4_000_000_000_000, "4.000 mJ"),
        (1_234_567_000_000_000, "1235 mJ"),
    ],
)
def test_energy_has_four_digits_and_a_prefix(energy_fj: int, text: str) -> None:
    """1 nJ is 10^6 fJ."""
    assert format_energy(energy_fj) == text


@pytest.mark.parametrize(
    ("gap", "text"), [(None, "-"), (0.0, "0"), (1e-9, "<0.001%"), (0.00051, "0.051%"), (0.5, "50.000%")]
)
def test_gap_is_plain_zero_only_for_a_proof(gap: float | None, text: str) -> None:
    """A gap that would round to 0 % does not look like a proof."""
    assert format_gap(gap) == text


@pytest.mark.parametrize(("size", "text"), [(4, "4 B"), (1536, "1.5 KiB"), (3072, "3 KiB"), (2**28, "256 MiB")])
def test_bytes_are_in_binary_prefixes(size: int, text: str) -> None:
    """1 KiB is 1024 B."""
    assert format_bytes(size) == text


def test_machine_of_many_nodes_says_that_one_is_used() -> None:
    """64 x 80 nodes are 5,120; a machine of one node has its name alone."""
    assert format_machine(PIMArchitecture(name="m")) == "m"
    assert format_machine(PIMArchitecture(name="m", vault_count=64, pu_count=80)) == "one of 5,120 nodes of m"


_PROSE = "resnet50 on one of 512 nodes of hbm-pim, objective energy.\n|    for C in [0:64)"


def test_lines_on_a_narrow_terminal_end_between_words() -> None:
    """The words of each line stay whole and in order, and its indentation stays."""
    stream = io.StringIO()
    print_plain(Console(file=stream, force_terminal=True, width=24, color_system=None), _PROSE)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 24
    assert " ".join(lines).split() == _PROSE.split()
    assert lines[-1] == "|    for C in [0:64)"


def test_lines_in_a_file_are_not_broken() -> None:
    """They are read by programs."""
    stream = io.StringIO()
    print_plain(open_console(stream), "word " * 400)
    assert stream.getvalue().count("\n") == 1
