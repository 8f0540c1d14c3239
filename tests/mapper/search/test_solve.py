"""The solver's parameters may be others, and the optimum is the same."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import attrs
import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.evaluate.cost import rate
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapper.search.constructed import constructed_mappings
from cpsat_pim.mapper.search.solve import _find_any_mapping, _is_descent_due, _next, _turn_ends, search_subspaces
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.search.subspace_search import SubspaceSearch
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import BankCounts, Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import FREE
from tables.bounds.shapes import OutOfTime
from tests.cross.test_solver_against_enumeration import CASES
from tests.mapping.check.mappings import build_mapping

LATENCY = Objective.named("latency")


@pytest.mark.parametrize("parameters", [{"cp_model_presolve": True}, {"linearization_level": 2, "random_seed": 7}])
def test_optimum_does_not_depend_on_parameters(parameters: dict[str, Any]) -> None:
    """With presolve, or with linear relaxations."""
    layer, arch = CASES["product, bypass free"]
    usual, other = (
        solve_layer(layer, arch, SolveRequest(objective=Objective.named("latency"), cp_sat_parameters=p))
        for p in ({}, parameters)
    )
    assert usual.status is other.status is Status.OPTIMAL
    assert usual.objective_value == other.objective_value


@pytest.mark.parametrize(
    "works",
    [
        pytest.param({"hard_work": -1}, id="hard from the start"),
        pytest.param({"hard_work": -1, "light_work": 0, "heavy_work": 0}, id="each master problem once"),
        pytest.param({"hard_work": 1e-7, "solve_work": 2e-7}, id="hard after a solve that was ended"),
    ],
)
@pytest.mark.parametrize("kind", ["latency", "energy"])
@pytest.mark.parametrize("case", ["product, bypass free", "strided"])
def test_optimum_does_not_depend_on_how_trial_bounds_rise(case: str, kind: str, works: dict[str, float]) -> None:
    """Also with small steps and bounded tiles from the start, as for hard layers."""
    layer, arch = CASES[case]
    request = SolveRequest(objective=Objective.named(kind), time_limit=600)
    usual = solve_layer(layer, arch, request)
    other = solve_layer(layer, arch, attrs.evolve(request, parameters=SearchParameters(**works)))
    assert usual.status is other.status is Status.OPTIMAL
    assert usual.objective_value == other.objective_value


def test_parameters_are_passed_on() -> None:
    """One that leaves the solver no work to do leaves nothing proven."""
    layer, arch = CASES["strided"]
    request = SolveRequest(objective=LATENCY, time_limit=1, cp_sat_parameters={"max_deterministic_time": 1e-9})
    assert solve_layer(layer, arch, request).status is not Status.OPTIMAL


@pytest.mark.parametrize("parameters", [{"no_such": 1}, {"cp_model_presolve": "yes"}])
def test_parameters_that_there_are_not_are_refused(parameters: dict[str, Any]) -> None:
    """When the options are made."""
    with pytest.raises(ValueError, match=r"SolveRequest\.cp_sat_parameters: must be parameters of CP-SAT"):
        SolveRequest(objective=LATENCY, cp_sat_parameters=parameters)


@pytest.mark.parametrize("name", ["absolute_gap_limit", "relative_gap_limit"])
def test_parameters_that_leave_gaps_are_refused(name: str) -> None:
    """CP-SAT calls an answer within them optimal."""
    with pytest.raises(ValueError, match=rf"SolveRequest\.cp_sat_parameters: must leave no gap open \(got {name}\)"):
        SolveRequest(objective=LATENCY, cp_sat_parameters={name: 0.5})


def test_optima_past_the_precision_of_doubles_are_exact() -> None:
    """CP-SAT rounds costs and bounds above 2^53 as doubles, by the 8 of 144,115,188,075,855,89x fJ at most."""
    layer, array = ConvWorkload(C=2, K=2), PIMArchitecture().pe_array
    units = [attrs.evolve(array.compute_unit, mac_energy=Fraction(fj, FJ_PER_NJ)) for fj in (2**55 + 1, 0)]
    archs = [PIMArchitecture(pe_array=attrs.evolve(array, compute_unit=unit)) for unit in units]
    solved, apart = (
        solve_layer(layer, arch, SolveRequest(objective=Objective.named("energy"), time_limit=30)) for arch in archs
    )
    assert solved.status is apart.status is Status.OPTIMAL
    assert solved.objective_value == solved.bound == apart.objective_value + 4 * (2**55 + 1)


@pytest.mark.parametrize("bandwidth", [32 / 3, 0.1 + 0.2, 1 / 3])
def test_bandwidths_of_many_decimals_can_be_counted(bandwidth: float) -> None:
    """As the fractions that they are meant to be."""
    layer, arch = ConvWorkload(C=4, K=4), PIMArchitecture()
    buffer = attrs.evolve(arch.hierarchy[1], read_bandwidth_limit=bandwidth, write_bandwidth_limit=bandwidth)
    arch = attrs.evolve(arch, hierarchy=(arch.hierarchy[0], buffer, *arch.hierarchy[2:]))
    assert (
        solve_layer(layer, arch, SolveRequest(objective=Objective.named("latency"), time_limit=30)).status
        is Status.OPTIMAL
    )


@pytest.mark.parametrize(
    ("bandwidth", "fraction"),
    [(16, (16, 1)), (0.1, (1, 10)), (2.345678, (1172839, 500000)), (32 / 3, (32, 3)), (1e-9, (1, 10**9))],
)
def test_bandwidths_are_exact_to_a_millionth(bandwidth: float, fraction: tuple[int, int]) -> None:
    """Of a byte a cycle, or of a cycle a byte."""
    assert rate(bandwidth) == fraction


FAR = SolveRequest(objective=Objective.named("blended"), time_limit=0, parameters=SearchParameters(any_steps=(1e14,)))


def test_a_mapping_is_found_however_high_the_trial_bound() -> None:
    """The time is up, and the only trial bound is above what CP-SAT can add up: it is lowered to that."""
    layer = ConvWorkload(C=64, K=64)
    solved = solve_layer(layer, PIMArchitecture(), FAR)
    assert solved.status is Status.FEASIBLE


def test_no_mapping_is_found_where_a_trial_bound_is_too_large_for_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """If CP-SAT rejects the master problem no mapping is found, and no error is raised."""
    monkeypatch.setattr("cpsat_pim.mapper.search.trial_bounds.HIGHEST", 2**62)
    monkeypatch.setattr("cpsat_pim.mapper.search.solve.constructed_mappings", lambda *_: iter(()))
    layer = ConvWorkload(C=64, K=64)
    assert solve_layer(layer, PIMArchitecture(), FAR).status is Status.UNKNOWN


def test_costs_of_a_language_model_fit_the_solver() -> None:
    """CP-SAT refuses a model whose domains add up to more than 2^63: products are bounded by what they can reach.

    The layer is a product of GPT-3 13B over 2048 tokens: 214.7 G MACs, at most 1024 of them a cycle.
    """
    layer = ConvWorkload(N=2048, C=5120, K=20480)
    solved = solve_layer(layer, PIMArchitecture(), SolveRequest(objective=LATENCY, time_limit=60))
    assert solved.status is Status.OPTIMAL
    assert solved.bound is not None
    assert solved.bound >= layer.macs // PIMArchitecture().pe_array.macs_per_cycle


@pytest.mark.parametrize("preset", ["default", "hbm-pim", "gddr6-aim", "upmem", "stacked-3d"])
@pytest.mark.parametrize("kind", ["energy", "latency"])
def test_time_that_is_up_leaves_a_mapping(preset: str, kind: str) -> None:
    """Not even a moment: a legal mapping, whose cost is at least the bound; where they meet, it is proven."""
    arch = PIMArchitecture() if preset == "default" else read_arch(preset)
    for shape in ({"C": 1021, "K": 512}, {"R": 3, "S": 3, "P": 14, "Q": 14, "C": 32, "K": 16, "stride": (2, 2)}):
        layer = ConvWorkload(**shape)  # type: ignore[arg-type]
        solved = solve_layer(layer, arch, SolveRequest(objective=Objective.named(kind), time_limit=0))
        assert solved.status in (Status.FEASIBLE, Status.OPTIMAL)
        assert solved.mapping is not None
        assert check_mapping(layer, arch, solved.mapping) == []
        assert solved.bound is None or solved.bound <= solved.objective_value


# --- Starts ----------------------------------------------------------------------------------------------------------


def test_no_master_problem_is_built_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a search begins at a known bound, too: one problem for each subspace and assignment took seconds in all."""

    def built(*_: Any) -> None:
        raise AssertionError("a master problem was built")

    layer, arch = ConvWorkload(C=16, K=16), read_arch("hbm-pim")
    parameters = SearchParameters(table_seconds=600)
    state = SearchState(layer, arch, SolveRequest(objective=LATENCY, time_limit=0, parameters=parameters))
    state.known_bound = 1
    assert any(map(state.offer, constructed_mappings(layer, arch, FREE)))
    monkeypatch.setattr(SubspaceSearch, "_build_master", built)
    assert len(search_subspaces(state)) > 5


