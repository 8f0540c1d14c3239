"""Which tensors are interrupted between any two of their scans, where tensors share a bank (docs/model.md, section 5).

Let L(t) be the number of loops, outermost first, that fetch t. If a tensor u of the bank has L(u) >= L(t), u is scanned
between any two scans of t that follow each other in different steps. One pair may be excepted: the first two scans of I
or W if u is O, which is not scanned at the start; or the last two of O, as nothing else is scanned at the end. So with
each scan but one, t opens all rows of its tile, as with closed pages. At most one tensor of a part has a larger L than
all others.
"""

import itertools

from cpsat_pim.base.dims import ON_CHIP, Tensor
from cpsat_pim.mapper.model.builder import Lit
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.scans import CONSUMERS
from cpsat_pim.mapper.model.variables import OUTSIDE_PE, Variables
from tables.nest import MACS


class SharedBanks:
    """`is_interrupted[t]`: whether some tensor of t's bank is fetched by as many loops as t, or by more.

    The literal may be true only where this is so in every mapping that a solution stands for. It has to be true only as
    far as the innermost classes show.
    """

    def __init__(self, v: Variables, reuse: Reuse) -> None:
        self.v, self.b, self.reuse = v, v.b, reuse
        self.is_interrupted: list[Lit] = [
            self.b.boolean(f"interrupted_{t.name}") if v.restriction.is_shared(t) else False for t in Tensor
        ]
        for part in v.restriction.shared_parts:
            for t, u in itertools.permutations(part, 2):
                self._one_is_interrupted(t, u)
                self._drawn_tensors_interrupt(t, u)
                for m in OUTSIDE_PE:
                    self._loops_of_a_level_interrupt(t, u, m)

    def _one_is_interrupted(self, t: Tensor, u: Tensor) -> None:
        """Of two tensors one is fetched by no more loops than the other."""
        self.b.clause([self.is_interrupted[t], self.is_interrupted[u]])

    def _drawn_tensors_interrupt(self, t: Tensor, u: Tensor) -> None:
        """All loops fetch what the MACs draw from the DRAM."""
        self.b.clause([self.b.negated(self.v.first_consumer(MACS, u)), self.is_interrupted[t]])

    def _loops_of_a_level_interrupt(self, t: Tensor, u: Tensor, m: int) -> None:
        """If the innermost loop of a level fetches u, and no loop inside the level fetches t, u interrupts t.

        The innermost loop is relevant to u unless it is of u's own irrelevant class. Orders of the single outer levels
        are not known with `any_split`.
        """
        v, b = self.v, self.b
        if v.stands_for_both(m):
            return
        inside = [v.first_consumer(c, u) for c in CONSUMERS if c < m]
        b.clause(
            [
                self.is_interrupted[t],
                self._is_fetched_inside(t, m),
                b.negated(b.either(inside, f"taken_inside_{m}_{u.name}")),
                b.negated(self.reuse.has_relevant[m, u]),
                v.innermost[m][u],
            ]
        )

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
