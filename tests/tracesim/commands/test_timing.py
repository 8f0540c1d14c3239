"""Commands are issued when the device allows it: by hand, and for all pairs of commands of random streams."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.device import Device, read_device
from cpsat_pim.device.rules import rules_of
from tests.tracesim.commands.legality import (
    broken_barriers,
    broken_constraints,
    broken_rows,
    broken_slots,
    issued_commands,
)
from tests.tracesim.commands.streams import BARRIER, GENERATORS, Access, to_stream
from tracesim.commands import Policy, Rules, Stream, simulate

ALL = (0, 0, 0, 0, 0)


@cache
def known(name: str) -> tuple[Device, Rules]:
    """Return a device and its rules."""
    device = read_device(name)
    return device, rules_of(device)


def macs(count: int, row_columns: int = 32) -> list[Access]:
    """Return MACs over consecutive columns."""
    return [Access("MACAB", ALL, i // row_columns, i % row_columns) for i in range(count)]


def test_one_row_of_macs_by_hand() -> None:
    """ACTAB in tick 1, first MAC nRCDRD = 19 later, the other three every nCCDAB = 6 ticks."""
    device, rules = known("attacc")
    trace = simulate(rules, to_stream(device, macs(4)))
    assert trace.inserted.tolist() == [[1, device.command("ACTAB"), 0]]
    assert trace.issue.tolist() == [20, 26, 32, 38]
    assert trace.finish == 38


def test_next_row_by_hand() -> None:
    """Two rows of 4: PREA at max(1 + nRAS, 38 + nRTPL) = 46, ACTAB nRP = 19 later but nRC = 63 after tick 1: 65."""
    device, rules = known("attacc")
    trace = simulate(rules, to_stream(device, macs(8, row_columns=4)))
    assert trace.inserted[1:, 0].tolist() == [46, 65]
    assert trace.issue[4] == 65 + 19
    assert trace.counts[device.command("MACAB")] == 8


def test_moves_run_beside_macs() -> None:
    """Moves need no row: WRGBs start in tick 1, one every nCCDL = 4 ticks in one bank group, beside the ACTAB."""
    device, rules = known("attacc")
    fills = [Access("WRGB", (0, 0, 0, bank, 0)) for bank in range(4)]
    trace = simulate(rules, to_stream(device, [*fills, *macs(2)]))
    assert trace.issue.tolist() == [1, 5, 9, 13, 20, 26]
    assert trace.inserted[0, 0] == 1


def test_barrier_holds_macs_back() -> None:
    """The row opens before the barrier; the MAC is issued in the tick after the last fill."""
    device, rules = known("attacc")
    fills = [Access("WRGB", (0, 0, 0, 0, 0)) for _ in range(8)]
    trace = simulate(rules, to_stream(device, [*fills, BARRIER, *macs(1)]))
    assert trace.issue.tolist() == [1, 5, 9, 13, 17, 21, 25, 29, 30]
    assert trace.inserted[0, 0] == 1


def test_refresh_closes_and_delays() -> None:
    """Both pseudo-channels are refreshed every nREFI ticks; the next ACTAB comes nRFC = 456 ticks after the first."""
    device, rules = known("attacc")
    stream = to_stream(device, macs(2000))
    trace = simulate(rules, stream, refresh=True)
    refreshes = trace.inserted[trace.inserted[:, 1] == device.command("REFAB"), 0]
    activations = trace.inserted[trace.inserted[:, 1] == device.command("ACTAB"), 0]
    assert len(refreshes) == 2 * (trace.finish // 5070)
    assert activations[activations > refreshes[1]].min() == refreshes[0] + 456
    assert trace.finish > simulate(rules, stream).finish + 456


def test_aim_changes_its_mode() -> None:
    """WRGB needs register mode: TMOD in tick 1, WRGB 32 later. MAC16 needs bank mode: TMOD, 32 ticks, ACT16, 56 ticks.

    RDMAC16 may follow nCCDL = 2 ticks after the MAC; then comes TMOD, and RDMAC16 32 ticks later.
    """
    device, rules = known("gddr6-aim")
    accesses = [Access("WRGB", (-1, -1, 0)), Access("MAC16", (-1, -1, 0), 3), Access("RDMAC16", (-1, -1, 0))]
    trace = simulate(rules, to_stream(device, accesses))
    assert trace.issue.tolist() == [33, 34 + 32 + 56, 122 + 2 + 32]
    names = [device.commands[command].name for command in trace.inserted[:, 1]]
    assert names == ["TMOD", "TMOD", "ACT16", "TMOD"]
    assert trace.finish == 156 + 2


def test_hbm_read_by_hand() -> None:
    """One tick in the entry queue, ACT in tick 2, RD tRCDRD = 14 later, data RL + BL/2 + 1 = 23 ticks after that."""
    device, rules = known("hbm-pim")
    trace = simulate(rules, to_stream(device, [Access("RD", (0, 1, 0, 1), 7, 3)]))
    assert trace.inserted.tolist() == [[2, device.command("ACT"), 0]]
    assert (trace.issue.tolist(), trace.finish) == ([16], 39)


def test_hbm_barrier_behind_the_full_entry_queue_is_lost() -> None:
    """A hit in the open row overtakes a read of another row unless a barrier is between; the 64th has none."""
    device, rules = known("hbm-pim")

    def issue(first: int) -> list[int]:
        reads = [Access("RD", (0, 0, 0, 0), 0, i % 32) for i in range(first - 1)]
        late = Access("RD", (0, 0, 0, 0), 1, 0)
        ticks: list[int] = simulate(
            rules, to_stream(device, [*reads, late, BARRIER, Access("RD", (0, 0, 0, 0), 0, 40 % 32)])
        ).issue.tolist()
        return ticks[-2:]

    kept, lost = issue(63), issue(64)
    assert kept[0] < kept[1]
    assert lost[0] > lost[1]


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(GENERATORS)), seed=st.integers(1000, 10**6))
def test_no_rule_is_broken(name: str, seed: int) -> None:
    """All pairs of commands keep their distance, rows are open when needed, slots and barriers are kept."""
    device_name, generate = GENERATORS[name]
    device, rules = known(device_name)
    accesses = generate(seed)[:150]
    while accesses and accesses[-1] == BARRIER:
        accesses.pop()
    stream = to_stream(device, accesses)
    trace = simulate(rules, stream)
    if not (trace.inserted[:, 2] < 0).any():  # PREs of unused rows have no cause, so no coordinates
        commands = issued_commands(rules, stream, trace)
        assert not list(broken_constraints(rules, commands))
        assert not list(broken_rows(rules, commands))
        assert not list(broken_slots(rules, commands, shared=rules.policy != Policy.READY_FIRST))
    assert (trace.issue > 0).all()
    if device_name != "hbm-pim":  # it loses the barrier behind the 64th command
        assert not list(broken_barriers(rules, stream, trace))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(1000, 10**6), name=st.sampled_from(["attacc_tiles", "hbm_accesses", "aim_product"]))
def test_every_command_is_counted(seed: int, name: str) -> None:
    """Counts are those of the stream and of what was inserted."""
    device, rules = known(GENERATORS[name][0])
    stream = to_stream(device, GENERATORS[name][1](seed))
    trace = simulate(rules, stream, refresh=True)
    idle = trace.inserted.shape[0] - sum(trace.counts) + stream.kind.size  # refreshes of ranks without cores
    assert idle in range(trace.finish // 1950 + 1)
    assert (np.bincount(stream.kind, minlength=trace.counts.size) <= trace.counts).all()


def test_kernels_agree_with_their_python() -> None:
    """What is compiled does what is written."""
    from tracesim.commands import simulator, state

    tables = simulator._tables(known("attacc")[1])
    channel = state.new_channel.py_func(tables, 4)  # type: ignore[attr-defined]
    compiled = state.new_channel(tables, 4)
    assert all(np.array_equal(a, b) for a, b in zip(channel, compiled, strict=True))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"kind": np.array([99])}, "Stream.kind: must be 0 to 13"),
        ({"coords": np.array([[0, 0, 9, 0, 0]])}, "Stream.coords: must be -1 or below"),
        ({"group": np.array([-1])}, "Stream.group: must not be negative"),
        ({"row": np.array([1, 2])}, "Stream.row: must have shape"),
    ],
)
def test_malformed_streams_are_refused(change: dict[str, np.ndarray], problem: str) -> None:
    """One line says which field is wrong."""
    device, rules = known("attacc")
    stream: Stream = to_stream(device, macs(1))._replace(**change)
    with pytest.raises(ValueError, match=problem):
        simulate(rules, stream)
