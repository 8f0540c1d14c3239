"""What commands compute is what numpy computes."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.device import Device, read_device
from cpsat_pim.device.rules import rules_of
from tracesim.commands import Function, Rules, Stream, execute
from tracesim.commands.execution import pairwise_sum

Command = tuple[str, tuple[int, ...], int, int, tuple[int, ...]]


@cache
def known(name: str) -> tuple[Device, Rules]:
    """Return a device and its rules."""
    device = read_device(name)
    return device, rules_of(device)


def stream_of(device: Device, commands: list[Command]) -> Stream:
    """Return commands (kind, coordinates, row, column, work) as a stream."""
    kind, coords, row, column, work = zip(*commands, strict=True)
    return Stream(
        np.array([device.command(name) for name in kind]),
        np.array(coords),
        np.array(row),
        np.array(column),
        np.zeros(len(commands), np.int64),
        np.array([entry + (0,) * (6 - len(entry)) for entry in work]),
    )


def work(
    function: Function, target: int = 0, source: int = 0, lane: int = 0, data: int = 0, reduce: int = 0
) -> tuple[int, ...]:
    """Return a row of `Stream.work`."""
    return (function, target, source, lane, data, reduce)


ALL = (-1, -1, -1, -1, 0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), columns=st.integers(1, 5))
def test_tree_gemv_on_attacc(seed: int, columns: int) -> None:
    """K over 4 banks, columns and lanes, N over 16 cores and the lanes of one accumulator: a matrix product."""
    device, rules = known("attacc")
    rng = np.random.default_rng(seed)
    outputs = 16
    weights = rng.integers(-99, 99, (2, 2, 4, outputs, 4, columns, 16))  # pch, rank, group, n, bank, column, lane
    x = rng.integers(-99, 99, (4, columns, 16))
    banks = np.zeros((2, 2, 4, 4, 1, 4, 32, 16), np.int64)
    place = [(n * columns + k, n, k) for n in range(outputs) for k in range(columns)]
    for at, n, k in place:
        banks[..., 0, at // 32, at % 32, :] = weights[:, :, :, n, :, k, :]
    exchange = np.concatenate([x.reshape(-1, 16), np.zeros((16, 16), np.int64)])
    commands: list[Command] = [
        ("WRGB", (-1, -1, -1, bank, 0), 0, 0, work(Function.LOAD, k, data=bank * columns + k))
        for bank in range(4)
        for k in range(columns)
    ]
    commands += [("MACAB", ALL, at // 32, at % 32, work(Function.MAC_TREE, 16, k, n)) for at, n, k in place]
    commands.append(("MVSB", ALL, 0, 0, work(Function.DRAIN_CLEAR, source=16, data=4 * columns, reduce=0b1000)))
    registers = execute(rules, stream_of(device, commands), banks, exchange)
    want = np.einsum("prgnbkl,bkl->prgn", weights, x)
    assert np.array_equal(exchange[4 * columns :].reshape(2, 2, 4, 16), want)
    assert not registers[..., 16, :].any()


def test_lanes_with_a_scalar_on_attacc() -> None:
    """One input element meets all lanes: acc += column * p[3], then lane by lane with lane -1."""
    device, rules = known("attacc")
    banks = np.zeros((2, 2, 4, 4, 1, 1, 32, 16), np.int64)
    banks[0, 0, 0, 1, 0, 0, 5] = np.arange(16)
    exchange = np.array([np.arange(16) * 10, np.zeros(16)], np.int64)
    one = (0, 0, 0, 1, 0)
    commands: list[Command] = [
        ("MVGB", ALL, 0, 0, work(Function.LOAD, 2, data=0)),
        ("MACAB", one, 0, 5, work(Function.MAC_LANES, 17, 2, 3)),
        ("MACAB", one, 0, 5, work(Function.MAC_LANES, 17, 2, -1)),
        ("MVSB", one, 0, 0, work(Function.DRAIN, source=17, data=1)),
    ]
    execute(rules, stream_of(device, commands), banks, exchange)
    assert exchange[1].tolist() == [i * 30 + i * i * 10 for i in range(16)]


def test_elementwise_on_hbm_pim() -> None:
    """relu(a) * b + a in both banks of every block, stored back."""
    device, rules = known("hbm-pim")
    rng = np.random.default_rng(0)
    banks = rng.integers(-50, 50, (1, 4, 2, 2, 3, 32, 16))
    before = banks.copy()
    commands: list[Command] = []
    for bank in (0, 1):
        where, register = (-1, -1, -1, bank), 8 * bank
        commands += [
            ("PIMRD", where, 0, 1, work(Function.FILL_RELU, register)),
            ("PIMRD", where, 1, 1, work(Function.MUL, register, register)),
            ("PIMRD", where, 0, 1, work(Function.ADD, register, register)),
            ("PIMWR", where, 2, 7, work(Function.STORE, source=register)),
        ]
    execute(rules, stream_of(device, commands), banks, np.zeros((1, 16), np.int64))
    a, b = before[..., 0, 1, :], before[..., 1, 1, :]
    assert np.array_equal(banks[..., 2, 7, :], np.maximum(a, 0) * b + a)


def test_scalars_of_aim_are_gathered() -> None:
    """A bias for each bank goes in, a sum of each bank comes out, in the order of the banks."""
    device, rules = known("gddr6-aim")
    banks = np.arange(4 * 4 * 64 * 16, dtype=np.int64).reshape(4, 4, 1, 1, 64, 16)
    exchange = np.stack([np.arange(16) * 1000, np.ones(16, np.int64), np.zeros(16, np.int64)])
    all_banks = (-1, -1, 0)
    commands: list[Command] = [
        ("WRMAC16", all_banks, 0, 0, work(Function.LOAD_SCALARS, 64, data=0)),
        ("WRGB", all_banks, 0, 0, work(Function.LOAD, 5, data=1)),
        ("MAC16", all_banks, 0, 9, work(Function.MAC_TREE, 64, 5)),
        ("RDMAC16", all_banks, 0, 0, work(Function.DRAIN_SCALARS, source=64, data=2)),
    ]
    execute(rules, stream_of(device, commands), banks, exchange)
    want = [1000 * i + banks[i // 4, i % 4, 0, 0, 9].sum() for i in range(16)]
    assert exchange[2].tolist() == want


def test_host_writes_and_reads_banks() -> None:
    """What is written to one bank is read from it; CLEAR leaves input registers."""
    device, rules = known("hbm-pim")
    banks = np.zeros((1, 4, 2, 2, 1, 32, 16), np.int64)
    exchange = np.stack([np.arange(16), np.zeros(16, np.int64)])
    where = (0, 2, 1, 1)
    commands: list[Command] = [
        ("PIMWR", (-1, -1, -1, 0), 0, 0, work(Function.LOAD, 0, data=0)),
        ("PIMWR", (-1, -1, -1, 0), 0, 0, work(Function.LOAD, 8, data=0)),
        ("PIMWR", (-1, -1, -1, 0), 0, 0, work(Function.CLEAR)),
        ("WR", where, 0, 3, work(Function.WRITE, data=0)),
        ("RD", where, 0, 3, work(Function.READ, data=1)),
    ]
    registers = execute(rules, stream_of(device, commands), banks, exchange)
    assert exchange[1].tolist() == list(range(16))
    assert registers[..., 0, :].any()
    assert not registers[..., 8, :].any()


def test_fp16_follows_the_stated_order() -> None:
    """2048 + 1 is 2048 in FP16: 2048 + 1 + 1 + ... stays there lane by lane, and a tree adds the ones up first."""
    device, rules = known("attacc")
    banks = np.ones((2, 2, 4, 4, 1, 1, 32, 16), np.float16)
    banks[..., 0, :] = 2048
    exchange = np.zeros((2, 16), np.float16)
    exchange[0] = 1
    load: list[Command] = [("WRGB", ALL, 0, 0, work(Function.LOAD, 0, data=0))]
    one = (0, 0, 0, 0, 0)
    lanes: list[Command] = [("MACAB", one, 0, i, work(Function.MAC_LANES, 16, 0, 0)) for i in range(3)]
    registers = execute(rules, stream_of(device, load + lanes), banks, exchange)
    assert registers[0, 0, 0, 0, 16].tolist() == [2048] * 16
    values = np.array([[2048, 1, 1, 1]], np.float16)
    assert pairwise_sum(values).tolist() == [2050]  # (2048 + 1 = 2048) + (1 + 1)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("MACAB", ALL, 0, 0, work(Function.MAC_TREE, 99)), "command 0 .MAC_TREE. lies outside the device"),
        (("MACAB", ALL, 7, 0, work(Function.FILL, 0)), "command 0 .FILL. lies outside the device"),
        (("MVSB", ALL, 0, 0, work(Function.DRAIN, source=16)), "there are no 64 vectors from 0 on"),
        (("WRGB", ALL, 0, 0, work(Function.LOAD, 0, data=5)), "there is no vector 5"),
        (("RD", ALL, 0, 0, work(Function.READ)), "must select one core"),
    ],
)
def test_commands_outside_the_device_are_refused(command: Command, problem: str) -> None:
    """The message names the command and what is wrong."""
    device, rules = known("attacc")
    banks, exchange = np.zeros((2, 2, 4, 4, 1, 1, 32, 16), np.int64), np.zeros((1, 16), np.int64)
    with pytest.raises(ValueError, match=problem):
        execute(rules, stream_of(device, [command]), banks, exchange)


def test_numbers_must_fit_the_device() -> None:
    """Arrays of another shape or type are refused in one line."""
    device, rules = known("attacc")
    stream = stream_of(device, [("SFM", ALL, 0, 0, (0,))])
    with pytest.raises(ValueError, match="banks: must have shape"):
        execute(rules, stream, np.zeros((2, 2), np.int64), np.zeros((1, 16), np.int64))
    with pytest.raises(ValueError, match="must both be int64 or float16"):
        execute(rules, stream, np.zeros((2, 2, 4, 4, 1, 1, 32, 16), np.float32), np.zeros((1, 16), np.float32))
