"""The space of contractions on devices with an in-order controller (AiM, UPMEM), and its best mapping."""

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.in_order import InOrderContraction, problem
from cpsat_pim.compiler.lowering.in_order_elementwise import InOrderElementwise
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.mapping import Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import Elementwise, SpreadMapping
from cpsat_pim.compiler.search.broadcast import (
    Evaluation,
    Found,
    FoundElementwise,
    Tilings,
    best_of,
    best_of_space,
)
from cpsat_pim.compiler.search.cuts import BATCHES, CHANNELS, COLUMNS, OUTPUT_COUNT, SHARED_VECTORS, Cuts, CutSpace
from cpsat_pim.compiler.search.goal import Goal
from cpsat_pim.compiler.search.space import distinct_parts
from tables.commands import in_order
from tracesim.commands import Function

Ints = NDArray[np.int64]

#: Where the lanes of a column may lie.
LANES = ("depth",)


def best_in_order(
    contraction: Contraction,
    target: InOrderTarget,
    channels: int | None = None,
    prunes: bool = True,
    goal: Goal | None = None,
    cuts: Cuts | None = None,
) -> Found | None:
    """The mapping of least time, or by another goal; the reading of results included. None if the banks hold none.
    `cuts`: only these are searched."""
    wanted, core = goal or Goal(contraction, target), target.device.core
    has_inputs = contraction.inputs is not None
    least = lower_bounds if wanted.is_time else energies

    def valued(mapping: BroadcastMapping) -> tuple[int, int] | None:
        if problem(mapping, contraction, target) is not None:
            return None
        lowered = InOrderContraction(contraction, mapping, target)
        amount = lowered.ticks if wanted.is_time else lowered.channel_fj
        return wanted.value(mapping.splits, amount), lowered.ticks

    evaluation = Evaluation(
        tilings=lambda table: tilings(table, target),
        bounds=lambda table, tiled: wanted.bounds(table, least(table, tiled, target, has_inputs)),
        least=lambda table: wanted.bounds(table, least_ticks(table, target)),
        valued=valued,
        is_time=wanted.is_time,
        tiles=core.inputs,
        column=_apart(target, target.command("mac_tree"))[0] * target.device.tick_ps if wanted.is_time else 0,
    )
    if cuts is not None:
        return best_of(cuts, evaluation, prunes)
    every = channels or target.channels
    space = CutSpace.of(contraction, target.axes, core.lanes, LANES, every, wanted.needs_channels)
    return best_of_space(space, evaluation, prunes)


def best_spread(
    kernel: Elementwise, target: InOrderTarget, channels: int, is_time: bool = True
) -> FoundElementwise | None:
    """The number of channels of least time, or of least energy; all are walked. None if none fits the banks."""
    best: FoundElementwise | None = None
    choices = distinct_parts(kernel.points, channels)
    for parts in choices:
        lowered = InOrderElementwise(kernel, SpreadMapping(channels=parts), target)
        if lowered.problem is None:
            value = lowered.ticks * target.device.tick_ps if is_time else lowered.channel_fj * parts
            if best is None or (value, lowered.ticks) < (best.value, best.ticks):
                best = FoundElementwise(lowered.mapping, value, lowered.ticks, len(choices), len(choices))
    return best


def tilings(table: Ints, target: InOrderTarget) -> Tilings:
    """All depth tiles in both orders; one tile makes the orders equal."""
    columns, chosen = table[:, COLUMNS], []
    for tile in range(1, target.device.core.inputs + 1):
        for is_input_stationary in (False, True) if target.sets_scalars else (False,):
            cut = np.flatnonzero(columns > tile if is_input_stationary else columns >= tile)
            chosen.append((cut, tile, is_input_stationary))
    cuts, sizes = np.concatenate([cut for cut, *_ in chosen]), [len(cut) for cut, *_ in chosen]
    tiles, orders = (np.repeat([choice[number] for choice in chosen], sizes) for number in (1, 2))
    never = np.zeros(len(cuts), np.bool_)
    return Tilings(cuts, tiles, never, never, np.zeros(len(cuts), np.int64), orders)


def _apart(target: InOrderTarget, command: int) -> tuple[int, int]:
    """Ticks from a command to the next one of its kind, and to the next one of any kind."""
    latency, is_blocking = target.table[command, [in_order.LATENCY, in_order.IS_BLOCKING]]
    least = max(1, int((latency + 1) * is_blocking))
    distances = target.distances[command]
    return max(least, int(distances[command])), max(least, int(distances.min()))


