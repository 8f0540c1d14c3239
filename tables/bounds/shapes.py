"""Shape tables: per candidate tile of a sequential tensor exact columns, and lower bounds on its row activations.

The bounds hold for every order and every split of the loops outside the tile, and for every number X of fetches of each
tile. They follow from the rows that the scans of all tile positions begin and end with:

- *Closed pages.* `closed` is the sum over tiles of the rows that one scan opens. A stream opens exactly X * closed.
- *First pass.* With open pages a scan saves the activation of a bank's first row only if the scan before it that used
  the bank left this row open, as its last one there. In one pass over all tiles, row r takes part in at most
  min(tiles that leave their bank with r, tiles that begin their bank with r) such pairs, in whatever order the tiles
  come. With `matches` the sum of these over all rows, one pass opens at least closed - matches rows. It also opens each
  row with which some tile begins or leaves a bank at least once. `first_activations` is the larger of the two.
- *Repeated passes.* A pass is repeated by an irrelevant loop that is not free. The relevant loops inside it sweep a
  super-tile E that is larger than the tile. If E has several rows in a bank, going over E again opens each of them at
  least once more. Summed over all super-tiles this is again(E), so each repetition opens at least the minimum of
  again(E) over all E larger than the tile. `repeat_activations` is that minimum, or what a first pass opens if larger.
- *Outputs.* A returning output tile is written after it was read, and opens its rows in such banks once more. (This
  need not hold for a box of several tiles, as each of them is written right after it was read.)
- *Boxes.* If loops run inside a box E before E changes, then in whatever order they run, a pass over E begins at its
  lowest address, ends at its highest one, and opens all its rows. With one bank the bounds of a tile therefore hold for
  E. With more banks a pass may begin and leave a bank with any of its rows there, so in each bank it saves at most one
  activation itself and lets others save at most one. If each slice of E along its outermost axis lies in one row, these
  rows are the lowest and the highest one, as for a tile. `box_activations`, `box_repeat_activations`.
- *Swept boxes.* A box E that is repeated with no relevant loop in between was swept from its lowest address to its
  highest one all the same, so E itself is among the super-tiles of the minimum: `swept_repeat_activations`.
- *Best order.* With one loop per dim outside the tile, the order of the loops alone determines which tiles follow each
  other. `ordered_activations` is the minimum of a first pass over all orders.

So a stream opens at least first_activations + (X - 1) * repeat_activations rows; with closed pages exactly as many.
Step sets are scanned again by free loops, too, so for them only X * `rescan_activations` is valid.
"""

import hashlib
import itertools
import math
import os
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tables.bounds.passes import count_ordered
from tables.bounds.positions import (
    CLOSED,
    CLOSED_LAST_CYCLES,
    COLUMNS,
    EXTRA_CYCLES,
    FIRST_CYCLES,
    LAST_COLUMNS,
    LAST_CYCLES,
    LOOSE,
    MARKED,
    MATCHES,
    MAX_CYCLES,
    MAX_ROWS,
    MIN_COLUMNS,
    MIN_ROWS,
    REWRITE_CYCLES,
    SHARED_ROWS,
    USED,
    count_tiles,
)
from tables.counts.scans import axis_box, axis_strides, step_bytes
from tables.dram import Dram
from tables.factors import divisors
from tables.kernel_cache import digest, user_cache
from tables.nest import AXES, FILTER_OF, IRRELEVANT, I, Ints, LayerShape, O, P

#: The most tiles in a pass for which the best order is counted.
_MOST_ORDERED_TILES = 2048
#: Tiles that are counted between two looks at the time.
_TILES_AT_ONCE = 128


class OutOfTime(Exception):
    """The time is up before a table is built."""


def _never() -> bool:
    return False


