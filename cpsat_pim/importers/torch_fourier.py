"""Fourier transforms of PyTorch programs: along each axis a product with the matrix of the transform.

A real element has one part, a complex one has two.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cpsat_pim.importers.products import Shape

#: From real elements to complex ones, complex ones to complex ones, and back to real ones.
_FORWARD, _COMPLEX, _BACK = FOURIER = ("_fft_r2c", "_fft_c2c", "_fft_c2r")


class AxisTransform(NamedTuple):
    """The product that transforms one axis: so many rows of parts, each to so many parts."""

    axis: int
    rows: int
    parts: int
    results: int


def axis_transforms(kind: str, given: dict[str, Any], data: Shape, out: Shape) -> Iterator[AxisTransform]:
    """Yield the transforms of all axes, one behind the other: the real one is first, or last on the way back."""
    axes = [axis % len(data) for axis in given["dim"]]
    own = {_FORWARD: axes[-1:], _COMPLEX: [], _BACK: axes[-1:]}[kind]
    others = [axis for axis in reversed(axes) if axis not in own]
    sizes = list(data)
    for axis in [*own, *others] if kind == _FORWARD else [*others, *own]:
        before = sizes[axis]
        sizes[axis] = out[axis]
        read, made = (1, 2) if kind == _FORWARD and axis in own else (2, 1) if axis in own else (2, 2)
        yield AxisTransform(axis, _rows(sizes, axis), before * read, out[axis] * made)


def _rows(sizes: Sequence[int], axis: int) -> int:
    """Return how many rows lie along an axis."""
    return math.prod(size for index, size in enumerate(sizes) if index != axis)
