"""Completions of a draft, where the time ends."""

import itertools
import math
import random
from unittest.mock import patch

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search.completion import Completions
from cpsat_pim.mapper.search.placement import OutOfTime
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import Constraints
from tables.counts.cost import exact_cost
from tables.counts.walk import NO_STREAM_LIMIT
from tests.mapping.check.mappings import build_arch, build_mapping


def test_a_long_stream_is_not_counted_past_the_limit() -> None:
    """W is scanned a million times, an element at a time; the walk is stopped at once, and no minimum is taken."""
    layer, mapping = ConvWorkload(C=1021, K=1031), build_mapping("3K1031 3C1021", "1 1 1")
    restriction = Restriction(layer, PIMArchitecture(), subspace=Subspace.MERGED)
    found = Completions(
        restriction,
        Objective.named("energy"),
        mapping,
        ((frozenset(),) * 3,) * 2,
        {},
        {},
        lambda _: [NO_STREAM_LIMIT] * 3,
        None,
        is_over=lambda: True,
    )
    with patch("cpsat_pim.base.watched._PATIENCE", 0.0), pytest.raises(OutOfTime):
        found.best([mapping.order])


def _draft(seed: int) -> tuple[ConvWorkload, Mapping]:
    """A small matrix product whose weights the MACs draw from the DRAM, with loops at random."""
    rng = random.Random(seed)
    loops = [(place, d, rng.choice((1, 2, 3))) for place in "03" for d in rng.sample("CKN", 3)]
    bounds = {d: math.prod(n for _, dim, n in loops if dim == d) for d in "CKN"}
    text = " ".join(f"{place}{d}{n}" for place, d, n in loops if n > 1)
    return ConvWorkload(**bounds), build_mapping(text, rng.choice(("0 - 0", "- - 0", "0 - -")))


def _completions(layer: ConvWorkload, mapping: Mapping, kind: str, cutoff: int | None) -> Completions:
    """Completions of a draft in one bank with rows of eight bytes, which the three tensors share."""
    none = (frozenset[Dim](),) * 3
    arch = build_arch(node_banks=1, shared_data_bus=True)
    restriction = Restriction(layer, arch, Constraints(banks=(0, 0, 0), bank_counts=(1, 1, 1)), Subspace.MERGED)
    limits, objective = [NO_STREAM_LIMIT] * 3, Objective.named(kind)
    return Completions(restriction, objective, mapping, (none, none), {}, {}, lambda _: limits, cutoff, is_walked=False)


@pytest.mark.parametrize("kind", ["energy", "latency", "blended"])
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_long_streams_are_counted_as_far_as_the_cutoff_needs(kind: str, seed: int) -> None:
    """With every stream long, the best completion at a cutoff is that of all the orders and layouts, counted to the
    end; below its cost there is none, or that one.
    """
    layer, mapping = _draft(seed)
    mapping = attrs.evolve(mapping, banks=(0, 0, 0))
    free = _completions(layer, mapping, kind, None)
    orders = (free.orders.of_levels(list(Level)) or [])[:4]
    nests = [
        free.nest_in(order)._replace(layout=layout)
        for order in orders
        for layout in itertools.product((0, 1), repeat=3)
    ]
    costs = [exact_cost(nest, free.machine) for nest in nests]
    least = min(free.objective.value(cost.latency_cycles, cost.energy_fj) for cost in costs)
    with patch("tables.counts.stream.LONG_SCANS", 1):
        for cutoff in (None, 2 * least, least):
            best = _completions(layer, mapping, kind, cutoff).best(orders)
            assert best is not None
            assert best.value == least
        found = _completions(layer, mapping, kind, least - 1).best(orders)
        assert found is None or found.value == least


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), most=st.integers(0, 40))
def test_a_minimum_is_at_most_one_more_than_its_limit(seed: int, most: int) -> None:
    """Where only energy counts, the fewest activations over all orders are exact up to the limit, whatever was counted
    before with another one.
    """
    layer, mapping = _draft(seed)
    found = _completions(layer, attrs.evolve(mapping, banks=(0, 0, 0)), "energy", None)
    orders = (found.orders.of_levels(list(Level)) or [])[:4]
    limit = NO_STREAM_LIMIT._replace(activations=most)
    for t in Tensor:
        first = found.min_figures(t, orders, limit).activations
        least = found.min_figures(t, orders, NO_STREAM_LIMIT).activations
        assert min(first, most + 1) == min(least, most + 1)
        assert first <= least
