"""Transposed convolutions as layers, against counts of multiplications and of elements by brute force."""

import itertools
import math

import pytest

from cpsat_pim.importers.phases import Phase, transposed_convolution
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.reorders import Reorder


def taps_by_position(kernel: int, extent: int, stride: int, dilation: int, padding: int) -> list[int]:
    """For each output position how many taps fall on an element and not between two: input*stride + tap*dilation."""
    return [
        sum((position + padding - tap * dilation) % stride == 0 for tap in range(kernel)) for position in range(extent)
    ]


@pytest.mark.parametrize(
    ("kernel", "extent", "stride", "dilation", "padding"),
    [
        *[(2, 8, 2, 1, 0), (3, 8, 2, 1, 1), (4, 8, 2, 1, 1), (3, 9, 2, 1, 0), (3, 13, 3, 1, 1), (5, 6, 1, 1, 2)],
        *[(1, 7, 2, 1, 0), (3, 11, 2, 2, 0), (3, 12, 4, 2, 1), (4, 9, 2, 3, 2), (2, 10, 6, 4, 0)],
    ],
)
def test_multiplies_what_does_not_meet_an_inserted_zero(kernel, extent, stride, dilation, padding):
    """All MACs are those counted tap by tap, in both axes; each tap that is used at all is in one phase."""
    counted = taps_by_position(kernel, extent, stride, dilation, padding)
    phases = transposed_convolution(
        (1, 6, 9, 9), (6, 5, kernel, kernel), (1, 10, extent, extent), 2, *([x, x] for x in (stride, dilation, padding))
    )
    layers = [phase.shape for phase in phases.layers]
    assert sum(layer.macs for layer in layers) == sum(counted) ** 2 * 3 * 5 * 2
    taps = sum(layer.R * layer.S * layer.K for layer in layers) // 5
    residues = {(position + padding) % stride for position in range(extent)}
    assert taps == sum(tap * dilation % stride in residues for tap in range(kernel)) ** 2


def test_along_three_axes_multiplies_what_does_not_meet_an_inserted_zero():
    """A 2x4x3 kernel of stride 2: counted tap by tap along each axis."""
    sizes = [(2, 8, 2, 1, 0), (4, 8, 2, 1, 1), (3, 9, 2, 1, 0)]
    kernel, out, stride, dilation, padding = zip(*sizes, strict=True)
    phases = transposed_convolution((1, 6, 4, 4, 4), (6, 5, *kernel), (1, 5, *out), 1, stride, dilation, padding)
    counted = math.prod(sum(taps_by_position(*axis)) for axis in sizes)
    assert sum(phase.shape.macs for phase in phases.layers) == counted * 6 * 5
    assert phases.reorder is None  # a layer has two spatial axes


def test_phases_that_read_the_same_windows_are_one_layer():
    """A 2x2 kernel of stride 2: each element makes 2 x 2 of 5 channels, the channels of a phase side by side."""
    phases = transposed_convolution((1, 3, 8, 9), (3, 5, 2, 2), (1, 5, 16, 18), 1, [2, 2], [1, 1], [0, 0])
    assert phases.layers == (Phase(shape=ConvWorkload(P=9, Q=8, C=3, K=20), front=(0, 0)),)
    assert phases.reorder == Reorder(C=[["C", 5, 1]], H=[["H", 8, 1], ["C", 2, 10]], W=[["W", 9, 1], ["C", 2, 5]])


def test_phases_that_read_other_windows_are_a_layer_each():
    """A 4x4 kernel of stride 2 and padding 1 doubles 8x8: even positions of an axis multiply an element with tap 1 and
    the one in front with tap 3, odd ones an element with tap 2 and the one behind with tap 0.
    """
    phases = transposed_convolution((2, 3, 8, 8), (3, 5, 4, 4), (2, 5, 16, 16), 1, [2, 2], [1, 1], [1, 1])
    layer = ConvWorkload(R=2, S=2, P=8, Q=8, C=3, K=5, N=2)
    assert phases.layers == tuple(Phase(shape=layer, front=(x, y)) for y, x in itertools.product((1, 0), repeat=2))
    axes = {"H": [["H", 8, 1], ["C", 2, 10]], "W": [["W", 8, 1], ["C", 2, 5]]}
    assert phases.reorder == Reorder(N=[["N", 2, 1]], C=[["C", 5, 1]], **axes)


def test_some_phases_of_an_axis_read_the_same_windows():
    """Eight taps, stride 4, padding 2, to 16 of 4: positions 0 and 1 read an element (taps 2, 3) and the one in front
    (taps 6, 7), positions 2 and 3 an element (taps 4, 5) and the one behind (taps 0, 1).
    """
    phases = transposed_convolution((1, 3, 4), (3, 5, 8), (1, 5, 16), 1, [4], [1], [2])
    layer = ConvWorkload(R=2, P=4, C=3, K=10)
    assert phases.layers == (Phase(shape=layer, front=(1, 0)), Phase(shape=layer, front=(0, 0)))
    assert phases.reorder == Reorder(C=[["C", 5, 1]], W=[["W", 4, 1], ["C", 2, 10], ["C", 2, 5]])


def test_phases_of_unlike_sizes_are_not_put_in_order():
    """Three taps and stride 2 make 9 of 4: five even positions, four odd ones. Nothing is cut off in front."""
    phases = transposed_convolution((1, 3, 4), (3, 5, 3), (1, 5, 9), 1, [2], [1], [0])
    even, odd = ConvWorkload(R=2, P=5, C=3, K=5), ConvWorkload(P=4, C=3, K=5)
    assert phases.layers == (Phase(shape=even, front=(1, 0)), Phase(shape=odd, front=(0, 0)))
    assert phases.reorder is None


def test_elements_that_are_left_out_are_told():
    """Two taps, stride 2, padding 1 make 6 of 4: odd positions begin with the element behind the first one."""
    phases = transposed_convolution((1, 3, 4), (3, 5, 2), (1, 5, 6), 1, [2], [1], [1])
    assert [phase.front for phase in phases.layers] == [(0, 0), (-1, 0)]
    assert phases.reorder is None


def test_taps_keep_their_distance():
    """Stride 2 and dilation 4: taps are two input elements apart, and every second position meets none. The first
    position meets the first element with tap 0 only.
    """
    (phase,) = transposed_convolution((1, 3, 8), (3, 5, 3), (1, 5, 23), 1, [2], [4], [0]).layers
    assert phase == Phase(shape=ConvWorkload(R=3, P=12, C=3, K=5, dilation=(2, 1)), front=(4, 0))
