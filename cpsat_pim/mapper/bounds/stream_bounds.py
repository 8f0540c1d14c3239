"""Lower bounds on a tensor's DRAM stream that hold for every mapping, and the layer's shape tables."""

import math
from functools import lru_cache

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Tensor
from cpsat_pim.evaluate.cost import to_machine, to_shape
from cpsat_pim.workload import ConvWorkload
from tables.bounds.shapes import ShapeTable, shape_table
from tables.bounds.spatial import needed_elements


@frozen(kw_only=True)
class DramLimits:
    """Upper bounds on the DRAM accesses of every mapping that costs at most a trial bound; None is no limit.

    `activations`: row activations of all tensors together. `cycles`: of one tensor's stream. `edge_cycles`: of the
    first scan of a stream, or of outputs the last tile's, while the array waits.
    """

    activations: int | None = None
    cycles: int | None = None
    edge_cycles: int | None = None


def has_known_boxes(layer: ConvWorkload, t: Tensor) -> bool:
    """Whether the shape tables describe boxes of a tensor in DRAM.

    They do not for an input with gaps, nor for outputs whose width in DRAM changes when partial sums are spilled.
    """
    if t is Tensor.I:
        return max(*layer.stride, *layer.dilation) == 1
    return t is Tensor.W or layer.psum_bytes == layer.output_bytes


def min_rows(layer: ConvWorkload, arch: PIMArchitecture, t: Tensor) -> int:
    """Rows that the elements in use fill: no layout activates fewer."""
    return math.ceil(_needed_bytes(layer, t) / arch.row_bytes)


def min_columns(layer: ConvWorkload, arch: PIMArchitecture, t: Tensor) -> int:
    """Columns that the elements in use fill: no stream has fewer."""
    return -(-_needed_bytes(layer, t) // to_machine(arch).dram.column_bytes)


def _needed_bytes(layer: ConvWorkload, t: Tensor) -> int:
    """Return the bytes of a tensor that every mapping moves at least once."""
    return needed_elements(to_shape(layer), t) * layer.width_bytes[t]


@lru_cache(maxsize=8)
def spilled_outputs(layer: ConvWorkload, arch: PIMArchitecture) -> ShapeTable:
    """Return the shape table of outputs with the width of partial sums, which they have in DRAM if some come back."""
    return shape_table(to_shape(layer), Tensor.O, layer.psum_bytes, to_machine(arch).dram)


def build_tables(layer: ConvWorkload, arch: PIMArchitecture) -> list[ShapeTable]:
    """Return the layer's shape tables for I, W, O."""
    dram = to_machine(arch).dram
    return [shape_table(to_shape(layer), t, layer.width_bytes[t], dram) for t in Tensor]
