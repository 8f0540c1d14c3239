"""For tiny layers the optimum is the least cost of the whole search space, found by enumeration."""

from functools import cache

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.memory import MemoryLevel
from cpsat_pim.arch.pe_array import ComputeUnit, PEArray, PhyDim2
from cpsat_pim.base.dims import Dim, Tensor
from cpsat_pim.evaluate.cost import Figures, predict
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapper.space.parameters import SearchParameters
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload


def machine(pe: str, buffer: str, row_buffer: str, **options: object) -> PIMArchitecture:
    """Return a toy with 16 B rows and 4 B columns. Arguments name the tensors that a level may store, `!` = must."""

    def level(name: str, stores: str, **figures: object) -> MemoryLevel:
        return MemoryLevel(
            name=name, stores=tuple(t.name in stores for t in Tensor), bypass_defined="!" in stores, **figures
        )  # type: ignore[arg-type]

    return PIMArchitecture(
        name="toy",
        hierarchy=(
            level("PE", pe, entries=16, access_cost=1e-3),
            level("GB", buffer, entries=24, access_cost=3e-3, read_bandwidth_limit=2, write_bandwidth_limit=2),
            level("RB", row_buffer, entries=16, access_cost=2e-3, row_buffer_size=16),
            MemoryLevel(name="DRAM", entries=2**20, access_cost=10e-3, write_cost=12e-3),
        ),
        pe_array=PEArray(
            array_shape=PhyDim2(h=2, w=1), compute_unit=ComputeUnit(unit_type="simd", num_macs=2, mac_energy=1e-3)
        ),
        dram_timings={"co_w": 32},
        **{"activation_energy": 20e-3} | options,  # type: ignore[arg-type]
    )


def with_dram(toy: PIMArchitecture, **figures: object) -> PIMArchitecture:
    """Return a toy with other figures of the DRAM."""
    return attrs.evolve(toy, hierarchy=(*toy.hierarchy[:3], attrs.evolve(toy.hierarchy[3], **figures)))


def proven_mapping(layer: ConvWorkload, arch: PIMArchitecture, request: SolveRequest, least: int) -> Mapping:
    """Assert that a solve proves a least cost, in the solver's integers, with a legal mapping; return this."""
    solved = solve_layer(layer, arch, request)
    assert solved.mapping is not None
    assert check_mapping(layer, arch, solved.mapping) == []
    assert solved.status is Status.OPTIMAL
    assert solved.objective_value == request.objective.reported(least)
    return solved.mapping


CASES = {
    "product, bypass free": (ConvWorkload(C=2, K=2), machine("IWO", "IWO", "")),
    "product, weights in the row buffer": (ConvWorkload(C=4, K=4), machine("O", "IWO!", "W")),
    "closed pages, two rows of outputs": (ConvWorkload(P=2, C=2, K=2), machine("O", "I", "", page_policy="closed")),
    "convolution": (ConvWorkload(R=2, P=3, K=2), machine("O!", "IW", "I")),
    "strided": (ConvWorkload(P=4, C=3, stride=(2, 1)), machine("IO", "IW", "")),
    "no multicast, no reduction": (
        ConvWorkload(C=2, K=2, N=2),
        machine("WO", "I", "", multicast=False, spatial_reduction=False),
    ),
    "groups, two banks": (ConvWorkload(G=2, C=2, K=2), with_dram(machine("O", "W", ""), num_banks=2)),
}


def separate(toy: PIMArchitecture, **entries: tuple[int, int, int]) -> PIMArchitecture:
    """Return a toy in which some levels have a buffer of so many bytes for each of I, W, O."""
    sizes = {name: dict(zip("IWO", given, strict=True)) for name, given in entries.items()}
    levels = (attrs.evolve(m, entries=sizes.get(m.name, m.entries)) for m in toy.hierarchy)
    return attrs.evolve(toy, hierarchy=tuple(levels))


