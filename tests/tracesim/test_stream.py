"""The column accesses one by one: which they are, in which order, and that the buffer's size does not matter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tracesim.nests import FREE_DEVICE, build_nest, rich_case, uneven_case
from tracesim import Placement, simulate
from tracesim.stream import ADDRESS, IS_WRITE, TENSOR, stream_columns

NAMES = ("IWO", "iwo")
FIRST_ORDERS = Placement(np.zeros(3, np.int64), 2, 2)


def accesses(loops: str, stored: str, outside: str = "") -> list[tuple[str, int]]:
    """Return tensors, a written one in lower case, with addresses; a column is an element."""
    nest = build_nest(loops, stored, outside=outside)
    stream = stream_columns(nest, FIRST_ORDERS, FREE_DEVICE._replace(column_bytes=1))
    columns = np.concatenate([*stream.bufferfuls]).tolist()
    return [(NAMES[way][tensor], address) for tensor, way, address in columns]


def test_tiles_come_in_the_order_of_the_nest() -> None:
    """O's old tile leaves before the new one comes, which is read if it was there before; I stays while K changes."""
    assert accesses("3C2 3K2", "0 0 0") == [
        *[("I", 0), ("W", 0)],  # W lies in order k, c
        *[("W", 2), ("o", 0)],
        *[("I", 1), ("W", 1), ("o", 1), ("O", 0)],
        *[("W", 3), ("o", 0), ("O", 1)],
        ("o", 1),
    ]


def test_uneven_tiles_come_within_a_level() -> None:
    """PEs hold W and O for one k at a time, I for all: it comes once. C outside K brings O's tiles back."""
    assert accesses("0K2 0C2", "0 0 0", "0W1 0O1") == [
        *[("I", 0), ("I", 1), ("W", 0), ("W", 1)],
        *[("W", 2), ("W", 3), ("o", 0)],
        ("o", 1),
    ]
    assert accesses("0C2 0K2", "0 0 0", "0O2") == [
        *[("I", 0), ("I", 1), *(("W", a) for a in range(4))],
        *[("o", 0), ("o", 1), ("O", 0), ("o", 0), ("O", 1), ("o", 1)],
    ]


def test_what_nothing_stores_is_taken_step_by_step() -> None:
    """The sum is read before it is written, but for its first term; I's two columns are those of one step's lanes."""
    assert accesses("0C2 LP2", "- 1 -") == [
        *[("W", 0), ("W", 1)],
        *[("I", 0), ("I", 1), ("o", 0), ("o", 1)],
        *[("I", 2), ("I", 3), ("O", 0), ("O", 1), ("o", 0), ("o", 1)],
    ]


def test_column_is_accessed_once_in_a_scan() -> None:
    """Six bytes from byte 0 in columns of 4: bytes 0 and 4 are the columns' first ones."""
    nest = build_nest("0K6", "0 0 0")
    columns = np.concatenate([*stream_columns(nest, FIRST_ORDERS, FREE_DEVICE).bufferfuls])
    assert columns[columns[:, TENSOR] == 1].tolist() == [[1, 0, 0], [1, 0, 4]]


def test_rows_reach_to_the_end_of_the_last_block() -> None:
    """A row has 64 bytes: 100 sequential weights take 2; 9 x 1 blocks of 2 x 2 inputs, 16 a row, take 1."""
    stream = stream_columns(build_nest("3P9 2P2 0K100", "2 0 0"), FIRST_ORDERS, FREE_DEVICE)
    assert stream.rows.tolist() == [1, 2, -(-18 * 100 // 64)]


@pytest.mark.parametrize("build_case", [rich_case, uneven_case])
@pytest.mark.parametrize("size", [1, 2, 50, 10**6])
def test_size_of_the_buffer_changes_nothing(size: int, build_case: Callable[[], Any]) -> None:
    """Bufferfuls of any size, put together, are the same accesses, and as many as are simulated."""
    whole = np.concatenate([buffer.copy() for buffer in stream_columns(*build_case()).bufferfuls])
    parts = [buffer.copy() for buffer in stream_columns(*build_case(), size=size).bufferfuls]
    assert np.array_equal(np.concatenate(parts), whole)
    assert all(len(part) >= size for part in parts[:-1])
    assert np.bincount(whole[:, TENSOR]).tolist() == simulate(*build_case()).columns.tolist()
    assert set(whole[whole[:, TENSOR] < 2, IS_WRITE]) == {0}
    assert (whole[:, ADDRESS] % 8 == 0).all()
