"""What a tensor's DRAM stream takes at least, whatever the mapping, and the layer's shape tables."""

import math

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Tensor
from cpsat_pim.evaluate.cost import to_machine, to_shape
from cpsat_pim.workload import ConvWorkload
from tables.bounds.shapes import ShapeTable, shape_table
from tables.bounds.spatial import needed_elements


@frozen(kw_only=True)
class Limits:
    """What no answer below the target can exceed; None is no limit.

    `activations` in all, `cycles` of a stream, `edge_cycles`: what the first or last tile takes while the array waits.
    """

    activations: int | None = None
    cycles: int | None = None
    edge_cycles: int | None = None


def has_known_boxes(layer: ConvWorkload, t: Tensor) -> bool:
    """Whether the shape tables tell what boxes of a tensor are in DRAM: not of an input with gaps, nor of outputs that
    are of another width there once they come back.
    """
    if t is Tensor.I:
        return max(*layer.stride, *layer.dilation) == 1
    return t is Tensor.W or layer.psum_bytes == layer.output_bytes


def least_rows(layer: ConvWorkload, arch: PIMArchitecture, t: Tensor) -> int:
    """Rows that the elements in use fill: no layout activates fewer."""
    return math.ceil(_needed_bytes(layer, t) / arch.row_bytes)


def least_columns(layer: ConvWorkload, arch: PIMArchitecture, t: Tensor) -> int:
    """Columns that the elements in use fill: no stream has fewer."""
    return -(-_needed_bytes(layer, t) // to_machine(arch).dram.column_bytes)


def _needed_bytes(layer: ConvWorkload, t: Tensor) -> int:
    """Bytes of a tensor that every stream moves at least once."""
    return needed_elements(to_shape(layer), t) * layer.width_bytes[t]


def build_tables(layer: ConvWorkload, arch: PIMArchitecture) -> list[ShapeTable]:
    """The layer's shape tables for I, W, O."""
    dram = to_machine(arch).dram
    return [shape_table(to_shape(layer), t, layer.width_bytes[t], dram) for t in Tensor]
