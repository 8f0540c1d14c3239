"""The decisions of one layer as CP-SAT variables, with the products that tie them (SPEC of the nest:
`cpsat_pim.mapping`).
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.cost import to_shape
from cpsat_pim.dims import IRRELEVANT, ON_CHIP, RELEVANT, Dim, Level, Tensor
from cpsat_pim.model.builder import Builder, Int, Lit
from cpsat_pim.model.candidates import Extents
from cpsat_pim.model.freedom import Freedom
from cpsat_pim.model.part import Part
from cpsat_pim.model.residency import Residency
from cpsat_pim.workload import ConvWorkload
from tables.factors import divisors

#: The class of dims that do not move I, W, O; with G they partition the dims, so traffic depends on products per class.
CLASSES = (IRRELEVANT[Tensor.I], IRRELEVANT[Tensor.W], IRRELEVANT[Tensor.O], (Dim.G,))
INNER_LEVELS = (Level.PE, Level.GLOBAL_BUFFER, Level.ROW_BUFFER)
#: The MACs as a consumer: they hold nothing.
MACS = -1
Stored = tuple[bool, bool, bool]


class Variables:
    """Factors and extents per dim and per class, innermost classes, stored sets, reuse.

    Per dim: `lanes * temporal[0] = e0`, `e0 * pes = eA`, `eA * temporal[1] = e1`, `e1 * temporal[2] = e2`,
    `e2 * temporal[3] = bound` (Eq. 10), all integers tied by AddMultiplicationEquality or a table of the triples.
    Per class c the same products over the class's dims. `innermost[m][t]`: the class irrelevant to t is innermost at m.
    `has_loops[m][c]`: class c has a loop at level m.
    `tile[m][t]`: the extents of t's tile at a level, those of the level unless it is uneven.
    `is_stored_set[t][s]`: t is stored at exactly the levels s (PE, global buffer, row buffer) (Eq. 6, 7).
    With `row_buffer` False, T2 is 1: in the merged part of the space; and with `any_split`, where T3 stands for both
    outer loops of a dim, of which any factor may lie inside. `within`: given extents inside the outer loops.
    """

    def __init__(
        self,
        b: Builder,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        freedom: Freedom,
        known: Extents,
        *,
        any_split: bool,
        within: Sequence[int] | None,
    ) -> None:
        self.b, self.layer, self.arch, self.freedom = b, layer, arch, freedom
        self.known, self.any_split, self.within = known, any_split, within
        #: Extents that nothing inside the outer loops exceeds, and whose divisors all of them are.
        self.most_inside = layer.bounds if within is None else within
        self.aligned = freedom.part.is_aligned
        self.row_buffer = (self.aligned or freedom.tells_loops_apart) and not any_split
        self.shape = to_shape(layer)
        self.bounds = layer.bounds
        self._stored_cache: dict[tuple[int, int], Lit] = {}
        self._first_cache: dict[tuple[int, int], Lit] = {}
        self._link_cache: dict[tuple[int, int, int], Lit] = {}
        self._loop_cache: dict[tuple[int, Dim], Lit] = {}
        self._factors()
        self._class_products()
        self._orders()
        self._stored_sets()
        self._tiles()
        self._reuse()
        self._contiguous_steps()
        self._orders_are_kept()
        self._row_buffer_loops()

    def _factors(self) -> None:
        """Eq. 10, 12: every dim's factors multiply to its bound."""
        ones = [1] * len(Dim)
        self.lanes, self.pes = list(ones), list(ones)
        self.temporal: list[list[Int]] = [list(ones) for _ in Level]
        self.e0, self.eA, self.e1, self.e2, self.step = list(ones), list(ones), list(ones), list(ones), list(ones)
        for d in Dim:
            if self.bounds[d] > 1:
                self._factors_of(d)

    def _factors_of(self, d: Dim) -> None:
        b, n, array = self.b, self.bounds[d], self.arch.pe_array
        given = 1 if self.within is None else self.within[d]
        inside, outside = divisors(self.most_inside[d]), divisors(n // given)
        lanes = array.compute_unit.num_macs if d in array.compute_unit.lane_dims else 1
        pes = array.array_shape.h * array.array_shape.w
        self.lanes[d] = self._known("lanes", d, self.freedom.lanes(d, (v for v in inside if v <= lanes)))
        for m in Level:
            factors = inside if m in ON_CHIP else outside
            if m is Level.ROW_BUFFER and not self.row_buffer:
                factors = (1,)
            allowed = factors if self._is_of_both(m) else self.freedom.temporal(m, d, factors)
            self.temporal[m][d] = b.integer(allowed, f"T{m}_{d.name}")
        self.pes[d] = self._known("pes", d, (v for v in inside if v <= pes))
        self.e0[d], self.eA[d], self.step[d] = (self._known(name, d, inside) for name in ("e0", "eA", "step"))
        self.e1[d] = self._known("e1", d, (e for e in inside if e % given == 0))
        self._inner_factors(d)
        self._times(self.eA[d], self.temporal[Level.GLOBAL_BUFFER][d], self.e1[d])
        self.e2[d] = b.integer((given * f for f in outside), f"e2_{d.name}") if self.row_buffer else self.e1[d]
        if self.row_buffer:
            self._times(self.e1[d], self.temporal[Level.ROW_BUFFER][d], self.e2[d])
        b.model.add_multiplication_equality(n, [self.e2[d], self.temporal[Level.DRAM][d]])

    def _known(self, name: str, d: Dim, values: Iterable[int]) -> Int:
        """A variable over those of some values that candidates have."""
        known = self.known.along(name, d)
        return self.b.integer(values if known is None else known.intersection(values), f"{name}_{d.name}")

    def _is_of_both(self, level: int) -> bool:
        """Whether a level's loops stand for those of both outer levels, whose constraints and orders are others."""
        return self.any_split and level >= Level.ROW_BUFFER

    def _times(self, inside: Int, factor: Int, outside: Int) -> None:
        """inside * factor = outside, as the table of its divisor triples."""
        rows = [(x, f, x * f) for x in self.b.values(inside) for f in self.b.values(factor)]
        self.b.table([inside, factor, outside], rows)

    def _inner_factors(self, d: Dim) -> None:
        """PEs, lanes and T0 of a dim and their products; how PEs are split over H and W costs nothing (Eq. 13)."""
        b, n, array = self.b, self.most_inside[d], self.arch.pe_array
        rows = []
        for lanes, pes in itertools.product(b.values(self.lanes[d]), b.values(self.pes[d])):
            if n % (lanes * pes) or (array.exclusive_spatial and lanes > 1 and pes > 1):
                continue
            rows += [(lanes, pes, t, lanes * t, lanes * pes * t, lanes * pes) for t in divisors(n // (lanes * pes))]
        b.table([self.lanes[d], self.pes[d], self.temporal[Level.PE][d], self.e0[d], self.eA[d], self.step[d]], rows)

    def _class_products(self) -> None:
        """Products over each class's dims, tied level by level as the dims are."""
        self.class_bound = [math.prod(self.bounds[d] for d in c) for c in CLASSES]
        self.class_divisors = [set(divisors(n)) for n in self.class_bound]
        self.class_temporal = [self._per_class(self.temporal[m], f"A{m}") for m in Level]
        self.class_lanes, self.class_pes = self._per_class(self.lanes, "lanes"), self._per_class(self.pes, "pes")
        self.class_e0, self.class_eA = self._per_class(self.e0, "E0"), self._per_class(self.eA, "EA")
        self.class_e1 = self._per_class(self.e1, "E1")
        self.class_e2 = self._per_class(self.e2, "E2") if self.row_buffer else self.class_e1
        for c, dims in enumerate(CLASSES):
            if sum(self.bounds[d] > 1 for d in dims) < 2:
                continue  # the dim's own products say the same
            t0, t1, t2, t3 = (self.class_temporal[m][c] for m in Level)
            self.b.equal_product(self.class_e0[c], [self.class_lanes[c], t0])
            self.b.equal_product(self.class_eA[c], [self.class_e0[c], self.class_pes[c]])
            self.b.equal_product(self.class_e1[c], [self.class_eA[c], t1])
            if self.row_buffer:
                self.b.equal_product(self.class_e2[c], [self.class_e1[c], t2])
            self.b.equal_product(self.class_bound[c], [self.class_e2[c], t3])
        array = self.arch.pe_array.array_shape
        self.used_pes = self.b.product(self.class_pes, "used_pes", most=array.h * array.w)

    def _per_class(self, factors: list[Int], name: str) -> list[Int]:
        return [self._class_product(c, factors, name) for c in range(len(CLASSES))]

    def _class_product(self, c: int, factors: list[Int], name: str) -> Int:
        return self.b.product([factors[d] for d in CLASSES[c]], f"{name}_c{c}", within=self.class_divisors[c])

    def _orders(self) -> None:
        """Which class is innermost at each level: all that the traffic sees of an order (Eq. 15, 16).

        Moving a class's other loops next to its innermost one frees more of its tensor and nothing less of the others',
        so orders sorted by class are enough for the least traffic.
        """
        self.innermost: dict[int, list[Lit]] = {}
        for m in (Level.GLOBAL_BUFFER, Level.ROW_BUFFER, Level.DRAM):
            if m is Level.ROW_BUFFER and not self.row_buffer:
                self.innermost[m] = [True] * 3
                continue
            self.innermost[m] = [self.b.boolean(f"innermost_{m}_{t.name}") for t in Tensor]
            self.b.model.add_exactly_one(self.innermost[m])

    def _stored_sets(self) -> None:
        """Eq. 6, 7: each tensor is stored at one set of levels that the machine allows."""
        self.is_stored_set: list[dict[Stored, Lit]] = []
        for t in Tensor:
            choices = [self.freedom.storing_choices(m, t) for m in INNER_LEVELS]
            if not self.aligned:
                choices[Level.ROW_BUFFER] = tuple(c for c in choices[Level.ROW_BUFFER] if not c)
            sets = [(s[0], s[1], s[2]) for s in itertools.product(*choices)]
            literals: dict[Stored, Any] = {s: self.b.boolean(f"stored_{t.name}_{s}") for s in sets}
            self.b.model.add_exactly_one(literals.values())
            self.is_stored_set.append(literals)

    def is_not_stored_at(self, t: int, stored: Stored) -> Lit:
        """Whether t is stored at another set of levels."""
        literals = self.is_stored_set[t]
        return self.b.negated(literals[stored]) if stored in literals else True

    def stored(self, level: int, t: int) -> Lit:
        """Whether t is stored at a level: a literal per (level, tensor), made once."""
        key = (level, t)
        if key not in self._stored_cache:
            literals = [lit for s, lit in self.is_stored_set[t].items() if s[level]]
            self._stored_cache[key] = self.b.either(literals, f"stored_{level}_{t}") if literals else False
        return self._stored_cache[key]

    def first_consumer(self, consumer: int, t: int) -> Lit:
        """Whether the consumer (level, or the MACs) takes t straight from DRAM."""
        key = (consumer, t)
        if key not in self._first_cache:
            literals = [lit for s, lit in self.is_stored_set[t].items() if outermost(s) == consumer]
            self._first_cache[key] = self.b.either(literals, f"first_{consumer}_{t}") if literals else False
        return self._first_cache[key]

    def linked(self, parent: int, consumer: int, t: int) -> Lit:
        """Whether the consumer takes t from that parent."""
        key = (parent, consumer, t)
        if key not in self._link_cache:
            literals = [lit for s, lit in self.is_stored_set[t].items() if (parent, consumer) in links(s)]
            self._link_cache[key] = self.b.either(literals, f"link_{parent}_{consumer}_{t}") if literals else False
        return self._link_cache[key]

    def has_loop(self, level: int, d: Dim) -> Lit:
        """Whether a dim has a loop at a level: a literal made once."""
        key = (level, d)
        if key not in self._loop_cache:
            self._loop_cache[key] = self.b.at_least_two(self.temporal[level][d], f"loop_{level}_{d.name}")
        return self._loop_cache[key]

    def _tiles(self) -> None:
        """Eq. 22 per tensor: a level's extents without the loops outside the tensor's tile.

        `tile[m][t]` per dim, `class_tile[m][t]` per class; `array_tile[t]`, `class_array_tile[t]`: all PEs'.
        """
        self.residency = Residency(self.b, self.bounds, self.arch, self.freedom)
        whole = [(self.e0, self.class_e0), (self.e1, self.class_e1), (self.e2, self.class_e2)]
        self.tile: list[list[list[Int]]] = [[list(extents) for _ in Tensor] for extents, _ in whole]
        self.class_tile: list[list[list[Int]]] = [[list(classes) for _ in Tensor] for _, classes in whole]
        self.array_tile = [list(self.eA) for _ in Tensor]
        self.class_array_tile = [list(self.class_eA) for _ in Tensor]
        for m in ON_CHIP:
            has_loop = [self.has_loop(m, d) for d in Dim]
            self.residency.decide(m, [self.stored(m, t) for t in Tensor], has_loop)
            for t in Tensor:
                self._uneven_tile(m, t)

    def _uneven_tile(self, level: Level, t: Tensor) -> None:
        """The extents of a tile that may leave loops of its level out."""
        b, outside = self.b, self.residency.outside[level][t]
        inside = self.lanes if level is Level.PE else self.eA
        dims = [d for d in RELEVANT[t] if outside[d] is not False]
        name = f"{level}_{t.name}"
        for d in dims:
            extents = self.tile[level][t][d]
            tile = b.integer({*b.values(extents), *b.values(inside[d])}, f"tile{name}_{d.name}")
            b.imply([outside[d]], tile == inside[d])
            b.imply([b.negated(outside[d])], tile == extents)
            self.tile[level][t][d] = tile
            if level is Level.PE:
                within = set(b.values(self.eA[d]))
                self.array_tile[t][d] = b.product([tile, self.pes[d]], f"array_tile_{t.name}_{d.name}", within)
        for c in {c for c, members in enumerate(CLASSES) if set(members) & set(dims)}:
            self.class_tile[level][t][c] = self._class_product(c, self.tile[level][t], f"tile{name}")
            if level is Level.PE:
                self.class_array_tile[t][c] = self._class_product(c, self.array_tile[t], f"array_tile_{t.name}")

    def _reuse(self) -> None:
        """`reuse[t][consumer]`: how often each tile of t is fetched: its irrelevant loops outside that are not free
        (x_r, x_j).
        """
        b = self.b
        self.has_loops = {
            m: [b.at_least_two(self.class_temporal[m][c], f"loops_{m}_c{c}") for c in range(4)] for m in (1, 2, 3)
        }
        self._innermost_have_loops()
        self.has_relevant = {
            (m, t): b.either([self.has_loops[m][c] for c in range(4) if c != t], f"relevant_{m}_{t.name}")
            for m in (1, 2, 3)
            for t in Tensor
        }
        self._parted_loops()
        self._swept_cache: dict[Level, list[Int]] = {}
        self.reuse: list[dict[int, Int]] = []
        for t in Tensor:
            within = self.class_divisors[t]
            per_level = {
                consumer: b.product(
                    [self._own_loops(t, consumer), *(self.multiplier(t, consumer, m) for m in range(consumer + 1, 4))],
                    f"X{consumer}_{t.name}",
                    within,
                )
                for consumer in range(3)
            }
            per_level[MACS] = b.product([self.class_temporal[m][t] for m in Level], f"XM_{t.name}", within)
            self.reuse.append(per_level)

    def array_step_loops(self) -> tuple[list[Int], list[Int]]:
        """The PE loops within which no tile in the PEs changes, and the others."""
        if not self.residency.dims:
            return self.class_temporal[Level.PE], []
        inside, outside = [], []
        for d in self.residency.dims:
            loops, is_outside = self.temporal[Level.PE][d], self.residency.outside_any(Level.PE, d)
            inside.append(self._unless(is_outside, loops, f"inside_step_{d.name}"))
            outside.append(self._unless(self.b.negated(is_outside), loops, f"outside_step_{d.name}"))
        return inside, outside

    def _own_loops(self, t: Tensor, level: int) -> Int:
        """t's irrelevant loops at the level of its tile, but outside it: a relevant one lies inside them."""
        if level not in ON_CHIP:
            return 1
        outside, loops = self.residency.outside[level][t], self.temporal[level]
        name = f"own_{level}_{t.name}"
        parts = [self._unless(self.b.negated(outside[d]), loops[d], f"{name}_{d.name}") for d in CLASSES[t]]
        return self.b.product(parts, name, self.class_divisors[t])

    def _innermost_have_loops(self) -> None:
        """A class is innermost only where it has a loop; where none has, the first one is, to choose one of equals."""
        for m, literals in self.innermost.items():
            if isinstance(literals[0], bool):
                continue
            for c in (1, 2):
                self.b.clause([literals[c].negated(), self.has_loops[m][c]])
            others = self.b.either(self.has_loops[m][1:3], f"others_{m}")
            self.b.clause([literals[0].negated(), self.has_loops[m][0], self.b.negated(others)])

    def _parted_loops(self) -> None:
        """`parted[m][d]`: whether other loops lie between the loop of d and the innermost ones of its class.

        It is not free then. Groups are of no class, so what lies between is not told where there are any.
        """
        self.parted: dict[int, dict[Dim, Lit]] = {m: {} for m in self.innermost}
        for m, literals in self.innermost.items():
            for c in Tensor:
                dims = [d for d in CLASSES[c] if not _is_one(self.temporal[m][d])]
                if len(dims) > 1 and self.tells_parted(m) and not isinstance(literals[c], bool):
                    self._parted_class(m, c, dims)

    def tells_parted(self, level: int) -> bool:
        """Whether there are literals of which loops of a level are parted from the innermost ones."""
        return self.bounds[Dim.G] == 1 and not self._is_of_both(level)

    def _parted_class(self, m: int, c: Tensor, dims: list[Dim]) -> None:
        """Of an innermost class, loops with others inside; at least one is innermost."""
        b, parted = self.b, {d: self.b.boolean(f"parted_{m}_{d.name}") for d in dims}
        inside = {d: b.both([self.has_loop(m, d), parted[d].negated()], f"inside_{m}_{d.name}") for d in dims}
        for d, literal in parted.items():
            for needed in (self.innermost[m][c], self.has_loop(m, d), self.has_relevant[m, c]):
                b.clause([literal.negated(), needed])
            b.clause([literal.negated(), *(x for e, x in inside.items() if e is not d)])
        self.parted[m] |= parted

    def extents(self, level: Level, is_swept: bool) -> list[Int]:
        """Of a level's box, or of what its gathered innermost loops sweep."""
        return self.swept(level) if is_swept else self.box(level)

    def box(self, level: Level) -> list[Int]:
        """Extents inside a level's loops."""
        return {Level.GLOBAL_BUFFER: self.eA, Level.ROW_BUFFER: self.e1, Level.DRAM: self.e2}[level]

    def swept(self, level: Level) -> list[Int]:
        """Extents of what the gathered innermost loops of a level sweep before any other loop of it moves, made once.

        As `box` with `any_split`, and where groups have a loop, which may be the innermost one.
        """
        if self._is_of_both(level):
            return self.box(level)
        if level not in self._swept_cache:
            around = {Level.GLOBAL_BUFFER: self.e1, Level.ROW_BUFFER: self.e2, Level.DRAM: list(self.bounds)}[level]
            self._swept_cache[level] = list(self.box(level))
            for c in Tensor:
                for d in filter(self.is_swept, CLASSES[c]):
                    self._swept_cache[level][d] = self._sweep(level, c, d, around[d])
        return self._swept_cache[level]

    def is_swept(self, d: Dim) -> bool:
        """Whether it is known if a loop of a dim is gathered innermost with those of its class."""
        return self.bounds[Dim.G] == 1 or any(
            d in dims and sum(self.bounds[e] > 1 for e in dims) == 1 for dims in CLASSES
        )

    def _sweep(self, level: Level, c: Tensor, d: Dim, around: Int) -> Int:
        inside, innermost = self.box(level)[d], self.innermost[level][c]
        if isinstance(innermost, bool) or _is_one(self.temporal[level][d]):
            return inside
        others = [self.parted[level].get(d, False), self.has_loops[level][3]]
        is_swept = self.b.both([innermost, *map(self.b.negated, others)], f"swept_{level}_{d.name}")
        extent = self.b.integer({*self.b.values(inside), *self.b.values(around)}, f"swept_{level}_{d.name}")
        self.b.imply([is_swept], extent == around)
        self.b.imply([self.b.negated(is_swept)], extent == inside)
        return extent

    def _contiguous_steps(self) -> None:
        """MACs that draw a tensor from DRAM or the row buffer take neighbouring indices: no PE loop of a spread dim."""
        for t in Tensor:
            straight = [lit for s, lit in self.is_stored_set[t].items() if not (s[Level.PE] or s[Level.GLOBAL_BUFFER])]
            for d in RELEVANT[t]:
                if not straight or _is_one(self.pes[d]) or _is_one(self.temporal[Level.PE][d]):
                    continue
                looped = self.b.at_least_two(self.temporal[Level.PE][d], f"looped_{d.name}_{t.name}")
                spread = self.b.at_least_two(self.pes[d], f"spread_{d.name}_{t.name}")
                for literal in straight:
                    self.b.clause([self.b.negated(x) for x in (literal, looped, spread)])
            self._whole_boxes(t)

    def _whole_boxes(self, t: Tensor) -> None:
        """PEs that are apart take from DRAM or the row buffer all that they hold of a spread dim at once."""
        straight = [lit for s, lit in self.is_stored_set[t].items() if s[Level.PE] and not s[Level.GLOBAL_BUFFER]]
        for d in RELEVANT[t]:
            outside = self.residency.outside[Level.PE][t][d]
            if outside is False or _is_one(self.pes[d]):
                continue
            spread = self.b.at_least_two(self.pes[d], f"spread_{d.name}_{t.name}")
            for literal in straight:
                self.b.clause([self.b.negated(x) for x in (literal, outside, spread)])

    def _orders_are_kept(self) -> None:
        """A class is innermost only where some loop of it may lie inside all others (groups, of no class, aside)."""
        for m, literals in self.innermost.items():
            for c, literal in enumerate(literals):
                if (
                    self._is_of_both(m)
                    or isinstance(literal, bool)
                    or not any(self.freedom.inside(Level(m), d) for d in CLASSES[c])
                ):
                    continue
                last = [self._is_last(Level(m), d) for d in CLASSES[c]]
                none = [self.b.negated(self.has_loops[m][c])] if c == 0 else []
                self.b.clause([literal.negated(), *last, *none])

    def _is_last(self, level: Level, d: Dim) -> Lit:
        """Whether a dim has a loop at a level, and none that has to lie inside it."""
        inside = [self.b.negated(self.has_loop(level, e)) for e in self.freedom.inside(level, d) if e is not Dim.G]
        return self.b.both([self.has_loop(level, d), *inside], f"last_{level}_{d.name}")

    def _row_buffer_loops(self) -> None:
        """Where the row buffer stores nothing its outermost loop may as well be the DRAM's innermost, so one that may
        not is there: of a dim that constraints name, or one that the DRAM loops over, too.
        """
        if self.aligned or not self.row_buffer:
            return
        loops = {d: self.has_loop(Level.ROW_BUFFER, d) for d in Dim}
        twice = [self.b.both([loops[d], self.has_loop(Level.DRAM, d)], f"twice_{d.name}") for d in Dim]
        if self.freedom.part is Part.SPLIT:
            self.b.clause(twice)
            return
        stays = [loops[d] for d in Dim if self.freedom.is_told_apart(d)]
        for d in Dim:
            if not self.freedom.is_told_apart(d):
                self.b.clause([self.b.negated(loops[d]), *stays, *twice])

    def multiplier(self, t: Tensor, consumer: int, level: int) -> Int:
        """t's irrelevant loops at a level, or 1 if they are free for a consumer below; of those of both outer levels
        any factor may be.
        """
        loops = self.class_temporal[level][t]
        if _is_one(loops):
            return 1
        is_free = self.is_free(t, consumer, level)
        name = f"x_{level}_{consumer}_{t.name}"
        if self._is_of_both(level):
            return self._divisor_if(is_free, loops, name)
        if not any(self._held_outside(level, d, t) for d in CLASSES[t]):
            return self._unless(is_free, loops, name)
        parts = []
        for d in CLASSES[t]:
            held = self.b.either(self._held_outside(level, d, t), f"held_{level}_{consumer}_{d.name}")
            is_free_too = self.b.both([is_free, self.b.negated(held)], f"{name}_{d.name}_free")
            parts.append(self._unless(is_free_too, self.temporal[level][d], f"{name}_{d.name}"))
        return self.b.product(parts, name, self.class_divisors[t])

    def is_free(self, t: Tensor, consumer: int, level: int) -> Lit:
        """Whether t's irrelevant loops at a level are innermost, with nothing relevant between them and a consumer."""
        between = [self.has_relevant[m, t] for m in range(consumer + 1, level)]
        between.append(self.residency.is_uneven(consumer, t))
        inside = [self.b.negated(literal) for literal in between]
        return self.b.both([self.innermost[level][t], *inside], f"free_{level}_{consumer}_{t.name}")

    def _held_outside(self, level: int, d: Dim, t: Tensor) -> list[Lit]:
        """Loops that have to lie inside that of d, and are relevant to t."""
        inside = [self.has_loop(level, e) for e in self.freedom.inside(Level(level), d) if e in RELEVANT[t]]
        inside += self.residency.holding(level, d, t, [self.has_loop(level, e) for e in Dim])
        inside.append(self.parted[level].get(d, False))
        return [literal for literal in inside if literal is not False]

    def _divisor_if(self, is_free: Lit, loops: Int, name: str) -> Int:
        """Any divisor of loops if some of them may be free, else the loops."""
        if is_free is False:
            return loops
        values = self.b.values(loops)
        rows = [(1, n, left) for n in values for left in divisors(n)] + [(0, n, n) for n in values]
        multiplier = self.b.integer((left for *_, left in rows), name)
        self.b.table([self.b.flag(is_free), loops, multiplier], rows)
        return multiplier

    def _unless(self, is_free: Lit, loops: Int, name: str) -> Int:
        """1 if loops are free, else the loops."""
        if isinstance(is_free, bool) or _is_one(loops):
            return 1 if is_free is True else loops
        multiplier = self.b.integer({1, *self.b.values(loops)}, name)
        self.b.imply([is_free], multiplier == 1)
        self.b.imply([is_free.negated()], multiplier == loops)
        return multiplier


def _is_one(x: Int) -> bool:
    return isinstance(x, int) and x == 1


def links(stored: Stored) -> list[tuple[int, int]]:
    """(parent, consumer) pairs of a stored set, outermost first."""
    chain = [int(Level.DRAM), *(m for m in (2, 1, 0) if stored[m]), MACS]
    return list(itertools.pairwise(chain))


def inside(level: Level, is_swept: bool) -> list[int]:
    """First consumers whose scans lie inside a level's loops; for its box, inside the level within. Not the row buffer,
    whose blocks lie in DRAM otherwise than boxes do.
    """
    return [c for c in (MACS, Level.PE, Level.GLOBAL_BUFFER) if c < level - (not is_swept)]


def outermost(stored: Stored) -> int:
    """Who takes the tensor from DRAM."""
    return links(stored)[0][1]
