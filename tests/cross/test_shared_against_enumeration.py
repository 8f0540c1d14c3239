"""For tiny layers the best shared choice is that of all choices, found by enumerating every mapping of every layer."""

from collections import defaultdict
from collections.abc import Sequence

import pytest

from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.network.shared import SHARES, solve_shared
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapping import Mapping
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode
from tests.cross.test_solver_against_enumeration import machine

ARCH = machine("O", "IWO", "W")
LAYERS = (
    ConvWorkload(name="row", P=4),
    ConvWorkload(name="filter", R=4),
    ConvWorkload(name="convolution", R=3, P=3),
)
COUNTS = (1, 2, 3)
NETWORK = Network(
    name="tiny",
    layers=tuple(
        NetworkNode(name=layer.name, workload=layer, count=count) for layer, count in zip(LAYERS, COUNTS, strict=True)
    ),
)
#: By latency and EDP, which take all the time there is, one choice is quick.
TURNS = [
    pytest.param(kind, share, marks=[] if kind == "energy" or len(share) > 1 else pytest.mark.slow)
    for kind in ("energy", "latency", "edp")
    for share in (("bypass",), ("layout",), ("bypass", "layout"))
]
Costs = list[list[tuple[Mapping, int, int]]]


@pytest.fixture(scope="module")
def costs() -> Costs:
    """Return for each layer all mappings with predicted latency and energy."""
    return [
        [
            (m, f.latency_cycles, f.energy_fj)
            for m in every_mapping(layer, ARCH)
            for f in [predict(layer, ARCH, m).figures]
        ]
        for layer in LAYERS
    ]


def least_sums(costs: Costs, objective: Objective, share: Sequence[str]) -> tuple[int, int]:
    """Return the least sum of costs over all shared choices, and the sum if each layer chooses for itself."""
    decisions = [decision for name in share for decision in SHARES[name]]
    least: list[dict[tuple[int, ...], int]] = []
    for mappings in costs:
        table: dict[tuple[int, ...], int] = defaultdict(lambda: 10**30)
        for mapping, cycles, fj in mappings:
            choice = tuple(decision.of(mapping) for decision in decisions)
            table[choice] = min(table[choice], objective.value(cycles, fj))
        least.append(table)
    shared = min(sum(n * table[choice] for n, table in zip(COUNTS, least, strict=True)) for choice in [*least[0]])
    return shared, sum(n * min(table.values()) for n, table in zip(COUNTS, least, strict=True))


@pytest.mark.parametrize(("kind", "share"), TURNS)
def test_shared_optimum_is_the_least_sum_of_the_whole_space(costs: Costs, kind: str, share: tuple[str, ...]) -> None:
    """For energy it is proven, and each layer's mapping keeps the choice; if time runs out, the bound is valid."""
    objective = Objective.named(kind)
    time_limit, total_time = (20, 60) if kind == "energy" else (1, 3)
    least, free = least_sums(costs, objective, share)
    solved = solve_shared(NETWORK, ARCH, SolveRequest(objective=objective, time_limit=time_limit), share, total_time)
    shared = solved.shared
    assert shared is not None
    assert shared.bound is not None
    assert shared.objective_value is not None
    assert shared.bound <= least <= shared.objective_value == solved.objective_value
    if kind == "energy":
        assert least > free
        assert (shared.status, shared.bound, shared.free) == (Status.OPTIMAL, least, free)
