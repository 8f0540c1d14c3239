"""Bounds of the DRAM's loops (`tables.bounds.outer_loops`) for all streams of a tile together, by stored sets."""

import numpy as np

from tables.bounds.layer import (
    COLUMNS,
    FIRST,
    LAYOUT,
    REPEAT,
    Record,
    TileCosts,
)
from tables.bounds.outer_state import CASES, NONE_FREE, STREAM_STATE, DramLoopBounds, fits, lower, set_extents
from tables.jit import njit
from tables.nest import Ints, O


@njit
def bound_stored_sets(costs: TileCosts, outer: DramLoopBounds) -> None:
    """Bound all streams of each tile together: the minimum over cases. Modifies outer: stored_cycles, stored_fj."""
    scans, layer = np.zeros(1, STREAM_STATE), costs.layer[0]
    for i in range(outer.stored_cycles.shape[1]):
        x = scans[0]
        set_extents(x, costs, outer.strides, i)
        _set_boxes(x, layer, costs.places, costs.boxes)
        for aligned in range(1, 8):
            if fits(x, layer, 2, aligned):
                _load(x, outer, aligned, i)
                for buffered in range(8):
                    if fits(x, layer, 1, buffered):
                        stored = 8 * aligned + buffered
                        cycles, fj = _min_over_cases(x, layer, aligned, buffered)
                        lower(outer.stored_cycles[stored], i, cycles)
                        lower(outer.stored_fj[stored], i, fj)


@njit
def _set_boxes(x: Record, layer: Record, places: Ints, boxes: Ints) -> None:
    """Take each tensor's box with the extents at hand. Modifies x: boxes."""
    for t in range(3):
        at = 0
        for d in range(8):
            at += places[d, x.e[d]] * layer.strides[t, d]
        for column in range(2 * LAYOUT):
            x.boxes[t, column] = boxes[t, at, column]


@njit
def _load(x: Record, outer: DramLoopBounds, aligned: int, i: int) -> None:
    """Load the bounds of the i-th extents and one set of row-aligned tensors. Modifies x."""
    for case in range(CASES):
        x.min_cycles[case, aligned] = outer.cycles[case, aligned, i]
        x.min_fj[case, aligned] = outer.fj[case, aligned, i]
    for t in range(3):
        x.fill_fj[t], x.refill_fj[aligned, t] = outer.fill_fj[t], outer.refill_fj[aligned, t, i]
        for case in range(CASES):
            for layout in range(2):
                x.min_rows[case, aligned, t, layout] = outer.rows[case, aligned, t, layout, i]


@njit
def _min_over_cases(x: Record, layer: Record, aligned: int, buffered: int) -> tuple[float, float]:
    """Return lower bounds on the cycles of all streams and on the fJ of refetches, whichever loops are free."""
    min_cycles, min_fj = np.inf, np.inf
    for other in range(3):
        for case in (other, NONE_FREE):
            cycles, fj = _bound_case(x, layer, aligned, buffered, other, case)
            min_cycles, min_fj = min(min_cycles, cycles), min(min_fj, fj)
    return min_cycles, min_fj


@njit
def _bound_case(x: Record, layer: Record, aligned: int, buffered: int, other: int, case: int) -> tuple[float, float]:
    """Return the same bounds for one case, where the irrelevant loops of the tensor `other` may be free.

    `aligned`, `buffered`: sets of tensors that the row buffer and the global buffer store.
    """
    cycles, fj = x.min_cycles[case, aligned], x.min_fj[case, aligned]
    if case == NONE_FREE and buffered >> other & 1 and not aligned >> other & 1:
        fj = x.refill_fj[aligned, other]
    for t in range(3):
        if not aligned >> t & 1:
            is_buffered, times = buffered >> t & 1, 1 if t == other else x.fetches[t]
            cycles = max(cycles, min(
                _min_sequential_cycles(x, layer, t, 0, x.min_rows[case, aligned, t, 0], times, is_buffered),
                _min_sequential_cycles(x, layer, t, 1, x.min_rows[case, aligned, t, 1], times, is_buffered),
            ))  # fmt: skip
            fj += is_buffered * x.fill_fj[t] * float(times - 1)
    return cycles, fj


@njit
def _min_sequential_cycles(x: Record, layer: Record, t: int, layout: int, rows: float, times: int,
                     is_buffered: int) -> float:  # fmt: skip
    """Return a lower bound on the cycles of a tensor that is not row-aligned, in one layout.

    It opens at least `rows` rows and is scanned `times` times: tile by tile, if the global buffer stores it.
    """
    scans = times if t != O else 2 * times - 1
    columns = scans * layer.min_columns[t]
    if is_buffered:
        box = x.boxes[t, layout * LAYOUT : (layout + 1) * LAYOUT]
        rows = max(rows, box[FIRST] + (times - 1) * box[REPEAT])
        columns = max(columns, scans * box[COLUMNS])
    return float(layer.dram[0] * columns + layer.dram[1] * rows + layer.dram[2])
