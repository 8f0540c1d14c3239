"""A lower bound on the cost of all mappings of a layer, known before it is solved (docs/solver.md, B1)."""

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
    if check_constraints_fit(layer, constraints):
        return None
    if objective.is_product:
        latency, energy = (
            layer_lower_bound(layer, arch, Objective.named(kind), constraints, budget) for kind in ("latency", "energy")
        )
        return None if latency is None or energy is None else latency * energy
    bounds = []
    for subspace in (Subspace.MERGED, Subspace.ALIGNED):
        restriction = Restriction(layer, arch, constraints, subspace, budget)
        if not restriction.is_empty:
            bounds.append(SpatialBounds(layer, arch, objective, restriction).lower_bound)
    return min((bound for bound in bounds if bound is not None), default=None)
