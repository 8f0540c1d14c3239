"""Homes as the kernels read them: boxes, and which node holds which combination of parts."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cpsat_pim.planner.boxes import home_boxes
from cpsat_pim.planner.partition import TENSOR_DIMS, Home, layout_code, part_indices, part_size
from cpsat_pim.planner.sums import Extent
from cpsat_pim.planner.tours import node_numbers
from tables.array.counts import Homes


def one_home(cols: int, extent: Extent, home: Home) -> Homes:
    """Return the arrays of one home on an array with so many columns."""
    return homes_table(cols, extent, (home,))


@lru_cache(maxsize=512)
def homes_table(cols: int, extent: Extent, homes: tuple[Home, ...]) -> Homes:
    """Return the arrays of homes on one region; empty ones for no home."""
    if not homes:
        boxes, grids, cells = (np.zeros(size, dtype=np.int64) for size in ((0, 1, 8), (0, 2, 4), (0, 1)))
        return Homes(boxes, grids, cells, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    shape, spread = extent
    parts = [[home.split(axis) for axis in TENSOR_DIMS] for home in homes]
    sizes = [[part_size(extent, split) for extent, split in zip(shape, splits, strict=True)] for splits in parts]
    grids = np.stack([np.array(parts), np.array(sizes)], axis=1).astype(np.int64)
    grids[:, 1, list(spread)] = 0
    return Homes(
        boxes=np.stack([home_boxes(shape, home, spread) for home in homes]),
        grids=grids,
        cells=np.stack([_cells(home) for home in homes]),
        nodes=node_numbers(cols, homes[0].region),
        layouts=np.array([layout_code(home.layout) for home in homes], dtype=np.int64),
    )


@lru_cache(maxsize=512)
def operands_table(cols: int, extents: tuple[Extent, ...], homes: tuple[Home, ...]) -> Homes:
    """Return the arrays of tensors that lie at the same homes, one behind the other along the nodes."""
    tables = [homes_table(cols, extent, homes) for extent in extents]
    if len(tables) == 1:
        return tables[0]
    if not tables:
        return homes_table(cols, ((1, 1, 1, 1), ()), ())
    return _side_by_side(tables)


def _side_by_side(tables: Sequence[Homes]) -> Homes:
    """Return several tensors' boxes as those of one; only boxes, nodes and layouts have a meaning then."""
    return tables[0]._replace(
        boxes=np.concatenate([table.boxes for table in tables], axis=1),
        nodes=np.concatenate([table.nodes for table in tables]),
    )


def _cells(home: Home) -> np.ndarray:
    """Return the node of each combination of parts, as its place in the region: int64[nodes]."""
    indices = part_indices(home.h, home.w, TENSOR_DIMS)
    number = np.zeros(len(indices), dtype=np.int64)
    for i, axis in enumerate(TENSOR_DIMS):
        number = number * home.split(axis) + indices[:, i]
    return np.argsort(number).astype(np.int64)
