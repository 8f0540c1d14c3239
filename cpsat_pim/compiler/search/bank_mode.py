"""The space of contractions on devices with an all-bank mode (HBM-PIM), and its best mapping."""

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.bank_contraction import BankContraction, problem
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.mapping import Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.search.bank_bounds import energy_bounds, least_ticks, lower_bounds
from cpsat_pim.compiler.search.broadcast import Evaluation, Found, Tilings, best_of, best_of_space
from cpsat_pim.compiler.search.cuts import COLUMNS, INPUTS_DIFFER, OUTPUT_COUNT, Cuts, CutSpace
from cpsat_pim.compiler.search.goal import Goal
from tables.commands import window

Ints = NDArray[np.int64]

#: Where the lanes of a column may lie.
LANES = ("depth", "outputs")


def best_bank_mapping(
    contraction: Contraction,
    target: BankTarget,
    channels: int | None = None,
    prunes: bool = True,
    goal: Goal | None = None,
    cuts: Cuts | None = None,
) -> Found | None:
    """The mapping of least time, or by another goal; the reading of results included. None if the banks hold none.
    `cuts`: only these are searched."""
    wanted, core = goal or Goal(contraction, target), target.device.core
    has_inputs = contraction.inputs is not None
    least = lower_bounds if wanted.is_time else energy_bounds

    def valued(mapping: BroadcastMapping) -> tuple[int, int] | None:
        if problem(mapping, contraction, target) is not None:
            return None
        lowered = BankContraction(contraction, mapping, target)
        if lowered.ticks == window.NOT_EXACT:
            return None
        amount = lowered.ticks if wanted.is_time else lowered.channel_fj
        return wanted.value(mapping.splits, amount), lowered.ticks

    read = int(max(target.timing[[window.RD_RD_GROUP, window.RD_RD_RANK]])) * core.accumulators
    evaluation = Evaluation(
        tilings=lambda table: tilings(table, target, has_inputs),
        bounds=lambda table, tiled: wanted.bounds(table, least(table, tiled, target, has_inputs)),
        least=lambda table: wanted.bounds(table, least_ticks(table, target)),
        valued=valued,
        is_time=wanted.is_time,
        tiles=core.inputs,
        column=read * target.device.tick_ps if wanted.is_time else 0,
    )
    if cuts is not None:
        return best_of(cuts, evaluation, prunes)
    space = CutSpace.of(
        contraction, target.axes, core.lanes, LANES, channels or target.channels, wanted.needs_channels, stores=True
    )
    return best_of_space(space, evaluation, prunes)


def tilings(table: Ints, target: BankTarget, has_inputs: bool) -> Tilings:
    """All tilings of cuts; without inputs there are no tiles. Inputs that differ are stored."""
    columns, every = table[:, COLUMNS], range(1, target.device.core.inputs + 1)
    if not has_inputs:
        chosen = [(np.arange(len(table)), columns, False, False)]
    else:
        alike, several = table[:, INPUTS_DIFFER] == 0, table[:, OUTPUT_COUNT] > 1
        chosen = []
        for tile in every:
            fits, whole = columns >= tile, (columns == tile) & several
            turns = fits if len(every) % tile == 0 else columns == tile
            for applies, keeps, stores in (
                (alike & fits, False, False), (turns, False, True), (alike & whole, True, False), (whole, True, True)
            ):  # fmt: skip
                cut = np.flatnonzero(applies)
                chosen.append((cut, np.full(len(cut), tile), keeps, stores))
    sizes = [len(cut) for cut, *_ in chosen]
    kept, stored = (np.repeat([choice[number] for choice in chosen], sizes) for number in (2, 3))
    cuts, tiles = (np.concatenate([choice[number] for choice in chosen]) for number in (0, 1))
    return Tilings(
        cut=np.tile(cuts, 2),
        depth_tile=np.tile(tiles, 2),
        keeps_inputs=np.tile(kept, 2),
        stores_inputs=np.tile(stored, 2),
        mode_bank=np.repeat((0, 1), len(cuts)),
        is_input_stationary=np.zeros(2 * len(cuts), np.bool_),
    )
