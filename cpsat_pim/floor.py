"""What a look at a layer tells before it is solved: a lower bound on the cost of all its mappings."""

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.constraints import FREE, Constraints, check_constraints_fit
from cpsat_pim.dims import Level, Tensor
from cpsat_pim.model.freedom import Freedom
from cpsat_pim.model.screen import Screen
from cpsat_pim.result import NO_LIMIT, Budget, Objective
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
    for aligned in (False, True):
        freedom = Freedom(layer, arch, constraints, aligned, budget)
        if _has_part(freedom, aligned):
            least.append(Screen(layer, arch, objective, aligned, freedom).least)
    return min((cost for cost in least if cost is not None), default=None)


def _has_part(freedom: Freedom, aligned: bool) -> bool:
    """Whether some tensor can be row-aligned, or all can do without."""
    choices = [freedom.storing_choices(Level.ROW_BUFFER, t) for t in Tensor]
    return any(True in c for c in choices) if aligned else all(False in c for c in choices)
