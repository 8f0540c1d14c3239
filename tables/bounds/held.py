"""What the scans of a tensor take at least while a tile of another one of its bank is held.

No row is open at first, as the other tensor's scan has ended. Then the loops inside the held tile go over a box of t's
tiles. However they are split and ordered, they are a sequence of loops with a prime number of iterations each, the same
for every box (`tables.bounds.passes`, which also shows why scans that irrelevant loops repeat may be left out).
"""

import math
from collections import Counter
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from tables.bounds.passes import MAX_ORDERS, Loop, loop_orders, steps_of, tile_scan
from tables.counts.scan_parts import EXTRA, FINAL, INITIAL, LAST_ROW, ROWS, TOUCHED
from tables.counts.scans import measure
from tables.dram import Dram, period
from tables.factors import primes_of
from tables.jit import njit
from tables.nest import IRRELEVANT, Ints, LayerShape
from tables.reduce import product

#: The most scans that are looked at: a tenth of a second.
_MOST_SCANS = 10_000_000


class HeldRuns(NamedTuple):
    """What a stream takes at least in all boxes: rows opened, and cycles of their runs, each ended by another row."""

    activations: int
    cycles: int


@lru_cache(maxsize=4096)
def held_runs(
    shape: LayerShape, t: int, width: int, dram: Dram, layout: int, tile: tuple[int, ...], box: tuple[int, ...]
) -> HeldRuns:
    """Return the least that t's scans take in all boxes, each gone over once from closed rows, in any order of loops.

    `tile`, `box`: extents of a scan and of a box in R S P Q C K N G; these of t's dims divide the bound, and those the
    box. `width`: bytes of an element. One bank, rows left open. Nothing is bounded where that would take long.
    """
    scan, tile_steps = tile_scan(shape, t, width, layout, tile)
    dims = [d for d in range(8) if d not in IRRELEVANT[t]]
    box_steps = {d: box[d] // tile[d] * tile_steps[d] for d in dims}
    unit = math.gcd(dram.row_bytes, *scan.strides.tolist(), *tile_steps.values(), *box_steps.values())
    times = np.zeros(dram.row_bytes // unit, np.int64)  # boxes that begin at each place in a row
    times[0] = 1
    for d, step in box_steps.items():
        places, ways = np.unique(np.arange(shape.bounds[d] // box[d]) * step // unit % len(times), return_counts=True)
        times = sum(way * np.roll(times, place) for place, way in zip(places, ways, strict=True))
    places = np.flatnonzero(times)
    loops = Counter(Loop(d, p) for d in dims for p in primes_of(box[d] // tile[d]))
    orders = list(islice(loop_orders(loops), MAX_ORDERS + 1))
    scans = math.prod(loop.trips for loop in loops.elements())
    if len(orders) > MAX_ORDERS or len(orders) * len(places) * scans > _MOST_SCANS:
        return HeldRuns(0, 0)
    trips, steps = (
        np.array(rows, np.int64).reshape(len(orders), loops.total())
        for rows in ([[loop.trips for loop in order] for order in orders], [steps_of(o, tile_steps) for o in orders])
    )
    return HeldRuns(*_least(trips, steps, places, times[places], measure(scan, unit, dram), unit, dram))


@njit
def _least(trips: Ints, steps: Ints, places: Ints, times: Ints, measured: Ints, unit: int,
           dram: Dram) -> tuple[int, int]:  # fmt: skip
    """Return the least activations and the least cycles over the orders `trips`, `steps` int[n, loops] (in bytes).

    Boxes begin `places` int[m] units behind the begin of a row, so many `times` int[m]. `measured` int[row_bytes /
    unit, columns of `tables.counts.scans`].
    """
    fewest, shortest = 2**62, 2**62
    for i in range(len(trips)):
        activations, cycles = 0, 0
        for j in range(len(places)):
            opened, took = _walk_box(places[j], trips[i], steps[i], measured, unit, dram)
            activations, cycles = activations + times[j] * opened, cycles + times[j] * took
        fewest, shortest = min(fewest, activations), min(shortest, cycles)
    return fewest, shortest


@njit
def _walk_box(place: int, trips: Ints, steps: Ints, measured: Ints, unit: int, dram: Dram) -> tuple[int, int]:
    """Return activations and cycles of the scans of one box, whose last row is closed behind them."""
    index, at, row = np.zeros(len(trips), np.int64), place * unit, -1
    activations, cycles, run, one = 0, 0, 0, period(1, dram)
    for _ in range(product(trips)):
        first, m = at // dram.row_bytes, at % dram.row_bytes // unit
        if first != row:
            cycles += period(run, dram) if run else 0
            activations, run = activations + 1, 0
        if measured[m, ROWS] == 1:
            run += measured[m, TOUCHED]
        else:
            begun, ended = measured[m, INITIAL], measured[m, FINAL]
            cycles += period(run + begun, dram) - period(begun, dram) + measured[m, EXTRA] + one - period(ended, dram)
            cycles += (measured[m, ROWS] - 1) * one
            activations, run = activations + measured[m, ROWS] - 1, ended
        row = first + measured[m, LAST_ROW]
        for loop in range(len(trips) - 1, -1, -1):
            index[loop] += 1
            at += steps[loop]
            if index[loop] < trips[loop]:
                break
            index[loop], at = 0, at - steps[loop] * trips[loop]
    return activations, cycles + period(run, dram)
