"""From a program's factors to a complete mapping: loop orders, layouts and input blocks that cost least, exactly.

The program fixes factors, stored sets and the innermost class per level. What is left moves nothing but columns, row
activations and DRAM cycles, and is chosen by the exact count. A tensor's stream depends only on the loops outside its
first consumer, so it is counted once for all orders that look the same to it.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import attrs

from cpsat_pim.base.dims import IRRELEVANT, ON_CHIP, RELEVANT, Dim, Level, Tensor
from cpsat_pim.evaluate.cost import Prediction, to_machine, to_nest, to_prediction
from cpsat_pim.mapper.model.residency import Outside
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import used_bytes
from cpsat_pim.mapping.dataflow import classify_dataflow
from cpsat_pim.workload import ConvWorkload
from tables.bounds.windows import block_sides
from tables.counts.cost import Cost, array_timing, cost_with
from tables.counts.stream import ArrayTiming, demanded_tiles, dram_stream, stream_key
from tables.counts.walk import NO_STREAM_LIMIT, StreamCounts, StreamLimit
from tables.nest import EVEN, MACS, Nest, span

#: Orders tried for a new mapping; the loops of one level rarely have more permutations than this.
MOST_TRIED = 240
#: How many times its size a tensor can take in DRAM: blocks may end just behind the middle of a row, and of I's height
#: and width.
_MOST_GROWN = 8
#: Orders counted to correct a program.
_MOST_COUNTED = 5040

Order = tuple[tuple[Dim, ...], ...]


class Inner(NamedTuple):
    """The class that is innermost at a level (that of the loops irrelevant to `t`), and its loops that are gathered
    there, with no other ones between them; of all of the class, unless it `is_told` which these are.
    """

    t: Tensor
    loops: tuple[Dim, ...]
    is_told: bool

    def opens(self, order: tuple[Dim, ...]) -> bool:
        """Whether an order's innermost loop is of the class, or a group."""
        return bool(order) and order[-1] in (*IRRELEVANT[self.t], Dim.G)

    def gathers(self, order: tuple[Dim, ...]) -> bool:
        """Whether it gathers these loops, and no others of the class; whether or not, if that is not told."""
        run = itertools.takewhile(lambda d: d in IRRELEVANT[self.t], reversed(order))
        return not self.is_told or set(run) == set(self.loops)


class Completion(NamedTuple):
    """A complete mapping, its exact figures, and its objective in the solver's integers."""

    mapping: Mapping
    prediction: Prediction
    value: int


class Placed(NamedTuple):
    """A tensor's layout (and input block) and the stream that it makes."""

    layout: int
    block_h: int
    block_w: int
    stream: StreamCounts


class Places(NamedTuple):
    """The layouts and blocks that can be the best under an order, and the fewest activations of all that have room: one
    that is worse at this pace of the array may open fewer rows and be better at another.
    """

    best: list[Placed]
    activations: int | None


#: Layouts and blocks by what a tensor sees of a mapping.
Counted = dict[tuple[object, ...], Places]


class Least(NamedTuple):
    """The least of each of a stream's figures over some orders, all layouts and blocks.

    `edge_cycles`: the first scan's, of outputs the last tile's. Nothing is late where nobody counts time, or where
    outputs that come back are waited for anyway.
    """

    activations: int
    cycles: int
    edge_cycles: int
    stall_cycles: int
    single_cycles: int


