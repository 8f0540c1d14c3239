"""The comparisons: each evaluates the same quantity by two parties that share no code."""

import itertools
import threading
from collections.abc import Callable
from typing import TypeVar

import attrs
from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import ON_CHIP, Dim
from cpsat_pim.base.interrupts import Stop
from cpsat_pim.base.validate import as_tuple
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import Disagreement, differences, simulate, verify
from cpsat_pim.mapper.result import Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapping import ONE_BANK, BankCounts, Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.study.fuzz.oracle import Legality, is_declared
from cpsat_pim.workload import ConvWorkload

_T = TypeVar("_T")

#: The most mappings that are enumerated; a layer with more is skipped.
MOST_ENUMERATED = 20_000

#: Parts of a mapping that can be fixed; `inside`: the loops of the PEs and the global buffer.
PINS = ("temporal", "inside", "spatial", "order", "stored", "layout")


@frozen(kw_only=True)
class Case:
    """The case to compare: a layer on a machine, with the parts `pinned` (of `PINS`) fixed to those of a mapping.

    `bank_counts`: how many of the node's banks each tensor has, as in `Constraints`; None if that is chosen.
    """

    layer: ConvWorkload
    arch: PIMArchitecture
    objective: Objective
    mapping: Mapping | None = None
    pinned: tuple[str, ...] = field(default=(), converter=as_tuple)
    bank_counts: BankCounts | None = ONE_BANK

    @property
    def constraints(self) -> Constraints:
        """The constraints that fix the pinned parts and the bank counts."""
        if self.mapping is None:
            return Constraints(bank_counts=self.bank_counts)
        free = (None,) * len(Dim)
        parts = {name: getattr(self.mapping, name) for name in self.pinned if name != "inside"}
        if "inside" in self.pinned:
            parts = {"temporal": (*self.mapping.temporal[: len(ON_CHIP)], free, free)} | parts
        return Constraints(bank_counts=self.bank_counts, **parts)

    def value(self, mapping: Mapping) -> int:
        """Return the predicted objective of a mapping in the solver's integers."""
        figures = predict(self.layer, self.arch, mapping).figures
        return self.objective.value(figures.latency_cycles, figures.energy_fj)

    def counted_value(self, mapping: Mapping) -> int:
        """Return the objective of a mapping in the solver's integers, with the energy that the simulator counts. Only a
        latency is predicted, because the objective is the predicted one (docs/model.md, section 7).
        """
        energy_fj = simulate(self.layer, self.arch, mapping).energy_fj
        if self.objective.kind == "energy":
            return self.objective.value(0, energy_fj)
        return self.objective.value(predict(self.layer, self.arch, mapping).figures.latency_cycles, energy_fj)


@frozen(kw_only=True)
class Finding:
    """A disagreement: a line per difference, and a mapping that shows it, if there is one."""

    lines: tuple[str, ...] = field(converter=as_tuple)
    witness: Mapping | None


@frozen(kw_only=True)
class Limits:
    """Limits of a solve: `time_limit` seconds, and the `stop` flag."""

    time_limit: float = 60.0
    stop: Stop = field(factory=threading.Event)


def compare_trace(case: Case, limits: Limits) -> Finding | None:
    """Compare a mapping with the validator, and every exact figure of the tables with the simulation."""
    if case.mapping is None:
        return None
    if broken := check_mapping(case.layer, case.arch, case.mapping):
        return Finding(lines=broken, witness=case.mapping)
    if not Legality(case.layer, case.arch, case.mapping).is_in_space():
        return Finding(lines=["legal to the validator, not by the fuzzer's own rules"], witness=case.mapping)
    predicted = predict(case.layer, case.arch, case.mapping).figures
    simulated = simulate(case.layer, case.arch, case.mapping)
    lines = differences(predicted, simulated, "simulated")
    return Finding(lines=lines, witness=case.mapping) if lines else None


def compare_legality(case: Case, limits: Limits) -> Finding | None:
    """Compare what validator and oracle say of a mapping that may be illegal."""
    if case.mapping is None:
        return None
    broken = check_mapping(case.layer, case.arch, case.mapping)
    if Legality(case.layer, case.arch, case.mapping).is_in_space() == (not broken):
        return None
    lines = broken or ["legal to the validator, not by the fuzzer's own rules"]
    return Finding(lines=lines, witness=case.mapping)


def compare_answer(case: Case, limits: Limits) -> Finding | None:
    """Compare the solver's solution with the validator, its recomputed cost and its simulation."""
    return check_answer(case, solve(case, limits))


