"""Tensors that are added to a layer's output: each node fetches what it adds (section 5)."""

from collections.abc import Sequence

from tracesim.array.areas import Area, area, elements
from tracesim.array.flows import ADDED, Access, Flow, Phase
from tracesim.array.inputs import Case, owned, pull_phase, scans_of_added
from tracesim.array.needs import raw_areas, seen_area
from tracesim.array.outputs import Piece, held_pieces
from tracesim.array.readings import Reading
from tracesim.array.scan import scan_area


def pull_with_added(case: Case, number: int) -> Phase:
    """Return the pull of a layer, with that of what is added to its output."""
    phase, added = pull_phase(case, number), case.network.added[number]
    flows, accesses, additions = list(phase.rounds[0]), list(phase.accesses), phase.additions
    for piece in held_pieces(case, number) if added else ():
        for index, reading in enumerate(added):
            seen, raw = node_added(case, number, reading, piece)
            moved, scanned = _fetch(case, index, reading, piece.node, raw)
            adding, added_up = scans_of_added(case, reading, piece.node, seen, raw)
            flows, accesses, additions = flows + moved, accesses + scanned + adding, additions + added_up
    return phase._replace(rounds=(tuple(flows),), accesses=tuple(accesses), additions=additions)


def node_added(case: Case, number: int, reading: Reading, piece: Piece) -> tuple[Area, tuple[Area, ...]]:
    """Return what is added to what a node holds of a layer's output, as it is seen, and what that is made of."""
    own, first = piece.part, case.network.members[number + 1].channel
    channels = [(low - first, high - first) for low, high in own.c]
    seen = seen_area(reading, area(own.n, channels, own.y, own.x))
    return seen, raw_areas(seen, reading, case.network.stack_shapes[reading.stack])


def _fetch(
    case: Case, index: int, reading: Reading, node: int, needed: Sequence[Area]
) -> tuple[list[Flow], list[Access]]:
    """Return how a node gets a box for itself: a message from each other node that has some of it.

    `index`: which of what is added.
    """
    layout, width, dram = case.layouts[reading.stack], case.network.widths[reading.stack], case.plan.dram
    flows, accesses = [], []
    for owner, (home, found) in owned(case, reading.stack, needed).items():
        if owner != node:
            parts = tuple(part for part, _ in found)
            size = sum(map(elements, parts)) * width
            flows.append(Flow((owner, node), size, ADDED, parts, is_delivered=True, reading=index))
        for part, box in found if owner != node else ():
            accesses.append(Access((owner,), False, scan_area(part, home, layout, width, dram)))
            accesses.append(Access((node,), True, scan_area(part, box, layout, width, dram)))
    return flows, accesses
