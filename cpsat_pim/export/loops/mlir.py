"""A program as MLIR text, in the dialects func, affine, arith, memref and scf (docs/export.md).

Each tensor in DRAM is a memref of bank, row and element; a map gives each of these for the coordinates of an element.
Buffers are memrefs of the tile's box; in the PEs the indices of the parallel loops come first. Parallel loops are
`affine.for` with an attribute, so that what lies in them may run at once.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence

from cpsat_pim.export.loops.mlir_maps import affine_text, layout_maps, memref_type
from cpsat_pim.export.loops.program import Affine, Loop, LoopProgram, TensorProgram, Tile, coordinate


def format_mlir(program: LoopProgram) -> str:
    """Return a module with one function, whose arguments are the tensors I, W and O in DRAM."""
    return "\n".join([*_Writer(program).lines(), ""])


class _Writer:
    """Writes a function; keeps the depth and numbers the values."""

    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        self.parallel = [*program.pes, *program.lanes]
        self.text: list[str] = []
        self.depth = 0
        self.values = 0
        self.sum_type = f"i{program.tensors['O'].chip_bits}"

    def lines(self) -> list[str]:
        """Return all lines."""
        tensors = self.program.tensors.values()
        for tensor in tensors:
            self.text += layout_maps(tensor)
        arguments = ", ".join(f"%{tensor.name}: {memref_type(tensor)}" for tensor in tensors)
        with self._block(f"func.func @{_symbol(self.program.layer)}({arguments}) {{"):
            self._line("%zero = arith.constant 0 : index")
            self._line(f"%nothing = arith.constant 0 : {self.sum_type}")
            for tensor in tensors:
                for tile in tensor.tiles:
                    self._line(f"{_buffer(tensor, tile)} = memref.alloc() : {self._type(tensor, tile)}")
            self._nest(0)
            self._line("func.return")
        return self.text

    def _nest(self, depth: int) -> None:
        """Write what lies inside so many sequential loops: tiles come in, the rest of the nest, outputs go out."""
        loops = self.program.sequential
        inside = loops[depth - 1].name if depth else None
        for name in "IWO":
            for tile in self._due(name, inside):
                self._fetch(self.program.tensors[name], tile)
        if depth < len(loops):
            loop = loops[depth]
            with self._block(f"affine.for %{loop.name} = 0 to {loop.count} {{", f'}} {{level = "{loop.place}"}}'):
                self._nest(depth + 1)
        else:
            self._mac()
        for tile in reversed(self._due("O", inside)):
            self._write_out(self.program.tensors["O"], tile)

    def _due(self, name: str, inside: str | None) -> list[Tile]:
        return [tile for tile in self.program.tensors[name].tiles if tile.inside == inside]

    # --- Transfers ---------------------------------------------------------------------------------------------------

    def _fetch(self, tensor: TensorProgram, tile: Tile) -> None:
        """Write the loops that bring in a tile. A tile of O begins at 0, and takes the sum so far if it returns."""
        pes = self._holders(tile)
        if tensor.name != "O":
            self._line(f"// {tensor.name}: {tile.parent} to {tile.level}")
            with self._box(tile, pes):
                self._store_in(tensor, tile, pes, self._load_from(tensor, tile))
            return
        self._line(f"// O: a tile of {tile.level} begins")
        with self._box(tile, pes):
            self._store_in(tensor, tile, pes, "%nothing")
        if tile.returns:
            visits = self._apply(dict.fromkeys(tile.returns, 1))
            again = self._value(f"arith.cmpi ne, {visits}, %zero : index")
            with self._block(f"scf.if {again} {{"), self._box(tile, [pe for pe in pes if pe.name not in tile.added]):
                self._line(f"// {tile.parent} to {tile.level}")
                self._store_in(tensor, tile, pes, self._load_from(tensor, tile), tile.added)

    def _write_out(self, tensor: TensorProgram, tile: Tile) -> None:
        """Write the loops that write a tile of O out; partial sums of several PEs are added."""
        pes = self._holders(tile)
        kept = [pe for pe in pes if pe.name not in tile.added]
        self._line(f"// O: {tile.level} to {tile.parent}")
        with self._box(tile, kept):
            parent = _parent(tensor, tile)
            goal = self._place(tensor, parent, self._wanted(tensor, tile))
            if tile.added:
                self._store(tensor, parent, goal, "%nothing")
            with self._loops([pe for pe in pes if pe.name in tile.added]):
                value = self._value(f"affine.load {self._place_in(tensor, tile, pes)}")
                if tile.added:
                    sums = self._load(tensor, parent, goal)
                    value = self._value(f"arith.addi {sums}, {value} : {self.sum_type}")
                self._store(tensor, parent, goal, value)

    def _holders(self, tile: Tile) -> Sequence[Loop]:
        return self.program.pes if tile.level == "PE" else ()

    def _place_in(self, tensor: TensorProgram, tile: Tile, pes: Sequence[Loop], first: Sequence[str] = ()) -> str:
        """Return the element of a tile at the box indices, as an operand: buffer, indices, type."""
        held = ["0" if pe.name in first else f"%{pe.name}" for pe in pes]
        box = [f"%{axis.name.lower()}" if tile.box[axis.name] > 1 else "0" for axis in tensor.axes]
        return f"{_buffer(tensor, tile)}[{', '.join([*held, *box])}] : {self._type(tensor, tile)}"

    def _store_in(
        self, tensor: TensorProgram, tile: Tile, pes: Sequence[Loop], value: str, first: Sequence[str] = ()
    ) -> None:
        self._line(f"affine.store {value}, {self._place_in(tensor, tile, pes, first)}")

    def _load_from(self, tensor: TensorProgram, tile: Tile) -> str:
        """Write the load of what the box indices name in the tile's parent; return the value."""
        parent = _parent(tensor, tile)
        return self._load(tensor, parent, self._place(tensor, parent, self._wanted(tensor, tile)))

    def _wanted(self, tensor: TensorProgram, tile: Tile) -> list[Affine]:
        """Return the coordinates of the element at the box indices."""
        return [
            {**tile.origin[axis.name], **({axis.name.lower(): 1} if tile.box[axis.name] > 1 else {})}
            for axis in tensor.axes
        ]

    # --- MACs --------------------------------------------------------------------------------------------------------

    def _mac(self) -> None:
        """Write the parallel loops with one MAC."""
        with self._loops(self.parallel):
            operands = [self._operand(self.program.tensors[name]) for name in "IW"]
            product = self._value(f"arith.muli {', '.join(operands)} : {self.sum_type}")
            output = self.program.tensors["O"]
            tile = _innermost(output)
            place = self._place(output, tile, self._used(output))
            old = self._load(output, tile, place)
            if tile is None:
                old = self._unless_first(output, old)
            total = self._value(f"arith.addi {old}, {product} : {self.sum_type}")
            self._store(output, tile, place, total)

    def _operand(self, tensor: TensorProgram) -> str:
        tile = _innermost(tensor)
        value = self._load(tensor, tile, self._place(tensor, tile, self._used(tensor)))
        return self._convert(value, tensor.chip_bits, self.program.tensors["O"].chip_bits)

    def _used(self, tensor: TensorProgram) -> list[Affine]:
        """Return the coordinates of the element that a MAC uses."""
        loops = [*self.program.sequential, *self.parallel]
        return [coordinate(axis, loops) for axis in tensor.axes]

    def _unless_first(self, output: TensorProgram, old: str) -> str:
        """Write the choice of 0 for the first term of an output that no buffer stores; return the value."""
        moving = {name for place in self._used(output) for name in place}
        summing = [loop.name for loop in (*self.program.sequential, *self.parallel) if loop.name not in moving]
        first = self._value(f"arith.cmpi eq, {self._apply(dict.fromkeys(summing, 1))}, %zero : index")
        return self._value(f"arith.select {first}, %nothing, {old} : {self.sum_type}")

    # --- Elements ----------------------------------------------------------------------------------------------------

    def _load(self, tensor: TensorProgram, tile: Tile | None, place: str) -> str:
        """Write the load of an element of a tile, or of DRAM; return the value at its width on chip."""
        value = self._value(f"affine.load {place}")
        return value if tile else self._convert(value, tensor.layout.element_bits, tensor.chip_bits)

    def _store(self, tensor: TensorProgram, tile: Tile | None, place: str, value: str) -> None:
        value = value if tile else self._convert(value, tensor.chip_bits, tensor.layout.element_bits)
        self._line(f"affine.store {value}, {place}")

    def _place(self, tensor: TensorProgram, tile: Tile | None, places: Sequence[Affine]) -> str:
        """Write what finds an element of a tile, or of DRAM; return it as an operand: memref, indices, type."""
        if tile is None:
            where = ", ".join(self._apply(place) for place in places)
            parts = [self._value(f"affine.apply #{tensor.name}_{part} ({where})") for part in ("bank", "row", "elem")]
            return f"%{tensor.name}[{', '.join(parts)}] : {memref_type(tensor)}"
        within = [
            {name: factor for name, factor in place.items() if name not in tile.origin[axis.name]}
            for axis, place in zip(tensor.axes, places, strict=True)
        ]
        held = [f"%{pe.name}" for pe in self._holders(tile)]
        indices = ", ".join([*held, *map(affine_text, within)])
        return f"{_buffer(tensor, tile)}[{indices}] : {self._type(tensor, tile)}"

    def _convert(self, value: str, before: int, after: int) -> str:
        """Write the conversion of a number to another width; return the value."""
        if before == after:
            return value
        operation = "extsi" if before < after else "trunci"
        return self._value(f"arith.{operation} {value} : i{before} to i{after}")

    def _apply(self, affine: Affine) -> str:
        """Write a sum of loop indices; return the value."""
        if not affine:
            return "%zero"
        if list(affine.values()) == [1]:
            return f"%{next(iter(affine))}"
        names = [f"d{n}" for n in range(len(affine))]
        terms = affine_text(dict(zip(names, affine.values(), strict=True)), "")
        given = ", ".join(f"%{name}" for name in affine)
        return self._value(f"affine.apply affine_map<({', '.join(names)}) -> ({terms})> ({given})")

    def _type(self, tensor: TensorProgram, tile: Tile) -> str:
        shape = [pe.count for pe in self._holders(tile)] + [tile.box[axis.name] for axis in tensor.axes]
        return f"memref<{'x'.join(map(str, shape))}xi{tensor.chip_bits}>"

    # --- Text --------------------------------------------------------------------------------------------------------

    def _line(self, line: str) -> None:
        self.text.append("  " * self.depth + line)

    def _value(self, operation: str) -> str:
        """Write an operation with a result; return its name."""
        self.values += 1
        self._line(f"%{self.values} = {operation}")
        return f"%{self.values}"

    @contextlib.contextmanager
    def _block(self, head: str, tail: str = "}") -> Iterator[None]:
        self._line(head)
        self.depth += 1
        yield
        self.depth -= 1
        self._line(tail)

    @contextlib.contextmanager
    def _loops(self, loops: Sequence[Loop]) -> Iterator[None]:
        """Write parallel loops around what follows."""
        with contextlib.ExitStack() as stack:
            for loop in loops:
                head = f"affine.for %{loop.name} = 0 to {loop.count} {{"
                stack.enter_context(self._block(head, f'}} {{parallel = "{loop.place}"}}'))
            yield

    @contextlib.contextmanager
    def _box(self, tile: Tile, pes: Sequence[Loop]) -> Iterator[None]:
        """Write loops over these PEs and over the tile's box around what follows."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._loops(pes))
            for name, extent in tile.box.items():
                if extent > 1:
                    stack.enter_context(self._block(f"affine.for %{name.lower()} = 0 to {extent} {{"))
            yield


def _parent(tensor: TensorProgram, tile: Tile) -> Tile | None:
    """Return the tile that a tile comes from; None is DRAM."""
    return next((outer for outer in tensor.tiles if outer.level == tile.parent), None)


def _innermost(tensor: TensorProgram) -> Tile | None:
    """Return the tile that MACs use; None is DRAM."""
    return tensor.tiles[-1] if tensor.tiles else None


def _buffer(tensor: TensorProgram, tile: Tile) -> str:
    return f"%{tensor.name}_{tile.level.lower()}"


def _symbol(name: str) -> str:
    """Return a layer's name as an identifier."""
    return "layer_" + re.sub(r"[^A-Za-z0-9_]", "_", name)