def strided_with_block(height: int) -> tuple[ConvWorkload, PIMArchitecture, Mapping]:
    """Five outputs, three rows of I apart, each fetched by itself from row-aligned blocks of this height."""
    layer = ConvWorkload(C=2, Q=5, stride=(1, 3))
    levels = [attrs.evolve(level, entries=64) for level in PIMArchitecture().hierarchy[:2]]
    arch = attrs.evolve(PIMArchitecture(), hierarchy=(*levels, *PIMArchitecture().hierarchy[2:]))
    mapping = build_mapping("3Q5 0C2", "20 10 10", block_h=height, block_w=1)
    return layer, arch, mapping


def test_start_outside_the_space_is_refused() -> None:
    """A tile has one row, so a block of six rows is none of the space: its cost would be no optimum of the space."""
    layer, arch, outside = strided_with_block(6)
    assert check_mapping(layer, arch, outside) != []
    with pytest.raises(ValueError, match="block_h of I must be 1 "):
        solve_layer(layer, arch, SolveRequest(objective=LATENCY, start=outside))


@pytest.mark.parametrize("kind", ["energy", "latency"])
def test_start_inside_the_space_changes_no_optimum(kind: str) -> None:
    """The same mapping with a block of one row."""
    layer, arch, start = strided_with_block(1)
    request = SolveRequest(objective=Objective.named(kind), time_limit=60)
    usual, started = (solve_layer(layer, arch, attrs.evolve(request, start=s)) for s in (None, start))
    assert usual.status is started.status is Status.OPTIMAL
    assert usual.objective_value == started.objective_value


