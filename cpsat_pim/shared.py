"""Choices that all layers of a network share, best for their sum: what levels store, and how tensors lie in DRAM.

A partial choice fixes some decisions for all layers and leaves the others to each. The sum of what layers cost at least
under it bounds all choices that complete it. Best first, a partial choice is taken: its layers are solved under it, as
far as it is not known already what they cost; if they agree on the decisions left, or their mappings can be changed to
agree at no cost, that is the best choice of these. If not, one decision more is fixed, each way.
"""

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.check import check_mapping
from cpsat_pim.constraints import FREE, Constraints, NetworkConstraints, check_constraints
from cpsat_pim.cost import predict
from cpsat_pim.dims import BUFFERS, Level, Tensor
from cpsat_pim.floor import least_cost
from cpsat_pim.interrupts import interrupt_stops
from cpsat_pim.mapping import Mapping
from cpsat_pim.model.orders import input_blocks
from cpsat_pim.result import Objective, SharedChoice, SolvedLayer, SolvedNetwork, Status
from cpsat_pim.run import Report, Task, WorkersDied, as_layer, ignore_progress, run_tasks
from cpsat_pim.verify import verify
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network

#: A value for each decision; None is left to the layers.
Choice = tuple[int | None, ...]

#: What solves under partial choices get less of the time.
_BETWEEN = 4
#: Seconds that a solve gets when there is no time left.
_LEAST_SECONDS = 0.1


# --- Decisions -------------------------------------------------------------------------------------------------------


@frozen
class Decision:
    """Whether a level stores a tensor; without a level, the tensor's axis order in DRAM."""

    tensor: Tensor
    level: Level | None = None

    def of(self, mapping: Mapping) -> int:
        """As a mapping has it."""
        return mapping.layout[self.tensor] if self.level is None else int(mapping.stored[self.level][self.tensor])

    def values(self, arch: PIMArchitecture) -> list[int]:
        """As a machine allows it."""
        return [0, 1] if self.level is None else [int(v) for v in arch.storing_choices(self.level, self.tensor)]


def _stored(*levels: Level) -> tuple[Decision, ...]:
    return tuple(Decision(t, m) for m in levels for t in Tensor)


#: What can be shared, by name. At the row buffer, to store is to be row-aligned in DRAM.
SHARES = {
    "bypass": _stored(*BUFFERS),
    "layout": (*_stored(Level.ROW_BUFFER), *(Decision(t) for t in Tensor)),
}
#: What the seeds share.
ON_CHIP = _stored(Level.PE, Level.GLOBAL_BUFFER)


def decisions_of(names: Iterable[str]) -> tuple[Decision, ...]:
    """The decisions that go by some names of `SHARES`.

    Raises:
        ValueError: there are no names, or one is unknown.
    """
    names = [*names]
    for name in names:
        if name not in SHARES:
            raise ValueError(f"share: must be of {', '.join(SHARES)} (got {name!r})")
    if not names:
        raise ValueError(f"share: must name something of {', '.join(SHARES)}")
    return tuple(dict.fromkeys(decision for name in names for decision in SHARES[name]))


def constrained(own: Constraints, decisions: Sequence[Decision], choice: Choice) -> Constraints | None:
    """A layer's own constraints and a choice; None if they contradict each other."""
    tables: list[list[Any]] = [[*row] for row in (*own.stored, own.layout)]
    for decision, value in zip(decisions, choice, strict=True):
        row = tables[-1 if decision.level is None else decision.level]
        if value is None:
            continue
        if row[decision.tensor] not in (None, value):
            return None
        row[decision.tensor] = value if decision.level is None else bool(value)
    return attrs.evolve(own, stored=tables[:-1], layout=tables[-1])


def changed(mapping: Mapping, layer: ConvWorkload, decisions: Sequence[Decision], choice: Choice) -> Mapping:
    """A mapping with other decisions and the same loops, legal or not; a new input block is the tile."""
    stored, layout = [list(row) for row in mapping.stored], list(mapping.layout)
    for decision, value in zip(decisions, choice, strict=True):
        if value is not None and decision.level is None:
            layout[decision.tensor] = value
        elif value is not None and decision.level is not None:
            stored[decision.level][decision.tensor] = bool(value)
    is_aligned = stored[Level.ROW_BUFFER][Tensor.I]
    blocks = (mapping.block_h, mapping.block_w)
    if is_aligned != mapping.stored[Level.ROW_BUFFER][Tensor.I]:
        blocks = input_blocks(layer, mapping)[-1] if is_aligned else (0, 0)
    return attrs.evolve(mapping, stored=stored, layout=layout, block_h=blocks[0], block_w=blocks[1])


