"""The choices that a user's constraints leave to each decision of a layer's mapping.

- Factors, stored sets and layouts: a constraint removes values of a variable.
- PEs: how they are split over the array's height and width does not change the cost, so a master problem chooses only
  the number of PEs per dim. Constraints on the split (factors over H or W, a dataflow class) leave those numbers that
  some allowed split has.
- Orders: a constraint fixes which loops lie inside which, and so which loops can be free, that is, cause no fetches.
- Dataflow class: how often tiles are replaced depends on complete orders. A master problem has bounds of it
  (`cpsat_pim.mapper.model.dataflow_class`); `cpsat_pim.mapper.search.completion` checks each order.
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
from cpsat_pim.evaluate.cost import to_machine
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective
from cpsat_pim.mapper.space.candidates import LANES, PES
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import OWN_BANKS, BankCounts, Mapping
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.mapping.dataflow import Dataflow, possible_dataflows
from cpsat_pim.workload import ConvWorkload
from tables.bounds.spatial import Array, place_on_array
from tables.dram import Dram, own_banks
from tables.factors import divisors
from tables.nest import Ints

#: One number per dim: PEs, or factors over one direction of the array.
Vector = tuple[int, ...]
#: Factors over H and W.
Split = tuple[Vector, Vector]

_T = TypeVar("_T")


class Restriction:
    """The mappings of a layer on a machine that lie in a subspace, keep the constraints and fit the budget.

    In the merged subspace one of the two outer levels has all loops outside the global buffer, unless constraints
    distinguish the two (`has_both_outer_levels`): then the merged subspace contains the split one. If that level is the
    row buffer (`_is_in_row_buffer`), a master problem names it DRAM, and `place_outer_loops` moves its loops back.
    """

    def __init__(
        self,
        layer: ConvWorkload,
        arch: PIMArchitecture,
        constraints: Constraints = FREE,
        subspace: Subspace = Subspace.ALIGNED,
        budget: Budget = NO_LIMIT,
        most_fetched: Tensor | None = None,
    ) -> None:
        self.layer, self.arch, self.constraints, self.budget, self.subspace = layer, arch, constraints, budget, subspace
        #: Which tensors share a bank; without a constraint none, which bounds all assignments from below.
        self.banks = constraints.banks or OWN_BANKS
        #: How many banks each tensor has; where they are free as many as it can, which is a bound in the same way.
        self.bank_counts: BankCounts = constraints.bank_counts or (arch.most_banks,) * 3
        #: The only tensor of a shared bank that more loops may fetch than any other one; None if it may be any.
        self.most_fetched = most_fetched
        self._merge_outer_loops()
        shape, unit = arch.pe_array.array_shape, arch.pe_array.compute_unit
        self.array = Array(shape.h, shape.w, unit.num_macs, unit.lane_dims, arch.pe_array.exclusive_spatial)
        self.split = cache(self._split)
        over_array = (constraints.spatial[Direction.H], constraints.spatial[Direction.W])
        is_free = constraints.dataflow is None and not any(n for row in over_array for n in row)
        #: The allowed splits by their PEs per dim; None if constraints leave the split open.
        self._splits = None if is_free else self._allowed_splits()

    # --- Factors, stored sets, layouts -------------------------------------------------------------------------------

    def temporal(self, level: Level, d: Dim, choices: Iterable[int]) -> Iterator[int]:
        """Return the loop factors among `choices` that are allowed."""
        return _allowed(self.constraints.temporal[level][d], choices)

    def lanes(self, d: Dim, choices: Iterable[int]) -> Iterator[int]:
        """Return the factors over the lanes among `choices` that are allowed."""
        return _allowed(self.constraints.spatial[Direction.INTERNAL][d], choices)

    def storing_choices(self, level: Level, t: Tensor) -> tuple[bool, ...]:
        """Return the allowed answers to: does this level store t?

        The row buffer, a bank's open row, stores nothing that shares its bank.
        """
        choices = tuple(_allowed(self.constraints.stored[level][t], self.arch.storing_choices(level, t)))
        if level is Level.ROW_BUFFER and self.is_shared(t):
            return tuple(choice for choice in choices if not choice)
        return choices

    def is_shared(self, t: Tensor) -> bool:
        """Whether another tensor shares t's bank."""
        return self.banks.count(self.banks[t]) > 1

    def dram(self, t: Tensor) -> Dram:
        """Return the geometry and the timing of t's banks."""
        return own_banks(self.bank_counts[t], to_machine(self.arch).dram)

    def part_bytes(self, t: Tensor) -> int | None:
        """Return the bytes of the banks of t's part; None if tensors have banks of their own, as large as the DRAM."""
        return self.arch.bank_bytes and self.bank_counts[t] * self.arch.bank_bytes

    def part(self, t: Tensor) -> list[Tensor]:
        """Return the tensors of t's bank, t among them."""
        return [u for u in Tensor if self.banks[u] == self.banks[t]]

    def is_interrupted(self, t: Tensor) -> bool:
        """Whether others of t's bank are known to be scanned between any two scans of t (docs/solver.md, B15)."""
        return self.is_shared(t) and self.most_fetched not in (None, t)

    @property
    def shared_parts(self) -> list[list[Tensor]]:
        """The parts of several tensors: at most one."""
        return [self.part(t) for t in Tensor if self.is_shared(t) and t is self.part(t)[0]]

    @property
    def is_empty(self) -> bool:
        """Whether the subspace has no mapping, as far as stored sets and bounds show.

        The aligned subspace is empty if no tensor can be row-aligned; the others, if some tensor must be. The split one
        is empty, too, if no dim can have two outer loops, or if the merged subspace contains it already.
        """
        choices = [self.storing_choices(Level.ROW_BUFFER, t) for t in Tensor]
        if not all(choices):
            return True  # a tensor that must be row-aligned shares its bank
        if self.subspace is Subspace.ALIGNED:
            return not any(True in c for c in choices)
        return not all(False in c for c in choices) or (self.subspace is Subspace.SPLIT and not self._can_be_split())

    def _can_be_split(self) -> bool:
        """Whether some dim can have two loops outside the global buffer with a loop of another dim between them."""
        merged = Restriction(self.layer, self.arch, self.constraints, Subspace.MERGED, self.budget)
        composite = any(len(divisors(n)) > 2 for n in self.layer.bounds)
        return composite and sum(n > 1 for n in self.layer.bounds) > 1 and not merged.has_both_outer_levels

    def layouts(self, t: Tensor) -> list[int]:
        """Return the axis orders that t can have in DRAM."""
        return list(_allowed(self.constraints.layout[t], range(2)))

    # --- The array ---------------------------------------------------------------------------------------------------

    def vectors(self, vectors: Ints) -> Ints:
        """Return the allowed rows of spatial vectors int[n, 16] (PEs per dim, lanes per dim)."""
        lanes = self.constraints.spatial[Direction.INTERNAL]
        for d, fixed in enumerate(lanes):
            vectors = vectors if fixed is None else vectors[vectors[:, LANES][:, d] == fixed]
        if self._splits is None:
            return vectors
        keep = [tuple(row) in self._splits for row in vectors[:, PES].tolist()]
        kept: Ints = vectors[np.array(keep, bool)]
        return kept

    def allows(self, vectors: Ints, in_pe: tuple[bool, ...]) -> np.ndarray:
        """Return per vector whether it has an allowed split if PEs store the tensors `in_pe`: bool[n]."""
        if self.constraints.dataflow is None:
            return np.ones(len(vectors), bool)
        return np.array([self.split(tuple(row), in_pe) is not None for row in vectors[:, PES].tolist()], bool)

    def is_within_budget(self, cycles: Ints, fj: Ints, activations: int) -> np.ndarray:
        """Return per lower bound on cycles int[n], femtojoules int[n] and activations whether it keeps the budget."""
        within = np.full(len(cycles), self.budget.activations is None or activations <= self.budget.activations)
        if self.budget.cycles is not None:
            within &= cycles <= self.budget.cycles
        if self.budget.fj is not None:
            within &= fj <= self.budget.fj
        return within

    def relevant_figures(self, objective: Objective) -> tuple[bool, bool]:
        """Return whether objective or budget depend on cycles, and whether on energy or row activations."""
        cycle_weight, fj_weight = objective.weights
        is_limited = self.budget.fj is not None or self.budget.activations is not None
        return cycle_weight > 0 or self.budget.cycles is not None, fj_weight > 0 or is_limited

    def rivals(self, pes: Vector, in_pe: tuple[bool, ...]) -> list[Dataflow]:
        """Return the other dataflow classes that a mapping with these PEs and stored tensors can have by its loops."""
        split = self.split(pes, in_pe)
        return [f for f in possible_dataflows(split or (), in_pe) if f != self.constraints.dataflow] if split else []

    def _split(self, pes: Vector, in_pe: tuple[bool, ...]) -> Split | None:
        """Return an allowed split of these PEs that can have the wanted dataflow class; None if none can.

        Of several, return the one that leaves the fewest other classes. It is enough to try one: two splits of the same
        PEs differ at most in whether IS is among their classes, or in that one leaves all classes open.
        """
        if self._splits is None:
            return place_on_array(pes, self.array)
        wanted = self.constraints.dataflow
        classes = {split: possible_dataflows(split, in_pe) for split in self._splits.get(pes, {}).values()}
        allowed = [split for split, found in classes.items() if wanted is None or wanted in found]
        return min(allowed, key=lambda split: len(classes[split]), default=None)

    def _allowed_splits(self) -> dict[Vector, dict[tuple[Dataflow, ...], Split]]:
        """Return the splits with the fixed factors: PEs per dim -> possible dataflow classes -> one split.

        The classes are those possible if PEs store nothing; they determine the classes under any other stored set.
        """
        found: dict[Vector, dict[tuple[Dataflow, ...], Split]] = {}
        sides = (self._over(Direction.H, self.array.height), self._over(Direction.W, self.array.width))
        for split in itertools.product(*sides):
            pes = tuple(h * w for h, w in zip(*split, strict=True))
            is_twice = self.array.is_exclusive and any(1 < h < n for h, n in zip(split[0], pes, strict=True))
            if not is_twice and not any(n % p for n, p in zip(self.layer.bounds, pes, strict=True)):
                found.setdefault(pes, {}).setdefault(tuple(possible_dataflows(split, (False,) * 3)), split)
        return found

    def _over(self, direction: Direction, size: int) -> list[Vector]:
        """Return all factors over a direction of the array whose product is at most its size."""
        vectors: list[Vector] = [()]
        for d, fixed in zip(Dim, self.constraints.spatial[direction], strict=True):
            choices = list(_allowed(fixed, divisors(self.layer.bounds[d])))
            vectors = [(*v, n) for v in vectors for n in choices if math.prod(v) * n <= size]
        return vectors

    # --- Orders ------------------------------------------------------------------------------------------------------

    def inside(self, level: Level, d: Dim) -> tuple[Dim, ...]:
        """Return the dims whose loops at a level have to lie inside the loop of d."""
        order = self.constraints.order[level]
        return order[order.index(d) + 1 :] if d in order else ()

    def orders(self, level: Level, loops: Sequence[Dim]) -> Iterator[tuple[Dim, ...]]:
        """Return all allowed orders of a level's loops, outermost first."""
        named = [d for d in self.constraints.order[level] if d in loops]
        return (
            order for order in itertools.permutations(loops) if not named or [d for d in order if d in named] == named
        )

    def count_orders(self, level: Level, loops: Sequence[Dim]) -> int:
        """Return the number of allowed orders."""
        named = sum(d in loops for d in self.constraints.order[level])
        return math.factorial(len(loops)) // math.factorial(named)

    def split_innermost(
        self, level: Level, loops: Sequence[Dim], innermost: Collection[Dim]
    ) -> tuple[list[Dim], list[Dim]]:
        """Split a level's loops into the others and those of the dims `innermost` that may lie inside all others."""

        def is_held(d: Dim) -> bool:
            return any(e in loops and e not in innermost for e in self.inside(level, d))

        inner = [d for d in loops if d in innermost and not is_held(d)]
        return [d for d in loops if d not in inner], inner

    def sorted(self, level: Level, loops: Sequence[Dim], innermost: Collection[Dim]) -> tuple[Dim, ...]:
        """Return an allowed order in which as many loops of the dims `innermost` as possible lie inside all others."""
        outside, inside = self.split_innermost(level, loops, innermost)
        return (*next(self.orders(level, outside)), *next(self.orders(level, inside)))

    # --- The two outer levels ----------------------------------------------------------------------------------------

    def _merge_outer_loops(self) -> None:
        """Choose the level that has all outer loops in the merged subspace, if one can."""
        inner, outer = Level.ROW_BUFFER, Level.DRAM
        is_merged = self.subspace is Subspace.MERGED
        in_dram = is_merged and self._has_all_loops(outer, inner)
        self._is_in_row_buffer = is_merged and not in_dram and self._has_all_loops(inner, outer)
        self.has_both_outer_levels = not (self.subspace is Subspace.ALIGNED or in_dram or self._is_in_row_buffer)
        if self._is_in_row_buffer:
            temporal, order = list(self.constraints.temporal), list(self.constraints.order)
            temporal[outer], temporal[inner] = temporal[inner], (None,) * len(Dim)
            order[outer], order[inner] = order[inner], ()
            self.constraints = attrs.evolve(self.constraints, temporal=temporal, order=order)

    def _has_all_loops(self, level: Level, other: Level) -> bool:
        """Whether every allowed mapping costs at least as much as one without loops at the other level.

        That holds if all factors fixed at the other level are 1, and if the factors left open there and the order are
        left open at this level, too. Proof: merging the loops of the other level into those of this one adds no traffic
        (docs/solver.md, B14). It does not change the dataflow class either: only the innermost loop decides it
        (`cpsat_pim.mapper.model.dataflow_class`), and the loops of that dim are merged inwards.
        """
        here, there = self.constraints.temporal[level], self.constraints.temporal[other]
        dims = [d for d in Dim if self.layer.bounds[d] > 1]
        is_empty = all(there[d] == 1 for d in dims)
        is_ordered = sum(d in self.constraints.order[level] for d in dims) > 1
        return is_empty or (
            not is_ordered and all(there[d] == 1 or (there[d] is None and here[d] is None) for d in dims)
        )

    def outer_level_matters(self, d: Dim) -> bool:
        """Whether constraints name the loop of this dim at one of the two outer levels."""
        fixed = (self.constraints.temporal[m][d] for m in (Level.ROW_BUFFER, Level.DRAM))
        return any(n is not None for n in fixed) or d in self.constraints.order[Level.DRAM]

    def place_outer_loops(self, mapping: Mapping) -> Mapping:
        """Return the mapping with its outer loops at the row buffer if that is where this restriction has them."""
        if not self._is_in_row_buffer:
            return mapping
        temporal, order = list(mapping.temporal), list(mapping.order)
        temporal[2:], order[2:] = [temporal[3], (1,) * len(Dim)], [order[3], ()]
        return attrs.evolve(mapping, temporal=temporal, order=order)


def _allowed(fixed: _T | None, choices: Iterable[_T]) -> Iterator[_T]:
    """Return the choices, or only the fixed one if it is among them."""
    return (choice for choice in choices if fixed is None or choice == fixed)
