"""What all streams of devices with an all-bank mode cost: ticks and energy of a channel."""

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.bank_commands import acts_fj, commands_fj, predicted_ticks
from cpsat_pim.compiler.lowering.bank_mode import BankTarget

Ints = NDArray[np.int64]


class BankStream(ABC):
    """A mapped kernel as runs of one channel; the subclass says which."""

    target: BankTarget

    @property
    @abstractmethod
    def runs(self) -> Ints:
        """Runs of one channel, `bank_mode.RUN_COLUMNS` columns."""

    @property
    @abstractmethod
    def banks(self) -> Ints:
        """The banks of the stream, as `predicted_ticks` takes them."""

    @property
    def ticks(self) -> int:
        """The ticks of every channel, or `NOT_EXACT`."""
        return self._walked[0]

    @property
    def channel_fj(self) -> int:
        """Femtojoules of every channel.

        Raises:
            KernelMistake: the device file does not state them.
        """
        return commands_fj(self.target, self.runs) + acts_fj(self.target, self._walked[2])

    @cached_property
    def _walked(self) -> tuple[int, Ints, Ints]:
        return predicted_ticks(self.target, self.runs, self.banks)
