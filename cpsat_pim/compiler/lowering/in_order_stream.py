"""What all streams of devices whose channels issue in order cost: ticks and energy of a channel."""

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.energy import issues_fj
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.lowering.program import PARTS
from tables.commands import in_order
from tracesim.commands import Function

Ints = NDArray[np.int64]

#: Columns of a table of runs behind those of `tables.commands.in_order`: first column of the bank, function. Subclasses
#: have more.
ADDRESS, FUNCTION = range(4, 6)


class InOrderStream(ABC):
    """A mapped kernel as runs of one channel; the subclass says which."""

    target: InOrderTarget

    @property
    @abstractmethod
    def runs(self) -> Ints:
        """Runs of one channel: columns of `tables.commands.in_order`, then those above and own ones."""

    @cached_property
    def _walked(self) -> tuple[int, Ints]:
        parts, target = np.zeros(len(PARTS), np.int64), self.target
        return in_order.walk_in_order(target.table, target.distances, target.inserted, self.runs, parts), parts

    @property
    def ticks(self) -> int:
        """The ticks of every channel."""
        return self._walked[0]

    @property
    def channel_fj(self) -> int:
        """Femtojoules of every channel: a row stays open until another one is needed.

        Raises:
            KernelMistake: the device file does not state them.
        """
        target, runs = self.target, self.runs
        kinds, functions, counts = runs[:, in_order.KIND], runs[:, FUNCTION], runs[:, in_order.COUNT]
        commands = issues_fj(target.device, target.energies, kinds, functions, counts)
        rows = runs[runs[:, in_order.ROW] >= 0, in_order.ROW]
        opened = np.array([int((np.diff(rows, prepend=-1) != 0).sum())])
        act, nothing = target.inserted[:1], np.array([Function.NOTHING])
        return commands + (issues_fj(target.device, target.energies, act, nothing, opened) if act[0] >= 0 else 0)
