"""The comparisons: each asks two parties that share no code, and tells where they differ."""

import itertools
from collections.abc import Callable
from typing import TypeVar

import attrs
from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import ON_CHIP, Dim
from cpsat_pim.base.validate import as_tuple
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import Disagreement, differences, simulate, verify
from cpsat_pim.mapper.result import Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import Options, solve_layer
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload

_T = TypeVar("_T")

#: Mappings of a layer that are tried one by one; a layer with more of them is left out.
MOST_ENUMERATED = 20_000

#: Parts of a mapping to which the space can be pinned; `inside`: the loops of the PEs and the global buffer.
PINS = ("temporal", "inside", "spatial", "order", "stored", "layout")


@frozen(kw_only=True)
class Case:
    """What is asked about: the whole space, or what has the `pinned` parts (of `PINS`) in common with a mapping."""

    layer: ConvWorkload
    arch: PIMArchitecture
    objective: Objective
    mapping: Mapping | None = None
    pinned: tuple[str, ...] = field(default=(), converter=as_tuple)

    @property
    def constraints(self) -> Constraints:
        """What the solver is held to."""
        if self.mapping is None:
            return FREE
        free = (None,) * len(Dim)
        parts = {name: getattr(self.mapping, name) for name in self.pinned if name != "inside"}
        if "inside" in self.pinned:
            parts = {"temporal": (*self.mapping.temporal[: len(ON_CHIP)], free, free)} | parts
        return Constraints(**parts)

    def value(self, mapping: Mapping) -> int:
        """The predicted objective of a mapping in the solver's integers."""
        figures = predict(self.layer, self.arch, mapping).figures
        return self.objective.value(figures.latency_cycles, figures.energy_fj)


@frozen(kw_only=True)
class Finding:
    """A disagreement: a line per difference, and a mapping that shows it, if one does."""

    lines: tuple[str, ...] = field(converter=as_tuple)
    witness: Mapping | None


def compare_trace(case: Case, options: Options) -> Finding | None:
    """A mapping against the validator, and tables against simulation: every exact figure."""
    if case.mapping is None:
        return None
    if broken := check_mapping(case.layer, case.arch, case.mapping):
        return Finding(lines=broken, witness=case.mapping)
    predicted = predict(case.layer, case.arch, case.mapping).figures
    simulated = simulate(case.layer, case.arch, case.mapping)
    lines = differences(predicted, simulated, "simulated")
    return Finding(lines=lines, witness=case.mapping) if lines else None


def compare_answer(case: Case, options: Options) -> Finding | None:
    """The solver's answer against the validator, its recount and its simulation."""
    return judge_answer(case, solve(case, options))


def compare_bound(case: Case, options: Options) -> Finding | None:
    """The solver's bound against the cost of a mapping."""
    return judge_bound(case, solve(case, options))


def compare_enumeration(case: Case, options: Options) -> Finding | None:
    """The solver's optimum against the least cost of all mappings, or all that have the pinned parts."""
    mappings = few_mappings(case)
    return judge_optimum(case, solve(case, options), mappings) if mappings is not None else None


#: By the names under which they are counted.
COMPARISONS: dict[str, Callable[[Case, Options], Finding | None]] = {
    "trace": compare_trace,
    "answer": compare_answer,
    "bound": compare_bound,
    "pinned": compare_bound,
    "completion": compare_enumeration,
    "enumeration": compare_enumeration,
}


def compare(name: str, case: Case, options: Options) -> Finding | None:
    """One of the comparisons."""
    return attempt(case, lambda: COMPARISONS[name](case, options))


def attempt(case: Case, ask: Callable[[], _T]) -> _T | Finding:
    """An answer; a party that fails instead is a finding, too."""
    try:
        return ask()
    except Exception as error:
        return Finding(lines=[f"{type(error).__name__}: {error}"], witness=case.mapping)


# --- Judging ---------------------------------------------------------------------------------------------------------


def solve(case: Case, options: Options) -> SolvedLayer:
    """The solver's answer."""
    return solve_layer(case.layer, case.arch, case.objective, attrs.evolve(options, constraints=case.constraints))


def few_mappings(case: Case) -> list[Mapping] | None:
    """All mappings (with the pinned parts), if they are few."""
    mappings = list(itertools.islice(every_mapping(case.layer, case.arch, case.constraints), MOST_ENUMERATED + 1))
    return mappings if len(mappings) <= MOST_ENUMERATED else None


def judge_answer(case: Case, solved: SolvedLayer) -> Finding | None:
    """Whether the mapping found is legal and costs what it is said to, and what is called optimal, its bound."""
    if solved.mapping is None or solved.prediction is None:
        return None
    try:
        verify(case.layer, case.arch, solved.mapping, solved.prediction)
    except Disagreement as disagreement:
        return Finding(lines=disagreement.differences, witness=solved.mapping)
    if solved.status is Status.OPTIMAL and solved.objective_value != solved.bound:
        line = f"OPTIMAL with objective {solved.objective_value} and bound {solved.bound}"
        return Finding(lines=[line], witness=solved.mapping)
    return judge_bound(attrs.evolve(case, mapping=solved.mapping), solved)


def judge_bound(case: Case, solved: SolvedLayer) -> Finding | None:
    """Whether the mapping costs no less than the bound, nor exists where there is said to be none."""
    mapping = case.mapping
    if mapping is None:
        return None
    cost = case.objective.reported(case.value(mapping))
    if solved.status is Status.INFEASIBLE:
        return Finding(lines=[f"INFEASIBLE, a mapping costs {cost}"], witness=mapping)
    if solved.bound is not None and cost < solved.bound:
        return Finding(lines=[f"bound {solved.bound}, a mapping costs {cost}"], witness=mapping)
    return None


def judge_optimum(case: Case, solved: SolvedLayer, mappings: list[Mapping]) -> Finding | None:
    """Whether the least cost of all mappings is the optimum, and no less than the bound of an unproven answer."""
    least = min(mappings, key=case.value, default=None)
    if solved.mapping is not None and (least is None or case.value(solved.mapping) < case.value(least)):
        line = f"{solved.status} {solved.objective_value}, but no mapping of the enumeration costs so little"
        return Finding(lines=[line], witness=solved.mapping)
    return judge_bound(attrs.evolve(case, mapping=least), solved)
