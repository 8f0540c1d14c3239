"""Per candidate tile of a sequential tensor: exact columns, and activations for every order of every loop outside it.

A box tile is fetched X times each. With the rows of a scan's two ends known for every tile position:
- closed = sum over tiles of the rows that a scan opens. With closed pages a stream opens exactly X * closed.
- With open pages a scan saves the activation of a bank's first row only if the scan before it that used this bank left
  that row open, as its last one there. In a pass, row r offers at most min(tiles that leave r, tiles that begin their
  bank with r) such pairs, in whatever order; matches = their sum.
- A repeated pass goes round some super-tile E (the loops inside an irrelevant loop that is not free). If E has several
  rows in a bank, going round it again opens each of them at least once more: again(E) = sum over super-tiles of their
  rows in such banks. Each repetition therefore costs at least the minimum of again(E) over the E larger than the tile.
- An output tile opens its rows in such banks once more when it is written after it was read. (A box of tiles need not:
  each of them is written right after it was read.)
- Where loops run inside a box E before it changes, in whatever order, a pass over E begins at its lowest address, ends
  at its highest and opens all its rows: with one bank the first two lines hold for E in place of the tile. With more, a
  pass may begin and leave a bank with any of its rows there, so it saves, and makes others save, at most one activation
  in each; but if each of E's slices along its outermost axis lies in one row, these are the lowest and the highest.
- A box E that comes round again with no relevant loop in between was gone over from its lowest address to its highest
  all the same, so E itself is among the super-tiles of the minimum: `again`.
- With one loop per dim outside the tile, the order alone decides which neighbours follow each other: `ordered` is the
  least over all orders.
So activations >= first + (X - 1) * more, with the columns below, for all orders, splits and repetitions of the loops
outside the tile; with closed pages both sides are equal. Step sets come again in free loops, too, so of them only the
first two lines are sure: activations >= X * each.
"""

import hashlib
import itertools
import math
import os
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

import tables
from tables.bounds.passes import count_ordered
from tables.bounds.positions import (
    AGAIN,
    CLOSED,
    COLUMNS,
    FIRST_CYCLES,
    LAST_CYCLES,
    LEAST_COLUMNS,
    LONG,
    LOOSE,
    MARKED,
    MATCHES,
    MOST_CYCLES,
    MOST_ROWS,
    RETURNED_CYCLES,
    USED,
    count_tiles,
)
from tables.counts.scans import axis_box, axis_strides, step_bytes
from tables.dram import Dram
from tables.factors import divisors
from tables.nest import AXES, FILTER_OF, IRRELEVANT, I, Ints, LayerShape, O, P

#: Tiles of a pass up to which the best order is counted exactly.
_MOST_ORDERED_TILES = 2048


class ShapeTable(NamedTuple):
    """One row per (tile, layout, kind): extents int[n, relevant dims] and the counts of the module's docstring.

    `is_strided` (I of a 1x1 layer with a stride): the scan takes only the positions in use, not their span.
    `columns` are exact, per pass; `least_columns`: what each scan takes at least. `long_cycles`: by how much a pass's
    runs, each scan by itself, outlast as many shortest ones; a stream takes at least a shortest run an activation and
    these: joining two runs saves one at most.
    `end_cycles`: the first scan's, of outputs the least that the last write-out adds unless it was read back.
    `returned_cycles`: what a write-out adds to a stream right after the same tile was read back.
    `again`: what a repeated pass over the tiles opens at least if each is a super-tile, with loops of its own inside.
    `each`: what scanning all tiles once more adds at least on average, whenever each of them comes.
    `boxed`, `boxed_more`: as `first` and `more`, for a box with loops inside in place of the tile.
    `most_rows`, `most_cycles`: what no scan exceeds, neither in rows nor in what it adds to a stream.
    """

    dims: tuple[int, ...]
    extents: Ints
    layout: Ints
    is_strided: Ints
    first_activations: Ints
    repeat_activations: Ints
    swept_repeat_activations: Ints
    rescan_activations: Ints
    box_activations: Ints
    box_repeat_activations: Ints
    ordered_activations: Ints
    columns: Ints
    min_scan_columns: Ints
    long_run_cycles: Ints
    end_cycles: Ints
    rewrite_cycles: Ints
    max_scan_rows: Ints
    max_scan_cycles: Ints


