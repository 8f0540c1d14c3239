"""The walk over a stream: repetitions that are skipped, counts that are kept, and a walk that is stopped."""

from unittest.mock import patch

import numpy as np
import pytest

from tables.counts import stream, walk
from tables.counts.stream import LONG_SCANS, Stopped, dram_stream
from tests.tables.nests import W, build_dram, build_nest

#: W is K = 700, C = 600, scanned byte by byte.
BYTES = "3K700 3C600"


@pytest.mark.parametrize("banks", [1, 4])
def test_repetitions_after_many_iterations_are_skipped(banks: int) -> None:
    """Bytes begin a row of 256 bytes anew after 256 iterations. A walk that skips nothing counts the same."""
    nest, dram = build_nest("3K3 3C600", stored="1 0 1"), build_dram(256, True, banks)
    with patch.object(walk, "skip_recurrence"), patch.object(stream, "walk_stream", walk.walk_stream.py_func):
        whole = dram_stream(nest, W, dram)
    assert dram_stream(nest, W, dram) == whole
    assert (whole.columns, whole.activations) == (3 * 600, -(-3 * 600 // 256))


def test_long_streams_are_counted_once() -> None:
    """Equal loops and bytes give equal counts, so an incumbent that is recosted takes no second walk."""
    nest, dram = build_nest(BYTES, stored="1 0 1"), build_dram(512)
    assert LONG_SCANS <= 700 * 600
    with patch.object(stream, "walk_stream", wraps=walk.walk_stream) as walked:
        first = dram_stream(nest, W, dram)
        assert dram_stream(nest, W, dram) == first
        dram_stream(nest, W, build_dram(512, banks=2))
    assert walked.call_count == 2


def test_a_stopped_count_gives_none() -> None:
    """What was counted until then is no count, and is not kept."""
    nest, dram = build_nest(BYTES, stored="1 0 1"), build_dram(128, is_open=True)
    with pytest.raises(Stopped):
        dram_stream(nest, W, dram, stop=np.ones(1, np.int64))
    assert dram_stream(nest, W, dram).activations == -(-700 * 600 // 128)
