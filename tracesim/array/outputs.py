"""The phases after a layer is computed: partial sums are added, and the outputs go home (section 5, 4 to 6)."""

from typing import NamedTuple

from tracesim.array.areas import Area, Range, elements, meet
from tracesim.array.flows import HOST, JOIN, OUTPUT, PUSH, REDUCE, Access, Flow, Phase
from tracesim.array.inputs import Case, candidates, cut, node_output, step_places
from tracesim.array.needs import Part, member_area, output_area, part_of, pooled_area
from tracesim.array.network import Sum, spot_of
from tracesim.array.parts import part_size, rotated, sharing_sets, split, tour_of
from tracesim.array.records import C, G, K, N, P, Q
from tracesim.array.scan import scan_area


class Piece(NamedTuple):
    """What a node holds of a layer's output before it is pushed, stored box by box for itself."""

    node: int
    part: Area


# -- reduce -------------------------------------------------------------------------------------------------------


class Reduction(NamedTuple):
    """Nodes that add their partial sums of the same outputs: `chunks[t]` of them ends at `tour[t]`."""

    tour: tuple[int, ...]
    whole: Area
    chunks: tuple[Area, ...]


def reductions(case: Case, number: int) -> list[Reduction]:
    """Return who adds what; nothing where C is not split."""
    grid, layer = case.plan.steps[number].grid, case.plan.layers[number]
    found: list[Reduction] = []
    if split(grid, C) == 1:
        return found
    first_channel = case.network.members[number + 1].channel
    for members in sharing_sets(step_places(case, number), (N, P, Q, K, G)):
        tours = case.plan.steps[number].tours.reduce
        tour = tour_of([place.node for place in members], case.plan.array.cols, tours)
        part = part_of(case.plan, number, members[0])
        chunks = [output_area(layer, piece, first_channel) for piece in _cut_part(case, number, part, len(tour))]
        found.append(Reduction(tuple(tour), output_area(layer, part, first_channel), tuple(chunks)))
    return found


def _cut_part(case: Case, number: int, part: Part, pieces: int) -> list[Part]:
    """Cut a part along the first of K, Q, P, N, G whose part size is largest, in pieces of that size over `pieces`."""
    grid, bounds = case.plan.steps[number].grid, case.plan.layers[number].bounds
    sizes = [(part_size(int(bounds[dim]), split(grid, dim)), name) for dim, name in _CHUNK_DIMS]
    size, name = max(sizes, key=lambda item: item[0])
    low, high = getattr(part, name)
    return [part._replace(**{name: _clip((low + a, low + b), high)}) for a, b in cut((0, size), pieces)]


_CHUNK_DIMS = ((K, "k"), (Q, "q"), (P, "p"), (N, "n"), (G, "g"))


def _clip(piece: Range, end: int) -> Range:
    return min(piece[0], end), min(piece[1], end)


def reduce_phase(case: Case, number: int) -> Phase:
    """Return the reduce-scatter of partial sums: along tours, or by the host."""
    found = reductions(case, number)
    accesses: list[Access] = []
    for reduction in found:
        accesses += _reduce_accesses(case, number, reduction)
    rounds = _host_rounds(case, number, found) if case.plan.array.is_host else (_tour_flows(case, number, found),)
    additions = sum((len(reduction.tour) - 1) * elements(reduction.whole) for reduction in found)
    return Phase(REDUCE, number, rounds, tuple(accesses), additions)


def _tour_flows(case: Case, number: int, found: list[Reduction]) -> tuple[Flow, ...]:
    """Return the way of each chunk: from the member behind its last one, around the tour, to it."""
    psum_bytes = int(case.plan.layers[number].width_bytes[3])
    return tuple(
        Flow(
            rotated(list(reduction.tour), (t + 1) % len(reduction.tour)), elements(chunk) * psum_bytes, OUTPUT, (chunk,)
        )
        for reduction in found
        for t, chunk in enumerate(reduction.chunks)
        if chunk.c
    )


def _host_rounds(case: Case, number: int, found: list[Reduction]) -> tuple[tuple[Flow, ...], ...]:
    """Return the ways of whole boxes to the host, then those of finished chunks back."""
    _, _, output_bytes, psum_bytes = case.plan.layers[number].width_bytes.tolist()
    up = [
        Flow((node, HOST), elements(reduction.whole) * psum_bytes, OUTPUT, (reduction.whole,))
        for reduction in found
        for node in reduction.tour
        if reduction.whole.c
    ]
    down = [
        Flow((HOST, node), elements(chunk) * output_bytes, OUTPUT, (chunk,))
        for reduction in found
        for node, chunk in zip(reduction.tour, reduction.chunks, strict=True)
        if chunk.c
    ]
    return tuple(up), tuple(down)


def _reduce_accesses(case: Case, number: int, reduction: Reduction) -> list[Access]:
    """Every member reads its partial sums, chunk by chunk (whole for the host), and writes the chunk that it keeps."""
    dram, layout = case.plan.dram, case.layouts[case.network.members[number + 1].stack]
    _, _, output_bytes, psum_bytes = case.plan.layers[number].width_bytes.tolist()
    read = [reduction.whole] if case.plan.array.is_host else reduction.chunks
    accesses = [
        Access(reduction.tour, False, scan_area(part, reduction.whole, layout, psum_bytes, dram))
        for part in read
        if part.c
    ]
    for node, chunk in zip(reduction.tour, reduction.chunks, strict=True):
        accesses.append(Access((node,), True, scan_area(chunk, chunk, layout, output_bytes, dram)))
    return accesses


