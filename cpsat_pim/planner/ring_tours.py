"""Tours of sharing sets that load links less than the default ones: rings of masks (docs/rings.md).

On a region whose sides are powers of two, split by powers of two, the sets of an exchange are a product of free digits
of row and column numbers. Constructed rings of such a mask take milliseconds, and their heaviest link mostly carries
the least that any rings can (`rings.table` has the loads with their bounds).
"""

from functools import lru_cache

import numpy as np

from cpsat_pim.planner.array import MESH, NodeArray
from cpsat_pim.planner.partition import Digits, Partition
from cpsat_pim.planner.rings import NO_SEARCH, Mask, Mesh, masked_instance, schedule_rings
from cpsat_pim.planner.rings.routes import link_loads
from cpsat_pim.planner.tours import (
    PULL,
    PULL_W,
    REDUCE,
    SHARES_INPUT,
    SHARES_OUTPUT,
    Tours,
    node_numbers,
    snakes,
)

#: The longest side that rings are made for.
_LONGEST_SIDE = 16


def better_tours(array: NodeArray, partition: Partition, second: tuple[str, ...]) -> Tours:
    """Return by exchange the tours that load links less than the default ones; none over a host.

    `second`: the dims by which nodes share what takes the place of W; none if these are weights.
    """
    if array.interconnect != MESH:
        return {}
    found = {}
    exchanges = {PULL: SHARES_INPUT, REDUCE: SHARES_OUTPUT} | ({PULL_W: second} if second else {})
    for exchange, dims in exchanges.items():
        if exchange == REDUCE and partition.split("C") == 1:
            continue
        masks = _free_digits(partition.h, dims), _free_digits(partition.w, dims)
        if masks[0] is None or masks[1] is None or not any(masks):
            continue
        region = partition.region
        if max(region.h, region.w) <= _LONGEST_SIDE and (rings := _rings(region.h, region.w, masks[0], masks[1])):
            numbers = node_numbers(array.cols, region).tolist()
            found[exchange] = tuple(tuple(numbers[node] for node in ring) for ring in rings)
    return found


def _free_digits(side: Digits, dims: tuple[str, ...]) -> int | None:
    """Return the mask of the binary digits in which members of a set differ; None if a factor is no power of two."""
    mask = 0
    for dim, factor in side:
        if factor & (factor - 1):
            return None
        digits = factor.bit_length() - 1
        mask = mask << digits | (0 if dim in dims else factor - 1)
    return mask


@lru_cache(maxsize=4096)
def _rings(rows: int, cols: int, free_rows: int, free_cols: int) -> tuple[tuple[int, ...], ...]:
    """Return the rings of a mask if their heaviest link carries less than that of the default tours, else none."""
    mesh = Mesh(rows=rows, cols=cols)
    instance = masked_instance(mesh, Mask(rows=free_rows, cols=free_cols))
    default = snakes(np.array([sorted(nodes) for nodes in instance.sets]), cols)
    schedule = schedule_rings(instance, NO_SEARCH)
    if schedule.load < int(link_loads(mesh, [tuple(tour) for tour in default.tolist()]).max()):
        return schedule.rings
    return ()
