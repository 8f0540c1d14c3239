"""For tiny layers on nodes with few banks the optimum is the least cost under every assignment, by enumeration."""

from functools import cache

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.evaluate.cost import Figures, predict
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.bounds.layer_bound import tile_lower_bound
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapping import BANKS, Banks, Mapping
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_bounds import in_turns, quick_of
from tests.cross.test_solver_against_enumeration import machine, proven_mapping, with_dram

#: In rows of 16 B: a product with all stored sets, one with a row-aligned tensor, streams that the MACs draw, returning
#: partial sums wider than outputs, closed pages, uneven tiles, windows that PEs take straight from DRAM, and groups.
CASES: dict[str, tuple[ConvWorkload, PIMArchitecture]] = {
    "product": (ConvWorkload(C=2, K=2), machine("O!", "IW", "")),
    "drawn by the MACs": (ConvWorkload(C=4, K=2), machine("O!", "I!", "")),
    "weights may be row-aligned": (ConvWorkload(C=4, K=2), machine("O!", "I!", "W")),
    "wide partial sums": (ConvWorkload(C=4, K=2, psum_bytes=2), machine("", "IWO!", "")),
    "convolution": (ConvWorkload(R=2, P=3), machine("O!", "IW!", "")),
    "strided window, no buffer": (ConvWorkload(R=2, P=3, stride=(3, 1)), machine("IWO", "!", "!")),
    "dilated window, no buffer": (ConvWorkload(R=2, P=2, K=2, dilation=(2, 1)), machine("IO", "!", "!")),
    "groups": (ConvWorkload(G=2, C=2), machine("", "IWO!", "")),
    "groups that return": (ConvWorkload(C=4, G=4, psum_bytes=2), machine("", "IWO!", "")),
    "closed pages": (ConvWorkload(C=2, K=2), machine("O!", "I!", "", page_policy="closed")),
    "no reduction": (ConvWorkload(C=2, K=2), machine("WO!", "I!", "", multicast=False, spatial_reduction=False)),
    "uneven": (ConvWorkload(C=2, K=3), machine("", "IWO!", "", uneven_residency=True)),
}
#: Cases of a few thousand mappings.
QUICK = ("drawn by the MACs", "convolution", "strided window, no buffer", "groups")
OBJECTIVES = (Objective.named("energy"), Objective.named("latency"), Objective.named("blended", 1, 3))


@cache
def whole_space(case: str) -> list[tuple[Mapping, Figures]]:
    """Return every mapping of a case under every assignment, however many banks there are, with its figures."""
    layer, toy = CASES[case]
    arch = attrs.evolve(toy, node_banks=3)
    return [
        (mapping, predict(layer, arch, mapping).figures)
        for banks in BANKS.values()
        for mapping in every_mapping(layer, arch, Constraints(banks=banks))
    ]


def least(case: str, node_banks: int, objective: Objective, banks: Banks | None = None) -> int:
    """Return the least cost in the solver's integers of an assignment, or of all that a node has the banks for."""
    return min(
        objective.value(figures.latency_cycles, figures.energy_fj)
        for mapping, figures in whole_space(case)
        if (len(set(mapping.banks)) <= node_banks if banks is None else mapping.banks == banks)
    )


@pytest.mark.parametrize(
    ("case", "node_banks", "objective"),
    quick_of(QUICK, in_turns(3, CASES, [1, 2, 3], OBJECTIVES)),
    ids=lambda value: getattr(value, "kind", None),
)
def test_optimum_is_the_least_under_every_assignment(case: str, node_banks: int, objective: Objective) -> None:
    """All assignments count that the node has banks for, also those that others divide."""
    layer, toy = CASES[case]
    request = SolveRequest(objective=objective, time_limit=30)
    proven_mapping(layer, attrs.evolve(toy, node_banks=node_banks), request, least(case, node_banks, objective))


@pytest.mark.parametrize("node_banks", [1, 2, 3])
@pytest.mark.parametrize("case", QUICK)
def test_no_mapping_costs_less_than_the_bound_of_its_tiles(case: str, node_banks: int) -> None:
    """Under every assignment that the node has banks for."""
    layer, toy = CASES[case]
    for objective in OBJECTIVES:
        bound = tile_lower_bound(layer, attrs.evolve(toy, node_banks=node_banks), objective)
        assert bound is not None
        assert 0 < bound <= least(case, node_banks, objective)


@pytest.mark.parametrize("text", BANKS)
@pytest.mark.parametrize("case", ["groups", pytest.param("wide partial sums", marks=pytest.mark.slow)])
def test_a_fixed_assignment_has_its_own_optimum(case: str, text: str) -> None:
    """The constraint `banks` leaves one assignment."""
    layer, toy = CASES[case]
    arch, banks = attrs.evolve(toy, node_banks=3), BANKS[text]
    for objective in OBJECTIVES:
        request = SolveRequest(objective=objective, constraints=Constraints(banks=banks), time_limit=30)
        mapping = proven_mapping(layer, arch, request, least(case, 3, objective, banks))
        assert mapping.banks == banks


def test_optimum_of_one_bank_is_simulated_to_the_row() -> None:
    """What is proven of one bank is what the merged scans open there."""
    for layer, toy in map(CASES.__getitem__, QUICK):
        arch = attrs.evolve(toy, node_banks=1)
        solved = solve_layer(layer, arch, SolveRequest(objective=OBJECTIVES[0], time_limit=30))
        assert solved.mapping is not None
        assert simulate(layer, arch, solved.mapping).energy_fj == solved.predicted.energy_fj


def test_an_assignment_that_takes_too_many_banks_has_no_mapping() -> None:
    """Neither has a tensor that must be row-aligned in a bank that it shares, nor one that is larger than a bank."""
    layer, toy = CASES["product"]
    one = attrs.evolve(toy, node_banks=1)
    own = SolveRequest(objective=OBJECTIVES[0], constraints=Constraints(banks=BANKS["I|W|O"]))
    assert solve_layer(layer, one, own).status is Status.INFEASIBLE
    aligned = attrs.evolve(machine("O", "IWO", "W!"), node_banks=1)
    assert solve_layer(layer, aligned, SolveRequest(objective=OBJECTIVES[0])).status is Status.INFEASIBLE
    small = attrs.evolve(with_dram(toy, entries=40), node_banks=2)
    assert solve_layer(ConvWorkload(C=8, K=8), small, SolveRequest(objective=OBJECTIVES[0])).status is Status.INFEASIBLE
