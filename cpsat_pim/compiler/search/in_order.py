"""The space of contractions on devices with an in-order controller (AiM, UPMEM), and its best mapping."""

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.compiler.lowering.in_order import InOrderContraction, InOrderTarget, problem
from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.search.broadcast import (
    BATCHES,
    COLUMNS,
    OUTPUT_COUNT,
    SHARED_VECTORS,
    Found,
    best_of,
    cuts_of,
)

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def best_in_order(
    contraction: Contraction, target: InOrderTarget, channels: int | None = None, prunes: bool = True
) -> Found | None:
    """The mapping of least ticks, the reading of results included; None if the banks hold none."""
    cuts = cuts_of(contraction, target.axes, target.device.core.lanes, ("depth",), channels or target.channels)

    def ticks(mapping: BroadcastMapping) -> int | None:
        if problem(mapping, contraction, target) is not None:
            return None
        return InOrderContraction(contraction, mapping, target).ticks

    return best_of(
        cuts,
        tilings(cuts.table, target),
        lambda table, tiling: lower_bounds(table, tiling, target, contraction.inputs is not None),
        ticks,
        prunes,
    )


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
    """Ticks that cuts with a tiling do not fall below: all commands at the distances of their kinds, and mode changes.

    Every read of a sum lies between two products, or behind the last: the mode changes there and back.
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
    if target.sets_scalars:
        ticks += np.where(passes > 0, passes, 0)
    return np.asarray(ticks, np.int64)
