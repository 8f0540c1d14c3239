"""Under constraints the optimum is the least cost of all mappings that keep them, and every bound is valid."""

import random
from collections.abc import Sequence
from functools import cache

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, Dim, Direction, Level, Tensor
from cpsat_pim.evaluate.cost import Figures, predict
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints, check_constraints
from cpsat_pim.mapping.dataflow import Dataflow, classify_dataflow
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_bounds import LAYERS, contains, draw_mapping, in_turns, quick_of
from tests.cross.test_solver_against_enumeration import machine

CASES = {
    "product, weights in the row buffer": (ConvWorkload(C=4, K=2), machine("WO", "IO!", "W")),
    "groups": (ConvWorkload(P=2, C=2, G=2), machine("O", "WO!", "")),
    "window in the row buffer": (ConvWorkload(R=2, P=2, K=2), machine("O", "W!", "I")),
}
SEEDS = range(5)
ENERGY = Objective.named("energy")
NONE: list[int | None] = [None] * len(Dim)


@cache
def space(case: str) -> list[tuple[Mapping, Figures]]:
    """Every mapping of a case, and its figures."""
    return [(mapping, predict(*CASES[case], mapping).figures) for mapping in every_mapping(*CASES[case])]


def least(case: str, constraints: Constraints, objective: Objective) -> int | None:
    """What the mappings that keep the constraints cost at least."""
    kept = (figures for mapping, figures in space(case) if not check_constraints(mapping, constraints))
    return min((objective.value(f.latency_cycles, f.energy_fj) for f in kept), default=None)


def draw_constraints(case: str, rng: random.Random) -> Constraints:
    """Up to five, of which most are kept by one mapping or another, but not all of them by the same."""
    dims = [d for d in Dim if CASES[case][0].bounds[d] > 1]
    mapping = rng.choice(space(case))[0]
    temporal, spatial = [list(NONE) for _ in Level], [list(NONE) for _ in Direction]
    order: list[Sequence[Dim]] = [() for _ in Level]
    stored: list[list[bool | None]] = [[None] * len(Tensor) for _ in BUFFERS]
    layout: list[int | None] = [None] * len(Tensor)
    dataflow = None
    for kind in rng.choices(("temporal", "spatial", "order", "stored", "layout", "dataflow"), k=rng.randint(2, 5)):
        d, m, t = rng.choice(dims), rng.choice(list(Level)), rng.choice(list(Tensor))
        if kind == "temporal":
            temporal[m][d] = rng.choice([mapping.temporal[m][d], 1, 2])
        if kind == "spatial":
            s = rng.choice(list(Direction))
            spatial[s][d] = rng.choice([mapping.spatial[s][d], 1, 2])
        if kind == "order":
            order[m] = rng.sample(dims, len(dims))
        if kind == "stored":
            stored[m % len(BUFFERS)][t] = rng.choice([mapping.stored[m % len(BUFFERS)][t], True, False])
        if kind == "layout":
            layout[t] = rng.randrange(2)
        if kind == "dataflow":
            dataflow = rng.choice(list(Dataflow))
    return Constraints(temporal=temporal, spatial=spatial, order=order, stored=stored, layout=layout, dataflow=dataflow)


def assert_optimal(case: str, constraints: Constraints, objective: Objective) -> None:
    """The result is optimal, and equal to that of the enumeration."""
    expected = least(case, constraints, objective)
    request = SolveRequest(objective=objective, time_limit=60, constraints=constraints)
    solved = solve_layer(*CASES[case], request)
    assert solved.status is (Status.INFEASIBLE if expected is None else Status.OPTIMAL), constraints
    if solved.mapping is not None and expected is not None:
        assert check_constraints(solved.mapping, constraints) == []
        assert solved.objective_value == solved.bound == objective.reported(expected), constraints


@pytest.mark.parametrize(
    ("case", "seed", "kind"), quick_of(["groups"], in_turns(3, CASES, SEEDS, ["energy", "latency"]))
)
def test_optimum_is_the_least_of_what_keeps_random_constraints(case: str, seed: int, kind: str) -> None:
    """If no mapping keeps them the result is INFEASIBLE."""
    assert_optimal(case, draw_constraints(case, random.Random(f"{case} {seed}")), Objective.named(kind))


def test_some_of_the_random_constraints_leave_nothing() -> None:
    """So both kinds of results are tested."""
    drawn = [(case, draw_constraints(case, random.Random(f"{case} {seed}"))) for case in CASES for seed in SEEDS]
    kept = [any(not check_constraints(m, constraints) for m, _ in space(case)) for case, constraints in drawn]
    assert 2 <= kept.count(False) <= 12


@pytest.mark.parametrize("flow", Dataflow)
@pytest.mark.parametrize("case", ["product, weights in the row buffer", "window in the row buffer"])
def test_optimum_of_a_class_is_the_least_of_its_mappings(case: str, flow: Dataflow) -> None:
    """Of each of the four, whether it is one that the array decides or the loops."""
    assert_optimal(case, Constraints(dataflow=flow), ENERGY)


def fixed(**factors: int) -> list[int | None]:
    """A row of fixed factors, free where not named."""
    return [factors.get(d.name) for d in Dim]


