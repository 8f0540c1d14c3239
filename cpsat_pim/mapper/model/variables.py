"""The decisions of one layer as CP-SAT variables (docs/model.md, section 3): factors, stored sets, innermost classes.

Products tie the factors of each dim to the extents of tiles.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, IRRELEVANT, ON_CHIP, RELEVANT, Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_shape
from cpsat_pim.mapper.model.builder import Builder, Int, Lit
from cpsat_pim.mapper.model.residency import Residency
from cpsat_pim.mapper.space.candidates import Extents
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapping import Stored
from cpsat_pim.workload import ConvWorkload
from tables.bounds.spatial import links
from tables.factors import divisors

#: The classes of dims: those irrelevant to I, to W, to O, and groups. They partition the dims, and traffic depends on
#: the factors only through their products per class.
CLASSES = (IRRELEVANT[Tensor.I], IRRELEVANT[Tensor.W], IRRELEVANT[Tensor.O], (Dim.G,))
#: The index of the class of groups, which are relevant to every tensor.
GROUPS = 3
#: Levels of the loops outside the PEs.
OUTSIDE_PE = (Level.GLOBAL_BUFFER, Level.ROW_BUFFER, Level.DRAM)


class Variables:
    """Factors and extents per dim and per class, innermost classes, stored sets, tiles.

    Per dim: `lanes * temporal[0] = e0`, `e0 * pes = eA`, `eA * temporal[1] = e1`, `e1 * temporal[2] = e2`, `e2 *
    temporal[3] = bound` (Eq. 10), and `lanes * pes = step`. All are integers; AddMultiplicationEquality or a table of
    the triples ties them. Per class c: the same products over the dims of the class. `innermost[m][t]`: the class
    irrelevant to t is innermost at level m. `is_stored_set[t][s]`: t is stored at exactly the levels s (PE, global
    buffer, row buffer) (Eq. 6, 7). `tile[m][t]`: the extents of t's tile at level m, equal to those of the level unless
    the tile is uneven.

    Without `has_row_buffer_loops`, T2 is 1. That is so in the merged subspace, and with `any_split`: there T3 is the
    product of both outer loops of a dim, and any factor of it may be the row buffer's.
    `inner_extents`: the values of e1 if they are given.
    """

    def __init__(
        self,
        b: Builder,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        restriction: Restriction,
        known: Extents,
        *,
        any_split: bool,
        inner_extents: Sequence[int] | None,
    ) -> None:
        self.b, self.layer, self.arch, self.restriction = b, layer, arch, restriction
        self.known, self.any_split, self.inner_extents = known, any_split, inner_extents
        #: Per dim a multiple of all extents inside the outer loops.
        self.max_inner_extents = layer.bounds if inner_extents is None else inner_extents
        self.is_aligned = restriction.subspace.is_aligned
        self.has_row_buffer_loops = (self.is_aligned or restriction.has_both_outer_levels) and not any_split
        self.shape = to_shape(layer)
        self.bounds = layer.bounds
        self._set_cache: dict[str, Lit] = {}
        self._loop_cache: dict[tuple[int, Dim], Lit] = {}
        self._factors()
        self._class_products()
        self._orders()
        self._stored_sets()
        self._tiles()

    def _factors(self) -> None:
        """Eq. 10, 12: the factors of every dim multiply to its bound."""
        ones = [1] * len(Dim)
        self.lanes, self.pes = list(ones), list(ones)
        self.temporal: list[list[Int]] = [list(ones) for _ in Level]
        self.e0, self.eA, self.e1, self.e2, self.step = list(ones), list(ones), list(ones), list(ones), list(ones)
        for d in Dim:
            if self.bounds[d] > 1:
                self._factors_of(d)

    def _factors_of(self, d: Dim) -> None:
        """Make the factors and extents of a dim, with the values that divisors, capacities and constraints leave."""
        b, n, array = self.b, self.bounds[d], self.arch.pe_array
        given = 1 if self.inner_extents is None else self.inner_extents[d]
        inside, outside = divisors(self.max_inner_extents[d]), divisors(n // given)
        lanes = array.compute_unit.num_macs if d in array.compute_unit.lane_dims else 1
        pes = array.array_shape.h * array.array_shape.w
        self.lanes[d] = self._known("lanes", d, self.restriction.lanes(d, (v for v in inside if v <= lanes)))
        for m in Level:
            factors = inside if m in ON_CHIP else outside
            if m is Level.ROW_BUFFER and not self.has_row_buffer_loops:
                factors = (1,)
            allowed = factors if self.stands_for_both(m) else self.restriction.temporal(m, d, factors)
            self.temporal[m][d] = b.integer(allowed, f"T{m}_{d.name}")
        self.pes[d] = self._known("pes", d, (v for v in inside if v <= pes))
        self.e0[d], self.eA[d], self.step[d] = (self._known(name, d, inside) for name in ("e0", "eA", "step"))
        self.e1[d] = self._known("e1", d, (e for e in inside if e % given == 0))
        self._inner_factors(d)
        self._times(self.eA[d], self.temporal[Level.GLOBAL_BUFFER][d], self.e1[d])
        self.e2[d] = self.e1[d]
        if self.has_row_buffer_loops:
            self.e2[d] = b.integer((given * f for f in outside), f"e2_{d.name}")
            self._times(self.e1[d], self.temporal[Level.ROW_BUFFER][d], self.e2[d])
        b.model.add_multiplication_equality(n, [self.e2[d], self.temporal[Level.DRAM][d]])

    def _known(self, name: str, d: Dim, values: Iterable[int]) -> Int:
        """Make a variable over those of some values that candidates have."""
        known = self.known.along(name, d)
        return self.b.integer(values if known is None else known.intersection(values), f"{name}_{d.name}")

    @property
    def has_several_outer_loops(self) -> bool:
        """Whether a dim may have two loops outside the global buffer, or one variable stands for both."""
        return self.has_row_buffer_loops or self.any_split

    def stands_for_both(self, level: int) -> bool:
        """Whether the loops of a level are products of those of both outer levels (`any_split`).

        Constraints and orders of the single levels do not apply to them.
        """
        return self.any_split and level >= Level.ROW_BUFFER

    def _times(self, inside: Int, factor: Int, outside: Int) -> None:
        """Constrain inside * factor = outside, by a table of the triples."""
        rows = [(x, f, x * f) for x in self.b.values(inside) for f in self.b.values(factor)]
        self.b.table([inside, factor, outside], rows)

    def _inner_factors(self, d: Dim) -> None:
        """Eq. 13: tie PEs, lanes and T0 of a dim to their products, by a table.

        How PEs are split over height and width does not change the cost, so there are no variables for it.
        """
        b, n, array = self.b, self.max_inner_extents[d], self.arch.pe_array
        rows = []
        for lanes, pes in itertools.product(b.values(self.lanes[d]), b.values(self.pes[d])):
            if n % (lanes * pes) or (array.exclusive_spatial and lanes > 1 and pes > 1):
                continue
            rows += [(lanes, pes, t, lanes * t, lanes * pes * t, lanes * pes) for t in divisors(n // (lanes * pes))]
        b.table([self.lanes[d], self.pes[d], self.temporal[Level.PE][d], self.e0[d], self.eA[d], self.step[d]], rows)

    def _class_products(self) -> None:
        """Make the products over each class's dims, and tie them level by level like the dims."""
        self.class_bound = [math.prod(self.bounds[d] for d in c) for c in CLASSES]
        self.class_divisors = [set(divisors(n)) for n in self.class_bound]
        self.class_temporal = [self._per_class(self.temporal[m], f"A{m}") for m in Level]
        self.class_lanes, self.class_pes = self._per_class(self.lanes, "lanes"), self._per_class(self.pes, "pes")
        self.class_e0, self.class_eA = self._per_class(self.e0, "E0"), self._per_class(self.eA, "EA")
        self.class_e1 = self._per_class(self.e1, "E1")
        self.class_e2 = self._per_class(self.e2, "E2") if self.has_row_buffer_loops else self.class_e1
        for c, dims in enumerate(CLASSES):
            if sum(self.bounds[d] > 1 for d in dims) < 2:
                continue  # the products of its only dim say the same
            t0, t1, t2, t3 = (self.class_temporal[m][c] for m in Level)
            self.b.equal_product(self.class_e0[c], [self.class_lanes[c], t0])
            self.b.equal_product(self.class_eA[c], [self.class_e0[c], self.class_pes[c]])
            self.b.equal_product(self.class_e1[c], [self.class_eA[c], t1])
            if self.has_row_buffer_loops:
                self.b.equal_product(self.class_e2[c], [self.class_e1[c], t2])
            self.b.equal_product(self.class_bound[c], [self.class_e2[c], t3])
        array = self.arch.pe_array.array_shape
        self.used_pes = self.b.product(self.class_pes, "used_pes", most=array.h * array.w)

    def _per_class(self, factors: list[Int], name: str) -> list[Int]:
        return [self._class_product(c, factors, name) for c in range(len(CLASSES))]

    def _class_product(self, c: int, factors: list[Int], name: str) -> Int:
        return self.b.product([factors[d] for d in CLASSES[c]], f"{name}_c{c}", within=self.class_divisors[c])

    def _orders(self) -> None:
        """Eq. 15, 16: exactly one class is innermost at each level. Traffic depends on no more of an order.

        Orders sorted by class suffice for the least traffic: moving the other loops of the innermost class next to its
        innermost one frees more loops for the tensor of that class, and none fewer for the others (docs/solver.md, B3).
        """
        self.innermost: dict[int, list[Lit]] = {}
        for m in OUTSIDE_PE:
            if m is Level.ROW_BUFFER and not self.has_row_buffer_loops:
                self.innermost[m] = [True] * len(Tensor)
                continue
            self.innermost[m] = [self.b.boolean(f"innermost_{m}_{t.name}") for t in Tensor]
            self.b.model.add_exactly_one(self.innermost[m])

    def _stored_sets(self) -> None:
        """Eq. 6, 7: each tensor is stored at exactly one set of levels that the machine allows."""
        self.is_stored_set: list[dict[Stored, Lit]] = []
        for t in Tensor:
            choices = [self.restriction.storing_choices(m, t) for m in BUFFERS]
            if not self.is_aligned:
                choices[Level.ROW_BUFFER] = tuple(c for c in choices[Level.ROW_BUFFER] if not c)
            sets = [(s[0], s[1], s[2]) for s in itertools.product(*choices)]
            literals: dict[Stored, Any] = {s: self.b.boolean(f"stored_{t.name}_{s}") for s in sets}
            self.b.model.add_exactly_one(literals.values())
            self.is_stored_set.append(literals)

    def is_not_stored_at(self, t: int, stored: Stored) -> Lit:
        """Return whether t is stored at another set of levels."""
        literals = self.is_stored_set[t]
        return self.b.negated(literals[stored]) if stored in literals else True

    def stored(self, level: int, t: int) -> Lit:
        """Return whether t is stored at a level."""
        return self._any_set(t, lambda stored: stored[level], f"stored_{level}_{t}")

    def first_consumer(self, consumer: int, t: int) -> Lit:
        """Return whether the consumer (a level, or the MACs) takes t straight from DRAM."""
        return self._any_set(t, lambda stored: outermost(stored) == consumer, f"first_{consumer}_{t}")

    def linked(self, parent: int, consumer: int, t: int) -> Lit:
        """Return whether the consumer takes t from that parent."""
        return self._any_set(t, lambda stored: (parent, consumer) in links(stored), f"link_{parent}_{consumer}_{t}")

    def _any_set(self, t: int, fits: Callable[[Stored], bool], name: str) -> Lit:
        """Return whether t is stored at a set that `fits`: a literal made once per name."""
        if name not in self._set_cache:
            literals = [literal for stored, literal in self.is_stored_set[t].items() if fits(stored)]
            self._set_cache[name] = self.b.either(literals, name) if literals else False
        return self._set_cache[name]

    def has_loop(self, level: int, d: Dim) -> Lit:
        """Return whether a dim has a loop at a level: a literal made once."""
        key = (level, d)
        if key not in self._loop_cache:
            self._loop_cache[key] = self.b.at_least_two(self.temporal[level][d], f"loop_{level}_{d.name}")
        return self._loop_cache[key]

    def _tiles(self) -> None:
        """Eq. 22 per tensor: the extents of a level without the loops outside the tensor's tile.

        `tile[m][t]` per dim, `class_tile[m][t]` per class. `array_tile[t]`, `class_array_tile[t]`: of all PEs together.
        """
        self.residency = Residency(self.b, self.bounds, self.arch, self.restriction)
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
        """Make the extents of a tile that may be uneven: dims whose loop lies outside it have the extents inside.

        Their extents are the level's if the loop is covered.
        """
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


def outermost(stored: Stored) -> int:
    """Return the level, or the MACs, that takes a tensor straight from DRAM."""
    return links(stored)[0][1]