@cache
def _code_version() -> str:
    """Hash of all sources of `tables`: a table that other code has built is never read."""
    sources = sorted(Path(tables.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def cache_directory() -> Path:
    """Where tables are kept between runs."""
    root = os.environ.get("CPSAT_PIM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache"), "cpsat-pim"
    )
    return Path(root)


def shape_table(shape: LayerShape, t: int, width: int, dram: Dram) -> ShapeTable:
    """Table of all tiles of t, from the disk cache if this very table was built before."""
    key = hashlib.sha256(repr((_code_version(), shape, t, width, dram)).encode()).hexdigest()
    path = cache_directory() / f"{key}.npz"
    try:
        with path.open("rb") as file, np.load(file) as stored:
            return ShapeTable(tuple(int(d) for d in stored["dims"]), *(stored[name] for name in ShapeTable._fields[1:]))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
        pass  # not built yet, or unreadable: build it
    table = build_shape_table(shape, t, width, dram)
    _store(path, table)
    return table


def _store(path: Path, table: ShapeTable) -> None:
    """Write a table in one step: a reader sees all of it or nothing. A full or read-only disk costs only time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            try:
                np.savez(file, **table._asdict())
                os.replace(file.name, path)
            except OSError:
                os.unlink(file.name)  # nothing is left behind on a full disk
    except OSError:
        return


def build_shape_table(shape: LayerShape, t: int, width: int, dram: Dram) -> ShapeTable:
    """Build the table of `shape_table`."""
    dims = tuple(d for d in range(8) if d not in IRRELEVANT[t] and shape.bounds[d] > 1)
    choices = [divisors(shape.bounds[d]) for d in dims]
    grid = tuple(len(c) for c in choices)
    extents = np.array(list(itertools.product(*choices)), np.int64).reshape(math.prod(grid), len(dims))
    every = np.ones((len(extents), 8), np.int64)
    every[:, dims] = extents
    parts = []
    for strided in (False, True) if can_be_strided(shape, t) else (False,):
        for layout in range(2):
            counts = _counted(shape, t, width, dram, AXES[t][layout], every, strided)
            activations = _activations(shape, t, dram, grid, every, counts)
            ordered = _ordered(shape, t, width, dram, AXES[t][layout], every, activations[0], counts[:, CLOSED])
            end = counts[:, LAST_CYCLES if t == O else FIRST_CYCLES]
            kind = (np.full(len(extents), layout), np.full(len(extents), int(strided)))
            columns = (counts[:, COLUMNS], counts[:, LEAST_COLUMNS])
            timed = (counts[:, LONG], end, counts[:, RETURNED_CYCLES], counts[:, MOST_ROWS], counts[:, MOST_CYCLES])
            parts.append((extents, *kind, *activations, ordered, *columns, *timed))
    return ShapeTable(dims, *(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def can_be_strided(shape: LayerShape, t: int) -> bool:
    """Whether scans of I may skip positions and still be a regular grid: 1x1 filters with a stride."""
    return t == I and max(shape.stride) > 1 and shape.bounds[0] == shape.bounds[1] == 1


def _counted(shape: LayerShape, t: int, width: int, dram: Dram, axes: tuple[int, ...], extents: Ints,
             strided: bool) -> Ints:  # fmt: skip
    """The counts of every tile (`tables.bounds.positions`); `extents` int[n, 8]."""
    strides, size = axis_strides(shape, t, axes, width)
    boxes = np.stack([extents[:, a] if strided else axis_box(shape, t, extents, a) for a in axes], axis=1)
    paces = [shape.stride[0 if a == P else 1] if strided and a in FILTER_OF else 1 for a in axes]
    trips, steps = np.ones((2, len(extents), 5, 2), np.int64)
    for i, axis in enumerate(axes):
        for loop, d in enumerate((axis, FILTER_OF[axis]) if t == I and axis in FILTER_OF else (axis,)):
            trips[:, i, loop] = shape.bounds[d] // extents[:, d]
            steps[:, i, loop] = extents[:, d] * step_bytes(shape, t, strides, d)
    steps[trips == 1] = 0
    order = np.lexsort(boxes.T)  # the outermost axis grows first
    pitches = np.array(list(strides.values())) * np.array(paces)
    dram = dram if dram.is_open else dram._replace(banks=1)  # which bank is closed does not matter
    rows = -(-size // dram.row_bytes)
    counts = count_tiles(boxes[order], pitches, width, trips[order], steps[order], rows, dram)
    return counts[np.argsort(order)]


def _activations(shape: LayerShape, t: int, dram: Dram, grid: tuple[int, ...], extents: Ints,
                 counts: Ints) -> tuple[Ints, ...]:  # fmt: skip
    """The columns `first`, `more`, `again`, `each`, `boxed` and `boxed_more` of the module's docstring."""
    closed, again, touched = counts[:, CLOSED], counts[:, AGAIN], counts[:, MARKED]
    if not dram.is_open:
        more = closed * (2 if t == O else 1)
        return closed, more, closed, closed, closed, more
    rescan = again if t == O else np.zeros_like(again)
    gapless = _covers(shape, t, extents)
    larger = np.where(gapless, _minimum_over_larger(again.reshape(grid)).ravel(), 0)
    least = np.where(gapless, _minimum_from(again.reshape(grid)).ravel(), 0)
    tile = closed - counts[:, MATCHES]
    box = closed - np.minimum(counts[:, USED], counts[:, MATCHES] + 2 * counts[:, LOOSE])
    first, boxed = np.maximum(tile, touched), np.maximum(box, touched)
    more = np.maximum(tile, larger) + rescan
    return first, more, np.maximum(box, least), tile, boxed, np.maximum(box, larger)


def _ordered(shape: LayerShape, t: int, width: int, dram: Dram, axes: tuple[int, ...], extents: Ints, first: Ints,
             closed: Ints) -> Ints:  # fmt: skip
    """Activations of one pass in the best order of one loop per dim; the bound `first` where that is too much work."""
    if not dram.is_open or dram.banks > 1:
        return first
    strides, _ = axis_strides(shape, t, axes, width)
    dims = [d for d in range(8) if d not in IRRELEVANT[t]]
    trips = np.array(shape.bounds)[dims] // extents[:, dims]
    steps = extents[:, dims] * np.array([step_bytes(shape, t, strides, d) for d in dims])
    reach = np.stack([(axis_box(shape, t, extents, a) - 1) * strides[a] for a in axes]).sum(axis=0) + width - 1
    ordered = first.copy()
    count_ordered(trips, steps, reach, dram.row_bytes, _MOST_ORDERED_TILES, closed, ordered)
    return ordered


def _minimum_from(values: Ints) -> Ints:
    """Minimum over all entries that are smaller in no axis."""
    least = values
    for axis in range(values.ndim):
        least = np.flip(np.minimum.accumulate(np.flip(least, axis), axis), axis)
    return least


def _minimum_over_larger(values: Ints) -> Ints:
    """Minimum over all entries that are larger in some axis and smaller in none; 0 where there is none."""
    at_least = _minimum_from(values)
    huge = np.iinfo(np.int64).max
    result = np.full_like(values, huge)
    for axis in range(values.ndim):
        tail = np.delete(at_least, 0, axis)
        pad = [(0, 0)] * values.ndim
        pad[axis] = (0, 1)
        result = np.minimum(result, np.pad(tail, pad, constant_values=huge))
    return np.where(result == huge, 0, result)


def _covers(shape: LayerShape, t: int, extents: Ints) -> NDArray[np.bool_]:
    """Whether neighbouring tiles leave no element between them, so that a super-tile is a box: bool[n]."""
    found = np.ones(len(extents), np.bool_)
    if t == I:
        for stride, dilation, filters in zip(shape.stride, shape.dilation, FILTER_OF.values(), strict=True):
            found &= stride <= dilation * (extents[:, filters] - 1) + 1
            found &= dilation == 1 or shape.bounds[filters] == 1
    return found
