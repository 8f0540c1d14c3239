"""The time in which banks serve column accesses in order, with writes timed as writes, and bank by bank (section 5:
second-order effects).

`bank` times every access as a read, in runs that are cut before each activation of a part. Here two other rules are
carried out on the accesses of `stream`, with rows that stay open:

- A *merged* run is one of `bank`'s, but a write delays what follows it: a read, a write and the precharge each wait
  for their own time after the last read and after the last write.
- A run *of one bank* holds the accesses to one open row of that bank, whatever other banks do between them.
"""

from typing import NamedTuple

import numpy as np

from tracesim.jit import Record, kernel, record_type
from tracesim.records import Ints
from tracesim.stream import ADDRESS, IS_WRITE, TENSOR, ColumnStream

RUN = record_type(gap=(2, 2), to_precharge=(2,), rows=(4,), columns=(), command=(), ready=(), cut_cycles=())
"""A sequence of runs, of which the last is open.

- `gap` [way][next way]: cycles from a column command to the next. `to_precharge` [way]: from it to a precharge.
- `rows`: tRCD, tRAS, tRP, tRC.
- `columns`: commands of the open run, 0 if there is none. `command`: cycle of its last one, counted from the
  activation. `ready`: the first cycle in which its row may be closed, as far as columns are concerned.
- `cut_cycles`: cycles of all runs before it.
"""


class Rules(NamedTuple):
    """How long commands wait for each other: `gap` int64[2][2], `to_precharge` int64[2] and `rows` int64[4] of RUN."""

    gap: Ints
    to_precharge: Ints
    rows: Ints


class Service(NamedTuple):
    """What the banks have served.

    `merged` RUN[part], `alone` RUN[part][bank]. `switches` int64[2]: accesses of the directions READ and WRITE behind
    one of the other direction on their bus. `columns` int64[part].
    """

    merged: Record
    alone: Record
    switches: Ints
    columns: Ints


class State(NamedTuple):
    """A service, `part`, `banks` of the part and `first_row` int64[tensor], `open_rows` int64[part][bank] (-1 for
    none), and `way` int64[part]: the direction of the last access on the part's bus, -1 before the first.
    """

    service: Service
    part: Ints
    banks: Ints
    first_row: Ints
    open_rows: Ints
    way: Ints
    row_bytes: int
    is_bus_shared: bool


def serve_stream(
    stream: ColumnStream, part: Ints, banks: Ints, row_bytes: int, is_bus_shared: bool, merged: Rules, alone: Rules
) -> Service:
    """Serve all accesses of a stream. `part` int64[3]: the part of each tensor, `banks` int64[3]: how many banks this
    part has for itself. Parts have a bus each, or share one.
    """
    most = int(banks.max())
    runs, alone_runs = _new_runs(merged, (3,)), _new_runs(alone, (3, most))
    service = Service(runs, alone_runs, np.zeros(2, np.int64), np.zeros(3, np.int64))
    first_rows, open_rows = _first_rows(stream.rows, part, banks), np.full((3, most), -1)
    state = State(service, part, banks, first_rows, open_rows, np.full(3, -1), row_bytes, is_bus_shared)
    for accesses in stream.bufferfuls:
        serve(state, accesses)
    return service


def _new_runs(rules: Rules, shape: tuple[int, ...]) -> Record:
    """Return records RUN without any command."""
    runs = np.zeros(shape, RUN)
    runs["gap"], runs["to_precharge"], runs["rows"] = rules
    return runs


def _first_rows(rows: Ints, part: Ints, banks: Ints) -> Ints:
    """Return int64[3]: the first row of each tensor, all in the first bank; no row holds two tensors of a part."""
    whole = -(-rows // banks) * banks
    return np.array([whole[:tensor][part[:tensor] == part[tensor]].sum() for tensor in range(3)], np.int64)


@kernel
def serve(state: State, accesses: Ints) -> None:
    """Serve accesses int64[n, 3] of a stream in their order."""
    service = state.service
    for access in accesses:
        part, way = state.part[access[TENSOR]], access[IS_WRITE]
        row = state.first_row[access[TENSOR]] + access[ADDRESS] // state.row_bytes
        bank, before = row % state.banks[access[TENSOR]], state.way[part]
        if state.open_rows[part, bank] != row:
            state.open_rows[part, bank] = row
            cut(service.merged[part])
            cut(service.alone[part, bank])
        issue(service.merged[part], before, way)
        issue(service.alone[part, bank], before, way)
        service.columns[part] += 1
        if before == 1 - way:
            service.switches[way] += 1
        turn_bus(state, part, way)


@kernel
def turn_bus(state: State, part: int, way: int) -> None:
    """Note the direction of an access on its bus."""
    if state.is_bus_shared:
        state.way[:] = way
    else:
        state.way[part] = way


@kernel
def issue(run: Record, before: int, way: int) -> None:
    """Issue a column command of the open run as early as the one before it on the bus allows."""
    run.command = run.command + run.gap[before, way] if run.columns else run.rows[0]
    run.ready = max(run.ready, run.command + run.to_precharge[way])
    run.columns += 1


@kernel
def cut(run: Record) -> None:
    """Close the open run, if there is one: its row is closed as early as its columns, tRAS and tRC allow."""
    if run.columns:
        run.cut_cycles += max(run.rows[3], max(run.rows[1], run.ready) + run.rows[2])
    run.columns, run.ready = 0, 0


def served_cycles(run: Record, last_data: int) -> int:
    """Return the cycles of all runs, back to back; `last_data` from the last command to the end of its data."""
    return int(run["cut_cycles"] + run["command"] + last_data) if run["columns"] else 0
