"""What outputs that return to a shared bank take at least: attained by some order of loops, byte by byte."""

import itertools
import math
from collections.abc import Iterator

from hypothesis import assume, given
from hypothesis import strategies as st

from tables.bounds.returns import returned_runs
from tables.dram import Dram, period
from tables.factors import divisors, primes_of
from tables.nest import G, K, LayerShape, N, P, Q
from tests.tables.nests import build_dram

#: O's dims as they lie in DRAM, outermost first, in its two layouts.
LAYOUTS = ((N, G, K, Q, P), (N, Q, P, G, K))
Extents = dict[int, int]
#: A loop: its dim, None if that is irrelevant, and its iterations.
Loops = tuple[tuple[int | None, int], ...]


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Extents, Extents, Extents]:
    """Draw O's bounds, a box and a tile, each of divisors of the one before."""
    bounds = {d: draw(st.sampled_from([1, 2] if d == G else [1, 2, 3, 4])) for d in LAYOUTS[0]}
    box = {d: draw(st.sampled_from(divisors(n))) for d, n in bounds.items()}
    return bounds, box, {d: draw(st.sampled_from(divisors(n))) for d, n in box.items()}


def extents(of: Extents) -> tuple[int, ...]:
    """Return extents in R S P Q C K N G."""
    return tuple(of.get(d, 1) for d in range(8))


def orders(bounds: Extents, box: Extents, tile: Extents, passes: int) -> Iterator[Loops]:
    """Yield all orders of prime loops, outermost first, whose innermost ones sweep a box."""
    inside = [(d, p) for d in box for p in primes_of(box[d] // tile[d])]
    around = [(d, p) for d in box for p in primes_of(bounds[d] // box[d])]
    for outer in set(itertools.permutations([*around, *((None, p) for p in primes_of(passes))])):
        for inner in set(itertools.permutations(inside)):
            if (*outer, *inner)[-1][0] is not None:
                yield (*outer, *inner)


def takes(order: Loops, bounds: Extents, tile: Extents, layout: int, width: int, dram: Dram) -> tuple[int, int]:
    """Return activations and cycles of all writes and reads, from the address of every byte."""

    def scan(at: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return the (row, columns) of one tile's runs."""
        columns = set()
        for offsets in itertools.product(*(range(tile[d]) for d in LAYOUTS[layout])):
            place = 0
            for d, offset in zip(LAYOUTS[layout], offsets, strict=True):
                place = place * bounds[d] + dict(zip(LAYOUTS[layout], at, strict=True))[d] + offset
            columns |= {byte // dram.column_bytes for byte in range(place * width, (place + 1) * width)}
        rows = itertools.groupby(sorted(columns), lambda column: column * dram.column_bytes // dram.row_bytes)
        return [(row, len(list(of_row))) for row, of_row in rows]

    visits = list[tuple[int, ...]]()
    for index in itertools.product(*(range(trips) for _, trips in order)):
        at, inside = dict.fromkeys(tile, 0), dict(tile)
        for (d, trips), i in reversed(list(zip(order, index, strict=True))):
            if d is not None:
                at[d] += i * inside[d]
                inside[d] *= trips
        visits.append(tuple(at[d] for d in LAYOUTS[layout]))
    activations, cycles, seen = 0, 0, {visits[0]}
    for leaving, coming in itertools.pairwise([*visits, None]):
        runs = scan(leaving)
        if coming in seen:
            first, *others = scan(coming)
            if first[0] == runs[-1][0]:
                runs[-1] = (first[0], runs[-1][1] + first[1])
                runs += others
            else:
                runs += [first, *others]
        if coming is not None:
            seen.add(coming)
        activations += len(runs)
        cycles += sum(int(period(n, dram)) for _, n in runs)
    return activations, cycles


@given(boxes(), st.integers(1, 4), st.integers(0, 1), st.sampled_from([1, 2, 4]), st.sampled_from([8, 16, 32]))
def test_the_least_over_all_orders_of_loops(
    of: tuple[Extents, Extents, Extents], passes: int, layout: int, width: int, row_bytes: int
) -> None:
    """Activations and cycles are each the minimum over all orders."""
    bounds, box, tile = of
    assume(1 < math.prod(bounds[d] // tile[d] for d in bounds) <= 24)
    assume(sum(len(primes_of(bounds[d] // tile[d])) for d in bounds) + len(primes_of(passes)) <= 6)
    dram, shape = build_dram(row_bytes, True), LayerShape(extents(bounds), (1, 1), (1, 1))
    found = [takes(order, bounds, tile, layout, width, dram) for order in orders(bounds, box, tile, passes)]
    least = returned_runs(shape, width, dram, layout, extents(tile), extents(box), passes)
    assert least == (min(n for n, _ in found), min(n for _, n in found))


def test_two_rows_of_outputs_are_swept_twice() -> None:
    """16 outputs of a byte in rows of 8, one by one, in two passes. Each scan opens a row: 16 writes, then 16 changes
    with a write and a read, but for the last write. In the second pass 1 to 7 and 9 to 15 are read from the row of the
    output before them, and 8 and 0 are not: 47 scans less 14 rows shared.
    """
    shape = LayerShape(extents({K: 16}), (1, 1), (1, 1))
    box = extents({K: 16})
    assert returned_runs(shape, 1, build_dram(8, True), 0, (1,) * 8, box, 2).activations == 3 * 16 - 14


def test_tiles_of_too_many_orders_are_not_bounded() -> None:
    """2^40 tiles are too many to look at."""
    shape = LayerShape(extents({K: 2**20, P: 2**20}), (1, 1), (1, 1))
    assert returned_runs(shape, 1, build_dram(64, True), 0, (1,) * 8, (1,) * 8, 2) == (0, 0)
