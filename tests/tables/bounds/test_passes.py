"""Row activations and cycles of the best order: lower bounds for every order, and attained by one."""

import itertools
import math
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.bounds.passes import min_activations, min_cycles
from tables.counts import stream, walk
from tables.counts.accesses import fetches
from tables.counts.stream import dram_stream
from tables.counts.walk import INFINITE_CYCLES, NO_STREAM_LIMIT, StreamLimit
from tables.factors import divisors
from tables.nest import GLOBAL_BUFFER, IRRELEVANT, C, I, K, LayerShape, Nest, O, P, Q, W
from tests.tables.nests import build_dram

ONES = (1,) * 8
SQUARE = (1, 1)
#: Two lines of four elements: W of K = 2, C = 4.
LINES = LayerShape((1, 1, 3, 1, 4, 2, 1, 1), SQUARE, SQUARE)


def of_weights(c: int, k: int) -> tuple[int, ...]:
    """Return the extents of a tile of weights."""
    return (1, 1, 1, 1, c, k, 1, 1)


@pytest.mark.parametrize(
    ("banks", "channels", "passes", "expected"),
    [
        # Line by line each row is opened once.
        (1, 1, 1, 4),
        # Passes may go over the two elements of a row; over two rows of one bank, which close each other each time; or
        # over two of two banks, which stay open, the two of a line.
        (1, 1, 3, 4),
        (1, 2, 3, 12),
        (2, 2, 3, 4),
        # Passes over whole lines, the smallest box but for the tensor: two rows each.
        (1, 4, 3, 12),
        (4, 4, 3, 4),
    ],
)
def test_tiles_of_a_few_rows(banks: int, channels: int, passes: int, expected: int) -> None:
    """Eight elements in four rows of two bytes; tiles of some channels of one kernel."""
    assert min_activations(LINES, W, 1, build_dram(2, True, banks), [0], of_weights(channels, 1), passes) == expected


def test_the_best_layout_counts() -> None:
    """Tiles of two kernels: in one layout they lie four bytes apart and open two rows, in the other they open one."""
    dram, tile = build_dram(2, True), of_weights(1, 2)
    assert [min_activations(LINES, W, 1, dram, [layout], tile, 1) for layout in (0, 1)] == [8, 4]
    assert min_activations(LINES, W, 1, dram, [0, 1], tile, 1) == 4


def test_too_many_orders_are_not_counted() -> None:
    """Neither of 60 loops, nor of a single loop with too many iterations."""
    many, long = ((1, 1, 1, 1, 2**30, 2**30, 1, 1), (1, 1, 1, 1, 2**40, 1, 1, 1))
    for bounds in (many, long):
        assert min_activations(LayerShape(bounds, SQUARE, SQUARE), W, 1, build_dram(2, True), [0], ONES, 1) is None


