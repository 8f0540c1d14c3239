"""Quantities of a nest that the estimators share: irrelevant loops, tile counts, addresses of I."""

import math

from tables.nest import AXES, DRAM, FILTER_OF, IRRELEVANT, I, Ints, Nest, P, Q, R, S

#: The axis of I along which a filter dim moves.
AXIS_OF = {R: P, S: Q}


def irrelevant_loops(nest: Nest, t: int, level: int) -> int:
    """Return the product of the factors of t's irrelevant loops at a level."""
    return math.prod(nest.temporal[level][d] for d in IRRELEVANT[t])


def inner_irrelevant_loops(nest: Nest, t: int, level: int) -> int:
    """Return the product of those with no relevant loop inside them at that level: x_j = 0 (DLS 3.1.5, Eq. 59)."""
    factor = 1
    for d in reversed(nest.order[level]):
        if d not in IRRELEVANT[t]:
            break
        factor *= nest.temporal[level][d]
    return factor


def outer_irrelevant_loops(nest: Nest, t: int, level: int) -> int:
    """Return the product of those with a relevant loop inside them at that level: x_j = 1."""
    return irrelevant_loops(nest, t, level) // inner_irrelevant_loops(nest, t, level)


def row_buffer_tiles(nest: Nest, t: int) -> int:
    """Return the tiles of t at the row buffer: the product of its relevant DRAM loops."""
    return math.prod(nest.temporal[DRAM]) // irrelevant_loops(nest, t, DRAM)


def tensor_bytes(nest: Nest, t: int, level: int = DRAM) -> int:
    """Return the bytes of t's tile at a level, at its width in DRAM; by default those of all of t."""
    return nest.box(t, level) * nest.width(t, DRAM)


def input_extent(nest: Nest, level: int, axis: int) -> int:
    """Return the extent of I's tile at a level along an axis, gaps included."""
    return nest.side(I, level, axis)


def input_pitches(nest: Nest) -> dict[int, int]:
    """Return the bytes from one index to the next along each axis of the packed I (Eq. 50, 51 with N and G)."""
    pitches, pitch = {}, nest.width(I, DRAM)
    for axis in reversed(AXES[I][nest.layout[I]]):
        pitches[axis] = pitch
        pitch *= input_extent(nest, DRAM, axis)
    return pitches


def input_step(nest: Nest, d: int, indices: int) -> int:
    """Return by how many elements `indices` of a dim move along its axis of I."""
    axis = AXIS_OF.get(d, d)
    if axis not in FILTER_OF:
        return indices
    stride, dilation = nest.stride_dilation(axis)
    return indices * (stride if d == axis else dilation)


def extent_of(offsets: Ints) -> int:
    """Return the positions from the first to the last of sorted offsets."""
    return int(offsets[-1] - offsets[0]) + 1
