"""A lower bound on the cost of all mappings of a layer, known before it is solved."""

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping.constraints import FREE, Constraints, check_constraints_fit
from cpsat_pim.workload import ConvWorkload


def least_cost(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    objective: Objective,
    constraints: Constraints = FREE,
    budget: Budget = NO_LIMIT,
) -> int | None:
    """No mapping that keeps the constraints and the budget costs less, in the objective's integers; None: there is no
    such mapping.
    """
    if check_constraints_fit(layer, constraints):
        return None
    if objective.is_product:
        latency, energy = (
            least_cost(layer, arch, Objective.named(kind), constraints, budget) for kind in ("latency", "energy")
        )
        return None if latency is None or energy is None else latency * energy
    least = []
    for subspace in (
        Subspace.MERGED,
        Subspace.ALIGNED,
    ):  # split loops cost at least what merged ones do, as far as this can tell
        restriction = Restriction(layer, arch, constraints, subspace, budget)
        if not restriction.is_empty:
            least.append(SpatialBounds(layer, arch, objective, restriction).least)
    return min((cost for cost in least if cost is not None), default=None)
