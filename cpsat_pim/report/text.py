"""Output on the terminal: consoles, lines, and simulated beside predicted figures."""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpsat_pim.evaluate.cost import Figures
from cpsat_pim.report.format import visible

#: Width for output that is not a terminal: enough for every table.
PIPE_WIDTH = 1000


class _Console(Console):
    """A console that raises `BrokenPipeError` when its stream is closed."""

    def on_broken_pipe(self) -> None:
        """Raise the error; the base class would end the program."""
        raise BrokenPipeError


def open_console(stream: TextIO) -> Console:
    """Open a console for a stream: plain and wide if the stream is not a terminal."""
    if stream.isatty():
        return _Console(file=stream, highlight=False)
    return _Console(file=stream, width=PIPE_WIDTH, color_system=None, force_terminal=False, highlight=False)


def print_plain(console: Console, text: str) -> None:
    """Print a text without markup (see `visible`); on a terminal, lines are broken between words."""
    console.print(Text("\n".join(map(visible, text.split("\n")))), soft_wrap=not console.is_terminal)


def print_fitted(console: Console, table: Table) -> None:
    """Print a table; on a terminal that is too narrow, as several tables of its columns, each behind the first one."""
    if not console.is_terminal or _natural_width(table) <= console.width:
        console.print(table)
        return
    part = [0]
    for index in range(1, len(table.columns)):
        if len(part) > 1 and _natural_width(_part_of(table, [*part, index])) > console.width:
            console.print(_part_of(table, part))
            part = [0]
        part.append(index)
    console.print(_part_of(table, part))


def _natural_width(table: Table) -> int:
    """Return the width at which no cell wraps."""
    return Console(width=10_000).measure(table).maximum


def _part_of(table: Table, indices: Sequence[int]) -> Table:
    """Return a table of some columns of another one, with its rows."""
    columns = [copy(table.columns[index]) for index in indices]
    part = Table(*columns, box=table.box, title=table.title, title_justify=table.title_justify, pad_edge=False)
    part.show_footer, part.rows = table.show_footer, table.rows
    return part


def print_comparison(console: Console, name: str, predicted: Figures, simulated: Figures) -> None:
    """Print every figure as predicted and as simulated, and whether the two are equal."""
    table = Table(box=box.SIMPLE_HEAD, title=Text(visible(name)), title_justify="left", pad_edge=False)
    for heading in ("figure", "simulated", "predicted", ""):
        table.add_column(heading, justify="left" if heading in ("figure", "") else "right", no_wrap=True)
    ours, theirs = dict(_flat(predicted.to_dict())), dict(_flat(simulated.to_dict()))
    for key, value in theirs.items():
        if value or ours[key]:
            table.add_row(key, f"{value:,}", f"{ours[key]:,}", _verdict(key, ours[key], value))
    print_fitted(console, table)


def _verdict(key: str, predicted: int, simulated: int) -> str:
    """Compare a figure. The predicted latency is an estimate and may deviate."""
    if predicted == simulated:
        return "equal"
    if key == "latency_cycles":
        return f"{(simulated - predicted) / max(predicted, 1):+.2%} (an estimate)"
    return "DIFFERENT"


def _flat(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Flatten nested dicts: `{"accesses": {"PE": {"I": {"read": 3}}}}` yields `accesses.PE.I.read`, 3."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
