"""What outputs that return to a shared bank take at least, in the best order of the loops outside their tile.

Another tensor is scanned between any two steps that move outputs. So every scan begins with closed rows, with one
exception: in a step the tile that leaves is written, and then the one that returns in its place is read, and if it
begins in the row in which the other one ends, both runs are one.

However the loops outside the tile are split and ordered, they are a sequence of loops with a prime number of iterations
each (`tables.bounds.passes`). When one of them advances, the loops inside it go from their last iteration to their
first. So what the change of tiles saves depends on this loop and on the set of loops inside it, and dynamic programming
over these sets, from the inside out, finds what the best order saves.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tables.bounds.passes import Loop, tile_scan
from tables.counts.scan_parts import EXTRA, FINAL, INITIAL, LAST_ROW, ROWS
from tables.counts.scans import measure
from tables.dram import Dram, period
from tables.factors import primes_of
from tables.nest import IRRELEVANT, Ints, LayerShape, O

#: The most changes of tiles that are looked at: about a second.
_MOST_CHANGES = 20_000_000


class ReturnedRuns(NamedTuple):
    """What the stream takes at least: rows opened, and cycles of their runs, each ended by another row."""

    activations: int
    cycles: int


@lru_cache(maxsize=4096)
def returned_runs(
    shape: LayerShape, width: int, dram: Dram, layout: int, tile: tuple[int, ...], box: tuple[int, ...], passes: int
) -> ReturnedRuns:
    """Return the least that writes and reads of O's tiles take, if all are written `passes` times and read once less.

    `tile`, `box`: extents in R S P Q C K N G, which divide the bounds, and those of the tile those of the box. The
    innermost loops sweep a box. `width`: bytes of an element in DRAM. One bank, rows left open. Nothing is bounded
    where that would take long.
    """
    changes = _Changes(shape, width, dram, layout, tile, box)
    tiles = math.prod(changes.trips.values())
    loops = Counter(Loop(d, p) for d, trips in changes.trips.items() for p in primes_of(trips))
    loops += Counter(Loop(None, p) for p in primes_of(passes))
    # A set of loops leaves a tile for each iteration of the others.
    left = math.prod(sum(1 if kind.d is None else kind.trips**-i for i in range(n + 1)) for kind, n in loops.items())
    if tiles == 1 or left * len(loops) * tiles > _MOST_CHANGES:
        return ReturnedRuns(0, 0)
    scans, alone, saved = 2 * passes - 1, changes.alone(), changes.most_saved(loops)
    return ReturnedRuns(scans * alone.activations - saved.activations, scans * alone.cycles - saved.cycles)


class _Changes:
    """The changes from one tile of O to another.

    `trips`, `steps`: tiles along each relevant dim, and bytes from one to the next; `inmost`: tiles of a box that the
    innermost loops sweep.
    """

    def __init__(
        self, shape: LayerShape, width: int, dram: Dram, layout: int, tile: tuple[int, ...], box: tuple[int, ...]
    ) -> None:
        self.dram = dram
        scan, self.steps = tile_scan(shape, O, width, layout, tile)
        self.trips = {d: shape.bounds[d] // tile[d] for d in range(8) if d not in IRRELEVANT[O]}
        self.inmost = {d: box[d] // tile[d] for d in self.trips}
        self.unit = math.gcd(dram.row_bytes, *scan.strides.tolist(), *self.steps.values())
        self.measured = measure(scan, self.unit, dram)
        lengths = range(dram.row_bytes // dram.column_bytes * 2 + 1)
        self._period = np.array([0, *(period(n, dram) for n in lengths[1:])], np.int64)

    def alone(self) -> ReturnedRuns:
        """Return what one scan of every tile takes, each by itself."""
        of_tiles = self._measured(_sums((n, self.steps[d]) for d, n in self.trips.items()))
        activations = int(of_tiles[:, ROWS].sum())
        return ReturnedRuns(activations, int(of_tiles[:, EXTRA].sum()) + activations * int(period(1, self.dram)))

    def _measured(self, addresses: Ints) -> Ints:
        return self.measured[addresses % self.dram.row_bytes // self.unit]

    def most_saved(self, loops: Counter[Loop]) -> ReturnedRuns:
        """Return the most rows, and the most cycles, that the changes in all passes save over any order of loops.

        Loops that repeat a pass lie outside some loop over tiles; inside all of them they would be free.
        """
        kinds = sorted(loops, key=lambda kind: kind.d is None)  # loops over tiles first
        best = {(0,) * len(kinds): ReturnedRuns(0, 0)}
        for inside in itertools.product(*(range(loops[kind] + 1) for kind in kinds)):
            found = list[ReturnedRuns]()
            if not self._is_sweeping(_iterations(kinds, inside)):
                continue
            for i, kind in enumerate(kinds):
                within = (*inside[:i], inside[i] - 1, *inside[i + 1 :])
                if within in best and (kind.d is not None or any(within)):
                    known, more = best[within], self._saved(kinds, loops, within, kind)
                    found.append(ReturnedRuns(known.activations + more.activations, known.cycles + more.cycles))
            if found:
                best[inside] = ReturnedRuns(*(max(figures) for figures in zip(*found, strict=True)))
        return best[tuple(loops[kind] for kind in kinds)]

    def _is_sweeping(self, inside: dict[int | None, int]) -> bool:
        """Return whether loops with these iterations of each dim sweep a part of a box, or whole boxes."""
        is_part = inside[None] == 1 and all(n % inside[d] == 0 for d, n in self.inmost.items())
        return is_part or all(inside[d] % n == 0 for d, n in self.inmost.items())

    def _saved(self, kinds: Sequence[Loop], loops: Counter[Loop], inside: tuple[int, ...], moved: Loop) -> ReturnedRuns:
        """Return what is saved in all iterations of a loop that has some others inside, when it advances."""
        within = _iterations(kinds, inside)
        passes = math.prod(kind.trips ** loops[kind] for kind in kinds if kind.d is None)
        outside = passes // within[None]
        if moved.d is None:
            times, step, taken = outside // moved.trips * (moved.trips - 1), 0, [0]
        else:  # in the first pass no tile returns
            times, step = outside - 1, within[moved.d] * self.steps[moved.d]
            taken = [i * step for i in range(moved.trips - 1)]
        back = sum((within[d] - 1) * self.steps[d] for d in self.trips)
        around = {d: within[d] * (moved.trips if d == moved.d else 1) for d in self.trips}
        outer = _sums((n // around[d], around[d] * self.steps[d]) for d, n in self.trips.items())
        begins = (outer[:, None] + np.array(taken, np.int64)).ravel()
        saved = self._joined(begins + back, begins + step)
        return ReturnedRuns(saved.activations * times, saved.cycles * times)

    def _joined(self, left: Ints, returned: Ints) -> ReturnedRuns:
        """Return what is saved where tiles at addresses `returned` int[n] are read behind those at `left` int[n]."""
        before, after, row_bytes = self._measured(left), self._measured(returned), self.dram.row_bytes
        is_joined = left // row_bytes + before[:, LAST_ROW] == returned // row_bytes
        final, initial = before[is_joined, FINAL], after[is_joined, INITIAL]
        saved = self._period[final] + self._period[initial] - self._period[final + initial]
        return ReturnedRuns(int(is_joined.sum()), int(saved.sum()))


def _iterations(kinds: Sequence[Loop], numbers: Sequence[int]) -> dict[int | None, int]:
    """Return the iterations of all loops of each dim, of so many of each kind; None stands for irrelevant dims."""
    iterations = dict.fromkeys([None, *(d for d in range(8) if d not in IRRELEVANT[O])], 1)
    for kind, n in zip(kinds, numbers, strict=True):
        iterations[kind.d] *= kind.trips**n
    return iterations


def _sums(loops: Iterable[tuple[int, int]]) -> Ints:
    """Return all sums of an offset of each loop, given by iterations and bytes from one to the next."""
    sums = np.zeros(1, np.int64)
    for trips, step in loops:
        sums = (sums[:, None] + np.arange(trips) * step).ravel()
    return sums
