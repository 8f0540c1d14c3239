"""The spatial mappings and tiles that a program is of."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tables.nest import Ints

#: Columns of vectors: PEs per dim and lanes per dim, which are the spatial mapping, and whether PEs store I, W, O.
PES, LANES, SPATIAL, IN_PE = slice(0, 8), slice(8, 16), slice(0, 16), slice(16, 19)
#: Columns of tiles: the row of the vector, extents inside the PEs' loops and the global buffer's, the least cost.
VECTOR, INSIDE_PE, INSIDE_BUFFER, COST = 0, slice(1, 9), slice(9, 17), 17


class Extents(NamedTuple):
    """PEs, lanes and extents that there are, each int[n, 8] (`Variables`); None where they are not known."""

    pes: Ints
    lanes: Ints
    step: Ints
    e0: Ints | None
    eA: Ints | None
    e1: Ints | None

    def along(self, name: str, d: int) -> set[int] | None:
        """All values along a dim; None if they are not known."""
        known = getattr(self, name)
        return None if known is None else set(known[:, d].tolist())


class Candidates(NamedTuple):
    """What can cost at most a target: `vectors` int[n, 19] (PEs per dim, lanes per dim, tensors in PEs) and the least
    that each costs. `tiles` int[m, 18]: vector, extents inside the PEs' loops and the global buffer's, least cost;
    None if they are too many.
    """

    vectors: Ints
    least: Ints
    tiles: Ints | None

    def within(self, extents: Sequence[int] | None) -> "Candidates":
        """Those with the given extents inside the outer loops."""
        if extents is None:
            return self
        if self.tiles is not None:
            return self._replace(tiles=self.tiles[(self.tiles[:, INSIDE_BUFFER] == extents).all(axis=1)])
        fit = (np.array(extents) % (self.vectors[:, PES] * self.vectors[:, LANES]) == 0).all(axis=1)
        return Candidates(self.vectors[fit], self.least[fit], None)

    def extents(self) -> Extents:
        """What PEs, lanes and, where tiles are known, extents they have."""
        pes, lanes = self.vectors[:, PES], self.vectors[:, LANES]
        if self.tiles is None:
            return Extents(pes, lanes, pes * lanes, None, None, None)
        of, e0, e1 = self.tiles[:, VECTOR], self.tiles[:, INSIDE_PE], self.tiles[:, INSIDE_BUFFER]
        pes, lanes = pes[of], lanes[of]
        return Extents(pes, lanes, pes * lanes, e0, pes * e0, e1)