def held_pieces(case: Case, number: int) -> list[Piece]:
    """Return what each node holds of the output of a layer when all sums are complete."""
    if split(case.plan.steps[number].grid, C) == 1:
        held = [Piece(place.node, node_output(case, number, place)) for place in step_places(case, number)]
    else:
        held = [
            Piece(node, chunk)
            for reduction in reductions(case, number)
            for node, chunk in zip(reduction.tour, reduction.chunks, strict=True)
        ]
    return [piece for piece in held if piece.part.c]


# -- push ---------------------------------------------------------------------------------------------------------


def push_phase(case: Case, number: int) -> Phase:
    """Return the way of the outputs home, pooled and added where the network says so."""
    pool = case.plan.layers[number].pool
    flows: list[Flow] = []
    accesses: list[Access] = []
    for piece in held_pieces(case, number):
        moved, scanned = _push_piece(case, number, piece) if pool is None else _push_pooled(case, number, piece)
        flows += moved
        accesses += scanned
    additions = sum(elements(piece.part) for piece in held_pieces(case, number)) if pool else 0
    total = finished_sum(case, number)
    if total:
        accesses += _read_operands(case, [tensor for tensor in total.operands if tensor != number + 1])
        if number + 1 in case.network.spread:  # what arrives is not the sum, which is written besides
            accesses += _scan_home(case, total.operands[0], is_write=True)
        additions += sum_additions(case, total)
    return Phase(PUSH, number, (tuple(flows),), tuple(accesses), additions)


def _push_piece(case: Case, number: int, piece: Piece) -> tuple[list[Flow], list[Access]]:
    """Send each node what is at home there; what is at home here neither moves nor is copied."""
    stack, width = case.network.members[number + 1].stack, case.network.widths[number + 1]
    layout, dram = case.layouts[stack], case.plan.dram
    flows, accesses = [], []
    for node, home in candidates(case, stack, piece.part):
        part = meet(piece.part, home)
        if part.c and node != piece.node:
            flows.append(Flow((piece.node, node), elements(part) * width, OUTPUT, (part,)))
            accesses.append(Access((piece.node,), False, scan_area(part, piece.part, layout, width, dram)))
            accesses.append(Access((node,), True, scan_area(part, home, layout, width, dram)))
    return flows, accesses


def _push_pooled(case: Case, number: int, piece: Piece) -> tuple[list[Flow], list[Access]]:
    """Read the piece once, pool it, and send each node what is at home there, to be combined with what it has."""
    pool = case.plan.layers[number].pool
    assert pool is not None  # the caller has looked
    stack, width = case.network.members[number + 1].stack, case.network.widths[number + 1]
    layout, dram = case.layouts[stack], case.plan.dram
    accesses = [Access((piece.node,), False, scan_area(piece.part, piece.part, layout, width, dram))]
    flows, pooled = [], pooled_area(piece.part, pool)
    for node, home in candidates(case, stack, pooled):
        part = meet(pooled, home)
        if part.c:
            count = scan_area(part, home, layout, width, dram)
            accesses.append(Access((node,), True, count))
            if node != piece.node:
                flows.append(Flow((piece.node, node), elements(part) * width, OUTPUT, (part,)))
                accesses.append(Access((node,), False, count))
    return flows, accesses


# -- sums ---------------------------------------------------------------------------------------------------------


def finished_sum(case: Case, number: int) -> Sum | None:
    """Return the sum that a layer's push makes, if there is one."""
    for total in case.network.sums.values():
        if total.finisher == number and not total.is_joined:
            return total
    return None


def _read_operands(case: Case, tensors: list[int]) -> list[Access]:
    """Every node of a home reads what is at home there of the tensors."""
    return [access for tensor in tensors for access in _scan_home(case, tensor, is_write=False)]


def _scan_home(case: Case, tensor: int, is_write: bool) -> list[Access]:
    stack = case.network.members[tensor].stack
    width, layout, dram = case.network.widths[tensor], case.layouts[stack], case.plan.dram
    found = []
    for node, home in case.homes[stack].items():
        part = meet(member_area(case.network, tensor), home)
        if part.c:
            found.append(Access((node,), is_write, scan_area(part, home, layout, width, dram)))
    return found


def sum_additions(case: Case, total: Sum) -> int:
    """Return the additions of a sum: all but one operand, for each element."""
    return elements(member_area(case.network, total.operands[0])) * (len(total.operands) - 1)


def join_phases(case: Case, segment: int) -> list[Phase]:
    """Return the sums that are made at the end of a segment, each under the layer that finishes it."""
    phases = []
    for total in case.network.sums.values():
        if total.is_joined and spot_of(case.plan, total.finisher)[0] == segment:
            accesses = _read_operands(case, list(total.operands)) + _scan_home(case, total.operands[0], is_write=True)
            phases.append(Phase(JOIN, total.finisher, (), tuple(accesses), sum_additions(case, total)))
    return phases