def lower_bounds(table: Ints, tilings: Tilings, target: InOrderTarget, has_inputs: bool) -> Ints:
    """Ticks that cuts (a row of `table` for each) with tilings do not fall below: commands at the distances of their
    kinds, mode changes, rows.

    Every read of a sum (AiM) lies between two products, or behind the last: the mode changes there and back. A row is
    closed and opened when its product is at the head: nothing else is issued until then.
    """
    distances, mac = target.distances, target.command("mac_tree")
    (apart, last), (step, last_step) = _apart(target, mac), _apart(target, target.command("load"))
    results = table[:, BATCHES] * table[:, SHARED_VECTORS]
    passes, columns = results * table[:, OUTPUT_COUNT], table[:, COLUMNS]
    tiles, is_input_stationary = -(-columns // tilings.depth_tile), tilings.is_input_stationary
    ticks = passes * (columns * apart - tiles * (apart - last))
    if has_inputs:
        many = np.where((tiles == 1) | is_input_stationary | (not target.sets_scalars), results, passes)
        ticks += many * (columns * step - tiles * (step - last_step))
    if target.sets_scalars:
        ticks += passes
    else:
        registers = -(-table[:, OUTPUT_COUNT] // target.device.core.lanes)
        ticks += results * registers * _apart(target, target.command("drain_clear"))[1]
    change = int(target.inserted[2])
    if change >= 0:
        reads = passes * np.where(is_input_stationary, tiles, 1)
        ticks += (2 * reads - 1) * int(distances[change, mac])
    act, pre = target.inserted[:2].tolist()
    if act >= 0:
        opens = int(distances[act, mac]) - 1  # the tick of the product itself is counted above
        ticks += opens + (opened_rows(table, tilings) - 1) * (int(distances[pre, act]) + opens)
    return np.asarray(ticks, np.int64)


def least_ticks(table: Ints, target: InOrderTarget) -> Ints:
    """Ticks that cuts do not fall below under any tiling: those of their products."""
    passes = table[:, BATCHES] * table[:, SHARED_VECTORS] * table[:, OUTPUT_COUNT]
    return np.asarray(passes * table[:, COLUMNS] * _apart(target, target.command("mac_tree"))[1], np.int64)


def opened_rows(table: Ints, tilings: Tilings) -> Ints:
    """Rows that are opened (AiM): a tile of an output has one of its own, which stays open only if the next vector
    meets the same one."""
    outputs, tiles = table[:, OUTPUT_COUNT], -(-table[:, COLUMNS] // tilings.depth_tile)
    every = table[:, BATCHES] * table[:, SHARED_VECTORS] * outputs * tiles
    return np.asarray(np.where(outputs * tiles == 1, table[:, BATCHES], every), np.int64)


def energies(table: Ints, tilings: Tilings, target: InOrderTarget, has_inputs: bool) -> Ints:
    """Femtojoules of a channel, exact: loads, products, rows, and on AiM a sum set and read for every pass or tile of
    it."""
    results = table[:, BATCHES] * table[:, SHARED_VECTORS]
    outputs, columns = table[:, OUTPUT_COUNT], table[:, COLUMNS]
    passes, tiles = results * outputs, -(-columns // tilings.depth_tile)
    is_input_stationary = tilings.is_input_stationary
    loads = np.asarray(tilings.depth_tile)  # vectors of ones, once
    if has_inputs:
        loads = columns * np.where((tiles == 1) | is_input_stationary | (not target.sets_scalars), results, passes)
    macs = passes * columns
    counts = [("load", loads), ("mac_tree", macs)]
    if not target.sets_scalars:
        registers = -(-outputs // target.device.core.lanes)
        return _added_up(target, [*counts, ("drain_clear", results * registers)])
    sums = passes * np.where(is_input_stationary, tiles, 1)
    opened = opened_rows(table, tilings)
    act = int(target.energies[target.inserted[0], Function.NOTHING])
    total = _added_up(target, [*counts, ("load_scalars", sums), ("drain_scalars", sums)])
    return np.asarray(total + opened * act, np.int64)


def single_bank_bound(contraction: Contraction, target: InOrderTarget, channels: int) -> int:
    """Femtojoules that no mapping falls below, not even if products and rows of single banks replace those of all
    banks (AiM): commands of the channel as `energies` counts them; of products and rows those of banks with elements.

    A row stays open from vector to vector only where a bank has one output and one tile; of banks with ragged shares
    that may be one output less than the most.
    """
    lanes, (batch, shared, outputs, depth) = target.device.core.lanes, contraction.extents
    cuts = CutSpace.of(contraction, target.axes, lanes, LANES, channels, keeps_channels=True).cuts()
    tiled = tilings(cuts.table, target)
    table, has_inputs = cuts.table[tiled.cut], contraction.inputs is not None
    passes = table[:, BATCHES] * table[:, SHARED_VECTORS] * table[:, OUTPUT_COUNT]
    products, act = target.command("mac_tree"), int(target.inserted[0])
    of_all = passes * table[:, COLUMNS] * target.energies[products, Function.MAC_TREE]
    of_all += opened_rows(table, tiled) * target.energies[act, Function.NOTHING]
    of_channels = (energies(table, tiled, target, has_inputs) - of_all) * table[:, CHANNELS]
    columns = -(-depth // lanes)
    tiles = -(-columns // tiled.depth_tile)
    stays = (table[:, OUTPUT_COUNT] <= 2) & (table[:, COLUMNS] <= tiled.depth_tile)
    rows = batch * outputs * np.where(stays, 1, shared * tiles)
    banks = int(np.prod(target.axes))
    single = batch * shared * outputs * columns * target.energies[products, Function.MAC_TREE]
    single = single + rows * target.energies[act, Function.NOTHING]
    return int((of_channels + single // banks).min())


def _added_up(target: InOrderTarget, counts: list[tuple[str, Ints]]) -> Ints:
    """Femtojoules of so many commands that do something."""
    total = np.zeros_like(counts[0][1])
    for does, count in counts:
        total += count * target.energies[target.command(does), Function[does.upper()]]
    return total
