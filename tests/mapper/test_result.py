"""What a solved layer says of its mapping."""

import attrs
import pytest

from cpsat_pim.base.dims import Dim
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.result import NetworkLayer, Objective, SharedChoice, SolvedLayer, SolvedNetwork, Status
from cpsat_pim.mapping.check import check_mapping
from tests.report.results import ARCH, LAYER, MAPPING, solved_layer

BLEND = Objective.named("blended", 1, "0.3")


def blended(status: Status, cycles: int, energy_fj: int, short: int) -> SolvedLayer:
    """A layer solved for a blend, with a bound so many of the objective's integers below its cost."""
    solved = solved_layer(objective=BLEND, status=status)
    figures = attrs.evolve(solved.predicted, latency_cycles=cycles, energy_fj=energy_fj)
    prediction = attrs.evolve(solved.prediction, figures=figures)
    bound = BLEND.reported(BLEND.value(cycles, energy_fj) - short)
    return attrs.evolve(solved, prediction=prediction, bound=bound)


def factors(**named: int) -> list[int]:
    """Of all dims, 1 where nothing is named."""
    return [named.get(d.name, 1) for d in Dim]


def numbered(**named: int) -> dict[int, int]:
    """The same by the dims' numbers."""
    return dict(enumerate(factors(**named)))


def network(*layers: SolvedLayer) -> SolvedNetwork:
    """Of layers that each occur ten times."""
    nodes = tuple(NetworkLayer(name=str(i), count=10, after=(), solved=layer) for i, layer in enumerate(layers))
    return SolvedNetwork(network="n", arch=ARCH, objective=BLEND, layers=nodes, seconds=0.0)


def test_gap_is_0_for_a_proof_alone() -> None:
    """Where cost and bound are rounded to the same number, too: of a layer, a network, a shared choice."""
    close = blended(Status.FEASIBLE, 2**50, 1, 1)
    assert close.objective_value == close.bound
    assert close.gap is not None
    assert 0 < close.gap < 1e-15
    assert 0 < (network(close).gap or 0) < 1e-15
    assert network(blended(Status.OPTIMAL, 2**50, 1, 0)).gap == 0
    sums = {"objective_value": close.objective_value, "bound": close.bound, "free": None}
    choice = SharedChoice(share=("bypass",), choice=None, status=Status.FEASIBLE, solves=1, **sums)
    assert choice.gap == close.gap


@pytest.mark.parametrize("status", Status)
def test_what_is_known_is_what_is_claimed(status: Status) -> None:
    """Of a best cost, if any, and what nothing costs less than: the status, and a bound that is not above the cost."""
    asked = {"workload": LAYER, "arch": ARCH, "objective": Objective.named("energy")}
    prediction = predict(LAYER, ARCH, MAPPING)
    cost, best = prediction.figures.energy_fj, (MAPPING, prediction)
    cases = {
        Status.OPTIMAL: [(best, cost, cost), (best, cost + 1, cost), (best, None, cost)],
        Status.FEASIBLE: [(best, cost - 1, cost - 1), (best, 0, 0)],
        Status.UNKNOWN: [(None, 7, 7)],
        Status.INFEASIBLE: [(None, None, None)],
    }
    for found, least, bound in cases[status]:
        solved = SolvedLayer.concluded(found, least, **asked)
        assert (solved.status, solved.bound) == (status, bound)
        assert (solved.mapping is None) == (found is None)


def test_sums_are_exact() -> None:
    """Of ten times 3 x 0.3 nJ x 10^-6 each, which floats miss by a little."""
    total = network(blended(Status.OPTIMAL, 0, 3, 0), blended(Status.OPTIMAL, 0, 5, 0))
    assert total.objective_value == total.bound == pytest.approx(8 * 0.3e-5, rel=1e-16)
    assert network().gap is None


def test_listing_5_tells_factors_orders_and_bypass_by_numbers() -> None:
    """K = 8 is 2 columns of PEs x 4 in the global buffer, there outside of P = 2; C = 6 is 3 x 2 lanes: 24 cycles."""
    mapping = attrs.evolve(
        MAPPING,
        temporal=[factors(C=3), factors(P=2, K=4), factors(), factors()],
        spatial=[factors(P=2), factors(K=2), factors(C=2)],
        order=[[Dim.C], [Dim.K, Dim.P], [], []],
    )
    assert check_mapping(LAYER, ARCH, mapping) == []
    solved = solved_layer(mapping=mapping, prediction=predict(LAYER, ARCH, mapping))
    assert solved.loop_bounds == {
        0: {"temporal": numbered(C=3), "H": numbered(P=2), "W": numbered(K=2), "INTERNAL": numbered(C=2)},
        1: {"temporal": numbered(P=2, K=4)},
        2: {"temporal": numbered()},
        3: {"temporal": numbered()},
    }
    assert solved.permutation == {0: {0: Dim.C}, 1: {0: Dim.P, 1: Dim.K}, 2: {}, 3: {}}
    assert solved.bypass == {
        0: {"I": False, "W": True, "O": True},
        1: {"I": True, "W": False, "O": False},
        2: {"I": False, "W": False, "O": False},
    }
    simulated = simulate(LAYER, ARCH, mapping).to_dict()
    assert solved.metrics["compute_cycles"] == 24
    assert solved.metrics | {"latency_cycles": None} == simulated | {"latency_cycles": None}


def test_tile_info_lists_the_tiles_that_levels_hold() -> None:
    """K = 8 is 2 PEs x 4 in the global buffer, which holds I; the PEs hold W and O."""
    tiles = solved_layer().tile_info
    assert {level: list(held) for level, held in tiles.items()} == {
        "PE": ["W", "O"],
        "GLOBAL_BUFFER": ["I"],
        "ROW_BUFFER": [],
        "DRAM": ["I", "W", "O"],
    }
    assert tiles["PE"]["W"] == {"R": 1, "S": 1, "C": 6, "K": 1, "G": 1}
    assert tiles["DRAM"]["O"] == {"P": 4, "Q": 1, "K": 8, "N": 1, "G": 1}


def test_tile_info_leaves_out_the_loops_outside_an_uneven_tile() -> None:
    """Of C = 6 the PE's loop is 3 and its lanes are 2: they are all that the tile of W covers; that of O has no C."""
    uneven = solved_layer(mapping=attrs.evolve(MAPPING, outside=((0, 1, 0), (0, 0, 0)))).tile_info
    assert uneven["PE"]["W"]["C"] == 2
    assert uneven["PE"]["O"] == solved_layer().tile_info["PE"]["O"]
