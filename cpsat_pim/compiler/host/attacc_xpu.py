"""The formulas `attacc-xpu`: AttAcc's published model of a GPU (attacc_simulator c600051, `src/devices.py`, class xPU).

Transcribed so that published baselines can be reproduced; it has no launch overhead, and it rates caches by tile sizes.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.host.hosts import Host

Ints = NDArray[np.int64]

#: Sides of the output tiles that a core may hold (`_get_optimal_tile`).
TILE_SIDES = (8, 16, 32, 64, 128, 192, 256, 320, 384, 448, 512)
#: Depth of a core's tiles; the L2 cache holds a 64th of the depth.
L1_DEPTH, L2_DEPTH_PARTS = 32, 64


@frozen
class Product:
    """`count` products of an m x k by a k x n matrix; a `weight` product is split into blocks over all cores."""

    m: int
    n: int
    k: int
    count: int = 1
    is_weight: bool = True
    element_bytes: int = 2

    @property
    def flops(self) -> int:
        """A multiplication and an addition a step."""
        return 2 * self.m * self.n * self.k * self.count


@frozen
class Tile:
    """Rows and columns of an output tile."""

    m: int
    n: int


@cache
def product_seconds(host: Host, work: Product) -> float:
    """The longer of computing and of reading memory."""
    return max(compute_seconds(host, work), memory_seconds(host, work))


def is_compute_bound(host: Host, work: Product) -> bool:
    """Whether computing takes longer."""
    return compute_seconds(host, work) > memory_seconds(host, work)


def compute_seconds(host: Host, work: Product) -> float:
    """Operations over the rate of the cores that have a block."""
    rate = host.flops * host.compute_efficiency * _occupancy(host, work, l1_tile(host, work))
    return work.flops / (rate * (2 // work.element_bytes))


def memory_seconds(host: Host, work: Product) -> float:
    """Bytes from memory over the bandwidth that the cores with a block draw."""
    rate = host.memory_bandwidth * host.memory_efficiency * _occupancy(host, work, l1_tile(host, work))
    return traffic_bytes(work, l2_tile(host, work)) / rate


def activation_seconds(host: Host, elements: int, operands: int = 2, element_bytes: int = 2) -> float:
    """A pointwise layer (GELU: one operand read, one result written; SwiGLU: 3 operands), fitted on a GPU."""
    moved = elements * operands * element_bytes
    return (0.000000447 * (1555e9 / host.memory_bandwidth) * moved + 8.29) / 1e6


def norm_seconds(host: Host, elements: int, element_bytes: int = 2) -> float:
    """A layer normalisation (two operands read, one result written), fitted on a GPU."""
    moved = elements * 3 * element_bytes
    return (0.0000016 * (1555e9 / host.memory_bandwidth) * moved + 6.87) / 1e6


def move_seconds(host: Host, moved_bytes: int) -> float:
    """Between the host and the accelerator: one direction of the link."""
    return moved_bytes / (host.link_bandwidth / 2)


# --- Tiles -----------------------------------------------------------------------------------------------------------


@cache
def l1_tile(host: Host, work: Product) -> Tile:
    """The tile of a core: least traffic from the L2 cache over the square of the occupancy; first of equals."""
    rows, columns = (np.array(sides) for sides in zip(*product(TILE_SIDES, TILE_SIDES), strict=True))
    rows, columns = np.minimum(rows, work.m), np.minimum(columns, work.n)
    fits = _tile_bytes(work, rows, columns, L1_DEPTH) <= host.l1_bytes
    rows, columns = rows[fits], columns[fits]
    best = int(np.argmin(_traffic_of_tiles(work, rows, columns) / _occupancy_of_tiles(host, work, rows, columns) ** 2))
    return Tile(int(rows[best]), int(columns[best]))


@cache
def l2_tile(host: Host, work: Product) -> Tile:
    """The tile of the L2 cache: multiples of a core's tile with the least traffic from memory; first of equals."""
    inner, depth = l1_tile(host, work), work.k / L2_DEPTH_PARTS
    best, least = inner, float("inf")
    for tile in _multiples(work, inner):
        if tile != inner and _tile_bytes(work, tile.m, tile.n, depth) > host.l2_bytes:
            continue
        traffic = traffic_bytes(work, tile)
        if traffic < least:
            best, least = tile, traffic
    return best


def _multiples(work: Product, inner: Tile) -> Iterator[Tile]:
    rows = [*range(inner.m, work.m + 1, inner.m), work.m]
    columns = [*range(inner.n, work.n + 1, inner.n), work.n]
    return (Tile(m, n) for m, n in product(rows, columns))


def _tile_bytes(work: Product, m: Any, n: Any, depth: float) -> Any:
    """Both operands to a depth, and the result; of tiles of m rows and n columns."""
    return ((m + n) * depth + m * n) * work.element_bytes


def _traffic_of_tiles(work: Product, m: Ints, n: Ints) -> Ints:
    """Each operand once for every tile of the other side; the result once. Bytes of every tile."""
    elements = -(-work.n // n) * work.m * work.k + -(-work.m // m) * work.n * work.k + work.m * work.n
    return np.asarray(elements * work.element_bytes * work.count)


def traffic_bytes(work: Product, tile: Tile) -> int:
    """The same of one tile."""
    elements = ceil(work.n / tile.n) * work.m * work.k + ceil(work.m / tile.m) * work.n * work.k + work.m * work.n
    return elements * work.element_bytes * work.count


def _occupancy_of_tiles(host: Host, work: Product, m: Ints, n: Ints) -> NDArray[np.float64]:
    """Blocks over the places of as many rounds of all cores as they take, for every tile."""
    blocks = np.full(len(m), work.count)
    if work.is_weight:
        blocks = blocks * -(-work.m // m) * -(-work.n // n)
    return np.asarray(blocks / (-(-blocks // host.cores) * host.cores))


def _occupancy(host: Host, work: Product, tile: Tile) -> float:
    """The same of one tile."""
    return float(_occupancy_of_tiles(host, work, np.array([tile.m]), np.array([tile.n]))[0])