# --- One layer -------------------------------------------------------------------------------------------------------


class Part:
    """What is known of one layer under partial choices; `count` is how often it occurs, `start` a mapping of it."""

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        objective: Objective,
        decisions: Sequence[Decision],
        own: Constraints = FREE,
        start: Mapping | None = None,
    ) -> None:
        self.layer, self.arch, self.objective, self.decisions = layer, arch, objective, decisions
        self.own, self.start, self.count = own, start, 0
        self.answers: dict[Choice, SolvedLayer] = {}
        self._screened: dict[Constraints, int | None] = {}
        self._costs: dict[Mapping, int | None] = {}

    def floor(self, choice: Choice) -> int | None:
        """No mapping under a choice costs less; None if there is none."""
        known = [self._screen(choice)]
        known += [bound_of(answer) for wider, answer in self.answers.items() if _covers(wider, choice)]
        return None if None in known else max(n for n in known if n is not None)

    def best(self, choice: Choice) -> tuple[int, Mapping] | None:
        """The cheapest mapping known under a choice, and its cost: one that was found, changed if need be."""
        mappings = dict.fromkeys(self._changed(answer, choice) for answer in self.answers.values() if answer.mapping)
        costs = [(cost, mapping) for mapping in mappings if (cost := self._cost(mapping)) is not None]
        return min(costs, key=lambda known: known[0], default=None)

    def value(self, choice: Choice) -> int | None:
        """Its cost."""
        best = self.best(choice)
        return None if best is None else best[0]

    def is_settled(self, choice: Choice) -> bool:
        """Whether a solve under a choice would tell nothing new. Out of time under a wider choice, and with a mapping
        that is of this one, too, it would not, unless the choice is whole: then there is least to search.
        """
        if self.value(choice) == self.floor(choice) or choice in self.answers:
            return True
        return None in choice and any(
            _covers(wider, choice) and self._has(answer, choice) for wider, answer in self.answers.items()
        )

    def constraints(self, choice: Choice) -> Constraints | None:
        """Its own and the choice's; None if they contradict each other."""
        return constrained(self.own, self.decisions, choice)

    def answer(self, choice: Choice) -> SolvedLayer:
        """What is known under a choice that has a mapping, as a solve would say it; checked and simulated.

        Raises:
            Disagreement: the mapping is illegal, or some exact figure was predicted wrongly.
        """
        best, floor = self.best(choice), self.floor(choice) or 0
        assert best is not None
        value, mapping = best
        prediction = predict(self.layer, self.arch, mapping)
        return attrs.evolve(
            self.unanswered(Status.OPTIMAL if floor >= value else Status.FEASIBLE),
            constraints=self.constraints(choice) or self.own,
            mapping=mapping,
            prediction=prediction,
            simulated=verify(self.layer, self.arch, mapping, prediction),
            bound=self.objective.reported(min(floor, value)),
        )

    def unanswered(self, status: Status) -> SolvedLayer:
        """No mapping, after all the time that was spent."""
        seconds = sum(answer.solve_seconds for answer in self.answers.values())
        nothing: dict[str, Any] = {"mapping": None, "prediction": None, "simulated": None, "bound": None}
        first = next(iter(self.answers.values()))
        return attrs.evolve(first, status=status, solve_seconds=seconds, constraints=self.own, progress=(), **nothing)

    def _screen(self, choice: Choice) -> int | None:
        """What a look at the factors tells; axis orders do not matter to it."""
        constraints = self.constraints(choice)
        if constraints is None:
            return None
        constraints = attrs.evolve(constraints, layout=self.own.layout)
        if constraints not in self._screened:
            self._screened[constraints] = least_cost(self.layer, self.arch, self.objective, constraints)
        return self._screened[constraints]

    def _has(self, answer: SolvedLayer, choice: Choice) -> bool:
        """Whether an answer's mapping is of a choice as it is."""
        return answer.mapping is not None and self._changed(answer, choice) == answer.mapping

    def _changed(self, answer: SolvedLayer, choice: Choice) -> Mapping:
        assert answer.mapping is not None
        return changed(answer.mapping, self.layer, self.decisions, choice)

    def _cost(self, mapping: Mapping) -> int | None:
        """What a mapping costs; None if it is illegal or breaks the layer's own constraints."""
        if mapping not in self._costs:
            is_legal = not check_mapping(self.layer, self.arch, mapping) and not check_constraints(mapping, self.own)
            self._costs[mapping] = self._exact_cost(mapping) if is_legal else None
        return self._costs[mapping]

    def _exact_cost(self, mapping: Mapping) -> int:
        figures = predict(self.layer, self.arch, mapping).figures
        return self.objective.value(figures.latency_cycles, figures.energy_fj)