class ShapeTable(NamedTuple):
    """One row per tile, layout and kind of scan. All columns are int[n].

    - `dims`: the m relevant dims with a bound above 1; `extents` int[n, m]; `layout` 0 or 1; `is_strided`: the scan
      takes only the positions of I that are used, not their span (1x1 filters with a stride).
    - `first_activations`, `repeat_activations`: lower bounds for the first pass over all tiles and for each repetition.
      `box_activations`, `box_repeat_activations`: the same for a box with loops inside, `swept_repeat_activations`: for
      the repetition of a swept box. `ordered_activations`: for the first pass, with one loop per dim outside the tile.
      `rescan_activations`: per scan of every tile, in whatever order, averaged over all scans. `closed_activations`:
      of one pass if all rows are closed after every scan.
    - `columns`: exact column accesses of one pass; `min_scan_columns`, `min_scan_rows`: the fewest of one scan,
      and its fewest rows.
    - `long_run_cycles`: cycles of the runs of one pass, each scan by itself, beyond as many shortest runs. A stream
      takes at least one shortest run per activation and these cycles, as joining two runs saves one shortest run at
      most.
    - `end_cycles`: cycles of the first scan; of outputs a lower bound on what the last write-out adds to the stream,
      unless the tile was read back. `rewrite_cycles`: the same bound if it was read back.
    - `closed_end_cycles`: a lower bound on what the last tile's scan adds to a stream in which no tile returns, if
      another tensor's row was opened before. `last_columns`: of the last run of that scan by itself.
    - `max_scan_rows`, `max_scan_cycles`: upper bounds on the rows of one scan and on what it adds to a stream.
    """

    dims: tuple[int, ...]
    extents: Ints
    layout: Ints
    is_strided: Ints
    first_activations: Ints
    repeat_activations: Ints
    swept_repeat_activations: Ints
    rescan_activations: Ints
    closed_activations: Ints
    box_activations: Ints
    box_repeat_activations: Ints
    ordered_activations: Ints
    columns: Ints
    min_scan_columns: Ints
    min_scan_rows: Ints
    long_run_cycles: Ints
    end_cycles: Ints
    rewrite_cycles: Ints
    closed_end_cycles: Ints
    last_columns: Ints
    max_scan_rows: Ints
    max_scan_cycles: Ints

    @property
    def is_of_boxes(self) -> NDArray[np.bool_]:
        """bool[n]: the rows that bound passes over boxes. Of a layer with 1x1 filters and a stride these are the grids
        of positions that are used: scans of spans open all rows of the grid, and begin and end where it does.
        """
        return np.asarray(self.is_strided == self.is_strided.max(initial=0))


def cache_directory() -> Path:
    """Return the directory in which tables are kept between runs."""
    return Path(os.environ.get("CPSAT_PIM_CACHE") or user_cache())


def shape_table(shape: LayerShape, t: int, width: int, dram: Dram, is_over: Callable[[], bool] = _never) -> ShapeTable:
    """Return the table of all tiles of t, from the disk if the same table was built before.

    `width`: bytes of an element of t in DRAM. A table that other code has built is never read.

    Raises:
        OutOfTime: `is_over` said so before the table was built.
    """
    shape = _relevant(shape, t)
    key = hashlib.sha256(repr((digest(Path(__file__).resolve()), shape, t, width, dram)).encode()).hexdigest()
    path = cache_directory() / f"{key}.npz"
    try:
        with path.open("rb") as file, np.load(file) as stored:
            return ShapeTable(tuple(int(d) for d in stored["dims"]), *(stored[name] for name in ShapeTable._fields[1:]))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
        pass  # not built yet, or unreadable: build it
    table = build_shape_table(shape, t, width, dram, is_over)
    _store(path, table)
    return table


def _relevant(shape: LayerShape, t: int) -> LayerShape:
    """Return the shape with the dims that t does not have set to 1: layers that differ in these have the same table."""
    bounds = tuple(1 if d in IRRELEVANT[t] else n for d, n in enumerate(shape.bounds))
    return shape._replace(bounds=bounds) if t == I else LayerShape(bounds, (1, 1), (1, 1))


def _store(path: Path, table: ShapeTable) -> None:
    """Write a table atomically. A full or read-only disk only costs the time to build the table again."""
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


