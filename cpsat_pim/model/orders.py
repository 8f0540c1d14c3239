"""From a program's factors to a complete mapping: loop orders, layouts and input blocks that cost least, exactly.

The program fixes factors, stored sets and the innermost class per level. What is left moves nothing but columns, row
activations and DRAM cycles, and is chosen by the exact count: per order of the outer loops, each tensor takes its best
layout (and blocks) by itself.
"""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.cost import Prediction, predict, to_machine, to_nest
from cpsat_pim.dims import IRRELEVANT, Dim, Level, Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.result import Objective
from cpsat_pim.workload import ConvWorkload
from tables.shapes import divisors
from tables.stream import StreamCounts, dram_stream

#: Orders tried per mapping; the loops of one level rarely have more permutations than this.
_MOST_ORDERS = 240
#: Orders of the outer loops counted to correct a program.
_MOST_COUNTED = 720


def best_completion(
    layer: ConvWorkload, arch: PIMArchitecture, objective: Objective, draft: Mapping, good_enough: int
) -> tuple[Mapping, Prediction, int]:
    """The cheapest completion of a draft mapping; stops early once the objective is at most `good_enough`."""
    best: tuple[Mapping, Prediction, int] | None = None
    for order in itertools.islice(_orders(draft), _MOST_ORDERS):
        mapping = _with_best_layouts(layer, arch, objective, attrs.evolve(draft, order=order))
        prediction = predict(layer, arch, mapping)
        value = objective.value(prediction.figures.latency_cycles, prediction.figures.energy_fj)
        if best is None or value < best[2]:
            best = (mapping, prediction, value)
        if value <= good_enough:
            break
    assert best is not None  # a draft has at least its own order
    return best


def best_of_all_orders(
    layer: ConvWorkload, arch: PIMArchitecture, objective: Objective, draft: Mapping
) -> tuple[Mapping, Prediction, int] | None:
    """The cheapest mapping with the draft's factors and stored sets, over every order; None if there are too many."""
    per_level = [
        list(itertools.permutations(draft.order[m])) if _order_matters(draft, m) else [draft.order[m]] for m in Level
    ]
    if math.prod(len(orders) for orders in per_level) > _MOST_COUNTED:
        return None
    found = []
    for order in itertools.product(*per_level):
        mapping = _with_best_layouts(layer, arch, objective, attrs.evolve(draft, order=order))
        prediction = predict(layer, arch, mapping)
        value = objective.value(prediction.figures.latency_cycles, prediction.figures.energy_fj)
        found.append((mapping, prediction, value))
    return min(found, key=lambda answer: answer[2])


def _order_matters(draft: Mapping, level: Level) -> bool:
    """PE loops are seen by a tensor's DRAM stream only; outer loops also decide what is fetched again."""
    return level > Level.PE or any(_streams_through(draft, level, t) for t in Tensor)


def _orders(draft: Mapping) -> Iterator[tuple[tuple[Dim, ...], ...]]:
    """Orders of the outer levels that keep each level's innermost class innermost; levels nothing streams through
    stay.
    """
    per_level = [_level_orders(draft, m) for m in Level]
    for dram in per_level[Level.DRAM]:
        for row_buffer in per_level[Level.ROW_BUFFER]:
            for buffer in per_level[Level.GLOBAL_BUFFER]:
                for pe in per_level[Level.PE]:
                    yield (pe, buffer, row_buffer, dram)


def _level_orders(draft: Mapping, level: Level) -> list[tuple[Dim, ...]]:
    """Permutations of a level's loops that keep the draft's innermost class together innermost."""
    loops = draft.order[level]
    if not loops or not any(_streams_through(draft, level, t) for t in Tensor):
        return [loops]
    if level == Level.PE:
        return list(itertools.permutations(loops))
    inner_class = next((c for c in IRRELEVANT.values() if loops[-1] in c), ())
    inside = [d for d in loops if d in inner_class]
    outside = [d for d in loops if d not in inner_class]
    return [(*first, *second) for first in itertools.permutations(outside) for second in itertools.permutations(inside)]


def _streams_through(draft: Mapping, level: Level, t: Tensor) -> bool:
    """Whether t's DRAM stream sees the loops of a level: nobody holds t at the level or outside it."""
    return not any(draft.stored[m][t] for m in range(level, 3))


