"""The smallest mappings against the whole space of tiny layers, and against the solver."""

import random
from typing import Any

import attrs
import pytest

from cpsat_pim.arch import PEArray, PhyDim2, PIMArchitecture
from cpsat_pim.base.dims import Dim, Direction, Level
from cpsat_pim.mapper.explain.least import decide_least
from cpsat_pim.mapper.explain.limits import Problem
from cpsat_pim.mapper.explain.oracle import violations
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapping.constraints import Constraints, check_constraints
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_solver_against_enumeration import machine

ROOMY = 2**20
LAYERS = (
    ConvWorkload(C=2, K=2, psum_bytes=4),
    ConvWorkload(R=2, P=2, stride=(2, 1), output_bytes=2, psum_bytes=4),
    ConvWorkload(K=3, weight_bytes=4),
    ConvWorkload(P=2, C=2, stride=(2, 2)),
)


def problems(seed: int) -> Problem:
    """A tiny layer on a machine with little room that must and cannot store this and that, perhaps with constraints."""
    rng = random.Random(seed)
    arch = machine(*("".join(rng.sample("IWO", rng.randint(0, 3))) + "!" * rng.randint(0, 1) for _ in range(3)))
    levels = [
        attrs.evolve(level, entries=rng.choice((1, 2, 3, 5, 8, 12)), double_buffered=rng.random() < 0.3)
        for level in arch.hierarchy[:3]
    ]
    dram = attrs.evolve(arch.hierarchy[3], entries=rng.choice((8, 16, 32, 48, ROOMY, ROOMY)))
    layer = rng.choice(LAYERS)
    return Problem(
        layer=layer,
        arch=attrs.evolve(arch, hierarchy=(*levels, dram)),
        constraints=constraints(rng, layer) if rng.random() < 0.6 else Constraints(),
    )


def constraints(rng: random.Random, layer: ConvWorkload) -> Constraints:
    """Some factors, an order."""
    loops = [d for d in Dim if layer.bounds[d] > 1]
    tables: dict[str, Any] = {"temporal": [[None] * 8 for _ in range(4)], "spatial": [[None] * 8 for _ in range(3)]}
    for _ in range(rng.randint(1, 4)):
        table = tables[rng.choice(("temporal", "temporal", "spatial"))]
        rng.choice(table)[rng.choice(loops)] = rng.choice((1, 2))
    order = [(), (), (), tuple(rng.sample(loops, len(loops)))] if rng.random() < 0.5 else [()] * 4
    return Constraints(**tables, order=order)


@pytest.mark.parametrize("seed", range(16))
def test_verdict_is_that_of_the_space(seed: int) -> None:
    """A mapping keeps all; where there is said to be none, no mapping of the space does, and the solver finds none."""
    problem = problems(seed)
    verdict = decide_least(problem)
    if verdict.mapping:
        assert violations(problem, verdict.mapping) == []
    assert bool(verdict.feasible) == (verdict.mapping is not None)
    if verdict.feasible is False:
        assert verdict.reasons
        space = every_mapping(problem.layer, problem.arch)
        assert all(check_constraints(mapping, problem.constraints) for mapping in space)
        request = SolveRequest(objective=Objective.named("energy"), time_limit=5, constraints=problem.constraints)
        solved = solve_layer(problem.layer, problem.arch, request)
        assert solved.mapping is None
        assert solved.status is Status.INFEASIBLE or problem.arch.hierarchy[Level.DRAM].entries < ROOMY


def test_verdicts_are_seldom_left_open() -> None:
    """Of these problems both answers are common, and hardly any needs the solver."""
    verdicts = [decide_least(problems(seed)).feasible for seed in range(200)]
    assert min(verdicts.count(True), verdicts.count(False)) > 50
    assert verdicts.count(None) < 20


def test_narrower_sums_leave_it_open() -> None:
    """Outputs of 4 B as partial sums and of 1 B in the end, and a DRAM for the latter alone: the smallest mapping of an
    order spills, another one need not.
    """
    layer = ConvWorkload(P=4, C=4, psum_bytes=4)  # I 16 + W 4 + O 4 or 16 B
    arch = machine("O", "IWO", "")
    arch = attrs.evolve(arch, hierarchy=(*arch.hierarchy[:3], attrs.evolve(arch.hierarchy[3], entries=24)))
    spilled = Constraints(order=[(), (), (), (Dim.C, Dim.P)])
    assert decide_least(Problem(layer=layer, arch=arch)).feasible is True
    assert decide_least(Problem(layer=layer, arch=arch, constraints=spilled)).feasible is None
    too_small = attrs.evolve(arch, hierarchy=(*arch.hierarchy[:3], attrs.evolve(arch.hierarchy[3], entries=23)))
    assert decide_least(Problem(layer=layer, arch=too_small)).feasible is False


def test_reasons_are_those_of_the_validator() -> None:
    """What the smallest tiles break: three elements in two bytes."""
    levels = list(PIMArchitecture().hierarchy)
    levels[Level.PE] = attrs.evolve(levels[Level.PE], entries=5, bypass_defined=True)
    verdict = decide_least(Problem(layer=ConvWorkload(C=8, K=8), arch=PIMArchitecture(hierarchy=tuple(levels))))
    text = "PELocalBuffer: the tiles take I 1 + W 1 + O 1 = 3 B, there are 2 B (half of 5 B: double buffered)"
    assert verdict.reasons == (text,)


def test_loops_that_uneven_tiles_may_leave_out_leave_it_open() -> None:
    """K 64 has to be at the global buffer, whose 8 B hold one element each of W and O if its loop lies outside them."""
    levels = list(PIMArchitecture().hierarchy)
    levels[Level.GLOBAL_BUFFER] = attrs.evolve(levels[Level.GLOBAL_BUFFER], entries=16, bypass_defined=True)
    arch = PIMArchitecture(hierarchy=tuple(levels), uneven_residency=True)
    none, of_k = [None] * 8, [1 if d is Dim.K else None for d in Dim]
    problem = Problem(
        layer=ConvWorkload(C=4, K=64), arch=arch, constraints=Constraints(temporal=[none, none, of_k, of_k])
    )
    assert decide_least(problem).feasible is None
    even = attrs.evolve(problem, arch=attrs.evolve(arch, uneven_residency=False))
    assert decide_least(even).feasible is False


@pytest.mark.parametrize(("dram", "verdict"), [(52, None), (48, False)])
def test_blocks_that_may_fill_rows_leave_it_open(dram: int, verdict: bool | None) -> None:
    """24 B of W take 32 in blocks of 3 B, of which a row of 8 B holds two; in blocks of 24 B, 24. I and O take 25."""
    toy = machine("IWO", "IWO", "W")
    levels = [*toy.hierarchy[:2], attrs.evolve(toy.hierarchy[2], row_buffer_size=8, entries=64)]
    arch = attrs.evolve(
        toy,
        hierarchy=(*levels, attrs.evolve(toy.hierarchy[3], entries=dram)),
        pe_array=PEArray(array_shape=PhyDim2(h=3, w=1)),
    )
    spatial = [[None] * 8 for _ in range(3)]
    spatial[Direction.H][Dim.K] = 3  # type: ignore[call-overload]
    stored = [[None] * 3, [None] * 3, [None, True, None]]
    problem = Problem(layer=ConvWorkload(K=24), arch=arch, constraints=Constraints(spatial=spatial, stored=stored))
    request = SolveRequest(objective=Objective.named("energy"), time_limit=10, constraints=problem.constraints)
    assert decide_least(problem).feasible is verdict
    assert (solve_layer(problem.layer, arch, request).mapping is None) == (verdict is False)
