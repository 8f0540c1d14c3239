"""Make cuts of a solution whose exact cost is above the master problem's bound.

The master problem's bounds hold for every loop order. Where a solution costs more, its order-dependent streams were
underestimated. So each cut states a minimum over orders, for all mappings that share the loops that the minimum depends
on: the loops outside one tensor's first consumer, those outside all first consumers, or at last all factors. The cuts
are numbered C1 to C14 in docs/solver.md, with statements and proofs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.bounds.countable import HIGHEST
from cpsat_pim.mapper.model.builder import Lit
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.search.box_cuts import BoxCuts
from cpsat_pim.mapper.search.completion import Completion, Completions
from cpsat_pim.mapper.search.cut_pool import Cut, CutPool, TilePasses, Validity
from cpsat_pim.mapper.search.orders import Order
from cpsat_pim.mapper.search.placement import OutOfTime, StreamFigures
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.validity import Validities
from cpsat_pim.mapper.search.window_cut import WindowCut
from tables.bounds.passes import min_activations, min_cycles
from tables.bounds.shapes import can_be_strided
from tables.counts.accesses import fetches
from tables.counts.stream import is_long
from tables.counts.walk import NO_STREAM_LIMIT, StreamLimit, min_column_cycles
from tables.dram import Dram, last_run_excess
from tables.nest import MACS, LayerShape


class CutGenerator:
    """Makes cuts of one solution, adds them to its master problem, and keeps them in the pool."""

    def __init__(self, solution: Solution, completions: Completions, cut_pool: CutPool) -> None:
        self.solution, self.completions, self.cut_pool = solution, completions, cut_pool
        self.master, self.draft, self.nest = solution.master, solution.draft, completions.nest
        self.validities = Validities(solution, completions)
        self.box_cuts = BoxCuts(solution, self.validities, cut_pool)

    def add_cuts(self) -> Completion | None:
        """Add the cheapest kind of cut that excludes the solution or raises what it is charged.

        Return the best completion over all orders if these were counted one by one (C9), else None.

        Raises:
            TooManyOrders: the best order is not known for certain; no cut was added.
            OutOfTime: the time was up before all orders were counted.
        """
        if self.add_stream_cuts(list(Tensor)) or self._add_joint_activations():
            return None
        return self.whole_cost()

    def add_cheap_stream_cuts(self) -> None:
        """Add cuts of the tensors whose streams take little time to count."""
        most = self.completions.parameters.pool_scans
        self.add_stream_cuts([t for t in Tensor if self._scans_counted(t) <= most])

    def add_cheaper_stream_cuts(self) -> bool:
        """Add cuts of the tensors whose streams are counted far sooner than another one; return whether any was
        underestimated.
        """
        counted = [self._scans_counted(t) for t in Tensor]
        most = max(counted) * self.completions.parameters.cheaper_share
        return self.add_stream_cuts([t for t in Tensor if counted[t] <= most])

    def _scans_counted(self, t: Tensor) -> int:
        """Return the scans of t's stream in all layouts, blocks and orders together."""
        consumer, orders = self.nest.consumers(t)[0], self.completions.orders
        scans = self.nest.steps() if consumer == MACS else fetches(self.nest, t, consumer)
        return int(scans) * len(self.completions.counter.choices(t)) * orders.count(orders.levels_outside(t))

    def add_stream_cuts(self, tensors: Sequence[Tensor]) -> bool:
        """Add cuts of single tensors' streams; return whether any stream was underestimated."""
        kinds = (
            self._add_window_rows,
            self.box_cuts.add,
            self._add_best_order_activations,
            self._add_best_order_cycles,
            self._add_stream_minima,
            self._add_stalls,
        )
        return any([add(t) for add in kinds for t in tensors])  # noqa: C419 - each cut saves a solve

    def _add(self, validity: Validity, require: Callable[[MasterProblem, Lit], None]) -> bool:
        """Add a cut to the pool and to the master problem."""
        self.cut_pool.add(Cut(validity, require), self.master)
        return True

    # --- C1: windows over a row-aligned input ------------------------------------------------------------------------

    def _add_window_rows(self, t: Tensor) -> bool:
        """Bound the rows that windows over a row-aligned input open (C1): all windows at once, with the first ones."""
        if t is not Tensor.I or self.nest.consumers(t)[0] != Level.ROW_BUFFER or self.cut_pool.has_window_cut:
            return False
        self.cut_pool.has_window_cut = True
        cut = WindowCut.of(self.master.v.restriction)
        self.cut_pool.add(cut, self.master)
        fetched = self.solution.value(self.master.streams.passes[t])
        return cut.min_rows(self.draft.extents(Level.ROW_BUFFER)) * fetched > self.solution.activations[t]

    # --- C4, C5: the best order of all loops outside a tile ----------------------------------------------------------

    def _add_best_order_activations(self, t: Tensor) -> bool:
        """Bound the activations of passes over a tile by the best order of all loops outside, however they are split
        (C4, `tables.bounds.passes`).
        """
        passes = self._tile_passes(t)
        if passes is None or passes in self.cut_pool.counted_activations:
            return False
        self.cut_pool.counted_activations.add(passes)
        least = min_activations(*self._stored(t), passes.tile, passes.passes) or 0
        if least <= self.solution.activations[t]:
            return False
        return self._add(passes.validity, lambda p, is_valid: p.b.imply([is_valid], p.streams.activations[t] >= least))

    def _add_best_order_cycles(self, t: Tensor) -> bool:
        """Bound the cycles of a single pass over a tile by the best order of all loops outside (C5)."""
        passes = self._tile_passes(t)
        if passes is None or passes.passes > 1 or passes in self.cut_pool.counted_cycles or not self._is_slower(t):
            return False
        self.cut_pool.counted_cycles.add(passes)
        limit, is_over = self.completions.stream_limits[t], self.cut_pool.is_over
        least = min_cycles(*self._stored(t), passes.tile, limit, is_over) or 0
        if least <= self.solution.charged(t).cycles:
            return False
        return self._add(passes.validity, lambda p, is_valid: p.b.imply([is_valid], p.streams.cycles[t] >= least))

    def _tile_passes(self, t: Tensor) -> TilePasses | None:
        """Return the solution's passes over t's tiles; None if their orders cannot be enumerated, or if others of its
        bank interrupt t, so that its rows are known.
        """
        streams, value = self.master.streams, self.solution.value
        scans = streams.scans[t]
        is_regular = value(scans.is_box) and not can_be_strided(self.master.v.shape, t)
        is_known = self.master.v.restriction.is_interrupted(t)
        if not streams.dram.is_open or not is_regular or is_known or self.nest.consumers(t)[0] == MACS:
            return None
        extents = {d: value(x) for d, x in scans.extents.items()}
        return TilePasses(t, tuple(extents.get(d, 1) for d in Dim), value(streams.passes[t]))

    def _stored(self, t: Tensor) -> tuple[LayerShape, Tensor, int, Dram, list[int]]:
        """Return how t lies in DRAM, as `tables.bounds.passes` takes it."""
        master = self.master
        layouts = master.spatial_bounds.restriction.layouts(t)
        return master.v.shape, t, master.layer.width_bytes[t], master.v.restriction.dram(t), layouts

    def _is_slower(self, t: Tensor) -> bool:
        """Whether t's stream takes longer in the drafted order than it was charged."""
        drafted = self.completions.min_figures(t, [self.draft.order], self._limit(t))
        return self.master.latency is not None and drafted.cycles > self.solution.charged(t).cycles

    # --- C6: one tensor's stream -------------------------------------------------------------------------------------

    def _add_stream_minima(self, t: Tensor) -> bool:
        """Bound one tensor's stream for all mappings with the same loops outside its first consumer (C6)."""
        outside = self.completions.orders.levels_outside(t)
        return any([self._add_stream_minimum(t, outside, *orders) for orders in self._orders(outside)])  # noqa: C419

    def _orders(self, levels: list[Level]) -> Iterator[tuple[bool, list[Order]]]:
        """Yield all orders of some levels with the same innermost classes; and those with the same contiguous loops."""
        orders = self.completions.orders.of_levels(levels)
        contiguous = self.completions.orders.of_levels(levels, is_contiguous=True)
        if orders is not None:
            yield False, orders
        if contiguous is not None and contiguous != orders:
            yield True, contiguous

    def _add_stream_minimum(self, t: Tensor, outside: list[Level], is_contiguous: bool, orders: list[Order]) -> bool:
        """Require of t's stream its least figures over these orders."""
        charged = self.solution.charged(t)._replace(stall_cycles=HIGHEST, isolated_stall_cycles=HIGHEST)
        least = self._min_figures(t, orders, charged)
        if all(known >= true for known, true in zip(charged, least, strict=True)):
            return False

        def require(p: MasterProblem, is_valid: Lit) -> None:
            p.b.imply([is_valid], p.streams.activations[t] >= least.activations)
            if p.latency is not None:
                p.b.imply([is_valid], p.streams.cycles[t] >= least.cycles)
                p.b.imply([is_valid], p.streams.end_cycles[t] >= least.edge_cycles)
                p.b.imply([is_valid], p.streams.closed_cycles[t] >= least.closed_cycles)

        return self._add(self._same_stream(t, outside, is_contiguous), require)

    # --- C7: stalls --------------------------------------------------------------------------------------------------

    def _add_stalls(self, t: Tensor) -> bool:
        """Bound the cycles that the array waits for one tensor's loads (C7)."""
        if self.master.latency is None:
            return False
        pacing = self.completions.orders.levels_pacing(t)
        return any([self._add_stall(t, pacing, *orders) for orders in self._orders(pacing)])  # noqa: C419 - all of them

    def _add_stall(self, t: Tensor, pacing: list[Level], is_contiguous: bool, orders: list[Order]) -> bool:
        """Require of t's stalls their least over these orders, also where the array is slower."""
        charged = self.solution.charged(t)
        # Of the orders, those count under which the array itself takes least; it can take longer under others.
        compute = min(self.completions.tempo(order).array_cycles for order in orders)
        paced = self.completions.min_paced_cycles(t, orders)
        assert self.master.latency is not None
        stored, longer = self.solution.stored[t], self.solution.value(self.master.latency.array) - compute
        if longer < 0:
            return False
        known = StreamFigures(HIGHEST, HIGHEST, HIGHEST, HIGHEST, charged.stall_cycles, charged.isolated_stall_cycles)
        if longer > 0:
            known = known._replace(
                stall_cycles=charged.stall_cycles + longer + compute - paced, isolated_stall_cycles=HIGHEST
            )
        least = self._min_figures(t, orders, known)
        if all(a >= b for a, b in zip(known, least, strict=True)):
            return False
        same_stream = self._same_stream(t, pacing, is_contiguous)
        validity = same_stream.without(lambda p: [p.v.is_not_stored_at(t, stored)])

        def require(p: MasterProblem, is_valid: Lit) -> None:
            # A slower array hides at most the cycles that it takes longer itself, and what its pace rounds down on all
            # tiles together; a faster one hides less.
            assert p.latency is not None
            b, array, stall = p.b, p.latency.array, p.latency.stall[t]
            is_slower = b.boolean("is_slower")
            b.imply([is_slower], array >= compute + 1)
            b.imply([is_valid, b.negated(is_slower)], stall >= least.stall_cycles)
            b.imply([is_valid, is_slower], stall + array >= least.stall_cycles + paced)
            is_paced = b.boolean("is_paced")
            b.clause([b.negated(is_valid), b.differs(array, compute), is_paced])
            b.imply([is_paced], p.latency.isolated_stall[t] >= least.isolated_stall_cycles)

        return self._add(validity, require)

    # --- C8: all activations together --------------------------------------------------------------------------------

    def _add_joint_activations(self) -> bool:
        """Bound all tensors' activations together for all mappings with the same loops outside their first consumers
        (C8).
        """
        if not self.completions.sees_energy or not to_machine(self.master.arch).activation_fj:
            return False
        outside = max((self.completions.orders.levels_outside(t) for t in Tensor), key=len)
        return any([self._add_joint_minimum(outside, *orders) for orders in self._orders(outside)])  # noqa: C419

    def _add_joint_minimum(self, outside: list[Level], is_contiguous: bool, orders: list[Order]) -> bool:
        """Require of all tensors' activations their least sum under one of these orders."""
        least = self.completions.min_joint_activations(self._in_time(orders), [self._limit(t) for t in Tensor])
        if least is None or least <= sum(self.solution.activations):
            return False
        return self._add(
            self.validities.same_loops(outside, list(Tensor), is_contiguous),
            lambda p, is_valid: p.b.imply([is_valid], sum(p.streams.activations) >= least),
        )

    # --- C9, C10: the whole cost -------------------------------------------------------------------------------------

    def whole_cost(self) -> Completion | None:
        """Bound the objective for all mappings with these factors, stored sets and innermost classes (C9), or forbid
        them if none is allowed and below the cutoff (C10); return the best completion.

        Raises:
            TooManyOrders, OutOfTime: see `add_cuts`.
        """
        orders = self._orders(self.completions.orders.levels_that_matter)
        found = [(is_contiguous, self.completions.best(self._in_time(of))) for is_contiguous, of in orders]
        if not found or found[0][0]:
            raise TooManyOrders
        for is_contiguous, completion in found:
            if completion is None:
                self.forbid(is_contiguous=is_contiguous)
            else:
                self._add(self.validities.same_factors(is_contiguous), _costs_at_least(completion.value))
        return found[0][1]

    def forbid(self, *, is_contiguous: bool = False) -> None:
        """Forbid the solution's factors with its stored sets and innermost classes (C10).

        `is_contiguous`: only with the same loops contiguous.
        """
        validity = self.validities.same_factors(is_contiguous)
        self._add(validity, lambda p, is_valid: p.b.clause([p.b.negated(is_valid)]))

    def _min_figures(self, t: Tensor, orders: Iterable[Order], known: StreamFigures) -> StreamFigures:
        """Return the least figures of t's stream over some orders, beside tensors that the MACs draw over its link.

        Each of these takes a column in each of the array's steps, so the cutoff leaves t what is left of the link.
        """
        limit, dram = self._limit(t), self.completions.machine.dram
        if limit.cycles < NO_STREAM_LIMIT.cycles:
            drawn = len(self._drawn_beside(t)) * self._least_steps * min_column_cycles(dram)
            limit = limit._replace(cycles=limit.cycles - drawn + max(0, last_run_excess(dram)))
        return self.completions.min_figures(t, self._in_time(orders), limit, known)

    @property
    def _least_steps(self) -> int:
        """The array's steps in any mapping, at least."""
        return -(-self.master.layer.macs // self.master.arch.pe_array.macs_per_cycle)

    def _drawn_beside(self, t: Tensor) -> list[Tensor]:
        """Return the other tensors of t's bus or bank that the MACs draw from DRAM."""
        others = Tensor if self.completions.machine.is_bus_shared else self.master.restriction.part(t)
        return [u for u in others if u is not t and self.nest.consumers(u)[0] == MACS]

    def _same_stream(self, t: Tensor, levels: list[Level], is_contiguous: bool) -> Validity:
        """Return the mappings in which t has the solution's stream beside the tensors that the MACs draw."""
        drawn, validity = self._drawn_beside(t), self.validities.same_stream(t, levels, is_contiguous)
        return validity.without(lambda p: [p.b.negated(p.v.first_consumer(MACS, u)) for u in drawn])

    def _limit(self, t: Tensor) -> StreamLimit:
        """Return up to what t's stream is counted: as far as the cutoff leaves room in any mapping. If only activations
        matter, a long stream no further than needed to raise the solution's cost by the share `cut_step`, or above the
        cutoff: if no order keeps this limit, the cut still says so.
        """
        completions, limit, charged = self.completions, self.completions.stream_limits[t], self.solution.activations[t]
        each = completions.objective.weights[1] * completions.machine.activation_fj
        if completions.sees_cycles or not each or not is_long(self.nest, t):
            return limit
        cost = self.solution.value(self.master.cost)
        spare = int(cost * completions.parameters.cut_step)
        spare = spare if completions.cutoff is None else min(spare, completions.cutoff - cost)
        return limit._replace(activations=min(limit.activations, charged + max(0, spare) // each))

    def _in_time(self, orders: Iterable[Order]) -> Iterator[Order]:
        """Yield all orders, or raise `OutOfTime`: a minimum over some of them proves nothing."""
        for order in orders:
            if self.cut_pool.is_over():
                raise OutOfTime
            yield order


def _costs_at_least(value: int) -> Callable[[MasterProblem, Lit], None]:
    """Require a cost of a master problem."""
    return lambda p, is_valid: p.b.imply([is_valid], p.cost >= value)


class TooManyOrders(Exception):
    """A solution has more loop orders than are counted."""