def _covers(wider: Choice, choice: Choice) -> bool:
    """Whether all that one choice fixes the other one fixes likewise."""
    return all(w is None or w == c for w, c in zip(wider, choice, strict=True))


def bound_of(answer: SolvedLayer) -> int | None:
    """An integer bound of an answer, None if there is no mapping."""
    return None if answer.status is Status.INFEASIBLE else answer.least_cost or 0


# --- The search ------------------------------------------------------------------------------------------------------

#: Solves some parts under a choice and leaves the answers with them; a part without one was not begun.
Solve = Callable[[Sequence[Part], Choice], None]


class SharedSearch:
    """Best-first search over partial choices; `jobs` parts may be solved at once.

    `total`, `choice`: the least sum known, in the objective's integers, and its whole choice.
    """

    def __init__(self, parts: Sequence[Part], solve: Solve, is_over: Callable[[], bool], jobs: int = 1) -> None:
        self.parts = parts
        self._solve, self._is_over, self._jobs = solve, is_over, jobs
        self._values = [decision.values(parts[0].arch) for decision in parts[0].decisions]
        #: What nothing but the machine has fixed.
        self.free: Choice = tuple(values[0] if len(values) == 1 else None for values in self._values)
        self.choice: Choice | None = None
        self.total: int | None = None
        self._open: list[tuple[int, int, Choice]] = []
        self._numbers = itertools.count()
        self._unproven: list[int] = []

    @property
    def bound(self) -> int | None:
        """No choice has a lower sum; None if none suits all parts."""
        total = [] if self.total is None else [self.total]
        return min([*total, *self._unproven, *(floor for floor, _, _ in self._open)], default=None)

    @property
    def status(self) -> Status:
        """As of a solve."""
        if self.total is None:
            return Status.INFEASIBLE if self.bound is None else Status.UNKNOWN
        return Status.OPTIMAL if self.bound == self.total else Status.FEASIBLE

    def run(self) -> None:
        """Begin with a choice that is likely to be good; then pursue what has the lowest bound."""
        self._solve(self.parts, self.free)
        if not all(part.answers for part in self.parts):
            self._unproven.append(0)  # stopped before anything is known
            return
        self._add(self.free, 0)
        self._try(self._agreed(self.free))
        self._climb()
        while self._open and not self._is_over():
            floor, _, choice = heapq.heappop(self._open)
            if self.total is not None and floor >= self.total:
                return
            for further in self._pursue(choice, floor):
                self._add(further, floor)

    def _climb(self) -> None:
        """Change single decisions of the best choice, as long as that helps: little is left to search in whole ones."""
        before = None
        while self.choice and self.total != before:
            before = self.total
            for whole in sorted(self._neighbours(self.choice), key=lambda whole: self._floor(whole) or 0):
                if self.total == before:
                    self._try(whole)

    def _neighbours(self, whole: Choice) -> Iterator[Choice]:
        """The choices that differ in one decision."""
        for i, values in enumerate(self._values):
            yield from (_with(whole, i, value) for value in values if value != whole[i])

    def _pursue(self, choice: Choice, floor: int) -> Sequence[Choice]:
        """What is to be pursued instead of a choice: itself, when more is known of it; its two halves; nothing."""
        known = self._floor(choice)
        if known is None or known > floor:
            return [choice]
        if (narrower := self._forced(choice)) != choice:
            return [narrower]
        if unsettled := self._unsettled(choice):
            self._solve(unsettled[: self._jobs], choice)
            return [choice]
        total = self._try(self._agreed(choice))
        if total is not None and total <= floor:
            return []
        if None not in choice:
            self._unproven.append(floor)  # only longer solves would tell more
            return []
        return self._halves(choice)

    def _try(self, whole: Choice) -> int | None:
        """The sum under a whole choice, kept if it is the least; solved as long as it may be."""
        while (unsettled := self._unsettled(whole)) and self._may_win(whole) and not self._is_over():
            self._solve(unsettled[: self._jobs], whole)
        total = self.sum_of_best(whole)
        if total is not None and (self.total is None or total < self.total):
            self.total, self.choice = total, whole
        return total

    def _may_win(self, choice: Choice) -> bool:
        floor = self._floor(choice)
        return floor is not None and (self.total is None or floor < self.total)

    def _unsettled(self, choice: Choice) -> list[Part]:
        """The parts that may cost more under a choice than is known, those with most to learn first."""

        def unknown(part: Part) -> int:
            return part.count * ((part.value(choice) or 2 * (part.floor(choice) or 0)) - (part.floor(choice) or 0))

        return sorted((part for part in self.parts if not part.is_settled(choice)), key=unknown, reverse=True)

    def _add(self, choice: Choice, floor: int) -> None:
        """Keep for later, unless it suits some part not at all."""
        known = self._floor(choice)
        if known is not None:
            heapq.heappush(self._open, (max(known, floor), next(self._numbers), choice))

    def answer(self, part: Part) -> SolvedLayer:
        """A part's under the choice found.

        Raises:
            Disagreement: the mapping is illegal, or some exact figure was predicted wrongly.
        """
        return part.unanswered(self.status) if self.choice is None else part.answer(self.choice)

    # Sums

    def _floor(self, choice: Choice) -> int | None:
        return _sum((part.count, part.floor(choice)) for part in self.parts)

    def sum_of_best(self, choice: Choice) -> int | None:
        """Of what is known of the parts by themselves under a choice."""
        return _sum((part.count, part.value(choice)) for part in self.parts)

    # Decisions

    def _agreed(self, choice: Choice) -> Choice:
        """A whole choice: each decision as it costs least by itself."""
        return tuple(self._cheapest(choice, i) if fixed is None else fixed for i, fixed in enumerate(choice))

    def _cheapest(self, choice: Choice, i: int) -> int:
        return min(self._values[i], key=lambda value: self._regret(choice, i, value))

    def _forced(self, choice: Choice) -> Choice:
        """The choice with the decisions that can go but one way, as the other one cannot be better than the best."""
        for i, fixed in enumerate(choice):
            if fixed is None and self.total is not None:
                values = [value for value in self._values[i] if self._rise(choice, i, value) is not None]
                choice = _with(choice, i, values[0]) if len(values) == 1 else choice
        return choice

    def _halves(self, choice: Choice) -> list[Choice]:
        """The two ways to fix the decision that raises the bounds most, or else is likely to."""

        def worth(i: int) -> tuple[int, int]:
            rises = [self._rise(choice, i, value) for value in self._values[i]]
            least_regret = min(self._regret(choice, i, value) for value in self._values[i])
            return math.prod(1 + (self.total or 0 if rise is None else rise) for rise in rises), least_regret

        i = max((i for i, fixed in enumerate(choice) if fixed is None), key=worth)
        return [_with(choice, i, value) for value in self._values[i]]

    def _rise(self, choice: Choice, i: int, value: int) -> int | None:
        """By how much a decision raises the bound, as far as is known before solving; None if that rules it out."""
        fixed, terms = _with(choice, i, value), []
        for part in self.parts:
            is_kept = part.value(choice) is not None and part.value(choice) == part.value(fixed)
            terms.append((part.count, part.floor(choice if is_kept else fixed)))
        before, after = self._floor(choice), _sum(terms)
        if before is None or after is None or (self.total is not None and after >= self.total):
            return None
        return after - before

    def _regret(self, choice: Choice, i: int, value: int) -> int:
        """What a decision is likely to add to the sum: so much do the mappings known cost more if they are changed."""
        fixed, regret = _with(choice, i, value), 0
        for part in self.parts:
            before, after = part.value(choice), part.value(fixed)
            if before is not None:
                regret += part.count * (before if after is None else after - before)
        return regret


