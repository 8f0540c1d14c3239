"""A buffer of a program that runs: the tile that one level holds of a tensor, in the PEs a box each."""

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from cpsat_pim.export.loops.memory import GARBAGE, Ints
from cpsat_pim.export.loops.program import Affine, Loop, LoopProgram, TensorProgram, Tile


class Store(Protocol):
    """What a tile comes from and goes to: DRAM or an outer buffer. Places are coordinates int64[n, axes]."""

    def at(self, places: Ints) -> Ints:
        """Return elements."""

    def put(self, places: Ints, values: Ints) -> None:
        """Set elements."""

    def add(self, places: Ints, values: Ints) -> None:
        """Add to elements; places may repeat."""

    def scan(self, places: Ints, is_write: bool) -> None:
        """Tell that these are read or written together."""


class Buffer:
    """A tile with its values int64[holders, *box]. `inside` numbers the loop that moves it, -1 if none does."""

    def __init__(self, program: LoopProgram, tensor: TensorProgram, tile: Tile, parent: Store) -> None:
        self.tensor, self.tile, self.parent = tensor, tile, parent
        names = [loop.name for loop in program.sequential]
        origins = [tile.origin[axis.name] for axis in tensor.axes]
        spread = program.pes if tile.level == "PE" else ()
        holders = parallel_indices(spread)
        self.inside = -1 if tile.inside is None else names.index(tile.inside)
        self.returns = [names.index(name) for name in tile.returns]
        self.moving = coefficients(origins, program.sequential)
        self.apart = holders @ coefficients(origins, spread)
        self.box = tuple(tile.box[axis.name] for axis in tensor.axes)
        self.origins = self.apart
        self.values = np.full((len(holders), *self.box), GARBAGE, np.int64)
        added = [n for n, loop in enumerate(spread) if loop.name in tile.added]
        self.takes_sum = ~holders[:, added].any(axis=1)

    def fetch(self, indices: Ints) -> None:
        """Bring in the tile of these indices. A tile of O begins at 0; if it returns, one of the PEs that add up takes
        the sum so far.
        """
        self.origins = self.apart + indices @ self.moving
        is_output = self.tensor.name == "O"
        self.values.fill(0 if is_output else GARBAGE)
        if is_output and not indices[self.returns].any():
            return
        places = self._places()
        for holder in np.flatnonzero(self.takes_sum):
            self.values[holder] = self.parent.at(places[holder]).reshape(self.box)
        self.parent.scan(places.reshape(-1, len(self.box)), is_write=False)

    def write_out(self) -> None:
        """Write the tile of O to its parent; partial sums of several PEs are added."""
        places = self._places()
        for holder in np.flatnonzero(self.takes_sum):
            self.parent.put(places[holder], np.zeros(len(places[holder]), np.int64))
        for n, values in enumerate(self.values):
            self.parent.add(places[n], values.ravel())
        self.parent.scan(places.reshape(-1, len(self.box)), is_write=True)

    def at(self, places: Ints, holders: Ints | int = 0) -> Ints:
        """Return the elements at these coordinates, each from its holder's box."""
        values: Ints = self.values[self._index(places, holders)]
        return values

    def put(self, places: Ints, values: Ints) -> None:
        """Set the elements at these coordinates."""
        self.values[self._index(places, 0)] = values

    def add(self, places: Ints, values: Ints, holders: Ints | int = 0) -> None:
        """Add to the elements at these coordinates, which may repeat."""
        np.add.at(self.values, self._index(places, holders), values)

    def scan(self, places: Ints, is_write: bool) -> None:
        """Do nothing: only scans of DRAM are told."""

    def _places(self) -> Ints:
        """Return int64[holders, n, axes]: the coordinates of every element of every box."""
        box = np.indices(self.box).reshape(len(self.box), -1).T
        places: Ints = self.origins[:, None] + box[None]
        return places

    def _index(self, places: Ints, holders: Ints | int) -> Any:
        """Return the indices of `values`.

        Raises:
            IndexError: a coordinate lies outside its box: the program brings in too little.
        """
        holders = holders if len(self.values) > 1 else 0
        inside = places - self.origins[holders]
        if (inside < 0).any():
            raise IndexError(f"{self.tensor.name}: an element before the tile in {self.tile.level}")
        return (holders, *inside.T)


def parallel_indices(loops: Sequence[Loop]) -> Ints:
    """Return int64[n, loops]: the indices of every iteration of parallel loops."""
    listed = list(itertools.product(*(range(loop.count) for loop in loops)))
    return np.array(listed, np.int64).reshape(len(listed), len(loops))


def coefficients(parts: Sequence[Affine], loops: Sequence[Loop]) -> Ints:
    """Return int64[loops, axes]: what one step of each loop adds to each coordinate."""
    rows = [[part.get(loop.name, 0) for part in parts] for loop in loops]
    return np.array(rows, np.int64).reshape(len(loops), len(parts))
