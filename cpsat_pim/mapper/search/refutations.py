"""Extents that no mapping of a subspace has up to a cost, each refuted by a master problem of its own (C11).

Master problems often return the same extents inside their outer loops again, with other loops outside. A master problem
of these extents alone is small, so it is soon corrected by cuts until it is infeasible.
"""

from collections.abc import Callable, Sequence

from ortools.sat.python import cp_model

from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.search.completion import Completions
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.state import SearchState


class Refutations:
    """The refuted extents of a subspace.

    `build_master`: builds the master problem with a trial bound and of given extents alone. `add_cuts`: adds the cuts
    of a master problem's solutions, with their completions and its lower bound.
    """

    def __init__(
        self,
        state: SearchState,
        build_master: Callable[[int, Sequence[int]], MasterProblem],
        add_cuts: Callable[[MasterProblem, list[Solution], Completions, int], None],
    ) -> None:
        self._state, self._build_master, self._add_cuts = state, build_master, add_cuts
        #: The cost up to which no mapping has given extents.
        self._up_to: dict[tuple[int, ...], int] = {}

    def add_to(self, master: MasterProblem) -> None:
        """Exclude from a master problem all mappings with refuted extents."""
        for extents, bound in self._up_to.items():
            master.exclude(extents, bound)

    def refute_underestimated(self, until: float) -> None:
        """Refute the extents whose merged loops were underestimated, one by one: they are the likeliest to be cheap."""
        for extents in self._state.underestimated:
            cutoff = self._state.cutoff
            if cutoff is not None and self._up_to.get(extents, 0) < cutoff:
                self._refute(extents, cutoff, until)

    def exclude(self, master: MasterProblem, extents: tuple[int, ...], trial_bound: int, until: float) -> bool:
        """Exclude from a master problem all mappings with some extents, if it can be proven by so many seconds of the
        search that none costs at most a trial bound; return whether it was.
        """
        is_refuted = self._refute(extents, trial_bound, until)
        if is_refuted:
            master.exclude(extents, self._up_to[extents])
        return is_refuted

    def _refute(self, extents: tuple[int, ...], trial_bound: int, until: float) -> bool:
        """Prove that no useful mapping with these extents inside its outer loops costs at most a trial bound; remember
        up to which cost that is proven, and return whether it is.
        """
        is_refuted = self._is_refuted(extents, trial_bound, until)
        if is_refuted:
            cutoff = self._state.cutoff
            self._up_to[extents] = trial_bound if cutoff is None else min(trial_bound, cutoff)
        return is_refuted

    def _is_refuted(self, extents: Sequence[int], trial_bound: int, until: float) -> bool:
        """Return whether no mapping with these extents costs at most a trial bound, or at most the cutoff if that is
        less; False, too, if it is not known in time. Incumbents found on the way are kept.
        """
        state = self._state
        master = self._build_master(trial_bound, extents)
        while not (state.is_over or state.seconds >= until):
            if not master.serves_up_to(state.cutoff):
                master = self._build_master(master.trial_bound, extents)
            status, bound, solutions = state.solve(master, until)[:3]
            if status == cp_model.INFEASIBLE:
                return True
            if bound is None or status != cp_model.OPTIMAL:
                break
            if state.add_early_cuts(master, solutions) or state.add_cheaper_cuts(master, solutions[0]):
                continue
            completions = state.complete(solutions[0], bound)
            if state.cutoff is not None and bound > state.cutoff:
                return True
            self._add_cuts(master, solutions, completions, bound)
        return False
