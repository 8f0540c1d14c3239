"""A necessary condition for the dataflow class that is asked for.

If the array and the tensors in the PEs leave several classes possible, a mapping has the class of the tensor whose
tiles are replaced least often (`cpsat_pim.mapping.dataflow`). A tile is replaced once per iteration of all loops
outside it, except those inside all relevant ones, its *tail*. Only one tensor can have a tail outside the loops of the
PEs: the one to which the innermost loop there is irrelevant. If it is the wanted tensor, that wins; if it is a rival,
the rival wins. Otherwise the loops of the PEs decide: they replace the operands of tensors that the PEs do not store.
The master problem knows neither the order of these loops nor the places of groups; `cpsat_pim.mapper.search.completion`
evaluates the orders.
"""

from collections.abc import Iterable, Sequence

from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.mapper.model.builder import Int, Lit
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.variables import CLASSES, GROUPS, OUTSIDE_PE, Variables
from cpsat_pim.mapper.space.candidates import IN_PE, PES
from cpsat_pim.mapping.dataflow import STATIONARY, Dataflow

#: The tensors in the order in which they win ties.
_RANK = list(STATIONARY.values())


class DataflowRule:
    """Forbids mappings in which a rival's tensor is certainly replaced less often than that of the wanted class.

    `candidates`: rows of PEs per dim, lanes per dim and whether PEs store I, W, O. `in_pe`: the last as variables.
    """

    def __init__(
        self, v: Variables, reuse: Reuse, wanted: Dataflow, candidates: Iterable[Sequence[int]], in_pe: list[Int]
    ) -> None:
        self.v, self.b, self.reuse = v, v.b, reuse
        stays = STATIONARY[wanted]
        is_looped = [self._is_looped(t) for t in Tensor]
        has_tail = self.b.both([self.b.negated(is_looped[stays]), self._tail(stays, False)], "has_tail")
        least = self._operands(stays, is_looped[stays], [c for c in range(len(CLASSES)) if c != stays])
        for t, is_rival in zip(Tensor, self._rivals(candidates, in_pe), strict=True):
            undecided = [is_rival, self.b.negated(has_tail)]
            tail = self.b.both([self.b.negated(is_looped[t]), self._tail(t, True)], f"has_tail_{t.name}")
            self.b.clause([self.b.negated(x) for x in (*undecided, tail)])
            loses_tie = _RANK.index(t) < _RANK.index(stays)
            if is_rival is not False:
                changes = self.b.either([is_looped[t], self.v.residency.is_uneven(Level.PE, t)], "changes")
                most = self._operands(t, changes, range(len(CLASSES)))
                self.b.imply(undecided, least + int(loses_tie) <= most)

    def _rivals(self, candidates: Iterable[Sequence[int]], in_pe: list[Int]) -> list[Lit]:
        """Return for I, W and O whether the class in which that tensor stays competes with the wanted one."""
        rows = {(*row[PES], *row[IN_PE], *self._rivals_of(row)) for row in candidates}
        found = [{row[t - len(Tensor)] for row in rows} for t in Tensor]
        rivals = [self.b.boolean(f"rival_{t.name}") if len(found[t]) > 1 else found[t] == {1} for t in Tensor]
        self.b.table([*self.v.pes, *in_pe, *(self.b.flag(rival) for rival in rivals)], sorted(rows))
        return rivals

    def _rivals_of(self, row: Sequence[int]) -> list[int]:
        """Return for I, W and O whether its class is a rival under a candidate row."""
        rivals = self.v.restriction.rivals(tuple(row[PES]), tuple(bool(flag) for flag in row[IN_PE]))
        return [int(any(STATIONARY[flow] is t for flow in rivals)) for t in Tensor]

    def _is_looped(self, t: Tensor) -> Lit:
        """Return whether PEs do not store t, and their loops change its operands."""
        within = self.v.class_temporal[Level.PE]
        changes = [self.b.at_least_two(x, "changes") for c, x in enumerate(within) if c != t]
        is_drawn = self.b.negated(self.v.stored(Level.PE, t))
        return self.b.both([is_drawn, self.b.either(changes, "changes")], f"looped_{t.name}")

    def _tail(self, t: Tensor, surely: bool) -> Lit:
        """Return whether the innermost loop outside the PEs is irrelevant to t.

        A loop of groups may lie inside it; with `surely`, none does.
        """
        reuse, tails = self.reuse, []
        for m in OUTSIDE_PE:
            groups = [self.b.negated(reuse.has_loops[m][GROUPS])] if surely else []
            tails.append(self.b.both([reuse.is_free(t, Level.PE, m), reuse.has_loops[m][t], *groups], "tail"))
        return self.b.either(tails, f"tail_{t.name}")

    def _operands(self, t: Tensor, is_looped: Lit, classes: Iterable[int]) -> Int:
        """Return the iterations of some classes of loops in the PEs if `is_looped`, else 1."""
        within = self.v.class_temporal[Level.PE]
        loops = self.b.product([within[c] for c in classes], "operands", most=self.v.layer.macs)
        operands = self.b.interval(1, self.b.bounds_of(loops)[1], f"operands_{t.name}")
        self.b.imply([is_looped], operands == loops)
        self.b.imply([self.b.negated(is_looped)], operands == 1)
        return operands
