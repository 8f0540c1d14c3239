"""All ways to split the layers of a network over so many nodes, as rows of `tables.hardware` (docs/tuner.md)."""

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
from attrs import field, frozen

from cpsat_pim.planner.tensors import Graph, LayerTask
from tables import hardware as h
from tables.factors import divisors

#: Dims that a layer is split along, and a factor of each.
DIMS = "NPQKCG"
Split = tuple[int, ...]


@frozen(kw_only=True, eq=False)
class SplitTable:
    """The splits of some layers: see `tables.hardware.layer_floors`. `counts`: how often each layer runs."""

    rows: np.ndarray
    starts: np.ndarray
    kinds: np.ndarray
    divisors: np.ndarray
    counts: np.ndarray
    found: np.ndarray = field(init=False)

    @found.default
    def _found(self) -> np.ndarray:
        return np.zeros((len(self.starts) - 1, 2))


def split_table(graph: Graph, nodes: int, sizes: int) -> SplitTable:
    """Return the splits of a network's layers over `nodes`; divisors are needed up to `sizes`."""
    blocks: dict[tuple[tuple[float, ...], ...], int] = {}
    for task in graph.tasks:
        rows = tuple(dict.fromkeys(row_of(graph, task, split) for split in splits(task, nodes)))
        ordered = tuple(sorted(rows, key=lambda row: row[h.MACS] + row[h.FETCHED] + row[h.REDUCED]))
        blocks[ordered] = blocks.get(ordered, 0) + 1
    flat = [row for block in blocks for row in block]
    macs = sorted({row[h.MACS] for row in flat})
    kind = {value: i for i, value in enumerate(macs)}
    return SplitTable(
        rows=np.array(flat, dtype=np.float64),
        starts=np.cumsum([0, *map(len, blocks)]),
        kinds=np.array([kind[row[h.MACS]] for row in flat]),
        divisors=np.array([largest_divisors(int(value), sizes) for value in macs], dtype=np.int32),
        counts=np.array(list(blocks.values()), dtype=np.float64),
    )


def largest_divisors(number: int, sizes: int) -> list[int]:
    """Return the largest divisor of a number that is at most 0, 1, ... sizes; 1 in the place of 0."""
    found = [1, 1]
    for size in range(2, sizes + 1):
        found.append(size if number % size == 0 else found[-1])
    return found


def splits(task: LayerTask, nodes: int) -> Iterator[Split]:
    """Yield the factors of N P Q K C G that use all nodes; if no split does, all splits that use fewer."""
    layer = task.workload
    bounds = (layer.N, layer.P, layer.Q, layer.K, layer.C, layer.G)
    exact = list(_factors(bounds, nodes))
    yield from exact or (split for most in range(1, nodes) for split in _factors(bounds, most))


def _factors(bounds: tuple[int, ...], product: int) -> Iterator[Split]:
    if not bounds:
        if product == 1:
            yield ()
        return
    for factor in divisors(product):
        if factor <= bounds[0]:
            yield from ((factor, *rest) for rest in _factors(bounds[1:], product // factor))


def row_of(graph: Graph, task: LayerTask, split: Split) -> tuple[float, ...]:
    """Return the row of a split: the part of a node that has the most, and what nodes receive on average."""
    layer, c, nodes = task.workload, split[DIMS.index("C")], math.prod(split)
    parts = [
        -(-bound // factor)
        for bound, factor in zip((layer.N, layer.P, layer.Q, layer.K, layer.C, layer.G), split, strict=True)
    ]
    np_, pp, qp, kp, cp, gp = parts
    filters = layer.R * layer.S
    columns = _positions(layer.stride[0], layer.dilation[0], pp, layer.R)
    lines = _positions(layer.stride[1], layer.dilation[1], qp, layer.S)
    outputs = np_ * gp * kp * qp * pp
    row = [0.0] * h.COLUMNS
    row[h.MACS] = math.prod(parts) * filters
    row[h.I_ELEMS], row[h.W_ELEMS], row[h.O_ELEMS] = np_ * gp * cp * columns * lines, gp * kp * cp * filters, outputs
    row[h.K], row[h.C], row[h.CRS], row[h.PQN] = kp, cp, cp * filters, pp * qp * np_
    row[h.FETCHED] = _fetched_bytes(graph, task, split) / nodes
    row[h.REDUCED] = (c - 1) * layer.N * layer.G * layer.K * layer.Q * layer.P * layer.psum_bytes / nodes
    row[h.I_BYTES], row[h.W_BYTES], row[h.PSUM_BYTES] = layer.input_bytes, layer.weight_bytes, layer.psum_bytes
    row[h.O_BYTES] = layer.psum_bytes if c > 1 else layer.output_bytes
    row[h.NODES] = nodes
    return tuple(map(float, row))


@cache
def _positions(stride: int, dilation: int, outputs: int, filters: int) -> int:
    """Return how many input positions along an axis some outputs use."""
    return len({stride * p + dilation * r for p in range(outputs) for r in range(filters)})


def _fetched_bytes(graph: Graph, task: LayerTask, split: Split) -> int:
    """Return bytes that all nodes together receive at least before they compute, wherever tensors lie.

    An element lies on one node; every other node that needs it receives it. Weights may lie everywhere.
    """
    layer, (n, p, q, k, _, _) = task.workload, split
    found = 0
    if task.reads.view is None:  # what is pooled or resized on the way in is left out, which is still a bound
        shape = graph.stacks[task.reads.stack].shape
        columns = _box_sums(shape[3], task.pad[0], layer.stride[0], layer.dilation[0] * (layer.R - 1), layer.P, p)
        lines = _box_sums(shape[2], task.pad[1], layer.stride[1], layer.dilation[1] * (layer.S - 1), layer.Q, q)
        needed = k * columns[0] * lines[0] - columns[1] * lines[1]
        channels = sum(stop - start for start, stop in task.reads.channels)
        samples = 1 if task.has_heads else layer.N
        found += max(0, needed) * samples * channels * graph.stacks[task.reads.stack].element_bytes
    if task.reads_weights is not None:
        copies, samples = (p * q, layer.N) if task.has_sample_weights else (n * p * q, 1)
        found += (
            (copies - 1) * samples * layer.G * layer.K * layer.C * graph.stacks[task.reads_weights.stack].element_bytes
        )
    return found


@cache
def _box_sums(size: int, pad: int, stride: int, reach: int, outputs: int, parts: int) -> tuple[int, int]:
    """Return the positions of an axis that all parts need, added up, and those that any part needs."""
    length = -(-outputs // parts)
    starts = [m * length for m in range(parts) if m * length < outputs]
    ranges = [
        (max(0, first * stride - pad), min(size, (min(first + length, outputs) - 1) * stride + reach + 1 - pad))
        for first in starts
    ]
    lengths = [max(0, stop - start) for start, stop in ranges]
    return sum(lengths), min(sum(lengths), max(stop for _, stop in ranges) - min(start for start, _ in ranges))
