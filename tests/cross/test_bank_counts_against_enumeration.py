"""For tiny layers on nodes with several banks the optimum is the least cost under all bank counts, by enumeration."""

from functools import cache

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.evaluate.cost import Figures, predict
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapping import ONE_BANK, BankCounts, Mapping, banks_text
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_bounds import in_turns, quick_of
from tests.cross.test_solver_against_enumeration import machine, proven_mapping

#: Elements and columns of 4 B.
WIDE = {"input_bytes": 4, "weight_bytes": 4, "output_bytes": 4, "psum_bytes": 4}


def rows(row_bytes: int, pe: str, buffer: str, row_buffer: str, **options: object) -> PIMArchitecture:
    """Return a toy with short rows, which tiny tensors fill several of, and which are slow to open."""
    toy = machine(pe, buffer, row_buffer, **options)
    levels = (*toy.hierarchy[:2], attrs.evolve(toy.hierarchy[2], row_buffer_size=row_bytes), toy.hierarchy[3])
    return attrs.evolve(toy, hierarchy=levels, dram_timings=attrs.evolve(toy.dram_timings, tRC=60))


#: Operands that the MACs draw again and again, and of which some banks keep all rows open; returning partial sums;
#: windows that overlap; row-aligned weights; a bus; closed pages.
CASES: dict[str, tuple[ConvWorkload, PIMArchitecture]] = {
    "drawn again": (ConvWorkload(C=3, K=2, **WIDE), rows(4, "!", "!", "!")),
    "inputs drawn again": (ConvWorkload(K=4, N=2, **WIDE), rows(4, "!", "!", "!")),
    "one bus": (ConvWorkload(C=3, K=2, **WIDE), rows(4, "!", "!", "!", shared_data_bus=True)),
    "returning sums": (ConvWorkload(C=2, K=3, **WIDE), rows(4, "I!", "W!", "")),
    "windows": (ConvWorkload(R=2, P=4, **WIDE), rows(8, "IO", "!", "!")),
    "row-aligned": (ConvWorkload(C=2, K=4, **WIDE), rows(16, "O!", "I!", "W")),
    "closed pages": (ConvWorkload(C=2, K=2, **WIDE), rows(4, "!", "!", "!", page_policy="closed")),
}
#: Cases of a few thousand mappings.
QUICK = ("drawn again", "one bus", "returning sums")
OBJECTIVES = (Objective.named("energy"), Objective.named("latency"), Objective.named("blended", 1, 3))


@cache
def whole_space(case: str, node_banks: int) -> list[tuple[Mapping, Figures]]:
    """Return every mapping of a case, with its figures: all assignments and all bank counts that the node has."""
    layer, toy = CASES[case]
    arch = attrs.evolve(toy, node_banks=node_banks)
    mappings = every_mapping(layer, arch, Constraints(bank_counts=None))
    return [(mapping, predict(layer, arch, mapping).figures) for mapping in mappings]


def least(case: str, node_banks: int, objective: Objective, counts: BankCounts | None = None) -> int:
    """Return the least cost in the solver's integers of all mappings, or of those with some bank counts."""
    return min(
        objective.value(figures.latency_cycles, figures.energy_fj)
        for mapping, figures in whole_space(case, node_banks)
        if counts in (None, mapping.bank_counts)
    )


@pytest.mark.parametrize(
    ("case", "node_banks", "objective"),
    [
        *quick_of(QUICK, in_turns(3, CASES, [3, 4], OBJECTIVES)),
        *(pytest.param(case, 8, objective, marks=pytest.mark.slow) for case in CASES for objective in OBJECTIVES),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_optimum_is_the_least_under_all_bank_counts(case: str, node_banks: int, objective: Objective) -> None:
    """Counts that others dominate are enumerated, too, and those of shared banks."""
    layer, toy = CASES[case]
    request = SolveRequest(objective=objective, constraints=Constraints(bank_counts=None), time_limit=60)
    proven_mapping(layer, attrs.evolve(toy, node_banks=node_banks), request, least(case, node_banks, objective))


@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)])
def test_fixed_bank_counts_have_their_own_optimum(counts: BankCounts) -> None:
    """One bank a part is what a search decides without a constraint."""
    case, node_banks = "one bus", 4
    layer, toy = CASES[case]
    arch = attrs.evolve(toy, node_banks=node_banks)
    for objective in OBJECTIVES:
        constraints = Constraints() if counts == ONE_BANK else Constraints(bank_counts=counts)
        request = SolveRequest(objective=objective, constraints=constraints, time_limit=60)
        mapping = proven_mapping(layer, arch, request, least(case, node_banks, objective, counts))
        assert mapping.bank_counts == counts


def test_more_banks_open_fewer_rows() -> None:
    """The optimum with a choice takes less energy than with one bank a part, and less time where rows are slow."""
    for objective in OBJECTIVES:
        one, chosen = (least("one bus", 4, objective, counts) for counts in (ONE_BANK, None))
        assert chosen < one


def test_counts_that_take_too_many_banks_have_no_mapping() -> None:
    """4 + 2 + 2 banks are no seven; nor are two banks for each tensor two."""
    layer, toy = CASES["drawn again"]
    for node_banks, counts in ((7, (4, 2, 2)), (2, (2, 2, 2)), (None, (2, 1, 1))):
        request = SolveRequest(objective=OBJECTIVES[0], constraints=Constraints(bank_counts=counts))
        assert solve_layer(layer, attrs.evolve(toy, node_banks=node_banks), request).status is Status.INFEASIBLE


def test_a_shared_part_beside_a_tensor_with_two_banks_is_searched() -> None:
    """On three banks: three parts of one bank each do not dominate it."""
    found = {banks_text(m.banks) for m, _ in whole_space("one bus", 3) if max(m.bank_counts) > 1}
    assert found == {"IW|O", "IO|W", "I|WO"}
