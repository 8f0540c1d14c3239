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

from tables.dram import Dram, last_run, period, recurrence
from tables.factors import divisors
from tables.jit import njit
from tables.nest import AXES, FILTER_OF, IRRELEVANT, I, Ints, LayerShape, O, P
from tables.passes import most_matches
from tables.scans import (
    BANKS,
    CROSSES,
    EXTRA,
    FINAL,
    PER_BANK,
    ROWS,
    SHARED,
    TOUCHED,
    Scan,
    axis_box,
    box_scan,
    extent_of,
    measure,
    step_bytes,
    tensor_sizes,
)

#: Tiles of a pass up to which the best order is counted exactly.
_MOST_ORDERED_TILES = 2048
#: Columns of the kernel's result.
(CLOSED, MATCHES, AGAIN, MARKED, COLUMNS, LONG, MOST_ROWS, MOST_CYCLES, FIRST_CYCLES, LAST_CYCLES, RETURNED_CYCLES,
 USED, LOOSE) = range(13)  # fmt: skip


class ShapeTable(NamedTuple):
    """One row per (tile, layout, kind): extents int[n, relevant dims] and the counts of the module's docstring.

    `is_strided` (I of a 1x1 layer with a stride): the scan takes only the positions in use, not their span.
    `columns` are exact, per pass. `long_cycles`: by how much a pass's runs, each scan by itself, outlast as many
    shortest ones; a stream takes at least a shortest run an activation and these: joining two runs saves one at most.
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
    first: Ints
    more: Ints
    again: Ints
    each: Ints
    boxed: Ints
    boxed_more: Ints
    ordered: Ints
    columns: Ints
    long_cycles: Ints
    end_cycles: Ints
    returned_cycles: Ints
    most_rows: Ints
    most_cycles: Ints


@cache
def _code_version() -> str:
    """Hash of this package's sources: tables made by other code are never read."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
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
    parts = []
    for strided in (False, True) if can_be_strided(shape, t) else (False,):
        for layout in range(2):
            counts = np.zeros((len(extents), LOOSE + 1), np.int64)
            _count_all(shape, t, width, dram, AXES[t][layout], dims, extents, strided, counts)
            activations = _activations(shape, t, dram, dims, grid, extents, counts)
            ordered = _ordered(shape, t, width, dram, AXES[t][layout], dims, extents, activations[0], counts)
            end = counts[:, LAST_CYCLES if t == O else FIRST_CYCLES]
            kind = (np.full(len(extents), layout), np.full(len(extents), int(strided)))
            timed = (counts[:, LONG], end, counts[:, RETURNED_CYCLES], counts[:, MOST_ROWS], counts[:, MOST_CYCLES])
            parts.append((extents, *kind, *activations, ordered, counts[:, COLUMNS], *timed))
    return ShapeTable(dims, *(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def can_be_strided(shape: LayerShape, t: int) -> bool:
    """Whether scans of I may skip positions and still be a regular grid: 1x1 filters with a stride."""
    return t == I and max(shape.stride) > 1 and shape.bounds[0] == shape.bounds[1] == 1


def _tile_starts(shape: LayerShape, t: int, axes: tuple[int, ...], dims: tuple[int, ...], row: Ints,
                 strides: Ints) -> list[list[Ints]]:  # fmt: skip
    """Per axis and loop over tiles along it: how many bytes from the first tile each of them begins."""

    def starts(d: int, step: int) -> Ints:
        extent = extent_of(dims, row, d)
        return np.arange(shape.bounds[d] // extent) * (extent * step)

    found = []
    for axis, stride in zip(axes, strides.tolist(), strict=True):
        if t == I and axis in FILTER_OF:
            side = 0 if axis == 2 else 1
            filters = starts(FILTER_OF[axis], shape.dilation[side] * stride)
            found.append([starts(axis, shape.stride[side] * stride), filters])
        else:
            found.append([starts(axis, stride)])
    return found


def _count_all(shape: LayerShape, t: int, width: int, dram: Dram, axes: tuple[int, ...], dims: tuple[int, ...],
               extents: Ints, strided: bool, counts: Ints) -> None:  # fmt: skip
    """Run the kernel for every tile. Modifies counts."""
    sizes = tensor_sizes(shape, t, axes)
    strides = np.array([math.prod(sizes[i + 1 :]) for i in range(5)], np.int64) * width
    rows = -(-math.prod(sizes) * width // dram.row_bytes)
    dram = dram if dram.is_open else dram._replace(banks=1)  # which bank is closed does not matter
    seen = np.full((dram.row_bytes, PER_BANK + 2 * dram.banks), -1, np.int64)
    for i in range(len(extents)):
        box = np.array([axis_box(shape, t, dims, extents[i], a) for a in axes], np.int64)
        starts = _tile_starts(shape, t, axes, dims, extents[i], strides)
        pace = np.ones(5, np.int64)
        if strided:
            box = np.array([extent_of(dims, extents[i], a) for a in axes], np.int64)
            pace = np.array([shape.stride[0 if a == P else 1] if a in FILTER_OF else 1 for a in axes])
        scan = box_scan(box, strides * pace, width)
        seen[:, ROWS] = -1
        begins, ends = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        for bases, scans, copies, shift in fold(starts, dram):
            count_tile(scan, bases, scans, copies, shift, dram, seen, begins, ends, counts[i])
        match_rows(begins, ends, counts[i])
        loops = [loop for along in starts for loop in along]
        last = sum(int(loop[-1]) for loop in loops)
        is_only = all(loop.size == 1 for loop in loops)
        first_cycles = _alone(seen[0], dram)
        later, returned = _later(seen[last % dram.row_bytes], last // dram.row_bytes, ends, dram)
        counts[i, FIRST_CYCLES], counts[i, LAST_CYCLES] = first_cycles, first_cycles if is_only else later
        counts[i, RETURNED_CYCLES] = returned


def _alone(measured: Ints, dram: Dram) -> int:
    """Cycles of a scan by itself."""
    runs = int(measured[EXTRA]) + int(measured[ROWS]) * period(1, dram)
    return runs - period(int(measured[FINAL]), dram) + last_run(int(measured[FINAL]), dram)


def _later(measured: Ints, row: int, ends: Ints, dram: Dram) -> tuple[int, int]:
    """Cycles that a scan after others, whose first byte is in a row, adds to a stream at least, and right after itself.

    Its columns, and its rows; but in each bank the first one may be open: if another scan leaves the bank with it, or
    after itself, if it is the bank's only one.
    """
    found, left = 0, 0
    for bank in range(PER_BANK, PER_BANK + dram.banks if dram.is_open else PER_BANK):
        lowest, highest = measured[bank], measured[bank + dram.banks]
        found += bool(lowest >= 0 and ends[row + lowest] > (lowest == highest))
        left += bool(lowest >= 0 and lowest == highest)
    columns, miss = dram.tCCD * int(measured[TOUCHED]), dram.tRCD - dram.tCCD + dram.tRTP + dram.tRP
    opened = int(measured[ROWS])
    return columns + (opened - found) * miss, columns + (opened - left) * miss


def fold(starts: list[list[Ints]], dram: Dram) -> list[tuple[Ints, Ints, int, int]]:
    """All base addresses of a tile as groups (bases int[n], scans of each, copies, rows from one copy to the next).

    `starts`: see `_tile_starts`. Along one loop the addresses recur after a whole number of rows, and with them all
    that is counted: the loop of which that leaves least. Where two loops of an axis have tiles begin at the same
    address, these are scans of one base.
    """
    along = [_alike(loops) for loops in starts]
    folded, best = None, math.prod(len(bases) for bases, _ in along)
    for axis, loops in enumerate(starts):
        elsewhere = math.prod(len(bases) for i, (bases, _) in enumerate(along) if i != axis)
        for i, loop in enumerate(loops):
            recurs, shift = recurrence(int(loop[1]), dram.row_bytes) if len(loop) > 1 else (1, 0)
            recurs, others = min(recurs, len(loop)), loops[:i] + loops[i + 1 :]
            left = elsewhere * recurs * math.prod(map(len, others))
            if left < best:
                folded, best = (axis, loop, others, recurs, shift), left
    if folded is None:
        return [(*_outer(along), 1, 0)]
    axis, loop, others, recurs, shift = folded
    copies, left = divmod(len(loop), recurs)
    groups = []
    for part, times in ((loop[:left], copies + 1), (loop[left:recurs], copies)):
        if len(part):
            along[axis] = _alike([part, *others])
            groups.append((*_outer(along), times, shift))
    return groups


def _alike(loops: list[Ints]) -> tuple[Ints, Ints]:
    """All sums of a start of each loop, and in how many ways each of them is one."""
    if len(loops) == 1:
        return loops[0], np.ones_like(loops[0])
    return np.unique(np.add.outer(*loops), return_counts=True)


def _outer(along: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """The sums of one base of each axis, and their scans."""
    bases, scans = np.zeros(1, np.int64), np.ones(1, np.int64)
    for starts, ways in along:
        bases, scans = np.add.outer(bases, starts).ravel(), np.multiply.outer(scans, ways).ravel()
    return bases, scans


@njit
def count_tile(scan: Scan, bases: Ints, scans: Ints, copies: int, shift: int, dram: Dram, seen: Ints, begins: Ints,
               ends: Ints, out: Ints) -> None:  # fmt: skip
    """Add one group of a tile's positions (see `fold`) to its counts. Modifies begins, ends, out, and seen as scratch.

    Rows and columns of a scan depend on its base address modulo the row only, so each residue is measured once.
    `begins`, `ends` int[rows]: the scans that begin and leave the row's bank with it.
    """
    miss = max(dram.tRCD - dram.tCCD + dram.tRTP + dram.tRP, period(1, dram) - dram.tCCD)
    first, last = np.zeros_like(begins), np.zeros_like(ends)
    for i in range(len(bases)):
        row = bases[i] // dram.row_bytes
        residue = bases[i] - row * dram.row_bytes
        measured, times = seen[residue], copies * scans[i]
        if measured[ROWS] < 0:
            measure(residue, scan, dram, measured)
            out[MOST_ROWS] = max(out[MOST_ROWS], measured[ROWS])
            out[MOST_CYCLES] = max(out[MOST_CYCLES], dram.tCCD * measured[TOUCHED] + miss * measured[ROWS])
        out[CLOSED] += times * measured[ROWS]
        out[COLUMNS] += times * measured[TOUCHED]
        out[LONG] += times * measured[EXTRA]
        out[AGAIN] += times * measured[SHARED]
        out[USED] += times * measured[BANKS]
        out[LOOSE] += times * measured[BANKS] * measured[CROSSES]
        for bank in range(PER_BANK, PER_BANK + dram.banks):
            if measured[bank] >= 0:
                first[row + measured[bank]] += scans[i]
                last[row + measured[bank + dram.banks]] += scans[i]
    for row in range(len(begins)):
        if first[row] + last[row] > 0:
            for copy in range(copies):
                begins[row + copy * shift] += first[row]
                ends[row + copy * shift] += last[row]


@njit
def match_rows(begins: Ints, ends: Ints, out: Ints) -> None:
    """How often a scan can begin a bank with the row that another left open, and the rows known to be touched. Modifies
    out.
    """
    out[MATCHES] = np.sum(np.minimum(begins, ends))
    out[MARKED] = np.sum(begins + ends > 0)


def _activations(shape: LayerShape, t: int, dram: Dram, dims: tuple[int, ...], grid: tuple[int, ...],
                 extents: Ints, counts: Ints) -> tuple[Ints, ...]:  # fmt: skip
    """The columns `first`, `more`, `again`, `each`, `boxed` and `boxed_more` of the module's docstring."""
    closed, again, touched = counts[:, CLOSED], counts[:, AGAIN], counts[:, MARKED]
    if not dram.is_open:
        more = closed * (2 if t == O else 1)
        return closed, more, closed, closed, closed, more
    rescan = again if t == O else np.zeros_like(again)
    gapless = np.array([_covers(shape, t, dims, row) for row in extents])
    larger = np.where(gapless, _minimum_over_larger(again.reshape(grid)).ravel(), 0)
    least = np.where(gapless, _minimum_from(again.reshape(grid)).ravel(), 0)
    tile = closed - counts[:, MATCHES]
    box = closed - np.minimum(counts[:, USED], counts[:, MATCHES] + 2 * counts[:, LOOSE])
    first, boxed = np.maximum(tile, touched), np.maximum(box, touched)
    more = np.maximum(tile, larger) + rescan
    return first, more, np.maximum(box, least), tile, boxed, np.maximum(box, larger)


def _ordered(shape: LayerShape, t: int, width: int, dram: Dram, axes: tuple[int, ...], dims: tuple[int, ...],
             extents: Ints, first: Ints, counts: Ints) -> Ints:  # fmt: skip
    """Activations of one pass in the best order of one loop per dim; the bound `first` where that is too much work."""
    if not dram.is_open or dram.banks > 1:
        return first
    sizes = tensor_sizes(shape, t, axes)
    strides = {a: math.prod(sizes[i + 1 :]) * width for i, a in enumerate(axes)}
    ordered = first.copy()
    for i, row in enumerate(extents):
        trips = np.array([shape.bounds[d] // int(e) for d, e in zip(dims, row, strict=True)], np.int64)
        if trips.prod() > _MOST_ORDERED_TILES:
            continue
        steps = np.array([step_bytes(shape, t, strides, d, int(e)) for d, e in zip(dims, row, strict=True)], np.int64)
        looped = trips > 1
        reach = sum((axis_box(shape, t, dims, row, a) - 1) * strides[a] for a in axes)
        matches = most_matches(trips[looped], steps[looped], reach + width - 1, dram.row_bytes)
        ordered[i] = max(first[i], counts[i, CLOSED] - matches)
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


def _covers(shape: LayerShape, t: int, dims: tuple[int, ...], row: Ints) -> bool:
    """Whether neighbouring tiles leave no element between them, so that a super-tile is a box."""
    if t != I:
        return True
    return all(
        shape.stride[side] <= shape.dilation[side] * (extent_of(dims, row, filters) - 1) + 1
        and (shape.dilation[side] == 1 or shape.bounds[filters] == 1)
        for side, filters in ((0, 0), (1, 1))
    )
