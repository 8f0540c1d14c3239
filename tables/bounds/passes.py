"""Row activations of passes over all tiles of a sequential tensor, and cycles of one pass, in the best order.

The bounds of `tables.bounds.shapes` hold in any order. They are weak where there are several banks (any scan may find a
row that some other scan has left open) and where a dim has two loops. Here the orders of the loops outside one tile are
enumerated.

However these loops are split over levels and ordered, they are a sequence of loops with a prime number of iterations
each. Neighbouring loops of one dim are one loop, in whatever order their primes come. So no mapping with the tile opens
fewer rows than the minimum over all such sequences. (The minimum may need more levels than there are.) With one bank
and one loop per dim the best order is found over sets of loops instead (`count_ordered`).

A stream also reads outputs back, and repeats passes in further irrelevant loops. Removing these scans adds no
activation: where a remaining scan finds another row open in a bank than it needs, the full stream has an activation of
the needed row, too, by this scan or by a removed one before it. So the count without these scans is a lower bound.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tables.counts.scan_parts import BANKS, PER_BANK, ROWS
from tables.counts.scans import Scan, axis_box, axis_strides, box_scan, measure, step_bytes
from tables.counts.stream import segments
from tables.counts.visits import SEQUENTIAL, Tile
from tables.counts.walk import NO_INTERRUPTION, NO_OVERLAP, StreamCounts, StreamLimit, walk_stream
from tables.dram import Dram
from tables.factors import primes_of
from tables.jit import njit
from tables.nest import AXES, IRRELEVANT, Ints, LayerShape, O
from tables.reduce import gcd, product

#: The most sequences of loops, and the most uses of banks in all of them, that are counted.
MAX_ORDERS, _MAX_WORK = 4000, 100_000_000
#: What a scan of a walk takes, in uses of banks that are counted.
_WALKED_SCAN = 16


class Loop(NamedTuple):
    """A loop with a prime number of iterations (`trips`) of dim `d`; None stands for dims irrelevant to the tensor."""

    d: int | None
    trips: int


def min_activations(shape: LayerShape, t: int, width: int, dram: Dram, layouts: list[int], tile: tuple[int, ...],
                      passes: int) -> int | None:  # fmt: skip
    """Return the fewest row activations of `passes` passes over all tiles of t; None if that is too much to count.

    The minimum is over all orders and splits of the loops outside the tile, and over the given layouts. No mapping
    opens fewer rows. `tile`: extents of R S P Q C K N G. The loops that repeat passes are never innermost, where they
    would be free.
    """
    sequences = _sequences(shape, t, tile, passes, dram.banks)
    if sequences is None:
        return None
    trips = np.array([[loop.trips for loop in sequence] for sequence in sequences], np.int64)
    return min(_min_over_sequences(shape, t, width, dram, layout, tile, sequences, trips) for layout in layouts)


def min_cycles(shape: LayerShape, t: int, width: int, dram: Dram, layouts: list[int], tile: tuple[int, ...],
                 limit: StreamLimit, is_over: Callable[[], bool] = lambda: False) -> int | None:  # fmt: skip
    """Return the fewest cycles of one pass over all tiles of t, in which outputs are only written.

    The minimum is over all orders and splits of the loops outside the tile, and over the given layouts. If it exceeds
    the limit, one cycle more than the limit is returned. None if it is too much to count, or if the time `is_over`.
    """
    sequences = _sequences(shape, t, tile, 1, _WALKED_SCAN)
    if sequences is None:
        return None
    none, never = np.zeros(5, np.int64), np.zeros(1, np.int64)
    for layout in layouts:
        axes = AXES[t][layout]
        strides, _ = axis_strides(shape, t, axes, width)
        box = [np.arange(axis_box(shape, t, np.array([tile]), a)[0]) for a in axes]
        parts = segments(box, [strides[a] // width for a in axes], width)
        scanned = Tile(SEQUENTIAL, parts, 0, none, none, none, False, width)
        tile_steps = tile_steps_of(shape, t, strides, tile)
        for sequence in sequences:
            if is_over():
                return None
            loops = np.array([(loop.trips, 0) for loop in sequence], np.int64).reshape(-1, 2)
            steps = np.zeros((len(sequence), 5), np.int64)
            steps[:, 0] = steps_of(sequence, tile_steps)
            counts = StreamCounts(
                *walk_stream(loops, steps, scanned, t == O, False, NO_OVERLAP, dram, limit, NO_INTERRUPTION, never)
            )
            if limit.admits(counts):
                limit = limit._replace(cycles=counts.cycles - 1)
    return limit.cycles + 1


def _sequences(shape: LayerShape, t: int, tile: tuple[int, ...], passes: int,
               each: int = 1) -> list[tuple[Loop, ...]] | None:  # fmt: skip
    """Return all sequences of loops that go over all tiles of t `passes` times; None if they are too much to count.

    `each`: the work of counting one scan.
    """
    dims = [d for d in range(8) if d not in IRRELEVANT[t] and shape.bounds[d] > 1]
    loops = Counter(Loop(d, p) for d in dims for p in primes_of(shape.bounds[d] // tile[d]))
    loops += Counter(Loop(None, p) for p in primes_of(passes))
    orders = list(itertools.islice(loop_orders(loops), MAX_ORDERS + 1))
    scans = math.prod(loop.trips for loop in loops.elements())
    if len(orders) > MAX_ORDERS or len(orders) * scans * each > _MAX_WORK:
        return None
    return [order for order in orders if not order or order[-1].d is not None]


def tile_scan(shape: LayerShape, t: int, width: int, layout: int, tile: tuple[int, ...]) -> tuple[Scan, dict[int, int]]:
    """Return the scan of a tile with extents in R S P Q C K N G, and the bytes from one to the next along each dim."""
    axes = AXES[t][layout]
    strides, _ = axis_strides(shape, t, axes, width)
    box = np.array([axis_box(shape, t, np.array([tile]), a)[0] for a in axes], np.int64)
    return box_scan(box, np.array(list(strides.values())), width), tile_steps_of(shape, t, strides, tile)


def tile_steps_of(shape: LayerShape, t: int, strides: dict[int, int], tile: tuple[int, ...]) -> dict[int, int]:
    """Return the bytes from one tile to the next along each relevant dim."""
    return {d: tile[d] * step_bytes(shape, t, strides, d) for d in range(8) if d not in IRRELEVANT[t]}


def loop_orders(loops: Counter[Loop]) -> Iterator[tuple[Loop, ...]]:
    """Yield all orders of loops, outermost first; one of those that differ only among neighbouring loops of a dim."""
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


def _min_over_sequences(shape: LayerShape, t: int, width: int, dram: Dram, layout: int, tile: tuple[int, ...],
           sequences: list[tuple[Loop, ...]], trips: Ints) -> int:  # fmt: skip
    """Return the fewest row activations over some sequences of loops, in one layout."""
    scan, tile_steps = tile_scan(shape, t, width, layout, tile)
    steps = np.array([steps_of(sequence, tile_steps) for sequence in sequences], np.int64).reshape(trips.shape)
    # Which bank is closed does not matter.
    return int(_fewest(scan, trips, steps, dram if dram.is_open else dram._replace(banks=1)))


def steps_of(sequence: tuple[Loop, ...], tile_steps: dict[int, int]) -> list[int]:
    """Return the bytes from one iteration of each loop to the next, outermost first."""
    inside, steps = dict(tile_steps), list[int]()
    for d, trips in reversed(sequence):
        steps.append(0 if d is None else inside[d])
        if d is not None:
            inside[d] *= trips
    return steps[::-1]


@njit
def _fewest(scan: Scan, trips: Ints, steps: Ints, dram: Dram) -> int:
    """Return the fewest row activations of the sequences `trips`, `steps` int[n, loops] (steps in bytes)."""
    unit, fewest = dram.row_bytes, 2**62
    for stride in scan.strides:
        unit = gcd(unit, stride)
    for i in range(len(steps)):
        for step in steps[i]:
            unit = gcd(unit, step)
    measured = measure(scan, unit, dram)
    for i in range(len(trips)):
        fewest = min(fewest, _count(measured, unit, trips[i], steps[i], dram, fewest))
    return fewest


@njit
def _count(measured: Ints, unit: int, trips: Ints, steps: Ints, dram: Dram, enough: int) -> int:
    """Count the row activations of one sequence, up to `enough`; `measured` as from `tables.counts.scans.measure`."""
    banks = dram.banks
    opened = np.empty(banks, np.int64)
    for bank in range(banks):
        opened[bank] = -1
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
    """Count the activations of one pass in the best order of one loop per dim, for passes of at most `most` tiles.

    `trips`, `steps` int[n, dims]: iterations of the loops over tiles, and bytes from one tile to the next. `reach`
    int[n]: bytes from the first to the last byte of a scan. `closed` int[n]: activations if no row is found open.
    Raises the lower bounds `opened` int[n] to what is counted.
    """
    for i in range(len(trips)):
        if product(trips[i]) <= most:
            looped, pitches, loops = np.empty(trips.shape[1], np.int64), np.empty(trips.shape[1], np.int64), 0
            for d in range(trips.shape[1]):
                if trips[i, d] > 1:
                    looped[loops], pitches[loops], loops = trips[i, d], steps[i, d], loops + 1
            matches = _most_matches(looped[:loops], pitches[:loops], reach[i], row_bytes)
            opened[i] = max(opened[i], closed[i] - matches)


@njit
def _most_matches(trips: Ints, steps: Ints, reach: int, row_bytes: int) -> int:
    """Return the most scans of a pass that can begin in the row in which the scan before ended, over all loop orders.

    When loop d advances, the loops inside it go from their last iteration to their first. So the count depends only on
    d and on the set of loops inside it, and dynamic programming over sets, from the inside out, finds the best order.
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
    """Count such scans where loop d advances, over all iterations of the loops outside it.

    `inner`: the set of d and the loops inside it, as bits. `back`: bytes from their first tile to their last one.
    """
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
