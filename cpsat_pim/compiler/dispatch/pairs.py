"""Score and context together: the exact search that closes the gap between two separate optima.

Every pair takes at least the ticks of its score, one for every softmax, and what its context takes if its first row is
already open. And the context's first MAC follows the score's last one by a PRE and an ACT. Pairs are walked in order
of their bounds until no bound is below the best pair.
"""

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.mapping import Mapping
from cpsat_pim.compiler.search.space import SpaceOf
from tables.commands.candidates import IS_TREE, LAST_MAC, OWNER, TICKS, TILING, behind_first_mac
from tables.commands.steps import OUTPUT_STATIONARY
from tables.commands.sweep import share_of, tiled
from tables.commands.walk import Timing

Ints = NDArray[np.int64]


def mapping_at(space: SpaceOf, candidate: Ints, splits: tuple[int, ...]) -> Mapping:
    """The mapping that a candidate is."""
    output_tile, depth_tile, order, drains, loads = candidate[TILING:].tolist()
    return Mapping(
        splits=splits,
        owners=space.owners[int(candidate[OWNER])],
        is_tree=bool(candidate[IS_TREE]),
        output_tile=output_tile,
        depth_tile=depth_tile,
        order="output-stationary" if order == OUTPUT_STATIONARY else "input-stationary",
        overlaps_drains=bool(drains),
        overlaps_loads=bool(loads),
    )


def pair_bounds(space: SpaceOf, timing: Timing, scores: Ints, contexts: Ints, heads: int) -> Ints:
    """int64[scores, contexts]: ticks that a pair takes at least; `space` is that of the contexts."""
    separate = scores[:, TICKS, None] + heads + contexts[None, :, TICKS]
    behind = np.array([_behind(space, timing, candidate) for candidate in contexts])
    return np.asarray(np.maximum(separate, scores[:, LAST_MAC, None] + row_switch(timing) + behind), np.int64)


def row_switch(timing: Timing) -> int:
    """Ticks from the last MAC of one row to the first of another."""
    return timing.mac_to_pre + timing.pre_to_act + timing.act_to_mac


def _behind(space: SpaceOf, timing: Timing, candidate: Ints) -> int:
    owner = int(candidate[OWNER])
    share = tiled(share_of(space.arrays, 0, owner, int(candidate[IS_TREE])), candidate[TILING:])
    return behind_first_mac(timing, share, int(space.arrays.drain_moves[owner]))


def by_bound(bounds: Ints, cutoff: int) -> Ints:
    """int64[pairs, 3]: bound, score and context of every pair whose bound is below a cutoff, the least bound first."""
    rows, columns = np.nonzero(bounds < cutoff)
    order = np.argsort(bounds[rows, columns], kind="stable")
    return np.stack([bounds[rows, columns][order], rows[order], columns[order]], axis=1)