def _with_best_layouts(layer: ConvWorkload, arch: PIMArchitecture, objective: Objective, mapping: Mapping) -> Mapping:
    """Each tensor's layout by its own stream: cycles and activations in the objective's weights."""
    cycle_weight, fj_weight = objective.weights
    machine = to_machine(arch)

    def price(counts: StreamCounts) -> int:
        return cycle_weight * counts.cycles + fj_weight * machine.activation_fj * counts.activations

    layouts = list(mapping.layout)
    best = mapping
    for t in Tensor:
        cheapest: int | None = None
        for candidate in _placements(layer, mapping, t):
            cost = price(dram_stream(to_nest(layer, candidate, arch.spatial_reduction), t, machine.dram))
            if cheapest is None or cost < cheapest:
                cheapest, layouts[t] = cost, candidate.layout[t]
                if t is Tensor.I:
                    best = candidate
    return attrs.evolve(best, layout=tuple(layouts))


def _placements(layer: ConvWorkload, mapping: Mapping, t: Tensor) -> Iterator[Mapping]:
    """Both axis orders; for a row-aligned input also its blocks."""
    for layout in range(2):
        chosen = list(mapping.layout)
        chosen[t] = layout
        placed = attrs.evolve(mapping, layout=tuple(chosen))
        if t is Tensor.I and mapping.stored[Level.ROW_BUFFER][Tensor.I]:
            for block_h, block_w in input_blocks(layer, mapping):
                yield attrs.evolve(placed, block_h=block_h, block_w=block_w)
        else:
            yield placed


def input_blocks(layer: ConvWorkload, mapping: Mapping) -> list[tuple[int, int]]:
    """Block sizes of a row-aligned input no larger than its tile (Eq. 8, 9): divisors of the input and steps of the
    tiles.
    """
    extents = mapping.extents(Level.ROW_BUFFER)
    sides = []
    for size, stride, dilation, outputs, filters in (
        (layer.input_height, layer.stride[1], layer.dilation[1], extents[Dim.Q], extents[Dim.S]),
        (layer.input_width, layer.stride[0], layer.dilation[0], extents[Dim.P], extents[Dim.R]),
    ):
        window = stride * (outputs - 1) + dilation * (filters - 1) + 1
        steps = {min(stride * n, size) for n in divisors(outputs)}
        sides.append(sorted({n for n in {*divisors(size), *steps, window} if n <= window}))
    return [(h, w) for h in sides[0] for w in sides[1]]


class OuterLoops(NamedTuple):
    """The least that any order of a mapping's outer loops costs: activations in all, cycles per stream."""

    activations: int
    cycles: tuple[int, ...]


def exact_outer_loops(
    layer: ConvWorkload, arch: PIMArchitecture, draft: Mapping, innermost: dict[int, int]
) -> OuterLoops | None:
    """The least cost over all orders that have the given class innermost, whatever lies inside the global buffer.

    None if some tensor bypasses the global buffer (its stream then sees inner loops too) or there are too many orders.
    """
    if any(not (draft.stored[1][t] or draft.stored[2][t]) for t in Tensor):
        return None
    per_level = [_orders_with_innermost(draft.order[m], innermost.get(m)) for m in (Level.ROW_BUFFER, Level.DRAM)]
    if len(per_level[0]) * len(per_level[1]) > _MOST_COUNTED:
        return None
    dram = to_machine(arch).dram
    totals, cycles = [], [[] for _ in Tensor]  # type: ignore[var-annotated]
    for row_buffer, outer in itertools.product(*per_level):
        ordered = attrs.evolve(draft, order=(*draft.order[:2], row_buffer, outer))
        total = 0
        for t in Tensor:
            counts = [
                dram_stream(to_nest(layer, placed, arch.spatial_reduction), t, dram)
                for placed in _placements(layer, ordered, t)
            ]
            total += min(c.activations for c in counts)
            cycles[t].append(min(c.cycles for c in counts))
        totals.append(total)
    return OuterLoops(min(totals), tuple(min(c) for c in cycles))


def _orders_with_innermost(loops: tuple[Dim, ...], t: int | None) -> list[tuple[Dim, ...]]:
    """All orders whose innermost loop is of the class irrelevant to t, if the class has loops here."""
    orders = list(itertools.permutations(loops)) if len(loops) < 8 else [loops] * (_MOST_COUNTED + 1)
    inside = () if t is None else IRRELEVANT[Tensor(t)]
    return [order for order in orders if order and order[-1] in inside] or orders