def _with(choice: Choice, i: int, value: int) -> Choice:
    return (*choice[:i], value, *choice[i + 1 :])


def _sum(terms: Iterable[tuple[int, int | None]]) -> int | None:
    """The sum of so many times so much; None if some term has no value."""
    total = 0
    for count, value in terms:
        if value is None:
            return None
        total += count * value
    return total


# --- Networks --------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Solving:
    """How parts are solved: `time_limit` seconds each, until `end`, `jobs` at a time; `lost`: by workers that died."""

    time_limit: float
    end: float = math.inf
    seed: int = 0
    jobs: int = 1
    report: Report = ignore_progress
    stop: threading.Event = field(factory=threading.Event)
    lost: list[str] = field(factory=list)

    def is_over(self) -> bool:
        """Whether the time is up, a stop was asked for, or a worker died."""
        return self.stop.is_set() or time.monotonic() >= self.end or bool(self.lost)

    def __call__(self, parts: Sequence[Part], choice: Choice) -> None:
        """Solve the parts under a choice, the longest first, in half of the time that is left; under a partial one
        but the first in less than what a solve may take, as parts of it are looked at again.

        Raises:
            Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
        """
        parts = sorted(parts, key=lambda part: -part.layer.macs)
        rounds = -(-len(parts) // self.jobs)
        share = max(_LEAST_SECONDS, (self.end - time.monotonic()) / (2 * rounds))
        is_between = None in choice and any(part.answers for part in parts)
        limit = min(self.time_limit / _BETWEEN if is_between else self.time_limit, share)
        tasks = [self._task(str(i), part, choice, limit) for i, part in enumerate(parts)]
        answers = run_tasks(tasks, self.jobs, self.report, self.stop)
        for task, part in zip(tasks, parts, strict=True):
            answer = answers.get(task.key)
            if answer is not None:
                part.answers[choice] = answer
            elif task.key in answers:
                self.lost.append(part.layer.name)

    def _task(self, key: str, part: Part, choice: Choice, time_limit: float) -> Task:
        best = part.best(choice)
        return Task(
            key=key,
            layer=part.layer,
            arch=part.arch,
            objective=part.objective,
            time_limit=time_limit,
            seed=self.seed,
            start=best[1] if best else None if part.answers else part.start,
            constraints=part.constraints(choice) or part.own,
        )


def solve_shared(
    network: Network,
    arch: PIMArchitecture,
    objective: Objective,
    *,
    share: Sequence[str],
    names: Sequence[str] | None = None,
    time_limit: float = 60.0,
    total_time: float = math.inf,
    seed: int = 0,
    jobs: int = 1,
    report: Report = ignore_progress,
    stop: threading.Event | None = None,
    starts: dict[str, Mapping] | None = None,
    constraints: Constraints | NetworkConstraints = FREE,
) -> SolvedNetwork:
    """Every layer of a network (or those named) under the shared choice that is best for the sum of all.

    `share` names what is shared: `bypass`, what each level stores; `layout`, axis orders in DRAM and which tensors are
    row-aligned. `time_limit` seconds a solve, `total_time` for all; the rest is as in `cpsat_pim.run.solve_network`.

    Raises:
        ValueError: `share` names nothing, or something unknown; and see `solve_network`.
        Disagreement, WorkersDied: see `solve_network`.
    """
    started = time.monotonic()
    nodes = (network if names is None else network.only(names)).layers
    decisions, whole = decisions_of(share), NetworkConstraints.whole(constraints)
    parts: dict[str, Part] = {}
    for node in nodes:
        part = Part(node.workload, arch, objective, decisions, whole.of(node.name), (starts or {}).get(node.name))
        part = parts.setdefault(whole.key(node.name, node.workload), part)
        part.count += node.count
    solving = Solving(
        time_limit=time_limit,
        end=started + total_time,
        seed=seed,
        jobs=jobs,
        report=report,
        stop=stop or threading.Event(),
    )
    search = SharedSearch([*parts.values()], solving, solving.is_over, jobs)
    with interrupt_stops(solving.stop):
        search.run()
    answers = {key: search.answer(part) for key, part in parts.items() if part.answers}
    known = [(node, answers.get(whole.key(node.name, node.workload))) for node in nodes]
    solved = SolvedNetwork(
        network=network.name,
        arch=arch,
        objective=objective,
        layers=tuple(as_layer(node, answer) for node, answer in known if answer),
        seconds=time.monotonic() - started,
        interrupted=solving.stop.is_set() or bool(solving.lost),
        shared=_shared(search, share),
    )
    if solving.lost:
        raise WorkersDied(solved, solving.lost)
    return solved


def _shared(search: SharedSearch, share: Sequence[str]) -> SharedChoice:
    """What is shared, in the reported unit."""
    first = search.parts[0]

    def reported(value: int | None) -> int | float | None:
        return None if value is None else first.objective.reported(value)

    return SharedChoice(
        share=tuple(share),
        choice=None if search.choice is None else constrained(FREE, first.decisions, search.choice),
        status=search.status,
        objective_value=reported(search.total),
        bound=reported(search.bound),
        free=reported(search.sum_of_best(search.free)),
        solves=sum(len(part.answers) for part in search.parts),
    )
