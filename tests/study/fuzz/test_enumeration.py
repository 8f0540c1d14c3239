"""The enumeration holds the whole space, each mapping once, and nothing illegal."""

import attrs
import pytest

from cpsat_pim.arch import MemoryLevel, PEArray, PhyDim2, PIMArchitecture
from cpsat_pim.base.dims import Dim
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.study.fuzz.enumeration import every_mapping
from cpsat_pim.workload import ConvWorkload


def machine(*stores: tuple[bool, bool, bool]) -> PIMArchitecture:
    """Rows and columns of four PEs of one MAC; each level stores exactly these tensors."""
    levels = PIMArchitecture().hierarchy
    forced = [attrs.evolve(m, stores=s, bypass_defined=True) for m, s in zip(levels, stores, strict=False)]
    return PIMArchitecture(hierarchy=(*forced, levels[3]), pe_array=PEArray(array_shape=PhyDim2(4, 4)))


NOTHING, EVERYTHING = (False,) * 3, (True,) * 3


@pytest.mark.parametrize(
    ("layer", "stores", "count"),
    [
        # C runs at one of four levels or over H or W; two layouts for each of three tensors.
        (ConvWorkload(C=2), (EVERYTHING, EVERYTHING, NOTHING), 6 * 8),
        # Two primes of C: both at one level 4, at two levels 6, one over H or W (exclusive) 2 * 4, both 2.
        (ConvWorkload(C=4), (EVERYTHING, EVERYTHING, NOTHING), (4 + 6 + 8 + 2) * 8),
        # C and K: 36 ways, and two orders in each of the four where they share a level.
        (ConvWorkload(C=2, K=2), (EVERYTHING, EVERYTHING, NOTHING), (36 + 4) * 8),
        # I row-aligned: P outside the row buffer leaves blocks of 1; inside, of 1 or 2.
        (ConvWorkload(P=2), (EVERYTHING, EVERYTHING, (True, False, False)), (1 + 5 * 2) * 8),
    ],
)
def test_count_is_that_of_the_choices(layer: ConvWorkload, stores: tuple[tuple[bool, bool, bool]], count: int) -> None:
    """By hand, on a machine where all fits."""
    arch = machine(*stores)
    mappings = list(every_mapping(layer, arch))
    assert len(mappings) == len(set(mappings)) == count
    assert all(check_mapping(layer, arch, mapping) == [] for mapping in mappings)


def test_nothing_that_does_not_fit() -> None:
    """PEs of three bytes hold one element of each tensor, so C runs outside of them."""
    arch = machine(EVERYTHING, EVERYTHING, NOTHING)
    tiny: MemoryLevel = attrs.evolve(arch.hierarchy[0], entries=3, double_buffered=False)
    mappings = every_mapping(ConvWorkload(C=2), attrs.evolve(arch, hierarchy=(tiny, *arch.hierarchy[1:])))
    assert {mapping.temporal[0][Dim.C] for mapping in mappings} == {1}
