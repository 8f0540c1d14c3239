"""Run a program on numbers: what lies in DRAM is moved tile by tile, and multiplied from the innermost tiles alone."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.export.loops.buffers import Buffer, coefficients, parallel_indices
from cpsat_pim.export.loops.memory import Dram, DramTensor, Ints, OnScan
from cpsat_pim.export.loops.program import Loop, LoopProgram, TensorProgram, coordinate

Numbers = NDArray[np.integer]


def execute(program: LoopProgram, inputs: Numbers, weights: Numbers, on_scan: OnScan | None = None) -> Ints:
    """Return the outputs int64[N, G, K, Q, P] of a program for inputs [N, G, C, H, W] and weights [G, K, C, S, R].

    Transfers come in the order of docs/model.md, section 4. `on_scan(tensor, places, is_write)` is called for every
    scan of DRAM, see `memory.OnScan`. A step takes about 0.1 ms.

    Raises:
        ValueError: a tensor has the wrong shape.
    """
    return _Run(program, {"I": inputs, "W": weights}, on_scan).result()


class _Run:
    """A running program: its DRAM, its operands, and how many PEs and lanes it has."""

    def __init__(self, program: LoopProgram, given: Mapping[str, Numbers], on_scan: OnScan | None) -> None:
        self.program = program
        dram = Dram(program, on_scan)
        self.operands = {name: _Operand(program, tensor, dram) for name, tensor in program.tensors.items()}
        for name, values in given.items():
            self._place(self.operands[name].home, values)

    def _place(self, home: DramTensor, values: Numbers) -> None:
        """Write a given tensor to DRAM."""
        if np.shape(values) != home.tensor.extents:
            shape = list(home.tensor.extents)
            raise ValueError(f"{home.tensor.name}: must have the shape {shape} (got {list(np.shape(values))})")
        home.put(home.everywhere(), np.asarray(values, np.int64).ravel())

    def result(self) -> Ints:
        """Run every step and return what lies in DRAM at the end."""
        output = self.operands["O"]
        for moved, indices in _steps(self.program.sequential):
            self._transfer(moved, indices)
            products = self.operands["I"].read(indices) * self.operands["W"].read(indices)
            output.add(indices, products)
        for buffer in reversed(output.buffers):
            buffer.write_out()
        return output.home.at(output.home.everywhere()).reshape(output.tensor.extents)

    def _transfer(self, moved: int, indices: Ints) -> None:
        """Bring in the tiles that change: I, W; then old tiles of O go out, inner ones first, and new ones come in."""
        due = {name: [b for b in operand.buffers if b.inside >= moved] for name, operand in self.operands.items()}
        for buffer in (*due["I"], *due["W"]):
            buffer.fetch(indices)
        for buffer in due["O"][::-1] if moved >= 0 else ():  # at the start there are no old tiles
            buffer.write_out()
        for buffer in due["O"]:
            buffer.fetch(indices)


def _steps(loops: Sequence[Loop]) -> Iterator[tuple[int, Ints]]:
    """Yield for each step the outermost loop that moved for it (-1 at the start), and all indices."""
    before: tuple[int, ...] | None = None
    for indices in itertools.product(*(range(loop.count) for loop in loops)):
        moved = -1 if before is None else next(n for n, i in enumerate(indices) if i != before[n])
        yield moved, np.array(indices, np.int64)
        before = indices


class _Operand:
    """A tensor of a running program: its buffers, outermost first, and which element each lane uses."""

    def __init__(self, program: LoopProgram, tensor: TensorProgram, dram: Dram) -> None:
        self.tensor, self.home = tensor, DramTensor(dram, tensor)
        self.spatial_reduction = program.spatial_reduction
        self.buffers: list[Buffer] = []
        for tile in tensor.tiles:
            parent = self.buffers[-1] if self.buffers else self.home
            self.buffers.append(Buffer(program, tensor, tile, parent))
        everything = (*program.sequential, *program.pes, *program.lanes)
        terms = [coordinate(axis, everything) for axis in tensor.axes]
        self.moving = coefficients(terms, program.sequential)
        pes = parallel_indices(program.pes) @ coefficients(terms, program.pes)
        lanes = parallel_indices(program.lanes) @ coefficients(terms, program.lanes)
        self.apart: Ints = (pes[:, None] + lanes[None]).reshape(-1, len(tensor.axes))
        self.holders: Ints = np.repeat(np.arange(len(pes)), len(lanes))

    def places(self, indices: Ints) -> Ints:
        """Return int64[MACs, axes]: the coordinates of every lane's element."""
        places: Ints = self.apart + indices @ self.moving
        return places

    def read(self, indices: Ints) -> Ints:
        """Return the element of every lane, from the innermost buffer or else straight from DRAM."""
        places = self.places(indices)
        if self.buffers:
            return self.buffers[-1].at(places, self.holders)
        self.home.scan(places, is_write=False)
        return self.home.at(places)

    def add(self, indices: Ints, products: Ints) -> None:
        """Add every lane's product to its output, in the innermost buffer or else straight in DRAM."""
        places = self.places(indices)
        if self.buffers:
            self.buffers[-1].add(places, products, self.holders)
            return
        is_first = not indices[~self.moving.any(axis=1)].any()
        has_copies = len(np.unique(places, axis=0)) < len(places)
        if not is_first or (has_copies and not self.spatial_reduction):
            self.home.scan(places, is_write=False)
        if is_first:
            self.home.put(places, np.zeros(len(places), np.int64))
        self.home.add(places, products)
        self.home.scan(places, is_write=True)
