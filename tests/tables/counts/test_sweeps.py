"""Sweeps of a stream that are recalled count what walking over each of them counts."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.counts import stream, walk
from tables.counts.stream import ArrayTiming, dram_stream
from tables.counts.sweeps import Sweeps, keeping, new_sweeps
from tables.counts.visits import Tile
from tables.counts.walk import StreamCounts
from tables.dram import Dram
from tables.nest import Ints, Nest
from tests.tables.counts.test_interruption import nests
from tests.tables.nests import I, O, W, build_dram, build_nest


def count(nest: Nest, t: int, dram: Dram, timing: ArrayTiming, outer: int) -> StreamCounts:
    """Count a stream with sweeps inside its first loops, if it has one more; 0 keeps none."""

    def sweeps(loops: Ints, _steps: Ints, patterns: int, _tile: Tile, _dram: Dram) -> Sweeps:
        kept = outer if outer < len(loops) else 0
        return keeping(kept, patterns)

    with patch.object(walk, "new_sweeps", sweeps), patch.object(stream, "walk_stream", walk.walk_stream.py_func):
        return dram_stream(nest, t, dram, timing)


@given(nests(), st.sampled_from([I, W, O]), st.sampled_from([8, 12, 16, 64]), st.booleans(), st.integers(1, 20))
def test_recalled_sweeps_count_what_a_walk_counts(nest: Nest, t: int, row: int, is_open: bool, cycles: int) -> None:
    """Inside any number of loops, with rows closed or left open, with stall cycles of faster and slower arrays."""
    nest, dram = nest._replace(block_h=1, block_w=1), build_dram(row, is_open)
    timing = ArrayTiming(64 * cycles, (bool(cycles % 2), bool(cycles % 3), False))
    whole = count(nest, t, dram, timing, 0)
    assert [count(nest, t, dram, timing, outer) for outer in range(1, 6)] == [whole] * 5


@pytest.mark.parametrize(("loops", "outer"), [("3P9 3K8 3C256", 2), ("3K256 3C64", 1), ("3K250 3C66", 0)])
def test_sweeps_are_kept_where_few_differ(loops: str, outer: int) -> None:
    """W in rows of 256 bytes: K moves by 256, 64 or 66 bytes, so sweeps of C begin at one of 1, 4 or 128 bytes."""
    with patch.object(stream, "walk_stream", wraps=walk.walk_stream) as walked:
        dram_stream(build_nest(loops, stored="1 0 1"), W, build_dram(256))
    arguments = walked.call_args.args
    assert new_sweeps(*arguments[:2], 256, arguments[2], build_dram(256)).outer == outer
