"""What moves and what is read and written in a phase, as data (section 5)."""

from typing import NamedTuple

from tracesim.array.areas import Area, Range
from tracesim.array.scan import Count

HOST = -1
"""The host, as the start or the end of a flow."""

INPUT, WEIGHT, OUTPUT, ADDED = range(4)
WEIGHTS, PULL, COMPUTE, REDUCE, PUSH, JOIN = range(6)
PHASE_NAMES = ("weights", "pull", "compute", "reduce", "push", "join")


class Flow(NamedTuple):
    """Data that travels from node to node along a path.

    Over a mesh that is one message an edge of the path, each passed on as it arrives. Through the host it is one
    message from the first node to all others.
    `operand`: INPUT, WEIGHT, OUTPUT or ADDED; `reading`: which of the layer's readings of I, or of what is added.
    `parts`: its elements in the stack, or for weights `span`: elements of the node's weight box. `is_delivered`: the
    first edge is a delivery, and the others belong to the tour.
    """

    path: tuple[int, ...]
    data_bytes: int
    operand: int
    parts: tuple[Area, ...] = ()
    span: Range = (0, 0)
    is_delivered: bool = False
    reading: int = 0


class Access(NamedTuple):
    """Scans at nodes, at each of them with the same count."""

    nodes: tuple[int, ...]
    is_write: bool
    scanned: Count


class Phase(NamedTuple):
    """A phase of a step.

    `rounds`: flows, in rounds each of which begins when the one before has arrived (more than one through a host only).
    """

    kind: int
    layer: int
    rounds: tuple[tuple[Flow, ...], ...] = ()
    accesses: tuple[Access, ...] = ()
    additions: int = 0
    compute_cycles: int = 0


def flows_of(phase: Phase) -> list[Flow]:
    """Return all flows of a phase."""
    return [flow for flows in phase.rounds for flow in flows]
