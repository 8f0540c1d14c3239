"""The search over padded layers: what is solved, for how long, and what is known when time is up."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

import cpsat_pim.mapper.objectives.padding
from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.mapper.bounds.countable import check_countable
from cpsat_pim.mapper.network.run import NetworkRequest, solve_and_verify, solve_network
from cpsat_pim.mapper.objectives.padding import solve_padded
from cpsat_pim.mapper.result import Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import OnProgress, Progress, SolveRequest, ignore_progress
from cpsat_pim.mapping.constraints import FREE, Constraints, NetworkConstraints
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode
from tests.report.results import solved_layer

ENERGY = Objective.named("energy")
ARCH = PIMArchitecture()
#: May become 1024, 1029, ... of C, of which 1024 fills lanes and PEs best.
AWKWARD = ConvWorkload(name="awkward", C=1009, K=8)
Solve = Callable[..., SolvedLayer]


def lanes(n: int) -> Constraints:
    """C takes so many lanes."""
    return Constraints(spatial=[[None] * 8, [None] * 8, [None] * 4 + [n] + [None] * 3])


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, SolveRequest]]:
    """C of the layers that are solved, one after another, and how."""
    seen: list[tuple[int, SolveRequest]] = []
    solve = cpsat_pim.mapper.objectives.padding.solve_for

    def watched(layer: ConvWorkload, arch: Any, request: SolveRequest, *others: Any) -> SolvedLayer:
        seen.append((layer.C, request))
        return solve(layer, arch, request, *others)

    monkeypatch.setattr(cpsat_pim.mapper.objectives.padding, "solve_for", watched)
    return seen


def test_padding_wins_where_it_fills_the_array(turns: list[tuple[int, SolveRequest]]) -> None:
    """1024 = 4 lanes x 256 takes less energy than 1009, a prime: the others are closed by their bounds alone."""
    solved = solve_and_verify(AWKWARD, ARCH, SolveRequest(objective=ENERGY, time_limit=20, padding=0.25))
    assert (solved.status, solved.workload.C, solved.workload.zeros[Dim.C]) == (Status.OPTIMAL, 1024, 15)
    assert solved.bound == solved.objective_value == solved.simulated.energy_fj  # type: ignore[union-attr]
    assert solved.pe_utilization == 1009 * 8 / (solved.predicted.compute_cycles * 16 * 16 * 4)
    assert [c for c, _ in turns] == [1024]


def test_a_layer_without_awkward_bounds_is_solved_as_it_is(turns: list[tuple[int, SolveRequest]]) -> None:
    """Once, with all of the time."""
    solved = solve_and_verify(
        ConvWorkload(C=12, K=4), ARCH, SolveRequest(objective=ENERGY, time_limit=20, padding=0.25)
    )
    assert [(c, request.time_limit) for c, request in turns] == [(12, 20)]
    assert (solved.status, solved.padding, any(solved.workload.zeros)) == (Status.OPTIMAL, 0.25, False)


def test_constraints_may_need_padding() -> None:
    """No four lanes divide 11; they divide 12."""
    layer, fixed = ConvWorkload(C=11), lanes(4)
    request = SolveRequest(objective=ENERGY, time_limit=20, constraints=fixed)
    assert solve_and_verify(layer, ARCH, request).status is Status.INFEASIBLE
    padded = solve_and_verify(layer, ARCH, attrs.evolve(request, padding=0.1))
    assert (padded.status, padded.workload.C, padded.constraints) == (Status.OPTIMAL, 12, fixed)
    none = solve_and_verify(layer, ARCH, attrs.evolve(request, constraints=lanes(16), padding=0.1))
    assert (none.status, none.workload, none.bound) == (Status.INFEASIBLE, layer, None)


def test_search_starts_from_the_mapping_of_a_padded_layer(turns: list[tuple[int, SolveRequest]]) -> None:
    """It is the first to be solved, and its cost is what the others have to beat."""
    layer = ConvWorkload(C=11, K=2)
    first = solve_and_verify(
        layer, ARCH, SolveRequest(objective=ENERGY, time_limit=20, constraints=lanes(4), padding=0.1)
    )
    assert first.mapping is not None
    turns.clear()
    again = solve_and_verify(
        layer, ARCH, SolveRequest(objective=ENERGY, time_limit=20, start=first.mapping, padding=0.1)
    )
    assert turns[0][0] == 12
    assert turns[0][1].start == first.mapping
    assert [request.start for _, request in turns[1:]] == [None] * len(turns[1:])
    assert (again.cost or 0) <= (first.cost or 0)
    with pytest.raises(
        ValueError, match="layer: the mapping to start from is of bounds that the layer is not padded to"
    ):
        solve_and_verify(
            ConvWorkload(C=13, K=2), ARCH, SolveRequest(objective=ENERGY, start=first.mapping, padding=0.1)
        )


# --- Time ------------------------------------------------------------------------------------------------------------


def fixed_results(monkeypatch: pytest.MonkeyPatch, leasts: dict[int, int], *given: SolvedLayer) -> list[SolveRequest]:
    """Fix lower bounds by C, and results of the solver in their order; return the requests of its solves."""
    asked: list[SolveRequest] = []
    to_come = iter(given)

    def solve(layer: ConvWorkload, arch: Any, request: SolveRequest, *others: Any) -> SolvedLayer:
        asked.append(request)
        answer = next(to_come)
        assert answer.workload.C == layer.C
        return answer

    monkeypatch.setattr(cpsat_pim.mapper.objectives.padding, "solve_for", solve)
    monkeypatch.setattr(
        cpsat_pim.mapper.objectives.padding, "layer_lower_bound", lambda layer, *others: leasts[layer.C]
    )
    return asked


def found(c: int, status: Status, cost: int | None, bound: int | None) -> SolvedLayer:
    """An answer of C padded to c."""
    solved = solved_layer(workload=ConvWorkload(C=c), status=status, bound=bound)
    if cost is None:
        return attrs.evolve(solved, mapping=None, prediction=None)
    figures = attrs.evolve(solved.predicted, energy_fj=cost)
    return attrs.evolve(solved, prediction=attrs.evolve(solved.prediction, figures=figures))


def solve(stop: threading.Event | None = None, on_progress: OnProgress = ignore_progress) -> SolvedLayer:
    """13, or 14, 15, 16."""
    request = SolveRequest(objective=ENERGY, time_limit=1000, padding=0.25)
    return solve_padded(ConvWorkload(C=13), ARCH, request, stop or threading.Event(), on_progress)


def test_least_bound_first_and_what_is_open_has_its_turn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """14 finds nothing in time, 15 is solved and closes 13; then 14 is closed by what there is to beat."""
    asked = fixed_results(
        monkeypatch,
        {13: 900_000, 14: 100_000, 15: 200_000, 16: 899_000},
        found(14, Status.UNKNOWN, None, 150_000),
        found(15, Status.OPTIMAL, 300_000, 300_000),
        found(14, Status.INFEASIBLE, None, None),
    )
    solved = solve()
    assert (solved.status, solved.workload.C, solved.cost, solved.bound) == (Status.OPTIMAL, 15, 300_000, 300_000)
    assert [request.value_to_beat for request in asked] == [None, None, 300_000]
    limits = [request.time_limit for request in asked]
    assert limits == pytest.approx([500, 500, 1000], rel=0.01)  # of the 1000 s nearly none has passed


def test_out_of_time_the_bound_is_the_least_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """14 takes all of the time that it is given, over and over: 500 of 1000 s, then what is left."""
    first = [found(14, Status.FEASIBLE, 500_000, 120_000), found(15, Status.UNKNOWN, None, 210_000)]
    later = [found(14, Status.UNKNOWN, None, 130_000), found(15, Status.UNKNOWN, None, 210_000)]
    asked = fixed_results(monkeypatch, {13: 900_000, 14: 100_000, 15: 200_000, 16: 899_000}, *first, *later * 9)
    monkeypatch.setattr(
        cpsat_pim.mapper.objectives.padding.time, "monotonic", lambda: sum(request.time_limit for request in asked)
    )
    seen: list[Progress] = []
    solved = solve(on_progress=seen.append)
    assert (solved.status, solved.cost, solved.bound) == (Status.FEASIBLE, 500_000, 130_000)
    assert (seen[-1].incumbent, seen[-1].bound) == (500_000, 130_000)


def test_a_stop_leaves_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything was found: that of the MACs alone, which nothing can be below."""
    fixed_results(monkeypatch, {})
    stop = threading.Event()
    stop.set()
    solved = solve(stop)
    assert (solved.status, solved.mapping) == (Status.UNKNOWN, None)
    assert solved.bound == 13 * round(ARCH.pe_array.compute_unit.mac_energy * 10**6)


