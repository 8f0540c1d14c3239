"""What one step more of a machine would save: the layer is solved once more on the machine with that one step.

The share saved is of the optima, whether or not they were proven. The optimum of either machine lies from `bound` to
`value`, so the share lies from 1 - value after / bound before to 1 - bound after / value before; it is known if both
optima were proven. Where all old mappings are legal at their old cost, the optimum cannot be worse, and the share is
not negative. Every mapping found on one machine is tried on the others, if it is legal there: as the start of later
solves, and as an incumbent of earlier ones. So no machine has a worse value than the old mapping has on it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from attrs import evolve, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import change_arch
from cpsat_pim.base.dims import BUFFERS, Level, Tensor
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
        """Return the machine with the upgrade."""
        return change_arch(arch, {self.path: self.after})


def upgrades_of(arch: PIMArchitecture, chooses_bank_counts: bool = False) -> Iterator[Upgrade]:
    """Yield one step of all that a machine can have more of: twice the buffers, PEs, lanes, banks, bandwidths.

    More banks of the node than tensors are of use only if a solve `chooses_bank_counts`.
    """
    shape, unit = arch.pe_array.array_shape, arch.pe_array.compute_unit
    for level in BUFFERS:
        for path, entries in _entries(arch, level):
            yield _doubled(path, entries, is_larger=True)
    yield _doubled("pe_array.array_shape.h", shape.h, is_larger=True)
    yield _doubled("pe_array.array_shape.w", shape.w, is_larger=True)
    if unit.unit_type != "scalar":
        yield _doubled("pe_array.compute_unit.num_macs", unit.num_macs, is_larger=True)
    if arch.node_banks is None:
        yield _doubled(f"hierarchy.{Level.DRAM.name}.num_banks", arch.banks)
    elif chooses_bank_counts or arch.node_banks < len(Tensor):
        yield _doubled("node_banks", arch.node_banks)
    for path, rate in _rates(arch):
        if rate is not None:
            yield _doubled(path, rate, is_faster=True)


def _entries(arch: PIMArchitecture, level: Level) -> Iterator[tuple[str, int]]:
    """Yield the entries of a level's buffers by path: one that tensors share, or one of each tensor that has one."""
    memory, path = arch.hierarchy[level], f"hierarchy.{level.name}.entries"
    if isinstance(memory.entries, int):
        yield path, memory.entries
        return
    for tensor in Tensor:
        if memory.entries_of(tensor):
            yield f"{path}.{tensor.name}", memory.entries_of(tensor)


def _rates(arch: PIMArchitecture) -> Iterator[tuple[str, float | None]]:
    """Yield the bandwidths by path, None without a limit."""
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
    """The range of the optimum of some layers: from `bound` to `value`, in the objective's reported unit."""

    bound: Number
    value: Number

    @property
    def is_proven(self) -> bool:
        """Whether the optimum is known."""
        return self.bound == self.value

    @classmethod
    def of(cls, solved: SolvedLayer) -> "Known | None":
        """Return the range of a solved layer, None without a mapping; ends that are not proven equal differ."""
        value = solved.objective_value
        if value is None or solved.status is Status.OPTIMAL:
            return None if value is None else cls(bound=value, value=value)
        return cls(bound=min(solved.bound or 0, math.nextafter(value, 0)), value=value)

    @classmethod
    def sum(cls, parts: Iterable[tuple[int, "Known"]]) -> "Known":
        """Return the range of the sum of layers that each occur so many times."""
        ends = [(n * known.bound, n * known.value) for n, known in parts]
        return cls(bound=sum(bound for bound, _ in ends), value=sum(value for _, value in ends))


@frozen(kw_only=True)
class Gain:
    """What an upgrade saves: the optimum before and after; the latter is None if no mapping was found in time.

    `is_unchanged`: the objective does not depend on it, so nothing was solved. `same_mapping`: the cost of the old
    mapping on the new machine. A gain of several layers has neither this nor a result (`solved`).
    """

    upgrade: Upgrade
    before: Known
    after: Known | None
    is_unchanged: bool = False
    same_mapping: Number | None = None
    solved: SolvedLayer | None = None

    @property
    def least(self) -> float | None:
        """The least share of the optimum that is saved, below 0 if it may be a loss; None if nothing is known."""
        if self.is_unchanged or self._is_nothing:
            return 0.0
        floor = 0.0 if self.upgrade.is_larger else None
        if self.after is None or not self.before.bound:
            return floor
        share = 1 - self.after.value / self.before.bound
        return share if floor is None else max(floor, share)

    @property
    def most(self) -> float | None:
        """The greatest share that is saved; None if nothing is known."""
        if self.is_unchanged or self._is_nothing:
            return 0.0
        return 1 - self.after.bound / self.before.value if self.after and self.before.value else None

    @property
    def _is_nothing(self) -> bool:
        """Whether the layers cost nothing before and after."""
        return self.after is not None and self.before.value == self.after.value == 0

    @property
    def is_proven(self) -> bool:
        """Whether the share is known."""
        return self.is_unchanged or (self.before.is_proven and self.after is not None and self.after.is_proven)


