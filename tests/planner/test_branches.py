"""Blocks of layers that fall apart in branches, and ways to cut a rectangle for them."""

from itertools import product

import pytest

from cpsat_pim.planner.array import Region
from cpsat_pim.planner.branches import find_blocks
from cpsat_pim.planner.branches.cuts import divisions, halves, members
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.workload.network import read_network


def blocks_of(name):
    """Blocks of a packaged network."""
    return find_blocks(build_graph(read_network(name)))


def test_inceptions_have_four_branches():
    """GoogLeNet's nine: 1x1, reduced 3x3, reduced 5x5, projected pool, between two concatenations."""
    blocks = blocks_of("googlenet")
    assert [[len(branch) for branch in block.branches] for block in blocks] == [[1, 2, 2, 1]] * 9
    assert all(len(block.outer) == 2 and not block.joined for block in blocks)
    for block in blocks:
        assert [len(homes) for homes in block.inner] == [len(branch) - 1 for branch in block.branches]


def test_residual_blocks_with_a_projection_have_two():
    """ResNet-50's first block of each stage; the sum of the two is made at the end."""
    blocks = blocks_of("resnet50")
    assert [[len(branch) for branch in block.branches] for block in blocks] == [[3, 1]] * 4
    assert [block.joined[0].finished_by for block in blocks] == [f"layer{n}.0.downsample" for n in range(1, 5)]


def test_chains_have_none():
    """Every layer of VGG-16 reads the one before."""
    assert blocks_of("vgg16") == []


@pytest.mark.parametrize(("step", "count"), [(1, 4), (2, 1), (3, 1), (4, 0)])
def test_halves_fill_the_rectangle(step, count):
    """Cuts of 2 x 4 nodes at multiples of a step: one between rows, up to three between columns."""
    region = Region(1, 2, 2, 4)
    pairs = list(halves(region, step))
    assert len(pairs) == count
    for a, b in pairs:
        assert not a.overlaps(b)
        assert a.size + b.size == region.size


@pytest.mark.parametrize("mask", [0b1, 0b101, 0b1111])
def test_divisions_are_all_ordered_pairs(mask):
    """Every member on one side or the other, and none of them empty."""
    numbers = list(members(mask))
    parts = {
        sum(1 << n for n, is_in in zip(numbers, sides, strict=True) if is_in)
        for sides in product((False, True), repeat=len(numbers))
    }
    assert set(divisions(mask)) == {(part, mask - part) for part in parts if 0 < part < mask}
