"""Convert transposed convolutions to the ordinary convolutions that they consist of.

Output positions of an axis that are equal modulo the stride use the same taps of the kernel at different offsets of the
input: they are a phase, a convolution of stride 1. Phases of one kernel size that begin at the same element of the
input read the same windows: they are one layer, in whose outputs each of them has channels of its own. No product with
an inserted zero is counted.

Axes are those of ONNX and torch: data [batch, channels, height, width], weights [in, out per group, height, width].
"""

import itertools
import math
from collections.abc import Sequence

from attrs import evolve, frozen

from cpsat_pim.importers.origin import Pair
from cpsat_pim.importers.products import Shape, check_channels, spatial
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.reorders import Digit, Reorder


@frozen(kw_only=True)
class Phase:
    """The layer of some phases. `front`: its zeros (left, top) in front of the input; where it leaves out elements of
    it, that many less than 0.
    """

    shape: ConvWorkload
    front: Pair


@frozen(kw_only=True)
class Phases:
    """A transposed convolution as layers, whose channels lie side by side.

    `reorder`: which of these each element of the result is; None if the only layer makes the result as it is, or if it
    cannot be told.
    """

    layers: tuple[Phase, ...]
    reorder: Reorder | None


@frozen
class _Along:
    """So many phases of an axis that read the same windows: taps, positions, and zeros in front of the input."""

    taps: int
    positions: int
    front: int
    count: int = 1


def transposed_convolution(
    data: Shape,
    weight: Shape,
    out: Shape,
    groups: int,
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
) -> Phases:
    """Convert a transposed convolution.

    Raises:
        Unmappable: it has more than three spatial axes.
        ValueError: data and weights differ in their channels.
    """
    axes = len(weight) - 2
    check_channels(data[-axes - 1], weight[0])
    sizes = [spatial(values) for values in (weight[2:], out[-axes:], stride, dilation)]
    columns, rows, layers = (_phases(*values) for values in zip(*sizes, spatial(padding, 0), strict=True))
    C, K, N = weight[0] // groups, weight[1], math.prod(out[: -axes - 1])
    steps = tuple(d // math.gcd(d, s) for s, d in zip(*sizes[2:], strict=True))[:2]
    found = [
        Phase(
            shape=ConvWorkload(
                R=across.taps, S=down.taps, P=across.positions, Q=down.positions, C=C * deep.taps,
                K=K * across.count * down.count * deep.count, N=N * deep.positions, G=groups, dilation=steps,
            ),
            front=(across.front, down.front),
        )
        for deep, down, across in itertools.product(layers, rows, columns)
    ]  # fmt: skip
    is_known = axes <= 2 and all(min(phase.front) >= 0 for phase in found)
    joined = _joined((N, groups, K), columns, rows, sizes[2][:2]) if is_known else None
    return Phases(layers=tuple(found), reorder=joined)


def _phases(kernel: int, extent: int, stride: int, dilation: int, padding: int) -> list[_Along]:
    """Return the phases of an axis in the order of their first positions, neighbours that read the same windows as one;
    phases without taps compute nothing.
    """
    found = []
    for first in range(min(stride, extent)):
        taps = [tap for tap in range(kernel) if (first + padding - tap * dilation) % stride == 0]
        if taps:  # the last one is that of the first element of the window
            front = -((first + padding - taps[-1] * dilation) // stride)
            found.append(_Along(len(taps), -(-(extent - first) // stride), front))
    return [evolve(along, count=len([*same])) for along, same in itertools.groupby(found)]


def _joined(
    sizes: tuple[int, int, int], columns: Sequence[_Along], rows: Sequence[_Along], strides: Sequence[int]
) -> Reorder | None:
    """Return how the positions of the layers, phases of `columns` innermost, become those of the result; None if they
    are that, or where layers differ in what they make. `sizes`: samples, groups, and channels in each of them.
    """
    samples, groups, channels = sizes
    axes = [*zip((columns, rows), strides, strict=True)]
    is_alike = all(
        len({(one.positions, one.count) for one in axis}) == 1 and sum(one.count for one in axis) == stride
        for axis, stride in axes
    )
    if not is_alike or math.prod(strides) == 1:
        return None
    across, down = columns[0], rows[0]
    block = down.count * across.count * channels
    layer = groups * block
    return Reorder(
        N=_digits(("N", samples, 1)),
        C=_digits(("C", groups, block), ("C", channels, 1)),
        H=_digits(
            ("H", down.positions, 1), ("C", len(rows), len(columns) * layer), ("C", down.count, across.count * channels)
        ),
        W=_digits(("W", across.positions, 1), ("C", len(columns), layer), ("C", across.count, channels)),
    )


def _digits(*digits: Digit) -> tuple[Digit, ...]:
    return tuple(digit for digit in digits if digit[1] > 1)
