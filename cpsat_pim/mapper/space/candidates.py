"""The spatial mappings and tiles among which a master problem chooses."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tables.nest import Ints

#: Columns of `vectors`: PEs per dim and lanes per dim (together the spatial mapping), and whether PEs store I, W, O.
PES, LANES, SPATIAL, IN_PE = slice(0, 8), slice(8, 16), slice(0, 16), slice(16, 19)
#: Columns of `tiles`: the row of its vector, the extents e0 and e1 (inside the loops of the PEs and of the global
#: buffer), and a lower bound on the cost of all mappings with this vector and tile.
VECTOR, INSIDE_PE, INSIDE_BUFFER, COST = 0, slice(1, 9), slice(9, 17), 17


class Extents(NamedTuple):
    """The values that candidates have, one row per candidate: int[n, 8], columns are dims; None if not known.

    `step`: indices of one step, PEs times lanes. The others are named as in `Variables`.
    """

    pes: Ints
    lanes: Ints
    step: Ints
    e0: Ints | None
    eA: Ints | None
    e1: Ints | None

    def along(self, name: str, d: int) -> set[int] | None:
        """Return the set of values along a dim; None if they are not known."""
        known = getattr(self, name)
        return None if known is None else set(np.unique(known[:, d]).tolist())


class Candidates(NamedTuple):
    """All vectors, and all tiles, with a lower bound of at most a trial bound. No other mapping costs as little.

    `vectors` int[n, 19] and `tiles` int[m, 18]: columns as above. `lower_bounds` int[n]: a lower bound on the cost of
    all mappings with a vector. `tiles` is None if there are too many to list.
    """

    vectors: Ints
    lower_bounds: Ints
    tiles: Ints | None

    def with_inner_extents(self, extents: Sequence[int] | None) -> "Candidates":
        """Return the candidates whose extents inside the outer loops can be the given ones; all of them for None."""
        if extents is None:
            return self
        if self.tiles is not None:
            return self._replace(tiles=self.tiles[(self.tiles[:, INSIDE_BUFFER] == extents).all(axis=1)])
        fit = (np.array(extents) % (self.vectors[:, PES] * self.vectors[:, LANES]) == 0).all(axis=1)
        return Candidates(self.vectors[fit], self.lower_bounds[fit], None)

    def extents(self) -> Extents:
        """Return the PEs, lanes and, where tiles are known, extents of the candidates."""
        pes, lanes = self.vectors[:, PES], self.vectors[:, LANES]
        if self.tiles is None:
            return Extents(pes, lanes, pes * lanes, None, None, None)
        of, e0, e1 = self.tiles[:, VECTOR], self.tiles[:, INSIDE_PE], self.tiles[:, INSIDE_BUFFER]
        pes, lanes = pes[of], lanes[of]
        return Extents(pes, lanes, pes * lanes, e0, pes * e0, e1)
