"""Lower bounds of the time and energy of layers on an array of nodes, for whole ranges of hardware (docs/tuner.md).

A *row* is one way to split a layer over the nodes; all its figures are those of one node, whose part has the bounds
rounded up. Of a layer the best row counts, for time and for energy each by itself, so the results bound every plan.
All figures only fall if the machine's capacities and rates grow and its costs shrink: at the best corner of a range of
machines they bound all machines of the range.
"""

from typing import NamedTuple

import numpy as np

from tables.jit import njit

#: Columns of a row, float64: MACs; elements of I, W, O; K; C; C*R*S; P*Q*N; bytes that a node fetches and bytes of
#: partial sums that it receives; bytes an element of I, W, O (as the node writes it) and of a partial sum; nodes.
MACS, I_ELEMS, W_ELEMS, O_ELEMS, K, C, CRS, PQN, FETCHED, REDUCED, I_BYTES, W_BYTES, O_BYTES, PSUM_BYTES, NODES = range(
    15
)
COLUMNS = 15


class Limits(NamedTuple):
    """A machine, or the best corner of a range of machines; cycles and pJ.

    `h`, `w`, `lanes`: PEs and MACs of one; `most_macs`: MACs of all PEs, which in a range may be fewer than h*w*lanes.
    `chip_i`, `chip_w`, `chip_o`: bytes of a tensor that one node holds on chip; `row_i`, ...: the same with the row
    buffer. `bus`: cycles a byte from DRAM to a node program, `dram`: in an exchange, `row`: cycles a byte out of the
    row buffer, `flit`: cycles a byte of the network. `opening`: cycles by which a new row delays its bank; `row_bytes`:
    bytes of a row. Energies: a MAC without its operands, of which one costs `near` where the PEs store it and `far`
    where another level does; a word of DRAM; a word of the row buffer (at most that of DRAM); an activation; a byte
    over one link; a byte that is written to DRAM (`stored`); an addition.
    """

    h: int
    w: int
    lanes: int
    most_macs: float
    chip_i: float
    chip_w: float
    chip_o: float
    row_i: float
    row_w: float
    row_o: float
    bus: float
    dram: float
    row: float
    flit: float
    opening: float
    row_bytes: float
    mac_pj: float
    near_pj: float
    far_pj: float
    dram_pj: float
    row_pj: float
    activation_pj: float
    link_pj: float
    stored_pj: float
    addition_pj: float


@njit
def least_sum(a: float, b: float, most_x: float, most_y: float, room: float) -> float:
    """The least a/x + b/y with 1 <= x <= most_x, 1 <= y <= most_y and x*y <= room; infinite if there is no room."""
    if room < 1.0:
        return np.inf
    x = np.sqrt(room * a / b) if b > 0.0 else most_x
    x = max(x, room / most_y, 1.0)
    x = min(x, most_x, room)
    y = max(1.0, min(most_y, room / x))
    return float(a / x + b / y)


@njit
def least_traffic(
    row: np.ndarray, room_i: float, room_w: float, room_o: float, i: float, w: float, o: float, spilled: float
) -> float:
    """What at least leaves or enters a level that holds so many elements of each tensor.

    `i`, `w`, `o`: the tensors' sizes, in any unit; `spilled`: that of O as partial sums. The innermost loop outside
    the level's tiles is irrelevant to one tensor at most, which may stay; the other two come again in every iteration
    of all loops that are irrelevant to them. So with K in parts of t_k, and so on, one of three sums is moved:
    O stays: I K/t_k + W X/t_x + O, t_k t_x in O's room (X = P Q N);
    W stays: I K/t_k + O (2 R - 1) + W, R = CRS/t_c, t_k t_c in W's room;
    I stays: W X/t_x + O (2 R - 1) + I, R = C/t_c, t_x t_c in I's room.
    If sums return (R > 1), then R is 2 or more, as parts are equal, and O has its width as partial sums.
    """
    k, c, crs, x = row[K], row[C], row[CRS], row[PQN]
    best = least_sum(i * k, w * x, k, x, room_o) + o
    if room_w >= crs:
        best = min(best, i * k / min(k, room_w / crs) + o + w)
    if crs > 1.0:
        best = min(best, least_sum(i * k, 2.0 * spilled * crs, k, crs / 2.0, room_w) - spilled + w)
    if room_i >= c:
        best = min(best, w * x / min(x, room_i / c) + o + i)
    if c > 1.0:
        best = min(best, least_sum(w * x, 2.0 * spilled * c, x, c / 2.0, room_i) - spilled + i)
    return max(best, i + w + o)


