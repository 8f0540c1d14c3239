"""Holds a trace against the rules of the device, by looking at all pairs of commands; knows no controller."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tracesim.commands.records import Needs, Reach, Rules, Slot, Stream, Trace


class Issued(NamedTuple):
    """A command as it was issued."""

    tick: int
    command: int
    coords: tuple[int, ...]
    row: int


def issued_commands(rules: Rules, stream: Stream, trace: Trace) -> list[Issued]:
    """Return all commands in the order of their ticks. Without refresh: its commands have no coordinates."""
    commands = [
        Issued(int(tick), int(stream.kind[i]), _path(stream, i), int(stream.row[i]))
        for i, tick in enumerate(trace.issue)
    ]
    for tick, command, cause in trace.inserted.tolist():
        if cause >= 0:
            commands.append(Issued(tick, command, _path(stream, cause), int(stream.row[cause])))
    return sorted(commands)


def _path(stream: Stream, i: int) -> tuple[int, ...]:
    return tuple(max(int(coordinate), 0) for coordinate in stream.coords[i])


def broken_constraints(rules: Rules, commands: list[Issued]) -> Iterator[str]:
    """Yield every pair of commands that is too close. Windows and siblings are left out."""
    least = {(before, after, level): ticks for before, after, level, ticks, window, side in rules.constraints.tolist()
             if window == 1 and not side}  # fmt: skip
    for j, later in enumerate(commands):
        for earlier in commands[:j]:
            shared = 0
            while shared < len(later.coords) and later.coords[shared] == earlier.coords[shared]:
                shared += 1
            for level in range(min(shared, int(rules.scope[later.command])) + 1):
                ticks = least.get((earlier.command, later.command, level), 0)
                if later.tick - earlier.tick < ticks:
                    yield f"{earlier} and {later}: {ticks} ticks at level {level}"


def broken_rows(rules: Rules, commands: list[Issued]) -> Iterator[str]:
    """Yield every command whose rows are not as it needs them."""
    rows = np.full(rules.axes, -1)
    for issued in commands:
        need = Needs(int(rules.needs[issued.command]))
        if need is Needs.ROW and rows[issued.coords] != issued.row:
            yield f"{issued}: row {rows[issued.coords]} is open"
        if need is Needs.ROWS and (rows != issued.row).any():
            yield f"{issued}: rows {sorted(set(rows.ravel().tolist()))} are open"
        for reach, row in ((rules.opens, issued.row), (rules.closes, -1)):
            if reach[issued.command] == Reach.BANK:
                rows[issued.coords] = row
            elif reach[issued.command] == Reach.GROUP:
                rows[...] = row


def broken_slots(rules: Rules, commands: list[Issued], shared: bool) -> Iterator[str]:
    """Yield every tick with two commands of a slot; with `shared` slots, with two commands."""
    used = [(issued.tick, 0 if shared else int(rules.slot[issued.command])) for issued in commands]
    yield from (f"tick {tick}, {Slot(slot).name}" for tick, slot in set(used) if used.count((tick, slot)) > 1)


def broken_barriers(rules: Rules, stream: Stream, trace: Trace) -> Iterator[str]:
    """Yield every command of the stream that is issued before one of an earlier group."""
    for group in range(1, int(stream.group.max(initial=0)) + 1):
        before, after = trace.issue[stream.group < group], trace.issue[stream.group >= group]
        if before.size and after.size and before.max() > after.min():
            yield f"group {group} begins at {after.min()}, before {before.max()}"