def build_shape_table(
    shape: LayerShape, t: int, width: int, dram: Dram, is_over: Callable[[], bool] = _never
) -> ShapeTable:
    """Build the table that `shape_table` returns.

    Raises:
        OutOfTime: as there.
    """
    dims = tuple(d for d in range(8) if d not in IRRELEVANT[t] and shape.bounds[d] > 1)
    choices = [divisors(shape.bounds[d]) for d in dims]
    grid = tuple(len(c) for c in choices)
    extents = np.array(list(itertools.product(*choices)), np.int64).reshape(math.prod(grid), len(dims))
    every = np.ones((len(extents), 8), np.int64)
    every[:, dims] = extents
    parts = []
    for strided in (False, True) if can_be_strided(shape, t) else (False,):
        for layout in range(2):
            counts = _counted(shape, t, width, dram, AXES[t][layout], every, strided, is_over)
            activations = _activations(shape, t, dram, grid, every, counts, strided)
            ordered = _ordered(shape, t, width, dram, AXES[t][layout], every, activations[0], counts[:, CLOSED])
            end = counts[:, LAST_CYCLES if t == O else FIRST_CYCLES]
            kind = (np.full(len(extents), layout), np.full(len(extents), int(strided)))
            columns = (counts[:, COLUMNS], counts[:, MIN_COLUMNS], counts[:, MIN_ROWS])
            timed = (
                counts[:, EXTRA_CYCLES],
                end,
                counts[:, REWRITE_CYCLES],
                counts[:, CLOSED_LAST_CYCLES],
                counts[:, LAST_COLUMNS],
                counts[:, MAX_ROWS],
                counts[:, MAX_CYCLES],
            )
            parts.append((extents, *kind, *activations, ordered, *columns, *timed))
    return ShapeTable(dims, *(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def can_be_strided(shape: LayerShape, t: int) -> bool:
    """Return whether scans of t may skip positions on a regular grid: I of a layer with 1x1 filters and a stride."""
    return t == I and max(shape.stride) > 1 and shape.bounds[0] == shape.bounds[1] == 1


def _counted(shape: LayerShape, t: int, width: int, dram: Dram, axes: tuple[int, ...], extents: Ints,
             strided: bool, is_over: Callable[[], bool]) -> Ints:  # fmt: skip
    """Return int[n, 18]: the counts of `tables.bounds.positions` of tiles with `extents` int[n, 8]."""
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
    of = _Tiles(boxes[order], pitches, width, trips[order], steps[order], rows, dram)
    return _count(of, is_over)[np.argsort(order)]


class _Tiles(NamedTuple):
    """What `count_tiles` counts the scans of: its arguments."""

    boxes: Ints
    pitches: Ints
    width: int
    trips: Ints
    steps: Ints
    rows: int
    dram: Dram

    def key(self) -> bytes:
        """Return a digest of all of it."""
        arrays = (self.boxes, self.pitches, self.trips, self.steps)
        content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
        return hashlib.sha256(repr((len(self.boxes), self.width, self.rows, self.dram)).encode() + content).digest()


#: The counts that were made last. Outputs of a layer are the inputs of the next one, and layers repeat tensors.
_recent: dict[bytes, Ints] = {}
_MOST_RECENT = 32


def _count(of: _Tiles, is_over: Callable[[], bool]) -> Ints:
    """Return the counts of `count_tiles`, made unless they are kept."""
    key = of.key()
    if key not in _recent:
        counts = list[Ints]()
        for begin in range(0, len(of.boxes), _TILES_AT_ONCE):
            if is_over():
                raise OutOfTime
            some = slice(begin, begin + _TILES_AT_ONCE)
            counts.append(
                count_tiles(of.boxes[some], of.pitches, of.width, of.trips[some], of.steps[some], of.rows, of.dram)
            )
        _recent[key] = np.concatenate(counts)
        while len(_recent) > _MOST_RECENT:
            del _recent[next(iter(_recent))]
    return _recent[key]


def _activations(shape: LayerShape, t: int, dram: Dram, grid: tuple[int, ...], extents: Ints, counts: Ints,
                 strided: bool) -> tuple[Ints, ...]:  # fmt: skip
    """Return the columns `first_activations` to `box_repeat_activations` of the table, in its order."""
    closed, shared, marked = counts[:, CLOSED], counts[:, SHARED_ROWS], counts[:, MARKED]
    if not dram.is_open:
        repeat = closed * (2 if t == O else 1)  # outputs are read and written
        return closed, repeat, closed, closed, closed, closed, repeat
    write_out = shared if t == O else np.zeros_like(shared)
    gapless = np.full(len(extents), strided) | _covers(shape, t, extents)  # a super-tile of grids is a grid
    larger = np.where(gapless, _minimum_over_larger(shared.reshape(grid)).ravel(), 0)
    at_least = np.where(gapless, _minimum_from(shared.reshape(grid)).ravel(), 0)
    tile = closed - counts[:, MATCHES]
    box = closed - np.minimum(counts[:, USED], counts[:, MATCHES] + 2 * counts[:, LOOSE])
    first, first_of_box = np.maximum(tile, marked), np.maximum(box, marked)
    repeat = np.maximum(tile, larger) + write_out
    return first, repeat, np.maximum(box, at_least), tile, closed, first_of_box, np.maximum(box, larger)


def _ordered(shape: LayerShape, t: int, width: int, dram: Dram, axes: tuple[int, ...], extents: Ints, first: Ints,
             closed: Ints) -> Ints:  # fmt: skip
    """Return the column `ordered_activations`; where counting is too much work it is the bound of a first pass."""
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
    """Return at each place the minimum of the entries whose indices are all at least as large."""
    result = values
    for axis in range(values.ndim):
        result = np.flip(np.minimum.accumulate(np.flip(result, axis), axis), axis)
    return result


def _minimum_over_larger(values: Ints) -> Ints:
    """Return at each place the minimum of the entries with larger indices (some larger, none smaller); 0 if none."""
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
    """Return bool[n]: whether neighbouring tiles leave no element between them, so that super-tiles are boxes."""
    found = np.ones(len(extents), np.bool_)
    if t == I:
        for stride, dilation, filters in zip(shape.stride, shape.dilation, FILTER_OF.values(), strict=True):
            found &= stride <= dilation * (extents[:, filters] - 1) + 1
            found &= dilation == 1 or shape.bounds[filters] == 1
    return found
