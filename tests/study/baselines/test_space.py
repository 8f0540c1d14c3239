"""What is drawn from the space of a layer on a machine: legal, all ways alike, and something wherever there is any."""

from collections import Counter

import attrs
import numpy as np
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Level
from cpsat_pim.mapping.check import check_fits, check_mapping
from cpsat_pim.study.baselines.draft import DRAM, Draft
from cpsat_pim.study.baselines.space import Space, _shares
from cpsat_pim.study.fuzz.draw import Drawer
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import read_network

SEEDS = range(25)


def drawn_space(seed: int, most_macs: int = 2000) -> Space:
    """A random layer on a random machine."""
    draw = Drawer.of(np.random.default_rng([7, seed]))
    return Space(draw.layer(most_macs), draw.machine())


def filled_space(seed: int) -> Space:
    """The first of some random ones that is not empty."""
    return next(space for n in range(seed, 10_000, len(SEEDS)) if not (space := drawn_space(n)).is_empty)


def small_spaces(seed: int) -> list[Space]:
    """A random machine with a random layer, and with a filter whose windows no buffer takes: for the latter there is no
    mapping. Layers known to have no mapping are excluded.
    """
    drawn = drawn_space(1000 + seed, most_macs=6)
    levels = [attrs.evolve(level, stores=(False, *level.stores[1:])) for level in drawn.arch.hierarchy[: Level.DRAM]]
    arch = attrs.evolve(drawn.arch, hierarchy=(*levels, drawn.arch.hierarchy[Level.DRAM]))
    spaces = [drawn, Space(ConvWorkload(R=2, K=2), arch)]
    return [space for space in spaces if not check_fits(space.layer, space.arch)]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_drawn_is_legal(seed: int) -> None:
    """And so is what lies beside it."""
    space, rng = filled_space(seed), np.random.default_rng(seed)
    for _ in range(10):
        draft = space.draw(rng)
        assert check_mapping(space.layer, space.arch, draft.to_mapping(space.layer)) == []
        beside = space.neighbour(draft, rng)
        assert beside is None or check_mapping(space.layer, space.arch, beside.to_mapping(space.layer)) == []


@pytest.mark.parametrize("name", ["conv1", "layer2.0.conv2", "layer3.0.downsample", "fc"])
def test_most_samples_of_real_layers_are_not_given_up(name: str) -> None:
    """On the default machine: what is repaired in vain would have all loops at the DRAM."""
    layer = next(node.workload for node in read_network("resnet50").layers if node.name == name)
    space, rng = Space(layer, PIMArchitecture()), np.random.default_rng(0)
    drafts = [space.draw(rng) for _ in range(40)]
    assert sum(draft.factors[DRAM] == layer.bounds for draft in drafts) <= 2


def test_all_ways_to_share_out_are_alike() -> None:
    """Two equal things to three places: six ways, each 1000 times in 6000, at most five standard deviations off."""
    rng = np.random.default_rng(0)
    counts = Counter(tuple(_shares(2, 3, rng)) for _ in range(6000))
    assert len(counts) == 6
    assert all(abs(count - 1000) < 5 * (6000 * 1 / 6 * 5 / 6) ** 0.5 for count in counts.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_space_is_empty_only_where_there_is_no_mapping(seed: int) -> None:
    """As trying all of them finds; the DRAMs here have room."""
    for space in small_spaces(seed):
        assert space.is_empty == (next(every_mapping(space.layer, space.arch), None) is None)


def test_small_spaces_are_of_both_kinds() -> None:
    """Those that are compared above: many hold a mapping, many are empty."""
    kinds = Counter(space.is_empty for seed in SEEDS for space in small_spaces(seed))
    assert min(kinds[True], kinds[False]) > len(SEEDS) / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_mapping_is_that_of_its_draft(seed: int) -> None:
    """There and back, input blocks and residency points included."""
    space, rng = filled_space(seed), np.random.default_rng(seed)
    for _ in range(5):
        mapping = space.draw(rng).to_mapping(space.layer)
        assert Draft.of(mapping, space.layer).to_mapping(space.layer) == mapping


def test_factors_multiply_to_the_bounds() -> None:
    """Of whatever is drawn, before and after repair."""
    space, rng = filled_space(3), np.random.default_rng(3)
    for factors in (space._factors(rng), space.draw(rng).factors):
        assert tuple(np.prod(factors, axis=0)) == space.layer.bounds
        assert len(factors[0]) == len(Dim)
