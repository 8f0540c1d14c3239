"""Build the program of a mapping (docs/model.md, sections 1, 3 and 4)."""

import math
from collections.abc import Iterator, Sequence

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, IRRELEVANT, LAYOUT_ORDERS, ON_CHIP, Dim, Direction, Level, Tensor
from cpsat_pim.export.loops.layouts import build_layouts
from cpsat_pim.export.loops.program import Axis, Loop, LoopProgram, TensorProgram, Tile, coordinate
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload


def build_program(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> LoopProgram:
    """Return the program of a legal mapping."""
    return _Builder(layer, arch, mapping).program()


@frozen(init=False)
class _Builder:
    """The loops of a mapping, and what follows from them for each tensor."""

    layer: ConvWorkload
    arch: PIMArchitecture
    mapping: Mapping
    sequential: list[Loop]
    pes: list[Loop]
    lanes: list[Loop]

    def __init__(self, layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> None:
        pes = [*_parallel(mapping, Direction.H), *_parallel(mapping, Direction.W)]
        lanes = list(_parallel(mapping, Direction.INTERNAL))
        self.__attrs_init__(layer, arch, mapping, list(_sequential(mapping)), pes, lanes)

    def program(self) -> LoopProgram:
        """Return the whole program."""
        layer = self.layer
        chip_bits = [int(8 * width) for width in (layer.input_bytes, layer.weight_bytes, layer.psum_bytes)]
        layouts = build_layouts(layer, self.arch, self.mapping, self.spills())
        return LoopProgram(
            layer=layer.name,
            arch=self.arch.name,
            sequential=self.sequential,
            pes=self.pes,
            lanes=self.lanes,
            tensors={
                t.name: TensorProgram(
                    name=t.name,
                    axes=axes(layer, t),
                    chip_bits=chip_bits[t],
                    layout=layouts[t],
                    tiles=[self.tile(t, level) for level in self.stored(t)],
                )
                for t in Tensor
            },
            spatial_reduction=self.arch.spatial_reduction,
        )

    def stored(self, tensor: Tensor) -> list[Level]:
        """Return the buffers that store a tensor, outermost first."""
        return [level for level in reversed(BUFFERS) if self.mapping.stored[level][tensor]]

    def outside(self, tensor: Tensor, level: Level) -> list[Loop]:
        """Return the sequential loops outside a tensor's tile, outermost first."""
        own = [loop for loop in self.sequential if loop.place == level.name]
        uncovered = self.mapping.outside[level][tensor] if level in ON_CHIP else 0
        return [loop for loop in self.sequential if Level[loop.place] > level] + own[:uncovered]

    def tile(self, tensor: Tensor, level: Level) -> Tile:
        """Return the tile of a tensor at a level that stores it."""
        outside = self.outside(tensor, level)
        moving = [loop.name for loop in outside if _moves(tensor, loop)]
        is_sum = tensor is Tensor.O
        holders = [*outside, *self.pes] if level is Level.PE else outside
        added = self.pes if is_sum and level is Level.PE else []
        parents = [outer for outer in (Level.DRAM, *self.stored(tensor)) if outer > level]
        return Tile(
            level=level.name,
            parent=parents[-1].name,
            loops=len(outside),
            inside=moving[-1] if moving else None,
            box=self._box(tensor, level),
            origin={axis.name: coordinate(axis, holders) for axis in axes(self.layer, tensor)},
            returns=_repeating(tensor, outside) if is_sum else [],
            added=[loop.name for loop in added if not _moves(tensor, loop)],
        )

    def _box(self, tensor: Tensor, level: Level) -> dict[str, int]:
        """Return the elements of a tile along each axis; of I the span, gaps included."""
        extents = self.mapping.tile(level, tensor)
        return {
            axis.name: 1 + sum(factor * (extents[Dim[d]] - 1) for d, factor in axis.dims.items())
            for axis in axes(self.layer, tensor)
        }

    def spills(self) -> bool:
        """Return whether partial sums are read back from DRAM, so that O has their width there (section 1)."""
        stored = self.stored(Tensor.O)
        if stored:
            return bool(_repeating(Tensor.O, self.outside(Tensor.O, stored[0])))
        repeated = any(not _moves(Tensor.O, loop) for loop in self.sequential)
        copies = math.prod(loop.count for loop in (*self.pes, *self.lanes) if not _moves(Tensor.O, loop))
        return repeated or (copies > 1 and not self.arch.spatial_reduction)


# --- Loops -----------------------------------------------------------------------------------------------------------


def _sequential(mapping: Mapping) -> Iterator[Loop]:
    """Yield the temporal loops, outermost first."""
    for level in reversed(Level):
        steps = _steps(mapping, level)
        for d in mapping.order[level]:
            count = mapping.temporal[level][d]
            yield Loop(name=f"{d.name}{level:d}", place=level.name, dim=d.name, count=count, step=steps[d])


def _steps(mapping: Mapping, level: Level) -> tuple[int, ...]:
    """Return the step of a level's loops by dim: the product of all digits further in (section 3)."""
    if level is Level.PE:
        return mapping.spatial[Direction.INTERNAL]
    inner = mapping.extents(Level(level - 1))
    return tuple(inner[d] * mapping.array_factor(d) for d in Dim) if level is Level.GLOBAL_BUFFER else inner


def _parallel(mapping: Mapping, direction: Direction) -> Iterator[Loop]:
    """Yield the loops over the rows or columns of PEs, or over the lanes.

    Lanes lie 1 apart along a dim, columns of PEs e0, and rows of PEs all columns of them.
    """
    for d in Dim:
        count = mapping.spatial[direction][d]
        step = 1 if direction is Direction.INTERNAL else mapping.extents(Level.PE)[d]
        step *= mapping.spatial[Direction.W][d] if direction is Direction.H else 1
        if count > 1:
            name = f"{d.name}{direction.name[0].lower()}"
            yield Loop(name=name, place=direction.name, dim=d.name, count=count, step=step)


def _moves(tensor: Tensor, loop: Loop) -> bool:
    """Return whether a loop is relevant to a tensor."""
    return Dim[loop.dim] not in IRRELEVANT[tensor]


def _repeating(tensor: Tensor, outside: Sequence[Loop]) -> list[str]:
    """Return the loops outside a tile that make it return: irrelevant loops with a relevant one inside (section 4)."""
    moving = [n for n, loop in enumerate(outside) if _moves(tensor, loop)]
    return [loop.name for loop in outside[: moving[-1] if moving else 0] if not _moves(tensor, loop)]


def axes(layer: ConvWorkload, tensor: Tensor) -> list[Axis]:
    """Return a tensor's axes in the first of its orders (section 1)."""
    names = LAYOUT_ORDERS[tensor][0]
    along = {d.name: Axis(name=d.name, extent=layer.bounds[d], dims={d.name: 1}) for d in Dim}
    if tensor is Tensor.I:
        rows, columns = {"Q": layer.stride[1], "S": layer.dilation[1]}, {"P": layer.stride[0], "R": layer.dilation[0]}
        along["H"] = Axis(name="H", extent=layer.input_height, dims=rows)
        along["W"] = Axis(name="W", extent=layer.input_width, dims=columns)
    return [along[name] for name in names]