def test_a_stop_leaves_the_best_with_a_bound() -> None:
    """After the first mapping that was found; it is optimal only if the bound says so."""
    stop = threading.Event()

    def stop_at_the_first(progress: Progress) -> None:
        if progress.incumbent is not None:
            stop.set()

    layer = ConvWorkload(R=3, S=3, P=13, Q=13, C=16, K=16)
    latency = Objective.named("latency")
    solved = solve_and_verify(
        layer, ARCH, SolveRequest(objective=latency, padding=0.1), stop, on_progress=stop_at_the_first
    )
    assert stop.is_set()
    assert solved.cost is not None
    assert solved.bound is not None
    assert 0 < solved.bound <= solved.cost
    assert (solved.bound == solved.cost) is (solved.status is Status.OPTIMAL)


def test_progress_is_of_all_padded_layers() -> None:
    """The best never rises, no bound is above it, and the last is the answer's."""
    seen: list[Progress] = []
    solved = solve_and_verify(
        ConvWorkload(C=13, K=11),
        ARCH,
        SolveRequest(objective=ENERGY, time_limit=20, padding=0.25),
        on_progress=seen.append,
    )
    bests = [progress.incumbent for progress in seen if progress.incumbent is not None]
    assert bests == sorted(bests, reverse=True)
    assert all(p.bound is None or p.incumbent is None or p.bound <= p.incumbent for p in seen)
    assert (seen[-1].incumbent, seen[-1].bound) == (solved.objective_value, solved.bound)
    assert [p.seconds for p in seen] == sorted(p.seconds for p in seen)


