"""Row activations while a tile of another tensor of the bank is held (docs/solver.md, B17, B19).

Each tile of u is fetched from DRAM `passes[u]` times. While one is held, the MACs go over a box: u's dims have
the extents of its tile, and the product of the others is that of their bounds over `passes[u]`. That is so in any order
of the loops, at one or at both of the outer levels.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from attrs import frozen

from cpsat_pim.base.dims import RELEVANT, Dim, Tensor
from cpsat_pim.mapper.bounds.stream_bounds import has_known_boxes
from cpsat_pim.mapper.model.builder import Int, Lit
from cpsat_pim.mapper.model.returning import ReturningOutputs
from cpsat_pim.mapper.model.scans import Scans, ScanShapes
from cpsat_pim.mapper.model.shared_banks import SharedBanks
from cpsat_pim.mapper.model.variables import CLASSES
from tables.bounds.shapes import ShapeTable
from tables.factors import divisors
from tables.nest import MACS


class HeldBox(NamedTuple):
    """The `box` that t's scans go over while a tile of another tensor is held, if the literal `where` holds: extents by
    dim. t's boxes pass `outside` times.
    """

    where: Lit
    box: dict[int, Int]
    outside: Int


@frozen
class HeldTiles:
    """Bounds the `activations` of tensors that share a bank by the boxes that pass while tiles of others are held."""

    banks: SharedBanks
    shapes: ScanShapes
    tables: Sequence[ShapeTable]
    scans: Sequence[Scans]
    passes: Sequence[Int]
    activations: Sequence[Int]
    max_activations: Sequence[int]

    def open_rows(self, returning: ReturningOutputs) -> dict[tuple[Tensor, Tensor], HeldBox]:
        """Bound each tensor of a shared bank by the visits of each other one; return the boxes of the first that bound
        it while a tile of the second is held.
        """
        found = dict[tuple[Tensor, Tensor], HeldBox]()
        for part in self.banks.v.restriction.shared_parts:
            visits = {t: self._visits(t) for t in part}
            for u in part:
                box = self._box(u)
                for t in part:
                    if t is not u and self.banks.is_interrupted[t] is not True:
                        self._opens_between(t, visits[u])
                        held = self._opens_box(t, u, box) if box is not None else None
                        if held is not None:
                            found[t, u] = held
                if box is not None and u is not Tensor.O and Tensor.O in part:
                    turns = self._more(visits[Tensor.O], visits[u], f"turns_{u.name}")
                    returning.box_returns(turns, box, self._outside(Tensor.O, u), f"returns_{u.name}")
        return found

    def _opens_between(self, t: Tensor, visits: Int) -> None:
        """A tensor that others do not interrupt opens a row between any two fetches of another one (B17)."""
        b = self.banks.b
        b.imply([b.negated(self.banks.is_interrupted[t])], self.activations[t] >= visits - 1)

    def _opens_box(self, t: Tensor, u: Tensor, box: dict[int, Int]) -> HeldBox | None:
        """If t is scanned after u in each step, and others do not interrupt it, it opens all rows of its box for each
        tile of u (B19). Return the box if that may be so.
        """
        b, v, table = self.banks.b, self.banks.v, self.tables[t]
        is_after = (t, u) == (Tensor.W, Tensor.I) or v.first_consumer(MACS, t)
        name = f"held_{u.name}_{t.name}"
        where = b.both([b.negated(self.banks.is_interrupted[t]), self.scans[t].is_box, is_after], name)
        if where is False or not has_known_boxes(v.layer, t):
            return None
        kept = (table.closed_activations <= self.max_activations[t]) & table.is_of_boxes
        rows = np.column_stack([table.extents, table.layout, table.closed_activations])[kept]
        if not len(rows):
            return None
        keys, rows = b.keys(rows, [box[d] for d in table.dims], where, f"{name}_box")
        layout, opened = b.lookup(keys, rows, [f"{name}_layout", f"{name}_opened"])
        b.imply([where], layout == self.scans[t].layout)
        outside = self._outside(t, u)
        b.imply([where], self.activations[t] >= b.product([opened, outside], f"{name}_all"))
        return HeldBox(where, {d: box[d] for d in table.dims}, outside)

    def _more(self, one: Int, other: Int, name: str) -> Lit:
        """Return a literal that must hold if one number is larger than the other."""
        b = self.banks.b
        found = b.boolean(name)
        b.imply([b.negated(found)], one <= other)
        return found

    def _visits(self, t: Tensor) -> Int:
        """Return the fetches of t from the DRAM: of all its tiles, in all passes."""
        tiles = [self._tiles(t, d) for d in RELEVANT[t]]
        return self.banks.b.product([*tiles, self.passes[t]], f"visits_{t.name}", most=self.banks.v.layer.macs)

    def _outside(self, t: Tensor, u: Tensor) -> Int:
        """Return how many tiles of u pass while t's box is the same: along the dims that are irrelevant to t."""
        tiles = [self._tiles(u, d) for d in CLASSES[t]]
        return self.banks.b.product(tiles, f"outside_{t.name}_{u.name}", most=self.banks.v.layer.macs)

    def _tiles(self, t: Tensor, d: int) -> Int:
        """Return the number of t's tiles along one of its dims."""
        extent, bound = self._extent(t, d), self.banks.v.bounds[d]
        return self._quotient(bound, extent, f"tiles_{t.name}_{Dim(d).name}")

    def _extent(self, t: Tensor, d: int) -> Int:
        """Return the extent of t's scans along one of its dims."""
        extents = self.scans[t].extents
        if d not in extents:
            extents[d] = self.shapes.extent(t, d)
        return extents[d]

    def _box(self, u: Tensor) -> dict[int, Int] | None:
        """Return what the MACs go over while a tile of u is held; None where that is not known.

        These are the loops inside the tile and the contiguous ones around it: a box. Along several irrelevant dims the
        master problem chooses how long it is.
        """
        v = self.banks.v
        own = [d for d in CLASSES[u] if v.bounds[d] > 1]
        if v.residency.dims:
            return None
        box: dict[int, Int] = {d: self._extent(u, d) for d in RELEVANT[u]}
        return box | dict.fromkeys(CLASSES[u], 1) | self._held(u, own)

    def _held(self, u: Tensor, own: list[Dim]) -> dict[int, Int]:
        """Return the extents along the dims irrelevant to u: their product is that of their bounds over the passes."""
        v, b = self.banks.v, self.banks.b
        held = self._quotient(math.prod(v.bounds[d] for d in own), self.passes[u], f"held_{u.name}")
        if len(own) < 2:
            return dict.fromkeys(own, held)
        extents: dict[int, Int] = {}
        for d in own:
            extents[d] = b.integer(divisors(v.bounds[d]), f"held_{u.name}_{d.name}")
            b.imply([], extents[d] >= self._extent(u, d))
        b.equal_product(held, list(extents.values()))
        return extents

    def _quotient(self, bound: int, x: Int, name: str) -> Int:
        """Return a bound over one of its divisors."""
        if isinstance(x, int):
            return bound // x
        rows = [(n, bound // n) for n in self.banks.b.values(x) if bound % n == 0]
        return self.banks.b.lookup([x], rows, [name])[0]