@pytest.mark.parametrize(
    ("incumbent", "built", "is_sought"), [(None, None, True), ("a", None, False), ("a", "a", True), ("b", "a", False)]
)
def test_any_mapping_is_sought_until_the_search_found_one(
    incumbent: str | None, built: str | None, is_sought: bool
) -> None:
    """An incumbent that was built without a search is no reason not to seek another one; one of the search is."""
    state = SimpleNamespace(incumbent=incumbent, constructed=built, is_stopped=False, seconds=0.0, parameters=DEFAULTS)
    sought: list[float | None] = []
    search = SimpleNamespace(
        state=state,
        subspace=Subspace.MERGED,
        is_open=True,
        seek_any_mapping=lambda step, until: sought.append(step),
    )
    _find_any_mapping([cast(SubspaceSearch, search)], math.inf)
    assert bool(sought) is is_sought


def test_any_mapping_is_sought_in_all_subspaces_below_one_trial_bound_after_the_other() -> None:
    """The second subspace has a mapping below the second trial bound: the first one is not searched below the third."""
    state = SimpleNamespace(incumbent=None, constructed=None, is_stopped=False, seconds=0.0, parameters=DEFAULTS)
    tried: list[tuple[int, float | None]] = []

    def seek(number: int, step: float | None, until: float) -> None:
        tried.append((number, step))
        if (number, step) == (1, DEFAULTS.any_steps[0]):
            state.incumbent = 5

    searches = [
        SimpleNamespace(state=state, subspace=Subspace.MERGED, is_open=True, seek_any_mapping=partial(seek, number))
        for number in range(2)
    ]
    _find_any_mapping(cast(list[SubspaceSearch], searches), math.inf)
    assert tried == [(0, None), (1, None), (0, DEFAULTS.any_steps[0]), (1, DEFAULTS.any_steps[0])]


