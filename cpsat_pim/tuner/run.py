"""Tune: a method's trials one after the other, and a bound of the whole space (docs/tuner.md)."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from attrs import field, frozen

from cpsat_pim.base.validate import as_tuple, one_of, positive, text
from cpsat_pim.study.sweep.engine import Engine
from cpsat_pim.study.sweep.job import Outcome
from cpsat_pim.study.sweep.plan import Shard
from cpsat_pim.study.sweep.store import Store
from cpsat_pim.tuner.analytic import AnalyticCost
from cpsat_pim.tuner.exact import ExactLimits, ExactResult, best_hardware
from cpsat_pim.tuner.methods import METHODS, MethodOptions, build_method
from cpsat_pim.tuner.space import Design, HardwareSpace
from cpsat_pim.tuner.task import ANALYTIC, TuneTask
from cpsat_pim.tuner.trials import TrialStore, here

EXACT = "exact"
#: The most machines of a space whose floors are all computed, to evaluate machines in their order.
SMALL = 10_000
#: Random machines by which the share of those within the area is estimated.
_SAMPLES = 20_000

#: Receives the run's name, a trial, and the least cost so far.
OnTrial = Callable[[str, "Trial", float], None]


@frozen(kw_only=True)
class TunePlan:
    """A task, and the methods and seeds that search for it: a run each.

    `methods`: those of `methods.METHODS`, and `exact`, which proves the optimum of the analytic cost. `trials` of a
    run; `side_by_side`: trials that are chosen before the first of them is evaluated, so that engines have work.

    Raises:
        ValueError: an unknown method, or a number that is not positive.
    """

    name: str = field(validator=text)
    task: TuneTask
    methods: tuple[str, ...] = field(default=("gp",), converter=as_tuple)
    seeds: tuple[int, ...] = field(default=(0,), converter=as_tuple)
    trials: int = field(default=60, validator=positive)
    initial: int = field(default=10, validator=positive)
    side_by_side: int = field(default=1, validator=positive)

    def __attrs_post_init__(self) -> None:
        rule = one_of(*METHODS, EXACT)
        problems = [f"TunePlan.methods: {rule.says} (got {m!r})" for m in self.methods if not rule.holds(m)]
        if problems:
            raise ValueError("\n".join(problems))

    def runs(self, shard: Shard | None = None) -> list["RunName"]:
        """Return the runs of a shard; `exact` has no seed."""
        runs = [RunName(method, seed) for method in self.methods if method != EXACT for seed in self.seeds]
        keys = (shard or Shard()).of(str(run) for run in runs)
        return [run for run in runs if str(run) in keys]


@frozen
class RunName:
    """A method and a seed."""

    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.method} {self.seed}"


@frozen(kw_only=True)
class Trial:
    """A machine that was tried: its values, cost and bound, and its entry of the store; no cost if it failed."""

    values: dict[str, float]
    cost: float
    bound: float
    area_mm2: float
    entry: dict[str, Any] | None
    reason: str | None = None


@frozen(kw_only=True)
class Run:
    """The trials of a method with a seed."""

    name: RunName
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        """The trial of least cost."""
        done = [trial for trial in self.trials if trial.entry is not None]
        return min(done, key=lambda trial: trial.cost, default=None)

    def least_costs(self) -> list[float]:
        """Return the least cost after each trial."""
        found: list[float] = []
        for trial in self.trials:
            found.append(min(trial.cost, found[-1] if found else math.inf))
        return found


@frozen(kw_only=True)
class Tuned:
    """All runs, the optimum of the analytic cost or its bound, and how many machines there are.

    `exact`: None if no bound was asked for. `feasible_share`: estimated share of machines within the area.
    `reference`: the machine whose analytic cost is 1, at the fidelity of the task.
    """

    plan: TunePlan
    runs: tuple[Run, ...]
    exact: ExactResult | None
    feasible_share: float
    reference: Trial
    #: The evaluation, at the fidelity of the task, of the machine that is best by the analytic cost; None without one.
    proven: Trial | None = None
    #: What `exact` evaluated of a small space at another fidelity than the analytic one.
    ordered: "Ordered | None" = None

    @property
    def all_runs(self) -> tuple[Run, ...]:
        """The runs of methods, and that of `exact` if it evaluated machines in the order of their floors."""
        return (*self.runs, self.ordered.run) if self.ordered else self.runs

    @property
    def best(self) -> Trial | None:
        """The best machine that was tried, at the fidelity of the task."""
        found = [run.best for run in self.all_runs] + [self.proven]
        return min((trial for trial in found if trial and trial.entry), key=lambda trial: trial.cost, default=None)

    @property
    def bound(self) -> float | None:
        """No machine of the space costs less, however its networks are planned; None if it was not asked for."""
        return self.exact.bound if self.exact else None

    @property
    def gap(self) -> float | None:
        """(cost - bound) / cost of the best machine."""
        best, bound = self.best, self.bound
        return None if best is None or bound is None else max(0.0, (best.cost - bound) / best.cost)


@frozen(kw_only=True)
class Ordered:
    """Machines of a small space that were evaluated in the order of their floors, of `size` within the area.

    `left`: no other one has a smaller floor; infinite if there is none. One that failed counts as not evaluated.
    """

    run: Run
    size: int
    left: float

    @property
    def is_proven(self) -> bool:
        """Whether no machine of the space costs less at the fidelity of the task."""
        return self.run.best is not None and self.run.best.cost <= self.left


def tune(
    plan: TunePlan,
    *,
    store: Store | None = None,
    engine: Engine | None = None,
    shard: Shard | None = None,
    limits: ExactLimits | None = None,
    on_trial: OnTrial | None = None,
) -> Tuned:
    """Run all methods and seeds of a plan. `limits`: of the bound of the space; None asks for no bound.

    Raises:
        MissingExtra: a method needs a package that is not installed.
        StoreError: the store cannot be written.
        ValueError: no machine of the space is within the area.
    """
    engine, task = engine or here(), plan.task
    for method in {name.method for name in plan.runs(shard)}:  # a package that is missing is said before all trials
        build_method(method, task.space, MethodOptions())
    reference = _single(plan, "reference", dict(task.reference), store, engine)
    runs = [run_method(plan, name, store, engine, on_trial) for name in plan.runs(shard)]
    exact = best_hardware(task.space, _analytic(task), limits) if limits else None
    proven = ordered = None
    if EXACT in plan.methods and task.fidelity.name != ANALYTIC and task.space.size <= SMALL:
        ordered = run_in_order(plan, store, engine, on_trial)
    elif EXACT in plan.methods and exact and exact.design:
        proven = _single(plan, EXACT, task.space.values(exact.design), store, engine)
    return Tuned(
        plan=plan,
        runs=tuple(runs),
        exact=exact,
        feasible_share=feasible_share(task.space),
        reference=reference,
        proven=proven,
        ordered=ordered,
    )


@lru_cache(maxsize=1)
def _analytic(task: TuneTask) -> AnalyticCost:
    floors = task.floors()
    return AnalyticCost(floors, task.cost(floors))


def _single(plan: TunePlan, name: str, values: dict[str, float], store: Store | None, engine: Engine) -> Trial:
    """Evaluate one machine that no method chose."""
    trials = TrialStore(plan.task, f"{plan.name} {name}", store, engine)
    return _trial(plan.task.space, values, trials.evaluate([values], {"method": name})[0])


def run_method(plan: TunePlan, name: RunName, store: Store | None, engine: Engine, on_trial: OnTrial | None) -> Run:
    """Run one method with one seed."""
    space = plan.task.space

    def floor(design: Design) -> float:
        return _analytic(plan.task).of_values(space.values(design))

    options = MethodOptions(seed=name.seed, trials=plan.trials, initial=plan.initial, floor=floor)
    method = build_method(name.method, space, options)
    kept = TrialStore(plan.task, f"{plan.name} {name}", store, engine)
    trials: list[Trial] = []
    for first in range(0, plan.trials, plan.side_by_side):
        designs = [method.propose() for _ in range(min(plan.side_by_side, plan.trials - first))]
        machines = [space.values(design) for design in designs]
        answers = kept.evaluate(machines, {"method": name.method, "method_seed": name.seed})
        for design, values, answer in zip(designs, machines, answers, strict=True):
            trial = _trial(space, values, answer)
            trials.append(trial)
            method.learn(design, trial.cost)
            if on_trial:
                on_trial(str(name), trial, min(one.cost for one in trials))
    return Run(name=name, trials=tuple(trials))


def run_in_order(plan: TunePlan, store: Store | None, engine: Engine, on_trial: OnTrial | None) -> Ordered:
    """Evaluate machines of a small space from the least floor on, until no floor is below the least cost.

    What is left costs at least its floor. So the best machine is the optimum at the fidelity of the task, unless the
    trials of the plan do not suffice.
    """
    space = plan.task.space
    fitting = [space.values(design) for design in all_designs(space) if space.fits(design)]
    floors = sorted(((_analytic(plan.task).of_values(values), i) for i, values in enumerate(fitting)))
    kept = TrialStore(plan.task, f"{plan.name} {EXACT}", store, engine)
    trials: list[Trial] = []
    least, left = math.inf, math.inf
    for floor, i in floors:
        if floor >= least or len(trials) == plan.trials:
            left = min(left, floor)
            break
        trial = _trial(space, fitting[i], kept.evaluate([fitting[i]], {"method": EXACT})[0])
        trials.append(trial)
        least, left = min(least, trial.cost), left if trial.entry else min(left, floor)
        if on_trial:
            on_trial(EXACT, trial, least)
    return Ordered(run=Run(name=RunName(EXACT, 0), trials=tuple(trials)), size=len(fitting), left=left)


def _trial(space: HardwareSpace, values: dict[str, float], answer: dict[str, Any] | Outcome) -> Trial:
    if isinstance(answer, Outcome):
        reason = answer.reason or "it was not evaluated"
        return Trial(
            values=values, cost=math.inf, bound=0.0, area_mm2=space.area_mm2(values), entry=None, reason=reason
        )
    return Trial(values=values, cost=answer["cost"], bound=answer["bound"], area_mm2=answer["area_mm2"], entry=answer)


def feasible_share(space: HardwareSpace, samples: int = _SAMPLES) -> float:
    """Estimate the share of designs within the area: of a small space all are counted, of a large one a sample."""
    if space.size <= samples:
        return sum(map(space.fits, all_designs(space))) / space.size
    draw = random.Random(0).random
    designs = (tuple(int(draw() * len(axis.values)) for axis in space.axes) for _ in range(samples))
    return sum(map(space.fits, designs)) / samples


def all_designs(space: HardwareSpace) -> Iterator[Design]:
    """Yield all designs, the last axis fastest."""
    yield from _products([len(axis.values) for axis in space.axes])


def _products(sizes: Sequence[int]) -> Iterator[Design]:
    if not sizes:
        yield ()
        return
    for i in range(sizes[0]):
        yield from ((i, *rest) for rest in _products(sizes[1:]))


def exhaustive(space: HardwareSpace, cost: AnalyticCost) -> tuple[Design | None, float]:
    """Return the best design of a small space by trying all of them."""
    fitting = (design for design in all_designs(space) if space.fits(design))
    costs = ((cost.of_values(space.values(design)), design) for design in fitting)
    least, design = min(costs, default=(math.inf, None))
    return design, least


__all__ = ["EXACT", "Run", "RunName", "Trial", "TunePlan", "Tuned", "all_designs", "exhaustive", "tune"]
