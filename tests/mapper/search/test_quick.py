"""Mappings that take no search: fitted to other layers, and improved a little."""

import pytest
from attrs import evolve

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Dim, Level
from cpsat_pim.evaluate.cost import predict_by_formula
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search import SolveRequest
from cpsat_pim.mapper.search.adapted import adapted_mappings
from cpsat_pim.mapper.search.constructed import constructed_mappings
from cpsat_pim.mapper.search.quick import quick_mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.workload import ConvWorkload

ARCH = read_arch("stacked-3d-4x8")
LAYER = ConvWorkload(R=3, S=1, P=8, Q=12, C=16, K=6)
LATENCY = Objective.named("latency")


def cycles(layer, mapping):
    """What a mapping costs by the formula."""
    return predict_by_formula(layer, ARCH, mapping).figures.latency_cycles


def built(layer, constraints=FREE):
    """The first mapping that is built."""
    return next(iter(constructed_mappings(layer, ARCH, constraints)))


def test_mapping_of_a_layer_fits_that_layer_as_it_is():
    """Every factor divides what is left of its bound, so none changes."""
    assert built(LAYER) in adapted_mappings([built(LAYER)], LAYER, ARCH, FREE)


def test_factors_are_the_largest_divisors_that_are_no_larger():
    """Where the buffer's loops take 6 channels, they take 4 of 8 and 3 of 9; the DRAM's take the rest, outside."""
    bounds, ones = LAYER.bounds, (1,) * len(Dim)
    buffered = tuple(bound if d is Dim.K else 1 for d, bound in zip(Dim, bounds, strict=True))
    rest = tuple(1 if d is Dim.K else bound for d, bound in zip(Dim, bounds, strict=True))
    loops = (Dim.Q, Dim.P, Dim.C, Dim.R)
    mapping = evolve(
        built(LAYER), temporal=(ones, buffered, ones, rest), spatial=(ones,) * 3, order=((), (Dim.K,), (), loops)
    )
    for size, kept in ((8, 4), (9, 3)):
        fitted = next(iter(adapted_mappings([mapping], evolve(LAYER, K=size), ARCH, FREE)))
        assert fitted.temporal[Level.GLOBAL_BUFFER][Dim.K] == kept
        assert fitted.temporal[Level.DRAM][Dim.K] == size // kept
        assert fitted.order[Level.DRAM] == (Dim.K, *loops)


def test_transposed_layer_takes_the_transposed_mapping():
    """Rows and columns of outputs and filters change places; nothing else does."""
    mapping, turned = built(LAYER), evolve(LAYER, R=1, S=3, P=12, Q=8)
    places = [Dim.S, Dim.R, Dim.Q, Dim.P, *list(Dim)[Dim.C :]]

    def is_transposed(other):
        return all(
            old[places[d]] == new[d]
            for old, new in zip((*mapping.temporal, *mapping.spatial), (*other.temporal, *other.spatial), strict=True)
            for d in Dim
        )

    assert any(map(is_transposed, adapted_mappings([mapping], turned, ARCH, FREE)))


@pytest.mark.parametrize("layout", [0, 1])
def test_fitted_mappings_are_legal_and_have_the_layouts_that_are_given(layout):
    """Of layers that are larger, smaller, and of other primes."""
    constraints = Constraints(layout=(layout, None, 1 - layout))
    others = [evolve(LAYER, P=p, C=c, K=k) for p, c, k in ((16, 64, 32), (1, 2, 1), (7, 5, 11))]
    fitted = list(adapted_mappings([built(one) for one in others], LAYER, ARCH, constraints))
    assert fitted
    assert len(set(fitted)) == len(fitted)
    for mapping in fitted:
        assert not check_mapping(LAYER, ARCH, mapping)
        assert mapping.layout[0::2] == (layout, 1 - layout)


def test_quick_mapping_costs_no_more_than_any_that_it_begins_with():
    """By the formula: of those that are built, and of one that is given, though the time limit is over at once."""
    request = SolveRequest(objective=LATENCY, then=None, time_limit=0)
    starts = list(constructed_mappings(LAYER, ARCH, FREE))
    best = quick_mapping(LAYER, ARCH, request)
    assert cycles(LAYER, best) <= min(cycles(LAYER, one) for one in starts)
    again = quick_mapping(LAYER, ARCH, request, [best])
    assert cycles(LAYER, again) <= cycles(LAYER, best)
    assert not check_mapping(LAYER, ARCH, again)