#: Separate buffers, most of them tight for one tensor and roomy for another.
CASES |= {
    "separate, product": (ConvWorkload(C=2, K=2), separate(machine("IWO", "IWO", ""), PE=(4, 2, 8), GB=(8, 4, 2))),
    "separate, none for weights": (
        ConvWorkload(C=4, N=2),
        separate(machine("IO", "IW", ""), PE=(2, 0, 4), GB=(4, 4, 0)),
    ),
    "separate row buffers": (
        ConvWorkload(R=2, P=3, K=2),
        separate(machine("O!", "IW", "I"), RB=(2, 3, 1), GB=(6, 2, 0)),
    ),
}


def uneven(
    pe: str, buffer: str, row_buffer: str, *, bytes_in_pe: int, bytes_in_buffer: int, **options: object
) -> PIMArchitecture:
    """Return a toy that may store a smaller tile than its level's, with so little capacity that it has to."""
    toy = machine(pe, buffer, row_buffer, uneven_residency=True, **options)
    inner = [attrs.evolve(toy.hierarchy[m], entries=n) for m, n in enumerate((bytes_in_pe, bytes_in_buffer))]
    return attrs.evolve(toy, hierarchy=(*inner, *toy.hierarchy[2:]))


#: Of most of these an uneven mapping is the best by some objective.
UNEVEN = {
    "separate buffers": (
        ConvWorkload(C=2, K=3),
        separate(uneven("IW!", "IWO!", "", bytes_in_pe=10, bytes_in_buffer=14), GB=(4, 6, 6)),
    ),
    "all in the buffer": (ConvWorkload(C=2, K=2, P=2), uneven("", "IWO!", "", bytes_in_pe=16, bytes_in_buffer=12)),
    "both levels": (ConvWorkload(C=2, K=3), uneven("IW!", "IWO!", "", bytes_in_pe=10, bytes_in_buffer=14)),
    "halo in the PEs": (ConvWorkload(R=2, P=3, K=2), uneven("IO!", "W", "", bytes_in_pe=12, bytes_in_buffer=14)),
    "strided": (ConvWorkload(P=4, K=2, stride=(2, 1)), uneven("IO!", "W!", "", bytes_in_pe=12, bytes_in_buffer=12)),
    "behind the row buffer": (ConvWorkload(C=2, K=4), uneven("", "IO!", "W!", bytes_in_pe=16, bytes_in_buffer=12)),
    "closed pages": (
        ConvWorkload(C=2, K=2, P=2),
        uneven("", "IWO!", "", bytes_in_pe=16, bytes_in_buffer=12, page_policy="closed"),
    ),
    "groups": (ConvWorkload(G=2, C=2, K=2), uneven("", "IWO!", "", bytes_in_pe=16, bytes_in_buffer=12)),
    "no multicast, no reduction": (
        ConvWorkload(C=2, K=2, N=2),
        uneven("O!", "IW!", "", bytes_in_pe=16, bytes_in_buffer=12, multicast=False, spatial_reduction=False),
    ),
}


#: Spaces of more than 15,000 mappings, and those that take longest of the others.
LONG = (
    *("convolution", "no multicast, no reduction", "product, bypass free"),
    *("strided", "closed pages, two rows of outputs", "separate, product", "groups, two banks"),
)
LONG_UNEVEN = ("groups", "all in the buffer", "no multicast, no reduction", "halo in the PEs", "closed pages")


@cache
def whole_space(case: str) -> list[Figures]:
    """Return the predicted figures of each mapping of a case."""
    layer, arch = CASES[case]
    return [predict(layer, arch, mapping).figures for mapping in every_mapping(layer, arch)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_energy_optimum_is_the_least_simulated_energy(case: str) -> None:
    """No mapping of the space has less simulated energy than the proven optimum."""
    layer, arch = CASES[case]
    least = min(simulate(layer, arch, mapping).energy_fj for mapping in every_mapping(layer, arch))
    solved = solve_layer(layer, arch, SolveRequest(objective=Objective.named("energy"), time_limit=60))
    assert solved.status is Status.OPTIMAL
    assert solved.objective_value == solved.bound == least


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c in LONG else c for c in CASES])
def test_optimum_is_the_least_predicted_cost(case: str) -> None:
    """For latency and blends; if time runs out, the bound is valid for the whole space."""
    layer, arch = CASES[case]
    figures = whole_space(case)
    for objective in (Objective.named("latency"), Objective.named("energy"), Objective.named("blended", 1, 3)):
        least = objective.reported(min(objective.value(f.latency_cycles, f.energy_fj) for f in figures))
        solved = solve_layer(layer, arch, SolveRequest(objective=objective, time_limit=5))
        assert solved.bound is not None
        assert solved.bound <= least
        if solved.status is Status.OPTIMAL:
            assert solved.objective_value == least


