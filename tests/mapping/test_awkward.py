"""Bounds for which padding is suggested."""

import attrs
import pytest

from cpsat_pim.arch import ComputeUnit, PEArray, PhyDim2, PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.dims import Dim
from cpsat_pim.mapping.awkward import AwkwardBound, awkward_bounds
from cpsat_pim.workload import ConvWorkload


@pytest.mark.parametrize(
    ("preset", "layer", "expected"),
    [
        # Primes; 512 = 2^9 and 1024 = 2^10 are the next numbers without a prime above 7.
        ("gddr6-aim", ConvWorkload(C=509, K=64), AwkwardBound(Dim.C, 509, 509, 512)),
        ("hbm-pim", ConvWorkload(C=1021, K=64), AwkwardBound(Dim.C, 1021, 1021, 1024)),
        # 197 tokens: 198 = 2 * 9 * 11 and 199 are awkward, 200 = 8 * 25 is not.
        ("hbm-pim", ConvWorkload(P=197, C=64), AwkwardBound(Dim.P, 197, 197, 200)),
    ],
)
def test_large_primes_are_named_with_the_next_number(preset: str, layer: ConvWorkload, expected: AwkwardBound) -> None:
    """One bound each; the text has the option that tries it."""
    (found,) = awkward_bounds(layer, read_arch(preset))
    assert found == expected
    assert f"--padding {-(-100 * (expected.padded - expected.bound) // expected.bound)}% tries" in str(found)


@pytest.mark.parametrize(
    "layer",
    [
        ConvWorkload(P=55, Q=55, C=3, K=96, R=11, S=11),  # AlexNet: 11 is no more than sixteen
        ConvWorkload(C=1024, K=4096),
        ConvWorkload(C=17),  # the next number is 18, more than a twentieth larger
    ],
)
def test_harmless_bounds_are_not_named(layer: ConvWorkload) -> None:
    """On one PE of one lane."""
    assert awkward_bounds(layer, read_arch("upmem")) == []


def test_primes_that_the_array_can_share_are_not_named() -> None:
    """41 rows hold a prime of 41; 40 do not."""
    for rows, count in ((41, 0), (40, 1)):
        array = PEArray(array_shape=PhyDim2(rows, 1), compute_unit=ComputeUnit())
        arch = attrs.evolve(PIMArchitecture(), pe_array=array)
        assert len(awkward_bounds(ConvWorkload(C=41), arch)) == count
