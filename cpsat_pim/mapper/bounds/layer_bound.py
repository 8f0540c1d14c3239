"""A lower bound on the cost of all mappings of a layer, known before it is solved (docs/solver.md, B1)."""

import math
from collections.abc import Sequence

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping.constraints import FREE, Constraints, check_constraints_fit
from cpsat_pim.workload import ConvWorkload


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