# --- Networks --------------------------------------------------------------------------------------------------------


def nodes() -> Iterator[NetworkNode]:
    """Two of one shape."""
    for name in ("first", "second"):
        yield NetworkNode(name=name, workload=ConvWorkload(name=name, C=11, K=4))


@pytest.mark.parametrize("constraints", [FREE, lanes(4)], ids=["free", "four lanes"])
def test_equal_layers_share_a_padded_answer(constraints: Constraints, turns: list[tuple[int, SolveRequest]]) -> None:
    """Under their own names; what the whole costs is the sum."""
    network = Network(name="pair", layers=tuple(nodes()))
    solved = solve_network(
        network,
        ARCH,
        NetworkRequest(
            each=SolveRequest(objective=ENERGY, padding=0.25), constraints=NetworkConstraints(everywhere=constraints)
        ),
    )
    first, second = (node.solved for node in solved.layers)
    assert (first.workload.name, second.workload.name) == ("first", "second")
    assert first.workload.bounds == second.workload.bounds
    assert len({id(request) for _, request in turns}) == len(turns) <= 2
    assert solved.energy_fj == 2 * (first.cost or 0)


def test_padded_layers_that_cannot_be_counted_are_refused() -> None:
    """If it were excluded without a solve, one of them might be better than what is then called optimal.

    13 MACs of a fourteenth of 2^58 fJ can be counted, 14 cannot.
    """
    unit = attrs.evolve(ARCH.pe_array.compute_unit, mac_energy=2**58 / 14 / FJ_PER_NJ)
    costly = attrs.evolve(ARCH, pe_array=attrs.evolve(ARCH.pe_array, compute_unit=unit))
    check_countable(ConvWorkload(C=13), costly, ENERGY)
    with pytest.raises(ValueError, match="which cannot be counted"):
        solve_and_verify(ConvWorkload(C=13), costly, SolveRequest(objective=ENERGY, padding=0.25))


def test_networks_refuse_a_share_that_is_none() -> None:
    """Before anything is solved."""
    with pytest.raises(ValueError, match=r"padding: must be a number from 0 to below 1 \(got 2\)"):
        solve_network(Network(name="pair", layers=tuple(nodes())), ARCH, SolveRequest(objective=ENERGY, padding=2))
