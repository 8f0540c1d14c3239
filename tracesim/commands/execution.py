"""What the commands of a stream compute (`docs/devices.md`, section 5).

The stream is executed in its own order. Integers are exact in int64. Floats are FP16 values; every product and every
sum is rounded to FP16, in the order that section 5 states.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tracesim.commands.records import (
    DATA,
    FUNCTION,
    LANE,
    REDUCE,
    SOURCE,
    TARGET,
    Function,
    Rules,
    Stream,
    checked_rules,
    checked_stream,
)

#: int64 or float16.
Numbers: TypeAlias = NDArray[Any]


class Machine:
    """One channel's numbers. Cores keep the axes of `Rules.axes` without the last, the banks of a core.

    `banks` [cores..., bank, row, column, lane], `registers` [cores..., register, lane], `exchange` [vector, lane].
    """

    def __init__(self, rules: Rules, banks: Numbers, exchange: Numbers) -> None:
        self.rules = rules
        self.banks = banks
        self.exchange = exchange
        cores = tuple(int(size) for size in rules.axes[:-1])
        self.registers: Numbers = np.zeros((*cores, rules.inputs + rules.accumulators, rules.lanes), banks.dtype)


def execute(rules: Rules, stream: Stream, banks: Numbers, exchange: Numbers) -> Numbers:
    """Execute a stream on one channel; return its registers afterwards, [cores..., register, lane].

    `banks` [axes of the cores..., banks of a core, rows, columns, lanes] and `exchange` [vectors, lanes], both int64 or
    both float16, are modified in place. Registers start at 0.

    Raises:
        ValueError: the arrays do not fit the device, or a command lies outside them.
    """
    rules = checked_rules(rules)
    stream = checked_stream(rules, stream)
    _check_numbers(rules, banks, exchange)
    machine = Machine(rules, banks, exchange)
    for at in range(stream.kind.size):
        function = Function(int(stream.work[at, FUNCTION]))
        if function is not Function.NOTHING:
            try:
                _RUN[function](machine, stream, at)
            except IndexError as error:
                raise ValueError(f"Stream: command {at} ({function.name}) lies outside the device: {error}") from None
    return machine.registers


def _check_numbers(rules: Rules, banks: Numbers, exchange: Numbers) -> None:
    head, tail = tuple(rules.axes.tolist()), (rules.columns, rules.lanes)
    if banks.shape[: len(head)] != head or banks.shape[len(head) + 1 :] != tail:
        raise ValueError(f"banks: must have shape {(*head, 'rows', *tail)} (got {banks.shape})")
    if exchange.ndim != 2 or exchange.shape[1] != rules.lanes:
        raise ValueError(f"exchange: must have shape ('vectors', {rules.lanes}) (got {exchange.shape})")
    if banks.dtype != exchange.dtype or banks.dtype not in (np.dtype(np.int64), np.dtype(np.float16)):
        raise ValueError(f"banks, exchange: must both be int64 or float16 (got {banks.dtype}, {exchange.dtype})")


# --- Where -----------------------------------------------------------------------------------------------------------


def _cores(stream: Stream, at: int) -> tuple[Any, ...]:
    """Return the index of the selected cores; every axis is kept."""
    coords = stream.coords[at, :-1].tolist()
    return tuple(slice(None) if c < 0 else slice(c, c + 1) for c in coords)


def _bank_column(machine: Machine, stream: Stream, at: int) -> Numbers:
    """Return the addressed column of the selected cores, [cores..., lane]; writing to it writes the bank."""
    bank = max(int(stream.coords[at, -1]), 0)
    column: Numbers = machine.banks[(*_cores(stream, at), bank, int(stream.row[at]), int(stream.column[at]))]
    return column


def _register(machine: Machine, stream: Stream, at: int, operand: int) -> Numbers:
    """Return a register of the selected cores, [cores..., lane]; writing to it writes the register."""
    number = int(stream.work[at, operand])
    if not 0 <= number < machine.registers.shape[-2]:
        raise IndexError(f"there is no register {number}")
    return machine.registers[(*_cores(stream, at), number, slice(None))]


def _vectors(machine: Machine, stream: Stream, at: int, count: int) -> Numbers:
    """Return so many vectors of the exchange buffer from the one on that a command names."""
    begin = int(stream.work[at, DATA])
    if not 0 <= begin <= machine.exchange.shape[0] - count:
        raise IndexError(f"there are no {count} vectors from {begin} on in the exchange buffer")
    vectors: Numbers = machine.exchange[begin : begin + count]
    return vectors


def _vector(machine: Machine, stream: Stream, at: int) -> Numbers:
    """Return the first vector of the exchange buffer that a command names."""
    data = int(stream.work[at, DATA])
    if not 0 <= data < machine.exchange.shape[0]:
        raise IndexError(f"there is no vector {data} in the exchange buffer")
    vector: Numbers = machine.exchange[data]
    return vector


# --- What ------------------------------------------------------------------------------------------------------------


def _load(machine: Machine, stream: Stream, at: int) -> None:
    _register(machine, stream, at, TARGET)[...] = _vector(machine, stream, at)


def _load_scalars(machine: Machine, stream: Stream, at: int) -> None:
    target = _register(machine, stream, at, TARGET)
    values = _vector(machine, stream, at)[: target[..., 0].size]
    target[..., stream.work[at, LANE]] = values.reshape(target.shape[:-1])


def _mac_tree(machine: Machine, stream: Stream, at: int) -> None:
    products = _bank_column(machine, stream, at) * _register(machine, stream, at, SOURCE)
    target = _register(machine, stream, at, TARGET)
    target[..., stream.work[at, LANE]] += pairwise_sum(products)


def pairwise_sum(values: Numbers) -> Numbers:
    """Return the sums along the last axis as an adder tree forms them: neighbours first, each sum rounded."""
    while values.shape[-1] > 1:
        if values.shape[-1] % 2:
            values = np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1)
        values = values[..., ::2] + values[..., 1::2]
    return values[..., 0]


def _mac_lanes(machine: Machine, stream: Stream, at: int) -> None:
    source, lane = _register(machine, stream, at, SOURCE), int(stream.work[at, LANE])
    factor = source if lane < 0 else source[..., lane : lane + 1]
    _register(machine, stream, at, TARGET)[...] += _bank_column(machine, stream, at) * factor


def _fill(machine: Machine, stream: Stream, at: int) -> None:
    _register(machine, stream, at, TARGET)[...] = _bank_column(machine, stream, at)


def _fill_relu(machine: Machine, stream: Stream, at: int) -> None:
    column = _bank_column(machine, stream, at)
    _register(machine, stream, at, TARGET)[...] = np.maximum(column, column.dtype.type(0))


def _add(machine: Machine, stream: Stream, at: int) -> None:
    total = _register(machine, stream, at, SOURCE) + _bank_column(machine, stream, at)
    _register(machine, stream, at, TARGET)[...] = total


def _mul(machine: Machine, stream: Stream, at: int) -> None:
    product = _register(machine, stream, at, SOURCE) * _bank_column(machine, stream, at)
    _register(machine, stream, at, TARGET)[...] = product


def _store(machine: Machine, stream: Stream, at: int) -> None:
    _bank_column(machine, stream, at)[...] = _register(machine, stream, at, SOURCE)


def _drain(machine: Machine, stream: Stream, at: int) -> None:
    values = _register(machine, stream, at, SOURCE)
    for axis in range(values.ndim - 1):
        if int(stream.work[at, REDUCE]) >> axis & 1:
            values = _ordered_sum(values, axis)
    vectors = values.reshape(-1, values.shape[-1])
    into = _vectors(machine, stream, at, len(vectors))
    into += vectors


def _ordered_sum(values: Numbers, axis: int) -> Numbers:
    """Return the sum along an axis in the order of its coordinates, each sum rounded; the axis stays, of size 1."""
    total = values.take([0], axis)
    for i in range(1, values.shape[axis]):
        total = total + values.take([i], axis)
    return total


def _drain_clear(machine: Machine, stream: Stream, at: int) -> None:
    _drain(machine, stream, at)
    _register(machine, stream, at, SOURCE)[...] = 0


def _drain_scalars(machine: Machine, stream: Stream, at: int) -> None:
    values = _register(machine, stream, at, SOURCE)[..., stream.work[at, LANE]].ravel()
    _vector(machine, stream, at)[: values.size] = values


def _clear(machine: Machine, stream: Stream, at: int) -> None:
    machine.registers[(*_cores(stream, at), slice(machine.rules.inputs, None), slice(None))] = 0


def _write(machine: Machine, stream: Stream, at: int) -> None:
    _bank_column(machine, stream, at)[...] = _vector(machine, stream, at)


def _read(machine: Machine, stream: Stream, at: int) -> None:
    column = _bank_column(machine, stream, at)
    if column[..., 0].size != 1:
        raise IndexError("a READ must select one core")
    _vector(machine, stream, at)[...] = column.reshape(-1)


def _write_each(machine: Machine, stream: Stream, at: int) -> None:
    column = _bank_column(machine, stream, at)
    column[...] = _vectors(machine, stream, at, column[..., 0].size).reshape(column.shape)


def _read_each(machine: Machine, stream: Stream, at: int) -> None:
    column = _bank_column(machine, stream, at)
    _vectors(machine, stream, at, column[..., 0].size)[...] = column.reshape(-1, column.shape[-1])


_RUN: dict[Function, Callable[[Machine, Stream, int], None]] = {
    Function.LOAD: _load,
    Function.LOAD_SCALARS: _load_scalars,
    Function.MAC_TREE: _mac_tree,
    Function.MAC_LANES: _mac_lanes,
    Function.FILL: _fill,
    Function.FILL_RELU: _fill_relu,
    Function.ADD: _add,
    Function.MUL: _mul,
    Function.STORE: _store,
    Function.DRAIN: _drain,
    Function.DRAIN_CLEAR: _drain_clear,
    Function.DRAIN_SCALARS: _drain_scalars,
    Function.CLEAR: _clear,
    Function.WRITE: _write,
    Function.READ: _read,
    Function.WRITE_EACH: _write_each,
    Function.READ_EACH: _read_each,
}
