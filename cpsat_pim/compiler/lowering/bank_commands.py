"""From a table of runs on a device with an all-bank mode (HBM-PIM) to ticks, energy and commands."""

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.lowering.bank_mode import (
    COLUMN,
    DATA,
    FUNCTION,
    INPUT_COLUMN,
    IS_ALL,
    SOURCE,
    STEP,
    TARGET,
    BankTarget,
)
from cpsat_pim.compiler.lowering.energy import issues_fj
from cpsat_pim.compiler.lowering.program import PARTS, Program
from tables.commands import window
from tracesim.commands import Function, Stream

Ints = NDArray[np.int64]

#: By function: how much target, source and data grow from a command of a run to the next.
_GROWTH = {
    Function.LOAD: (1, 0, 1),
    Function.MAC_LANES: (1, 0, 0),
    Function.ADD: (1, 1, 0),
    Function.MUL: (1, 1, 0),
    Function.FILL: (1, 0, 0),
    Function.FILL_RELU: (1, 0, 0),
    Function.STORE: (0, 1, 0),
    Function.READ: (0, 0, 1),
    Function.WRITE: (0, 0, 1),
}


def predicted_ticks(target: BankTarget, runs: Ints, free: Ints) -> tuple[int, Ints, Ints]:
    """The ticks of the runs, or `tables.commands.window.NOT_EXACT`; those of every part; the ACTs of one bank and of
    all blocks."""
    parts, acts = np.zeros(len(PARTS), np.int64), np.zeros(2, np.int64)
    return window.walk_window(target.timing, target.patterns(free), runs, parts, acts), parts, acts


def commands_fj(target: BankTarget, runs: Ints) -> int:
    """Femtojoules of the commands of some runs, without ACTs.

    Raises:
        KernelMistake: the device file does not state them.
    """
    kinds = target.commands[runs[:, IS_ALL], runs[:, window.IS_WRITE]]
    return issues_fj(target.device, target.energies, kinds, runs[:, FUNCTION], runs[:, window.COUNT])


def acts_fj(target: BankTarget, acts: Ints) -> int:
    """Femtojoules of ACTs of one bank, and of those in all-bank mode, which open a bank in every block."""
    nothing = np.array([Function.NOTHING])
    opened = np.array([acts[0] + acts[1] * len(target.cores)])
    return issues_fj(target.device, target.energies, np.array([target.act]), nothing, opened)


def emit(target: BankTarget, runs: Ints, free: Ints) -> Stream:
    """The commands of a table of runs; every run is a barrier group."""
    counts = runs[:, window.COUNT]
    group = np.repeat(np.arange(len(runs)), counts)
    at = np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)
    of = runs[group]
    patterns = target.patterns(free)
    sizes = patterns[of[:, window.PATTERN], 0]
    bank = patterns[of[:, window.PATTERN], 1 + at % sizes]
    growth = np.zeros((max(Function) + 1, 3), np.int64)
    for function, row in _GROWTH.items():
        growth[function] = row
    grown = growth[of[:, FUNCTION]] * at[:, None]
    work = np.zeros((len(of), 6), np.int64)
    work[:, 0], work[:, 3] = of[:, FUNCTION], -1
    work[:, 1], work[:, 2], work[:, 4] = (
        of[:, TARGET] + grown[:, 0],
        of[:, SOURCE] + grown[:, 1],
        of[:, DATA] + grown[:, 2],
    )
    is_load = of[:, FUNCTION] == Function.LOAD
    work[is_load, 1] %= target.device.core.inputs
    column = of[:, COLUMN] + at // sizes * of[:, STEP]
    column[is_load] = INPUT_COLUMN + work[is_load, 1]
    shape = (*target.axes[:-1], target.device.core.banks)
    coords = np.stack(np.unravel_index(bank, shape), axis=1).astype(np.int64)
    coords[of[:, IS_ALL] == 1, :-1] = -1
    kind = target.commands[of[:, IS_ALL], of[:, window.IS_WRITE]]
    return Stream(kind, coords, of[:, window.ROW].copy(), column, group, work)


def program_of(target: BankTarget, runs: Ints, free: Ints, inputs: int, outputs: int) -> Program:
    """The stream of the runs, with its ticks.

    Raises:
        KernelMistake: the controller would reorder the stream.
    """
    ticks, parts, _ = predicted_ticks(target, runs, free)
    if ticks == window.NOT_EXACT:
        raise KernelMistake(f"{target.device.name}: the controller would reorder the commands")
    stored = runs[np.isin(runs[:, FUNCTION], _BANK_FUNCTIONS)]
    rows = int(stored[:, window.ROW].max(initial=0)) + 1
    return Program(emit(target, runs, free), ticks, parts, inputs, outputs, rows)


_BANK_FUNCTIONS = [function for function in _GROWTH if function is not Function.LOAD]
