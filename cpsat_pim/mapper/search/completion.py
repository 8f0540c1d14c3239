"""Complete a solution of a master problem exactly: loop orders, layouts and input blocks of least cost.

A solution fixes factors, stored sets and the innermost class of each level. What it leaves open changes nothing but
columns, row activations and DRAM cycles, and is chosen by exact counts. A tensor's DRAM stream depends on no loops but
those outside its first consumer, so it is counted once for all orders that agree in these.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import attrs

from cpsat_pim.base.dims import ON_CHIP, RELEVANT, Level, Tensor
from cpsat_pim.evaluate.cost import Prediction, to_machine, to_nest, to_prediction, to_shape
from cpsat_pim.mapper.model.residency import Outside
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search.orders import InnermostClass, LoopOrders, Order
from cpsat_pim.mapper.search.placement import (
    NO_PLACEMENTS,
    OutOfTime,
    PlacementCounter,
    Placements,
    StreamCache,
    StreamFigures,
)
from cpsat_pim.mapper.search.walks import Walks
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import used_bytes
from cpsat_pim.mapping.dataflow import classify_dataflow
from tables.counts.cost import Cost, cost_with
from tables.counts.limits import CostLimit, StreamLimits
from tables.counts.on_chip import array_timing
from tables.counts.scans import axis_strides, step_bytes
from tables.counts.stream import (
    ArrayTiming,
    demanded_tiles,
    is_long,
    scan_order,
    stream_loops,
)
from tables.counts.walk import NO_STREAM_LIMIT, StreamLimit
from tables.nest import AXES, EVEN, MACS, Nest

#: Nests that are kept: orders are looked at one after the other.
_KEPT_NESTS = 16


class Completion(NamedTuple):
    """A complete mapping, its exact figures, and its objective in the solver's integers."""

    mapping: Mapping
    prediction: Prediction
    value: int


