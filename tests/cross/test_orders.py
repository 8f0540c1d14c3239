"""The best orders, layouts and blocks of a draft mapping, against the exact cost of all of them."""

import itertools
import random

import attrs
import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.base.dims import ON_CHIP, Dim, Level, Tensor
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search.completion import Completions
from cpsat_pim.mapper.search.placement import input_blocks
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import Mapping
from tables.counts.cost import exact_cost
from tables.counts.latency import with_walk
from tables.counts.stream import dram_stream
from tables.counts.walk import NO_STREAM_LIMIT
from tests.cross.test_bounds import arranged

LAYER = ConvWorkload(R=2, P=4, C=4, K=4)
MACHINES = {"default": PIMArchitecture(), "one bus": PIMArchitecture(shared_data_bus=True, page_policy="closed")}


def draw_mapping(rng: random.Random) -> Mapping:
    """Return a mapping with loops at any levels, in any order, and tiles that cover any of them."""
    temporal = [[1] * 8 for _ in Level]
    for d in Dim:
        for factor in (2,) * (LAYER.bounds[d].bit_length() - 1):
            temporal[rng.choice([Level.PE, Level.GLOBAL_BUFFER, Level.GLOBAL_BUFFER, Level.DRAM])][d] *= factor
    stored = [[rng.random() < 0.6 for _ in Tensor] for _ in range(3)]
    stored[Level.ROW_BUFFER] = [rng.random() < 0.2, rng.random() < 0.2, False]
    mapping = arranged(LAYER, Mapping(temporal=temporal, spatial=[[1] * 8] * 3, order=[[]] * 4, stored=stored), rng)
    is_uneven = rng.random() < 0.5
    most = [[len(mapping.order[m]) * stored[m][t] * is_uneven for t in Tensor] for m in ON_CHIP]
    return attrs.evolve(mapping, outside=[[rng.randint(0, loops) for loops in row] for row in most])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", ["latency", "energy"])
def test_best_completion_costs_the_least_of_all(kind: str, machine: str) -> None:
    """Orders that have no effect, or the cost of another one, are pruned; no cheaper one is."""
    arch, objective, rng = MACHINES[machine], Objective.named(kind), random.Random(f"{kind} {machine}")
    for _ in range(8):
        mapping = draw_mapping(rng)
        subspace = Subspace.ALIGNED if any(mapping.stored[Level.ROW_BUFFER]) else Subspace.SPLIT
        levels = zip(mapping.order, mapping.outside, strict=False)
        outside = tuple(tuple(frozenset(loops[:point]) for point in points) for loops, points in levels)
        restriction = Restriction(LAYER, arch, subspace=subspace)
        found = Completions(restriction, objective, mapping, outside, {}, {}, lambda _: [NO_STREAM_LIMIT] * 3, None)
        answer = found.best(found.orders.of_levels(found.orders.levels_that_matter) or [])
        assert answer
        is_blocked = mapping.stored[Level.ROW_BUFFER][Tensor.I]
        blocks = input_blocks(LAYER, mapping) if is_blocked else [(0, 0)]
        layouts = itertools.product((0, 1), repeat=3)
        least = None
        for order, layout, (h, w) in itertools.product(found.orders.of_levels(list(Level)) or [], layouts, blocks):
            nest = found.nest_in(order)._replace(layout=layout, block_h=h, block_w=w)
            cost = with_walk(exact_cost(nest, found.machine), nest, found.machine)
            value = objective.value(cost.latency_cycles, cost.energy_fj)
            least = value if least is None else min(least, value)
        assert answer.value == least
        figures = predict(LAYER, arch, answer.mapping).figures
        assert answer.value == objective.value(figures.latency_cycles, figures.energy_fj)


def test_fewest_activations_are_those_of_any_layout() -> None:
    """A layout that is slower at one pace of the array may open fewer rows, and be the better one at another: tiles of
    8 K of a matrix are one column each with K innermost, and go over its two rows four times; else they are eight, in
    one row.
    """
    layer, none = ConvWorkload(C=16, K=32, N=16), [1] * 8
    timings = {"tRCDRD": 14, "tRP": 14, "tRTP": 6, "tRC": 47, "tRAS": 33, "tCCD_L": 1, "co_w": 64}
    levels = list(PIMArchitecture().hierarchy)
    levels[Level.ROW_BUFFER] = attrs.evolve(levels[Level.ROW_BUFFER], row_buffer_size=256)
    arch = PIMArchitecture(hierarchy=tuple(levels), dram_timings=timings)
    inside, outside = list(none), list(none)
    inside[Dim.K], inside[Dim.N], outside[Dim.K], outside[Dim.C] = 8, 16, 4, 16
    mapping = Mapping(
        temporal=(none, inside, none, outside),
        spatial=[none] * 3,
        order=((), (Dim.K, Dim.N), (), (Dim.K, Dim.C)),
        stored=((False,) * 3, (True,) * 3, (False,) * 3),
    )
    tiles = ((frozenset[Dim](),) * 3,) * 2
    restriction, latency = Restriction(layer, arch, subspace=Subspace.MERGED), Objective.named("latency")
    found = Completions(restriction, latency, mapping, tiles, {}, {}, lambda _: [NO_STREAM_LIMIT] * 3, None)
    tempo, dram = found.tempo(mapping.order), found.machine.dram
    nests = [found.nest_in(mapping.order)._replace(layout=(layout,) * 3) for layout in (0, 1)]
    counts = [dram_stream(nest, Tensor.W, dram, tempo, NO_STREAM_LIMIT).activations for nest in nests]
    assert (min(counts), max(counts)) == (2, 8)
    assert found.min_figures(Tensor.W, [mapping.order], NO_STREAM_LIMIT).activations == 2
