"""Repair of drafts: prime factors that violate a rule of the machine move outwards until the rule holds."""

import math
from collections.abc import Sequence

import attrs
from numpy.random import Generator

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, RELEVANT, Dim, Level, Tensor
from cpsat_pim.evaluate.cost import to_nest
from cpsat_pim.study.baselines.draft import DRAM, GLOBAL_BUFFER, LANES, PE, ROW_BUFFER, Draft, H, W
from cpsat_pim.workload import ConvWorkload
from tables.factors import primes_of

DIRECTIONS = (H, W, LANES)
#: The loops within a level's tiles, outermost first: the first place with a factor gives up a prime.
_WITHIN: dict[Level, tuple[tuple[int, ...], ...]] = {
    Level.PE: ((PE, LANES),),
    Level.GLOBAL_BUFFER: ((GLOBAL_BUFFER,), (H, W), (PE, LANES)),
    Level.ROW_BUFFER: ((ROW_BUFFER,), (GLOBAL_BUFFER,), (H, W), (PE, LANES)),
}


class Repair:
    """A draft under repair: its factors change, everything else stays as drawn."""

    def __init__(self, layer: ConvWorkload, arch: PIMArchitecture, draft: Draft, rng: Generator) -> None:
        self.layer, self.arch, self.draft, self.rng = layer, arch, draft, rng
        self.factors = [list(row) for row in draft.factors]

    def run(self) -> Draft:
        """Return the draft with factors that satisfy the rules of the array and fit the buffers."""
        self._lanes_take_their_dims()
        if self.arch.pe_array.exclusive_spatial:
            self._dims_take_one_direction()
        self._directions_have_room()
        self._direct_operands_are_neighbours()
        self._strided_points_are_regular()
        for level in BUFFERS:
            self._tiles_fit(level)
        return self._current()

    # --- Rules -------------------------------------------------------------------------------------------------------

    def _lanes_take_their_dims(self) -> None:
        """Move dims out of the lanes that cannot be spread over them."""
        for d in set(Dim) - set(self.arch.pe_array.compute_unit.lane_dims):
            self._clear(LANES, d)

    def _dims_take_one_direction(self) -> None:
        """Leave a dim that is spread over several directions in a random one of them (Eq. 13)."""
        for d in Dim:
            used = [place for place in DIRECTIONS if self.factors[place][d] > 1]
            kept = used[self.rng.integers(len(used))] if used else None
            for place in used:
                if place != kept:
                    self._clear(place, d)

    def _directions_have_room(self) -> None:
        """Reduce the factors over rows, columns and lanes to what is available (Eq. 18-20)."""
        array = self.arch.pe_array
        room = {H: array.array_shape.h, W: array.array_shape.w, LANES: array.compute_unit.num_macs}
        for place in DIRECTIONS:
            while math.prod(self.factors[place]) > room[place]:
                self._give_up([place], list(Dim), PE)

    def _direct_operands_are_neighbours(self) -> None:
        """Remove PE loops along spread dims from tensors that neither PEs nor the global buffer store."""
        for t in Tensor:
            if not self.draft.stored[PE][t] and not self.draft.stored[GLOBAL_BUFFER][t]:
                for d in RELEVANT[t]:
                    if self.factors[H][d] * self.factors[W][d] > 1:
                        self._clear(PE, d)

    def _strided_points_are_regular(self) -> None:
        """Unspread the stepped dims of PEs that fetch I from DRAM; with 1x1 filters they may hold one position each
        instead.
        """
        is_direct = not self.draft.stored[GLOBAL_BUFFER][Tensor.I] and not self.draft.stored[ROW_BUFFER][Tensor.I]
        if not (is_direct and self.draft.stored[PE][Tensor.I]):
            return
        has_filter = self.layer.R > 1 or self.layer.S > 1
        places = (H, W) if has_filter or self.rng.integers(2) else (PE, LANES)
        for d in self.layer.stepped_dims if has_filter else (Dim.P, Dim.Q) if max(self.layer.stride) > 1 else ():
            for place in places:
                self._clear(place, d)

    def _tiles_fit(self, level: Level) -> None:
        """Shrink the tiles that a level stores until they fit (Eq. 17), if the smallest tiles fit."""
        while tensors := self._too_large(level):
            dims = sorted({d for t in tensors for d in RELEVANT[t]})
            if not any(self._give_up(places, dims, level + 1) for places in _WITHIN[level]):
                return

    # --- Moves -------------------------------------------------------------------------------------------------------

    def _too_large(self, level: Level) -> list[Tensor]:
        """Return the tensors whose tiles do not fit the buffer that they share, or their own."""
        nest = to_nest(self.layer, self._current().to_mapping(self.layer), self.arch.spatial_reduction)
        sizes = {t: nest.box(t, level) * nest.width(t, level) for t in Tensor if self.draft.stored[level][t]}
        if self.arch.hierarchy[level].is_shared:
            return list(sizes) if sum(sizes.values()) > self.arch.usable_bytes(level) else []
        return [t for t, size in sizes.items() if size > self.arch.usable_bytes_of(level, t)]

    def _current(self) -> Draft:
        return attrs.evolve(self.draft, factors=self.factors)

    def _give_up(self, places: Sequence[int], dims: Sequence[int], innermost: int) -> bool:
        """Move one random prime of these places to a random level from `innermost` outwards; return False if there is
        none.
        """
        loops = [(place, d) for place in places for d in dims if self.factors[place][d] > 1]
        if not loops:
            return False
        place, d = loops[self.rng.integers(len(loops))]
        primes = primes_of(self.factors[place][d])
        self._move(place, d, primes[self.rng.integers(len(primes))], innermost)
        return True

    def _clear(self, place: int, d: int) -> None:
        """Move all of a dim's factor out of a place to random levels outside it; for a direction, PE loops count as
        outside.
        """
        for prime in primes_of(self.factors[place][d]):
            self._move(place, d, prime, PE if place in DIRECTIONS else place + 1)

    def _move(self, place: int, d: int, prime: int, innermost: int) -> None:
        self.factors[place][d] //= prime
        self.factors[self.rng.integers(innermost, DRAM + 1)][d] *= prime
