"""What `simulate` and `execute` are given and what they report: plain arrays and ints (`docs/devices.md`, section
6).
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Policy(IntEnum):
    """How the controller chooses the next command (section 4)."""

    IN_ORDER = 0
    READY_FIRST = 1
    WINDOW = 2


class Slot(IntEnum):
    """The command slot of a tick that a command occupies (section 2)."""

    ROW = 0
    COLUMN = 1
    NONE = 2


class Needs(IntEnum):
    """What a command needs open or closed (section 2)."""

    NOTHING = 0
    ROW = 1
    ROWS = 2
    CLOSED = 3


class Reach(IntEnum):
    """Which banks a command opens or closes (section 2)."""

    NOTHING = 0
    BANK = 1
    GROUP = 2


class Function(IntEnum):
    """What a command does to numbers (section 5)."""

    NOTHING = 0
    LOAD = 1
    MAC_TREE = 2
    MAC_LANES = 3
    FILL = 4
    FILL_RELU = 5
    ADD = 6
    MUL = 7
    STORE = 8
    DRAIN = 9
    DRAIN_CLEAR = 10
    CLEAR = 11
    WRITE = 12
    READ = 13
    LOAD_SCALARS = 14
    DRAIN_SCALARS = 15
    WRITE_EACH = 16
    READ_EACH = 17


#: Columns of `Stream.work`.
FUNCTION, TARGET, SOURCE, LANE, DATA, REDUCE = range(6)


class Rules(NamedTuple):
    """The rules of one channel of a device. Times in ticks.

    `axes` int64[A]: sizes of the core axes, outermost first, and of the banks of a core. Level 0 is the channel, level
    i is below the i-th axis.
    `slot`, `scope`, `needs`, `opens`, `closes`, `activate`, `precharge`, `latency`, `blocking`, `mode` int64[C]: the
    columns of the command table; `scope` is a level, `activate` and `precharge` are commands or -1, `mode` is 0, 1
    (bank) or 2 (register).
    `constraints` int64[T, 6]: before, after, level, ticks, window, siblings (0 or 1).
    `policy` a `Policy`; `queue` entries. `window` only: each node of `queue_level` has a queue of its own, and commands
    reach it through an entry queue of `entry_queue` entries.
    `mode_change`: the command that changes between modes 1 and 2, or -1.
    `refresh` int64[6]: command (-1 = none), level, first tick, further ticks for each next node, interval, and
    nodes that are refreshed in turn but hold no cores (`window` only: they take a tick each).
    `all_bank_mode` int64[5]: the row whose activation enters all-bank mode and the mask of banks (below a node of
    `queue_level`) that must have been activated there; the row whose closing leaves it and the mask of banks; how many
    banks can be activated in it. A row of -1 = the device has no such mode.
    `inputs`, `accumulators`, `lanes`, `columns`: of a core.
    """

    axes: Ints
    slot: Ints
    scope: Ints
    needs: Ints
    opens: Ints
    closes: Ints
    activate: Ints
    precharge: Ints
    latency: Ints
    blocking: Ints
    mode: Ints
    constraints: Ints
    policy: int
    queue: int
    queue_level: int
    entry_queue: int
    mode_change: int
    refresh: Ints
    all_bank_mode: Ints
    inputs: int
    accumulators: int
    lanes: int
    columns: int


class Stream(NamedTuple):
    """The commands of one channel, in order.

    `kind` int64[n]: index into the command table. `coords` int64[n, A]: one coordinate for each of `Rules.axes`; -1 =
    all.
    `row`, `column` int64[n]. `group` int64[n]: barrier group, at least 0, never decreasing.
    `work` int64[n, 6]: function, target, source, lane, data, reduce (bit a = axis a).
    """

    kind: Ints
    coords: Ints
    row: Ints
    column: Ints
    group: Ints
    work: Ints


class Trace(NamedTuple):
    """What happened.

    `finish`: tick in which the last command completed. `issue` int64[n]: tick of each command of the stream.
    `inserted` int64[m, 3]: tick, command and cause (index in the stream, -1 = refresh) of what the controller added.
    `counts` int64[C]: commands issued, by kind, with the inserted ones.
    """

    finish: int
    issue: Ints
    inserted: Ints
    counts: Ints


#: The fields of `Rules` that make up the command table, in the order of its columns.
COMMAND_COLUMNS = ("slot", "scope", "needs", "opens", "closes", "activate", "precharge", "latency", "blocking", "mode")


def checked_rules(rules: Rules) -> Rules:
    """Return the rules with arrays of int64 in one block each; ValueError where they contradict each other."""
    arrays: dict[str, Any] = {
        name: np.ascontiguousarray(value, dtype=np.int64)
        for name, value in rules._asdict().items()
        if isinstance(value, np.ndarray)
    }
    rules = rules._replace(**arrays)
    commands = rules.slot.size
    for name in COMMAND_COLUMNS:
        if arrays[name].shape != (commands,):
            raise ValueError(f"Rules.{name}: must have {commands} entries (got {arrays[name].shape})")
    if rules.constraints.ndim != 2 or rules.constraints.shape[1] != 6:
        raise ValueError(f"Rules.constraints: must have 6 columns (got shape {rules.constraints.shape})")
    if (rules.constraints[:, :2] >= commands).any() or (rules.constraints[:, 2] > rules.axes.size).any():
        raise ValueError("Rules.constraints: names a command or a level that there is not")
    if (rules.constraints[:, 3] < 1).any() or (rules.constraints[:, 4] < 1).any():
        raise ValueError("Rules.constraints: ticks and window must be positive")
    if (rules.axes < 1).any():
        raise ValueError(f"Rules.axes: must be positive (got {rules.axes.tolist()})")
    return rules


def checked_stream(rules: Rules, stream: Stream) -> Stream:
    """Return the stream with arrays of int64; ValueError where it is not one of this device."""
    stream = Stream(*(np.ascontiguousarray(value, dtype=np.int64) for value in stream))
    size = stream.kind.size
    shapes = Stream((size,), (size, rules.axes.size), (size,), (size,), (size,), (size, 6))  # type: ignore[arg-type]
    for name, shape in shapes._asdict().items():
        if getattr(stream, name).shape != shape:
            raise ValueError(f"Stream.{name}: must have shape {shape} (got {getattr(stream, name).shape})")
    if size and (stream.kind.min() < 0 or stream.kind.max() >= rules.slot.size):
        raise ValueError(
            f"Stream.kind: must be 0 to {rules.slot.size - 1} (got {stream.kind.min()} to {stream.kind.max()})"
        )
    if ((stream.coords < -1) | (stream.coords >= rules.axes)).any():
        raise ValueError(f"Stream.coords: must be -1 or below {rules.axes.tolist()}")
    if size and (stream.group[0] < 0 or (np.diff(stream.group) < 0).any()):
        raise ValueError("Stream.group: must not be negative and never decrease")
    return stream
