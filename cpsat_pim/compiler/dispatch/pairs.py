"""Score and context together: the exact search that closes the gap between two separate optima.

The values lie directly behind the keys. Every pair takes at least the ticks of its score, one for every softmax, and
what its context takes if the row in which its values begin is already open. And the context's first MAC follows the
score's last one, by a PRE and an ACT if its row is another one. Pairs are walked in the order of their bounds until no
bound is below the best pair.
"""

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.mapping import Mapping
from cpsat_pim.compiler.search.space import SpaceOf
from tables.commands.candidates import IS_TREE, LAST_MAC, OWNER, TICKS, TILING, behind_first_mac
from tables.commands.steps import OUTPUT_STATIONARY, place_batch
from tables.commands.sweep import NONE, share_of, tiled
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


def end_columns(space: SpaceOf, timing: Timing, candidates: Ints) -> Ints:
    """int64[candidates]: the column of a row behind the matrix of each candidate."""
    shares = [share_of(space.arrays, 0, int(c[OWNER]), int(c[IS_TREE])) for c in candidates]
    return np.array([place_batch(share, share.batches, timing.columns) % timing.columns for share in shares], np.int64)


def pair_bounds(
    space: SpaceOf, timing: Timing, scores: Ints, ends: Ints, contexts: Ints, offsets: Ints, heads: int
) -> Ints:
    """int64[scores, contexts]: ticks that a pair takes at least; `space` is that of the contexts.

    `ends` int64[scores]: the column behind a score's matrix. `offsets` int64[contexts]: the one at which a context's
    matrix was taken to begin; pairs of which both differ are no pairs and get a large bound.
    """
    separate = scores[:, TICKS, None] + heads + contexts[None, :, TICKS]
    behind = np.array([_behind(space, timing, *pair) for pair in zip(contexts, offsets.tolist(), strict=True)])
    switch = np.where(ends > 0, timing.mac, row_switch(timing))
    together = scores[:, LAST_MAC, None] + switch[:, None] + behind
    return np.asarray(np.where(ends[:, None] == offsets, np.maximum(separate, together), NONE), np.int64)


def row_switch(timing: Timing) -> int:
    """Ticks from the last MAC of one row to the first of another."""
    return timing.mac_to_pre + timing.pre_to_act + timing.act_to_mac


def _behind(space: SpaceOf, timing: Timing, candidate: Ints, offset: int) -> int:
    owner = int(candidate[OWNER])
    share = tiled(share_of(space.arrays, 0, owner, int(candidate[IS_TREE])), candidate[TILING:])
    return behind_first_mac(timing, share, int(space.arrays.drain_moves[owner]), offset)


def by_bound(bounds: Ints, cutoff: int) -> Ints:
    """int64[pairs, 3]: bound, score and context of every pair whose bound is below a cutoff, the least bound first."""
    rows, columns = np.nonzero(bounds < cutoff)
    order = np.argsort(bounds[rows, columns], kind="stable")
    return np.stack([bounds[rows, columns][order], rows[order], columns[order]], axis=1)
