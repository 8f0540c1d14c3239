"""What the rules speak of: the extents, tiles and widths of a mapping."""

import math

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, ON_CHIP, Dim, Level, Tensor
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
        """A level in the words of the architecture."""
        return self.arch.hierarchy[level].name

    def factors(self, dim: Dim) -> list[int]:
        """The seven factors of a dim, outer to inner: T3, T2, T1, H, W, T0, Internal."""
        t0, t1, t2, t3 = (row[dim] for row in self.mapping.temporal)
        over_h, over_w, internal = (row[dim] for row in self.mapping.spatial)
        return [t3, t2, t1, over_h, over_w, t0, internal]

    def extents(self, level: Level) -> tuple[int, ...]:
        """e0, e1, e2 of every dim: its innermost two factors at the PE, all but T3 and T2, or all but T3."""
        first = {Level.PE: 5, Level.GLOBAL_BUFFER: 2, Level.ROW_BUFFER: 1}[level]
        return tuple(math.prod(self.factors(dim)[first:]) for dim in Dim)

    def left_out(self, level: Level, tensor: Tensor) -> tuple[Dim, ...]:
        """The loops of a level outside its tile of a tensor, outermost first."""
        return self.mapping.order[level][: self.mapping.outside[level][tensor]] if level in ON_CHIP else ()

    def tile_extents(self, level: Level, tensor: Tensor) -> tuple[int, ...]:
        """e0, e1, e2 of every dim without the factors of loops outside the tile."""
        left_out, factors = self.left_out(level, tensor), self.mapping.temporal[level]
        return tuple(n // factors[d] if d in left_out else n for d, n in zip(Dim, self.extents(level), strict=True))

    def tile_bytes(self, level: Level, tensor: Tensor) -> int:
        """Bytes of the box of a tensor that a level holds."""
        return box_elems(self.layer, self.tile_extents(level, tensor), tensor) * self.width_bytes(level, tensor)

    def width_bytes(self, level: Level, tensor: Tensor) -> int:
        """Bytes per element; O has partial sums on chip, and beyond when they are spilled."""
        output = self.layer.output_bytes
        if level < Level.ROW_BUFFER or self._are_partial_sums_spilled():
            output = self.layer.psum_bytes
        return (self.layer.input_bytes, self.layer.weight_bytes, output)[tensor]

    def _are_partial_sums_spilled(self) -> bool:
        """Whether DRAM gives back any O: one of its tiles returns, as a reduction loop runs outside a loop of O.

        With no level that holds O the MACs add in DRAM, and every addition after an output's first reads it back.
        """
        holders = [m for m in BUFFERS if self.mapping.stored[m][Tensor.O]]
        outside = self._loops_outside(holders[-1] if holders else None)
        first = next((i for i, dim in enumerate(outside) if dim in REDUCTIONS), len(outside))
        if not holders:
            return first < len(outside) or self._has_unadded_copies()
        return any(dim not in REDUCTIONS for dim in outside[first:])

    def _loops_outside(self, holder: Level | None) -> list[Dim]:
        """The temporal loops outside a level's tile of O (None: outside the MACs), outermost first."""
        levels = [m for m in reversed(Level) if holder is None or m > holder]
        loops = [(m, dim) for m in levels for dim in self.mapping.order[m]]
        if holder is not None:
            loops += [(holder, dim) for dim in self.left_out(holder, Tensor.O)]
        return [dim for m, dim in loops if self.mapping.temporal[m][dim] > 1]

    def _has_unadded_copies(self) -> bool:
        """Whether several MACs of one step send partial sums of the same output."""
        copies = math.prod(row[dim] for row in self.mapping.spatial for dim in REDUCTIONS)
        return not self.arch.spatial_reduction and copies > 1


def box_elems(layer: ConvWorkload, extents: tuple[int, ...], tensor: Tensor) -> int:
    """Elements of the box of a tensor that such extents (one per dim) span; of I gaps included (Eq. 2, 3, 22)."""
    r, s, p, q, c, k, n, g = extents
    return {
        Tensor.I: n * g * c * input_height(layer, q, s) * input_width(layer, p, r),
        Tensor.W: g * k * c * s * r,
        Tensor.O: n * g * k * q * p,
    }[tensor]


def input_width(layer: ConvWorkload, outputs: int, filters: int) -> int:
    """Columns of I from the first to the last that so many columns of outputs and filter touch (Eq. 2)."""
    return layer.stride[0] * (outputs - 1) + layer.dilation[0] * (filters - 1) + 1


def input_height(layer: ConvWorkload, outputs: int, filters: int) -> int:
    """Rows of I from the first to the last that so many rows of outputs and filter touch (Eq. 3)."""
    return layer.stride[1] * (outputs - 1) + layer.dilation[1] * (filters - 1) + 1


def ceil_div(numerator: int, denominator: int) -> int:
    """A quotient rounded up."""
    return -(-numerator // denominator)
