"""Row activations of passes over all tiles of a sequential tensor, and cycles of one, in the best of all orders.

`tables.bounds.shapes` knows of every tile what holds in any order, which with several banks is little (a row that one scan
leaves open may be found by any other one), and of two loops of a dim nothing more. Here the orders are gone through,
for one tile. However the loops outside a tile are split over levels and ordered, they are a sequence of loops of a
prime number of iterations each; loops of one dim next to each other are one loop, in whatever order they come. So no
mapping with that tile opens fewer rows than the least over all such sequences (nor as few, if that takes more levels
than there are). With one bank and one loop per dim, the best order is built up from sets of loops (`count_ordered`).

Fetches left out of a stream open no row: what is closed between two uses of a bank stays a change of its row. So passes
counted without what else a stream does (outputs read back, iterations of further irrelevant loops) are a lower bound.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tables.counts.scans import BANKS, PER_BANK, ROWS, Scan, axis_box, axis_strides, box_scan, measure, step_bytes
from tables.counts.stream import segments
from tables.counts.visits import SEQUENTIAL, Tile
from tables.counts.walk import NO_OVERLAP, StreamCounts, StreamLimit, walk_stream
from tables.dram import Dram
from tables.factors import primes_of
from tables.jit import njit
from tables.nest import AXES, IRRELEVANT, Ints, LayerShape, O

#: Sequences of loops, and banks looked at in all of them, up to which the best one is looked for.
_MOST_ORDERS, _MOST_WORK = 4000, 100_000_000


class Loop(NamedTuple):
    """A prime number of iterations of a dim; None: of the loops that are irrelevant to the tensor."""

    d: int | None
    trips: int


def min_activations(shape: LayerShape, t: int, width: int, dram: Dram, layouts: list[int], tile: tuple[int, ...],
                      passes: int) -> int | None:  # fmt: skip
    """The least row activations of so many passes over all tiles of t, in any order of any split of the loops outside
    them and any of the layouts, which no mapping goes below; None if that is too much to count.

    `tile`: extents of R S P Q C K N G. The loops of the passes are never innermost: then they would not fetch anew.
    """
    sequences = _sequences(shape, t, tile, passes, dram.banks)
    if sequences is None:
        return None
    trips = np.array([[loop.trips for loop in sequence] for sequence in sequences], np.int64)
    return min(_least(shape, t, width, dram, layout, tile, sequences, trips) for layout in layouts)


def min_cycles(shape: LayerShape, t: int, width: int, dram: Dram, layouts: list[int], tile: tuple[int, ...],
                 room: StreamLimit, is_over: Callable[[], bool] = lambda: False) -> int | None:  # fmt: skip
    """The least cycles of one pass over all tiles of t (outputs are written alone), in any order of any split of the
    loops outside them and any of the layouts; one more than there is room for if it is more, None if it is too much to
    count, or not counted before time `is_over`.
    """
    sequences = _sequences(shape, t, tile, 1)
    if sequences is None:
        return None
    none = np.zeros(5, np.int64)
    for layout in layouts:
        axes = AXES[t][layout]
        strides, _ = axis_strides(shape, t, axes, width)
        box = [np.arange(axis_box(shape, t, np.array([tile]), a)[0]) for a in axes]
        parts = segments(box, [strides[a] // width for a in axes], width)
        scanned = Tile(SEQUENTIAL, parts, 0, none, none, none, False, width)
        tile_steps = _tile_steps(shape, t, strides, tile)
        for sequence in sequences:
            if is_over():
                return None
            loops = np.array([(loop.trips, 0) for loop in sequence], np.int64).reshape(-1, 2)
            steps = np.zeros((len(sequence), 5), np.int64)
            steps[:, 0] = _steps(sequence, tile_steps)
            counts = StreamCounts(*walk_stream(loops, steps, scanned, t == O, False, NO_OVERLAP, dram, room))
            if room.admits(counts):
                room = room._replace(cycles=counts.cycles - 1)
    return room.cycles + 1


def _sequences(shape: LayerShape, t: int, tile: tuple[int, ...], passes: int,
               each: int = 1) -> list[tuple[Loop, ...]] | None:  # fmt: skip
    """All sequences of loops that go over all tiles of t so often; None if they are too much to count, with so much
    work for `each` scan.
    """
    dims = [d for d in range(8) if d not in IRRELEVANT[t] and shape.bounds[d] > 1]
    loops = Counter(Loop(d, p) for d in dims for p in primes_of(shape.bounds[d] // tile[d]))
    loops += Counter(Loop(None, p) for p in primes_of(passes))
    orders = list(itertools.islice(_orders(loops), _MOST_ORDERS + 1))
    scans = math.prod(loop.trips for loop in loops.elements())
    if len(orders) > _MOST_ORDERS or len(orders) * scans * each > _MOST_WORK:
        return None
    return [order for order in orders if not order or order[-1].d is not None]


def _tile_steps(shape: LayerShape, t: int, strides: dict[int, int], tile: tuple[int, ...]) -> dict[int, int]:
    """Bytes from one tile to the next along each dim."""
    return {d: tile[d] * step_bytes(shape, t, strides, d) for d in range(8) if d not in IRRELEVANT[t]}


def _orders(loops: Counter[Loop]) -> Iterator[tuple[Loop, ...]]:
    """All orders of loops, outermost first; of those that differ in loops of one dim next to each other one."""
    left, number, order = dict(loops), loops.total(), list[Loop]()

    def continued() -> Iterator[tuple[Loop, ...]]:
        if len(order) == number:
            yield tuple(order)
            return
        for loop in left:
            if left[loop] and (not order or order[-1].d != loop.d or order[-1].trips <= loop.trips):
                left[loop] -= 1
                order.append(loop)
                yield from continued()
                left[order.pop()] += 1

    return continued()


def _least(shape: LayerShape, t: int, width: int, dram: Dram, layout: int, tile: tuple[int, ...],
           sequences: list[tuple[Loop, ...]], trips: Ints) -> int:  # fmt: skip
    """The least over some sequences of loops, in one layout."""
    axes = AXES[t][layout]
    strides, _ = axis_strides(shape, t, axes, width)
    box = np.array([axis_box(shape, t, np.array([tile]), a)[0] for a in axes], np.int64)
    scan = box_scan(box, np.array(list(strides.values())), width)
    tile_steps = _tile_steps(shape, t, strides, tile)
    steps = np.array([_steps(sequence, tile_steps) for sequence in sequences], np.int64).reshape(trips.shape)
    # Which bank is closed does not matter.
    return int(_fewest(scan, trips, steps, dram if dram.is_open else dram._replace(banks=1)))


def _steps(sequence: tuple[Loop, ...], tile_steps: dict[int, int]) -> list[int]:
    """Bytes from one iteration of each loop to the next."""
    inside, steps = dict(tile_steps), list[int]()
    for d, trips in reversed(sequence):
        steps.append(0 if d is None else inside[d])
        if d is not None:
            inside[d] *= trips
    return steps[::-1]


@njit
def _fewest(scan: Scan, trips: Ints, steps: Ints, dram: Dram) -> int:
    """The fewest row activations of the scans of any of the sequences `trips`, `steps` int[n, loops]."""
    unit, fewest = dram.row_bytes, 2**62
    for step in np.append(steps, scan.strides):
        unit = np.gcd(unit, step)
    measured = measure(scan, unit, dram)
    for i in range(len(trips)):
        fewest = min(fewest, _count(measured, unit, trips[i], steps[i], dram, fewest))
    return fewest


@njit
def _count(measured: Ints, unit: int, trips: Ints, steps: Ints, dram: Dram, enough: int) -> int:
    """Row activations of one sequence, as far as they are fewer than `enough`; `measured`: see `tables.counts.scans`."""
    banks = dram.banks
    opened = np.full(banks, -1, np.int64)
    index = np.zeros(len(trips), np.int64)
    base, found = 0, 0
    while found < enough:
        row = base // dram.row_bytes
        m = (base - row * dram.row_bytes) // unit
        found += measured[m, ROWS]
        if dram.is_open:
            for bank in range(PER_BANK, PER_BANK + measured[m, BANKS]):
                here = (row + measured[m, bank]) % banks
                found -= opened[here] == row + measured[m, bank]
                opened[here] = row + measured[m, bank + banks]
        loop = len(trips) - 1
        while loop >= 0:
            index[loop] += 1
            base += steps[loop]
            if index[loop] < trips[loop]:
                break
            base -= steps[loop] * trips[loop]
            index[loop] = 0
            loop -= 1
        if loop < 0:
            break
    return found


@njit
def count_ordered(trips: Ints, steps: Ints, reach: Ints, row_bytes: int, most: int, closed: Ints, opened: Ints) -> None:
    """Activations of one pass over tiles in the best order of one loop per dim, where it has so many tiles at `most`.
    Modifies opened int[n], what they are at least.

    `trips`, `steps` int[n, dims]: loops over tiles, and bytes from one of their tiles to the next; `reach` int[n]:
    bytes from the first to the last one of a scan; `closed` int[n]: activations if no row is found open.
    """
    for i in range(len(trips)):
        if trips[i].prod() <= most:
            looped = trips[i] > 1
            matches = _most_matches(trips[i][looped], steps[i][looped], reach[i], row_bytes)
            opened[i] = max(opened[i], closed[i] - matches)


@njit
def _most_matches(trips: Ints, steps: Ints, reach: int, row_bytes: int) -> int:
    """Most scans of a pass that can begin in the row where the one before ended, over all orders of the loops.

    When loop d moves on, the loops inside it go from their last iteration to their first; so the count depends on d and
    on the set of loops inside it, and the best order is built inside out over sets.
    """
    n = trips.shape[0]
    best = np.zeros(1 << n, np.int64)
    for inside in range(1 << n):
        back = 0
        for e in range(n):
            if inside >> e & 1:
                back += (trips[e] - 1) * steps[e]
        for d in range(n):
            if inside >> d & 1:
                continue
            grown = inside | 1 << d
            found = best[inside] + _matches_of(trips, steps, reach, row_bytes, d, grown, back)
            best[grown] = max(best[grown], found)
    return int(best[(1 << n) - 1])


@njit
def _matches_of(trips: Ints, steps: Ints, reach: int, row_bytes: int, d: int, inner: int, back: int) -> int:
    """Matches when loop d moves on, over all iterations of the loops outside it; those inside end `back` bytes on."""
    n = trips.shape[0]
    index = np.zeros(n, np.int64)
    base, found = 0, 0
    while True:
        for i in range(trips[d] - 1):
            end = base + i * steps[d] + back + reach
            found += end // row_bytes == (base + (i + 1) * steps[d]) // row_bytes
        moved = False
        for e in range(n):
            if inner >> e & 1:
                continue
            index[e] += 1
            base += steps[e]
            if index[e] < trips[e]:
                moved = True
                break
            base -= steps[e] * trips[e]
            index[e] = 0
        if not moved:
            return found
