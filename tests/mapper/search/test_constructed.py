"""Do mappings that are built without a search use what the machine has?"""

from math import prod

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import BUFFERS, Direction, Tensor
from cpsat_pim.mapper.search.constructed import constructed_mappings
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import FREE
from cpsat_pim.workload import ConvWorkload

LAYER = ConvWorkload(
    name="layer", R=3, S=3, P=7, Q=7, C=24, K=64, input_bytes=2, weight_bytes=2, output_bytes=2, psum_bytes=2
)


@pytest.mark.parametrize("name", ["ddr4-near-bank", "hbm-pim", "attacc", "default"])
def test_constructed_mappings_are_legal_and_differ(name: str) -> None:
    """Each is legal, and none is built twice."""
    arch = read_arch(name)
    built = list(constructed_mappings(LAYER, arch, FREE))
    assert built
    assert len(set(built)) == len(built)
    assert not [problem for mapping in built for problem in check_mapping(LAYER, arch, mapping)]


def test_lanes_are_filled_by_the_dim_that_fills_most_of_them() -> None:
    """16 lanes of a reduction tree sum over C, R and S: seven rows of a filter fill more than three channels."""
    default = PIMArchitecture()
    unit = attrs.evolve(default.pe_array.compute_unit, unit_type="reduction_tree", num_macs=16)
    arch = attrs.evolve(default, pe_array=attrs.evolve(default.pe_array, compute_unit=unit))
    conv1 = ConvWorkload(R=7, S=7, P=112, Q=112, C=3, K=64, stride=(2, 2))
    built = list(constructed_mappings(conv1, arch, FREE))
    assert built
    assert {prod(mapping.spatial[Direction.INTERNAL]) for mapping in built} == {7}


@pytest.mark.parametrize("name", ["ddr4-near-bank", "hbm-pim"])
def test_loops_are_left_to_the_buffers_that_store_anything(name: str) -> None:
    """A level that stores nothing has no loops: it would keep nothing while they run, and registers could."""
    arch = read_arch(name)
    for mapping in constructed_mappings(LAYER, arch, FREE):
        for level in BUFFERS:
            assert any(mapping.stored[level][t] for t in Tensor) or set(mapping.temporal[level]) == {1}
    assert any(max(mapping.temporal[0]) > 1 for mapping in constructed_mappings(LAYER, arch, FREE))
