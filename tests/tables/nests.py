"""Nests in shorthand for the estimators' tests."""

from typing import Any

from tables.dram import Dram
from tables.nest import Nest
from tests.shorthand import read_loops, read_stored

I, W, O = range(3)  # noqa: E741 -- the field's letters

DRAM = Dram(64, 16, 1, True, 14, 14, 33, 47, 5, 4, 25, 4)

#: I is 10 x 4, its tiles 4 x 4 = 16 bytes at 0, 8, 16, 24 (Q moves 2 lines of 4), one for each of 3 * 2 Ks in turn.
WINDOWS = "3Q4 3K3 2K2 1Q2 1S3 1P4"

#: W is K = 4, C = 16: 64 bytes; its row-buffer tile K = 1, C = 16: 16 bytes. Irrelevant are N2 outside K4, P5 inside
#: it, Q3 outside C2, P7 inside it.
WEIGHTS = "3N2 3K4 3P5 2Q3 2C2 2P7 1C8"


def build_nest(loops: str, stored: str = "1 1 1", **fields: Any) -> Nest:
    """Return a nest from its loops and the levels that store I, W and O.

    One byte an element, stride and dilation 1 unless said.
    """
    temporal, spatial, order = (tuple(map(tuple, rows)) for rows in read_loops(loops))
    nest = Nest(
        temporal=temporal,
        spatial=spatial,
        order=order,
        stored=tuple(map(tuple, read_stored(stored))),
        layout=(0, 0, 0),
        block_h=0,
        block_w=0,
        stride=(1, 1),
        dilation=(1, 1),
        width_bytes=(1, 1, 1, 1),
    )
    return nest._replace(**fields)


def build_dram(row_bytes: int, is_open: bool = False, banks: int = 1) -> Dram:
    """Return a device with columns of 4 bytes (or the row, if smaller); no estimator looks at the timings."""
    return Dram(row_bytes, min(4, row_bytes), banks, is_open, 3, 4, 10, 20, 2, 2, 5, 2)
