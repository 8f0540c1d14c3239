"""The best plan of the declared space with a lower bound: elimination over homes, node proofs when they are needed.

Every round minimises over the lower bounds of all node problems, which bounds all plans from below, and then tightens
what that optimum uses: partitions whose data movement was not computed, plain bounds, node problems that were not
solved. When it uses none of these, its cost is that of a plan, which is optimal.
"""

import time
from collections.abc import Sequence

from cpsat_pim.base.interrupts import interrupt_stops
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.eliminate import INFINITE, TooLarge
from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.fit import Fitting
from cpsat_pim.planner.instance import Choice, Instance
from cpsat_pim.planner.labels.fitting import LabelFitting
from cpsat_pim.planner.membership import offered
from cpsat_pim.planner.nodes import NodeCosts
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.refusal import refuse
from cpsat_pim.planner.room import limit_steps
from cpsat_pim.planner.seek import seek_plan
from cpsat_pim.planner.solved import Incumbent, Report, SearchLimits, SolvedPlan, ignore, statistics_of
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.tensors import Graph
from cpsat_pim.planner.tighten import Tightening, layers_of
from cpsat_pim.planner.weighing import FREE_BYTES, Price


def solve_plan(
    graph: Graph,
    array: NodeArray,
    space: Space,
    objective: Objective,
    costs: NodeCosts,
    limits: SearchLimits | None = None,
    report: Report = ignore,
    *,
    then_energy: bool = False,
    incumbents: Sequence[Plan] = (),
) -> SolvedPlan:
    """Return the best plan of the space.

    `then_energy`: of all plans of the least latency that with the least energy. `incumbents`: plans that are known;
    the result is never worse. A stop of `costs`, or Ctrl-C, ends the search with what it has.

    Raises:
        ValueError: the node programs of a layer have no mapping, or an incumbent breaks a constraint of the space.
    """
    limits = limits or SearchLimits()
    costs.report = report
    with interrupt_stops(costs.stop):
        started = time.monotonic()
        search = _Search(Instance(graph, array, space, objective, costs), limits, report, then_energy, started)
        search.offer(incumbents)
        return search.run()


