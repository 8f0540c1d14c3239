"""What one step more of a machine would buy: the layer is solved once more on the machine with that one step.

A claim holds for the optima, whether or not they were proven. With no more than `value` and no less than `bound` on
either machine, the share saved is from 1 - value after / bound before to 1 - bound after / value before; it is known
if both were proven. Where all old mappings are legal at their old cost, the optimum cannot be worse and the share not
negative. What was found on one machine is where the solve of the next one starts, if it is legal there, and improves
what is known of those before. So no machine is shown with less than the old mapping is worth on it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from attrs import evolve, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import change_arch
from cpsat_pim.base.dims import BUFFERS, Level
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import verify
from cpsat_pim.mapper.result import Budget, SolvedLayer, Status
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping

#: Solves a layer on a machine, from a mapping if there is one.
Solve = Callable[[PIMArchitecture, Mapping | None], SolvedLayer]
Number = int | float


@frozen(kw_only=True)
class Upgrade:
    """A field of a machine, by its path in files, its value before and after.

    `is_larger`: every mapping of the old machine is legal on the new one and costs the same. `is_faster`: nothing but
    times change.
    """

    path: str
    before: Number
    after: Number
    is_larger: bool = False
    is_faster: bool = False

    def on(self, arch: PIMArchitecture) -> PIMArchitecture:
        """The machine with it."""
        return change_arch(arch, {self.path: self.after})


def upgrades_of(arch: PIMArchitecture) -> Iterator[Upgrade]:
    """One step of everything that there can be more of: twice the buffers, places, banks and bandwidths."""
    shape, unit = arch.pe_array.array_shape, arch.pe_array.compute_unit
    for level in BUFFERS:
        yield _doubled(f"hierarchy.{level.name}.entries", arch.hierarchy[level].entries, is_larger=True)
    yield _doubled("pe_array.array_shape.h", shape.h, is_larger=True)
    yield _doubled("pe_array.array_shape.w", shape.w, is_larger=True)
    if unit.unit_type != "scalar":
        yield _doubled("pe_array.compute_unit.num_macs", unit.num_macs, is_larger=True)
    yield _doubled(f"hierarchy.{Level.DRAM.name}.num_banks", arch.banks)
    for path, rate in _rates(arch):
        if rate is not None:
            yield _doubled(path, rate, is_faster=True)


def _rates(arch: PIMArchitecture) -> Iterator[tuple[str, float | None]]:
    """Bandwidths, None without a limit."""
    for level in BUFFERS:
        for way in ("read", "write"):
            name = f"{way}_bandwidth_limit"
            yield f"hierarchy.{level.name}.{name}", getattr(arch.hierarchy[level], name)
    yield "pe_array.interconnect_bandwidth", arch.pe_array.interconnect_bandwidth


def _doubled(path: str, value: Number, **what: bool) -> Upgrade:
    return Upgrade(path=path, before=value, after=2 * value, **what)


# --- What they buy ---------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Known:
    """What is known of the optimum of some layers: from `bound` to `value`, in the objective's reported unit."""

    bound: Number
    value: Number

    @property
    def is_proven(self) -> bool:
        """Whether it is known."""
        return self.bound == self.value

    @classmethod
    def of(cls, solved: SolvedLayer) -> "Known | None":
        """Of a solved layer, None without a mapping; what is not proven stays apart, though it be rounded."""
        value = solved.objective_value
        if value is None or solved.status is Status.OPTIMAL:
            return None if value is None else cls(bound=value, value=value)
        return cls(bound=min(solved.bound or 0, math.nextafter(value, 0)), value=value)

    @classmethod
    def sum(cls, parts: Iterable[tuple[int, "Known"]]) -> "Known":
        """Of layers that each occur so many times."""
        ends = [(n * known.bound, n * known.value) for n, known in parts]
        return cls(bound=sum(bound for bound, _ in ends), value=sum(value for _, value in ends))


@frozen(kw_only=True)
class Gain:
    """What an upgrade buys: the optimum before and after, which is None if no mapping was found in time.

    `is_unchanged`: nothing that is asked for depends on it, so nothing was solved. `same_mapping` is what the old
    mapping costs on the new machine. Of several layers there is neither this nor one that was `solved`.
    """

    upgrade: Upgrade
    before: Known
    after: Known | None
    is_unchanged: bool = False
    same_mapping: Number | None = None
    solved: SolvedLayer | None = None

    @property
    def least(self) -> float | None:
        """The share of the optimum that is saved at least, below 0 if it may be a loss; None if nothing is known."""
        if self.is_unchanged or self._is_nothing:
            return 0.0
        floor = 0.0 if self.upgrade.is_larger else None
        if self.after is None or not self.before.bound:
            return floor
        share = 1 - self.after.value / self.before.bound
        return share if floor is None else max(floor, share)

    @property
    def most(self) -> float | None:
        """The share that is saved at most; None if nothing is known."""
        if self.is_unchanged or self._is_nothing:
            return 0.0
        return 1 - self.after.bound / self.before.value if self.after and self.before.value else None

    @property
    def _is_nothing(self) -> bool:
        """Whether it costs nothing before and after."""
        return self.after is not None and self.before.value == self.after.value == 0

    @property
    def is_proven(self) -> bool:
        """Whether the share is known."""
        return self.is_unchanged or (self.before.is_proven and self.after is not None and self.after.is_proven)