@pytest.mark.parametrize("objective", [Objective.named("latency"), Objective.named("blended", 1, 3)])
def test_solutions_with_too_many_loop_orders_are_counted_in_the_end(objective: Objective) -> None:
    """Where one order is too many for a cut, solutions are forbidden; all of their orders are counted in the end."""
    case = "product, weights in the row buffer"
    least = objective.reported(min(objective.value(f.latency_cycles, f.energy_fj) for f in whole_space(case)))
    parameters = SearchParameters(orders_evaluated=1, orders_per_cut=1)
    solved = solve_layer(*CASES[case], SolveRequest(objective=objective, time_limit=60, parameters=parameters))
    assert solved.status is Status.OPTIMAL
    assert solved.objective_value == least


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c in LONG_UNEVEN else c for c in UNEVEN])
def test_optimum_is_the_least_of_uneven_mappings_too(case: str) -> None:
    """With tiles that may cover only some loops of their level, for any objective."""
    layer, arch = UNEVEN[case]
    mappings = list(every_mapping(layer, arch))
    assert any(mapping.is_uneven for mapping in mappings)
    figures = [predict(layer, arch, mapping).figures for mapping in mappings]
    for kind in ("energy", "latency", "blended"):
        objective = Objective.named(kind, 1, 3)
        least = min(objective.value(f.latency_cycles, f.energy_fj) for f in figures)
        solved = solve_layer(layer, arch, SolveRequest(objective=objective, time_limit=20))
        assert solved.status is Status.OPTIMAL
        assert solved.objective_value == objective.reported(least)


def test_an_uneven_tile_can_cost_less_than_all_even_ones() -> None:
    """For a convolution with overlapping windows."""
    layer, arch = UNEVEN["halo in the PEs"]
    solved = {
        allowed: solve_layer(
            layer, attrs.evolve(arch, uneven_residency=allowed), SolveRequest(objective=Objective.named("energy"))
        )
        for allowed in (False, True)
    }
    assert all(answer.status is Status.OPTIMAL for answer in solved.values())
    assert solved[True].objective_value < solved[False].objective_value
    assert solved[True].mapping.is_uneven


def test_blocks_may_end_later_than_any_tile() -> None:
    """Row-aligned I and O under closed pages: the ends of their streams take longer than those of any packed tile."""
    toy = PIMArchitecture(page_policy="closed", pe_array=PEArray(array_shape=PhyDim2(1, 1)))
    levels = [attrs.evolve(level, ports=3, double_buffered=False, access_cost=0) for level in toy.hierarchy]
    levels[2] = attrs.evolve(levels[2], entries=16, stores=(True, False, True), bypass_defined=True)
    arch = attrs.evolve(toy, hierarchy=tuple(levels))
    layer = ConvWorkload(Q=5, input_bytes=2, output_bytes=2, psum_bytes=4)
    objective = Objective.named("blended", 7, 0.25)
    figures = [predict(layer, arch, mapping).figures for mapping in every_mapping(layer, arch)]
    solved = solve_layer(layer, arch, SolveRequest(objective=objective, time_limit=20))
    least = min(objective.value(f.latency_cycles, f.energy_fj) for f in figures)
    assert solved.status is Status.OPTIMAL
    assert solved.objective_value == objective.reported(least)


def slow_buffer(layer_stores: tuple[str, str, str], bandwidth: float) -> PIMArchitecture:
    """A toy whose global buffer takes many cycles a byte, so that bypassing it pays."""
    toy = machine(*layer_stores)
    pe, buffer = toy.hierarchy[:2]
    buffer = attrs.evolve(buffer, bypass_defined=False, read_bandwidth_limit=bandwidth, write_bandwidth_limit=bandwidth)
    return attrs.evolve(toy, hierarchy=(attrs.evolve(pe, entries=64), buffer, *toy.hierarchy[2:]))


