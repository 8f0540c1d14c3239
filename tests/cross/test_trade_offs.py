"""For tiny layers the front and the least product are those of the whole space, found by trying every mapping."""

from operator import le

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.evaluate.cost import Figures, predict
from cpsat_pim.mapper.network.pareto import FrontRequest, LayerSolves, front
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.workload import ConvWorkload
from tests.cross.test_solver_against_enumeration import CASES, every_mapping, machine, whole_space

LAYER, ARCH = ConvWorkload(C=4, K=4), machine("O!", "IWO!", "")
REQUEST = FrontRequest(each=SolveRequest(objective=Objective.named("latency"), time_limit=30))


@pytest.fixture(scope="module")
def costs() -> set[tuple[int, int]]:
    """Predicted latency and energy of every mapping."""
    figures = (predict(LAYER, ARCH, mapping).figures for mapping in every_mapping(LAYER, ARCH))
    return {(f.latency_cycles, f.energy_fj) for f in figures}


def test_front_is_that_of_the_whole_space(costs: set[tuple[int, int]]) -> None:
    """Complete; each point is simulated, too, and has its own cost."""
    found = front(LayerSolves(LAYER, ARCH, REQUEST))
    undominated = {p for p in costs if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in costs)}
    assert len(undominated) > 1
    assert [(point.cycles, point.fj) for point in found.points] == sorted(undominated)
    assert found.is_complete
    assert all(point.solved.simulated.energy_fj == point.fj for point in found.points if point.solved.simulated)


@pytest.mark.parametrize(
    "case", ["product, weights in the row buffer", pytest.param("strided", marks=pytest.mark.slow)]
)
def test_front_with_activations_is_that_of_the_whole_space(case: str) -> None:
    """Complete, where rows are opened again and again; each point opens as many rows as the simulator counts."""
    _check_front_of_three(*CASES[case], whole_space(case))


@pytest.mark.slow
@pytest.mark.parametrize("activation_energy", [0, 2e-3])
def test_activations_are_traded_where_they_cost_next_to_nothing(activation_energy: float) -> None:
    """On a toy with small buffers and closed pages some point has a rival that beats it in latency and energy."""
    toy = machine("WO", "IO!", "", page_policy="closed")
    inner = [attrs.evolve(toy.hierarchy[0], entries=8), *toy.hierarchy[1:]]
    arch = attrs.evolve(toy, activation_energy=activation_energy, hierarchy=tuple(inner))
    layer = ConvWorkload(C=8, K=2)
    front = _check_front_of_three(
        layer, arch, [predict(layer, arch, mapping).figures for mapping in every_mapping(layer, arch)]
    )
    assert any(p[0] < q[0] and p[1] < q[1] for p in front for q in front)


def _check_front_of_three(
    layer: ConvWorkload, arch: PIMArchitecture, figures: list[Figures]
) -> list[tuple[int, int, int]]:
    """Compare the front with those of all mappings' figures that no other one dominates; return it."""
    costs = {(f.latency_cycles, f.energy_fj, sum(f.row_activations)) for f in figures}
    undominated = {p for p in costs if not any(q != p and all(map(le, q, p)) for q in costs)}
    found = front(LayerSolves(layer, arch, REQUEST), with_activations=True)
    assert [(point.cycles, point.fj, point.activations) for point in found.points] == sorted(undominated)
    assert found.is_complete
    simulated = [point.solved.simulated for point in found.points]
    assert [p.activations for p in found.points] == [sum(s.row_activations) for s in simulated if s]
    return sorted(undominated)


def test_least_product_is_that_of_the_whole_space(costs: set[tuple[int, int]]) -> None:
    """And is proven."""
    solved = solve_and_verify(LAYER, ARCH, SolveRequest(objective=Objective.named("edp"), time_limit=30))
    assert solved.objective_value == solved.bound == min(cycles * fj for cycles, fj in costs)


def test_bound_of_the_product_holds_for_the_whole_space() -> None:
    """Of a strided layer, too, whether or not it is proven in time."""
    layer, arch = ConvWorkload(P=2, C=3, stride=(2, 1)), CASES["strided"][1]
    figures = (predict(layer, arch, mapping).figures for mapping in every_mapping(layer, arch))
    least = min(f.latency_cycles * f.energy_fj for f in figures)
    solved = solve_and_verify(layer, arch, SolveRequest(objective=Objective.named("edp"), time_limit=10))
    assert solved.bound is not None
    assert solved.objective_value is not None
    assert solved.bound <= least <= solved.objective_value
    assert (solved.status is Status.OPTIMAL) == (solved.bound == least)
