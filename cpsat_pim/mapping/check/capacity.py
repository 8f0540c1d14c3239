"""Capacity rules: tiles must fit the buffers, and tensors in their layouts must fit the DRAM."""

import math
from collections.abc import Iterator

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, Dim, Level, Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check.mapped import Mapped, ceil_div, input_height, input_width
from cpsat_pim.mapping.check.messages import capacity_text, overfull, sum_text
from cpsat_pim.workload import ConvWorkload


def used_bytes(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> tuple[dict[Tensor, int], ...]:
    """Return the bytes of each tensor that a level stores, PE..DRAM: its tile, and in DRAM the whole tensor in its
    layout.
    """
    rules = CapacityRules(layer, arch, mapping)
    return (*(rules.stored_bytes(level) for level in BUFFERS), rules.dram_bytes())


@frozen
class CapacityRules(Mapped):
    """The capacity rules, one method each."""

    def violations(self) -> Iterator[str]:
        """Yield a line per violated rule."""
        yield from self._tiles_fit()
        yield from self._input_blocks_have_sizes_of_the_space()
        if self._has_usable_blocks():
            yield from self._tensors_fit_dram()

    def _tiles_fit(self) -> Iterator[str]:
        """The tiles that a level stores together fit its usable capacity, or each fits its own buffer (Eq. 17)."""
        for level in BUFFERS:
            for problem in overfull(self.arch, level, self.stored_bytes(level)):
                yield f"{self.level_name(level)}: the tiles take {problem}"

    def _input_blocks_have_sizes_of_the_space(self) -> Iterator[str]:
        """The block of a row-aligned I has one of the sizes along each axis; otherwise it is 0 (Eq. 8, 9, 57)."""
        for side, value, sizes in zip("hw", (self.mapping.block_h, self.mapping.block_w), self._sides(), strict=True):
            at = self.level_name(Level.ROW_BUFFER)
            if self._is_row_aligned(Tensor.I) and value not in sizes:
                allowed = f"one of {', '.join(map(str, sizes))}" if len(sizes) > 1 else str(*sizes)
                yield f"{at}: block_{side} of I must be {allowed} (got {value})"
            if not self._is_row_aligned(Tensor.I) and value != 0:
                yield f"{at}: stores no I, so block_{side} must be 0 (got {value})"

    def _tensors_fit_dram(self) -> Iterator[str]:
        """The three tensors in their layouts together fit the DRAM, and those of a part its banks."""
        level, sizes, banks = Level.DRAM, self.dram_bytes(), self.mapping.banks
        if sum(sizes.values()) > self.arch.hierarchy[level].capacity_bytes:
            yield f"{self.level_name(level)}: the tensors take {sum_text(sizes)}, {capacity_text(self.arch, level)}"
        each = self.arch.bank_bytes
        for part, count in enumerate(self.mapping.part_banks if each is not None else ()):
            in_part = {t: size for t, size in sizes.items() if banks[t] == part}
            if sum(in_part.values()) > count * (each or 0):
                taken = "one bank takes" if count == 1 else f"{count} banks take"
                yield f"{self.level_name(level)}: {taken} {sum_text(in_part)}, there are {each} B in each"

    # Quantities

    def stored_bytes(self, level: Level) -> dict[Tensor, int]:
        """Return the bytes of the tiles that a buffer stores."""
        return {t: self.tile_bytes(level, t) for t in Tensor if self.mapping.stored[level][t]}

    def dram_bytes(self) -> dict[Tensor, int]:
        """Return the bytes of the tensors in their layouts."""
        return {t: self._laid_out_bytes(t) for t in Tensor}

    def _sides(self) -> tuple[list[int], list[int]]:
        """Return the heights and the widths that a block of I may have."""
        layer, e2 = self.layer, self.extents(Level.ROW_BUFFER)
        height, width = input_height(layer, e2[Dim.Q], e2[Dim.S]), input_width(layer, e2[Dim.P], e2[Dim.R])
        return (
            _block_sizes(layer.input_height, layer.stride[1], e2[Dim.Q], height),
            _block_sizes(layer.input_width, layer.stride[0], e2[Dim.P], width),
        )

    def _is_row_aligned(self, tensor: Tensor) -> bool:
        return self.mapping.stored[Level.ROW_BUFFER][tensor]

    def _has_usable_blocks(self) -> bool:
        return not self._is_row_aligned(Tensor.I) or min(self.mapping.block_h, self.mapping.block_w) > 0

    def _block(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the extents of a row-aligned tensor's block: I as N, G, C, height, width; W as G, K, C, S, R; O as N,
        G, K, Q, P.
        """
        r, s, p, q, c, k, n, g = self.extents(Level.ROW_BUFFER)
        return (
            (n, g, c, self.mapping.block_h, self.mapping.block_w),
            (g, k, c, s, r),
            (n, g, k, q, p),
        )[tensor]

    def _whole(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the extents of a tensor along the axes of `_block`."""
        r, s, p, q, c, k, n, g = self.layer.bounds
        return (
            (n, g, c, self.layer.input_height, self.layer.input_width),
            (g, k, c, s, r),
            (n, g, k, q, p),
        )[tensor]

    def _laid_out_bytes(self, tensor: Tensor) -> int:
        """Return the bytes of a tensor as laid out: whole rows if it is row-aligned (Eq. 52-56) or shares its bank."""
        width = self.width_bytes(Level.DRAM, tensor)
        whole = self._whole(tensor)
        if not self._is_row_aligned(tensor):
            packed = math.prod(whole) * width
            is_alone = self.mapping.banks.count(self.mapping.banks[tensor]) == 1
            return packed if is_alone else ceil_div(packed, self.arch.row_bytes) * self.arch.row_bytes
        block = self._block(tensor)
        blocks = math.prod(ceil_div(side, part) for side, part in zip(whole, block, strict=True))
        return _rows_of_blocks(blocks, math.prod(block) * width, self.arch.row_bytes) * self.arch.row_bytes


def _block_sizes(size: int, stride: int, outputs: int, tile: int) -> list[int]:
    """Return the sizes of a block of I along an axis, at most the tile: divisors of I, steps of tiles, the tile.

    `size`, `tile`: positions of I and of its tile. `outputs`: outputs of the tile.
    """
    steps = [min(stride * n, size) for n in range(1, outputs + 1) if outputs % n == 0]
    return [n for n in range(1, tile + 1) if size % n == 0 or n in steps or n == tile]


def _rows_of_blocks(blocks: int, block_bytes: int, row_bytes: int) -> int:
    """Return the rows of a row-aligned tensor: several whole blocks per row, or several whole rows per block."""
    if block_bytes <= row_bytes:
        return ceil_div(blocks, row_bytes // block_bytes)
    return blocks * ceil_div(block_bytes, row_bytes)
