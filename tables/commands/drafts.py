"""The best mapping of a draft: the numbers of channels and of cores of every class are given, the rest is free.

All owners of the axes with these numbers of cores and both roles of the lanes are bounded from below; the tilings of
those whose bound is below the best ticks known are walked.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tables.commands.steps import Share
from tables.commands.sweep import NONE, Space, best_tiling, is_legal, lower_bound, share_of
from tables.commands.walk import Timing
from tables.jit import njit

Ints = NDArray[np.int64]


class BestOfDraft(NamedTuple):
    """Least ticks of a draft, `NONE` if it cannot be run; the owner of the axes and the tiling."""

    ticks: int
    owner: int
    share: Share


@njit
def best_of_draft(space: Space, timing: Timing, split: int, owners: Ints) -> BestOfDraft:
    """Return the best mapping of a split with one of some owners, int64[owners]; the least bound comes first."""
    bounds = np.full(2 * owners.size, NONE, np.int64)
    for cut in range(bounds.size):
        owner = owners[cut // 2]
        share = share_of(space, split, owner, cut % 2)
        if is_legal(space, timing, share):
            bounds[cut] = lower_bound(space, timing, share, space.drain_moves[owner], space.load_moves[owner])
    best = BestOfDraft(NONE, -1, share_of(space, split, owners[0], 0))
    while bounds.min() < best.ticks:
        cut = int(bounds.argmin())
        owner = owners[cut // 2]
        ticks, share, _ = best_tiling(space, timing, share_of(space, split, owner, cut % 2), owner)
        if ticks < best.ticks:
            best = BestOfDraft(ticks, owner, share)
        bounds[cut] = NONE
    return best
