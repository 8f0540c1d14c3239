"""A link that several tensors share, a bus or a bank, serves loads in the order of the steps (docs/solver.md, B21)."""

import itertools
from collections.abc import Sequence

from attrs import frozen

from cpsat_pim.base.dims import ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Int, Lit
from cpsat_pim.mapper.model.streams import Streams
from cpsat_pim.mapper.model.variables import Variables
from tables.dram import last_run_excess, row_miss
from tables.nest import MACS


@frozen
class Loading:
    """How a tensor's loads and the array's work follow each other.

    `is_hidden`: whether the array works meanwhile; a level with one slot that alone stores a tensor loads while the
    array waits. `takes_turns`: whether loads, moves and array steps take turns. `stall`: cycles of loads that nothing
    hides.
    """

    is_hidden: Lit
    takes_turns: Lit
    stall: Int


@frozen
class Links:
    """What the array waits for over links that tensors share. No term exceeds `max_cycles`.

    `steps`, `work`: the array's steps, and cycles of all of them. By tensor `stays`, the steps for which a tile from
    DRAM is in use, `fetches`, how many tiles come from there, or go there, and its `loading`.
    """

    v: Variables
    streams: Streams
    steps: Int
    work: Int
    stays: Sequence[Int]
    fetches: Sequence[Int]
    loading: Sequence[Loading]
    max_cycles: int

    @property
    def shared(self) -> list[list[Tensor]]:
        """The tensors of each link: over a bus come those of all banks."""
        return [list(Tensor)] if self.v.arch.shared_data_bus else self.v.restriction.shared_parts

    def keep_loads_apart(self) -> bool:
        """Leave only mappings in which one scan of each tensor of a shared link together fit into the steps on a tile:
        then loads that coincide are hidden (heuristic). Return whether there is such a link.
        """
        miss, scans = row_miss(self.streams.dram), self.streams.scans
        for link in self.shared:
            loads = sum(self.streams.dram.tCCD * scans[t].columns + miss * scans[t].rows for t in link)
            for t in link:
                self.v.b.model.add(loads <= self.stays[t])
        return bool(self.shared)

    def exposed(self, tensors: Sequence[Tensor]) -> list[Int]:
        """Return the cycles of a link's scans that nothing hides, which follow each other and the array's work."""
        found: list[Int] = []
        edges, b = self.streams.end_cycles, self.v.b
        for t in tensors:
            own = self.loading[t]
            if own.is_hidden is True and own.takes_turns is False:
                continue
            found.append(b.interval(0, self.max_cycles, f"exposed_{len(tensors)}_{t.name}"))
            streams, is_shared = self.streams, self.v.restriction.is_shared(t)
            cycles = (streams.closed_cycles if is_shared else streams.cycles)[t]
            b.imply([b.negated(own.is_hidden)], found[-1] >= cycles)
            closing = max(0, last_run_excess(streams.dram)) if is_shared else 0
            b.imply([own.takes_turns], found[-1] >= edges[t] + own.stall - closing)
        return found

    def wait(self, tensors: Sequence[Tensor]) -> Int:
        """Return a variable that is at least wait(u) of docs/model.md, section 7, for each tensor u of a link."""
        b, name, works = self.v.b, "".join(t.name for t in tensors), self._works(tensors)
        wait = b.interval(0, self.max_cycles, f"link_wait_{name}")
        drawn = [self.v.first_consumer(MACS, t) for t in tensors]
        uneven = [self.v.residency.outside_any(m, d) for m in ON_CHIP for d in Dim]
        held = b.negated(b.either([*drawn, *uneven], f"not_held_{name}"))
        more = {pair: self._is_loaded_more(*pair) for pair in itertools.permutations(tensors, 2)}
        for u in tensors:
            others = [t for t in tensors if t is not u]
            hidden, all_hidden = self._hidden(u)
            for often in [[t] for t in others] + [others] * (len(others) > 1):
                rest = [t for t in others if t not in often]
                where = [held, *(more[t, u] for t in often), *(b.negated(more[x, t]) for t in often for x in rest)]
                where += [b.negated(more[pair]) for pair in itertools.permutations(often, 2)]
                where += [self.streams.scans[t].is_box for t in often]
                if Tensor.O not in (u, *often):
                    where.append(self._is_held_once(often[0]))
                    if u is Tensor.I:
                        where.append(self._are_at_least(self.fetches[Tensor.W], 3 * self.fetches[u], "spans_apart"))
                is_hiding = b.both(where, f"hides_{u.name}_{name}_{len(often)}_{often[0].name}")
                if is_hiding is False:
                    continue
                b.imply([is_hiding], wait + all_hidden >= self._loads_but_edge(u))
                self._hides_at_most(is_hiding, hidden, works[often[0]], u, often)
        return wait

    def _works(self, tensors: Sequence[Tensor]) -> dict[Tensor, Int]:
        """Return the cycles of the array steps on a tile of each tensor from DRAM."""
        if self.work is self.steps:
            return {t: self.stays[t] for t in tensors}
        works = {t: self.v.b.interval(1, self.max_cycles, f"work_on_tile_{t.name}") for t in tensors}
        for t, work in works.items():
            all_work = self.v.b.product([work, self.fetches[t]], f"work_on_tiles_{t.name}", most=self.max_cycles)
            self.v.b.model.add(all_work <= self.work)
        return works

    def _is_loaded_more(self, t: Tensor, u: Tensor) -> Lit:
        """Return whether t has more tiles than u."""
        return self._are_at_least(self.fetches[t], self.fetches[u] + 1, f"more_{t.name}_{u.name}")

    def _are_at_least(self, tiles: Int, least: Int, name: str) -> Lit:
        """Return whether there are at least so many tiles."""
        b, literal = self.v.b, self.v.b.boolean(name)
        b.imply([literal], tiles >= least)
        b.imply([b.negated(literal)], tiles <= least - 1)
        return literal

    def _is_held_once(self, t: Tensor) -> Lit:
        """Return whether one level alone stores t."""
        v, b = self.v, self.v.b
        levels = (Level.PE, Level.GLOBAL_BUFFER, Level.ROW_BUFFER)
        links = [b.both([v.first_consumer(m, t), v.linked(m, MACS, t)], f"once_{m}_{t.name}") for m in levels]
        return b.either(links, f"once_{t.name}")

    def _loads_but_edge(self, u: Tensor) -> Int:
        """Return the least cycles of all loads of u but the first one, of O but the last one."""
        streams, dram = self.streams, self.streams.dram
        taken = dram.tCCD * streams.columns[u] + row_miss(dram) * streams.activations[u]
        return taken - streams.end_cycles[u] + min(0, last_run_excess(dram))

    def _hidden(self, u: Tensor) -> tuple[Int, Int]:
        """Return what is hidden of a load of u, and of all of them but one."""
        hidden = self.v.b.interval(0, 2 * self.max_cycles, f"hidden_{u.name}")
        times = self.v.b.product([hidden, self.fetches[u]], f"all_hidden_{u.name}", most=2 * self.max_cycles)
        return hidden, times - hidden

    def _hides_at_most(self, where: Lit, hidden: Int, work: Int, u: Tensor, often: list[Tensor]) -> None:
        """The work on a tile of those that are loaded `often` hides what their own loads leave of it, or nothing."""
        b, dram = self.v.b, self.streams.dram
        times = 2 if u is Tensor.I and Tensor.O not in often else 1
        columns = sum(self.streams.scans[t].columns for t in often)
        misses = sum(self._misses(t, behind=u) for t in often)
        spare = work - dram.tCCD * columns - misses * row_miss(dram)
        hides = b.boolean(f"spare_{u.name}")
        b.imply([where, hides], hidden <= times * spare)
        b.imply([where, b.negated(hides)], hidden <= 0)

    def _misses(self, t: Tensor, *, behind: Tensor) -> Int:
        """Return the least row misses of a scan of t behind one of another tensor, which closes a row of its bank."""
        restriction = self.v.restriction
        has_one = restriction.dram(t).banks == 1
        return (self.streams.scans[t].fewest_rows - 1 if has_one else 0) + (behind in restriction.part(t))
