"""Padded layers are counted like others, and the optimum is the least of all layers that a layer may be padded to."""

import random
from functools import cache
from itertools import pairwise

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapping import Mapping
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.padding import padded_layers
from tests.cross.cases import Case, cases
from tests.cross.test_solver_against_enumeration import CASES as OTHERS
from tests.cross.test_solver_against_enumeration import machine, whole_space

#: Layers, machines, and the share of MACs that padding may add: to 12, 14, 12, 14 x 11 or 13 x 12, 12.
CASES = {
    "reduction": (ConvWorkload(C=11), machine("O", "I", ""), 0.25),
    "outputs that must stay in PEs": (ConvWorkload(P=13, K=2), machine("O!", "W!", ""), 0.1),
    "weights in the row buffer": (ConvWorkload(K=11), machine("!", "O", "W!"), 0.25),
    "two awkward bounds": (ConvWorkload(N=13, C=11), machine("O!", "I!", ""), 0.1),
    "window": (ConvWorkload(R=2, P=11), machine("O!", "I!", "", page_policy="closed"), 0.25),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_energy_optimum_is_the_least_simulated_energy_of_all_padded_layers(case: str) -> None:
    """Every mapping of each of them is simulated. What the layer itself takes is no less, and in two cases more."""
    layer, arch, padding = CASES[case]
    layers = padded_layers(layer, padding)
    assert len(layers) > 1
    least = [min(simulate(each, arch, mapping).energy_fj for mapping in every_mapping(each, arch)) for each in layers]
    solved = solve_and_verify(
        layer, arch, SolveRequest(objective=Objective.named("energy"), time_limit=60, padding=padding)
    )
    assert solved.status is Status.OPTIMAL
    assert solved.objective_value == solved.bound == min(least) <= least[0]
    assert least[layers.index(solved.workload)] == min(least)
    assert (min(least) < least[0]) is (case in ("weights in the row buffer", "window"))


@cache
def costs(layer: ConvWorkload, arch: PIMArchitecture) -> set[tuple[int, int]]:
    """Return predicted cycles and energy of every mapping."""
    figures = (predict(layer, arch, mapping).figures for mapping in every_mapping(layer, arch))
    return {(f.latency_cycles, f.energy_fj) for f in figures}


@pytest.mark.parametrize("kind", ["latency", "blended"])
@pytest.mark.parametrize("case", ["reduction", "weights in the row buffer"])
def test_optimum_is_the_least_predicted_cost_of_all_padded_layers(case: str, kind: str) -> None:
    """For latency and blends; if time runs out, the bound is valid for all."""
    layer, arch, padding = CASES[case]
    objective = Objective.named(kind, 1, 3)
    least = min(objective.value(*cost) for each in padded_layers(layer, padding) for cost in costs(each, arch))
    solved = solve_and_verify(layer, arch, SolveRequest(objective=objective, time_limit=5, padding=padding))
    assert solved.lower_bound is not None
    assert solved.lower_bound <= least
    if solved.status is Status.OPTIMAL:
        assert solved.cost == least


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["latency", "energy", "blended"])
@pytest.mark.parametrize("seed", range(2))
def test_more_padding_is_never_worse(seed: int, kind: str) -> None:
    """A larger share adds layers, and takes none away; proven or not, no bound exceeds the cost of a better mapping."""
    rng = random.Random(f"{seed} {kind}")
    layer = ConvWorkload(**{rng.choice("RQNGK"): 2, rng.choice("PC"): rng.choice((11, 13, 17))})
    arch = rng.choice([arch for _, arch in OTHERS.values()])
    shares = (0.0, 0.1, 0.3)
    solved = [
        solve_and_verify(layer, arch, SolveRequest(objective=Objective.named(kind), time_limit=1.5, padding=s))
        for s in shares
    ]
    for less, more in pairwise(solved):
        assert less.cost is not None
        assert more.lower_bound is not None
        assert more.lower_bound <= less.cost
        if less.status is more.status is Status.OPTIMAL:
            assert more.cost == more.lower_bound <= less.cost


