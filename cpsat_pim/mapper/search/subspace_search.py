"""The search of one part of the space.

Targets rise from the screen's lower bound: a program holds only what can cost at most the target, so it is small and
soon either answers or is proven empty, and then nothing cheaper than the target exists. An answer's exact cost is
counted outside the solver. If it equals the program's bound it is optimal in its part; if not, the program counted that
choice of outer loops too low, so it is corrected for exactly that choice and solved again. Where answers keep the same
tiles inside their outer loops, a program of these alone settles them all.
"""

import math
from collections.abc import Iterator, Sequence

import attrs
from ortools.sat.python import cp_model

from cpsat_pim.mapper.bounds.countable import HIGHEST
from cpsat_pim.mapper.bounds.spatial_bounds import SpatialBounds
from cpsat_pim.mapper.bounds.tile_bounds import TileBounds
from cpsat_pim.mapper.model.master import MasterProblem
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search.completion import Completions
from cpsat_pim.mapper.search.cut_pool import CutPool
from cpsat_pim.mapper.search.cuts import CutGenerator, OutOfTime, TooManyOrders
from cpsat_pim.mapper.search.solution import Solution
from cpsat_pim.mapper.search.state import SearchState
from cpsat_pim.mapper.space.candidates import Candidates
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace

#: Targets above the lower bound, as fractions of it.
_STEPS = (0.001, 0.004, 0.012, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 3.0, 10.0, 100.0, 10_000.0)
#: The same where tiles are looked at, for the least of all that a part has.
_TILE_STEPS = (0.03, 0.3, 1.0, 100.0)
#: Work for a target of which little more is to be learnt from the next one; a target this near to what is known to be
#: enough might as well be that.
_NEXT_TO_NO_WORK, _NEAR = 0.1, 0.5
#: How far above the bound, as a fraction of it, all mappings with the same tiles are settled at once.
_SETTLED = 0.02
#: Work for a layer that is hard: then tiles are looked at in any case, and targets rise little by little to the best
#: known cost: by a fraction of the bound, or one part of so many of what is left.
_HARD_WORK, _LITTLE, _MOST_LITTLE = 2.0, 0.05, 16
#: Most work for one solve of a layer that is not: then it is, and lower targets are easier.
_MOST_WORK = 6.0
#: Of split loops first all is refuted that is better than the best known mapping by one part of so many, so that little
#: is open if the time is up.
_ALMOST = 256
#: By how many more tiles a target of a hard layer rises at first; once what is below one is refuted, the last time by
#: little work, by twice as many; after a solve of much by half of them, and then a lower target takes its place.
_TILES_AT_ONCE, _LITTLE_WORK, _MUCH_WORK = 1000, 1.0, 3.0
#: Work that looking at a tile is.
_LOOK = 1e-6
#: Tiles are looked at once for all targets up to so far above the bound.
_FAR = 0.5
#: Targets of which any answer will do.
_FIRST_STEPS = tuple(step for step in _STEPS if step >= 3)
_FIRST_TILES = (0.3, 1.0)
#: An energy (fJ) that no layer reaches but for rows that are opened again (`floor.check_countable`).
_NO_LIMIT = 2**58
#: Answers without how loops are split after which programs have to tell; and of how many at a time it is looked up.
_SPLIT_ANSWERS, _SPLIT_POOL = 3, 4


class InvalidMaster(RuntimeError):
    """CP-SAT does not take a program."""


