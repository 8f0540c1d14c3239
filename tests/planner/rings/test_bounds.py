"""Bounds and certificates: never above the optimum, and proven to another counter."""

from itertools import product
from math import ceil

import pytest
from hypothesis import given, settings

from cpsat_pim.planner.rings import Instance, Mask, Mesh, masked_instance
from cpsat_pim.planner.rings.certificate import LinkWeights, block_as_weights
from cpsat_pim.planner.rings.constructions import constructed_rings
from cpsat_pim.planner.rings.cuts import best_block, exchange_bound
from cpsat_pim.planner.rings.feasibility import FeasibilityLimits, find_rings
from cpsat_pim.planner.rings.relaxation import RelaxationLimits, relaxation_bound
from cpsat_pim.planner.rings.routes import link_ends
from tests.planner.rings.cases import instances, masks, optimum
from tracesim.rings import SetBound, block_bound, covers, exchange, exchange_block_bound, heaviest_load, weights_bound


def proven(instance: Instance, certificate: LinkWeights) -> int:
    """What `tracesim` finds proven by link weights."""
    ends = [(a, b) for a, b in link_ends(instance.mesh).tolist()]
    weights = dict(zip(ends, certificate.weights, strict=True))
    proofs = [SetBound(p.leaving, p.entering, p.parts) for p in certificate.proofs]
    return ceil(weights_bound(instance.mesh.rows, instance.mesh.cols, instance.sets, weights, proofs))


@settings(max_examples=40)
@given(masks(sides=(1, 2, 4)))
def test_the_best_block_is_the_best_of_all(case: tuple[Mesh, Mask]) -> None:
    """Another counter tries every rectangle by looking at every link."""
    instance = masked_instance(*case)
    rows, cols = instance.mesh.rows, instance.mesh.cols
    blocks = [
        (y, x, h, w)
        for y, x in product(range(rows), range(cols))
        for h, w in product(range(1, rows - y + 1), range(1, cols - x + 1))
        if (h, w) != (rows, cols)
    ]
    assert best_block(instance).bound == max(block_bound(rows, cols, instance.sets, block) for block in blocks)


@settings(max_examples=40)
@given(instances(longest_side=5))
def test_no_exchange_beats_its_bound(instance: Instance) -> None:
    """It is the best of all blocks to another counter, or n - 1; rings, being an exchange, do not take less."""
    rows, cols = instance.mesh.rows, instance.mesh.cols
    blocks = [
        (y, x, h, w)
        for y, x in product(range(rows), range(cols))
        for h, w in product(range(1, rows - y + 1), range(1, cols - x + 1))
        if (h, w) != (rows, cols)
    ]
    best = max(exchange_block_bound(rows, cols, instance.sets, block) for block in blocks)
    assert exchange_bound(instance) == max(best, instance.steps)
    seen = exchange(cols, constructed_rings(instance))
    assert sum(seen.step_loads) >= exchange_bound(instance)


@pytest.mark.parametrize(("side", "chunk_times"), [(4, 15), (8, 15), (16, 30)])
def test_no_exchange_beats_the_rings_of_figure_12(side: int, chunk_times: int) -> None:
    """15 chunks into every node; on 16x16, 16 sets x 15 chunks over the 8 links into a corner of 4x4: 30."""
    free = side - side // 4
    assert exchange_bound(masked_instance(Mesh(rows=side, cols=side), Mask(rows=free, cols=free))) == chunk_times


def test_the_corner_block_of_figure_12_proves_two() -> None:
    """A corner of 4x4 nodes on 16x16 has 8 links out and a node of each of the 16 sets: 16 over 8."""
    block = best_block(masked_instance(Mesh(rows=16, cols=16), Mask(rows=0b1100, cols=0b1100)))
    assert block.bound == 2
    assert block_bound(16, 16, masked_instance(Mesh(rows=16, cols=16), Mask(rows=12, cols=12)).sets, (0, 0, 4, 4)) == 2


@settings(max_examples=40, deadline=None)
@given(instances(most_sets=2, largest_set=5))
def test_no_bound_is_above_the_optimum(instance: Instance) -> None:
    """All rings of all sets are tried; each certificate is checked by another counter."""
    best, block = optimum(instance), best_block(instance)
    assert block.bound <= best
    assert proven(instance, block_as_weights(instance, block)) == block.bound
    certificate = relaxation_bound(instance, RelaxationLimits())
    assert certificate is not None
    assert max(1, proven(instance, certificate)) == certificate.bound <= best


def test_the_relaxation_proves_more_than_cuts() -> None:
    """16x8 with the free digits 1011x100: cuts prove 1 and combs have load 2; so has every set of rings."""
    instance = masked_instance(Mesh(rows=16, cols=8), Mask(rows=0b1011, cols=0b100))
    certificate = relaxation_bound(instance, RelaxationLimits())
    assert best_block(instance).bound == 1
    assert certificate is not None
    assert proven(instance, certificate) == certificate.bound == 2


@settings(max_examples=30, deadline=None)
@given(instances(most_sets=2, largest_set=5))
def test_cpsat_agrees_with_all_rings(instance: Instance) -> None:
    """It finds rings at the optimum and proves that there are none below."""
    best = optimum(instance)
    answer = find_rings(instance, best, FeasibilityLimits())
    assert answer is not None
    assert answer.rings is not None
    assert covers(instance.sets, answer.rings)
    assert heaviest_load(instance.mesh.cols, answer.rings) == best
    if best > 1:
        below = find_rings(instance, best - 1, FeasibilityLimits(), answer.rings)
        assert below is not None
        assert below.rings is None
        assert below.is_proven


def test_what_is_too_large_is_not_built() -> None:
    """Neither model is built beyond its limit of arcs."""
    instance = Instance(mesh=Mesh(rows=2, cols=2), sets=[[0, 1, 2, 3]])
    assert find_rings(instance, 1, FeasibilityLimits(arcs=11)) is None
    assert relaxation_bound(instance, RelaxationLimits(arcs=11)) is None
