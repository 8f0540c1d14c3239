"""Loop rules: factors, orders, and the spread over the array."""

import math
from collections.abc import Iterator

from attrs import frozen

from cpsat_pim.base.dims import Dim, Direction, Level
from cpsat_pim.mapping.check.mapped import Mapped
from cpsat_pim.mapping.check.messages import DIRECTION_WORDS, letters


@frozen
class LoopRules(Mapped):
    """The loop rules, one method each."""

    def violations(self) -> Iterator[str]:
        """Yield a line per violated rule."""
        yield from self._factors_multiply_to_bounds()
        yield from self._dims_use_one_direction()
        yield from self._array_has_room()
        yield from self._lanes_spread_their_dims()
        yield from self._loops_are_ordered()

    def _factors_multiply_to_bounds(self) -> Iterator[str]:
        """The seven factors of a dim multiply to its bound (Eq. 10)."""
        for dim in Dim:
            factors = self.factors(dim)
            if math.prod(factors) != self.layer.bounds[dim]:
                product = " x ".join(map(str, factors))
                yield f"{dim.name}: factors {product} = {math.prod(factors)}, the bound is {self.layer.bounds[dim]}"

    def _dims_use_one_direction(self) -> Iterator[str]:
        """A dim is spread over at most one of H, W, Internal, unless the array allows more (Eq. 13)."""
        if not self.arch.pe_array.exclusive_spatial:
            return
        for dim in Dim:
            used = [word for s, word in DIRECTION_WORDS.items() if self.mapping.spatial[s][dim] > 1]
            if len(used) > 1:
                yield f"PE array: {dim.name} is spread over {' and '.join(used)}, at most one is allowed"

    def _array_has_room(self) -> Iterator[str]:
        """The factors over H, W and Internal fit the rows, columns and lanes (Eq. 18-20)."""
        shape = self.arch.pe_array.array_shape
        room = {
            Direction.H: (shape.h, "rows"),
            Direction.W: (shape.w, "columns"),
            Direction.INTERNAL: (self.arch.pe_array.compute_unit.num_macs, "lanes of a PE"),
        }
        for direction, (limit, places) in room.items():
            used = math.prod(self.mapping.spatial[direction])
            if used > limit:
                yield f"PE array: {DIRECTION_WORDS[direction]} uses {used} {places}, there are {limit}"

    def _lanes_spread_their_dims(self) -> Iterator[str]:
        """Only dims that the compute unit can spread over its lanes have an Internal factor."""
        unit = self.arch.pe_array.compute_unit
        allowed = "/".join(dim.name for dim in unit.lane_dims) or "nothing"
        for dim in Dim:
            factor = self.mapping.spatial[Direction.INTERNAL][dim]
            if factor > 1 and dim not in unit.lane_dims:
                yield f"PE array: Internal has {dim.name} = {factor}, a {unit.unit_type} unit spreads {allowed}"

    def _loops_are_ordered(self) -> Iterator[str]:
        """The order of a level contains each dim with a factor above 1 once, and no other dim (Eq. 15, 16)."""
        for level in Level:
            order = self.mapping.order[level]
            for dim in Dim:
                factor, times = self.mapping.temporal[level][dim], order.count(dim)
                if times != int(factor > 1):
                    yield (
                        f"{self.level_name(level)}: loop {dim.name} of factor {factor} is {times} times in the order "
                        f"{letters(order) or '(empty)'}, it must be there {int(factor > 1)} times"
                    )
