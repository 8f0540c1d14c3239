"""The predicted latency as docs/model.md, section 7, defines it, recomputed from a walk over single MACs.

Nothing here comes from `tables`. Tiles, moves, accesses and scan times are those that the naive simulator
(`tests/tracesim/naive.py`) lists; the symbols are the page's.
"""

from itertools import groupby, pairwise
from typing import NamedTuple

from tests.tracesim.naive import Naive

I, W, O = range(3)  # noqa: E741 -- the field's letters
READ, WRITE = range(2)
MACS, PE, GLOBAL_BUFFER, ROW_BUFFER, DRAM = range(-1, 4)
NAMES = ("I", "W", "O")


class Stalls(NamedTuple):
    """Stall cycles of one tensor: all, those of a uniform stream, and those of the second tile."""

    all: int
    steady: int
    second: int


class Formula:
    """The formula's symbols for one nest that has been walked."""

    def __init__(self, walked: Naive) -> None:
        """Take the walk's lists."""
        self.walked, self.device = walked, walked.device
        outer = max(len(walked.around[t, PE]) for t in range(3))
        self.array_steps = [list(steps) for _, steps in groupby(walked.steps, key=lambda step: step[0][:outer])]
        self.steps, self.s = len(walked.steps), len(self.array_steps[0])

    # -- mapping ------------------------------------------------------------------------------------------------

    def levels(self, t: int) -> list[int]:
        """c1(t), c2(t), ..: the levels below DRAM that store t, outermost first, then the MACs."""
        return [*self.walked.chain[t], MACS]

    def n(self, t: int, level: int) -> int:
        """n(t, c): tiles of t that the level takes in."""
        if level == MACS:
            return self.steps
        kinds = ("out",) if t == O else ("in",)  # each tile of O leaves once for each time it was taken
        return sum(op[0] in kinds and op[1:3] == (t, level) for op in self.walked.operations)

    def returns(self, level: int) -> int:
        """Tiles of O that come back to a level."""
        return sum(op[0] == "in" and op[1:3] == (O, level) for op in self.walked.operations)

    def spills(self) -> bool:
        """Whether tiles of O come back from DRAM to a level."""
        first = self.levels(O)[0]
        return first != MACS and self.returns(first) > 0

    # -- moves on the chip --------------------------------------------------------------------------------------

    def move(self, t: int, level: int, way: int) -> int:
        """move(t, p -> c, way): cycles of one tile on the link into a level."""
        elements = max(op[3] for op in self.walked.operations if op[0] in ("in", "out") and op[1:3] == (t, level))
        return self.walked.bus_cycles(t, self.walked.parent(t, level), way, elements)

    def inner_links(self, t: int) -> list[int]:
        """The levels whose link to t's parent lies on the chip."""
        return self.walked.chain[t][1:]

    def path(self, t: int, way: int) -> int:
        """Cycles of one tile over all inner links."""
        return sum(self.move(t, level, way) for level in self.inner_links(t))

    # -- the array ----------------------------------------------------------------------------------------------

    def array_step_cycles(self) -> int:
        """A: s steps, or the operands that pass the PEs in them."""
        longest = self.s
        shares = (self.device.multicast, self.device.multicast, self.device.spatial_reduction)
        for t in range(3):
            level = self.walked.at(t)
            if level in (PE, DRAM):
                continue
            macs = self.walked.steps[0][1]
            used = len({u[t] for _, u in macs}) if shares[t] else len(macs)
            ways = (READ, WRITE) if t == O else (READ,)
            longest = max(longest, sum(self.walked.bus_cycles(t, level, way, used * self.s) for way in ways))
        return longest

    def steps_term(self) -> int:
        """C: all array steps."""
        return self.array_step_cycles() * len(self.array_steps)

    def has_two_slots(self, level: int) -> bool:
        """Whether a level loads a tile while another one is in use."""
        return level in (PE, GLOBAL_BUFFER) and bool(self.device.double_buffered[level])

    def exposed_sums(self) -> int:
        """X: moves of O over the inner links on which tiles come back."""
        total = 0
        for level in self.inner_links(O):
            if self.returns(level):
                leaving = self.returns(level) if self.has_two_slots(level) else self.n(O, level) - 1
                total += leaving * self.move(O, level, WRITE) + self.returns(level) * self.move(O, level, READ)
        return total

    def exchange(self) -> int:
        """swap: cycles in which a tile of O leaves and another returns, over all inner links with returns."""
        links = [level for level in self.inner_links(O) if self.returns(level)]
        return sum(self.move(O, level, way) for level in links for way in (READ, WRITE))

    def spilled_stream(self) -> int:
        """Z: where tiles come back from DRAM, the read-backs, the write-outs before them, and what q(O) hides of no
        other write-out but the last.
        """
        if not self.spills():
            return 0
        first = self.levels(O)[0]
        scans = [op[0] for op in self.walked.operations if op[1:3] == (O, first) and op[0] in ("in", "out")]
        q = (self.steps_term() + self.exposed_sums()) // self.n(O, first) if self.has_two_slots(first) else 0
        lasts = [b - a for a, b in pairwise(self.walked.times[O])]
        waits = zip(scans, [*scans[1:], "end"], lasts, strict=True)
        return sum(
            d if "in" in (way, following) else max(0, d - q) for way, following, d in waits if following != "end"
        )

    def exposed_on_chip(self) -> int:
        """XY: X, and the moves of one tensor into the one slot of its innermost level that X does not cover."""
        sums, found = self.exposed_sums(), [self.exposed_sums()]
        exchanges = self.n(O, self.inner_links(O)[-1]) - 1 if self.inner_links(O) else 0
        for t in range(3):
            if waits := self.moves_into_one_slot(t):
                moves = self.n(t, self.inner_links(t)[-1]) - 1
                both = min(sums, waits, exchanges * (waits // moves), moves * self.exchange())
                found.append(sums + waits - both)
        return max(found)

    def moves_into_one_slot(self, t: int) -> int:
        """Y(t): all moves but one into the one slot of the innermost level, if none returns."""
        for level in self.inner_links(t)[-1:]:
            if not self.has_two_slots(level) and not (t == O and self.returns(level)):
                return (self.n(t, level) - 1) * self.move(t, level, WRITE if t == O else READ)
        return 0

    def is_bare(self, t: int) -> bool:
        """Whether nothing hides t's loads: one slot takes them, and the MACs what is taken from it."""
        return len(self.levels(t)) == 2 and not self.has_two_slots(self.levels(t)[0])

    def takes_turns(self, t: int) -> bool:
        """Whether a load, the moves behind it and the array steps follow each other: two levels of one slot."""
        *levels, _ = self.levels(t)
        return len(levels) == 2 and sum(map(self.has_two_slots, levels)) == 0

    def exposed_loads(self, t: int) -> int:
        """late(t): X and stall(t), less what is part of both; of X and Y(t) the longer one where turns are taken."""
        sums, stall = self.exposed_sums(), self.stalls(t).all
        if self.is_bare(t):
            sums -= min(sums, stall, (self.n(t, self.levels(t)[0]) - 1) * self.exchange())
        if self.takes_turns(t):
            return stall + max(sums, self.moves_into_one_slot(t))
        return sums + stall

    def exposed_link(self) -> int:
        """C, all scans into the one slot of the only level that stores a tensor, and those of tensors that take turns,
        as far as the work on a tile of the inner level does not hide them.
        """
        total = self.steps_term()
        for t, times in enumerate(self.walked.times):
            edge = times[-1] - times[-2] if t == O else times[1]
            if self.is_bare(t):
                total += times[-1]
            elif self.takes_turns(t) and not (t == O and self.spills()):
                total += edge + self.stalls(t).all
        return total

    def link_wait(self) -> int:
        """The largest wait(u) of the tensors that share the bus."""
        firsts = [self.levels(t)[0] for t in range(3)]
        if MACS in firsts or self.has_uneven_tiles():
            return 0
        tiles = [self.n(t, first) for t, first in enumerate(firsts)]
        often = [t for t in range(3) if tiles[t] == max(tiles)]
        seldom = {0, 1, 2} - {*often}
        if O not in often and tiles[W] < 3 * tiles[I]:
            seldom -= {I}
        return max([0, *(self.loads_but_edge(u) - (tiles[u] - 1) * self.hidden(u, often) for u in seldom)])

    def has_uneven_tiles(self) -> bool:
        """Whether a loop of a level lies outside some tensor's tile there."""
        own = [[factor for level, _, factor in self.walked.loops if level == m] for m in range(2)]
        points = [max(self.walked.nest.outside[m]) for m in range(2)]
        return any(factor > 1 for factors, point in zip(own, points, strict=True) for factor in factors[:point])

    def loads_but_edge(self, u: int) -> int:
        """L(u): a column delay a column and a row miss an activation, without the first load, of O the last one."""
        _, rp, _, _, rtp, ccd, rl, bl = map(int, self.device.timing)
        times = self.walked.times[u]
        edge = times[-1] - times[-2] if u == O else times[1]
        taken = ccd * self.walked.columns[u] + self.miss() * self.walked.activations[u]
        return taken - edge + min(0, rl + bl // 2 - rtp - rp)

    def miss(self) -> int:
        """Cycles that a row miss adds to a scan."""
        rcd, rp, _, _, rtp, ccd, _, _ = map(int, self.device.timing)
        return rcd + rtp + rp - ccd

    def misses(self, t: int) -> int:
        """Row misses of each scan of t, in a bank of its own: its first row may be open, in several banks all."""
        banks = self.device.banks * int(self.walked.placement.bank_counts[t])
        return self.walked.fewest_rows[t] - 1 if banks == 1 else 0

    def hidden(self, u: int, often: list[int]) -> int:
        """hide(u): what hides a load of u."""
        t, ccd = often[0], int(self.device.timing[5])
        loads = sum(ccd * self.walked.fewest_columns[v] + self.misses(v) * self.miss() for v in often)
        first, *inner = self.levels(t)
        spare = max(0, self.steps_term() // self.n(t, first) - loads)
        if O in (u, *often):
            return spare
        behind = sum(self.steps_term() // self.n(t, level) for level in inner if level != MACS)
        return (2 if u == I else 1) * spare + 2 * behind

    # -- DRAM streams -------------------------------------------------------------------------------------------

    def hides(self, t: int) -> int | None:
        """q(t): cycles of the array's work that hide one load; None: the waits for the stream are Z."""
        array, (first, *inner) = self.steps_term() + self.exposed_sums(), self.levels(t)
        if first == MACS:
            return array // len(self.array_steps)
        if t == O and self.spills():
            return None
        holder = first if self.has_two_slots(first) else inner[0]
        return 0 if holder == MACS else array // self.n(t, holder)

    def loads(self, t: int) -> list[int]:
        """d(1), d(2), ..: what the stream advances per tile, or per array step where the MACs draw t."""
        times = self.walked.times[t]
        if self.levels(t)[0] != MACS:
            return [b - a for a, b in pairwise(times)]
        uses = [op[2][t] for op in self.walked.operations if op[0] == "step"]
        return [times[end] - times[begin] for _, _, begin, end in uses]

    def stalls(self, t: int) -> Stalls:
        """stall(t), steady(t), second(t)."""
        q, loads, (first, *_) = self.hides(t), self.loads(t), self.levels(t)
        if q is None:
            return Stalls(0, 0, 0)
        overlapped = loads if first == MACS else loads[:-1] if t == O else loads[1:]
        waits = [max(0, d - q) for d in overlapped]
        steady = len(overlapped) * max(0, min(overlapped) - q) if overlapped else 0
        is_ahead = t != O and first in (PE, GLOBAL_BUFFER) and bool(self.device.double_buffered[first])
        return Stalls(sum(waits), steady, waits[0] if waits and is_ahead else 0)

    def head(self, t: int) -> int:
        """head(t): cycles until the first tile of I or W is at the innermost level that stores it."""
        return 0 if self.levels(t)[0] == MACS else self.walked.times[t][1] + self.path(t, READ)

    def residence(self, t: int) -> int:
        """res(t): steps for which a tile from DRAM is in use."""
        return self.steps // self.n(t, self.levels(t)[0])

    def row_buffer_use(self, t: int) -> int:
        """use(t): cycles for which the tiles in the row buffer are in use."""
        level, *inner = self.levels(t)[1:]
        if level == MACS:
            return self.steps_term()
        moved = self.n(t, level) * self.move(t, level, WRITE if t == O else READ)
        if t == O and self.returns(level):
            moved += self.returns(level) * self.move(O, level, READ)
        if inner == [MACS] and not self.has_two_slots(level):
            return moved + self.residence(t)
        return max(moved + self.steps // self.n(t, level), self.residence(t))

    # -- ports and the interconnect -----------------------------------------------------------------------------

    def busy(self) -> dict[str, int]:
        """busy(m): transfer times of section 6."""
        totals = self.walked.totals()  # per level and way: I, W, O and all three; last the interconnect
        names = ("pe", "global_buffer", "row_buffer")
        return {name: max(totals[8 * m : 8 * m + 8]) for m, name in enumerate(names)} | {"interconnect": totals[-1]}

    # -- together -----------------------------------------------------------------------------------------------

    def terms(self) -> dict[str, int]:
        """The terms of which the latency is the largest, without the pipeline latency."""
        is_shared, streams = bool(self.device.shared_bus), [times[-1] for times in self.walked.times]
        heads = [self.head(I), self.head(W)]
        start = sum(heads) if is_shared else max(heads)
        end = streams[O] - self.walked.times[O][-2] + self.path(O, WRITE)
        spilled, stalls = self.spilled_stream(), [self.stalls(t) for t in range(3)]
        single = [stalls[t].all - stalls[t].steady for t in range(3) if not self.is_bare(t) and not spilled]
        work = self.steps_term() + self.exposed_on_chip() + spilled
        terms = {"compute": start + work + sum(single) + end}
        for t, name in enumerate(NAMES):
            ahead = 0 if t == O or is_shared else start - heads[t]
            stalled = self.exposed_loads(t) - min(ahead, stalls[t].second) + (spilled if t == O else 0)
            terms[f"dram_{name}"] = start + self.steps_term() + stalled + end
            if self.levels(t)[0] == ROW_BUFFER:
                alone = streams[t] + self.row_buffer_use(t) + (start if t == O else end)
                terms[f"dram_{name}"] = max(terms[f"dram_{name}"], alone)
        if is_shared:
            waiting = start + self.steps_term() + self.link_wait() + end
            busy = sum(streams) + min(map(self.residence, range(3)))
            terms["dram_bus"] = max(busy, self.exposed_link(), waiting)
        return terms | {name: start + busy + end for name, busy in self.busy().items()}
