"""Which tensors are interrupted between any two of their scans, where tensors share a bank (docs/model.md, section 5).

Let L(t) be the number of loops, outermost first, that fetch t. If a tensor u of the bank has L(u) >= L(t), u is scanned
between any two scans of t that follow each other in different steps. So with each scan t opens all rows of its tile, as
with closed pages. One pair of scans may be excepted if L(u) = L(t): the first two of I or W if u is O, which is not
scanned at the start, and the last two of O, as nothing else is scanned at the end. At most one tensor of a part has a
larger L than all others.
"""

import itertools

import numpy as np

from cpsat_pim.base.dims import ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapper.bounds.stream_bounds import has_known_boxes
from cpsat_pim.mapper.model.builder import Int, Lit
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.scans import CONSUMERS, Scans
from cpsat_pim.mapper.model.variables import OUTSIDE_PE, Variables
from tables.bounds.shapes import ShapeTable
from tables.nest import MACS, Ints


class SharedBanks:
    """`is_interrupted[t]`: whether some tensor of t's bank is fetched by as many loops as t, or by more.
    `is_always_interrupted[t]`: whether also no pair of scans is excepted.

    The first literal may be true only where this is so in every mapping that a solution stands for. It has to be true
    only as far as the innermost classes show; so does the second one.
    """

    def __init__(self, v: Variables, reuse: Reuse) -> None:
        self.v, self.b, self.reuse = v, v.b, reuse
        self.is_interrupted, self.is_always_interrupted = (
            [self.b.boolean(f"{name}_{t.name}") if v.restriction.is_shared(t) else False for t in Tensor]
            for name in ("interrupted", "always_interrupted")
        )
        for t in filter(v.restriction.is_interrupted, Tensor):
            self.is_interrupted[t] = True
        for part in v.restriction.shared_parts:
            for t, u in itertools.permutations(part, 2):
                self._one_is_interrupted(t, u)
                self._drawn_tensors_interrupt(t, u)
                for m in OUTSIDE_PE:
                    if not v.stands_for_both(m):  # the orders of the single outer levels are not known
                        self._loops_of_a_level_interrupt(t, u, m)

    def _one_is_interrupted(self, t: Tensor, u: Tensor) -> None:
        """Of two tensors one is fetched by no more loops than the other; what is always interrupted is interrupted."""
        self.b.clause([self.is_interrupted[t], self.is_interrupted[u]])
        self.b.clause([self.b.negated(self.is_always_interrupted[t]), self.is_interrupted[t]])

    def _drawn_tensors_interrupt(self, t: Tensor, u: Tensor) -> None:
        """All loops fetch what the MACs draw from the DRAM, and they do so after all other scans of a step."""
        self.b.clause([self.b.negated(self.v.first_consumer(MACS, u)), self.is_always_interrupted[t]])

    def _loops_of_a_level_interrupt(self, t: Tensor, u: Tensor, m: Level) -> None:
        """If the innermost loop of a level fetches u, and no loop inside the level fetches t, u interrupts t.

        The innermost loop is relevant to u unless it is of u's own irrelevant class. Without an exception if neither is
        O, or if that loop does not fetch t.
        """
        b = self.b
        unless = [
            self._is_fetched_inside(t, m),
            b.negated(self.is_taken_inside(u, m)),
            b.negated(self.reuse.has_relevant[m, u]),
            self.v.innermost[m][u],
        ]
        b.clause([self.is_interrupted[t], *unless])
        fetched_as_often = self._may_fetch_innermost(t, m) if Tensor.O in (t, u) else False
        b.clause([self.is_always_interrupted[t], fetched_as_often, *unless])

    def _may_fetch_innermost(self, t: Tensor, m: Level) -> Lit:
        """Return whether the innermost loop of a level may fetch t: unless it is of t's irrelevant class."""
        v, b, name = self.v, self.b, f"fetches_{m}_{t.name}"
        found = [v.residency.is_uneven(m, t)] if m in ON_CHIP else []
        taken = b.either([self.is_taken_inside(t, m), *found], f"{name}_taken")
        is_known = v.bounds[Dim.G] == 1  # else a loop of groups may be the innermost one
        is_free = b.both([v.innermost[m][t], self.reuse.has_loops[m][t], is_known], f"{name}_free")
        return b.both([taken, b.negated(is_free)], name)

    def is_taken_inside(self, t: Tensor, m: Level) -> Lit:
        """Return whether t's first consumer lies inside a level's loops."""
        return self.b.either([self.v.first_consumer(c, t) for c in CONSUMERS if c < m], f"inside_{m}_{t.name}")

    # --- The tensor that is fetched by most loops --------------------------------------------------------------------

    def open_rows_between(
        self, t: Tensor, table: ShapeTable, scans: Scans, activations: Int, max_activations: int
    ) -> None:
        """Where others do not interrupt every scan of t, its sweeps between their scans open their rows (B16)."""
        if not self.v.restriction.is_shared(t) or not has_known_boxes(self.v.layer, t):
            return
        sizes = np.array([self.v.bounds[d] for d in table.dims], np.int64)
        visits = (sizes // table.extents).prod(axis=1)
        least = np.maximum(visits, table.rescan_activations)
        rows = np.column_stack([table.extents, table.layout, table.closed_activations, least])
        rows = rows[(least <= max_activations) & table.is_of_boxes]
        for u in self.v.restriction.part(t):
            for m in OUTSIDE_PE if u is not t and len(rows) else ():
                if not self.v.stands_for_both(m):
                    self._sweeps_open_rows(t, u, m, rows, table.dims, scans, activations)

    def _sweeps_open_rows(
        self, t: Tensor, u: Tensor, m: Level, rows: Ints, dims: tuple[int, ...], scans: Scans, activations: Int
    ) -> None:
        """If a loop of level m fetches u, t sweeps a box between two scans of u: once per iteration of all loops but
        the contiguous innermost ones of u's irrelevant class, which sweep the box.

        As t is fetched by loops inside the box, each pass scans all of it. If u is scanned before t in each step, a
        pass opens all rows of the box. Else the first scan of a pass comes before u's, and the last row of one pass may
        be open for the next one; but between two scans of u, t opens some row.
        """
        b, v, name = self.b, self.v, f"between_{m}_{t.name}_{u.name}"
        inside = [self.is_taken_inside(x, m) for x in (t, u)]
        sweeps = b.both([b.negated(self.is_interrupted[t]), self.reuse.has_relevant[m, u], *inside], name)
        if sweeps is False:
            return
        box = self.reuse.swept_by(m, u)
        keys, kept = b.keys(rows, [box[d] for d in dims], sweeps, name)
        names = [f"{name}_{x}" for x in ("layout", "opened", "least")]
        layout, opened, least = b.lookup(keys, kept, names)
        passes = b.product([v.class_temporal[n][t] for n in OUTSIDE_PE if n >= m], f"{name}_passes")
        b.imply([sweeps], layout == scans.layout)
        b.imply([sweeps], activations >= b.product([least, passes], f"{name}_least"))
        is_after = (t, u) == (Tensor.W, Tensor.I) or v.first_consumer(MACS, t)
        if is_after is not False:
            b.imply([sweeps, is_after], activations >= b.product([opened, passes], f"{name}_all"))

    def _is_fetched_inside(self, t: Tensor, m: int) -> Lit:
        """Return whether loops inside a level's may fetch t."""
        v, b = self.v, self.b
        found = []
        for c in CONSUMERS:
            if c < m:
                fetching = [self.reuse.has_relevant[n, t] for n in OUTSIDE_PE if c < n < m]
                fetching += [v.residency.is_uneven(c, t)] if c in ON_CHIP else [c == MACS]
                name = f"fetched_{c}_{m}_{t.name}"
                found.append(b.both([v.first_consumer(c, t), b.either(fetching, name)], name))
        return b.either(found, f"fetched_inside_{m}_{t.name}")