def find_gains(
    base: SolvedLayer, upgrades: Iterable[Upgrade], solve: Solve, budget: Budget, is_over: Callable[[], bool]
) -> tuple[SolvedLayer, tuple[Gain, ...]]:
    """What each upgrade buys a layer that has a mapping, as far as there is time; and the layer on the old machine with
    what was learnt meanwhile, to which the gains refer.
    """
    steps = _Steps(base, solve, budget)
    for upgrade in upgrades:
        solved = None if is_over() or steps.is_blind_to(upgrade) else steps.solved(upgrade)
        if is_over():
            break
        steps.tried.append((upgrade, solved))
    base = steps.learnt()
    return base, tuple(steps.gain(base, upgrade, solved) for upgrade, solved in steps.tried)


class _Steps:
    """The machines that were tried; every mapping that was found on one is tried on the others, too."""

    def __init__(self, base: SolvedLayer, solve: Solve, budget: Budget) -> None:
        self.tried: list[tuple[Upgrade, SolvedLayer | None]] = []
        self._base, self._solve, self._budget = base, solve, budget

    def is_blind_to(self, upgrade: Upgrade) -> bool:
        """Whether nothing that is asked for depends on it."""
        objective = self._base.objective
        is_timeless = objective.value(1, 1) == objective.value(2, 1)
        return upgrade.is_faster and is_timeless and self._budget.cycles is None

    def solved(self, upgrade: Upgrade) -> SolvedLayer:
        """The layer on the new machine."""
        arch = upgrade.on(self._base.arch)
        return self._solve(arch, self._best(arch))

    def learnt(self) -> SolvedLayer:
        """The layer on the old machine: no worse than any mapping found, nor better than on a larger machine."""
        base = self._improved(self._base)
        known = [base, *(solved for upgrade, solved in self.tried if solved and upgrade.is_larger)]
        least = max((solved.lower_bound for solved in known if solved.lower_bound is not None), default=None)
        return base if least is None else base.with_lower_bound(least)

    def gain(self, base: SolvedLayer, upgrade: Upgrade, solved: SolvedLayer | None) -> Gain:
        """What one of them buys."""
        before = Known.of(base)
        assert before is not None
        if solved is None:
            return Gain(upgrade=upgrade, before=before, after=before, is_unchanged=True, same_mapping=before.value)
        solved = self._improved(solved)
        cost = self._cost(solved.arch, base.mapping)
        same = None if cost is None else base.objective.reported(cost)
        return Gain(upgrade=upgrade, before=before, after=Known.of(solved), same_mapping=same, solved=solved)

    def _improved(self, solved: SolvedLayer) -> SolvedLayer:
        """With the best mapping found on any of the machines."""
        mapping = self._best(solved.arch)
        cost = self._cost(solved.arch, mapping)
        if mapping is None or cost is None or (solved.cost is not None and cost >= solved.cost):
            return solved
        prediction = predict(solved.workload, solved.arch, mapping)
        simulated = verify(solved.workload, solved.arch, mapping, prediction)
        better = evolve(solved, mapping=mapping, prediction=prediction, simulated=simulated, status=Status.FEASIBLE)
        return better if better.lower_bound is None else better.with_lower_bound(better.lower_bound)

    def _best(self, arch: PIMArchitecture) -> Mapping | None:
        """Of all mappings found the cheapest one on a machine."""
        found = [self._base.mapping, *(solved.mapping for _, solved in self.tried if solved)]
        costs = {mapping: cost for mapping in found if (cost := self._cost(arch, mapping)) is not None}
        return min(costs, key=lambda mapping: costs[mapping], default=None)

    def _cost(self, arch: PIMArchitecture, mapping: Mapping | None) -> int | None:
        """What a mapping costs on a machine, in the objective's integers; None if it is not legal there or costs more
        than it may.
        """
        if mapping is None or check_mapping(self._base.workload, arch, mapping):
            return None
        figures = predict(self._base.workload, arch, mapping).figures
        cost = self._base.objective.value(figures.latency_cycles, figures.energy_fj)
        return cost if self._budget.covers(figures) else None


def sum_gains(layers: Sequence[tuple[int, Gain]]) -> Gain:
    """What an upgrade buys layers that each occur so many times."""
    gains = [gain for _, gain in layers]
    after = [(n, gain.after) for n, gain in layers if gain.after is not None]
    return Gain(
        upgrade=gains[0].upgrade,
        before=Known.sum((n, gain.before) for n, gain in layers),
        after=Known.sum(after) if len(after) == len(gains) else None,
        is_unchanged=all(gain.is_unchanged for gain in gains),
    )
