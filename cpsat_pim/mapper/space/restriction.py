"""What constraints leave of a layer's mappings, decision by decision.

Factors, stored sets and layouts are fewer choices of a variable. How PEs are split over the array's height and width
costs nothing, so a program chooses only how many there are of each dim; where constraints say something of the split
(factors over H or W, a dataflow class), what is left are the PEs that some split they allow amounts to. An order fixes
which loops lie inside which, and so which of them can be free of fetches. Of what only complete orders show, how often
tiles are replaced under a dataflow class, a program has bounds (`flow`); `orders.Completions` has the last word.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar

import attrs
import numpy as np

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Direction, Level, Tensor
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective
from cpsat_pim.mapper.space.candidates import LANES, PES
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.mapping.dataflow import Dataflow, possible_dataflows
from cpsat_pim.workload import ConvWorkload
from tables.bounds.spatial import Array, place_on_array
from tables.factors import divisors
from tables.nest import Ints

#: PEs, or factors over one direction, per dim.
Vector = tuple[int, ...]
#: Factors over H and W.
Split = tuple[Vector, Vector]

_T = TypeVar("_T")


class Restriction:
    """The choices that constraints leave to a layer's mappings on a machine.

    `part`: of which part of the space. In the merged one, one of the two outer levels has all loops, unless constraints
    tell them apart (`tells_loops_apart`): then it is that of the split loops, too. If it is the row buffer
    (`_is_lowered`) that goes by the name of the DRAM until a mapping is complete.
    """

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        constraints: Constraints = FREE,
        subspace: Subspace = Subspace.ALIGNED,
        budget: Budget = NO_LIMIT,
    ) -> None:
        self.layer, self.arch, self.constraints, self.budget, self.subspace = layer, arch, constraints, budget, subspace
        self._merge_outer_loops()
        shape, unit = arch.pe_array.array_shape, arch.pe_array.compute_unit
        self.array = Array(shape.h, shape.w, unit.num_macs, unit.lane_dims, arch.pe_array.exclusive_spatial)
        self.split = cache(self._split)
        over_array = (constraints.spatial[Direction.H], constraints.spatial[Direction.W])
        is_free = constraints.dataflow is None and not any(n for row in over_array for n in row)
        #: The splits of PEs that are allowed; None where any that the array holds is.
        self._splits = None if is_free else self._allowed_splits()

    # --- Factors, stored sets, layouts -------------------------------------------------------------------------------

    def temporal(self, level: Level, d: Dim, choices: Iterable[int]) -> Iterator[int]:
        """Those of some loop factors that are allowed."""
        return _allowed(self.constraints.temporal[level][d], choices)

    def lanes(self, d: Dim, choices: Iterable[int]) -> Iterator[int]:
        """Those of some factors over the lanes that are allowed."""
        return _allowed(self.constraints.spatial[Direction.INTERNAL][d], choices)

    def storing_choices(self, level: Level, t: Tensor) -> tuple[bool, ...]:
        """Whether a level can store t, and can do without."""
        return tuple(_allowed(self.constraints.stored[level][t], self.arch.storing_choices(level, t)))

    @property
    def is_empty(self) -> bool:
        """Whether the part holds nothing: no tensor can be row-aligned, or some one must; or no dim can have two loops,
        or the merged part has these already.
        """
        choices = [self.storing_choices(Level.ROW_BUFFER, t) for t in Tensor]
        if self.subspace is Subspace.ALIGNED:
            return not any(True in c for c in choices)
        return not all(False in c for c in choices) or (self.subspace is Subspace.SPLIT and not self._can_be_split())

    def _can_be_split(self) -> bool:
        """Whether a dim can have two loops outside the global buffer, with one of another dim between them."""
        merged = Restriction(self.layer, self.arch, self.constraints, Subspace.MERGED, self.budget)
        composite = any(len(divisors(n)) > 2 for n in self.layer.bounds)
        return composite and sum(n > 1 for n in self.layer.bounds) > 1 and not merged.tells_loops_apart

    def layouts(self, t: Tensor) -> list[int]:
        """The axis orders that t can have."""
        return list(_allowed(self.constraints.layout[t], range(2)))

    # --- The array ---------------------------------------------------------------------------------------------------

    def vectors(self, vectors: Ints) -> Ints:
        """Those of some spatial vectors (PEs per dim, lanes per dim) that are allowed."""
        lanes = self.constraints.spatial[Direction.INTERNAL]
        for d, fixed in enumerate(lanes):
            vectors = vectors if fixed is None else vectors[vectors[:, LANES][:, d] == fixed]
        if self._splits is None:
            return vectors
        keep = [tuple(row) in self._splits for row in vectors[:, PES].tolist()]
        kept: Ints = vectors[np.array(keep, bool)]
        return kept

    def allows(self, vectors: Ints, in_pe: tuple[bool, ...]) -> np.ndarray:
        """Which of these vectors have a split that is allowed where PEs store these tensors."""
        if self.constraints.dataflow is None:
            return np.ones(len(vectors), bool)
        return np.array([self.split(tuple(row), in_pe) is not None for row in vectors[:, PES].tolist()], bool)

    def affords(self, cycles: Ints, fj: Ints, activations: int) -> np.ndarray:
        """Which of these least costs are within the budget; no mapping has fewer activations."""
        within = np.full(len(cycles), self.budget.activations is None or activations <= self.budget.activations)
        if self.budget.cycles is not None:
            within &= cycles <= self.budget.cycles
        if self.budget.fj is not None:
            within &= fj <= self.budget.fj
        return within

    def sees(self, objective: Objective) -> tuple[bool, bool]:
        """Whether it matters how many cycles a mapping takes, and how much energy or how many row activations."""
        cycle_weight, fj_weight = objective.weights
        is_limited = self.budget.fj is not None or self.budget.activations is not None
        return cycle_weight > 0 or self.budget.cycles is not None, fj_weight > 0 or is_limited

    def rivals(self, pes: Vector, in_pe: tuple[bool, ...]) -> list[Dataflow]:
        """The other classes that loops could make a mapping with these PEs and these tensors in them."""
        split = self.split(pes, in_pe)
        return [f for f in possible_dataflows(split or (), in_pe) if f != self.constraints.dataflow] if split else []

    def _split(self, pes: Vector, in_pe: tuple[bool, ...]) -> Split | None:
        """A split of these PEs that allows the wanted class, with these tensors in them; None if none does.

        The one that leaves fewest other classes: two splits differ in no more than whether IS is one of the classes, or
        in having all where they would have none.
        """
        if self._splits is None:
            return place_on_array(pes, self.array)
        wanted = self.constraints.dataflow
        classes = {split: possible_dataflows(split, in_pe) for split in self._splits.get(pes, {}).values()}
        allowed = [split for split, found in classes.items() if wanted is None or wanted in found]
        return min(allowed, key=lambda split: len(classes[split]), default=None)

    def _allowed_splits(self) -> dict[Vector, dict[tuple[Dataflow, ...], Split]]:
        """Splits with the factors that are fixed by the PEs that they amount to: one for each set of classes that they
        leave where PEs store nothing, which tells what they leave anywhere.
        """
        found: dict[Vector, dict[tuple[Dataflow, ...], Split]] = {}
        sides = (self._over(Direction.H, self.array.height), self._over(Direction.W, self.array.width))
        for split in itertools.product(*sides):
            pes = tuple(h * w for h, w in zip(*split, strict=True))
            is_twice = self.array.is_exclusive and any(1 < h < n for h, n in zip(split[0], pes, strict=True))
            if not is_twice and not any(n % p for n, p in zip(self.layer.bounds, pes, strict=True)):
                found.setdefault(pes, {}).setdefault(tuple(possible_dataflows(split, (False,) * 3)), split)
        return found

    def _over(self, direction: Direction, room: int) -> list[Vector]:
        """All factors over a direction."""
        vectors: list[Vector] = [()]
        for d, fixed in zip(Dim, self.constraints.spatial[direction], strict=True):
            choices = list(_allowed(fixed, divisors(self.layer.bounds[d])))
            vectors = [(*v, n) for v in vectors for n in choices if math.prod(v) * n <= room]
        return vectors

    # --- Orders ------------------------------------------------------------------------------------------------------

    def inside(self, level: Level, d: Dim) -> tuple[Dim, ...]:
        """The dims whose loops at a level lie inside that of d."""
        order = self.constraints.order[level]
        return order[order.index(d) + 1 :] if d in order else ()

    def orders(self, level: Level, loops: Sequence[Dim]) -> Iterator[tuple[Dim, ...]]:
        """All orders of a level's loops."""
        named = [d for d in self.constraints.order[level] if d in loops]
        return (
            order for order in itertools.permutations(loops) if not named or [d for d in order if d in named] == named
        )

    def count_orders(self, level: Level, loops: Sequence[Dim]) -> int:
        """How many there are."""
        named = sum(d in loops for d in self.constraints.order[level])
        return math.factorial(len(loops)) // math.factorial(named)

    def interleaved(
        self, level: Level, loops: Sequence[Dim], innermost: Collection[Dim]
    ) -> tuple[list[Dim], list[Dim]]:
        """A level's other loops, and those of a class of dims that can lie inside all others."""

        def is_held(d: Dim) -> bool:
            return any(e in loops and e not in innermost for e in self.inside(level, d))

        inner = [d for d in loops if d in innermost and not is_held(d)]
        return [d for d in loops if d not in inner], inner

    def sorted(self, level: Level, loops: Sequence[Dim], innermost: Collection[Dim]) -> tuple[Dim, ...]:
        """An order that keeps as many loops of a class of dims innermost as can be."""
        outside, inside = self.interleaved(level, loops, innermost)
        return (*next(self.orders(level, outside)), *next(self.orders(level, inside)))

    # --- The two outer levels ----------------------------------------------------------------------------------------

    def _merge_outer_loops(self) -> None:
        """Choose the level of the outer loops."""
        inner, outer = Level.ROW_BUFFER, Level.DRAM
        is_merged = self.subspace is Subspace.MERGED
        in_dram = is_merged and self._has_all_loops(outer, inner)
        self._is_lowered = is_merged and not in_dram and self._has_all_loops(inner, outer)
        self.tells_loops_apart = not (self.subspace is Subspace.ALIGNED or in_dram or self._is_lowered)
        if self._is_lowered:
            temporal, order = list(self.constraints.temporal), list(self.constraints.order)
            temporal[outer], temporal[inner] = temporal[inner], (None,) * len(Dim)
            order[outer], order[inner] = order[inner], ()
            self.constraints = attrs.evolve(self.constraints, temporal=temporal, order=order)

    def _has_all_loops(self, level: Level, other: Level) -> bool:
        """Whether mappings without loops at the other level are among the best.

        What is fixed there is 1, and what is not is free at this level, too, and so is the order. Merged into the
        loops of this level, those of the other add no traffic (docs/model.md, section 8). Nor do they change a dataflow
        class, which only the innermost loop decides (`flow`), if its dim's are merged inwards.
        """
        here, there = self.constraints.temporal[level], self.constraints.temporal[other]
        dims = [d for d in Dim if self.layer.bounds[d] > 1]
        is_empty = all(there[d] == 1 for d in dims)
        is_ordered = sum(d in self.constraints.order[level] for d in dims) > 1
        return is_empty or (
            not is_ordered and all(there[d] == 1 or (there[d] is None and here[d] is None) for d in dims)
        )

    def is_told_apart(self, d: Dim) -> bool:
        """Whether it may matter for the loop of this dim by itself which of the two levels it is of."""
        fixed = (self.constraints.temporal[m][d] for m in (Level.ROW_BUFFER, Level.DRAM))
        return any(n is not None for n in fixed) or d in self.constraints.order[Level.DRAM]

    def complete(self, mapping: Mapping) -> Mapping:
        """The mapping with its outer loops where they belong."""
        if not self._is_lowered:
            return mapping
        temporal, order = list(mapping.temporal), list(mapping.order)
        temporal[2:], order[2:] = [temporal[3], (1,) * len(Dim)], [order[3], ()]
        return attrs.evolve(mapping, temporal=temporal, order=order)


def _allowed(fixed: _T | None, choices: Iterable[_T]) -> Iterator[_T]:
    """The choices, or the one that is fixed if it is among them."""
    return (choice for choice in choices if fixed is None or choice == fixed)
