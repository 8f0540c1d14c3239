"""With all but the outer loops fixed, the optimum is the least of all completions."""

import math

import attrs
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Level
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_bounds import contains
from tests.cross.test_solver_against_enumeration import machine, with_dram

ONES, FREE = (1,) * len(Dim), (None,) * len(Dim)


def toy(banks: int, buffer_bytes: int, aligned: str = "") -> PIMArchitecture:
    """Most of the energy goes into rows of 16 B; W and O are kept in the global buffer, half of which is for the next
    tiles, I in none; some tensors are row-aligned.
    """
    arch = machine("", "WO!", f"{aligned}!", activation_energy=10.0)
    pe, buffer, *outer = arch.hierarchy
    arch = attrs.evolve(arch, hierarchy=(pe, attrs.evolve(buffer, entries=buffer_bytes), *outer))
    return with_dram(arch, num_banks=banks)


def row(**factors: int) -> tuple[int, ...]:
    """Return factors per dim."""
    return tuple(factors.get(d.name, 1) for d in Dim)


def outer_loops_free(inner: tuple[int, ...], *, may_split: bool) -> Constraints:
    """Return constraints that fix all but the DRAM's loops and their order; with `may_split` the row buffer's too."""
    temporal = (ONES, inner, FREE if may_split else ONES, FREE)
    return Constraints(temporal=temporal, spatial=(ONES,) * 3)


@pytest.mark.slow
@given(
    outer=st.tuples(*(st.sampled_from((1, 2, 3, 4)) for _ in "PCK")),
    inner=st.tuples(st.sampled_from((1, 2)), st.sampled_from((1, 2)), st.sampled_from((2, 4, 8))),
    banks=st.sampled_from((1, 1, 2, 4)),
    buffer_bytes=st.sampled_from((32, 48)),
    kind=st.sampled_from(("energy", "latency")),
    may_split=st.booleans(),
)
@example(outer=(4, 2, 2), inner=(2, 2, 4), banks=1, buffer_bytes=48, kind="energy", may_split=False)
@example(outer=(3, 4, 2), inner=(1, 2, 8), banks=2, buffer_bytes=48, kind="latency", may_split=False)
@example(outer=(4, 3, 1), inner=(2, 1, 4), banks=1, buffer_bytes=32, kind="energy", may_split=False)
@settings(max_examples=20)
def test_optimum_is_the_least_over_all_outer_loops(
    outer: tuple[int, ...], inner: tuple[int, ...], banks: int, buffer_bytes: int, kind: str, may_split: bool
) -> None:
    """One loop per dim at the DRAM, or any at the two outer levels.

    The examples: what contiguous loops sweep lies in one row, which is open when the next pass over it begins (twice);
    solutions with the same extents inside their outer loops, of which the MACs draw I's elements one by one.
    """
    assume(not may_split or math.prod(outer) <= 16)
    p, c, k = (m * n for m, n in zip(outer, inner, strict=True))
    layer, arch, objective = ConvWorkload(P=p, C=c, K=k), toy(banks, buffer_bytes), Objective.named(kind)
    constraints = outer_loops_free(row(P=inner[0], C=inner[1], K=inner[2]), may_split=may_split)
    figures = [predict(layer, arch, mapping).figures for mapping in every_mapping(layer, arch, constraints)]
    assume(figures)
    solved = solve_layer(layer, arch, SolveRequest(objective=objective, time_limit=20, constraints=constraints))
    assert solved.status is Status.OPTIMAL
    assert solved.objective_value == objective.reported(
        min(objective.value(f.latency_cycles, f.energy_fj) for f in figures)
    )


@pytest.mark.slow
@given(
    order=st.permutations((Dim.N, Dim.P, Dim.C, Dim.K)),
    outer=st.tuples(*(st.sampled_from((1, 2, 3, 4)) for _ in "NPCK")),
    inner=st.tuples(st.just(1), *(st.sampled_from((1, 2, 4)) for _ in "PCK")),
    aligned=st.sampled_from(("I", "W", "O", "IW", "IO")),
    banks=st.sampled_from((1, 1, 1, 2)),
    kind=st.sampled_from(("energy", "latency")),
)
@example(
    order=[Dim.N, Dim.C, Dim.K, Dim.P], outer=(1, 2, 1, 3), inner=(1, 4, 4, 2), aligned="I", banks=2, kind="energy"
)
@settings(max_examples=25)
def test_no_order_of_outer_loops_over_blocks_costs_less_than_its_bound(
    order: list[Dim], outer: tuple[int, ...], inner: tuple[int, ...], aligned: str, banks: int, kind: str
) -> None:
    """Several blocks lie in a row, which sweeps open again or not; in the example two rows stay open in two banks."""
    n, p, c, k = (m * n for m, n in zip(outer, inner, strict=True))
    layer, arch, objective = ConvWorkload(N=n, P=p, C=c, K=k), toy(banks, 64, aligned), Objective.named(kind)
    free = outer_loops_free(row(P=inner[1], C=inner[2], K=inner[3]), may_split=False)
    constraints = attrs.evolve(free, order=((), (), (), order))

    def value(mapping: Mapping) -> int:
        figures = predict(layer, arch, mapping).figures
        return objective.value(figures.latency_cycles, figures.energy_fj)

    cheapest = min(every_mapping(layer, arch, constraints), key=value, default=None)
    assume(cheapest is not None)
    assert contains(layer, arch, objective, build_tables(layer, arch), cheapest)


def test_two_outer_loops_of_a_dim_may_open_fewer_rows_than_one() -> None:
    """P 3 and 2 round C open 18 rows in all; with P 6 on either side of C it takes 30, in any layouts. The solver finds
    the former.
    """
    layer, arch, constraints = ConvWorkload(C=8, P=6, K=8), toy(1, 32), outer_loops_free(row(K=8), may_split=True)
    simulated = [(simulate(layer, arch, mapping), mapping) for mapping in every_mapping(layer, arch, constraints)]
    merged = [
        found
        for found, mapping in simulated
        if all(1 in pair for pair in zip(mapping.temporal[Level.ROW_BUFFER], mapping.temporal[Level.DRAM], strict=True))
    ]
    assert min(sum(found.row_activations) for found in merged) == 30
    assert min(sum(found.row_activations) for found, _ in simulated) == 18
    solved = solve_layer(
        layer, arch, SolveRequest(objective=Objective.named("energy"), time_limit=20, constraints=constraints)
    )
    assert solved.status is Status.OPTIMAL
    assert solved.objective_value == min(found.energy_fj for found, _ in simulated)