class SubspaceSearch:
    """One part of the space, from its lower bound up to its optimum or to what cannot beat the best known mapping.

    Nothing in the part costs less than `least`, None if there is nothing at all; mappings that are barred without a
    complete count cost at least `barred`.
    """

    def __init__(self, state: SearchState, restriction: Restriction) -> None:
        self.state, self.restriction, self.subspace = state, restriction, restriction.subspace
        self.spatial_bounds = SpatialBounds(state.layer, state.arch, state.objective, restriction)
        state.spatial_bounds_of.append(self.spatial_bounds)
        looks = state.looks[self.subspace.is_aligned, restriction.constraints]
        self.tiles = TileBounds(self.spatial_bounds, state.tables, looks, self._has_looked, lambda: state.is_over)
        self.least = self.spatial_bounds.least
        self.barred: int | None = None
        self.targets = self._targets()
        #: Targets up to which tiles are still to be looked at for a better bound.
        self.spatial_bounds_of = self._screens()
        self.master: MasterProblem | None = None
        #: Whether there is no target left, and no mapping to beat.
        self.is_exhausted = False
        #: Extents inside the outer loops of answers; and those of which each mapping costs more than a target.
        self.answered: set[tuple[int, ...]] = set()
        self.dear: dict[tuple[int, ...], int] = {}
        #: Answers of programs that do not tell how loops are split.
        self.split_answers = 0
        #: By how many more tiles the next target rises.
        self.tiles_at_once = _TILES_AT_ONCE
        #: Whether mappings of the cheapest tiles were looked for, and tiles for all targets that are near.
        self.was_tried = self.has_looked_ahead = False

    @property
    def is_open(self) -> bool:
        """Whether programs may find something in the part that is better than the best known mapping."""
        ceiling = self.state.ceiling
        return self.least is not None and (ceiling is None or self.least <= ceiling)

    @property
    def is_ready(self) -> bool:
        """Whether there is something to be solved."""
        return self.is_open and not (self.is_exhausted and self.state.ceiling is None)

    @property
    def bound(self) -> int | None:
        """Nothing in the part that beats the best known mapping costs less; None if nothing does."""
        to_beat = self.state.to_beat
        known = [least for least in (self.least, self.barred) if least is not None]
        return min((least for least in known if to_beat is None or least < to_beat), default=None)

    def step(self, until: float) -> None:
        """One solve and what its answers teach, or some more of answers that are settled together; ends after so many
        seconds of the search.
        """
        if self.subspace is Subspace.SPLIT and self._almost is None:
            self._settle_merged(until)
        master = self._next_program()
        if master is None:
            return
        self.master = None
        reply = self.state.solve(master, until, math.inf if self._is_hard else _MOST_WORK)
        if self._is_hard and reply.work < _LITTLE_WORK and reply.status == cp_model.INFEASIBLE:
            self.tiles_at_once *= 2
        elif reply.work > _MUCH_WORK:
            self.tiles_at_once = max(1, self.tiles_at_once // 2)
        if reply.status == cp_model.INFEASIBLE:
            self._raise_to(master.target + 1)
            return
        if reply.bound is not None:
            self._raise_to(reply.bound)
        if reply.status == cp_model.OPTIMAL:
            is_open = self._learn(master, reply.solutions, until)
            self.master = master if is_open and reply.work <= _MUCH_WORK else None
        elif reply.solutions and not master.v.any_split:
            self.state.consider(reply.solutions[0], 0)

    def _learn(self, master: MasterProblem, solutions: list[Solution], until: float) -> bool:
        """Correct a program for its proven answers; whether it is to be solved again."""
        if master.v.any_split:  # all that the answers say is which outer loops there are
            if not all(self._leave_out(master, solution, until) for solution in solutions[:_SPLIT_POOL]):
                return False
            self.split_answers += 1
            return self.split_answers < _SPLIT_ANSWERS
        proven = self.least or 0
        completions = self.state.consider(solutions[0], proven)
        if not self.is_open:
            return False
        if solutions[0].within not in self.answered:
            self.answered.add(solutions[0].within)
            if self.subspace is Subspace.MERGED:
                self.state.counted_low.append(solutions[0].within)
            self._correct(master, solutions, completions, proven)
            return True
        master.b.model.add(master.cost >= proven)
        return self._leave_out(master, solutions[0], until)

    def _correct(self, master: MasterProblem, solutions: list[Solution], completions: Completions, proven: int) -> None:
        """Teach a program what its answers cost; one whose orders are too many is barred."""
        try:
            self.state.correct(master, solutions, completions, proven)
        except TooManyOrders:
            self.barred = proven if self.barred is None else min(self.barred, proven)

    def _raise_to(self, least: int) -> None:
        self.least = max(self.least or 0, least)

    def _screens(self) -> Iterator[int]:
        """Raise the lower bound to what some tiles may cost, as far as that is known without a solve: each time to one
        more target, below which there are none.
        """
        base = self.least or 0
        for step in _TILE_STEPS:
            ceiling = self.state.ceiling
            target = _above(base, step) if ceiling is None else min(_above(base, step), ceiling)
            if self.least is None or self.least > target:
                continue
            known = self.tiles.least(target)
            if known is None:
                return
            self._raise_to(known)
            if known <= target or target == ceiling:
                return
            yield target

    def _targets(self) -> Iterator[int]:
        """Targets above the lower bound; after one that took the solver next to no work, the next one is left out."""
        work, is_left_out = 0.0, False
        base = self.least or 0
        for step in _STEPS:
            if is_left_out and step < _STEPS[-1]:
                is_left_out = False
                continue
            yield _above(base, step)
            now = self.state.statistics["work"]
            is_left_out, work = now - work < _NEXT_TO_NO_WORK, now

    def _has_looked(self, tiles: int) -> None:
        self.state.statistics["work"] += _LOOK * tiles

    @property
    def _outlook(self) -> int | None:
        """A target for which tiles may be looked at once for all: of a hard layer, what is known to be enough."""
        ceiling = self.state.ceiling
        if ceiling is None or not self._is_hard or self.subspace is not Subspace.ALIGNED:
            return None
        return min(ceiling, _above(self.least or 0, _FAR))

    @property
    def _is_hard(self) -> bool:
        return bool(self.state.statistics["work"] > _HARD_WORK)

    @property
    def _almost(self) -> int | None:
        """Almost what is known to be enough; None if that is not known, or if less than that is refuted."""
        ceiling = self.state.ceiling
        almost = None if ceiling is None else ceiling - ceiling // _ALMOST
        return None if almost is None or (self.least or 0) > almost else almost

    def _target(self) -> int | None:
        """The next one: what is known to be enough, once that is near; of a hard layer little by little, for the lower
        its target, the less a program leaves open.
        """
        ceiling, least = self.state.ceiling, self.least or 0
        if self.subspace is Subspace.SPLIT and self._almost is not None:
            return self._almost
        if self._is_hard and self.subspace is not Subspace.SPLIT and (target := self._next_little()) is not None:
            return target
        for target in self.targets:
            if ceiling is not None and target >= ceiling * _NEAR:
                break
            if target >= least:
                return target
        return ceiling

    def _next_little(self) -> int | None:
        """A target for so many more tiles, if they can be known, else one that is a little higher."""
        ceiling, least = self.state.ceiling, self.least or 0
        target = self.tiles.target_beyond(least, self.tiles_at_once)
        if target is None and ceiling is not None:
            target = max(_above(least, _LITTLE), least + (ceiling - least) // _MOST_LITTLE)
            self.tiles.look_up_to(min(ceiling, target))
            target = self.tiles.target_beyond(least, self.tiles_at_once) or target
        return None if target is None else min(HIGHEST if ceiling is None else ceiling, target)

    def _next_program(self) -> MasterProblem | None:
        """What is to be solved; None if the part is closed or exhausted, or has raised its bound without a solve."""
        if self._is_hard and not self.tiles.is_thorough:
            self.tiles.look_closer()
            self.spatial_bounds_of, self.master = self._screens(), None
        master, ceiling = self.master, self.state.ceiling
        if master is not None and (ceiling is None or master.target <= ceiling):
            self._add_cuts(master)  # what other parts have learnt meanwhile
            return master
        if master is None and self.tiles.is_on and next(self.spatial_bounds_of, None) is not None:
            return None  # it may be another part's turn
        if self._is_hard and not self.was_tried and self.subspace is not Subspace.SPLIT:
            self.was_tried = True
            self._try_cheapest()
            ceiling = self.state.ceiling
        if not self.has_looked_ahead and self._outlook is not None:
            self.has_looked_ahead = True
            self.tiles.look_up_to(self._outlook)
        target = ceiling if master is not None else self._target()
        if not self.is_open:
            return None
        if target is not None:
            return self._program(target)
        if self._is_empty():
            self.least = None
        self.is_exhausted = True
        return None

    def _program(
        self, target: int, within: Sequence[int] | None = None, candidates: Candidates | None = None
    ) -> MasterProblem:
        """A program that knows what earlier ones have learnt."""
        any_split = self.subspace is Subspace.SPLIT and within is None and self.split_answers < _SPLIT_ANSWERS
        master = MasterProblem(self.tiles, target, any_split=any_split, within=within, candidates=candidates)
        for extents, dearer_than in self.dear.items() if within is None else ():
            master.leave_out(extents, dearer_than)
        self._add_cuts(master)
        master.b.model.add(master.cost >= (self.least or 0))
        problem = master.b.model.validate()
        if problem:
            raise InvalidMaster(f"{self.state.layer.name}: the model is invalid: {problem}")
        return master

    def _add_cuts(self, master: MasterProblem) -> None:
        """Add what was learnt of how loops are split; a program for all ways to split them does not tell."""
        if not master.v.any_split:
            self.state.cut_pool_of(self.restriction).add_to(master)

    def _is_empty(self) -> bool:
        """Whether the part has no mapping at all, whatever it costs: the targets alone cannot tell. One that turns up
        is kept. Activations cost nothing here unless a budget counts them: how often rows are opened has no limit.
        """
        state, energy = self.state, Objective.named("energy")
        is_limited = self.restriction.budget.fj is not None and self.restriction.budget.fj <= _NO_LIMIT
        arch = state.arch if is_limited else attrs.evolve(state.arch, activation_energy=0.0)
        spatial_bounds = SpatialBounds(state.layer, arch, energy, self.restriction)
        candidates = Candidates(*spatial_bounds.candidates(_NO_LIMIT), None)
        master = MasterProblem(TileBounds(spatial_bounds, state.tables), _NO_LIMIT, candidates=candidates)
        cut_pool = CutPool(lambda: state.is_over)
        try:
            while state.best is None:
                reply = state.solve_for_any(master)
                if not reply.solutions:
                    return reply.status == cp_model.INFEASIBLE
                completions = state.consider(reply.solutions[0], 0)
                if state.best is None:
                    state.keep(CutGenerator(reply.solutions[0], completions, cut_pool).whole_cost())
        except (OutOfTime, TooManyOrders):
            pass  # the last draft may still have one
        return False

    def find_any(self, until: float) -> None:
        """The first mapping found: with the cheapest tiles that are known, or below the lowest target that gives one
        soon; none once the search has taken so many seconds.
        """
        assert self.spatial_bounds.least is not None
        if self._try_cheapest(until):
            return
        for step in _FIRST_STEPS:
            target = _above(self.spatial_bounds.least, step)
            candidates = Candidates(*self.spatial_bounds.candidates(target), None)
            if self.state.seconds >= until or self._try(target, candidates):
                return

    def _try_cheapest(self, until: float = math.inf) -> bool:
        """Look for a mapping with some of the cheapest tiles that are known, and tell whether there soon was one."""
        cheapest, ceiling = self.tiles.cheapest(), self.state.ceiling
        steps = _FIRST_TILES if cheapest is not None else ()
        targets = [_above(self.least or 0, step) for step in steps]
        if ceiling is not None:
            targets = [target for target in targets if target < ceiling] or [ceiling] * bool(steps)
        return any(self._try(target, cheapest) for target in targets if self.state.seconds < until)

    def _try(self, target: int, candidates: Candidates | None) -> bool:
        """Look for a mapping of some candidates that costs at most a target, and tell whether there soon was one."""
        try:
            master = self._program(target, candidates=candidates)
        except InvalidMaster:
            return False  # the target is more than CP-SAT can add up
        solutions = self.state.solve_for_any(master).solutions
        if solutions:
            self.state.consider(solutions[0], 0)
        return bool(solutions)

    def _settle_merged(self, until: float) -> None:
        """Look at the outer loops first that cost most to settle while they were not split, unless they are dear."""
        for within in self.state.counted_low:
            ceiling = self.state.ceiling
            if ceiling is not None and self.dear.get(within, 0) < ceiling:
                self._settle(within, ceiling, until)

    def _leave_out(self, master: MasterProblem, solution: Solution, until: float) -> bool:
        """Look at all mappings with the same extents inside their outer loops, and leave them out of a program; False
        if that took too long. A program of so few is soon solved, the sooner the nearer its target: of split loops,
        which are searched last, that is what is known, else what may matter now.
        """
        ceiling = self.state.ceiling
        target = master.target if ceiling is None else min(master.target, ceiling)
        if self.subspace is not Subspace.SPLIT:
            target = min(target, _above(self.least or 0, _SETTLED))
        is_settled = self._settle(solution.within, target, until)
        if is_settled:
            master.leave_out(solution.within, self.dear[solution.within])
        return is_settled

    def _settle(self, within: tuple[int, ...], target: int, until: float) -> bool:
        """Look at all mappings with these extents inside their outer loops, and remember if they are dear."""
        is_dear = self._is_dear(within, target, until)
        if is_dear:
            ceiling = self.state.ceiling
            self.dear[within] = target if ceiling is None else min(target, ceiling)
        return is_dear

    def _is_dear(self, within: Sequence[int], target: int, until: float) -> bool:
        """Whether no mapping with these extents inside its outer loops costs at most a target, or less than the best
        once that is less; False, too, if it is not known in time. Those that turn up are kept.
        """
        state = self.state
        few = self._program(target, within=within)
        while not (state.is_over or state.seconds >= until):
            if state.ceiling is not None and state.ceiling < few.target:
                few = self._program(state.ceiling, within=within)
            status, bound, solutions = state.solve(few, until)[:3]
            if status == cp_model.INFEASIBLE:
                return True
            if bound is None or status != cp_model.OPTIMAL:
                break
            completions = state.consider(solutions[0], bound)
            if state.ceiling is not None and bound > state.ceiling:
                return True
            self._correct(few, solutions, completions, bound)
        return False


def _above(least: int, step: float) -> int:
    """A target above a lower bound."""
    return min(int(least * (1 + step)) + 1, HIGHEST)
