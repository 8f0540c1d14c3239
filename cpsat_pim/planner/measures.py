"""What a step's pull and push cost for many homes at once: the typed shell over `tables.array.table`."""

from collections.abc import Sequence

import numpy as np

from cpsat_pim.planner.additions import addition_of
from cpsat_pim.planner.array import Region
from cpsat_pim.planner.boxes import pooled_boxes
from cpsat_pim.planner.home_tables import homes_table, operands_table
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.phases import Rates
from cpsat_pim.planner.step import Pull, Step
from tables.array.table import MEASURES, Moved, Speeds, measure_pairs, nothing_moved, pull_each, push_table


def measured_pulls(step: Step, reads: Sequence[Home], others: Sequence[Home]) -> np.ndarray:
    """Return the measures of the pull for all homes: int64[homes, homes of what is read besides or 1, MEASURES]."""
    out = np.zeros((len(reads), max(1, len(others)), MEASURES), dtype=np.int64)
    first, rest = _moved(step, step.pulls[:1], reads), _moved(step, step.pulls[1:], others)
    measure_pairs(step.rates.grid, _speeds(step.rates), first, rest, out)
    return out


def _moved(step: Step, pulls: Sequence[Pull], homes: Sequence[Home]) -> Moved:
    """Return what nodes pull from each home; nothing from one home if there is none."""
    nodes = step.array.nodes
    found = nothing_moved(max(1, len(homes)), nodes)
    for own in _by_region(homes):
        moved = nothing_moved(len(own), nodes)
        for one in pulls:
            table = homes_table(step.array.cols, one.stack.extent, tuple(homes[i] for i in own))
            width = one.stack.element_bytes
            pull_each(step.rates.grid, step.numbers, one.tours, step.needed(one), table, one.viewed, width, moved)
        for counted, some in zip(found, moved, strict=True):
            counted[own] = some
    return found


def _by_region(homes: Sequence[Home]) -> list[list[int]]:
    """Return the indices of homes on each region, as kernels take homes of one region."""
    found: dict[Region, list[int]] = {}
    for i, home in enumerate(homes):
        found.setdefault(home.region, []).append(i)
    return list(found.values())


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