@pytest.mark.parametrize("bandwidth", [0.5, pytest.param(0.05, marks=pytest.mark.slow), 0.01])
def test_a_link_that_is_not_used_takes_no_time(bandwidth: float) -> None:
    """Whatever the bandwidth of a buffer that a mapping bypasses."""
    layer, arch = ConvWorkload(C=4, K=2), slow_buffer(("W!", "IW", ""), bandwidth)
    figures = [predict(layer, arch, mapping).figures for mapping in every_mapping(layer, arch)]
    for objective in (Objective.named("latency"), Objective.named("energy"), Objective.named("blended", 1, 3)):
        least = objective.reported(min(objective.value(f.latency_cycles, f.energy_fj) for f in figures))
        solved = solve_layer(layer, arch, SolveRequest(objective=objective, time_limit=10))
        assert solved.status is Status.OPTIMAL
        assert solved.objective_value == solved.bound == least


def test_blocks_are_not_placed_in_dram_like_boxes() -> None:
    """Several row-aligned blocks of O may share a row where the box that they make up lies in more of them.

    O's blocks of 2 K x 4 P take 8 B, so two that follow each other along P share a row of 16 B; packed, each 4 P of a
    channel would lie in another row than the next channel's.
    """
    pe, buffer, rows, dram = machine("", "IWO", "O!").hierarchy
    hierarchy = (pe, attrs.evolve(buffer, entries=100), attrs.evolve(rows, entries=8), dram)
    layer = ConvWorkload(P=8, Q=8, K=8, C=2)
    arch = attrs.evolve(machine("", "IWO", "O!"), hierarchy=hierarchy, activation_energy=1.0)
    in_dram, order = (1, 1, 2, 8, 1, 4, 1, 1), (Dim.Q, Dim.K, Dim.P)
    witness = Mapping(
        temporal=((1, 1, 2, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 2, 1, 1), (1,) * 8, in_dram),
        spatial=((1, 1, 1, 1, 2, 1, 1, 1), (1,) * 8, (1, 1, 2, 1, 1, 1, 1, 1)),
        order=((Dim.P,), (Dim.K,), (), order),
        stored=((False,) * 3, (True,) * 3, (False, False, True)),
        layout=(1, 0, 0),
    )
    assert check_mapping(layer, arch, witness) == []
    free = (None,) * 8
    constraints = Constraints(temporal=(free, free, free, in_dram), order=((), (), (), order), layout=(None, None, 0))
    request = SolveRequest(objective=Objective.named("latency"), time_limit=20, constraints=constraints)
    solved = solve_layer(layer, arch, request)
    assert solved.bound is not None
    assert solved.bound <= predict(layer, arch, witness).figures.latency_cycles


@pytest.mark.parametrize("kind", ["energy", "latency"])
@pytest.mark.parametrize("order", [(), (Dim.C, Dim.P)])
def test_groups_on_the_array_leave_all_orders_of_the_other_loops(order: tuple[Dim, ...], kind: str) -> None:
    """Also those in which loops of one class are interleaved with others."""
    layer, toy, ones = ConvWorkload(P=4, Q=4, C=4, G=2), machine("IWO!", "", "", activation_energy=1.0), (1,) * 8
    in_dram, groups = (1, 1, 4, 4, 4, 1, 1, 1), (1, 1, 1, 1, 1, 1, 1, 2)
    constraints = Constraints(
        temporal=(ones, ones, ones, in_dram), spatial=(groups, ones, ones), order=((), (), (), order)
    )
    objective = Objective.named(kind)
    figures = [predict(layer, toy, mapping).figures for mapping in every_mapping(layer, toy, constraints)]
    solved = solve_layer(layer, toy, SolveRequest(objective=objective, time_limit=30, constraints=constraints))
    assert solved.status is Status.OPTIMAL
    least = min(objective.value(f.latency_cycles, f.energy_fj) for f in figures)
    assert solved.objective_value == objective.reported(least)
