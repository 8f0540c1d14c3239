"""Lower bounds on the cycles in which a step moves its data, whatever the homes: known before any exchange is counted.

Of a box that a node reads, only what is at home on it does not arrive, and what arrives is written to its DRAM once. Of
what it computed, only that does not leave, and what leaves is read once. Partial sums are all read. A scan touches at
least as many columns as its bytes fill (docs/array.md, sections 4 to 6).
"""

from collections.abc import Sequence

import numpy as np

from cpsat_pim.planner.array import HOST
from cpsat_pim.planner.boxes import home_boxes, volumes
from cpsat_pim.planner.graph import Stack
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.step import Step


def most_at_home(stack: Stack, homes: Sequence[Home]) -> int:
    """Return the most elements of a stack that lie on one node, in any of some homes."""
    splits = {(home.h, home.w): home for home in homes}
    return max((int(volumes(home_boxes(stack.shape, home)).max()) for home in splits.values()), default=0)


def least_cycles(step: Step, at_home: tuple[int, int, int]) -> int:
    """Return cycles that the pull, the reduce and the push of a step take at least.

    `at_home`: the most elements of what is read, of what takes the place of W and of what is written on one node.
    """
    read, read_weights, written = at_home
    return _pull(step, read, read_weights) + (_reduce(step) if step.is_reduced else 0) + _push(step, written)


def _pull(step: Step, read: int, read_weights: int) -> int:
    boxes, stacks, task = step.boxes, step.graph.stacks, step.task
    arriving = np.maximum(_elements(boxes.input) - read, 0) * stacks[task.reads.stack].element_bytes
    if boxes.weights is not None and task.reads_weights is not None:
        width = stacks[task.reads_weights.stack].element_bytes
        arriving = arriving + np.maximum(_elements(boxes.weights) - read_weights, 0) * width
    return _column_cycles(step, int(arriving.max()))


def _reduce(step: Step) -> int:
    """Every node reads all partial sums of its part; over a host it sends them all, too."""
    sent = _elements(step.boxes.output) * step.task.workload.psum_bytes
    cycles = _column_cycles(step, int(sent.max()))
    array = step.array
    if array.interconnect != HOST:
        return cycles
    by_bus = np.bincount(step.numbers // array.cols, weights=-(-sent // array.flit_bytes), minlength=array.rows)
    return max(cycles, int(by_bus.max()))


def _push(step: Step, written: int) -> int:
    if step.task.pool:
        return 0
    leaving = np.maximum(_elements(step.held) - written, 0) * step.task.workload.output_bytes
    return _column_cycles(step, int(leaving.max()))


def _elements(boxes: np.ndarray) -> np.ndarray:
    """Elements of each node's boxes: int64[nodes]."""
    found: np.ndarray = volumes(boxes).sum(axis=-1)
    return found


def _column_cycles(step: Step, size: int) -> int:
    """Return the cycles of the DRAM columns that so many bytes fill."""
    return -(-size // step.array.node.column_bytes) * step.rates.column_cycles
