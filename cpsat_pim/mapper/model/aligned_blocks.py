"""Lower bounds on the DRAM streams of row-aligned tensors that hold for every order of their blocks."""

from collections.abc import Sequence
from typing import NamedTuple

from cpsat_pim.base.dims import RELEVANT, Dim, Level, Tensor
from cpsat_pim.mapper.model.builder import Int, Lit, is_zero
from cpsat_pim.mapper.model.reuse import Reuse
from cpsat_pim.mapper.model.traffic import Traffic
from cpsat_pim.mapper.model.variables import Variables
from tables.dram import block_counts, last_run
from tables.factors import divisors

#: Cycles of a stream's first scan. Of outputs: of the last write-out, if its tile was not just read back, and if it
#: was.
Edge = tuple[Int, Int]


class BlockPass(NamedTuple):
    """If `where` holds, blocks are scanned one by one: `columns` of a pass over all of them, and its `edge`."""

    where: Lit
    columns: Int
    edge: Edge


class AlignedBlocks:
    """Constraints on the streams of row-aligned tensors.

    `passes`: over all blocks of each tensor. `min_rows`: that its elements fill.
    """

    def __init__(
        self, v: Variables, reuse: Reuse, traffic: Traffic, passes: Sequence[Int], min_rows: Sequence[int]
    ) -> None:
        self.v, self.b, self.reuse, self.traffic = v, v.b, reuse, traffic
        self.passes, self.min_rows = passes, min_rows
        self.dram = [v.restriction.dram(t) for t in Tensor]

    def open_rows(self, t: Tensor, activations: Int) -> BlockPass | None:
        """Constrain the activations of t to the rows that its blocks open; return what is known of a pass over them."""
        if not self.v.has_row_buffer_loops:
            return None
        self._swept_blocks(t, activations)
        if t is not Tensor.I:
            return self._whole_blocks(t, activations)
        self._large_windows(activations)
        return None

    def _swept_blocks(self, t: Tensor, activations: Int) -> None:
        """With one bank, each pass over the blocks that the DRAM's contiguous loops sweep opens all their rows again.

        Valid if they fill more than one row: such a pass begins in the lowest row and ends in the highest (B7).
        """
        v, b, layer = self.v, self.b, self.v.layer
        aligned = v.first_consumer(Level.ROW_BUFFER, t)
        if aligned is False or self.dram[t].banks > 1 or (t is Tensor.O and layer.psum_bytes != layer.output_bytes):
            return
        extents = self.reuse.swept(Level.DRAM)  # I has at least as many positions as there are outputs
        swept = b.product(
            [extents[d] for d in RELEVANT[t] if t is not Tensor.I or d not in (Dim.R, Dim.S)], f"swept_{t.name}"
        )
        in_a_row = self.dram[t].row_bytes // layer.width_bytes[t]
        if b.bounds_of(swept)[1] > in_a_row:
            is_spread = b.boolean(f"swept_rows_{t.name}")
            b.imply([b.negated(is_spread)], swept <= in_a_row)
            b.imply([aligned, is_spread], activations >= self.min_rows[t] * self.passes[t])

    def _whole_blocks(self, t: Tensor, activations: Int) -> BlockPass | None:
        """Row-aligned W and O are scanned block by block: a pass has known columns and edges, and opens every row.

        With one bank, if two blocks do not fit one row, every pass over several blocks opens all rows again (B7).
        """
        size, width, d = self.traffic.elements[t], self.v.layer.width_bytes[t], self.dram[t]
        aligned = self.v.first_consumer(Level.ROW_BUFFER, t)
        capacity = self.v.arch.usable_bytes_of(Level.ROW_BUFFER, t)
        rows = []
        for tile in divisors(size):
            if tile * width <= capacity:
                counted = block_counts(size // tile, tile * width, d)
                is_reopened = tile < size and d.banks == 1 and 2 * tile * width > d.row_bytes
                edge = self._block_edge(t, tile * width, size // tile)
                rows.append((tile, *counted, counted[1] if is_reopened else 0, *edge))
        if aligned is False or not rows or (t is Tensor.O and self.v.layer.psum_bytes != self.v.layer.output_bytes):
            return None
        key = self.b.integer((row[0] for row in rows), f"block_{t.name}")
        self.b.imply([aligned], key == self.traffic.tile[int(Level.ROW_BUFFER), t])
        names = [f"block_{name}_{t.name}" for name in ("columns", "rows", "again", "end", "returned")]
        per_pass, opened, again, *ends = self.b.lookup([key], rows, names)
        self.b.imply([aligned], activations >= opened)
        if not is_zero(again):
            self.b.imply([aligned], activations >= self.b.product([again, self.passes[t]], f"reopened_{t.name}"))
        return BlockPass(aligned, per_pass, (ends[0], ends[1]))

    def _block_edge(self, t: Tensor, size: int, blocks: int) -> tuple[int, int]:
        """Return the cycles of the first block's scan; of outputs a lower bound on the last write-out's, as `Edge`."""
        d, miss = self.dram[t], self.v.arch.dram_activation_latency
        columns, rows = -(-size // d.column_bytes), -(-size // d.row_bytes)
        returned = d.tCCD * columns + miss * max(0, rows - d.banks)
        if t is not Tensor.O or blocks == 1:
            return int(last_run(1, d)) + d.tCCD * (columns - 1) + miss * (rows - 1), returned
        if d.banks > 1:
            return d.tCCD * columns, returned
        return d.tCCD * columns + miss * (rows - 1 if 2 * size <= d.row_bytes else rows), returned

    def _large_windows(self, activations: Int) -> None:
        """If windows of a row-aligned I are larger than a row, each pass over them opens all rows (B7)."""
        v, b, d = self.v, self.b, self.dram[Tensor.I]
        aligned = v.first_consumer(Level.ROW_BUFFER, Tensor.I)
        tile, width = self.traffic.tile[int(Level.ROW_BUFFER), Tensor.I], v.layer.input_bytes
        overlaps = max(v.bounds[Dim.R], v.bounds[Dim.S]) > 1
        shared = d.row_bytes // width if overlaps else d.row_bytes // (2 * width)
        if d.banks == 1 and b.bounds_of(tile)[1] > shared and not isinstance(tile, int):
            is_large = b.boolean("windows_outgrow_rows")
            b.model.add(tile <= shared).only_enforce_if(is_large.negated())
            b.imply([aligned, is_large], activations >= self.min_rows[Tensor.I] * self.passes[Tensor.I])

    def first_window(self, ends: Int) -> None:
        """The first scan of a row-aligned I takes all columns of its window."""
        d, aligned = self.dram[Tensor.I], self.v.first_consumer(Level.ROW_BUFFER, Tensor.I)
        tile, width = self.traffic.tile[int(Level.ROW_BUFFER), Tensor.I], self.v.layer.input_bytes
        start = int(last_run(1, d)) - d.tCCD
        self.b.imply([aligned], ends * d.column_bytes >= tile * (width * d.tCCD) + start * d.column_bytes)