def find_gains(
    base: SolvedLayer, upgrades: Iterable[Upgrade], solve: Solve, budget: Budget, is_over: Callable[[], bool]
) -> tuple[SolvedLayer, tuple[Gain, ...]]:
    """Return the layer on the old machine with the best mapping and bound found on any machine, and the gain of each
    upgrade over it, while there is time.
    """
    steps = _Steps(base, solve, budget)
    for upgrade in upgrades:
        solved = None if is_over() or steps.is_unaffected_by(upgrade) else steps.solved(upgrade)
        if is_over():
            break
        steps.tried.append((upgrade, solved))
    base = steps.improved_base()
    return base, tuple(steps.gain(base, upgrade, solved) for upgrade, solved in steps.tried)


class _Steps:
    """The machines that were solved; every mapping that was found on one is tried on the others, too."""

    def __init__(self, base: SolvedLayer, solve: Solve, budget: Budget) -> None:
        self.tried: list[tuple[Upgrade, SolvedLayer | None]] = []
        self._base, self._solve, self._budget = base, solve, budget

    def is_unaffected_by(self, upgrade: Upgrade) -> bool:
        """Whether neither the objective nor the budget depends on an upgrade."""
        objective = self._base.objective
        is_timeless = objective.value(1, 1) == objective.value(2, 1)
        return upgrade.is_faster and is_timeless and self._budget.cycles is None

    def solved(self, upgrade: Upgrade) -> SolvedLayer:
        """Solve the layer on the new machine."""
        arch = upgrade.on(self._base.arch)
        return self._solve(arch, self._best(arch))

    def improved_base(self) -> SolvedLayer:
        """Return the layer on the old machine with the best mapping found and the greatest lower bound.

        A lower bound of a larger machine is one of the old machine, too.
        """
        base = self._improved(self._base)
        known = [base, *(solved for upgrade, solved in self.tried if solved and upgrade.is_larger)]
        least = max((solved.lower_bound for solved in known if solved.lower_bound is not None), default=None)
        return base if least is None else base.with_lower_bound(least)

    def gain(self, base: SolvedLayer, upgrade: Upgrade, solved: SolvedLayer | None) -> Gain:
        """Return what one upgrade saves."""
        before = Known.of(base)
        assert before is not None
        if solved is None:
            return Gain(upgrade=upgrade, before=before, after=before, is_unchanged=True, same_mapping=before.value)
        solved = self._improved(solved)
        cost = self._cost(solved.arch, base.mapping)
        same = None if cost is None else base.objective.reported(cost)
        return Gain(upgrade=upgrade, before=before, after=Known.of(solved), same_mapping=same, solved=solved)

    def _improved(self, solved: SolvedLayer) -> SolvedLayer:
        """Return a result with the best mapping found on any of the machines."""
        mapping = self._best(solved.arch)
        cost = self._cost(solved.arch, mapping)
        if mapping is None or cost is None or (solved.cost is not None and cost >= solved.cost):
            return solved
        prediction = predict(solved.workload, solved.arch, mapping)
        simulated = verify(solved.workload, solved.arch, mapping, prediction)
        better = evolve(solved, mapping=mapping, prediction=prediction, simulated=simulated, status=Status.FEASIBLE)
        return better if better.lower_bound is None else better.with_lower_bound(better.lower_bound)

    def _best(self, arch: PIMArchitecture) -> Mapping | None:
        """Return the cheapest mapping on a machine of all that were found."""
        found = [self._base.mapping, *(solved.mapping for _, solved in self.tried if solved)]
        costs = {mapping: cost for mapping in found if (cost := self._cost(arch, mapping)) is not None}
        return min(costs, key=lambda mapping: costs[mapping], default=None)

    def _cost(self, arch: PIMArchitecture, mapping: Mapping | None) -> int | None:
        """Return the cost of a mapping on a machine, in the objective's integers; None if it is not legal there, or
        exceeds the budget.
        """
        if mapping is None or check_mapping(self._base.workload, arch, mapping):
            return None
        figures = predict(self._base.workload, arch, mapping).figures
        cost = self._base.objective.value(figures.latency_cycles, figures.energy_fj)
        return cost if self._budget.covers(figures) else None


def sum_gains(layers: Sequence[tuple[int, Gain]]) -> Gain:
    """Return what an upgrade saves for layers that each occur so many times."""
    gains = [gain for _, gain in layers]
    after = [(n, gain.after) for n, gain in layers if gain.after is not None]
    return Gain(
        upgrade=gains[0].upgrade,
        before=Known.sum((n, gain.before) for n, gain in layers),
        after=Known.sum(after) if len(after) == len(gains) else None,
        is_unchanged=all(gain.is_unchanged for gain in gains),
    )
