"""What a step's pull and push cost for many homes at once: the typed shell over `tables.array.table`."""

from collections.abc import Sequence

import numpy as np

from cpsat_pim.planner.additions import addition_of
from cpsat_pim.planner.array import Region
from cpsat_pim.planner.boxes import pooled_boxes
from cpsat_pim.planner.home_tables import homes_table, operands_table
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.phases import Rates
from cpsat_pim.planner.step import Step
from cpsat_pim.planner.tours import PULL, SHARES_INPUT
from tables.array.table import MEASURES, Speeds, pull_table, push_table

_NO_BOXES = np.zeros((0, 1, 8), dtype=np.int64)


def measured_pulls(step: Step, reads: Sequence[Home], reads_weights: Sequence[Home]) -> np.ndarray:
    """Return the measures of the pull for all homes: int64[homes, homes of what is read besides or 1, MEASURES]."""
    out = np.zeros((len(reads), max(1, len(reads_weights)), MEASURES), dtype=np.int64)
    for own in _by_region(reads):
        for second in _by_region(reads_weights) or [[]]:
            chosen = [reads[i] for i in own], [reads_weights[i] for i in second]
            out[np.ix_(own, second or [0])] = _measured_pulls(step, *chosen)
    return out


def _by_region(homes: Sequence[Home]) -> list[list[int]]:
    """Return the indices of homes on each region, as kernels take homes of one region."""
    found: dict[Region, list[int]] = {}
    for i, home in enumerate(homes):
        found.setdefault(home.region, []).append(i)
    return list(found.values())


def _measured_pulls(step: Step, reads: Sequence[Home], reads_weights: Sequence[Home]) -> np.ndarray:
    """Return the same for homes of one region each."""
    array, task, boxes, stacks = step.array, step.task, step.boxes, step.graph.stacks
    tours = step.tours_of(PULL, SHARES_INPUT)
    stack = stacks[task.reads.stack]
    out = np.zeros((len(reads), max(1, len(reads_weights)), MEASURES), dtype=np.int64)
    tours_w, boxes_w, homes_w = tours, _NO_BOXES, homes_table(array.cols, stack.extent, ())
    if task.second is not None and step.second[0] is not None:
        tours_w = step.second_tours
        boxes_w = step.of_nodes(step.second[0])[tours_w[:, 0]]
        homes_w = homes_table(array.cols, stacks[task.second.stack].extent, tuple(reads_weights))
    pull_table(
        step.rates.grid,
        _speeds(step.rates),
        array.nodes,
        step.numbers,
        tours,
        step.of_nodes(boxes.input)[tours[:, 0]],
        homes_table(array.cols, stack.extent, tuple(reads)),
        step.viewed,
        tours_w,
        boxes_w,
        homes_w,
        step.viewed_second,
        stack.element_bytes,
        out,
    )
    return out


def measured_pushes(step: Step, writes: Sequence[Home]) -> np.ndarray:
    """Return the measures of the push for all homes: int64[homes, MEASURES]."""
    out = np.zeros((len(writes), MEASURES), dtype=np.int64)
    for own in _by_region(writes):
        out[own] = _measured_pushes(step, [writes[i] for i in own])
    return out


def _measured_pushes(step: Step, writes: Sequence[Home]) -> np.ndarray:
    """Return the same for homes of one region."""
    task, held = step.task, step.held
    pooled = pooled_boxes(held, task.pool) if task.pool else held
    out = np.zeros((len(writes), MEASURES), dtype=np.int64)
    cols, placed, added = step.array.cols, tuple(writes), addition_of(step.graph, task, task.finishes)
    push_table(
        step.rates.grid,
        _speeds(step.rates),
        step.array.nodes,
        step.numbers,
        held,
        pooled,
        task.pool is not None,
        homes_table(cols, step.graph.stacks[task.writes].extent, placed),
        task.workload.output_bytes,
        operands_table(cols, added.read, placed),
        operands_table(cols, added.written, placed),
        added.additions,
        out,
    )
    return out


def _speeds(rates: Rates) -> Speeds:
    array = rates.array
    return Speeds(rates.column_cycles, rates.activation_cycles, array.router_cycles, array.local_port_flits)