class Completions:
    """All mappings that a draft leaves open: its factors and stored sets, its loops `outside` tiles, its `innermost`
    class by level, and its restriction are kept.

    `cache`: counted streams of earlier drafts of the same layer, machine, objective and constraints. Mappings that cost
    more than the `cutoff` may be missing; `limits_below` gives what streams may take in mappings up to a cost. Where
    the time `is_over`, no long stream is counted to its end. Latencies are those of the walk; by the formula if not
    `is_walked`, or if neither objective nor budget depends on them.
    """

    def __init__(
        self,
        restriction: Restriction,
        objective: Objective,
        draft: Mapping,
        outside: Outside,
        innermost: dict[int, InnermostClass],
        cache: StreamCache,
        limits_below: Callable[[int | None], Sequence[StreamLimit]],
        cutoff: int | None,
        parameters: SearchParameters = DEFAULTS,
        is_over: Callable[[], bool] = lambda: False,
        *,
        is_walked: bool = True,
    ) -> None:
        self.restriction, self.objective, self.draft, self.outside = restriction, objective, draft, outside
        self.parameters, self._is_over = parameters, is_over
        self.layer, arch = restriction.layer, restriction.arch
        self.sees_cycles, self.sees_energy = restriction.relevant_figures(objective)
        self.machine = to_machine(arch)
        self.nest = to_nest(self.layer, draft, arch.spatial_reduction)
        is_double = self.machine.double_buffered
        self.orders = LoopOrders(restriction, draft, outside, innermost, self.nest, is_double, parameters)
        self.counter = PlacementCounter(
            restriction, draft, cache, is_over, sees_cycles=self.sees_cycles, sees_energy=self.sees_energy
        )
        self._has_shared_banks = bool(restriction.shared_parts)
        #: The nest with its loops in an order: kept for a while, as it keeps what was computed of it.
        self.nest_in = lru_cache(_KEPT_NESTS)(self._nest_in)
        self._tempos: dict[Order, ArrayTiming] = {}
        self._walks = Walks(self.machine) if is_walked and self.sees_cycles else None
        self._limits_below, self.cutoff, self.stream_limits = limits_below, cutoff, limits_below(cutoff)

    # --- Orders ------------------------------------------------------------------------------------------------------

    def likely_orders(self) -> Iterable[Order]:
        """Return orders that fetch least. If the MACs draw a tensor of a shared bank, of these only the few in which
        most of its scans go on at rising addresses: its stream takes long to count, and most orders open many rows.
        """
        drawn = [t for t in Tensor if self.restriction.is_shared(t) and self.nest.consumers(t)[0] == MACS]
        orders = self.orders.sorted()
        if not drawn:
            return orders
        return heapq.nsmallest(
            self.parameters.orders_evaluated_drawn, orders, key=lambda order: self._inversions(drawn[0], order)
        )

    def _inversions(self, t: Tensor, order: Order) -> int:
        """Return how many pairs of loops go on by fewer bytes in the outer loop, in the best layout of t."""
        shape, loops = to_shape(self.layer), stream_loops(self.nest_in(order), t, MACS)
        found = []
        for layout in self.restriction.layouts(t):
            strides, _ = axis_strides(shape, t, AXES[t][layout], self.layer.width_bytes[t])
            steps = [step_bytes(shape, t, strides, d) * inside for d, _, _, inside in loops if d in RELEVANT[t]]
            found.append(sum(outer < inner for outer, inner in itertools.combinations(steps, 2)))
        return min(found)

    # --- Complete mappings -------------------------------------------------------------------------------------------

    def best(self, orders: Iterable[Order]) -> Completion | None:
        """Return the cheapest completion over some orders.

        None if no order makes a mapping that keeps the restriction, the budget and the cutoff.

        Raises:
            OutOfTime: the time was up before all were counted.
        """
        return max(self.improving(orders), key=lambda completion: -completion.value, default=None)

    def improving(self, orders: Iterable[Order], good_enough: int = 0) -> Iterator[Completion]:
        """Yield the cheapest completion of each order that is cheaper than those of the orders before it, up to the
        first that costs at most `good_enough`.

        Raises:
            OutOfTime: the time was up before a stream was counted.
        """
        least: int | None = None
        counted: dict[tuple[object, ...], Cost] = {}
        for order in filter(self._is_allowed, orders):
            best: tuple[Nest, Cost] | None = None
            for nest, formula in self._costs(order, counted):
                if least is not None and self._value(formula) >= least:
                    continue
                cost = self._walked(nest, formula)
                value = self._value(cost)
                if (least is None or value < least) and self._is_affordable(nest, cost):
                    least, best = value, (nest, cost)
                    self._lower_cutoff(value)
            if best is not None and least is not None:
                yield Completion(self._mapping(best[0]), to_prediction(best[1]), least)
                if least <= good_enough:
                    return

    def _value(self, cost: Cost) -> int:
        return self.objective.value(cost.latency_cycles, cost.energy_fj)

    def _walked(self, nest: Nest, cost: Cost) -> Cost:
        """Return a cost with the latency of the walk, if the candidate may be of use by the formula; else the cost.

        Raises:
            OutOfTime: the time was up, and there is an incumbent.
        """
        cutoff = self.cutoff
        if (
            self._walks is None
            or not self._is_within_budget(cost)
            or (cutoff is not None and self._value(cost) > cutoff)
        ):
            return cost
        if cutoff is not None and self._is_over():
            raise OutOfTime
        return self._walks.walked(nest, cost)

    def _lower_cutoff(self, value: int) -> None:
        """Stop counting streams that only mappings above a known cost can have."""
        if self.cutoff is None or value < self.cutoff:
            self.cutoff, self.stream_limits = value, self._limits_below(value)

    def _is_affordable(self, nest: Nest, cost: Cost) -> bool:
        """Whether a mapping keeps the budget, and its tensors fit the DRAM together with these layouts and blocks."""
        if not self._is_within_budget(cost) or not self.counter.is_dram_tight:
            return self._is_within_budget(cost)
        arch, restriction = self.restriction.arch, self.restriction
        used = used_bytes(self.layer, arch, self._mapping(nest))[Level.DRAM]
        fits = sum(used.values()) <= arch.hierarchy[Level.DRAM].capacity_bytes
        parts = {t: sum(used[u] for u in restriction.part(t)) for t in Tensor}
        rooms = {t: restriction.part_bytes(t) for t in Tensor}
        return fits and all(room is None or parts[t] <= room for t, room in rooms.items())

    def _is_within_budget(self, cost: Cost) -> bool:
        activations = sum(stream.activations for stream in cost.streams)
        return self.restriction.budget.allows(cost.latency_cycles, cost.energy_fj, activations)

    def _is_allowed(self, order: Order) -> bool:
        """Whether an order keeps the constraints that depend on the whole order."""
        return self._has_dataflow(order) and self._fits_row_buffer(order)

    def _has_dataflow(self, order: Order) -> bool:
        """Whether an order has the dataflow class that is asked for, if any is."""
        wanted = self.restriction.constraints.dataflow
        return wanted is None or classify_dataflow(self._ordered(order)) is wanted

    def _fits_row_buffer(self, order: Order) -> bool:
        """Whether a block of outputs fits the row buffer also where they come and go as partial sums (Eq. 17)."""
        level = Level.ROW_BUFFER
        if not self.draft.stored[level][Tensor.O] or self.layer.psum_bytes == self.layer.output_bytes:
            return True
        nest = self.nest_in(order)
        used = {t: nest.box(t, level) * nest.width(t, level) for t in Tensor if self.draft.stored[level][t]}
        return self.restriction.arch.fits(level, used)

    # --- Minima over orders, for cuts --------------------------------------------------------------------------------

    def min_figures(
        self, t: Tensor, orders: Iterable[Order], limit: StreamLimit, known: StreamFigures | None = None
    ) -> StreamFigures:
        """Return the least of each figure of t's stream over some orders; one more than the limit if no order
        keeps it; where none exceeds those that are `known`, over some of the orders.

        `limit`: at least what the cutoff leaves (`stream_limits`); if only activations matter, any, and then the least
        is at most one more than it.
        """
        least: StreamFigures | None = None
        for order in orders:
            placements = self._placements(t, order, limit)
            if not placements.all:
                continue
            figures = placements.least_figures(t, self.sees_cycles, self.restriction.is_shared(t))
            least = figures if least is None else StreamFigures(*map(min, least, figures))
            if known is not None and all(a <= b for a, b in zip(least, known, strict=True)):
                return least
        if least is None:
            activations, cycles = (
                n + 1 if n < no_limit else 0 for n, no_limit in zip(limit, NO_STREAM_LIMIT, strict=True)
            )
            return StreamFigures(activations, cycles, 0, 0, 0, 0)
        return least

    def min_joint_activations(self, orders: Iterable[Order], limits: Sequence[StreamLimit]) -> int | None:
        """Return the fewest row activations of all tensors together under one order, of each one at most one more than
        its limit (see `min_figures`); None if time matters and no order keeps the limits.
        """
        sums = []
        for order in orders:
            fewest = [self._fewest_activations(t, order, limits[t]) for t in Tensor]
            sums += [sum(n for n in fewest if n is not None)] if None not in fewest else []
        return min(sums, default=None)

    def _fewest_activations(self, t: Tensor, order: Order, limit: StreamLimit) -> int | None:
        fewest = self._placements(t, order, limit).fewest_activations
        return limit.activations + 1 if fewest is None and not self.sees_cycles else fewest

    def min_paced_cycles(self, t: Tensor, orders: Iterable[Order]) -> int:
        """Return the least of the array's cycles over some orders, rounded down to whole cycles per tile of t."""
        return min(self._paced_cycles(t, order) for order in orders)

    def _paced_cycles(self, t: Tensor, order: Order) -> int:
        cycles = self.tempo(order).array_cycles
        return cycles - cycles % demanded_tiles(self.nest_in(order), t, self.tempo(order))

    # --- Counting ----------------------------------------------------------------------------------------------------

    def _costs(self, order: Order, counted: dict[tuple[object, ...], Cost]) -> Iterator[tuple[Nest, Cost]]:
        """Yield nest and cost of one order for all placements of the three tensors that matter, by the formula.

        With the same factors the cost depends on an order by how often each tile is fetched, the loops inside uneven
        tiles, and the streams; where tensors share a bank also by which of them is scanned last. Candidates that cost
        what an earlier one costs are skipped where no latency is walked. Otherwise they are not, nor are
        dominated placements: they may end sooner or later where loads coincide. Modifies `counted`.
        """
        ordered = self.nest_in(order)
        fetched = [ordered.reuse(t, m) for t in Tensor for m in ordered.consumers(t)]
        uneven = [(outside, order[m]) for m, outside in enumerate(ordered.outside) if any(outside)]
        last = [scan_order(ordered, t) for t in Tensor] if self._has_shared_banks else []
        is_walked = self._walks is not None
        found = self._counted(order)
        for i, w, o in itertools.product(*(p.all if is_walked else p.undominated for p in found)):
            streams = (i.stream, w.stream, o.stream)
            key = (*fetched, *uneven, *last, *(streams if is_walked else (i, w, o)))
            nest = ordered._replace(layout=(i.layout, w.layout, o.layout), block_h=i.block_h, block_w=i.block_w)
            if key not in counted:
                counted[key] = cost_with(nest, self.machine, streams)
            elif not is_walked:
                continue
            yield nest, counted[key]

    def _counted(self, order: Order) -> list[Placements]:
        """Return the placements of I, W and O under an order; of none of them if no mapping keeps the cutoff.

        Long streams are counted last, of these the one first that changes most often, and each no further than to what
        the others leave it.
        """
        nest, found = self.nest_in(order), dict[Tensor, Placements]()
        limits = self._limits_in(order)
        if limits is not None and limits.is_empty:
            return [NO_PLACEMENTS] * len(Tensor)
        for t in sorted(Tensor, key=lambda t: (is_long(nest, t), nest.consumers(t)[0])):
            limit = self.stream_limits[t]
            found[t] = self._placements(t, order, limit if limits is None else limit.within(limits.of(t)))
            if not found[t].all:
                return [NO_PLACEMENTS] * len(Tensor)
            if limits is not None:
                limits.know(t, [placement.stream for placement in found[t].all])
        return [found[t] for t in Tensor]

    def _limits_in(self, order: Order) -> StreamLimits | None:
        """Return what the cutoff leaves the streams under an order; None if there is no cutoff."""
        cost = None if self.cutoff is None else CostLimit(self.cutoff, *self.objective.weights)
        return cost and StreamLimits(self.nest_in(order), self.machine, cost, self.tempo(order).array_cycles)

    def _placements(self, t: Tensor, order: Order, limit: StreamLimit) -> Placements:
        """Return the placements of t under an order that keep a limit; others may be among them."""
        return self.counter.placements(t, self.nest_in(order), self.tempo(order), limit)

    def tempo(self, order: Order) -> ArrayTiming:
        """Return how fast the array works under an order."""
        if order not in self._tempos:
            self._tempos[order] = array_timing(self.nest_in(order), self.machine)
        return self._tempos[order]

    def _mapping(self, nest: Nest) -> Mapping:
        mapping = attrs.evolve(
            self._ordered(nest.order), layout=nest.layout, block_h=nest.block_h, block_w=nest.block_w
        )
        return self.restriction.place_outer_loops(mapping)

    def _ordered(self, order: tuple[tuple[int, ...], ...]) -> Mapping:
        return attrs.evolve(self.draft, order=order, outside=self.nest_in(order).outside[: len(ON_CHIP)])

    def _nest_in(self, order: tuple[tuple[int, ...], ...]) -> Nest:
        """Return the nest with its loops in an order."""
        if not any(map(any, self.outside)):
            return self.nest._replace(order=order)
        points = [[self._point(order[m], m, t) for t in Tensor] for m in ON_CHIP]
        return self.nest._replace(order=order, outside=(*map(tuple, points), *EVEN[len(ON_CHIP) :]))

    def _point(self, loops: tuple[int, ...], level: Level, t: Tensor) -> int:
        """Return how many loops lie outside t's tile: those up to the last one that changes it."""
        outside = self.outside[level][t]
        return max((i + 1 for i, d in enumerate(loops) if d in outside and d in RELEVANT[t]), default=0)
