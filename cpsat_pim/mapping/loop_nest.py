"""Draw the loop nest of a mapping: a line per loop, outermost first (section 9.3, in Timeloop's indented form).

A level's line names the tiles that cover all of its loops. A tile that covers only inner loops has its own line,
directly outside these loops. The first line of a padded layer names the padded bounds.
"""

from collections.abc import Iterator

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import LAYOUT_ORDERS, Dim, Direction, Level, Tensor
from cpsat_pim.mapping import ONE_BANK, OWN_BANKS, Mapping, banks_text
from cpsat_pim.mapping.check import box_elems
from cpsat_pim.workload import ConvWorkload

_STEP = "  "
_BODY = "O[n,g,k,q,p] += I[n,g,c,h,w] * W[g,k,c,s,r]"


def format_nest(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> str:
    """Format the whole nest: each level with the tensors that it stores (elements of a tile) or is bypassed by, then
    its loops.
    """
    return "\n".join(_Drawing(layer, arch, mapping).lines())


def format_bound(layer: ConvWorkload, dim: Dim) -> str:
    """Format a bound: `56`, or `55+1` if 1 of it is padding."""
    zeros = layer.zeros[dim]
    return f"{layer.bounds[dim] - zeros}+{zeros}" if zeros else str(layer.bounds[dim])


def format_padding(layer: ConvWorkload) -> str:
    """Format the padded bounds: `P 55+1, Q 55+1`."""
    return ", ".join(f"{d.name} {format_bound(layer, d)}" for d in Dim if layer.zeros[d])


class _Drawing:
    """Draws a nest from the outside inwards; keeps the current depth."""

    def __init__(self, layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> None:
        self.layer, self.arch, self.mapping = layer, arch, mapping
        self.depth = 0

    def lines(self) -> Iterator[str]:
        if any(self.layer.zeros):
            yield f"padded: {format_padding(self.layer)}"
        yield from self._dram()
        yield from self._level(Level.ROW_BUFFER)
        yield from self._level(Level.GLOBAL_BUFFER)
        yield from self._array()
        yield from self._level(Level.PE)
        yield from self._lanes()
        yield f"|{_STEP * (self.depth + 1)}{_BODY}"

    def _dram(self) -> Iterator[str]:
        """Yield the lines of the DRAM, which stores every tensor whole."""
        held = "  ".join(f"{t.name} {self.layer.elements(t)} {self._layout(t)}" for t in Tensor)
        shared = "" if self.mapping.banks == OWN_BANKS else f" banks {banks_text(self.mapping.banks)}"
        counts = "" if self.mapping.bank_counts == ONE_BANK else f" bank counts {self._bank_counts()}"
        yield f"{self.arch.hierarchy[Level.DRAM].name} (m=3) [ {held} ]{shared}{counts}"
        yield from self._temporal(Level.DRAM)

    def _bank_counts(self) -> str:
        """Return how many banks each tensor has: `I 8 W 4 O 4`."""
        return " ".join(f"{t.name} {self.mapping.bank_counts[t]}" for t in Tensor)

    def _level(self, level: Level) -> Iterator[str]:
        """Yield the lines of a buffer: its tiles, the tensors that bypass it, and its loops."""
        bypassing = " ".join(t.name for t in Tensor if not self.mapping.stored[level][t])
        even = self._tiles(level, self.mapping.order[level])
        yield self._stores(level, even) + (f" bypass {bypassing}" if bypassing else "")
        yield from self._temporal(level)

    def _uneven(self, level: Level, inner: tuple[Dim, ...]) -> Iterator[str]:
        """Yield the line of the tiles that cover exactly these inner loops of a buffer."""
        tiles = self._tiles(level, inner)
        if tiles:
            yield self._stores(level, tiles)

    def _stores(self, level: Level, tiles: list[str]) -> str:
        return f"{self.arch.hierarchy[level].name} (m={int(level)}) " + (f"[ {'  '.join(tiles)} ]" if tiles else "[ ]")

    def _tiles(self, level: Level, covered: tuple[Dim, ...]) -> list[str]:
        """Return the tiles of a buffer that cover exactly these of its loops."""
        mapping = self.mapping
        held = [t for t in Tensor if mapping.stored[level][t] and mapping.covered(level, t) == covered]
        return [f"{t.name} {box_elems(self.layer, mapping.tile(level, t), t)}" for t in held]

    def _array(self) -> Iterator[str]:
        """Yield the parallel loops over the array's rows (H) and columns (W)."""
        shape = self.arch.pe_array.array_shape
        yield f"PE array: {self.mapping.used_pes} of {shape.h} x {shape.w} PEs"
        yield from self._parallel(Direction.H, "H")
        yield from self._parallel(Direction.W, "W")

    def _lanes(self) -> Iterator[str]:
        """Yield the parallel loops over the lanes of a PE."""
        unit = self.arch.pe_array.compute_unit
        used = self.mapping.parallel_macs // self.mapping.used_pes
        yield f"MAC lanes: {used} of {unit.num_macs} ({unit.unit_type})"
        yield from self._parallel(Direction.INTERNAL, "Internal")

    def _temporal(self, level: Level) -> Iterator[str]:
        order = self.mapping.order[level]
        for i, dim in enumerate(order):
            yield self._loop("for", dim, self.mapping.temporal[level][dim])
            if level < Level.DRAM:
                yield from self._uneven(level, order[i + 1 :])

    def _parallel(self, direction: Direction, word: str) -> Iterator[str]:
        for dim in Dim:
            if self.mapping.spatial[direction][dim] > 1:
                yield self._loop("parallel-for", dim, self.mapping.spatial[direction][dim], f"  over {word}")

    def _loop(self, keyword: str, dim: Dim, factor: int, where: str = "") -> str:
        self.depth += 1
        return f"|{_STEP * self.depth}{keyword} {dim.name} in [0:{factor}){where}"

    def _layout(self, tensor: Tensor) -> str:
        order = LAYOUT_ORDERS[tensor][self.mapping.layout[tensor]]
        if not self.mapping.stored[Level.ROW_BUFFER][tensor]:
            return f"sequential {order}"
        block = f" blocks {self.mapping.block_h}x{self.mapping.block_w} (HxW)" if tensor is Tensor.I else ""
        return f"row-aligned {order}{block}"
