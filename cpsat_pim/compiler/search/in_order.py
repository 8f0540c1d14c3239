"""The space of contractions on devices with an in-order controller (AiM, UPMEM), and its best mapping."""

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.in_order import InOrderContraction, problem
from cpsat_pim.compiler.lowering.in_order_elementwise import InOrderElementwise
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import Elementwise, SpreadMapping
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.search.broadcast import (
    BATCHES,
    COLUMNS,
    OUTPUT_COUNT,
    SHARED_VECTORS,
    Cuts,
    Found,
    FoundElementwise,
    best_of,
    cuts_of,
)
from cpsat_pim.compiler.search.goal import Goal
from cpsat_pim.compiler.search.space import distinct_parts
from tracesim.commands import Function

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

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
    wanted = goal or Goal(contraction, target)
    if cuts is None:
        lanes, every = target.device.core.lanes, channels or target.channels
        cuts = cuts_of(contraction, target.axes, lanes, LANES, every, wanted.needs_channels)
    has_inputs = contraction.inputs is not None
    least = lower_bounds if wanted.is_time else energies

    def valued(mapping: BroadcastMapping) -> tuple[int, int] | None:
        if problem(mapping, contraction, target) is not None:
            return None
        lowered = InOrderContraction(contraction, mapping, target)
        amount = lowered.ticks if wanted.is_time else lowered.channel_fj
        return wanted.value(mapping.splits, amount), lowered.ticks

    return best_of(
        cuts,
        tilings(cuts.table, target),
        lambda table, tiling: wanted.bounds(table, least(table, tiling, target, has_inputs)),
        valued,
        prunes,
        wanted.is_time,
    )


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


def tilings(table: Ints, target: InOrderTarget) -> list[tuple[BroadcastMapping, Bools]]:
    """All depth tiles in both orders, with the cuts that they apply to; one tile makes the orders equal."""
    columns = table[:, COLUMNS]
    splits, owners = (1,) * len(CLASSES), (UNUSED,) * len(target.axes)
    orders = ("output-stationary", "input-stationary") if target.sets_scalars else ("output-stationary",)
    return [
        (
            BroadcastMapping(splits=splits, owners=owners, depth_tile=tile, order=order),
            columns >= tile if order == orders[0] else columns > tile,
        )
        for tile in range(1, target.device.core.inputs + 1)
        for order in orders
    ]


def lower_bounds(table: Ints, tiling: BroadcastMapping, target: InOrderTarget, has_inputs: bool) -> Ints:
    """Ticks that cuts with a tiling do not fall below: commands at the distances of their kinds, mode changes, rows.

    Every read of a sum lies between two products, or behind the last: the mode changes there and back. A row is closed
    and opened when its product is at the head: nothing else is issued until then.
    """
    distances, mac = target.distances, target.command("mac_tree")
    apart = max(1, int(distances[mac, mac]))
    results = table[:, BATCHES] * table[:, SHARED_VECTORS]
    passes, columns = results * table[:, OUTPUT_COUNT], table[:, COLUMNS]
    tiles = -(-columns // tiling.depth_tile)
    is_input_stationary = tiling.order == "input-stationary"
    ticks = passes * columns * apart - passes * tiles * (apart - 1)
    if has_inputs:
        load = target.command("load")
        many = np.where((tiles == 1) | is_input_stationary | (not target.sets_scalars), results, passes)
        step = max(1, int(distances[load, load]))
        ticks += many * (columns * step - tiles * (step - 1))
    change = int(target.inserted[2])
    if change >= 0:
        reads = passes * (tiles if is_input_stationary else 1)
        ticks += (2 * reads - 1) * int(distances[change, mac])
    act, pre = target.inserted[:2].tolist()
    if act >= 0:
        opens = int(distances[act, mac]) - 1  # the tick of the product itself is counted above
        ticks += opens + (opened_rows(table, tiling) - 1) * (int(distances[pre, act]) + opens)
    if target.sets_scalars:
        ticks += np.where(passes > 0, passes, 0)
    return np.asarray(ticks, np.int64)


def opened_rows(table: Ints, tiling: BroadcastMapping) -> Ints:
    """Rows that are opened (AiM): a tile of an output has one of its own, which stays open only if the next vector
    meets the same one."""
    outputs, tiles = table[:, OUTPUT_COUNT], -(-table[:, COLUMNS] // tiling.depth_tile)
    every = table[:, BATCHES] * table[:, SHARED_VECTORS] * outputs * tiles
    return np.asarray(np.where(outputs * tiles == 1, table[:, BATCHES], every), np.int64)


def energies(table: Ints, tiling: BroadcastMapping, target: InOrderTarget, has_inputs: bool) -> Ints:
    """Femtojoules of a channel, exact: loads, products, rows, and on AiM a sum set and read for every pass or tile of
    it."""
    results = table[:, BATCHES] * table[:, SHARED_VECTORS]
    outputs, columns = table[:, OUTPUT_COUNT], table[:, COLUMNS]
    passes, tiles = results * outputs, -(-columns // tiling.depth_tile)
    is_input_stationary = tiling.order == "input-stationary"
    loads = np.full_like(columns, tiling.depth_tile)  # vectors of ones, once
    if has_inputs:
        loads = columns * np.where((tiles == 1) | is_input_stationary | (not target.sets_scalars), results, passes)
    macs = passes * columns
    counts = [("load", loads), ("mac_tree", macs)]
    if not target.sets_scalars:
        registers = -(-outputs // target.device.core.lanes)
        return _added_up(target, [*counts, ("drain_clear", results * registers)])
    sums = passes * (tiles if is_input_stationary else 1)
    opened = opened_rows(table, tiling)
    act = int(target.energies[target.inserted[0], Function.NOTHING])
    total = _added_up(target, [*counts, ("load_scalars", sums), ("drain_scalars", sums)])
    return np.asarray(total + opened * act, np.int64)


def _added_up(target: InOrderTarget, counts: list[tuple[str, Ints]]) -> Ints:
    """Femtojoules of so many commands that do something."""
    total = np.zeros_like(counts[0][1])
    for does, count in counts:
        total += count * target.energies[target.command(does), Function[does.upper()]]
    return total
