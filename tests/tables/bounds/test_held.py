"""What scans take at least while tiles of other tensors are held: attained by some order of loops, byte by byte."""

import itertools
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tables.bounds.held import HeldRuns, held_runs
from tables.dram import Dram
from tables.factors import divisors, primes_of
from tables.nest import C, G, K, LayerShape, R, S, W
from tests.tables.nests import build_dram

#: W's dims as they lie in DRAM, outermost first, in its two layouts.
LAYOUTS = ((G, K, C, S, R), (S, R, C, G, K))
Extents = dict[int, int]


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Extents, Extents, Extents]:
    """Draw W's bounds, a box and a tile, each of divisors of the one before."""
    bounds = {d: draw(st.sampled_from([1, 2] if d == G else [1, 2, 3, 4])) for d in LAYOUTS[0]}
    box = {d: draw(st.sampled_from(divisors(n))) for d, n in bounds.items()}
    return bounds, box, {d: draw(st.sampled_from(divisors(n))) for d, n in box.items()}


def extents(of: Extents) -> tuple[int, ...]:
    """Return extents in R S P Q C K N G."""
    return tuple(of.get(d, 1) for d in range(8))


def loop_orders(box: Extents, tile: Extents) -> Iterator[list[tuple[int, int]]]:
    """Yield all orders of prime loops (dim, trips) over the tiles of a box, outermost first."""
    loops = [(d, p) for d in box for p in primes_of(box[d] // tile[d])]
    return map(list, set(itertools.permutations(loops)))


def takes(order: list[tuple[int, int]], begin: Extents, bounds: Extents, tile: Extents, layout: int, width: int,
          dram: Dram, repeats: list[int]) -> tuple[int, int]:  # fmt: skip
    """Return activations and cycles of one box, from the address of every byte.

    `repeats`: how often the loops behind each one run, as irrelevant loops there would have it.
    """
    rows: list[list[int]] = []  # row, columns
    ranges = [range(trips * again) for (_, trips), again in zip(order, repeats, strict=True)]
    for index in itertools.product(*ranges):
        at, inside = dict(begin), dict(tile)
        for (d, trips), i in reversed(list(zip(order, index, strict=True))):
            at[d] += i % trips * inside[d]
            inside[d] *= trips
        columns = set()
        for offsets in itertools.product(*(range(tile[d]) for d in LAYOUTS[layout])):
            place = 0
            for d, offset in zip(LAYOUTS[layout], offsets, strict=True):
                place = place * bounds[d] + at[d] + offset
            columns |= {byte // dram.column_bytes for byte in range(place * width, (place + 1) * width)}
        for row, of_row in itertools.groupby(sorted(columns), lambda c: c * dram.column_bytes // dram.row_bytes):
            if not rows or rows[-1][0] != row:
                rows.append([row, 0])
            rows[-1][1] += len(list(of_row))
    # Eq. 33: tRCD, the columns, tRTP and tRP, at least tRAS and tRP, at least tRC.
    runs = [max(dram.tRC, max(dram.tRAS, dram.tRCD + (n - 1) * dram.tCCD + dram.tRTP) + dram.tRP) for _, n in rows]
    return len(rows), sum(runs)


@given(boxes(), st.integers(0, 1), st.sampled_from([1, 2, 4]), st.sampled_from([8, 16, 32]), st.data())
def test_the_least_over_all_orders_of_loops(
    of: tuple[Extents, Extents, Extents], layout: int, width: int, row_bytes: int, data: st.DataObject
) -> None:
    """Exactly that without repetitions, and no less with irrelevant loops anywhere."""
    bounds, box, tile = of
    dram, shape = build_dram(row_bytes, True), LayerShape(extents(bounds), (1, 1), (1, 1))
    begins = [
        dict(zip(bounds, at, strict=True)) for at in itertools.product(*(range(0, bounds[d], box[d]) for d in bounds))
    ]

    def total(order: list[tuple[int, int]], repeats: list[int]) -> HeldRuns:
        found = [takes(order, begin, bounds, tile, layout, width, dram, repeats) for begin in begins]
        return HeldRuns(*map(sum, zip(*found, strict=True)))

    totals = [total(order, [1] * len(order)) for order in itertools.islice(loop_orders(box, tile), 150)]
    least = held_runs(shape, W, width, dram, layout, extents(tile), extents(box))
    if len(totals) < 150:
        assert least == (min(n for n, _ in totals), min(n for _, n in totals))
    order = data.draw(st.permutations(next(loop_orders(box, tile))))
    repeats = [data.draw(st.integers(1, 2)) for _ in order]
    repeated = total(order, repeats)
    assert least.activations <= repeated.activations
    assert least.cycles <= repeated.cycles


def test_two_elements_at_once_across_the_end_of_a_row() -> None:
    """W is 4 channels of 3 elements in rows of 8; a scan takes an element each of two channels, so 0 3, 1 4, 2 5 lie in
    the first row, 6 9 and 7 10 in both, 8 11 in the second one.

    Boxes of 2 channels: the first one opens a row; the second one both, both again, and then finds the second one
    open. The box of 4 channels opens 4 rows if it goes over them in this order, and in all else more.
    """
    shape, dram = LayerShape(extents({R: 3, C: 4}), (1, 1), (1, 1)), build_dram(8, True)
    found = [held_runs(shape, W, 1, dram, 0, extents({C: 2}), extents({R: 3, C: c})) for c in (2, 4)]
    assert [runs.activations for runs in found] == [1 + 4, 4]


def test_boxes_of_too_many_orders_are_not_bounded() -> None:
    """20 loops of two channels or kernels have more orders than are counted."""
    shape = LayerShape((3, 3, 1, 1, 2**10, 2**10, 1, 1), (1, 1), (1, 1))
    assert held_runs(shape, W, 1, build_dram(64, True), 0, (1,) * 8, extents({C: 2**10, K: 2**10, R: 3, S: 3})) == (
        0,
        0,
    )


def test_boxes_of_a_row_each_are_counted_by_their_places_in_a_row() -> None:
    """2^20 kernels of 2^20 channels, a byte each, in rows of 64: as many rows as boxes."""
    shape = LayerShape(extents({C: 2**20, K: 2**20}), (1, 1), (1, 1))
    assert held_runs(shape, W, 1, build_dram(64, True), 0, (1,) * 8, extents({C: 64})).activations == 2**34