class _Search:
    """Rounds of elimination and tighter bounds."""

    def __init__(
        self, instance: Instance, limits: SearchLimits, report: Report, then_energy: bool, started: float
    ) -> None:
        self.instance, self.costs, self.limits, self.report = instance, instance.costs, limits, report
        self.then_energy = then_energy
        self.started = started
        self.until = self.started + limits.time_limit
        self.seek_from = self.started + limits.time_limit * limits.seek_percent / 100
        self.has_sought, self.owed = False, 0.0
        self.rounds, self.bound, self.energy_bound, self.found = 0, 0, 0, Incumbent()
        self.offered: list[Incumbent] = []
        #: What the smallest plan that was evaluated takes on its fullest node.
        self.smallest_bytes = INFINITE
        self.tightening = Tightening(
            costs=self.costs,
            limits=limits,
            until=self.until,
            is_over=lambda: self.is_over,
            is_paused=lambda: self.is_over or self.is_seek_due,
            slack=lambda: self.slack,
            factor=instance.distinct[0].share.factor,
            then_energy=lambda: self.then_energy,
        )

    @property
    def is_over(self) -> bool:
        """Whether the time is up or a stop was asked for."""
        return self.costs.stop.is_set() or time.monotonic() >= self.until

    @property
    def is_seek_due(self) -> bool:
        """Whether a plan is to be sought, as there is none and much of the time is over."""
        return self.found.plan is None and not self.has_sought and time.monotonic() > self.seek_from

    @property
    def is_too_large(self) -> bool:
        """Whether the best plan takes more of a node than there is."""
        return self.found.cost is not None and self.found.cost.peak_bytes > self.instance.array.capacity_bytes

    @property
    def is_fit_due(self) -> bool:
        """Whether one that fits is to be sought: the best plan does not, and is nearly proven or much time is over."""
        is_near = self.found.value - self.bound <= self.limits.fit_gap * self.found.value
        return self.is_too_large and (is_near or time.monotonic() > self.seek_from)

    @property
    def is_first_proven(self) -> bool:
        """Whether no plan is better by the objective."""
        return self.found.plan is not None and self.found.value <= self.bound

    @property
    def is_proven(self) -> bool:
        """Whether no plan is better by the objective, nor by energy if that is the second one."""
        return self.is_first_proven and not (self.then_energy and self.found.tie > self.energy_bound)

    @property
    def slack(self) -> int | None:
        """By so much the optimum over lower bounds may rise before no plan is of use; None if nothing is known."""
        return None if self.found.plan is None else max(1, self.found.value - self.bound + self.then_energy)

    def offer(self, plans: Sequence[Plan]) -> None:
        """Take the best of some plans as a start."""
        self.offered += [offered(self.instance, plan) for plan in plans]
        self._take_offered(fitting=False)

    def _take_offered(self, fitting: bool) -> None:
        for one in self.offered:
            fits = one.cost is not None and one.cost.peak_bytes <= self.instance.array.capacity_bytes
            if (one.value, one.tie) < (self.found.value, self.found.tie) and (fits or not fitting):
                self.found = one

    # --- Rounds ------------------------------------------------------------------------------------------------------

    def run(self) -> SolvedPlan:
        """Tighten until a plan costs no more than the bound, or the time is up."""
        if self.instance.least_peak_bytes > self.instance.array.capacity_bytes:
            return self._answer()
        limit_steps(self.instance, self.instance.array.capacity_bytes)
        for options in self.instance.distinct:
            options.look_at_solved(self.limits.batch, self.tightening.is_paused)
        self._keep_best()  # of node problems that were solved before
        for count in (1, self.limits.batch - 1):
            for options in self.instance.distinct:
                options.look_at(count, self.tightening.is_paused)
        self._keep_best()
        while not (self.is_over or self.is_proven or self.is_fit_due):
            lower = self.instance.minimize(upper=False)
            self._raise_bounds(lower)
            if self.is_proven or lower.cost >= INFINITE or not (self._tighten(lower) or self.is_seek_due):
                break
            if self.is_seek_due:
                self._seek_any_plan()
        if self.found.plan is None and not (self.has_sought or self.costs.stop.is_set()):
            self._seek_any_plan()
        if not self.is_proven:
            self._raise_bounds(self.instance.minimize(upper=False))  # by what the last solves proved
        if self.found.plan is None:
            self._keep_best()
        if self.found.plan and (self.is_too_large or not self._is_allowed(self.found.plan)):
            self._fit()
        return self._answer()

    def _is_allowed(self, plan: Plan) -> bool:
        return not self.instance.space.constraints.has_too_many_layouts(plan)

    def _seek_any_plan(self) -> int:
        self.has_sought = True
        self.report("no plan yet: the best one of the partitions that were looked at is sought")
        share = self.limits.time_limit * self.limits.seek_share_percent / 100
        return self._seek_plan(time.monotonic() + share, is_late=True)

    def _seek_first_plan(self) -> int:
        """Seek a plan until one is sought in any case, then that; return how many node problems were solved."""
        solved = self._seek_plan(self.seek_from)
        return solved + self._seek_any_plan() if self.is_seek_due else solved

    def _seek_in_turn(self, seconds: float) -> int:
        """Seek a better plan for a share of the seconds that bounds took; return how many node problems were solved."""
        begun, self.owed = time.monotonic(), self.owed + seconds * self.limits.turn_percent / 100
        solved = self._seek_plan(begun + self.owed) if self.found.plan else 0
        self.owed -= time.monotonic() - begun
        return solved

    def _seek_plan(self, until: float, *, is_late: bool = False) -> int:
        """Seek a plan that is better, up to a time; return how many node problems were solved."""
        solves, until = self.costs.solves, min(self.until, until)
        seek_plan(self.instance, self.tightening, until, lambda: self.found.value, self._keep_best, is_late)
        return self.costs.solves - solves

    def _raise_bounds(self, lower: Choice) -> None:
        """Take over the bounds that an optimum over lower bounds proves."""
        self.bound = max(self.bound, lower.cost)
        if self.is_first_proven and lower.cost == self.found.value:
            # A plan of the least latency has node programs whose bounds add up to exactly that; of these the optimum
            # over lower bounds has the least bound on energy.
            self.energy_bound = max(self.energy_bound, lower.tie)

    def _tighten(self, lower: Choice, price: Price = FREE_BYTES) -> bool:
        """Tighten what an optimum uses, cheapest first; return whether anything was."""
        self.rounds += 1
        uses, refined = self.instance.uses(lower), 0
        best = [(use, use[0].best(use[1], price=price)) for use in uses]
        for parallel, number, region in self.instance.missing(lower):
            if not self.is_over:
                parallel.compute(number, region, self.limits.batch)
                refined += 1
        refined += self.tightening.look_at(best, price)
        is_free = price == FREE_BYTES
        solved = self._seek_first_plan() if is_free and not refined and self.found.plan is None else 0
        begun = time.monotonic()
        refined = refined or self.tightening.refine(best, price)
        if not refined:
            solved += self.tightening.solve(self.tightening.useful(best, price), layers=layers_of(uses, best))
        if is_free:
            self._keep_best()
            solved += self._seek_in_turn(time.monotonic() - begun)
        self.report(
            f"round {self.rounds}: bound {self.bound:,}, best {f'{self.found.value:,}' if self.found.plan else '-'}, "
            f"{refined} bounds refined, {solved} problems solved, {time.monotonic() - self.started:.1f} s"
        )
        return refined + solved > 0

    def _keep_best(self) -> None:
        """Keep the best plan of solved node problems, if it is better than what is known."""
        upper = self.instance.minimize(upper=True)
        if upper.cost >= INFINITE or (upper.cost, upper.tie) >= (self.found.value, self.found.tie):
            return
        plan = self.instance.plan(upper)
        cost, value = self.instance.value(plan)
        # The plan recosts itself by another way than the tables, which leave out what links carry for several regions.
        assert value == upper.cost or (upper.ways and value > upper.cost), (value, upper.cost)
        tie = cost.energy_fj if upper.ways else upper.tie
        if (value, tie) < (self.found.value, self.found.tie):
            self.found = Incumbent(value=value, plan=plan, cost=cost, tie=tie)

    # --- Capacity ----------------------------------------------------------------------------------------------------

    def _fit(self) -> None:
        """Give bytes a price, if the best plan of all does not fit, then set labels; problems these use are solved.

        The bound of all plans stays one of those that fit.
        """
        array, is_too_large = self.instance.array, self.is_too_large
        self.found, self.then_energy = Incumbent(), False
        self.has_sought = True  # plans are sought at prices from now on
        self._take_offered(fitting=True)
        if self.bound >= INFINITE:
            return
        if not is_too_large:
            self.report("the best plan has too many layouts: homes and options that are left become one model")
            self._set_labels(FREE_BYTES)
            return
        self.report(f"the best plan takes more than the {array.capacity_bytes:,} bytes of a node: bytes get a price")
        while True:
            fitting = Fitting(
                self.instance.minimize,
                self.instance.plan,
                self.instance.value,
                array.capacity_bytes,
                array.capacity_bytes if self.instance.parallels else self.instance.most_weight_bytes,
                is_over=lambda: self.is_over,
                is_allowed=self._is_allowed,
            )
            fit = fitting.run()
            self.bound = max(self.bound, fit.bound)
            self.smallest_bytes = min(self.smallest_bytes, fit.least_peak_bytes)
            if fit.value < self.found.value and fit.cost is not None:
                self.found = Incumbent(value=fit.value, tie=fit.cost.energy_fj, plan=fit.plan, cost=fit.cost)
            if self.is_over or self.is_first_proven:
                return
            prices = [fit.bound_price or fitting.highest_price, *([] if fit.plan else [fitting.highest_price])]
            if not any(self._tighten_at(one, fitting) for one in prices):
                break
        self._set_labels(prices[0])

    def _tighten_at(self, price: Price, fitting: Fitting) -> bool:
        """Tighten all that optima at a price use, without a plan up to the next solves; return whether anything was."""
        is_tighter, solves = False, self.costs.solves
        while not self.is_over and (self.found.plan or self.costs.solves == solves):
            if not self._tighten(fitting.raise_bound(price), price):
                break
            is_tighter = True
        self.bound = max(self.bound, fitting.best.bound)
        return is_tighter

    def _set_labels(self, price: Price) -> None:
        """Close the gap that prices leave, unless branches may run side by side."""
        if self.instance.parallels:
            return
        fitting = LabelFitting(
            instance=self.instance,
            price=price,
            bound=self.bound,
            value=self.found.value,
            tighten=self.tightening.tighten_uses,
            evaluate=self.instance.value,
            offer=self._take,
            is_over=lambda: self.is_over,
            report=self.report,
        )
        try:
            fitting.run()
        except TooLarge as reason:
            self.report(f"labels are not set: {reason}")
        self.bound = max(self.bound, fitting.bound)

    def _take(self, plan: Plan, cost: PlanCost, value: int) -> None:
        self.found = Incumbent(value=value, tie=cost.energy_fj, plan=plan, cost=cost)

    # --- The result --------------------------------------------------------------------------------------------------

    def _answer(self) -> SolvedPlan:
        found, instance = self.found, self.instance
        is_proven = self.is_first_proven and not found.outside
        status = Status.OPTIMAL if is_proven else Status.FEASIBLE if found.plan else Status.UNKNOWN
        if self.bound >= INFINITE or instance.least_peak_bytes > instance.array.capacity_bytes:
            status = Status.INFEASIBLE
        return SolvedPlan(
            status=status,
            space=instance.space,
            objective=instance.objective,
            plan=found.plan,
            cost=found.cost,
            value=found.value if found.plan else None,
            bound=self._answered_bound(status),
            energy_bound=min(self.energy_bound, found.tie) if self.then_energy and is_proven else None,
            interrupted=self.costs.stop.is_set(),
            reason=None if found.plan else self._reason(status),
            outside=found.outside,
            seconds=time.monotonic() - self.started,
            statistics=statistics_of(instance, self.rounds),
        )

    def _answered_bound(self, status: Status) -> int:
        """Return the bound of the plans of the space; of one that is in it, it is no more than its value."""
        bound = self.bound if self.found.outside else min(self.bound, self.found.value)
        return 0 if status is Status.INFEASIBLE else bound

    def _reason(self, status: Status) -> str | None:
        """Return why there is no plan, with the least capacity that would do or where it lies; None if time was up."""
        is_proven = status is Status.INFEASIBLE
        if not is_proven and self.smallest_bytes >= INFINITE:
            return None
        until = min(time.monotonic() + self.limits.time_limit * self.limits.refusal_percent / 100, self.until)
        return refuse(self.instance, is_proven, self.smallest_bytes, until, self.report)
