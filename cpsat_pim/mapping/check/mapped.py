"""The quantities that the rules use: extents, tiles and element widths of a mapping."""

import math

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, ON_CHIP, Dim, Direction, Level, Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

REDUCTIONS = (Dim.R, Dim.S, Dim.C)


@frozen
class Mapped:
    """A well-formed mapping of a layer on a machine."""

    layer: ConvWorkload
    arch: PIMArchitecture
    mapping: Mapping

    def level_name(self, level: Level) -> str:
        """Return the architecture's name of a level."""
        return self.arch.hierarchy[level].name

    def factors(self, dim: Dim) -> list[int]:
        """Return the seven factors of a dim, outer to inner: T3, T2, T1, H, W, T0, Internal."""
        t0, t1, t2, t3 = (row[dim] for row in self.mapping.temporal)
        over_h, over_w, internal = (row[dim] for row in self.mapping.spatial)
        return [t3, t2, t1, over_h, over_w, t0, internal]

    def extents(self, level: Level) -> tuple[int, ...]:
        """Return e0, e1 or e2 of every dim: the product of its two innermost factors at the PE, of all but T3 and T2 at
        the global buffer, of all but T3 at the row buffer.
        """
        inside = self.mapping.spatial[Direction.INTERNAL :] if level == Level.PE else self.mapping.spatial
        return tuple(math.prod(column) for column in zip(*self.mapping.temporal[: level + 1], *inside, strict=True))

    def uncovered(self, level: Level, tensor: Tensor) -> tuple[Dim, ...]:
        """Return the loops of a level outside its tile of a tensor, outermost first."""
        return self.mapping.order[level][: self.mapping.outside[level][tensor]] if level in ON_CHIP else ()

    def tile_extents(self, level: Level, tensor: Tensor) -> tuple[int, ...]:
        """Return e0, e1 or e2 of every dim, without the factors of loops outside the tile."""
        outside, factors = self.uncovered(level, tensor), self.mapping.temporal[level]
        return tuple(n // factors[d] if d in outside else n for d, n in zip(Dim, self.extents(level), strict=True))

    def tile_bytes(self, level: Level, tensor: Tensor) -> int:
        """Return the bytes of a tensor's tile at a level."""
        return box_elems(self.layer, self.tile_extents(level, tensor), tensor) * self.width_bytes(level, tensor)

    def width_bytes(self, level: Level, tensor: Tensor) -> int:
        """Return the bytes per element; O has partial sums on chip, and in DRAM if they are spilled."""
        output = self.layer.output_bytes
        if level < Level.ROW_BUFFER or self._are_partial_sums_spilled():
            output = self.layer.psum_bytes
        return (self.layer.input_bytes, self.layer.weight_bytes, output)[tensor]

    def _are_partial_sums_spilled(self) -> bool:
        """Return whether DRAM returns any O: a tile of O is fetched again, because a reduction loop runs outside a loop
        of O.

        If no level stores O, the MACs add in DRAM, and every addition after an output's first one reads it back.
        """
        holders = [m for m in BUFFERS if self.mapping.stored[m][Tensor.O]]
        outside = self._loops_outside(holders[-1] if holders else None)
        first = next((i for i, dim in enumerate(outside) if dim in REDUCTIONS), len(outside))
        if not holders:
            return first < len(outside) or self._has_unadded_copies()
        return any(dim not in REDUCTIONS for dim in outside[first:])

    def _loops_outside(self, holder: Level | None) -> list[Dim]:
        """Return the temporal loops outside a level's tile of O (None: outside the MACs), outermost first."""
        levels = [m for m in reversed(Level) if holder is None or m > holder]
        loops = [(m, dim) for m in levels for dim in self.mapping.order[m]]
        if holder is not None:
            loops += [(holder, dim) for dim in self.uncovered(holder, Tensor.O)]
        return [dim for m, dim in loops if self.mapping.temporal[m][dim] > 1]

    def _has_unadded_copies(self) -> bool:
        """Return whether several MACs send partial sums of the same output in one step."""
        copies = math.prod(row[dim] for row in self.mapping.spatial for dim in REDUCTIONS)
        return not self.arch.spatial_reduction and copies > 1


def box_elems(layer: ConvWorkload, extents: tuple[int, ...], tensor: Tensor) -> int:
    """Return the elements of a tensor's box with these extents (one per dim); gaps in I are included (Eq. 2, 3, 22)."""
    r, s, p, q, c, k, n, g = extents
    return {
        Tensor.I: n * g * c * input_height(layer, q, s) * input_width(layer, p, r),
        Tensor.W: g * k * c * s * r,
        Tensor.O: n * g * k * q * p,
    }[tensor]


def input_width(layer: ConvWorkload, outputs: int, filters: int) -> int:
    """Return the width of I, from the first to the last column, under these numbers of output and filter columns (Eq.
    2).
    """
    return layer.stride[0] * (outputs - 1) + layer.dilation[0] * (filters - 1) + 1


def input_height(layer: ConvWorkload, outputs: int, filters: int) -> int:
    """Return the height of I, from the first to the last row, under these numbers of output and filter rows (Eq. 3)."""
    return layer.stride[1] * (outputs - 1) + layer.dilation[1] * (filters - 1) + 1


def ceil_div(numerator: int, denominator: int) -> int:
    """Return a quotient rounded up."""
    return -(-numerator // denominator)
