"""Tensors in one bank: what they close for each other, by hand and by replaying the column accesses one by one.

Elements are one byte unless said, a column is 4 bytes, a row 8.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tracesim.nests import O, build_nest, rich_case, uneven_case
from tests.tracesim.test_dram import DEVICE
from tracesim import Device, Nest, Placement, Trace, simulate
from tracesim.stream import ADDRESS, TENSOR, stream_columns

PARTS = {"I|W|O": (0, 1, 2), "IW|O": (0, 0, 1), "IO|W": (0, 1, 0), "I|WO": (0, 1, 1), "IWO": (0, 0, 0)}
#: tRCD 3, tRP 4, tRAS 10, tRC 20, tRTP 2, tCCD 2, RL 5, BL 4: a run of one or two columns, and the last one.
PERIOD, LAST = 20, 3 + 5 + 2


def run(loops: str, parts: str, stored: str = "0 0 0", **rules: Any) -> Trace:
    """Simulate a nest whose tensors share banks."""
    placement = Placement(np.zeros(3, np.int64), 1, 1, np.array(PARTS[parts]))
    return simulate(build_nest(loops, stored), placement, DEVICE._replace(**rules))


@pytest.mark.parametrize(
    ("parts", "activations"),
    [
        # Eight C outside four K in the PEs: I's byte c, W's four bytes of c from 4c on (SRCGK is not used: GKCSR has
        # K outside C, so they are bytes c, 8 + c, ...: four rows), O's four bytes once. Alone: I 1, W 4 rows x 8, O 1.
        ("I|W|O", [1, 32, 1]),
        # I's fetch c comes between W's fetches c - 1 and c, and opens its row again each time; W's rows change anyway.
        ("IW|O", [8, 32, 1]),
        # O comes once, at the end.
        ("IO|W", [1, 32, 1]),
        ("IWO", [8, 32, 1]),
    ],
)
def test_scans_of_another_tensor_close_the_row(parts: str, activations: list[int]) -> None:
    """Two operands that are fetched in turn from one bank open a row each time."""
    trace = run("3C8 0K4", parts)
    assert trace.activations.tolist() == activations
    assert trace.columns.tolist() == [8, 32, 1]


def test_scans_between_which_nothing_lies_keep_the_row() -> None:
    """I has four fetches per K, of a row of 4 bytes; W one per K and C.

    K outside C: I's and W's fetches alternate, so each opens a row. C outside K: I has one fetch per C, two of W (k =
    0, 1) between two of them: W's second fetch follows its first one, but in another row of 4 bytes.
    """
    assert run("3K2 3C4", "IW|O", row_bytes=4).activations[:2].tolist() == [8, 8]
    assert run("3C4 3K2", "IW|O", row_bytes=4).activations[:2].tolist() == [4, 8]
    # Rows of 8 bytes hold both of W: the second fetch of each C finds the row open that the first one opened.
    assert run("3C4 3K2", "IW|O").activations[:2].tolist() == [4, 4]


def test_sums_that_return_find_their_own_row_only() -> None:
    """C outside K brings O's two bytes back, in one row: I|W|O opens it once. Each fetch of I or W is in between.

    Steps: k0; k1; c1 k0; c1 k1. O is written when k1 comes, and when c1 comes, and so on: write, (read,) four writes
    and two reads. In a bank with W each step's old and new tile follow a fetch of W, and the last write follows O's own
    read: 3 activations. With I: of the fetches at the start and at c1 only the latter lies between two scans of O.
    """
    assert run("3C2 3K2", "I|W|O").activations[O] == 1
    assert run("3C2 3K2", "I|WO").activations[O] == 3
    assert run("3C2 3K2", "IO|W").activations[O] == 2


def test_what_macs_draw_is_merged_step_by_step() -> None:
    """Eight steps draw I and W in turn: a row each time. Alone each opens one."""
    assert run("0C8", "I|W|O", "- - 0").activations.tolist() == [1, 1, 1]
    assert run("0C8", "IW|O", "- - 0").activations.tolist() == [8, 8, 1]


def test_time_is_that_of_the_merged_runs() -> None:
    """Sixteen runs of a column, of which the last one is not closed; O alone has one."""
    trace = run("0C8", "IW|O", "- - 0")
    assert trace.stream_cycles.tolist() == [15 * PERIOD + LAST, 15 * PERIOD + LAST, LAST]
    assert trace.dram_cycles == 15 * PERIOD + LAST
    assert run("0C8", "IW|O", "- - 0", shared_bus=True).dram_cycles == 15 * PERIOD + 2 * LAST


def test_one_bank_is_one_link() -> None:
    """Tiles of I and W, a column each, are loaded one after the other from one bank, at once from two; O leaves."""
    apart, together = run("0C4", "I|W|O").latency_cycles, run("0C4", "IW|O").latency_cycles
    assert apart == LAST + 4 + LAST  # the load, four steps, the write-out
    # W's scan adds what the bank needs until W's data is there: a period of I's run, then the last run, less I's own.
    assert together == (PERIOD + LAST) + 4 + LAST


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("banks", [1, 2, 3])
@pytest.mark.parametrize("counts", [(1, 1, 1), (1, 3, 2), (4, 1, 1)])
@pytest.mark.parametrize("open_page", [True, False])
@pytest.mark.parametrize("build_case", [rich_case, uneven_case])
def test_counts_are_those_of_the_merged_columns(
    build_case: Callable[[], tuple[Nest, Placement, Device]],
    open_page: bool,
    counts: tuple[int, ...],
    banks: int,
    parts: str,
) -> None:
    """Replay of all column accesses in order, with one open row a bank, each tensor in rows of its own."""
    counts = tuple(counts[part] for part in PARTS[parts])  # of the tensor's part
    nest, placement, device = build_case()
    placement = placement._replace(part=np.array(PARTS[parts]), bank_counts=np.array(counts))
    device = device._replace(banks=banks, open_page=True)
    columns = np.concatenate([buffer.copy() for buffer in stream_columns(nest, placement, device).bufferfuls])
    open_rows: dict[tuple[int, int], tuple[int, int]] = {}
    activations = [0, 0, 0]
    for tensor, address in columns[:, [TENSOR, ADDRESS]].tolist():
        row = address // device.row_bytes
        bank = PARTS[parts][tensor], row % (banks * counts[tensor])
        activations[tensor] += open_rows.get(bank) != (tensor, row)
        open_rows[bank] = tensor, row
    if open_page:
        assert simulate(nest, placement, device).activations.tolist() == activations
    else:  # nothing stays open, whoever shares the banks
        closed = device._replace(open_page=False)
        own = simulate(nest, placement._replace(part=np.arange(3)), closed)
        assert simulate(nest, placement, closed).activations.tolist() == own.activations.tolist()


def test_what_does_not_depend_on_the_banks() -> None:
    """Accesses, columns and compute cycles; the unit that computes never knows where a tensor lies."""
    nest, placement, device = rich_case()
    traces = [simulate(nest, placement._replace(part=np.array(part)), device) for part in PARTS.values()]
    for one, other in itertools.pairwise(traces):
        assert (one.accesses == other.accesses).all()
        assert (one.columns == other.columns).all()
        assert one.compute_cycles == other.compute_cycles


def test_tensors_of_a_part_have_the_same_banks() -> None:
    """I and W in one bank and in two at once is no placement."""
    shared = Placement(np.zeros(3, np.int64), 1, 1, np.array(PARTS["IW|O"]), np.array([1, 2, 1]))
    with pytest.raises(
        ValueError, match=r"Placement.bank_counts: must be equal in a part \[0, 0, 1\] \(got \[1, 2, 1\]"
    ):
        simulate(build_nest("1C2"), shared, DEVICE)


def test_parts_are_numbered_from_0_to_2() -> None:
    """Anything else is no placement."""
    with pytest.raises(ValueError, match=r"Placement.part: must be 0 to 2 \(got \[0, 1, 3\]\)"):
        simulate(build_nest("1C2"), Placement(np.zeros(3, np.int64), 1, 1, np.array([0, 1, 3])), DEVICE)
