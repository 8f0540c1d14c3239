"""Shapes of products, against counts of elements and of multiplications by brute force."""

import math

import numpy as np
import pytest

from cpsat_pim.base.dims import Tensor
from cpsat_pim.importers.einstein import einstein_sum, einsum_sizes
from cpsat_pim.importers.products import (
    Unmappable,
    convolution,
    matrix_product,
    product_sum,
)
from cpsat_pim.workload import ConvWorkload


def test_convolution_takes_width_and_height_from_the_last_and_the_axis_before():
    """Weights [8, 3, 5, 7] of two groups over [2, 6, 20, 30]: 7 wide, 5 high; out [2, 8, 8, 12] is 12 wide, 8 high."""
    layer = convolution((2, 6, 20, 30), (8, 3, 5, 7), (2, 8, 8, 12), 2, [2, 2], [1, 1])
    assert layer == ConvWorkload(R=7, S=5, P=12, Q=8, C=3, K=4, N=2, G=2, stride=(2, 2))


def test_convolution_in_one_dimension_runs_along_the_width():
    """Stride and dilation too; the height's are 1."""
    layer = convolution((4, 3, 50), (8, 3, 5), (4, 8, 21), 1, [2], [2])
    assert layer == ConvWorkload(R=5, P=21, C=3, K=8, N=4, stride=(2, 1), dilation=(2, 1))


def test_convolution_without_a_batch_has_one_image():
    """PyTorch takes [channels, height, width], too."""
    assert convolution((3, 8, 8), (4, 3, 3, 3), (4, 6, 6), 1, [1, 1], [1, 1]).N == 1


def test_convolution_along_four_axes_is_no_layer():
    """A layer has a width and a height, and one more axis can be unfolded."""
    with pytest.raises(Unmappable, match=r"^4-D$"):
        convolution((1, 3, 9, 9, 9, 9), (4, 3, 3, 3, 3, 3), (1, 4, 7, 7, 7, 7), 1, [1] * 4, [1] * 4)


@pytest.mark.parametrize(
    ("kernel", "out", "stride", "bounds"),
    [
        # One tap along the depth: its 7 positions are as many images.
        ((1, 3, 3), (7, 8, 9), (1, 1, 1), {"R": 3, "S": 3, "P": 9, "Q": 8, "C": 3, "N": 7}),
        # One tap along height and width: of these the height is unfolded, as the first of equals.
        ((3, 1, 1), (7, 8, 9), (1, 1, 1), {"S": 3, "P": 9, "Q": 7, "C": 3, "N": 8}),
        # Windows of the depth do not overlap, those of the others do.
        ((2, 3, 3), (7, 8, 9), (2, 1, 1), {"R": 3, "S": 3, "P": 9, "Q": 8, "C": 6, "N": 7}),
    ],
)
def test_convolution_along_three_axes_unfolds_the_one_that_reads_nothing_twice(kernel, out, stride, bounds):
    """Taps of that axis are channels, its positions images; the multiplications are those of the direct sum."""
    layer = convolution((1, 3, 99, 99, 99), (4, 3, *kernel), (1, 4, *out), 1, stride, [1] * 3)
    assert layer == ConvWorkload(K=4, **bounds)
    assert layer.macs == math.prod(kernel) * math.prod(out) * 3 * 4


@pytest.mark.parametrize(
    ("left", "right", "summed", "bounds"),
    [
        ((6, 1, 8), (1, 5, 8), [-1], {"P": 6, "C": 8, "K": 5}),
        ((2, 7, 4), (2, 7, 4), [2], {"G": 14, "C": 4}),
        ((2, 7, 1), (2, 7, 4), [1], {"G": 2, "C": 7, "K": 4}),
        ((4,), (3, 4), [1], {"K": 3, "C": 4}),
    ],
)
def test_sum_of_products_has_the_elements_of_its_operands_and_its_result(left, right, summed, bounds):
    """Each element of the result takes one multiplication per element that is summed."""
    layer = product_sum(left, right, summed)
    assert layer == ConvWorkload(**bounds)
    terms = np.zeros(left) * np.zeros(right)
    assert layer.macs == terms.size
    assert layer.elements(Tensor.O) == terms.sum(axis=tuple(summed)).size


