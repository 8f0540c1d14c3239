"""Bounds of a layer before it is solved, and the check that they fit 64 bits."""

import re
from fractions import Fraction

import attrs
import pytest
from hypothesis import assume, given, settings

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.pe_array import ComputeUnit
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Dim
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.base.validate import LIMIT
from cpsat_pim.evaluate.cost import predict, to_machine
from cpsat_pim.mapper.bounds.countable import FJ_WEIGHT, check_countable, heaviest_cycle
from cpsat_pim.mapper.bounds.layer_bound import layer_lower_bound, tile_lower_bound
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import NO_LIMIT, Objective, Status
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.space.banks import restrictions
from cpsat_pim.mapper.space.candidates import COST
from cpsat_pim.mapper.space.parameters import SearchParameters
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.workload import ConvWorkload
from tests.cross.cases import Case, cases
from tests.cross.test_solver_against_enumeration import CASES, UNEVEN

ARCH = PIMArchitecture()
LAYER = ConvWorkload(C=64, K=64, P=56, Q=56)


def sum_of(cycle_weight: int, fj_weight: int) -> Objective:
    """Return the objective with these weights of cycles and femtojoules."""
    return Objective(kind="blended", alpha=cycle_weight, beta=fj_weight * FJ_PER_NJ)


@pytest.mark.parametrize("case", [*CASES, *UNEVEN])
@pytest.mark.parametrize("kind", ["latency", "energy"])
def test_weights_with_which_a_bound_overflows_are_refused(case: str, kind: str) -> None:
    """A weight with which the bound of some spatial mapping reaches 2^62 is refused; a weight of 1 is not."""
    layer, arch = (CASES | UNEVEN)[case]
    worst = max(
        int(bounds.max(initial=0))
        for subspace in Subspace
        for _, bounds in [
            SpatialBounds(layer, arch, Objective.named(kind), Restriction(layer, arch, subspace=subspace)).candidates(
                LIMIT
            )
        ]
    )
    weight = LIMIT // worst + 1
    with pytest.raises(ValueError, match="which cannot be counted"):
        check_countable(layer, arch, sum_of(weight, 0) if kind == "latency" else sum_of(0, weight))
    check_countable(layer, arch, Objective.named(kind))


def test_weights_that_leave_64_bits_are_refused() -> None:
    """Sums wrapped around, and a mapping of a thousand times the least cost was called optimal."""
    with pytest.raises(ValueError, match=re.escape("100000000000000 x up to 26226799 cycles + 1 x up to")):
        solve_and_verify(LAYER, ARCH, SolveRequest(objective=Objective.named("blended", 1e8, 1)))


def test_energies_that_exceed_all_domains_are_refused() -> None:
    """With a MAC of 2^58 fJ, four MACs exceed 2^60, where domains end: a layer with mappings was called infeasible."""
    unit = ComputeUnit(mac_energy=Fraction(2**58 + 1, FJ_PER_NJ))
    arch = PIMArchitecture(pe_array=attrs.evolve(ARCH.pe_array, compute_unit=unit))
    for kind in ("energy", "latency"):
        with pytest.raises(ValueError, match=re.escape("fJ reach 2^58, which cannot be counted")):
            check_countable(ConvWorkload(C=2, K=2), arch, Objective.named(kind))


def test_the_largest_weight_of_a_cycle_can_be_counted() -> None:
    """Whatever energy a MAC takes; the weight is at least 1."""
    for layer in (LAYER, ConvWorkload(C=2**30, K=2**20), ConvWorkload(C=2**30, K=2**30)):
        weight = heaviest_cycle(layer, ARCH)
        assert weight == 1 or weight * layer.macs < LIMIT // 4
        assert weight == 1 or not check_countable(layer, ARCH, sum_of(weight, FJ_WEIGHT))


