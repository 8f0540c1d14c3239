"""What is minimised on devices that send the same inputs to all cores, and what the matrix costs if it is packed."""

from math import prod

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.mapping import Contraction
from cpsat_pim.compiler.mapping.contraction import SHARED
from cpsat_pim.compiler.search.cuts import CHANNELS, COPIES
from cpsat_pim.compiler.search.objective import OnDevice, matrix_fj, matrix_ps

Ints = NDArray[np.int64]


@frozen
class Goal:
    """`time` in picoseconds or `energy` in femtojoules; with `packs` the matrix is packed for every run.

    An *amount* is ticks or femtojoules of one channel.
    """

    contraction: Contraction
    target: OnDevice
    objective: str = "time"
    packs: bool = False

    @property
    def is_time(self) -> bool:
        """Whether time is minimised, not energy."""
        return self.objective == "time"

    @property
    def needs_channels(self) -> bool:
        """Whether the value depends on how many channels are in use."""
        return self.packs or not self.is_time

    def value(self, splits: tuple[int, ...], amount: int) -> int:
        """The value of splits with an exact amount."""
        return self._total(prod(splits), splits[SHARED], amount)

    def bounds(self, table: Ints, amounts: Ints) -> Ints:
        """Lower bounds of values of cuts, from lower bounds of amounts."""
        if not self.needs_channels:
            return amounts * self.target.device.tick_ps
        pairs, at = np.unique(table[:, [CHANNELS, COPIES]], axis=0, return_inverse=True)
        added = np.array([self._matrix(*pair) for pair in pairs.tolist()], np.int64)[at.ravel()]
        factor = self.target.device.tick_ps if self.is_time else table[:, CHANNELS]
        return np.asarray(amounts * factor + added, np.int64)

    def _total(self, channels: int, copies: int, amount: int) -> int:
        return amount * (self.target.device.tick_ps if self.is_time else channels) + self._matrix(channels, copies)

    def _matrix(self, channels: int, copies: int) -> int:
        """What packing adds."""
        if not self.packs:
            return 0
        cost = matrix_ps if self.is_time else matrix_fj
        return cost(self.contraction, self.target, (channels // copies, copies, 1, 1))
