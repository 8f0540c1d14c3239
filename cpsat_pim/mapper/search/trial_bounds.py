"""The trial bounds of one subspace: the costs up to which its master problems are built, one after the other.

They are a heuristic: any rising sequence that ends at the cutoff proves the same optimum (docs/solver.md).
"""

import math
from collections.abc import Iterator

from ortools.sat.python import cp_model

from cpsat_pim.mapper.bounds.countable import HIGHEST
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.search.solver import SolveResult
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.space.subspace import Subspace


class TrialBounds:
    """The sequence of trial bounds of a subspace, above the lower bound that it has when the first one is asked for."""

    def __init__(self, state: SearchState, subspace: Subspace, tiles: TileBounds) -> None:
        self._state, self._subspace, self._tiles, self._parameters = state, subspace, tiles, state.parameters
        self._rising: Iterator[int] | None = None
        #: CP-SAT's work on this subspace so far.
        self._work = 0.0
        #: Steps that are skipped at most after a refutation of negligible work: where tensors share a bank, first
        #: bounds lie far below the optimum.
        self._most_skipped = self._parameters.skipped_steps if tiles.spatial_bounds.restriction.shared_parts else 1
        #: By how many more tiles a hard layer's next trial bound rises.
        self._more_tiles = self._parameters.tiles_per_trial
        #: The largest part of the distance from the lower bound to the cutoff by which the next trial bound rises.
        self._part = 1.0
        is_in_banks = bool(tiles.spatial_bounds.restriction.shared_parts)
        #: The most work of one solve of a hard layer.
        self.most_work = self._parameters.hard_solve_work if is_in_banks else math.inf

    def next(self, lower_bound: int) -> int | None:
        """Return the next trial bound: the cutoff once that is near, or a part of the way to it after solves that took
        too much work, unless next to nothing is left of that way; None if there is none and no cutoff.
        """
        trial_bound, cutoff = self._rise(lower_bound), self._state.cutoff
        if cutoff is None or trial_bound is None:
            return trial_bound
        if cutoff - lower_bound <= cutoff // self._parameters.close_parts:
            return cutoff
        return min(trial_bound, lower_bound + int((cutoff - lower_bound) * self._part))

    def _rise(self, lower_bound: int) -> int | None:
        """Return the next trial bound whatever solves took so far."""
        cutoff = self._state.cutoff
        if self._subspace is Subspace.SPLIT and (trial_bound := self.first_of_split(lower_bound)) is not None:
            return trial_bound
        if self._state.is_hard and self._subspace is not Subspace.SPLIT:
            trial_bound = self._next_of_hard_layer(lower_bound)
            if trial_bound is not None:
                return trial_bound
        self._rising = self._rising or self._rising_bounds(lower_bound)
        for trial_bound in self._rising:
            if cutoff is not None and trial_bound >= cutoff * self._parameters.near_cutoff:
                break
            if trial_bound >= lower_bound:
                return trial_bound
        return cutoff

    def first_of_split(self, lower_bound: int) -> int | None:
        """Return the first trial bound of the split subspace; None if there is no cutoff, or if that bound is refuted.

        For a layer that takes long it is a little below the cutoff, so that the lower bound is close to the incumbent
        should the time end. For others it is the cutoff: one refutation less.
        """
        cutoff = self._state.cutoff
        if cutoff is None:
            return None
        trial_bound = cutoff - (cutoff // self._parameters.split_margin if self._state.takes_long else 0)
        return None if lower_bound > trial_bound else trial_bound

    def adapt(self, result: SolveResult) -> None:
        """Take larger steps after a cheap refutation of a hard layer, smaller ones after an expensive solve, and allow
        more work after one that ended without a proof.
        """
        self._work += result.work
        is_refuted = result.status == cp_model.INFEASIBLE
        is_proven = result.status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
        is_spent = result.work >= self._parameters.spent_share * self.most_work
        if self._state.is_hard and is_spent and not is_proven:
            self._part /= self._parameters.unproven_parts
            self.most_work *= 2
        elif is_refuted and result.work < self._parameters.light_work:
            self._part = min(1.0, 2 * self._part)
        if self._state.is_hard and result.work < self._parameters.light_work and is_refuted:
            self._more_tiles *= 2
        elif result.work > self._parameters.heavy_work:
            self._more_tiles = max(1, self._more_tiles // 2)

    def _rising_bounds(self, base: int) -> Iterator[int]:
        """Yield trial bounds above a lower bound; after each that took negligible work, skip one more than before."""
        steps, place, skipped = self._parameters.trial_steps, 0, 0
        while place < len(steps):
            work = self._work
            yield above(base, steps[place])
            is_cheap = self._work - work < self._parameters.negligible_work
            skipped = min(skipped + 1, self._most_skipped) if is_cheap else 0
            is_last = place == len(steps) - 1
            place = place + 1 if is_last else min(place + 1 + skipped, len(steps) - 1)

    def _next_of_hard_layer(self, lower_bound: int) -> int | None:
        """Return a hard layer's trial bound: for so many more tiles if tiles can be enumerated, else a small step up.

        The lower the trial bound, the fewer candidates a master problem leaves open.
        """
        cutoff = self._state.cutoff
        trial_bound = self._tiles.trial_bound_beyond(lower_bound, self._more_tiles)
        if trial_bound is None and cutoff is not None:
            part = (cutoff - lower_bound) // self._parameters.hard_parts
            trial_bound = max(above(lower_bound, self._parameters.hard_step), lower_bound + part)
            self._tiles.enumerate_up_to(min(cutoff, trial_bound))
            trial_bound = self._tiles.trial_bound_beyond(lower_bound, self._more_tiles) or trial_bound
        return None if trial_bound is None else min(HIGHEST if cutoff is None else cutoff, trial_bound)


def above(bound: int, step: float) -> int:
    """Return a trial bound above a lower bound by a fraction of it."""
    return min(int(bound * (1 + step)) + 1, HIGHEST)
