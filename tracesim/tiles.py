"""Where in the loop nest a tile lies and which coordinates it holds, found by marking them one by one (section 3).

All tiles of one kind are translates of each other, so one enumeration, at the origin, serves them all. It is done once
a nest and on little data, so nothing here is compiled.
"""

from typing import NamedTuple

import numpy as np

from tracesim.axes import axis_coefficients
from tracesim.records import Flags, Ints, Nest

ARRAY, STEP, LANES = 3, 4, 5
"""Kinds of tiles after the boxes of levels 0 (one PE), 1 and 2: of all used PEs; of one step; of one PE's step."""

KINDS = 6

STEP_SET = 3
"""The point and the identity after those of the tiles at levels 0 (the array tile), 1 and 2: of what one step uses."""


class Geometry(NamedTuple):
    """A nest's dims measured.

    `coefficients` int64[3, 5, 8]: see `axes.axis_coefficients`. `weights` int64[5, 8]: see `digit_weights`.
    `factors` int64[4, 8]: T0..T3 per dim. `spatial` int64[3, 8]. `points` int64[4, 3]: see `residency_points`.
    `extents` int64[3, 3, 8]: see `tile_extents`. `elems` int64[KINDS, 3]: of a tile of each tensor.
    """

    coefficients: Ints
    weights: Ints
    factors: Ints
    spatial: Ints
    points: Ints
    extents: Ints
    elems: Ints


def measure_geometry(nest: Nest) -> Geometry:
    """Return the nest's geometry."""
    factors = np.ones((4, 8), np.int64)
    for loop in range(nest.loops.shape[0]):
        level, dim, factor = nest.loops[loop]
        factors[level, dim] = factor
    weights = digit_weights(factors, nest.spatial)
    points = residency_points(nest)
    extents = tile_extents(nest, points)
    elems = np.ones((KINDS, 3), np.int64)
    geometry = Geometry(axis_coefficients(nest.conv), weights, factors, nest.spatial, points, extents, elems)
    for kind in range(KINDS):
        for tensor in range(3):
            shape = tile_shape(geometry, kind, tensor)
            for axis in range(5):
                elems[kind, tensor] *= axis_coordinates(geometry.coefficients[tensor, axis], shape).size
    return geometry


def digit_weights(factors: Ints, spatial: Ints) -> Ints:
    """Return int64[5, 8]: how far an index moves when the digit T0, T1, T2 or T3 (rows 0..3) moves by one.

    Row 4 is the bound. Digits are ordered T3, T2, T1, H, W, T0, Internal.
    """
    weights = np.empty((5, 8), np.int64)
    weights[0] = spatial[2]
    weights[1] = weights[0] * factors[0] * spatial[0] * spatial[1]
    for level in range(1, 4):
        weights[level + 1] = weights[level] * factors[level]
    return weights


def residency_points(nest: Nest) -> Ints:
    """Return int64[4, 3]: how many loops, outermost first, lie outside a tile, [level 0..2, STEP_SET][tensor].

    A tensor that no PE stores has no tile there, but what an array step (section 6) uses of it: all that lies within
    the innermost point at the PEs.
    """
    points = np.empty((4, 3), np.int64)
    for level in range(3):
        points[level] = (nest.loops[:, 0] > level).sum()
    points[STEP_SET] = nest.loops.shape[0]
    points[:2] += nest.outside
    points[0] = np.where(nest.stored[0], points[0], points[0].max())
    return points


def tile_extents(nest: Nest, points: Ints) -> Ints:
    """Return int64[3, 3, 8]: indices of each dim within a tile, [level 0..2][tensor][dim]; at level 0 of one PE."""
    extents = np.empty((3, 3, 8), np.int64)
    for level in range(3):
        extents[level] = nest.spatial[2] if level == 0 else nest.spatial[0] * nest.spatial[1] * nest.spatial[2]
        for tensor in range(3):
            for loop in range(points[level, tensor], nest.loops.shape[0]):
                extents[level, tensor, nest.loops[loop, 1]] *= nest.loops[loop, 2]
    return extents


class Shape(NamedTuple):
    """The loop indices of one kind of tile, per dim: `pitch * i + j` for i in range(copies), j in range(extent).

    `solid`: along an axis the `extent` indices stand for their full span, gaps included; else for themselves.
    """

    copies: Ints
    pitch: Ints
    extent: Ints
    solid: bool


def tile_shape(geometry: Geometry, kind: int, tensor: int) -> Shape:
    """Return the loop indices of a kind of tile of a tensor. PEs lie T0 * Internal apart, however small their tiles."""
    spatial, one = geometry.spatial, np.ones(8, np.int64)
    pes = spatial[0] * spatial[1]
    pitch = geometry.weights[0] * geometry.factors[0]
    if kind == ARRAY:
        return Shape(pes, pitch, geometry.extents[0, tensor], True)
    if kind == STEP:
        return Shape(pes, pitch, spatial[2], False)
    if kind == LANES:
        return Shape(one, one, spatial[2], False)
    return Shape(one, one, geometry.extents[kind, tensor], True)


def axis_coordinates(coefficients: Ints, shape: Shape) -> Ints:
    """Return the sorted coordinates along one axis (coefficients int64[8]) of the tile at the origin."""
    marks = np.ones(1, np.bool_)
    span = 1
    for dim in coefficients.nonzero()[0]:
        step = coefficients[dim]
        marks = spread(marks, step * shape.pitch[dim], shape.copies[dim])
        span += step * (shape.extent[dim] - 1)
        if not shape.solid:
            marks = spread(marks, step, shape.extent[dim])
    if shape.solid:
        marks = spread(marks, 1, span)
    return marks.nonzero()[0]


def spread(marks: Flags, step: int, count: int) -> Flags:
    """Return marks at x + step * i for every marked x and every i in range(count)."""
    if count == 1:
        return marks
    reached = np.zeros(marks.size + step * (count - 1), np.bool_)
    reached[marks.nonzero()[0][:, np.newaxis] + step * np.arange(count)] = True
    return reached


def tile_coordinates(geometry: Geometry, kind: int, tensor: int) -> tuple[Ints, Ints]:
    """Return the coordinates along each axis of the tile at the origin, and how many there are; it is their product.

    int64[5, largest count], row a filled up to the a-th of the counts int64[5].
    """
    shape = tile_shape(geometry, kind, tensor)
    along = [axis_coordinates(coefficients, shape) for coefficients in geometry.coefficients[tensor]]
    counts = np.array([found.size for found in along], np.int64)
    coordinates = np.zeros((5, counts.max()), np.int64)
    for axis, found in enumerate(along):
        coordinates[axis, : found.size] = found
    return coordinates, counts


def tensor_extent(geometry: Geometry, tensor: int) -> Ints:
    """Return int64[5]: a tensor's elements along each axis, one more than the last coordinate there is."""
    extent = np.ones(5, np.int64)
    for axis in range(5):
        extent[axis] += (geometry.coefficients[tensor, axis] * (geometry.weights[4] - 1)).sum()
    return extent
