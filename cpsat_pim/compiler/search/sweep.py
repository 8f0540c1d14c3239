"""The best mapping by evaluating the whole space."""

from attrs import frozen

from cpsat_pim.compiler.host import Host
from cpsat_pim.compiler.mapping import Contraction, Mapping
from cpsat_pim.compiler.search.space import SpaceOf, space_of
from cpsat_pim.compiler.target import Target
from tables.commands.objectives import BestBy
from tables.commands.shared import BestLayout
from tables.commands.steps import OUTPUT_STATIONARY
from tables.commands.sweep import NONE, Best, count_mappings, sweep


@frozen(eq=False)
class Optimum:
    """The best mapping of a space: proven, since every mapping was walked or excluded by a lower bound."""

    mapping: Mapping
    ticks: int
    time_ps: int
    host_ps: int
    mappings: int
    walked: int


def best_mapping(
    contraction: Contraction,
    target: Target,
    channels: int | None = None,
    host: Host | None = None,
    prunes: bool = True,
    counts: bool = True,
) -> Optimum | None:
    """The mapping of least time, or None if the device can run none.

    `host`: another than the device's. `counts`: also how many mappings there are.
    """
    space = space_of(contraction, target, channels, host)
    best = sweep(space.arrays, target.timing, prunes)
    if best.time_ps >= NONE:
        return None
    mappings = count_mappings(space.arrays, target.timing) if counts else 0
    return Optimum(
        mapping_of(space, best),
        best.ticks,
        best.time_ps,
        int(space.arrays.extra[best.split]),
        mappings,
        best.walked,
    )


def mapping_of(space: SpaceOf, best: Best | BestBy | BestLayout) -> Mapping:
    """The mapping that the sweep found."""
    share = best.share
    return Mapping(
        splits=space.splits[best.split],
        owners=space.owners[best.owner],
        is_tree=bool(share.is_tree),
        output_tile=share.output_tile,
        depth_tile=share.depth_tile,
        order="output-stationary" if share.order == OUTPUT_STATIONARY else "input-stationary",
        overlaps_drains=bool(share.overlaps_drains),
        overlaps_loads=bool(share.overlaps_loads),
    )
