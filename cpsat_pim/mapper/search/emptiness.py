"""A proof that a subspace has no mapping at all, at any cost (docs/solver.md, termination)."""

import attrs
from ortools.sat.python import cp_model

from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search.cut_pool import CutPool
from cpsat_pim.mapper.search.cuts import CutGenerator, TooManyOrders
from cpsat_pim.mapper.search.placement import OutOfTime
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.space.candidates import Candidates
from cpsat_pim.mapper.space.restriction import Restriction

#: An energy (fJ) that no layer reaches except by rows that are opened again (`countable.check_countable`).
_MOST_FJ = 2**58


def has_no_mapping(state: SearchState, restriction: Restriction) -> bool:
    """Prove that a subspace has no mapping at all, and return whether it is proven; a mapping that is found becomes the
    incumbent.

    No trial bound proves it, since the highest one may be too low. Here activations cost nothing unless a budget counts
    them, for how often rows are opened has no limit; without them no mapping costs more than `_MOST_FJ`.
    """
    master, cut_pool = _master(state, restriction), CutPool(lambda: state.is_over)
    try:
        while state.incumbent is None:
            result = state.solve_for_any(master)
            if not result.solutions:
                return bool(result.status == cp_model.INFEASIBLE)
            completions = state.complete(result.solutions[0], 0)
            if state.incumbent is None:
                state.update_incumbent(CutGenerator(result.solutions[0], completions, cut_pool).whole_cost())
    except (OutOfTime, TooManyOrders):
        pass  # the last draft may still have a legal completion
    return False


def _master(state: SearchState, restriction: Restriction) -> MasterProblem:
    """Return the master problem of all mappings of a subspace, for energy."""
    is_limited = restriction.budget.fj is not None and restriction.budget.fj <= _MOST_FJ
    arch = state.arch if is_limited else attrs.evolve(state.arch, activation_energy=0.0)
    spatial_bounds = SpatialBounds(state.layer, arch, Objective.named("energy"), restriction)
    tiles = TileBounds(spatial_bounds, state.tables[restriction.bank_counts], parameters=state.parameters)
    return MasterProblem(tiles, _MOST_FJ, candidates=Candidates(*spatial_bounds.candidates(_MOST_FJ), None))