@st.composite
def nests(draw: st.DrawFn) -> tuple[LayerShape, Nest]:
    """Tiles in the global buffer within loops of the row buffer and the DRAM, in any order."""
    most = {P: 6, Q: 4, C: 8, K: 6}
    bounds = tuple(draw(st.integers(1, most.get(d, 2))) for d in range(8))
    shape = LayerShape(bounds, draw(st.sampled_from([SQUARE, (2, 1)])), draw(st.sampled_from([SQUARE, (1, 2)])))
    outer = tuple(draw(st.sampled_from(divisors(n))) for n in bounds)
    middle = tuple(draw(st.sampled_from(divisors(n // o))) for n, o in zip(bounds, outer, strict=True))
    inner = tuple(n // (o * m) for n, o, m in zip(bounds, outer, middle, strict=True))
    orders = tuple(
        tuple(draw(st.permutations([d for d in range(8) if level[d] > 1]))) for level in (inner, ONES, middle, outer)
    )
    layout = tuple(draw(st.tuples(*[st.integers(0, 1)] * 3)))
    return shape, in_global_buffer(shape, (inner, ONES, middle, outer), orders, layout)


def in_global_buffer(
    shape: LayerShape,
    temporal: tuple[tuple[int, ...], ...],
    order: tuple[tuple[int, ...], ...],
    layout: tuple[int, ...],
) -> Nest:
    """A nest whose tensors come from DRAM into the global buffer, in bytes."""
    return Nest(
        temporal=temporal,
        spatial=(ONES,) * 3,
        order=order,
        stored=((False,) * 3, (True,) * 3, (False,) * 3),
        layout=layout,
        block_h=0,
        block_w=0,
        stride=shape.stride,
        dilation=shape.dilation,
        width_bytes=(1, 1, 1, 1),
    )


def passes_of(shape: LayerShape, nest: Nest, t: int) -> int:
    """Return how often each tile is fetched."""
    tiles = [shape.bounds[d] // nest.extent(GLOBAL_BUFFER, d) for d in range(8) if d not in IRRELEVANT[t]]
    return fetches(nest, t, GLOBAL_BUFFER) // math.prod(tiles)


@given(nests(), st.sampled_from([I, W, O]), st.sampled_from([1, 2, 4]), st.sampled_from([2, 4, 8, 32]), st.booleans())
def test_bounds_hold_for_any_stream(
    case: tuple[LayerShape, Nest], t: int, banks: int, row_bytes: int, is_open: bool
) -> None:
    """Whatever the loops outside the tile and their order; the bound on cycles where each tile is fetched once."""
    (shape, nest), dram = case, build_dram(row_bytes, is_open, banks)
    tile, passes = tuple(nest.extent(GLOBAL_BUFFER, d) for d in range(8)), passes_of(shape, nest, t)
    stream, layouts = dram_stream(nest, t, dram), [nest.layout[t]]
    rows = min_activations(shape, t, 1, dram, layouts, tile, passes)
    cycles = min_cycles(shape, t, 1, dram, layouts, tile, NO_STREAM_LIMIT)
    assert rows is None or stream.activations >= rows
    assert cycles is None or passes > 1 or stream.cycles >= cycles


def test_cycles_beyond_the_limit_are_not_counted() -> None:
    """Eight tiles of one element. Below the minimum the result is one cycle more than the limit."""
    dram, tile = build_dram(2, True), of_weights(1, 1)
    minimum = min_cycles(LINES, W, 1, dram, [0, 1], tile, NO_STREAM_LIMIT)
    assert minimum is not None
    assert min_cycles(LINES, W, 1, dram, [0, 1], tile, StreamLimit(INFINITE_CYCLES, minimum)) == minimum
    assert min_cycles(LINES, W, 1, dram, [0, 1], tile, StreamLimit(INFINITE_CYCLES, minimum - 1)) == minimum
    assert min_cycles(LINES, W, 1, dram, [0, 1], tile, StreamLimit(INFINITE_CYCLES, minimum - 3)) == minimum - 2


@given(nests(), st.sampled_from([I, W, O]), st.sampled_from([1, 4]), st.sampled_from([2, 4, 8]), st.integers(0, 9))
def test_visits_that_are_found_anew_are_the_same(
    case: tuple[LayerShape, Nest], t: int, banks: int, row_bytes: int, most: int
) -> None:
    """Only some visits are kept at a time; the others are found again when they are needed."""
    (_, nest), dram = case, build_dram(row_bytes, True, banks)
    whole = dram_stream(nest, t, dram)
    with patch.object(walk, "_MAX_VISITS", most), patch.object(stream, "walk_stream", walk.walk_stream.py_func):
        assert dram_stream(nest, t, dram) == whole


@given(nests(), st.sampled_from([I, W, O]), st.sampled_from([1, 4]), st.integers(-40, 40), st.integers(-3, 3))
def test_a_stream_within_its_limit_is_counted_to_its_end(
    case: tuple[LayerShape, Nest], t: int, banks: int, cycles: int, activations: int
) -> None:
    """Then the counts are those without a limit. Beyond the limit, the counts exceed it, too."""
    (_, nest), dram = case, build_dram(4, True, banks)
    whole = dram_stream(nest, t, dram)
    limit = StreamLimit(whole.activations + activations, whole.cycles + cycles)
    counted = dram_stream(nest, t, dram, limit=limit)
    assert limit.admits(counted) == limit.admits(whole)
    if limit.admits(whole):
        assert counted == whole


@pytest.mark.parametrize("t", [I, W, O])
@pytest.mark.parametrize("banks", [1, 2, 4])
def test_bounds_are_attained(t: int, banks: int) -> None:
    """Over all orders of two loops of each of two dims (the bounds have two primes), each tile fetched once."""
    shape = LayerShape((1, 1, 4 if t != W else 1, 1, 6 if t != O else 1, 6 if t != I else 1, 1, 1), SQUARE, SQUARE)
    dims = [d for d in (P, C, K) if shape.bounds[d] > 1]
    dram, counts, cycles = build_dram(4, True, banks), [], []
    splits = [[(n // m, m) for m in divisors(n)] for n in (shape.bounds[d] for d in dims)]
    for split in itertools.product(*splits):
        outer, middle = (
            tuple(dict(zip(dims, part, strict=True)).get(d, 1) for d in range(8)) for part in zip(*split, strict=True)
        )
        loops = [[d for d in dims if level[d] > 1] for level in (middle, outer)]
        for inside, outside in itertools.product(*(itertools.permutations(of) for of in loops)):
            nest = in_global_buffer(shape, (ONES, ONES, middle, outer), ((), (), inside, outside), (0, 0, 0))
            stream = dram_stream(nest, t, dram)
            counts.append(stream.activations)
            cycles.append(stream.cycles)
    assert min(cycles) == min_cycles(shape, t, 1, dram, [0], ONES, NO_STREAM_LIMIT)
    assert min(cycles) < max(cycles)
    assert min(counts) == min_activations(shape, t, 1, dram, [0], ONES, 1)
    assert min(counts) < max(counts)
