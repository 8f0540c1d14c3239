"""Sharing sets of a region's nodes and the cyclic orders in which they pass data on (docs/array.md, section 5)."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.partition import LAYER_DIMS, Digits, Partition, part_indices

#: Dims by whose part indices the nodes of a set agree.
SHARES_WEIGHTS = ("K", "C", "G")
SHARES_INPUT = ("N", "P", "Q", "C", "G")
SHARES_OUTPUT = ("N", "P", "Q", "K", "G")

#: Tours of a step by exchange, in the place of the default ones.
Tours = dict[str, tuple[tuple[int, ...], ...]]
WEIGHTS, PULL, PULL_W, REDUCE = EXCHANGES = ("weights", "pull", "pull_w", "reduce")


def tours_of(array: NodeArray, partition: Partition, dims: tuple[str, ...]) -> np.ndarray:
    """The default tours of all sets, as node numbers: int64[sets, members]."""
    return _tours(array.cols, partition.region, partition.h, partition.w, dims)


@lru_cache(maxsize=8192)
def _tours(cols: int, region: Region, h: Digits, w: Digits, dims: tuple[str, ...]) -> np.ndarray:
    indices = part_indices(h, w, LAYER_DIMS)[:, [LAYER_DIMS.index(dim) for dim in dims]]
    numbers = node_numbers(cols, region)
    _, labels = np.unique(indices, axis=0, return_inverse=True)
    order = np.argsort(labels, kind="stable")
    sets = numbers[order].reshape(labels.max() + 1, -1)
    return snakes(sets, cols)


def weight_groups(array: NodeArray, partition: Partition) -> np.ndarray:
    """The tours of the groups that hold one copy of the weights: int64[groups, members]."""
    tours = tours_of(array, partition, SHARES_WEIGHTS)
    return snakes(np.sort(tours.reshape(-1, partition.sharing // partition.replicas), axis=1), array.cols)


def exchange_tours(
    array: NodeArray, partition: Partition, exchange: str, weight_dims: tuple[str, ...] = SHARES_WEIGHTS
) -> np.ndarray:
    """The default tours of an exchange; `weight_dims`: those that W depends on."""
    if exchange == WEIGHTS:
        return weight_groups(array, partition)
    dims = {PULL: SHARES_INPUT, PULL_W: weight_dims, REDUCE: SHARES_OUTPUT}
    return tours_of(array, partition, dims[exchange])


def replaced(tours: np.ndarray, given: Sequence[Sequence[int]]) -> np.ndarray:
    """Tours with those that are given in the place of the ones over the same nodes.

    Raises:
        ValueError: one that is given is over no set's nodes.
    """
    places = {frozenset(tour): i for i, tour in enumerate(tours.tolist())}
    changed = tours.copy()
    for tour in given:
        if frozenset(tour) not in places or len(set(tour)) != len(tour):
            raise ValueError(f"must be tours of sets that share (got {list(tour)})")
        changed[places[frozenset(tour)]] = tour
    return changed


@lru_cache(maxsize=1024)
def node_numbers(cols: int, region: Region) -> np.ndarray:
    """Node numbers of a region, row by row."""
    rows = np.arange(region.y, region.y + region.h)[:, None]
    numbers: np.ndarray = rows * cols + np.arange(region.x, region.x + region.w)[None, :]
    return numbers.reshape(-1)


def snakes(sets: np.ndarray, cols: int) -> np.ndarray:
    """Every set (node numbers in order) row by row; columns increase in its first row, decrease in its second, ..."""
    rows, columns = sets // cols, sets % cols
    first = np.cumsum(np.diff(rows, axis=1, prepend=rows[:, :1]) != 0, axis=1)
    keys = first * cols + np.where(first % 2, cols - 1 - columns, columns)
    return np.take_along_axis(sets, np.argsort(keys, axis=1, kind="stable"), axis=1)