@pytest.mark.parametrize(
    ("left", "right", "summed"), [((6, 8), (1, 8), [0]), ((6, 8), (6, 1), [1]), ((6, 8), (1,), [1])]
)
def test_scaled_sum_is_no_product(left, right, summed):
    """Nothing is contracted where one operand has no axis that is summed."""
    assert product_sum(left, right, summed) is None


def test_convolution_of_other_channels_than_the_data_have_is_refused():
    """Six channels in two groups of three are not eight."""
    with pytest.raises(ValueError, match=r"^the data have 8 channels, the weights take 6$"):
        convolution((1, 8, 9, 9), (4, 3, 3, 3), (1, 4, 7, 7), 2, [1, 1], [1, 1])


# --- Matrix products -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "bounds"),
    [
        ((4, 5), (5, 6), {"P": 4, "C": 5, "K": 6}),
        ((5,), (5, 6), {"C": 5, "K": 6}),
        ((4, 5), (5,), {"P": 4, "C": 5}),
        ((5,), (5,), {"C": 5}),
        ((2, 3, 4, 5), (5, 6), {"P": 4, "C": 5, "K": 6, "N": 6}),
        ((2, 3, 4, 5), (2, 3, 5, 6), {"P": 4, "C": 5, "K": 6, "G": 6}),
        ((2, 3, 4, 5), (2, 1, 5, 6), {"P": 4, "C": 5, "K": 6, "N": 3, "G": 2}),
        ((4, 5), (3, 5, 6), {"P": 4, "C": 5, "K": 18}),
        ((7, 1, 4, 5), (3, 5, 6), {"P": 4, "C": 5, "K": 18, "N": 7}),
    ],
)
def test_matrix_product_has_the_elements_of_its_operands_and_its_result(left, right, bounds):
    """I, W and O count as many elements as NumPy's arrays; each of the result's takes one product per channel."""
    layer = matrix_product(left, right)
    assert layer == ConvWorkload(**bounds)
    out = (np.zeros(left) @ np.zeros(right)).size
    assert [layer.elements(tensor) for tensor in Tensor] == [math.prod(left), math.prod(right), out]
    assert layer.macs == out * left[-1]


@pytest.mark.parametrize(
    ("equation", "left", "right", "bounds"),
    [
        ("bqd,bkd->bqk", (2, 3, 4), (2, 5, 4), {"P": 3, "C": 4, "K": 5, "G": 2}),
        ("bqhd,bkhd->bhqk", (2, 3, 7, 4), (2, 5, 7, 4), {"P": 3, "C": 4, "K": 5, "G": 14}),
        ("...ij, jk -> ...ik", (2, 6, 3, 4), (4, 5), {"P": 36, "C": 4, "K": 5}),
        ("...ij,...jk", (2, 1, 3, 4), (6, 4, 5), {"P": 6, "C": 4, "K": 30}),
        ("ij,jk", (3, 4), (4, 5), {"P": 3, "C": 4, "K": 5}),
        ("bij,bij->b", (2, 3, 4), (2, 3, 4), {"C": 12, "G": 2}),
        ("i,j->ij", (3,), (4,), {"P": 3, "K": 4}),
    ],
)
def test_einstein_sum_has_the_elements_of_its_operands_and_its_result(equation, left, right, bounds):
    """I, W and O count as many elements as NumPy's arrays."""
    *operands, result = einsum_sizes(equation, [left, right])
    layer = einstein_sum(*operands, result)
    assert layer == ConvWorkload(**bounds)
    out = np.einsum(equation, np.zeros(left), np.zeros(right)).size
    assert [layer.elements(tensor) for tensor in Tensor] == [math.prod(left), math.prod(right), out]


@pytest.mark.parametrize(
    ("equation", "bounds"),
    [("ij,jk->k", {"C": 4, "K": 5}), ("ii,ij->j", {"C": 4, "K": 5}), ("ii,ij->ij", {"G": 4, "K": 5})],
)
def test_axis_that_one_operand_sums_alone_or_has_twice_is_none_of_the_product(equation, bounds):
    """The sum (4 x 4 to 4) or the diagonal (4 of 4 x 4) comes first, as in NumPy: 4 x 5 weights times 4 elements."""
    *operands, result = einsum_sizes(equation, [(4, 4), (4, 5)])
    assert einstein_sum(*operands, result) == ConvWorkload(**bounds)