@njit
def _words(row: np.ndarray, is_row: bool, machine: Limits, in_bytes: bool) -> float:
    """Traffic of a row into the chip, or into chip and row buffer, in bytes or in elements."""
    ri, rw, ro = (machine.row_i, machine.row_w, machine.row_o) if is_row else (
        machine.chip_i, machine.chip_w, machine.chip_o
    )  # fmt: skip
    ri, rw, ro = ri / row[I_BYTES], rw / row[W_BYTES], ro / row[PSUM_BYTES]
    i, w, o = row[I_ELEMS], row[W_ELEMS], row[O_ELEMS]
    if in_bytes:
        return least_traffic(row, ri, rw, ro, i * row[I_BYTES], w * row[W_BYTES], o * row[O_BYTES], o * row[PSUM_BYTES])
    return least_traffic(row, ri, rw, ro, i, w, o, o)


@njit
def _stored_bytes(row: np.ndarray) -> float:
    """Bytes of the part's tensors."""
    return float(row[I_ELEMS] * row[I_BYTES] + row[W_ELEMS] * row[W_BYTES] + row[O_ELEMS] * row[O_BYTES])


@njit
def row_steps(row: np.ndarray, divisors: np.ndarray, machine: Limits) -> float:
    """MAC steps of a part. PEs along a side hold divisors of the bounds, so a divisor of the part's MACs."""
    used = float(divisors[machine.h]) * float(divisors[machine.w]) * float(divisors[machine.lanes])
    return float(row[MACS] / min(used, row[MACS], machine.most_macs))


@njit
def operand_pj(macs: float, lanes: float, filters: float, near: float, far: float) -> float:
    """The least energy of the operands of a MAC, where a step has up to `macs` MACs and a filter so many positions.

    A tensor that the PEs store is read there for every MAC (I, W), or written for every PE and step (O). Any other one
    is read where it is stored, each element once. A step with a, b, c distinct elements of the tensors has at most
    sqrt(filters a b c) MACs: for each filter position by Loomis and Whitney (1949), and the sum by Cauchy and Schwarz.
    """
    best = np.inf
    for outside in range(8):
        stored, count = 0.0, 0
        for tensor in range(3):
            if outside >> tensor & 1:
                count += 1
            else:
                stored += near / lanes if tensor == 2 else near
        if count:
            # So many terms have a product of at least this; equal terms have the least sum. None is below 1.
            product = max(1.0, macs ** (count - 1.0) / filters)
            stored += far * count * product ** (1.0 / count) / macs
        best = min(best, stored)
    return best


@njit
def _row_cycles(row: np.ndarray, steps: float, best: float, machine: Limits) -> float:
    """Cycles of a row; at least `best` if it does not beat that."""
    exchange = (row[FETCHED] + row[REDUCED]) * max(machine.flit, machine.dram)
    if exchange + steps >= best:
        return float(exchange + steps)
    both = machine.bus + machine.row
    on_chip = _words(row, False, machine, True) * (machine.bus * machine.row / both if both > 0.0 else 0.0)
    rows = max(0.0, _stored_bytes(row) / machine.row_bytes - 3.0)
    from_dram = _words(row, True, machine, True) * machine.bus + rows * machine.opening
    return float(exchange + max(steps, on_chip, from_dram))


@njit
def _row_pj(row: np.ndarray, mac_pj: float, best: float, machine: Limits) -> float:
    """Energy of a row, whose MACs take `mac_pj` each; at least `best` if it does not beat that."""
    nodes = row[NODES]
    moved = nodes * (row[FETCHED] * (machine.link_pj + machine.stored_pj) + row[REDUCED] * machine.link_pj)
    added = nodes * row[REDUCED] / row[PSUM_BYTES] * machine.addition_pj
    fixed = moved + added + nodes * row[MACS] * mac_pj
    if fixed >= best:
        return float(fixed)
    words = _words(row, True, machine, False) * (machine.dram_pj - machine.row_pj)
    words += _words(row, False, machine, False) * machine.row_pj
    return float(fixed + nodes * (words + _stored_bytes(row) / machine.row_bytes * machine.activation_pj))


@njit
def layer_floors(
    rows: np.ndarray, starts: np.ndarray, kinds: np.ndarray, divisors: np.ndarray, machine: Limits, found: np.ndarray
) -> None:
    """Least cycles and pJ of each layer over its rows.

    `rows`, float64[any, COLUMNS]; those of layer l are starts[l] to starts[l + 1]. `kinds`, int64[any]: the line of
    `divisors` of each row's MACs; `divisors`, int32[any, sizes]: the largest divisor that is at most 0, 1, 2, ...
    `found`, float64[layers, 2], is modified in place.
    """
    for layer in range(len(starts) - 1):
        cycles, pj = np.inf, np.inf
        filters = rows[starts[layer], CRS] / rows[starts[layer], C]
        macs, lanes = machine.most_macs, float(machine.lanes)
        mac_pj = machine.mac_pj + operand_pj(macs, lanes, filters, machine.near_pj, machine.far_pj)
        for at in range(starts[layer], starts[layer + 1]):
            row = rows[at]
            cycles = min(cycles, _row_cycles(row, row_steps(row, divisors[kinds[at]], machine), cycles, machine))
            pj = min(pj, _row_pj(row, mac_pj, pj, machine))
        found[layer, 0], found[layer, 1] = cycles, pj