def compare_bound(case: Case, limits: Limits) -> Finding | None:
    """Compare the solver's bound with the cost of a mapping."""
    return check_bound(case, solve(case, limits))


def compare_enumeration(case: Case, limits: Limits) -> Finding | None:
    """Compare the solver's optimum with the least cost of all mappings, or of all that have the pinned parts."""
    mappings = few_mappings(case)
    return check_optimum(case, solve(case, limits), mappings) if mappings is not None else None


#: The comparisons by name.
COMPARISONS: dict[str, Callable[[Case, Limits], Finding | None]] = {
    "trace": compare_trace,
    "legality": compare_legality,
    "answer": compare_answer,
    "bound": compare_bound,
    "pinned": compare_bound,
    "completion": compare_enumeration,
    "enumeration": compare_enumeration,
}


def compare(name: str, case: Case, limits: Limits) -> Finding | None:
    """Make the comparison of this name."""
    return attempt(case, lambda: COMPARISONS[name](case, limits))


def attempt(case: Case, ask: Callable[[], _T]) -> _T | Finding:
    """Return the result of `ask`; an exception becomes a finding."""
    try:
        return ask()
    except Exception as error:
        return Finding(lines=[f"{type(error).__name__}: {error}"], witness=case.mapping)


# --- Judging ---------------------------------------------------------------------------------------------------------


def solve(case: Case, limits: Limits) -> SolvedLayer:
    """Solve the case."""
    request = SolveRequest(objective=case.objective, constraints=case.constraints, time_limit=limits.time_limit)
    return solve_layer(case.layer, case.arch, request, limits.stop)


def few_mappings(case: Case) -> list[Mapping] | None:
    """Return all mappings that are compared (with the pinned parts) if they are few, else None."""
    every = every_mapping(case.layer, case.arch, case.constraints)
    compared = (mapping for mapping in every if _is_compared(case, mapping))
    mappings = list(itertools.islice(compared, MOST_ENUMERATED + 1))
    return mappings if len(mappings) <= MOST_ENUMERATED else None


def _is_compared(case: Case, mapping: Mapping) -> bool:
    """Return whether a mapping must cost no less than the optimum: one of the declared space or, where only energy
    counts, any legal one, as assignments to banks that are left out take no less of it (docs/solver.md, Shared banks).
    """
    return case.objective.kind == "energy" or is_declared(case.arch, mapping, case.bank_counts)


def check_answer(case: Case, solved: SolvedLayer) -> Finding | None:
    """Check that the mapping found is legal and has the reported cost, and that an OPTIMAL cost equals its bound."""
    if solved.mapping is None or solved.prediction is None:
        return None
    try:
        verify(case.layer, case.arch, solved.mapping, solved.prediction)
    except Disagreement as disagreement:
        return Finding(lines=disagreement.differences, witness=solved.mapping)
    if not Legality(case.layer, case.arch, solved.mapping).is_in_space():
        return Finding(lines=["not legal by the fuzzer's own rules"], witness=solved.mapping)
    if solved.status is Status.OPTIMAL and solved.objective_value != solved.bound:
        line = f"OPTIMAL with objective {solved.objective_value} and bound {solved.bound}"
        return Finding(lines=[line], witness=solved.mapping)
    return check_bound(attrs.evolve(case, mapping=solved.mapping), solved)


def check_bound(case: Case, solved: SolvedLayer) -> Finding | None:
    """Check that the mapping costs at least the bound, and that a layer reported infeasible has no mapping."""
    mapping = case.mapping
    if mapping is None or not _is_compared(case, mapping):
        return None
    cost = case.objective.reported(case.value(mapping))
    if solved.status is Status.INFEASIBLE:
        return Finding(lines=[f"INFEASIBLE, a mapping costs {cost}"], witness=mapping)
    if solved.bound is not None and cost < solved.bound:
        return Finding(lines=[f"bound {solved.bound}, a mapping costs {cost}"], witness=mapping)
    return None


def check_optimum(case: Case, solved: SolvedLayer, mappings: list[Mapping]) -> Finding | None:
    """Check that the least cost of all mappings is the reported optimum, and at least the bound of an unproven
    solution. Costs are counted by the simulator.
    """
    least = min(mappings, key=case.counted_value, default=None)
    if solved.mapping is not None and (least is None or case.counted_value(solved.mapping) < case.counted_value(least)):
        line = f"{solved.status} {solved.objective_value}, but no mapping of the enumeration costs so little"
        return Finding(lines=[line], witness=solved.mapping)
    return check_bound(attrs.evolve(case, mapping=least), solved)