@pytest.mark.parametrize(
    ("seconds", "cutoff", "chosen", "turn_ends"),
    [(2.0, 90, Subspace.MERGED, 31), (59.0, 90, Subspace.SPLIT, 60), (59.0, None, Subspace.MERGED, 60)],
)
def test_split_loops_come_last_until_half_of_the_time_is_up(
    seconds: float, cutoff: int | None, chosen: Subspace, turn_ends: float
) -> None:
    """The split subspace has the lowest bound, which is the layer's: at first it waits, and without an incumbent."""
    request = SimpleNamespace(time_limit=60.0)
    state = SimpleNamespace(seconds=seconds, cutoff=cutoff, request=request, parameters=DEFAULTS)
    searches = [
        SimpleNamespace(state=state, subspace=subspace, lower_bound=bound, is_ready=True)
        for subspace, bound in ((Subspace.ALIGNED, 30), (Subspace.MERGED, 20), (Subspace.SPLIT, 10))
    ]
    found = _next(cast(list[SubspaceSearch], searches))
    assert found is not None
    assert found.subspace is chosen
    assert _turn_ends(found, cast(list[SubspaceSearch], searches)) == turn_ends
    assert _turn_ends(found, [found]) == 60


@pytest.mark.parametrize("kind", ["latency", "energy", "blended"])
def test_without_tables_there_is_a_mapping_and_a_bound(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the time ends before the shape tables are built: the bound is no more than the optimum."""
    layer, arch = CASES["strided"]
    request = SolveRequest(objective=Objective.named(kind), time_limit=60)
    optimum = solve_layer(layer, arch, request)
    asked: list[bool] = []

    def give_up(layer: ConvWorkload, arch: PIMArchitecture, is_over: Callable[[], bool], counts: BankCounts) -> None:
        asked.append(is_over())
        raise OutOfTime

    monkeypatch.setattr("cpsat_pim.mapper.search.solve.build_tables", give_up)
    ended = solve_layer(layer, arch, attrs.evolve(request, time_limit=0))
    assert ended.status in (Status.FEASIBLE, Status.OPTIMAL)
    assert ended.mapping is not None
    assert check_mapping(layer, arch, ended.mapping) == []
    assert 0 < ended.bound <= optimum.objective_value <= ended.objective_value
    assert asked[0] is False  # tables that are soon built are built


@pytest.mark.parametrize(("vain", "is_due"), [(0, True), (1, False)])
def test_descents_become_rarer_where_they_find_nothing(vain: int, is_due: bool) -> None:
    """After 10 of 40 seconds another one is due below a share of 0.3, or 12 s; after a vain one below 0.15, or 6 s."""
    incumbent = object()
    parameters = SearchParameters(descents_share=0.3)
    state = Mock(parameters=parameters, takes_long=True, seconds=40, incumbent=incumbent, descended=incumbent)
    state.descent_seconds, state.vain_descents = 10, vain
    assert _is_descent_due(state) is is_due
    state.descended = None  # a new incumbent
    assert _is_descent_due(state)


def test_layer_takes_long_once_it_is_hard_or_a_tenth_of_its_time_is_over() -> None:
    """Of 1,000 s, not at once; with much work at once; of no time at all always."""
    states = [
        SearchState(ConvWorkload(), PIMArchitecture(), SolveRequest(objective=Objective.named("energy"), time_limit=n))
        for n in (1000, 1000, 0)
    ]
    states[1].statistics["work"] = 2 * DEFAULTS.hard_work
    assert [state.takes_long for state in states] == [False, True, True]
