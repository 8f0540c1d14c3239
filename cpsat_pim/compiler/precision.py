"""What a contraction gives in FP16, in the order in which a mapping adds up (`docs/compiler.md`, section 9).

Every product and every sum is rounded to FP16. A core adds the lanes of a column as a tree does, columns one after
another; a drain adds the cores of the axes that it reduces in their order, outer axes first; drains of one result add
up in the channel's buffer. The host adds what cores and channels deliver apart in double precision. The order is
stated here by arrays of whole depths; nothing is shared with what executes the commands.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.mapping import Contraction, Mapping
from cpsat_pim.compiler.mapping.contraction import DEPTH
from cpsat_pim.compiler.target import Target
from tables.commands.steps import ceiling

Floats = NDArray[Any]


def fp16_result(
    mapping: Mapping, contraction: Contraction, target: Target, matrix: Floats, inputs: Floats | None
) -> Floats:
    """float64[batch, shared, outputs]: the result of FP16 operands, of all channels."""
    terms = _products(contraction, matrix, inputs)
    parts = _by_core(terms, mapping, contraction, target)
    lanes = target.device.core.lanes
    columns = _tree(parts, lanes) if mapping.is_tree else parts
    width = mapping.depth_tile * (1 if mapping.is_tree else lanes)
    if mapping.order == "output-stationary":
        width = columns.shape[-1]
    tiles = [_in_order(columns[..., at : at + width]) for at in range(0, columns.shape[-1], width)]
    drained = _in_order(np.stack([_reduced(tile, mapping, target) for tile in tiles], axis=-1))
    result: Floats = drained.astype(np.float64).sum(axis=tuple(range(3, drained.ndim)))
    return result


def _products(contraction: Contraction, matrix: Floats, inputs: Floats | None) -> Floats:
    """float16[batch, shared, outputs, depth]: all products, rounded."""
    batch, shared, outputs, depth = np.ix_(*(np.arange(extent) for extent in contraction.extents))
    zero = np.zeros((1, 1, 1, 1), np.int64)
    weights = matrix[contraction.indices(contraction.matrix, (batch, zero, outputs, depth))]
    if inputs is None or contraction.inputs is None:
        return np.broadcast_to(weights, contraction.extents).astype(np.float16)
    values = inputs[contraction.indices(contraction.inputs, (batch, shared, zero, depth))]
    values = np.where(contraction.is_needed(DEPTH, depth), values, np.float16(0))
    return np.asarray(weights.astype(np.float16) * values.astype(np.float16))


def _by_core(terms: Floats, mapping: Mapping, contraction: Contraction, target: Target) -> Floats:
    """float16[batch, shared, outputs, channels, axes of the depth..., elements of a core]; zero where there is none."""
    extent, channels = contraction.extents[DEPTH], mapping.splits[DEPTH]
    chunk = ceiling(extent, channels)
    axes = [size for size, owner in zip(target.axes, mapping.owners, strict=True) if owner == DEPTH]
    size = ceiling(chunk, int(np.prod(axes, dtype=np.int64)))
    inside = np.arange(int(np.prod(axes, dtype=np.int64)) * size)
    at = np.arange(channels)[:, None] * chunk + inside
    exists = (inside < chunk) & (at < extent)
    spread = np.where(exists, terms[..., np.where(exists, at, 0)], np.float16(0))
    return np.asarray(spread.reshape(*terms.shape[:3], channels, *axes, size))


def _tree(parts: Floats, lanes: int) -> Floats:
    """The sums of every column, neighbours first."""
    short = -parts.shape[-1] % lanes
    padded = np.concatenate([parts, np.zeros((*parts.shape[:-1], short), np.float16)], axis=-1)
    sums = padded.reshape(*parts.shape[:-1], -1, lanes)
    while sums.shape[-1] > 1:
        sums = sums[..., 0::2] + sums[..., 1::2]
    return np.asarray(sums[..., 0])


def _in_order(values: Floats, axis: int = -1) -> Floats:
    """The sum along an axis, one after another, each rounded."""
    total = np.take(values, 0, axis)
    for at in range(1, values.shape[axis]):
        total = total + np.take(values, at, axis)
    return np.asarray(total)


def _reduced(tile: Floats, mapping: Mapping, target: Target) -> Floats:
    """The sum over the cores of the axes that a drain adds up along; the others stay."""
    owned = [axis for axis, owner in enumerate(mapping.owners) if owner == DEPTH]
    at = 4
    for axis in owned:
        if target.reducible[axis]:
            tile = _in_order(tile, at)
        else:
            at += 1
    return tile
