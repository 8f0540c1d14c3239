"""A lower bound on the cost of all mappings of a layer, known before it is solved (docs/solver.md, B1)."""

import math
from collections.abc import Sequence

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.stream_bounds import build_tables
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective
from cpsat_pim.mapper.space.banks import restrictions
from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping.constraints import FREE, Constraints, check_constraints_fit
from cpsat_pim.mapping.widths import in_whole_units
from cpsat_pim.workload import ConvWorkload

#: An n-th of every bound is less than 1 for this n.
_NO_MARGIN = 2**61


def layer_lower_bound(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    objective: Objective,
    constraints: Constraints = FREE,
    budget: Budget = NO_LIMIT,
) -> int | None:
    """Return a lower bound on the cost of every mapping that keeps the constraints and the budget.

    In the objective's integers. None if there is no such mapping. The bound of a product is the product of the bounds
    of its factors. The split subspace needs no bound of its own: its mappings have the spatial bounds of the merged
    one.
    """
    sums = [Objective.named(kind) for kind in ("latency", "energy")] if objective.is_product else [objective]
    found = layer_lower_bounds(layer, arch, sums, constraints, budget)
    return None if found is None else math.prod(found)


def layer_lower_bounds(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    objectives: Sequence[Objective],
    constraints: Constraints = FREE,
    budget: Budget = NO_LIMIT,
) -> list[int] | None:
    """Return such a bound for each of some objectives, none of which is a product; None if there is no mapping."""
    if check_constraints_fit(layer, constraints):
        return None
    bounds = []
    for subspace in (Subspace.MERGED, Subspace.ALIGNED):
        restriction = Restriction(layer, arch, constraints, subspace, budget)
        if not restriction.is_empty:
            spatial = SpatialBounds(layer, arch, objectives[0], restriction)
            bounds.append([spatial.lower_bound_of(objective) for objective in objectives])
    columns = [[bound for bound in column if bound is not None] for column in zip(*bounds, strict=True)]
    return list(map(min, columns)) if columns and all(columns) else None


def tile_lower_bound(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    objective: Objective,
    constraints: Constraints = FREE,
    *,
    known_bound: int = 0,
    value_to_beat: int | None = None,
    parameters: SearchParameters = DEFAULTS,
) -> int | None:
    """Return the bound of the tiles of all mappings (B12): for each assignment of tensors to banks the least.

    Where tensors share a bank, it knows that they interrupt each other, and that their scans follow each other. It
    takes some hundredths of a second. None if there is no mapping that keeps the constraints.

    Args:
        layer: the layer.
        arch: the machine.
        objective: what is bounded, in its integers.
        constraints: which mappings are bounded.
        known_bound: no mapping costs less; tiles raise this bound.
        value_to_beat: a cost from which on it does not matter how high the bound is, so that less time is taken.
        parameters: tuning constants of the search.
    """
    layer, arch = in_whole_units(layer, arch)
    if check_constraints_fit(layer, constraints):
        return None
    few = parameters.layer_bound_tiles
    # No tile is kept: each that is found lowers the trial bound to its own.
    parameters = evolve(parameters, bound_tiles=few, tiles_latency=few, busy_tiles=0.0, bound_margin=_NO_MARGIN)
    tables, spaces = build_tables(layer, arch), []
    for restriction in restrictions(layer, arch, constraints, NO_LIMIT):
        if restriction.subspace is Subspace.SPLIT:  # its spatial mappings are those of the merged one
            continue
        spatial = SpatialBounds(layer, arch, objective, restriction)
        if spatial.lower_bound is not None:
            tiles = TileBounds(spatial, tables, parameters=parameters)
            tiles.is_enabled = True
            spaces.append((tiles, max(known_bound, spatial.lower_bound)))
    most = math.inf if value_to_beat is None else value_to_beat - 1
    return _least_raised(spaces, most, parameters) if spaces else None


def _least_raised(spaces: Sequence[tuple[TileBounds, int]], most: float, parameters: SearchParameters) -> int:
    """Return the least of some spaces' bounds, each raised by its tiles until some tile of some space costs no more.

    No space is searched beyond what a tile of another one costs, nor beyond `most`. Where some tile is soon found, only
    those that cost less are sought: fewer tiles are bounded up to that trial bound than up to one that is too high.
    Else, and where these are too many, one trial bound comes after the other.
    """
    bounds = dict(spaces)
    first, ordered = min(bounds.values()), sorted(bounds, key=lambda tiles: bounds[tiles])
    steps = [min(first + math.ceil(step * first), most) for step in parameters.tile_steps]
    some, least = ordered[0].bound_of_some_tile(int(steps[-1])), math.inf
    if some is not None:
        least, late = _raise_bounds(bounds, ordered, most, some)
        if not late:
            return min(bounds.values())
    for trial in steps:
        least, late = _raise_bounds(bounds, ordered, trial, least)
        ordered = [tiles for tiles in ordered if tiles not in late]
        least = min([least, *(bounds[tiles] for tiles in late)])
        if least <= trial or trial >= most:
            break
    return min(bounds.values())


def _raise_bounds(
    bounds: dict[TileBounds, int], spaces: Sequence[TileBounds], trial: float, least: float
) -> tuple[float, list[TileBounds]]:
    """Raise the bounds of some spaces up to a trial bound, and no higher than the least that a tile of any costs.

    Modifies bounds. Return that least then, and the spaces that have too many tiles.
    """
    late = []
    for tiles in spaces:
        if bounds[tiles] < min(least, trial + 1):
            reach = int(min(trial, least - 1))
            found = tiles.lower_bound(reach)
            if found is not None:
                bounds[tiles] = max(bounds[tiles], found)
            if found is None or (found <= reach and not tiles.has_found_tiles):
                late.append(tiles)
            elif found <= reach:
                least = min(least, bounds[tiles])
    return least, late
