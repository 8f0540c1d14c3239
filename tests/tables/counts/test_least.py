"""Activations that a stream has at least by the rows that its loops pass over: never more than a walk counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.counts.least import least_activations, least_cycles
from tables.counts.visits import SEQUENTIAL, Tile
from tables.counts.walk import NO_INTERRUPTION, NO_OVERLAP, StreamCounts, StreamLimit, walk_stream
from tables.dram import Dram
from tables.nest import Ints
from tests.tables.nests import build_dram

NONE = np.zeros(5, np.int64)
loops_and_strides = st.lists(st.tuples(st.integers(2, 6), st.sampled_from((0, 1, 4, 16, 48, 64, 80, 256))), max_size=4)
starts = st.sets(st.sampled_from((0, 4, 16, 60, 64, 128, 150, 200)), min_size=1).map(sorted)

#: tRCD tRP tRAS tRC tRTP tCCD RL burst, in all proportions.
timings = st.lists(st.integers(0, 12), min_size=8, max_size=8)


def stream_of(drawn: list[tuple[int, int]], starts: list[int]) -> tuple[Ints, Ints, Tile]:
    """Return loops, steps and tile of a stream, as `walk_stream` takes them: elements of a byte at some starts."""
    loops = np.array([(factor, int(stride == 0)) for factor, stride in drawn], np.int64).reshape(-1, 2)
    steps = np.array([(stride, 0, 0, 0, 0) for _, stride in drawn], np.int64).reshape(-1, 5)
    segments = np.array([(start, 1) for start in starts], np.int64)
    return loops, steps, Tile(SEQUENTIAL, segments, 0, NONE, NONE, NONE, False, 1)


def opened_rows(loops: Ints, steps: Ints, tile: Tile, dram: Dram) -> list[int]:
    """Return the rows that the scans of a stream open in one bank, scan by scan and byte by byte."""
    opened = [-1]
    for index in np.ndindex(*loops[:, 0].tolist()):
        base = sum(i * step for i, step in zip(index, steps[:, 0].tolist(), strict=True))
        rows = [(base + start) // dram.row_bytes for start in tile.segments[:, 0].tolist()]
        opened += [row for last, row in zip([opened[-1], *rows], rows, strict=False) if row != last]
    return opened[1:]


@given(drawn=loops_and_strides, starts=starts)
def test_no_stream_opens_fewer_rows(drawn: list[tuple[int, int]], starts: list[int]) -> None:
    """In any order of loops, with strides shorter and longer than a row, and for tiles of several rows."""
    stream, dram = stream_of(drawn, starts), build_dram(64, is_open=True)
    assert least_activations(*stream, dram) <= len(opened_rows(*stream, dram))


@pytest.mark.parametrize(("order", "least"), [([(4, 16), (3, 0)], 1), ([(3, 0), (8, 16)], 4), ([(5, 0), (4, 64)], 16)])
def test_passes_over_rows_are_counted_by_hand(order: list[tuple[int, int]], least: int) -> None:
    """Bytes of one row; three passes over two rows, less one a pass, and one; five passes over four rows alike."""
    assert least_activations(*stream_of(order, [0]), build_dram(64, is_open=True)) == least


def test_several_banks_claim_nothing() -> None:
    """Each bank keeps a row open."""
    assert least_activations(*stream_of([(5, 0), (4, 64)], [0]), build_dram(64, is_open=True, banks=2)) == 0


def taken_cycles(loops: Ints, steps: Ints, tile: Tile, dram: Dram) -> int:
    """Return the cycles of a stream by its runs of columns in one open row (docs/model.md, section 5)."""
    runs, row = list[int](), -1
    for index in np.ndindex(*loops[:, 0].tolist()):
        base = sum(i * step for i, step in zip(index, steps[:, 0].tolist(), strict=True))
        for column in sorted({(base + start) // dram.column_bytes for start in tile.segments[:, 0].tolist()}):
            last, row = row, column * dram.column_bytes // dram.row_bytes
            if row != last:
                runs.append(0)
            runs[-1] += 1
    spans = [dram.tRCD + (columns - 1) * dram.tCCD for columns in runs]
    closed = [max(dram.tRC, max(dram.tRAS, span + dram.tRTP) + dram.tRP) for span in spans[:-1]]
    return sum(closed) + spans[-1] + dram.RL + dram.burst


@given(
    drawn=loops_and_strides, starts=starts, timing=timings, activations=st.integers(0, 40), cycles=st.integers(0, 400)
)
def test_streams_beyond_a_limit_are_said_to_be(
    drawn: list[tuple[int, int]], starts: list[int], timing: list[int], activations: int, cycles: int
) -> None:
    """With a limit a walk returns the same as without, or figures beyond the limit where those are beyond it."""
    (loops, steps, tile), dram = stream_of(drawn, starts), build_dram(64, is_open=True)
    dram = Dram(*dram[:4], *timing)
    stream = (loops, steps, tile, False, False, NO_OVERLAP, dram)
    nothing = np.zeros(1, np.int64)
    exact = StreamCounts(*walk_stream(*stream, StreamLimit(2**60, 2**60), NO_INTERRUPTION, nothing))
    true = taken_cycles(loops, steps, tile, dram)
    assert (exact.activations, exact.cycles) == (len(opened_rows(loops, steps, tile, dram)), true)
    assert true >= least_cycles(exact.columns, least_activations(loops, steps, tile, dram), dram)
    limit = StreamLimit(activations, cycles)
    found = StreamCounts(*walk_stream(*stream, limit, NO_INTERRUPTION, nothing))
    assert limit.admits(found) == limit.admits(exact)
    assert found == exact or not limit.admits(exact)
