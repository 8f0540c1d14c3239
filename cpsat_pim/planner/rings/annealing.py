"""Simulated annealing: rings whose links all stay at or below a load that is given.

The kernels know a ring as a stretch of one array: `order` int64[position], `starts` int64[ring + 1], where ring r holds
the positions from starts[r] to below starts[r + 1]. The cost is the excess: the sum over all links of what they carry
above the target. A state of excess 0 is what is looked for, so the search ends there.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar, cast

import numba
import numpy as np
from attrs import frozen

from cpsat_pim.planner.rings.instance import Mesh
from cpsat_pim.planner.rings.routes import Ints, Ring, link_blocks, link_loads

_F = TypeVar("_F", bound=Callable[..., object])


@frozen(kw_only=True)
class Annealing:
    """How long and how hot. Temperatures are in units of excess (one chunk on one link); cooling is geometric.

    Chosen on the 38 instances of 4x4 to 16x16 that combs leave open: see docs/rings.md.
    """

    moves: int = 500_000
    hottest: float = 0.6
    coldest: float = 0.1
    longest_stretch: int = 12


def _kernel(function: _F) -> _F:
    """Compile a function on ints and arrays; everything but the temperature is an integer, so no `fastmath`."""
    return cast(_F, numba.njit(cache=True)(function))


def anneal(
    mesh: Mesh, rings: Sequence[Ring], target: int, settings: Annealing, seed: int
) -> tuple[tuple[int, ...], ...] | None:
    """Return rings over the same sets of which no link carries more than the target, or None if none were met.

    Args:
        mesh: where the nodes lie.
        rings: where the search starts.
        target: greatest load that is allowed, in chunks a step.
        settings: length and temperatures.
        seed: of the random numbers; the same seed gives the same rings.
    """
    order = np.array([node for ring in rings for node in ring], np.int64)
    starts = np.cumsum([0, *(len(ring) for ring in rings)]).astype(np.int64)
    loads = link_loads(mesh, rings)
    blocks = np.array(link_blocks(mesh)[:4], np.int64)
    temperatures = (settings.hottest, settings.coldest)
    excess = _search(
        order, starts, loads, blocks, mesh.cols, target, settings.moves, temperatures, settings.longest_stretch, seed
    )
    if excess:
        return None
    return tuple(tuple(order[a:b].tolist()) for a, b in pairwise(starts))


@_kernel
def _search(
    order: Ints,
    starts: Ints,
    loads: Ints,
    blocks: Ints,
    cols: int,
    target: int,
    moves: int,
    temperatures: tuple[float, float],
    longest: int,
    seed: int,
) -> int:
    """Anneal `order` and `loads`, modified in place; return the excess at the end."""
    np.random.seed(seed)
    excess = np.sum(np.maximum(loads - target, 0))
    hottest, coldest = temperatures
    cooling = (coldest / hottest) ** (1.0 / moves)
    temperature = hottest
    backup = np.empty(len(order), np.int64)
    for _ in range(moves):
        if excess == 0:
            break
        temperature *= cooling
        ring = np.random.randint(len(starts) - 1)
        start, size = starts[ring], starts[ring + 1] - starts[ring]
        kind = np.random.randint(4)
        if kind == 3:
            first, length = 0, size
        else:
            first, length = np.random.randint(size), 2 + np.random.randint(max(1, min(longest, size - 1) - 1))
        length = min(length, size)
        moved = min(length + 1, size)  # hops: from the node before the stretch to the node behind it
        before = _shift_hops(order, start, size, first - 1, moved, loads, blocks, cols, target, -1)
        for k in range(length):
            backup[k] = order[start + (first + k) % size]
        for k in range(length):
            order[start + (first + k) % size] = backup[_origin(kind, k, length)]
        change = before + _shift_hops(order, start, size, first - 1, moved, loads, blocks, cols, target, 1)
        if change <= 0 or np.random.random() < np.exp(-change / temperature):
            excess += change
        else:
            _shift_hops(order, start, size, first - 1, moved, loads, blocks, cols, target, -1)
            for k in range(length):
                order[start + (first + k) % size] = backup[k]
            _shift_hops(order, start, size, first - 1, moved, loads, blocks, cols, target, 1)
    return int(excess)


@_kernel
def _origin(kind: int, position: int, length: int) -> int:
    """Where the node comes from that moves to a position of a stretch: reversed (0, 3), or turned by one (1, 2)."""
    if kind == 1:
        return (position + 1) % length
    if kind == 2:
        return (position + length - 1) % length
    return length - 1 - position


@_kernel
def _shift_hops(
    order: Ints,
    start: int,
    size: int,
    first: int,
    count: int,
    loads: Ints,
    blocks: Ints,
    cols: int,
    target: int,
    sign: int,
) -> int:
    """Add (sign 1) or take away (-1) hops of a ring in `loads`, modified in place; return the change of excess."""
    change = 0
    for k in range(count):
        source, destination = order[start + (first + k) % size], order[start + (first + k + 1) % size]
        y, x = source // cols, source % cols
        yb, xb = destination // cols, destination % cols
        while x != xb or y != yb:
            if x < xb:
                link, x = blocks[0] + y * (cols - 1) + x, x + 1
            elif x > xb:
                link, x = blocks[1] + y * (cols - 1) + x - 1, x - 1
            elif y < yb:
                link, y = blocks[2] + y * cols + x, y + 1
            else:
                link, y = blocks[3] + (y - 1) * cols + x, y - 1
            # A link changes the excess if its higher load, of the two, is above the target.
            if max(loads[link], loads[link] + sign) > target:
                change += sign
            loads[link] += sign
    return change