@given(cases(), st.data())
@settings(max_examples=25, deadline=None)
def test_padded_layers_are_counted_exactly(case: Case, data: st.DataObject) -> None:
    """Whatever the padding, the mapping and the machine, predicted and simulated figures are equal: those of the
    bounds, zeros or not.
    """
    zeros = data.draw(st.tuples(*(st.integers(0, bound - 1) for bound in case.layer.bounds)))
    padded = attrs.evolve(case.layer, zeros=zeros)
    predicted = predict(padded, case.arch, case.mapping).figures
    assert not predicted.differences(simulate(padded, case.arch, case.mapping))
    assert predicted == predict(case.layer, case.arch, case.mapping).figures


def test_padding_costs_what_is_counted_by_hand() -> None:
    """11 products one by one, and 12 on two lanes.

    A MAC takes 1 pJ, an access of a PE 1 pJ, a read of the DRAM 10 pJ, a write 12 pJ, a row activation 20 pJ. I and W
    come from the DRAM, O stays in the PE: its first sum is only written, each later one read and written, at the end it
    is read once and written to the DRAM. Each tensor is a row of 16 B or less. Of 12 on two lanes two products are
    added before the buffer, so it has 6 sums:

    - 11: 11 MACs + 22 reads x 10 + (11 writes + 11 reads) + 12 + 3 x 20 = 325 pJ in 11 steps;
    - 12: 12 MACs + 24 reads x 10 + ( 6 writes +  6 reads) + 12 + 3 x 20 = 336 pJ in 6 steps, of 11 useful MACs.
    """
    arch = machine("O", "", "")
    layer, padded = padded_layers(ConvWorkload(C=11), 0.25)
    figures = [predict(layer, arch, products(11, 1)).figures, predict(padded, arch, products(6, 2)).figures]
    assert [(f.energy_fj, f.compute_cycles) for f in figures] == [(325_000, 11), (336_000, 6)]
    assert not figures[1].differences(simulate(padded, arch, products(6, 2)))
    solved = solve_layer(padded, arch, SolveRequest(objective=Objective.named("energy"), time_limit=5))
    solved = attrs.evolve(solved, mapping=products(6, 2))
    assert solved.pe_utilization == 11 / 6 / (2 * 1 * 2)  # an array of two PEs of two lanes


def products(steps: int, lanes: int) -> Mapping:
    """Return a mapping with C in steps within a PE and over its lanes."""
    ones = [1] * 8
    temporal, spatial = [*ones[:4], steps, *ones[5:]], [*ones[:4], lanes, *ones[5:]]
    return Mapping(
        temporal=[temporal, ones, ones, ones],
        spatial=[ones, ones, spatial],
        order=[(Dim.C,), (), (), ()],
        stored=[[False, False, True], [False] * 3, [False] * 3],
    )


# --- What a solve has to beat ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["latency", "energy", "blended"])
@pytest.mark.parametrize(
    "case", ["separate row buffers", pytest.param("closed pages, two rows of outputs", marks=pytest.mark.slow)]
)
def test_only_what_beats_a_value_is_returned(case: str, kind: str) -> None:
    """One above the optimum, the optimum; at the optimum and below, proof that there is none."""
    layer, arch = OTHERS[case]
    objective = Objective.named(kind, 1, 3)
    least = min(objective.value(f.latency_cycles, f.energy_fj) for f in whole_space(case))
    assert beaten(layer, arch, objective, least + 1).cost == least
    for value in (least, least - 1, least // 2):
        solved = beaten(layer, arch, objective, value)
        assert solved.mapping is None
        assert solved.status is Status.INFEASIBLE or (solved.lower_bound or 0) >= value


def beaten(layer: ConvWorkload, arch: PIMArchitecture, objective: Objective, value: int) -> SolvedLayer:
    """Solve for a mapping that costs less than the value."""
    return solve_layer(layer, arch, SolveRequest(objective=objective, time_limit=20, value_to_beat=value))
