"""Lower bounds on a tensor's DRAM stream that hold for every mapping, and the layer's shape tables."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import LAYOUT_ORDERS, Dim, Tensor
from cpsat_pim.evaluate.cost import to_machine, to_shape
from cpsat_pim.mapping import ONE_BANK, BankCounts
from cpsat_pim.workload import ConvWorkload
from tables.bounds.shapes import ShapeTable, shape_table
from tables.bounds.spatial import needed_elements
from tables.dram import Dram, last_run, own_banks, period
from tables.nest import Ints


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

    They do not for an input of filters with gaps, nor for outputs whose width in DRAM changes when partial sums are
    spilled.
    """
    if t is Tensor.I:
        return max(*layer.stride, *layer.dilation) == 1 or layer.bounds[Dim.R] == layer.bounds[Dim.S] == 1
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


def returned_rows(table: ShapeTable, bounds: Sequence[int]) -> Ints:
    """Return the rows that interrupted outputs open at least in a pass that reads and writes all tiles (B15).

    A tile that leaves may leave a row open for the one that comes back in its place, as no other tensor is scanned
    between. That saves one row a tile at most. In X passes tiles leave X times and come back X - 1 times, and X is at
    most 2 (X - 1). So a pass saves at most twice as many rows as can be shared by tiles that follow each other.
    """
    tiles = (np.array([bounds[d] for d in table.dims]) // table.extents).prod(axis=1)
    shared = table.closed_activations - table.rescan_activations
    return np.asarray(2 * table.closed_activations - np.minimum(2 * shared, tiles))


def turned_rows(layer: ConvWorkload, row_bytes: int, table: ShapeTable) -> Ints:
    """Return how often at least outputs that pass over all boxes of a shape turn to another row (B18).

    A pass over the tiles of a box turns at least once for each of its rows but the first. It begins behind the last
    row of a box. That is not the first row of another one if both hold the first and the last index of the outermost
    axis, and these lie in different rows.
    """
    bounds = layer.bounds
    turned = table.closed_activations - (np.array([bounds[d] for d in table.dims]) // table.extents).prod(axis=1)
    for layout, order in enumerate(LAYOUT_ORDERS[Tensor.O]):
        axes = [Dim[letter] for letter in order if bounds[Dim[letter]] > 1]
        if not axes:
            continue
        size = bounds[axes[0]]
        stride_bytes = math.prod(bounds[d] for d in axes[1:]) * layer.psum_bytes
        if (stride_bytes - 1) // row_bytes < (size - 1) * stride_bytes // row_bytes:
            is_whole = (table.layout == layout) & (table.extents[:, table.dims.index(axes[0])] == size)
            turned = np.where(is_whole, table.closed_activations, turned)
    return np.asarray(turned)


def endings(table: ShapeTable, dram: Dram) -> Ints:
    """Return by how many cycles a stream's last run takes longer at least than a shortest last run.

    Both less those of a run of as many columns whose row is closed behind it. The more columns a last run has, the more
    does it add to that: the last write-out of outputs alone has as many as its own scan ends with.
    """
    columns, places = np.unique(table.last_columns, return_inverse=True)
    added = np.array([last_run(n, dram) - period(n, dram) for n in (1, *columns.tolist())], np.int64)
    return np.asarray((added[1:] - added[0])[places])


def build_tables(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    is_over: Callable[[], bool] = lambda: False,
    counts: BankCounts = ONE_BANK,
) -> list[ShapeTable]:
    """Return the layer's shape tables for I, W, O with so many banks (`Mapping.bank_counts`).

    Raises:
        OutOfTime: `is_over` said so before they were built.
    """
    dram = to_machine(arch).dram
    banks = [own_banks(count, dram) for count in counts]
    return [shape_table(to_shape(layer), t, layer.width_bytes[t], banks[t], is_over) for t in Tensor]
