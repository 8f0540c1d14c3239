"""What the array itself takes, over the variables: its steps, operands that are streamed past it, partial sums that
come back; and what one tile takes over the links inside DRAM's (`tables.counts.cost`).
"""

import itertools
import math
from fractions import Fraction

from cpsat_pim.base.dims import RELEVANT, Level, Tensor
from cpsat_pim.evaluate.cost import rate, tile_width
from cpsat_pim.mapper.model.builder import Int
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.traffic import Traffic
from cpsat_pim.mapper.model.variables import OUTSIDE_PE, Variables
from tables.counts.accesses import READ, WRITE
from tables.nest import MACS

#: (parent, level) of the links inside DRAM's that move tiles.
_TILE_LINKS = (
    (Level.ROW_BUFFER, Level.GLOBAL_BUFFER),
    (Level.ROW_BUFFER, Level.PE),
    (Level.GLOBAL_BUFFER, Level.PE),
)


class Compute:
    """`steps` of the array, and the elements of each tensor's `array_tile`; nothing takes more than `most` cycles."""

    def __init__(self, v: Variables, reuse: Reuse, traffic: Traffic, most: int) -> None:
        self.v, self.b, self.reuse, self.traffic, self.most = v, v.b, reuse, traffic, most
        self._step_sets: dict[Tensor, Int] = {}
        self._steps()
        self._array_tiles()

    def _steps(self) -> None:
        """Eq. 34: MACs over the MACs of a step."""
        v = self.v
        parallel = self.b.product([v.used_pes, *v.class_lanes], "parallel", most=v.arch.pe_array.macs_per_cycle)
        macs = v.layer.macs
        per_step = [p for p in self.b.values(parallel) if macs % p == 0] or [1]
        self.steps = self.b.integer((macs // p for p in per_step), "steps")
        self.b.equal_product(macs, [self.steps, parallel])

    def _array_tiles(self) -> None:
        """Elements of an array tile as its link moves it; I's union is at least the span of one PE."""
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
        # I: moved0 (or fills) over the fetches of its array tiles.
        size, moved = traffic.moved[Tensor.I]["moved0" if arch.multicast else "fills"]
        fetches = self.fetches(Tensor.I, v.array_tile[Tensor.I], self.reuse.factors[Tensor.I][Level.PE], "array")
        tile = b.interval(1, max(1, size * b.ends(moved)[1]), "arrayI")
        b.equal_product(b.product([size, moved], "movedI"), [tile, fetches])
        self.array_tile = {Tensor.I: tile, Tensor.W: weight, Tensor.O: output}

    def work(self) -> Int:
        """Array steps, each as long as its PE loops or the operands streamed past the PEs."""
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
        longest = b.interval(1, self.most, "longest_step")
        b.model.add(longest >= inner)
        for t, parent, paces in slow:
            size = b.product([self._step_set(t), inner], f"streamed_{t.name}_{parent}")
            width, linked = tile_width(self.v.layer, parent, t), v.linked(parent, MACS, t)
            times: list[Int] = []
            for pace in paces:  # an output's reads and writes share its link
                times.append(b.interval(0, self.most, f"stream_{t.name}_{parent}_{len(times)}"))
                b.imply([linked], times[-1] * pace.numerator >= size * (width * pace.denominator))
            b.imply([linked], longest >= sum(times))
        return b.product([array_steps, longest], "compute", most=self.most)

    def _stream_paces(self, t: Tensor, parent: int) -> list[Fraction]:
        if self.v.linked(parent, MACS, t) is False:
            return []
        ways = (READ, WRITE) if t is Tensor.O else (READ,)
        return [pace for way in ways if (pace := self.pace(parent, way)) is not None]

    def _step_set(self, t: Tensor) -> Int:
        """Elements that a step draws from beyond the PEs."""
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
        """Inner links on which partial sums come back: old tile out, then new one in."""
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
            cost = self.b.interval(0, self.most, f"exposed_{parent}_{level}")
            leaving = self._times(visits, out, f"out_{parent}_{level}")
            returns = self.b.interval(0, self.b.ends(visits)[1], f"returns_{parent}_{level}")
            self.b.model.add(returns == visits - tiles)
            coming = self._times(returns, back, f"back_cycles_{parent}_{level}")
            self.b.imply([comes_back], cost >= leaving + coming)
            found.append(cost)
        return found

    def inner_moves(self, t: Tensor, way: int) -> Int:
        """Cycles of one tile through all inner links in use."""
        total: list[Int] = []
        for parent, level in _TILE_LINKS:
            cycles = self._move_cycles(t, parent, level, way)
            if isinstance(cycles, int):
                continue
            used = self.b.interval(0, self.most, f"moved_{parent}_{level}_{t.name}_{way}")
            self.b.imply([self.v.linked(parent, level, t)], used >= cycles)
            total.append(used)
        return sum(total) if total else 0

    def _move_cycles(self, t: Tensor, parent: int, level: int, way: int) -> Int:
        """Cycles of one tile over an inner link, if it is in use (0 where its parent has no limit).

        Partial sums may never be read, so that reading them may take more than there is.
        """
        pace, linked = self.pace(parent, way), self.v.linked(parent, level, t)
        if pace is None or linked is False:
            return 0
        tile = self.array_tile[t] if level == Level.PE else self.traffic.tile[level, t]
        width, most = tile_width(self.v.layer, parent, t), self.most
        size = tile * width
        if t is Tensor.O and way == READ:
            most = max(most, math.ceil(self.b.ends(tile)[1] * width / pace))
        cycles = self.b.interval(1, most, f"move_{parent}_{level}_{t.name}_{way}")
        self.b.imply([linked], cycles * pace.numerator >= size * pace.denominator)
        return cycles

    def fetches(self, t: Tensor, extents: list[Int], reuse: Int, name: str) -> Int:
        """Fetches of all tiles of t with the given extents."""
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
        """Extents of what a level, or the array, takes of t at a time."""
        return self.v.array_tile[t] if level == Level.PE else self.v.tile[level][t]

    def pace(self, level: int, way: int) -> Fraction | None:
        """Bytes per cycle that a level gives or takes; None without a limit."""
        memory = self.v.arch.hierarchy[level]
        numerator, denominator = rate((memory.read_bandwidth_limit, memory.write_bandwidth_limit)[way])
        return Fraction(numerator, denominator) if numerator else None

    def _times(self, a: Int, b: Int, name: str) -> Int:
        """A product; where one of both is a constant, not a variable of its own."""
        if isinstance(a, int) or isinstance(b, int):
            return a * b
        return self.b.product([a, b], name)
