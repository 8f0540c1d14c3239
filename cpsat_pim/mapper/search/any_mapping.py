"""Any mapping of a subspace that costs less than the incumbent (heuristic): the first solution of a master problem that
CP-SAT soon finds, among the cheapest tiles or all of them.
"""

from collections.abc import Callable

from ortools.sat.python import cp_model

from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.search.trial_bounds import above
from cpsat_pim.mapper.space.candidates import Candidates


class InvalidMaster(RuntimeError):
    """CP-SAT rejects a master problem, as its sums are too large."""


class AnyMapping:
    """Seeks mappings of a subspace with these tiles.

    `build_master`: builds the master problem with a trial bound and of some candidates.
    """

    def __init__(
        self,
        state: SearchState,
        tiles: TileBounds,
        build_master: Callable[[int, None, Candidates | None], MasterProblem],
    ) -> None:
        self._state, self._tiles, self._build_master = state, tiles, build_master
        #: Whether a mapping was sought among the cheapest tiles, and whether those of a hard layer.
        self.has_tried = self.has_tried_cheapest = False

    def among_cheapest_tiles(self, lower_bound: int, until: float) -> bool:
        """Seek a mapping with some of the cheapest enumerated tiles, below one trial bound after the other above a
        lower bound, up to so many seconds of the search; return whether one was soon found.
        """
        state, cheapest = self._state, self._tiles.cheapest()
        self.has_tried, self.has_tried_cheapest = True, self.has_tried_cheapest or state.is_hard
        steps = state.parameters.any_tile_steps if cheapest is not None else ()
        trial_bounds = [above(lower_bound, step) for step in steps]
        if (cutoff := state.cutoff) is not None:
            trial_bounds = [trial for trial in trial_bounds if trial < cutoff] or [cutoff] * bool(steps)
        statuses = (self.below(trial, cheapest, until) for trial in trial_bounds if state.seconds < until)
        return any(status in (cp_model.FEASIBLE, cp_model.OPTIMAL) for status in statuses)

    def below(self, trial_bound: int, candidates: Candidates | None, until: float) -> int:
        """Seek a mapping of some candidates that costs at most a trial bound; return CP-SAT's status after a while."""
        try:
            master = self._build_master(trial_bound, None, candidates)
        except InvalidMaster:
            return int(cp_model.UNKNOWN)
        result = self._state.solve_for_any(master, until)
        for solution in result.solutions[:1]:
            self._state.complete(solution, 0)
        return result.status
