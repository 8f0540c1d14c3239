"""The program of a mapped layer: sequential loops, parallel loops, and for each tensor its tiles and its place in DRAM.

One iteration of all sequential loops is a step. In a step every PE and every lane does one MAC. Coordinates of elements
and origins of tiles are affine in the loop indices: a sum of index times coefficient.
"""

import math
from collections.abc import Mapping, Sequence

from attrs import frozen

#: What an index is multiplied by, by the name of the loop; absent loops have 0.
Affine = Mapping[str, int]


@frozen(kw_only=True)
class Loop:
    """A loop `for name in range(count)`, whose index adds `step` times itself to the index of `dim`.

    `place` is the level of a sequential loop (DRAM, ROW_BUFFER, GLOBAL_BUFFER, PE) or what a parallel loop runs over:
    H, W (the PEs) or INTERNAL (the lanes of a PE).
    """

    name: str
    place: str
    dim: str
    count: int
    step: int


@frozen(kw_only=True)
class Axis:
    """An axis of a tensor: its elements, and their coordinate as a sum of dim index times coefficient."""

    name: str
    extent: int
    dims: Mapping[str, int]


@frozen(kw_only=True)
class Layout:
    """Where a tensor's elements lie in DRAM. All offsets count elements of `element_bits`.

    `block`: elements of a block along each axis, None where the tensor is one sequence. `strides`: what a coordinate
    within the block (or the tensor) adds to the offset. `numbers`: what a block along an axis adds to its number.
    `blocks_a_row`: whole blocks in a row, or 0 where each block begins a row and takes `rows_a_block`.
    Row r of the tensor lies in bank `first_bank + r mod banks`, as its row `first_row + r div banks`.
    """

    element_bits: int
    first_bank: int
    banks: int
    first_row: int
    rows: int
    row_elems: int
    column_elems: int
    strides: Mapping[str, int]
    block: Mapping[str, int] | None = None
    numbers: Mapping[str, int] | None = None
    blocks_a_row: int = 0
    rows_a_block: int = 0


@frozen(kw_only=True)
class Tile:
    """What one level holds of a tensor: in the PEs, each its own box.

    `parent`: where it comes from. `loops`: how many sequential loops, outermost first, lie outside it. `inside`: the
    innermost of these that moves it; each iteration of that loop (None: only the start of the program) brings in
    another tile. `box`: elements along each axis. `origin`: coordinates of its first element. Of O: `returns` names the
    loops outside that repeat a tile, so that a visit is its first if all of them are at 0; `added` the loops over PEs
    that hold partial sums of the same outputs.
    """

    level: str
    parent: str
    loops: int
    inside: str | None
    box: Mapping[str, int]
    origin: Mapping[str, Affine]
    returns: Sequence[str] = ()
    added: Sequence[str] = ()


@frozen(kw_only=True)
class TensorProgram:
    """A tensor: its axes, its place in DRAM, and its tiles, outermost level first.

    `chip_bits` is the width of an element in the buffers on chip. The MACs use the innermost tile, or DRAM if none.
    """

    name: str
    axes: Sequence[Axis]
    chip_bits: int
    layout: Layout
    tiles: Sequence[Tile] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return tuple(axis.extent for axis in self.axes)


@frozen(kw_only=True)
class LoopProgram:
    """A mapped layer as a program. `sequential`, `pes` and `lanes` are its loops, outermost first.

    `spatial_reduction`: partial sums of several PEs or lanes are added on their way out; else each moves by itself.
    """

    layer: str
    arch: str
    sequential: Sequence[Loop]
    pes: Sequence[Loop]
    lanes: Sequence[Loop]
    tensors: Mapping[str, TensorProgram]
    spatial_reduction: bool = True

    @property
    def steps(self) -> int:
        """Iterations of all sequential loops."""
        return math.prod(loop.count for loop in self.sequential)


def coordinate(axis: Axis, loops: Sequence[Loop]) -> Affine:
    """Return what these loops add to the coordinate along an axis."""
    terms = {loop.name: axis.dims.get(loop.dim, 0) * loop.step for loop in loops}
    return {name: factor for name, factor in terms.items() if factor}
