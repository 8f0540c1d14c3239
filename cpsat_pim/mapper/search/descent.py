"""Improve a mapping by small changes, as long as that makes it cheaper (heuristic): a first incumbent that is not far.

A neighbour of a mapping has a prime factor of one dim at another place, a loop elsewhere in the order of its level, a
tensor stored at one level more or less, other banks, or another layout. Neighbours are drawn at random, and accepted
by how little they cost above the best one (record-to-record travel, Dueck 1993).
"""

import random
from collections.abc import Callable
from functools import partial

import attrs

from cpsat_pim.base.dims import BUFFERS, Dim, Level, Tensor
from cpsat_pim.base.watched import call_watched
from cpsat_pim.evaluate.cost import to_machine, to_nest
from cpsat_pim.mapper.search.completion import Completion
from cpsat_pim.mapper.search.placement import input_blocks
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.space.banks import searched_banks
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import check_constraints
from tables.counts.limits import CostLimit, cost_within
from tables.counts.stream import Stopped, is_long
from tables.factors import primes_of
from tables.nest import Nest


class Descent:
    """Walks from mappings to ever cheaper neighbours; what it finds is offered to a search."""

    def __init__(self, state: SearchState) -> None:
        self.state, self.layer, self.arch = state, state.layer, state.arch
        self._machine = to_machine(state.arch)
        self._banks = searched_banks(state.arch, state.request.constraints)
        self._random = random.Random(state.request.seed + state.descents)
        #: Kinds of neighbours, as often as they are drawn.
        self._moves = (*[self._refactored] * 4, *[self._exchanged] * 4, *[self._reordered] * 3, self._stored)
        if len(self._banks) > 1:
            self._moves += (self._rebanked,)

    def try_one(self, mapping: Mapping) -> None:
        """Offer a legal mapping; its streams are counted no further than the incumbent's cost."""
        if self.state.cutoff is None:
            self.state.offer(mapping, lambda: self.state.is_over)
        else:
            self._value(mapping, self.state.cutoff, lambda: self.state.is_over)

    def walk(self, start: Completion, neighbours: int, until: float) -> None:
        """Try so many neighbours, up to so many seconds of the search, beginning with those of a completion: go on from
        each one that costs little more than the best one so far, less and less.
        """

        def is_over() -> bool:
            return self.state.is_over or self.state.seconds >= until

        last, record, tried = start.mapping, start.value, 0
        while tried < neighbours and not is_over():
            most = int(record * (1 + self.state.parameters.descent_margin * (1 - tried / neighbours)))
            mapping, tried = self._neighbour(last), tried + 1
            found = self._value(mapping, most, is_over) if mapping and self._is_allowed(mapping, most) else None
            if mapping and found is not None and found <= most:
                last, record = mapping, min(record, found)

    def _is_allowed(self, mapping: Mapping, most: int) -> bool:
        """Whether a mapping is legal, keeps the constraints, and takes no more steps than a cost leaves it."""
        if self.state.objective.weights[0] * mapping.compute_steps > most:
            return False
        constraints = self.state.request.constraints
        return not check_mapping(self.layer, self.arch, mapping) and not check_constraints(mapping, constraints)

    def _value(self, mapping: Mapping, most: int, is_over: Callable[[], bool]) -> int | None:
        """Return what a mapping costs by the formula, and offer it if that is less than the incumbent does; None where
        a stream is too long for the cost `most`, or the time is over.
        """
        nest = to_nest(self.layer, mapping, self.arch.spatial_reduction)
        limit = CostLimit(most, *self.state.objective.weights)
        count = partial(cost_within, nest, self._machine, self.state.stream_limits(most), limit)
        try:
            cost = call_watched(lambda stop: count(stop=stop), is_over) if self._is_long(nest) else count()
        except Stopped:
            return None
        if cost is None:
            return None
        value = self.state.objective.value(cost.latency_cycles, cost.energy_fj)
        if self.state.value_to_beat is None or value < self.state.value_to_beat:
            self.state.offer(mapping, is_over)
        return value

    def _is_long(self, nest: Nest) -> bool:
        return any(is_long(nest, t) for t in Tensor)

    def _neighbour(self, mapping: Mapping) -> Mapping | None:
        """Return a random neighbour, now and then in another layout, or with another block of a row-aligned I."""
        moved = self._random.choice(self._moves)(mapping)
        if moved is None:
            return None
        block_h, block_w = self._block(moved)
        layout = [n ^ self._is_changed() for n in moved.layout]
        return attrs.evolve(moved, block_h=block_h, block_w=block_w, layout=layout)

    def _block(self, mapping: Mapping) -> tuple[int, int]:
        """Return the block of I, or a random one where it does not fit the tiles; 0 and 0 if I is not row-aligned."""
        if not mapping.stored[Level.ROW_BUFFER][Tensor.I]:
            return 0, 0
        block, blocks = (mapping.block_h, mapping.block_w), input_blocks(self.layer, mapping)
        return block if block in blocks and not self._is_changed() else self._random.choice(blocks)

    def _is_changed(self) -> bool:
        """Draw whether a layout or a block is changed."""
        return self._random.random() < self.state.parameters.descent_flips

    # --- Neighbours --------------------------------------------------------------------------------------------------

    def _refactored(self, mapping: Mapping) -> Mapping | None:
        """Move a prime of a dim from one place to another one."""
        rows = [list(row) for row in (*mapping.temporal, *mapping.spatial)]
        choices = [(i, d) for i, row in enumerate(rows) for d in Dim if row[d] > 1]
        if not choices:
            return None
        source, d = self._random.choice(choices)
        target = self._random.choice([i for i in range(len(rows)) if i != source])
        prime = self._random.choice(primes_of(rows[source][d]))
        rows[source][d] //= prime
        rows[target][d] *= prime
        return self._rebuilt(mapping, rows)

    def _exchanged(self, mapping: Mapping) -> Mapping | None:
        """Move a prime of a dim from one place to another one, and one of another dim back."""
        rows = [list(row) for row in (*mapping.temporal, *mapping.spatial)]
        choices = [(i, d) for i, row in enumerate(rows) for d in Dim if row[d] > 1]
        pairs = [(a, b) for a in choices for b in choices if a[0] != b[0] and a[1] != b[1]]
        if not pairs:
            return None
        (i, d), (j, e) = self._random.choice(pairs)
        for a, b, dim in ((i, j, d), (j, i, e)):
            prime = self._random.choice(primes_of(rows[a][dim]))
            rows[a][dim] //= prime
            rows[b][dim] *= prime
        return self._rebuilt(mapping, rows)

    def _rebuilt(self, mapping: Mapping, rows: list[list[int]]) -> Mapping:
        """Return the mapping with other factors; loops keep their order, new ones come anywhere."""
        order = []
        for m in Level:
            loops = [d for d in mapping.order[m] if rows[m][d] > 1]
            for d in (d for d in Dim if rows[m][d] > 1 and d not in loops):
                loops.insert(self._random.randint(0, len(loops)), d)
            order.append(loops)
        n = len(Level)
        return attrs.evolve(mapping, temporal=rows[:n], spatial=rows[n:], order=order)

    def _reordered(self, mapping: Mapping) -> Mapping | None:
        """Move a loop within its level."""
        levels = [m for m in Level if len(mapping.order[m]) > 1]
        if not levels:
            return None
        m = self._random.choice(levels)
        loops = list(mapping.order[m])
        loops.insert(self._random.randrange(len(loops)), loops.pop(self._random.randrange(len(loops))))
        return attrs.evolve(mapping, order=[loops if i == m else mapping.order[i] for i in Level])

    def _stored(self, mapping: Mapping) -> Mapping | None:
        """Store a tensor at a level where it passes, or the other way round."""
        free = [(m, t) for m in BUFFERS for t in Tensor if len(set(self.arch.storing_choices(m, t))) > 1]
        if not free:
            return None
        m, t = self._random.choice(free)
        stored = [list(row) for row in mapping.stored]
        stored[m][t] = not stored[m][t]
        return attrs.evolve(mapping, stored=stored)

    def _rebanked(self, mapping: Mapping) -> Mapping:
        """Divide the tensors over the banks in another way."""
        banks, counts = self._random.choice(self._banks)
        return attrs.evolve(mapping, banks=banks, bank_counts=counts)
