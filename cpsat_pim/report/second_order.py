"""The table of second-order figures: DRAM times with refresh, turnaround and overlapping activations."""

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from cpsat_pim.evaluate.second_order import Refresh, SecondOrder, Turnaround
from cpsat_pim.report.text import print_fitted

#: A figure's name, its cycles (None if there are none), and what it is.
_Row = tuple[str, int | None, str]


def print_second_order(console: Console, effects: SecondOrder) -> None:
    """Print each figure beside the exact DRAM time, and whether it is exact, an estimate or a bound."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("DRAM time", "cycles", "", "what it is"):
        table.add_column(heading, justify="right" if heading in ("cycles", "") else "left")
    for name, cycles, says in _rows(effects):
        ratio = f"{cycles / effects.dram_cycles - 1:+.2%}" if cycles is not None and effects.dram_cycles else ""
        table.add_row(name, "-" if cycles is None else f"{cycles:,}", ratio, says)
    print_fitted(console, table)


def _rows(effects: SecondOrder) -> Iterator[_Row]:
    """Yield the rows of the table."""
    yield "dram_cycles", effects.dram_cycles, "exact, without these effects"
    yield from _refresh_rows(effects.refresh)
    yield "with turnaround", effects.turnaround.cycles, _turnaround_says(effects.turnaround)
    yield "with overlapping activations at least", effects.overlapping_cycles, "a lower bound, without refresh"


def _refresh_rows(refresh: Refresh) -> Iterator[_Row]:
    if not refresh.is_timed:
        yield "with refresh", refresh.estimated_cycles, "the machine has no tRFC, tREFI"
        return
    yield "with refresh", refresh.estimated_cycles, "an estimate"
    if refresh.upper_cycles is None:
        yield "with refresh at most", None, "no bound: refreshes and reopened rows may fill tREFI"
    else:
        rows = f"an upper bound: {refresh.refreshes:,} refreshes, {refresh.more_activations:,} more activations"
        yield "with refresh at most", refresh.upper_cycles, rows


def _turnaround_says(turnaround: Turnaround) -> str:
    """Return what the figure with turnaround is."""
    if turnaround.cycles is None:
        return "not counted: pages are closed"
    if not turnaround.is_timed:
        return "the machine has no tWR, tWTR, tRTW"
    kind = "exact for service in order" if turnaround.is_exact else "an estimate: banks one after the other"
    return f"{kind}; {turnaround.to_writes:,} switches to writes, {turnaround.to_reads:,} to reads"