@settings(max_examples=200)
@given(cases(uneven=True))
def test_no_mapping_takes_more_energy_than_was_checked(case: Case) -> None:
    """Apart from rows that are opened again. A layer with more energy would be called infeasible."""
    figures, machine = predict(case.layer, case.arch, case.mapping).figures, to_machine(case.arch)
    spent = figures.energy_fj - machine.activation_fj * sum(figures.row_activations)
    assume(spent > 0)
    accesses_alone = attrs.evolve(case.arch, activation_energy=0.0)
    with pytest.raises(ValueError, match="cannot be counted"):
        check_countable(case.layer, accesses_alone, sum_of(0, -(-(2**60) // spent)))


def test_partial_sums_that_come_and_go_are_counted_twice() -> None:
    """Groups innermost, channels outside: each of 512 MACs has a new tile of all three in the PE. I and W are written
    and read there once a MAC, sums read twice and written twice, but for the first of each of 8 outputs, which neither
    come back nor are read.
    """
    pes, *others = (attrs.evolve(level, access_cost=0.0, write_cost=None) for level in ARCH.hierarchy)
    unit = attrs.evolve(ARCH.pe_array.compute_unit, mac_energy=0.0)
    array = attrs.evolve(ARCH.pe_array, compute_unit=unit)
    pes = attrs.evolve(pes, access_cost=1 / FJ_PER_NJ)
    arch = attrs.evolve(ARCH, hierarchy=(pes, *others), activation_energy=0.0, pe_array=array)
    layer, none = ConvWorkload(C=64, G=8), (1,) * 8
    mapping = Mapping(
        temporal=(none, none, none, (1, 1, 1, 1, 64, 1, 1, 8)),
        spatial=(none,) * 3,
        order=((), (), (), (Dim.C, Dim.G)),
        stored=((True,) * 3, (False,) * 3, (False,) * 3),
    )
    spent = predict(layer, arch, mapping).figures.energy_fj
    assert spent == 2 * 512 + 2 * 512 + 4 * 512 - 2 * 8
    with pytest.raises(ValueError, match="cannot be counted"):
        check_countable(layer, arch, sum_of(0, 2**60 // spent + 1))


def test_inputs_that_come_again_with_their_gaps_are_counted() -> None:
    """Two outputs a thousand apart are a tile of 1001 x 1001 of I, which every k and c may bring again: 3e7 times 1e6
    elements of 15.9 pJ are more than 2^58 fJ, where a thousandth of that had been thought to be enough.
    """
    layer = ConvWorkload(P=2, Q=2, C=100, K=300_000, stride=(1000, 1000))
    with pytest.raises(ValueError, match="reach 2\\^58"):
        check_countable(layer, ARCH, Objective.named("latency"))


def test_a_cost_above_all_domains_stays_open() -> None:
    """All of 48 bytes cross to the array, at 2000 cycles each: more than 2^60 with this weight. A mapping that moves I
    twice is there to begin with; one that does not is better, whatever is found.
    """
    slow = attrs.evolve(ARCH, pe_array=attrs.evolve(ARCH.pe_array, interconnect_bandwidth=5e-4))
    layer, none = ConvWorkload(P=4, C=4, K=4), (1,) * 8

    def spread(side: int, again: int) -> Mapping:
        return Mapping(
            temporal=([1, 1, 1, 1, 4, 1, 1, 1], [1, 1, again, 1, 1, again, 1, 1], none, none),
            spatial=([1, 1, side, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, side, 1, 1], none),
            order=((Dim.C,), (Dim.K, Dim.P) if again > 1 else (), (), ()),
            stored=((True,) * 3, (False,) * 3, (False,) * 3),
        )

    twice, once = (predict(layer, slow, mapping).figures for mapping in (spread(2, 2), spread(4, 1)))
    objective = sum_of(2 * 10**13, 1)
    better = objective.value(once.latency_cycles, once.energy_fj)
    assert 2**60 < better < objective.value(twice.latency_cycles, twice.energy_fj)
    for start in (None, spread(2, 2)):
        solved = solve_and_verify(layer, slow, SolveRequest(objective=objective, time_limit=20, start=start))
        assert solved.lower_bound is not None
        assert solved.lower_bound <= better
        assert solved.status is Status.FEASIBLE


def test_bound_of_tiles_knows_that_outputs_of_one_bank_open_a_row_each() -> None:
    """AiM's register holds one sum, and weights of the next one are read before it leaves: each of 208 outputs opens a
    row, 49 cycles, for a column. So do the weights behind it. The 84 weights of an output are 7 steps of 12, columns of
    their own. All follow each other in the bank: 208 x 50 + 1,456 + 207 x 49 cycles. The plain bound is that of the
    bytes of the weights alone: 1,092 columns in 18 rows.
    """
    layer = ConvWorkload(C=84, K=208, input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=4)
    arch, latency = read_arch("gddr6-aim"), Objective.named("latency")
    assert arch.dram_activation_latency == 49
    plain, bound = layer_lower_bound(layer, arch, latency), tile_lower_bound(layer, arch, latency)
    solved = solve_and_verify(layer, arch, SolveRequest(objective=latency, then=None, time_limit=60, by_walks=False))
    assert plain is not None
    assert bound is not None
    assert solved.cost is not None
    assert plain < 1_092 + 19 * 49 + 10
    assert 208 * 50 + 1_456 + 207 * 49 <= bound <= solved.cost


@pytest.mark.parametrize("layout", [(0, None, 0), (0, None, 1), (1, None, 0), (1, None, 1)])
def test_bound_of_tiles_in_given_layouts_lies_between_that_of_any_and_the_optimum(layout: tuple[int, ...]) -> None:
    """Asked up to some cost, it reaches that cost if all of it does, and is never above the optimum."""
    layer = ConvWorkload(P=14, Q=14, C=32, K=16, R=3, S=3)
    arch, latency, tied = read_arch("stacked-3d-4x8"), Objective.named("latency"), Constraints(layout=layout)
    free, bound = tile_lower_bound(layer, arch, latency), tile_lower_bound(layer, arch, latency, tied)
    request = SolveRequest(objective=latency, then=None, constraints=tied, time_limit=60, by_walks=False)
    solved = solve_and_verify(layer, arch, request)
    assert free is not None
    assert bound is not None
    assert solved.cost is not None
    assert free <= bound <= solved.cost
    for below in (free, (free + bound) // 2, bound, bound + 1):
        found = tile_lower_bound(layer, arch, latency, tied, known_bound=free, value_to_beat=below)
        assert found is not None
        assert min(below, bound) <= found <= solved.cost


@pytest.mark.parametrize("name", ["stacked-3d-4x8", "hbm-pim", "upmem"])
def test_bound_of_tiles_is_the_least_of_all_whichever_is_found_first(name: str) -> None:
    """All tiles of all subspaces are enumerated by one trial bound above it; however few are bounded before to find
    some tile, or even one, none changes the least. Up to a cost below it, that is proven at least.
    """
    layer = ConvWorkload(P=4, Q=4, C=6, K=4, R=3, input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=4)
    arch, latency, tied = read_arch(name), Objective.named("latency"), Constraints(layout=(1, None, 0))
    for constraints in (Constraints(), tied):
        found = [
            tile_lower_bound(layer, arch, latency, constraints, parameters=SearchParameters(first_tiles=first))
            for first in (1, 40, 400, 20_000)
        ]
        assert found[0] is not None
        assert found == [least_of_all_tiles(layer, arch, latency, constraints, found[0] + 9)] * 4
        below = found[0] - (found[0] - (layer_lower_bound(layer, arch, latency, constraints) or 0)) // 2
        least = tile_lower_bound(layer, arch, latency, constraints, value_to_beat=below)
        assert least is not None
        assert below <= least <= found[0]


def least_of_all_tiles(
    layer: ConvWorkload, arch: PIMArchitecture, objective: Objective, constraints: Constraints, trial_bound: int
) -> int:
    """Enumerate all tiles that cost at most a trial bound, in each subspace by itself."""
    found, tables = [], build_tables(layer, arch)
    parameters = SearchParameters(tiles_latency=10**9, trial_tiles=10**9, busy_tiles=0.0)
    for restriction in restrictions(layer, arch, constraints, NO_LIMIT):
        spatial = SpatialBounds(layer, arch, objective, restriction)
        tiles = TileBounds(spatial, tables, parameters=parameters)
        tiles.is_enabled = True
        enumeration = tiles.enumerate(trial_bound, *spatial.candidates(trial_bound))
        assert enumeration is not None
        found += enumeration.tiles[:, COST].tolist()
    return min(found)
