"""Cycles of the array as CP-SAT expressions: its steps, streamed operands, and partial sums that come back.

Also the cycles of one tile over the on-chip links (`tables.counts.cost`).
"""

import itertools
import math
from fractions import Fraction

from cpsat_pim.base.dims import RELEVANT, Level, Tensor
from cpsat_pim.evaluate.cost import rate, tile_width
from cpsat_pim.mapper.model.builder import Int, Lit
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.traffic import Traffic
from cpsat_pim.mapper.model.variables import OUTSIDE_PE, Variables
from tables.counts.accesses import READ, WRITE
from tables.nest import MACS

#: (parent, level) of the links inside the DRAM that move tiles.
_TILE_LINKS = (
    (Level.ROW_BUFFER, Level.GLOBAL_BUFFER),
    (Level.ROW_BUFFER, Level.PE),
    (Level.GLOBAL_BUFFER, Level.PE),
)


class Compute:
    """`steps` of the array, and the elements of each tensor's `array_tile`. No term exceeds `max_cycles`."""

    def __init__(self, v: Variables, reuse: Reuse, traffic: Traffic, max_cycles: int) -> None:
        self.v, self.b, self.reuse, self.traffic, self.max_cycles = v, v.b, reuse, traffic, max_cycles
        self._step_sets: dict[Tensor, Int] = {}
        self._steps()
        self._array_tiles()

    def _steps(self) -> None:
        """Eq. 34: steps times the MACs of a step are all MACs."""
        v = self.v
        parallel = self.b.product([v.used_pes, *v.class_lanes], "parallel", most=v.arch.pe_array.macs_per_cycle)
        macs = v.layer.macs
        per_step = [p for p in self.b.values(parallel) if macs % p == 0] or [1]
        self.steps = self.b.integer((macs // p for p in per_step), "steps")
        self.b.equal_product(macs, [self.steps, parallel])

    def _array_tiles(self) -> None:
        """Make the elements of each array tile as its link moves it: copies count where there is no sharing."""
        v, b, traffic = self.v, self.b, self.traffic
        arch = v.arch
        weight, output = (
            b.product([x for c, x in enumerate(v.class_array_tile[t]) if c != t], f"array{t.name}")
            for t in (Tensor.W, Tensor.O)
        )
        if not arch.multicast:
            weight = b.product([weight, v.class_pes[Tensor.W]], "arrayW_copies")
        if not arch.spatial_reduction:
            output = b.product([output, v.class_pes[Tensor.O]], "arrayO_copies")
        # The union of I's boxes has no closed form: divide all that is moved by the number of fetches.
        size, moved = traffic.moved[Tensor.I]["moved0" if arch.multicast else "fills"]
        fetches = self.fetches(Tensor.I, v.array_tile[Tensor.I], self.reuse.factors[Tensor.I][Level.PE], "array")
        tile = b.interval(1, max(1, size * b.bounds_of(moved)[1]), "arrayI")
        b.equal_product(b.product([size, moved], "movedI"), [tile, fetches])
        self.array_tile = {Tensor.I: tile, Tensor.W: weight, Tensor.O: output}

    def work(self) -> Int:
        """Return the cycles of all array steps. Each lasts as long as its PE loops or the slowest operand stream."""
        v, b = self.v, self.b
        links = itertools.product(Tensor, (Level.GLOBAL_BUFFER, Level.ROW_BUFFER))
        slow = [(t, parent, paces) for t, parent in links if (paces := self._stream_paces(t, parent))]
        if not slow:
            return self.steps
        inside, outside = self.reuse.array_step_loops()
        inner = b.product(inside, "inner_steps", most=v.layer.macs)
        outer = [*outside, *(x for m in OUTSIDE_PE for x in v.class_temporal[m])]
        array_steps = b.product(outer, "array_steps", most=v.layer.macs)
        b.equal_product(self.steps, [inner, array_steps])
        longest = b.interval(1, self.max_cycles, "longest_step")
        b.model.add(longest >= inner)
        for t, parent, paces in slow:
            size = b.product([self._step_set(t), inner], f"streamed_{t.name}_{parent}")
            width, linked = tile_width(self.v.layer, parent, t), v.linked(parent, MACS, t)
            times: list[Int] = []
            for pace in paces:  # reads and writes of outputs share a link
                times.append(b.interval(0, self.max_cycles, f"stream_{t.name}_{parent}_{len(times)}"))
                b.imply([linked], times[-1] * pace.numerator >= size * (width * pace.denominator))
            b.imply([linked], longest >= sum(times))
        return b.product([array_steps, longest], "compute", most=self.max_cycles)

    def _stream_paces(self, t: Tensor, parent: int) -> list[Fraction]:
        """Return the limited rates, in bytes per cycle, at which MACs can draw t from a level (and write it there)."""
        if self.v.linked(parent, MACS, t) is False:
            return []
        ways = (READ, WRITE) if t is Tensor.O else (READ,)
        return [pace for way in ways if (pace := self.pace(parent, way)) is not None]

    def _step_set(self, t: Tensor) -> Int:
        """Return the elements of t that one step draws from outside the PEs."""
        if t in self._step_sets:
            return self._step_sets[t]
        v, b, arch = self.v, self.b, self.v.arch
        shared = arch.spatial_reduction if t is Tensor.O else arch.multicast
        parallel = b.product([*v.class_pes, *v.class_lanes], f"parallel_{t.name}", most=arch.pe_array.macs_per_cycle)
        if not shared:
            result = parallel
        elif t is Tensor.I:
            size, uses = self.traffic.moved[Tensor.I]["uses"]
            result = b.interval(1, arch.pe_array.macs_per_cycle, "step_set_I")
            b.equal_product(b.product([size, uses], "uses_scaled"), [result, self.steps])
        else:
            result = b.product([v.step[d] for d in RELEVANT[t]], f"step_set_{t.name}")
        self._step_sets[t] = result
        return result

    def exposed(self) -> list[Int]:
        """Return the cycles for which partial sums that come back over on-chip links stop the array.

        Such a transfer is never hidden: the old tile goes out, then the new one comes in, then it is used. From one
        slot every tile but the last leaves before the next one comes.
        """
        found = []
        for parent, level in _TILE_LINKS:
            reuse, linked = self.reuse.factors[Tensor.O].get(level, 1), self.v.linked(parent, level, Tensor.O)
            comes_back = self.b.both([self.b.at_least_two(reuse, f"back_{level}"), linked], f"back_{parent}_{level}")
            out = self._move_cycles(Tensor.O, parent, level, WRITE)
            back = self._move_cycles(Tensor.O, parent, level, READ)
            if comes_back is False or (isinstance(out, int) and isinstance(back, int)):
                continue
            extents = self.tile_extents(Tensor.O, level)
            visits = self.fetches(Tensor.O, extents, reuse, f"exposed{level}")
            tiles = self.fetches(Tensor.O, extents, 1, f"tiles{level}")
            cost = self.b.interval(0, self.max_cycles, f"exposed_{parent}_{level}")
            returns = self.b.interval(0, self.b.bounds_of(visits)[1], f"returns_{parent}_{level}")
            self.b.model.add(returns == visits - tiles)
            is_double = self.v.arch.hierarchy[level].double_buffered
            most_out = self._most_moved(parent, WRITE)
            leaving = self._times(returns if is_double else visits, out, f"out_{parent}_{level}", most_out)
            leaving -= 0 if is_double else out
            coming = self._times(returns, back, f"back_cycles_{parent}_{level}", self._most_moved(parent, READ))
            self.b.imply([comes_back], cost >= leaving + coming)
            found.append(cost)
        return found

    def exposed_tiles(self, t: Tensor) -> Int:
        """Return the cycles for which the array waits for t's moves into the one slot of its innermost level.

        One tile is part of the start or the end. Outputs that return are part of `exposed`.
        """
        total: list[Int] = []
        way = WRITE if t is Tensor.O else READ
        for parent, level in _TILE_LINKS:
            only, reuse = self.fills_one_slot(parent, level, t), self.reuse.factors[t].get(level, 1)
            move = self._move_cycles(t, parent, level, way) if only is not False else 0
            if isinstance(move, int):
                continue
            where = [only]
            if t is Tensor.O:
                where.append(self.b.negated(self.b.at_least_two(reuse, f"back_{level}")))
            tiles = self.fetches(t, self.tile_extents(t, level), 1 if t is Tensor.O else reuse, f"loads{level}")
            # Each move rounds up to a cycle: the port's bytes take max_cycles, and no tile more than twice its bytes.
            most = 2 * self.max_cycles + self.v.layer.macs
            moves = self._times(tiles, move, f"loads_{parent}_{level}_{t.name}", most)
            cost = self.b.interval(0, self.max_cycles, f"exposed_{parent}_{level}_{t.name}")
            self.b.imply(where, cost >= moves - move)
            total.append(cost)
        return sum(total) if total else 0

    def fills_one_slot(self, parent: int, level: int, t: Tensor) -> Lit:
        """Return whether t moves over a link into a level with one slot that gives it to the MACs."""
        if self.v.arch.hierarchy[level].double_buffered:
            return False
        ends = [self.v.linked(parent, level, t), self.v.linked(level, MACS, t)]
        return self.b.both(ends, f"one_slot_{parent}_{level}_{t.name}")

    def takes_turns(self, t: Tensor) -> Lit:
        """Return whether two levels store t, with one slot each: loads, moves and array steps take turns."""
        outer = [m for m in (Level.ROW_BUFFER, Level.GLOBAL_BUFFER) if not self.v.arch.is_halved(m)]
        links = [
            self.b.both([self.v.first_consumer(parent, t), self.fills_one_slot(parent, level, t)], f"turns_{level}")
            for parent, level in _TILE_LINKS
            if parent in outer
        ]
        return self.b.either(links, f"turns_{t.name}")

    def inner_moves(self, t: Tensor, way: int) -> Int:
        """Return the cycles of one tile over all on-chip links that it takes."""
        total: list[Int] = []
        for parent, level in _TILE_LINKS:
            cycles = self._move_cycles(t, parent, level, way)
            if isinstance(cycles, int):
                continue
            used = self.b.interval(0, self.max_cycles, f"moved_{parent}_{level}_{t.name}_{way}")
            self.b.imply([self.v.linked(parent, level, t)], used >= cycles)
            total.append(used)
        return sum(total) if total else 0

    def _move_cycles(self, t: Tensor, parent: int, level: int, way: int) -> Int:
        """Return the cycles of one tile over an on-chip link; 0 if the link is not used or has no limit.

        Reading partial sums may take more than `max_cycles`, as a mapping need not read any.
        """
        pace, linked = self.pace(parent, way), self.v.linked(parent, level, t)
        if pace is None or linked is False:
            return 0
        tile = self.array_tile[t] if level == Level.PE else self.traffic.tile[level, t]
        width, most = tile_width(self.v.layer, parent, t), self.max_cycles
        size = tile * width
        if t is Tensor.O and way == READ:
            most = max(most, math.ceil(self.b.bounds_of(tile)[1] * width / pace))
        cycles = self.b.interval(1, most, f"move_{parent}_{level}_{t.name}_{way}")
        self.b.imply([linked], cycles * pace.numerator >= size * pace.denominator)
        return cycles

    def fetches(self, t: Tensor, extents: list[Int], reuse: Int, name: str) -> Int:
        """Return the fetches of all tiles of t with the given extents, each fetched `reuse` times."""
        v, b = self.v, self.b
        counts = []
        for d in RELEVANT[t]:
            if isinstance(extents[d], int):
                counts.append(v.bounds[d] // extents[d])
                continue
            rows = [(e, v.bounds[d] // e) for e in b.values(extents[d])]
            counts += b.lookup([extents[d]], rows, [f"tiles_{name}_{t.name}_{d.name}"])
        return b.product([*counts, reuse], f"fetches_{name}_{t.name}", most=v.layer.macs)

    def tile_extents(self, t: Tensor, level: int) -> list[Int]:
        """Return the extents of t's tile at a level; at the PEs, of the array tile."""
        return self.v.array_tile[t] if level == Level.PE else self.v.tile[level][t]

    def pace(self, level: int, way: int) -> Fraction | None:
        """Return the bytes per cycle that a level gives (READ) or takes (WRITE); None without a limit."""
        memory = self.v.arch.hierarchy[level]
        numerator, denominator = rate((memory.read_bandwidth_limit, memory.write_bandwidth_limit)[way])
        return Fraction(numerator, denominator) if numerator else None

    def _most_moved(self, parent: int, way: int) -> int:
        """Return the most cycles for which all transfers of O over a link take it.

        No visit of a tile brings more outputs than it brings MACs, and n outputs take at most n times what one takes.
        """
        pace = self.pace(parent, way)
        each = 1 if pace is None else math.ceil(tile_width(self.v.layer, parent, Tensor.O) / pace)
        return self.v.layer.macs * each

    def _times(self, a: Int, b: Int, name: str, most: int) -> Int:
        """Return a product, no greater than `most`; with a constant factor it is an expression, not a variable."""
        if isinstance(a, int) or isinstance(b, int):
            return a * b
        return self.b.product([a, b], name, most=most)