class Completions:
    """All that a draft's factors, stored sets, loops `outside` tiles and `inner` loops per level, and the constraints,
    leave open.

    `counted` remembers streams from draft to draft of one layer, machine and objective under the same constraints.
    Mappings that cost more than a `ceiling` need not be among them: `rooms_below` has what streams may take for that.
    """

    def __init__(
        self,
        restriction: Restriction,
        objective: Objective,
        draft: Mapping,
        outside: Outside,
        inner: dict[int, Inner],
        counted: Counted,
        rooms_below: Callable[[int | None], Sequence[StreamLimit]],
        ceiling: int | None,
    ) -> None:
        self.restriction, self.objective, self.draft = restriction, objective, draft
        self.outside, self.inner = outside, inner
        self.layer, arch = restriction.layer, restriction.arch
        self.sees_cycles, self.sees_energy = restriction.sees(objective)
        self.machine = to_machine(arch)
        self.nest = to_nest(self.layer, draft, arch.spatial_reduction)
        elements = sum(self.layer.elements(t) for t in Tensor)
        largest = _MOST_GROWN * max(self.layer.width_bytes) * elements + len(Tensor) * arch.row_bytes
        #: Whether tensors may outgrow the DRAM with what row-aligned blocks leave empty.
        self.is_dram_tight = arch.hierarchy[Level.DRAM].capacity_bytes < largest
        self._tempos: dict[Order, ArrayTiming] = {}
        self._counted = counted
        self._rooms_below, self._ceiling, self.rooms = rooms_below, ceiling, rooms_below(ceiling)

    # --- Counting ----------------------------------------------------------------------------------------------------

    def best(self, orders: Iterable[Order], good_enough: int = 0) -> Completion | None:
        """The cheapest completion over some orders; the first whose objective is at most `good_enough`.

        None if none of them makes a mapping that is allowed, within the budget.
        """
        best: tuple[int, Nest, Cost] | None = None
        counted: set[tuple[object, ...]] = set()
        for order in filter(self._is_allowed, orders):
            for nest, cost in self._costs(order, counted):
                value = self.objective.value(cost.latency_cycles, cost.energy_fj)
                if (best is None or value < best[0]) and self._is_affordable(nest, cost):
                    best = (value, nest, cost)
                    self._lower_ceiling(value)
            if best is not None and best[0] <= good_enough:
                break
        return Completion(self._mapping(best[1]), to_prediction(best[2]), best[0]) if best is not None else None

    def _lower_ceiling(self, value: int) -> None:
        """What costs more than a known mapping need not be counted."""
        if self._ceiling is None or value < self._ceiling:
            self._ceiling, self.rooms = value, self._rooms_below(value)

    def _is_affordable(self, nest: Nest, cost: Cost) -> bool:
        """Whether a mapping keeps the budget, and its tensors, laid out like that, fit the DRAM together."""
        activations = sum(stream.activations for stream in cost.streams)
        if not self.restriction.budget.allows(cost.latency_cycles, cost.energy_fj, activations):
            return False
        if not self.is_dram_tight:
            return True
        arch = self.restriction.arch
        used = used_bytes(self.layer, arch, self._mapping(nest))[Level.DRAM]
        return sum(used.values()) <= arch.hierarchy[Level.DRAM].capacity_bytes

    def _is_allowed(self, order: Order) -> bool:
        """Whether an order keeps what nothing but whole orders can tell of."""
        return self._is_of_class(order) and self._has_room(order)

    def _is_of_class(self, order: Order) -> bool:
        """The dataflow class is that which is asked for, if any is."""
        wanted = self.restriction.constraints.dataflow
        return wanted is None or classify_dataflow(self._ordered(order)) is wanted

    def _has_room(self, order: Order) -> bool:
        """The row buffer has room for a block of outputs also where they come and go as partial sums (Eq. 17)."""
        level = Level.ROW_BUFFER
        if not self.draft.stored[level][Tensor.O] or self.layer.psum_bytes == self.layer.output_bytes:
            return True
        nest = self.nest_in(order)
        used = sum(nest.box(t, level) * nest.width(t, level) for t in Tensor if self.draft.stored[level][t])
        return used <= self.restriction.arch.usable_bytes(level)

    def least(self, t: Tensor, orders: Iterable[Order]) -> Least:
        """The least of each figure of t's stream over some orders; if none has room for it, more than that."""
        places = [self._placed(t, order) for order in orders]
        streams = [placed.stream for found in places for placed in found.best]
        if not streams:
            activations, cycles = (
                n + 1 if n < no_limit else 0 for n, no_limit in zip(self.rooms[t], NO_STREAM_LIMIT, strict=True)
            )
            return Least(activations, cycles, 0, 0, 0)
        fewest = min(found.activations for found in places if found.activations is not None)
        if not self.sees_cycles:
            return Least(fewest, 0, 0, 0, 0)
        return Least(
            fewest,
            min(s.cycles for s in streams),
            min(s.last_cycles if t is Tensor.O else s.first_cycles for s in streams),
            min(s.stall_cycles - s.second_stall_cycles for s in streams),
            min(s.stall_cycles - s.steady_stall_cycles for s in streams),
        )

    def least_activations(self, orders: Iterable[Order]) -> int | None:
        """The fewest row activations of all tensors together that one order allows; None if none does."""
        placed = ([self._placed(t, order).best for t in Tensor] for order in orders)
        sums = (sum(min(p.stream.activations for p in of) for of in choices) for choices in placed if all(choices))
        return min(sums, default=None)

    def _costs(self, order: Order, counted: set[tuple[object, ...]]) -> Iterator[tuple[Nest, Cost]]:
        """Nest and cost of one order in every choice of layouts and blocks that can be the best, but for those that
        cost what another one costs that was counted before. Modifies `counted`.
        """
        ordered = self.nest_in(order)
        fetched = [ordered.reuse(t, m) for t in Tensor for m in ordered.consumers(t)]
        uneven = [(outside, order[m]) for m, outside in enumerate(ordered.outside) if any(outside)]
        for i, w, o in itertools.product(*(self._placed(t, order).best for t in Tensor)):
            seen = (*fetched, *uneven, i, w, o)
            if seen in counted:
                continue
            counted.add(seen)
            nest = ordered._replace(layout=(i.layout, w.layout, o.layout), block_h=i.block_h, block_w=i.block_w)
            yield nest, cost_with(nest, self.machine, (i.stream, w.stream, o.stream))

    def _placed(self, t: Tensor, order: Order) -> Places:
        """Layouts and blocks of t under an order for which there is room, but those that another is at least as good
        as in every figure.
        """
        nest, tempo = self.nest_in(order), self.tempo(order)
        seen = stream_key(nest, t, tempo)
        if seen not in self._counted:
            choices = [self._place(nest, t, tempo, *choice) for choice in self.choices(t)]
            fitting = [p for p in choices if self.rooms[t].admits(p.stream)]
            fewest = min((p.stream.activations for p in fitting), default=None)
            self._counted[seen] = Places(self._undominated(fitting), fewest)
        return self._counted[seen]

    def tempo(self, order: Order) -> ArrayTiming:
        """How fast the array works under an order."""
        if order not in self._tempos:
            self._tempos[order] = array_timing(self.nest_in(order), self.machine)
        return self._tempos[order]

    def choices(self, t: Tensor) -> list[tuple[int, int, int]]:
        """The axis orders; for a row-aligned input also its blocks."""
        blocks = [(0, 0)]
        if t is Tensor.I and self.draft.stored[Level.ROW_BUFFER][Tensor.I]:
            blocks = input_blocks(self.layer, self.draft)
        return [(layout, *block) for layout in self.restriction.layouts(t) for block in blocks]

    def _place(self, nest: Nest, t: Tensor, tempo: ArrayTiming, layout: int, block_h: int, block_w: int) -> Placed:
        layouts = [layout if u is t else 0 for u in Tensor]
        placed = nest._replace(layout=tuple(layouts), block_h=block_h, block_w=block_w)
        return Placed(layout, block_h, block_w, dram_stream(placed, t, self.machine.dram, tempo, self.rooms[t]))

    def _undominated(self, choices: list[Placed]) -> list[Placed]:
        """The Pareto front in what the objective can see of a stream; of equals the first. All where room is short."""
        if self.is_dram_tight:
            return choices
        front: dict[tuple[int, ...], Placed] = {}
        for placed in choices:
            front.setdefault(self._visible(placed.stream), placed)
        return [p for figures, p in front.items() if not any(_dominates(other, figures) for other in front)]

    def _visible(self, stream: StreamCounts) -> tuple[int, ...]:
        late = stream.stall_cycles
        lateness = (late, late - stream.second_stall_cycles, late - stream.steady_stall_cycles)
        times = (stream.cycles, stream.first_cycles, stream.last_cycles, *lateness) if self.sees_cycles else ()
        return (*times, stream.activations) if self.sees_energy else times

    def _mapping(self, nest: Nest) -> Mapping:
        mapping = attrs.evolve(
            self._ordered(nest.order), layout=nest.layout, block_h=nest.block_h, block_w=nest.block_w
        )
        return self.restriction.complete(mapping)

    def _ordered(self, order: tuple[tuple[int, ...], ...]) -> Mapping:
        return attrs.evolve(self.draft, order=order, outside=self.nest_in(order).outside[: len(ON_CHIP)])

    def nest_in(self, order: tuple[tuple[int, ...], ...]) -> Nest:
        """The nest with its loops in an order."""
        if not any(map(any, self.outside)):
            return self.nest._replace(order=order)
        points = [[self._point(order[m], m, t) for t in Tensor] for m in ON_CHIP]
        return self.nest._replace(order=order, outside=(*map(tuple, points), *EVEN[len(ON_CHIP) :]))

    def _point(self, loops: tuple[int, ...], level: Level, t: Tensor) -> int:
        """How many loops lie outside t's tile: those up to the last one that changes it."""
        outside = self.outside[level][t]
        return max((i + 1 for i, d in enumerate(loops) if d in outside and d in RELEVANT[t]), default=0)

    # --- Orders ------------------------------------------------------------------------------------------------------

    def sorted_orders(self) -> Iterator[Order]:
        """Orders that keep each level's innermost class together innermost: they fetch least. At most `MOST_TRIED`."""
        choices = [self._sorted_level(m) for m in reversed(Level)]
        return (order[::-1] for order in itertools.islice(itertools.product(*choices), MOST_TRIED))

    def _sorted_level(self, level: Level) -> list[tuple[Dim, ...]]:
        loops = self.draft.order[level]
        is_classed = self.restriction.constraints.dataflow is not None
        if not loops or (level < min(self.levels_outside(t)[0] for t in Tensor) and not is_classed):
            return [loops]
        inner = self.inner[level].loops if level in self.inner else ()
        parts = [
            subspace for block in self._blocks(level) for subspace in self.restriction.interleaved(level, block, inner)
        ]
        return self._joined(level, parts)

    def can_gather(self, level: Level, dims: Collection[Dim]) -> bool:
        """Whether an order has all of a level's loops of some dims innermost."""
        parts = [self.restriction.interleaved(level, block, dims) for block in self._blocks(level)]
        is_held = any(d in dims for outside, _ in parts for d in outside)
        is_inside = [d in dims for outside, inside in parts for d in (*outside, *inside)]
        return not is_held and is_inside == sorted(is_inside)

    def _blocks(self, level: Level) -> list[list[Dim]]:
        """A level's loops by how many tiles they lie outside of, outermost first: each set comes before the rest."""
        loops = self.draft.order[level]
        if level not in ON_CHIP:
            return [list(loops)]
        depth = {d: sum(d in outside for outside in self.outside[level]) for d in loops}
        return [[d for d in loops if depth[d] == n] for n in sorted(set(depth.values()), reverse=True)]

    def _joined(self, level: Level, parts: Sequence[Sequence[Dim]]) -> list[tuple[Dim, ...]]:
        """All orders of a level in which some sets of loops follow each other."""
        orders = itertools.product(*(list(self.restriction.orders(level, subspace)) for subspace in parts))
        return [tuple(itertools.chain(*order)) for order in orders]

    def _all_orders(self, level: Level) -> list[tuple[Dim, ...]]:
        return self._joined(level, self._blocks(level))

    def orders(self, levels: Sequence[Level], is_contiguous: bool = False) -> list[Order] | None:
        """All orders of some levels that have the same class innermost, with `is_gathered` also the same loops of it
        gathered there, the others as drafted; None if too many.
        """
        loops = self.draft.order
        counts = [self.restriction.count_orders(m, block) for m in levels for block in self._blocks(m)]
        if math.prod(counts) > _MOST_COUNTED:
            return None
        choices = [self._with_inner(m, is_contiguous) if m in levels else [loops[m]] for m in Level]
        return list(itertools.product(*choices))

    def _with_inner(self, level: Level, is_contiguous: bool) -> list[tuple[Dim, ...]]:
        """All orders of a level whose innermost loops are those of the draft."""
        orders, inner = self._all_orders(level), self.inner.get(level)
        if inner is None or not set(IRRELEVANT[inner.t]) & set(orders[0]):
            return orders
        orders = [order for order in orders if inner.opens(order)] or orders
        return [order for order in orders if inner.gathers(order)] or orders if is_contiguous else orders

    @property
    def levels_ordered(self) -> list[Level]:
        """Levels whose order can matter: that of the PEs' loops does where their tiles leave some out, where the MACs
        draw from the DRAM, and to a dataflow class.
        """
        is_classed = self.restriction.constraints.dataflow is not None
        matters = is_classed or any(self.outside[Level.PE]) or any(self._consumer(t) == MACS for t in Tensor)
        return [m for m in Level if m > Level.PE or matters]

    def levels_seen(self, t: Tensor) -> list[Level]:
        """Levels whose loops decide what t's stream is and how long its tiles are in use."""
        seen, *inner = self.nest.consumers(t)
        is_double = (*self.machine.double_buffered, False)
        if seen != MACS and not is_double[seen] and inner[0] != MACS:
            seen = inner[0]  # a level with one slot is paced by what is taken from it
        return self._levels_from(seen, t)

    def levels_outside(self, t: Tensor) -> list[Level]:
        """Levels that have loops outside the tiles that t's first consumer takes."""
        return self._levels_from(self._consumer(t), t)

    def _levels_from(self, consumer: int, t: Tensor) -> list[Level]:
        """Levels that have loops outside a consumer's tiles."""
        is_uneven = consumer in ON_CHIP and bool(self.outside[consumer][t])
        return [m for m in Level if m > consumer - is_uneven]

    def least_paced(self, t: Tensor, orders: Iterable[Order]) -> int:
        """The least of the array's cycles over some orders, less what a whole number of cycles per tile leaves over."""
        return min(self._paced(t, order) for order in orders)

    def _paced(self, t: Tensor, order: Order) -> int:
        cycles = self.tempo(order).array_cycles
        return cycles - cycles % demanded_tiles(self.nest_in(order), t, self.tempo(order))

    def _consumer(self, t: Tensor) -> int:
        return self.nest.consumers(t)[0]


def _dominates(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def input_blocks(layer: ConvWorkload, mapping: Mapping) -> list[tuple[int, int]]:
    """Heights and widths of a row-aligned input's blocks."""
    extents, sides = mapping.extents(Level.ROW_BUFFER), []
    for size, stride, dilation, outputs, filters in (
        (layer.input_height, layer.stride[1], layer.dilation[1], extents[Dim.Q], extents[Dim.S]),
        (layer.input_width, layer.stride[0], layer.dilation[0], extents[Dim.P], extents[Dim.R]),
    ):
        sides.append(block_sides(size, stride, span(outputs, filters, stride, dilation), outputs))
    return [(h, w) for h in sides[0] for w in sides[1]]