@pytest.mark.parametrize(
    "constraints",
    [
        {"temporal": [NONE, NONE, NONE, fixed(C=1, K=1)]},
        {"temporal": [NONE, NONE, NONE, fixed(C=2)], "order": [(), (), (), (Dim.K, Dim.C)]},
        {"temporal": [NONE, NONE, fixed(C=2), fixed(C=2)]},
        {"temporal": [fixed(C=1, K=1), fixed(C=1, K=1), fixed(K=2), NONE], "order": [(), (), (Dim.C, Dim.K), ()]},
    ],
    ids=["loops of the row buffer", "some of the DRAM", "of both", "in an order"],
)
def test_row_buffer_that_stores_nothing_loops_where_it_has_to(constraints: dict[str, object]) -> None:
    """A loop of the row buffer can be moved to the DRAM at equal cost only if constraints do not name one of them."""
    sequential = [[None] * 3, [None] * 3, [False] * 3]
    assert_optimal("product, weights in the row buffer", Constraints(stored=sequential, **constraints), ENERGY)


def test_group_inside_a_class_sweeps_no_box() -> None:
    """Positions outside, groups inside: that follows the layout with groups last, row after row, and is found.

    O goes out in tiles of one element, of which 8 fill a row: two rows, opened once each.
    """
    layer = ConvWorkload(P=4, G=4, input_bytes=2, output_bytes=2, psum_bytes=2)
    arch = attrs.evolve(machine("", "O!", ""), activation_energy=0.5)
    last = Constraints(layout=[1, None, 1], order=[(), (), (), (Dim.P, Dim.G)])
    kept = [m for m in every_mapping(layer, arch) if not check_constraints(m, last)]
    solved = solve_layer(layer, arch, SolveRequest(objective=ENERGY, time_limit=60, constraints=last))
    assert solved.objective_value == solved.bound == min(predict(layer, arch, m).figures.energy_fj for m in kept)


@pytest.mark.parametrize(
    ("outer", "status"), [((Dim.C, Dim.N), Status.INFEASIBLE), ((Dim.N, Dim.C), Status.OPTIMAL)], ids=["back", "once"]
)
def test_block_of_partial_sums_has_to_fit_the_row_buffer(outer: tuple[Dim, ...], status: Status) -> None:
    """Four outputs of a byte fit 16 bytes; not as partial sums of 8 bytes, which come back if C is outside N."""
    layer, arch = ConvWorkload(C=2, K=4, N=2, psum_bytes=8), machine("", "", "O!")
    constraints = Constraints(temporal=[NONE, NONE, NONE, fixed(C=2, K=1, N=2)], order=[(), (), (), outer])
    solved = solve_layer(layer, arch, SolveRequest(objective=ENERGY, time_limit=60, constraints=constraints))
    assert solved.status is status
    assert solved.mapping is None or check_mapping(layer, arch, solved.mapping) == []


def test_cuts_are_shared_by_subspaces_with_the_same_orders() -> None:
    """A subspace whose outer loops are the row buffer's need not keep the orders of the DRAM: a minimum over those
    orders is no cut there.
    """
    layer = ConvWorkload(P=4, C=4, K=4)
    ordered = Constraints(order=[(), (), (), (Dim.K, Dim.C, Dim.P)])
    for constraints, is_shared in ((ordered, False), (Constraints(), True)):
        state = SearchState(layer, machine("", "IWO!", "W"), SolveRequest(objective=ENERGY, constraints=constraints))
        merged, aligned = (
            state.cut_pool_of(Restriction(layer, state.arch, constraints, subspace))
            for subspace in (Subspace.MERGED, Subspace.ALIGNED)
        )
        assert (merged is aligned) == is_shared


# --- Larger layers ---------------------------------------------------------------------------------------------------


def kept_by(mapping: Mapping, rng: random.Random) -> Constraints:
    """Much of what a mapping is."""

    def some(rows: Sequence[Sequence[object]]) -> list[list[object]]:
        return [[entry if rng.random() < 0.4 else None for entry in row] for row in rows]

    return Constraints(
        temporal=some(mapping.temporal),
        spatial=some(mapping.spatial),
        order=[order if rng.random() < 0.8 else () for order in mapping.order],
        stored=some(mapping.stored),
        layout=[index if rng.random() < 0.5 else None for index in mapping.layout],
        dataflow=classify_dataflow(mapping),
    )


@pytest.mark.parametrize(("name", "kind"), list(zip(LAYERS, ["latency", "energy"] * 3, strict=True)))
def test_master_problem_contains_the_mapping_whose_constraints_it_keeps(name: str, kind: str) -> None:
    """At its exact cost, as without constraints."""
    layer, arch, objective = LAYERS[name], PIMArchitecture(), Objective.named(kind)
    rng = random.Random(f"{name} {kind} constrained")
    tables = build_tables(layer, arch)
    for _ in range(3):
        mapping = draw_mapping(layer, arch, rng)
        constraints = kept_by(mapping, rng)
        assert contains(layer, arch, objective, tables, mapping, constraints), (mapping, constraints)
