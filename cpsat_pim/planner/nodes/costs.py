"""Costs of node problems: a lower bound at once, the exact optimum when it matters (lazy proofs).

Three things keep solves few and short. The optimum of a problem with free layouts bounds those with tied layouts from
below, and its mapping in other layouts often costs the same, which proves them without a solve. A solve ends when
nothing that costs less than a plan can use is left (`slack`). And the first solves of a problem are short, and not by
walks: only what a plan's gap depends on is solved again, for longer.
"""

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, SolvedLayer
from cpsat_pim.planner.nodes.bounds import NodeBounds
from cpsat_pim.planner.nodes.building import Builder
from cpsat_pim.planner.nodes.problem import HIGHEST, NodeCost, NodeProblem, Useful, highest
from cpsat_pim.planner.nodes.programs import in_layouts, priced, verify_program
from cpsat_pim.planner.nodes.requests import energy_request, solve_seconds, tasks_of, value_request
from cpsat_pim.planner.nodes.store import NodeStore, digest
from cpsat_pim.planner.nodes.workers import Workers

#: Bounds take at most this share of the time that solves have.
_BOUNDS_SHARE = 0.25
#: From this ratio of the bounds of tiles on, in a problem's layouts and in any, its layouts decide what it costs.
_LAYOUTS = 1.02


class NodeCosts:
    """Costs of node problems on one machine for one objective; what is solved is kept in a file, if there is one.

    `solves`: problems given to the mapper. `reused`: taken from the file.
    """

    def __init__(
        self,
        arch: PIMArchitecture,
        objective: Objective,
        store: Path | None = None,
        version: str = "",
        time_limit: float = 60.0,
        jobs: int = 1,
        stop: threading.Event | None = None,
        padding: float = 0.0,
    ) -> None:
        """`time_limit`: seconds of the first solve of a problem for a proof.

        `version`: of this program, which is part of the key, as optima of another one are not ours. `jobs`: solves at
        a time. `stop`: ends solves with what they have. `padding`: node programs may be of parts padded with zeros to
        bounds that divide better, by at most this share of MACs more (docs/model.md, section 1).
        """
        self.padding = padding
        self.arch, self.objective, self.time_limit, self.jobs = arch, objective, time_limit, jobs
        self.stop = stop or threading.Event()
        #: Receives a line for each problem that was given to the mapper.
        self.report: Callable[[str], None] = lambda line: None
        self.solves, self.reused = 0, 0
        #: Most seconds of a solve, while mappings are sought and no proofs.
        self._brief_seconds = math.inf
        self._known: dict[NodeProblem, NodeCost | None] = {}
        #: Problems that were asked about, by the one of the same layer in any layouts.
        self._tied: defaultdict[NodeProblem, list[NodeProblem]] = defaultdict(list)
        self._store = NodeStore(store) if store else None
        padded = [f"padding {padding:g}"] if padding else []
        self._machine = digest([arch.to_dict(), objective.to_dict(), version, *padded])
        self._workers = Workers(jobs, self.stop)
        self._builder = Builder(arch, objective, self._workers)
        self._bounds = NodeBounds(arch, objective, padding, self._store, self._key, self._workers)

    @property
    def known(self) -> int:
        """Distinct node problems that were asked about."""
        return len(self._known)

    def close(self) -> None:
        """End worker processes."""
        self._workers.close()

    # --- What is known -----------------------------------------------------------------------------------------------

    def cost(self, problem: NodeProblem) -> NodeCost | None:
        """Return what is known; None if the problem is known to have no mapping."""
        if problem not in self._known:
            self._set(problem, self._recall(problem))
            self._tied[problem.relaxation].append(problem)
        return self._known[problem]

    def _set(self, problem: NodeProblem, found: NodeCost | None) -> None:
        self._known[problem] = found
        if found is not None and found.mapping is not None:
            self._builder.alike.add(problem, found.mapping)

    def _recall(self, problem: NodeProblem) -> NodeCost | None:
        """Return what the file knows, or a bound."""
        kept = self._store.read(self._key(problem)) if self._store else None
        if kept is None:
            return self._bounds.known(problem)
        found = NodeCost.from_dict(kept)
        self.reused += found.is_solved
        return found

    def _keep(self, problem: NodeProblem, found: NodeCost | None) -> None:
        self._set(problem, found)
        if self._store and found is not None:
            self._store.write(self._key(problem), found.to_dict())

    def _key(self, problem: NodeProblem) -> str:
        return digest([problem.layer.shape, problem.layouts, self._machine])

    # --- The mapper's bounds -----------------------------------------------------------------------------------------

    def raise_bound(self, problem: NodeProblem) -> NodeCost | None:
        """Raise a bound by one step (`NodeBounds`), whatever the layouts; None if the problem has no mapping."""
        known = self.cost(problem)
        if known is None or known.is_spatial or self.arch.draws_operands_from_dram:  # that of PEs would be far too low
            return self.refine(problem)
        return self._raise(problem, self._bounds.spatial(problem.relaxation))

    def refine(self, problem: NodeProblem, below: int = HIGHEST) -> NodeCost | None:
        """Raise a bound, and those in other layouts, to that of tiles in any layouts, or up to a cost `below`; None if
        there is no mapping.
        """
        known = self.cost(problem)
        if known is None or known.is_refined or known.least >= below:
            return known
        found = self._bounds.tiles(problem.relaxation, below)
        for one in self._tied[problem.relaxation]:
            self._raise(one, found.least, is_refined=found.is_final, is_tied=found.is_final and one.is_free)
        return self._known[problem]

    def refine_tied(self, problem: NodeProblem, below: int = HIGHEST) -> NodeCost | None:
        """Raise a bound to that of tiles in the problem's layouts, after `refine`."""
        known = self.refine(problem, below)
        if known is None or known.is_tied or known.least >= below:
            return known
        found = self._bounds.tiles(problem, below)
        return self._raise(problem, found.least, is_refined=True, is_tied=found.is_final)

    def refine_all(self, asked: Useful, is_over: Callable[[], bool], tied: bool = False) -> int:
        """Refine bounds, each up to a cost, in any layouts or in the problems'; several at a time with several jobs.

        None begins once `is_over` says so. Return how many problems that were.
        """
        bounded = asked if tied else highest((problem.relaxation, below) for problem, below in asked.items())
        self._bounds.prepare_tiles(bounded, is_over)
        refine, count = self.refine_tied if tied else self.refine, 0
        for problem, below in asked.items():
            if is_over():
                break
            refine(problem, below)
            count += 1
        return count

    def _raise(
        self, problem: NodeProblem, least: int | None, *, is_refined: bool = False, is_tied: bool = False
    ) -> NodeCost | None:
        known = self._known[problem]
        if known is not None:
            self._known[problem] = None if least is None else known.raised(least, is_refined, is_tied)
        return self._known[problem]

    # --- Solves ------------------------------------------------------------------------------------------------------

    def solve(self, problem: NodeProblem, slack: int | None = None, until: float = math.inf) -> NodeCost | None:
        """Solve one problem; see `solve_all`."""
        self.solve_all([problem], slack, until)
        return self.cost(problem)

    def solve_all(
        self,
        problems: Sequence[NodeProblem],
        slack: int | None = None,
        until: float = math.inf,
        useful: Useful | None = None,
    ) -> None:
        """Narrow the bounds of problems: to their optima, or up to a cost from which on no mapping is of use.

        That is `least` + `slack`, or what `useful` says of a problem, if that is less. One that was solved before and
        not proven is solved again, for longer and from the mapping that is known. `until`: the time of
        `time.monotonic` at which solves end. Before, problems get the bound of their tiles while there is much time.

        Raises:
            WorkerKilled: a worker process was killed.
            Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
        """
        now = time.monotonic()
        bounds_until = now + _BOUNDS_SHARE * (until - now)
        self._raise_all(self._asked(problems, slack, useful), lambda: time.monotonic() >= bounds_until)
        below = self._asked(problems, slack, useful)
        is_brief = self._brief_seconds < math.inf
        direct = {p for p in below if not p.is_free and (is_brief or self._depends_on_layouts(p))}
        ahead = sorted((problem for problem in below if problem not in direct), key=lambda p: below[p])
        relaxed = {problem.relaxation: below[problem] for problem in ahead}
        wanted = [(p, limit) for p, limit in relaxed.items() if not self._is_closed(p, limit)]
        self._run(wanted, self._workers.leaving(len(below), until))
        for problem in dict.fromkeys(tied for one in relaxed for tied in self._tied[one]):
            self._transfer(problem)
        ready = [p for p in below if not p.is_free and (p in direct or self._is_worth_a_solve(p, below[p]))]
        self._run([(p, below[p]) for p in ready if not self._is_closed(p, below[p])], until)

    def solve_briefly(self, problems: Sequence[NodeProblem], seconds: float, until: float = math.inf) -> None:
        """Find mappings of problems in their layouts in so many seconds each; see `solve_all`."""
        self._brief_seconds = seconds
        try:
            self.solve_all(problems, None, until)
        finally:
            self._brief_seconds = math.inf

    def _asked(self, problems: Iterable[NodeProblem], slack: int | None, useful: Useful | None) -> Useful:
        """Return the costs that mappings of problems without a proof have to stay below to be of use."""
        found = {}
        for problem in problems:
            if (known := self.cost(problem)) is not None and not known.is_proven:
                of_plans = HIGHEST if slack is None else known.least + slack
                found[problem] = min(of_plans, (useful or {}).get(problem, HIGHEST), known.value or HIGHEST)
        return found

    def _raise_all(self, asked: Useful, is_over: Callable[[], bool]) -> None:
        """Raise bounds to those of tiles, and those in any layouts as far."""
        self.refine_all(asked, is_over)
        left = {problem: below for problem, below in asked.items() if not self._is_closed(problem, below)}
        self.refine_all(left, is_over, tied=True)
        least = {p.relaxation: cost.least for p in asked if (cost := self.cost(p)) is not None}
        self.refine_all(least, is_over)

    def _is_closed(self, problem: NodeProblem, below: int) -> bool:
        """Whether the optimum is known, or known to be of no use."""
        known = self.cost(problem)
        return known is None or known.is_proven or known.least >= below

    def _depends_on_layouts(self, problem: NodeProblem) -> bool:
        """Whether the problem is solved in its own layouts at once.

        Bounds show that the optimum in any layouts would not prove that in its own; or a solve in any layouts did not,
        or found no mapping.
        """
        known, free = self.cost(problem), self.cost(problem.relaxation)
        if known is None or free is None:
            return False
        is_tried = free.seconds > 0 and not free.is_brief and (known.is_solved or not free.is_solved)
        return (is_tried and not problem.is_free) or (known.is_tied and known.least > _LAYOUTS * free.least)

    def _is_worth_a_solve(self, problem: NodeProblem, below: int) -> bool:
        """Whether layouts make more of a difference than what is not proven of the problem with free ones."""
        known, relaxed = self.cost(problem), self.cost(problem.relaxation)
        if known is None or relaxed is None or self._is_closed(problem.relaxation, below):
            return True
        if known.value is None or relaxed.value is None:
            return known.value is None and (relaxed.value is not None or not relaxed.seconds)  # 0: there was no time
        return known.value - relaxed.value > relaxed.gap

    def _run(self, wanted: Sequence[tuple[NodeProblem, int]], until: float) -> None:
        """Give problems to the mapper, with the value that a useful mapping stays below."""
        by_key, asked = {self._key(problem): (problem, below) for problem, below in wanted}, []
        for key, (problem, below) in by_key.items():
            known = self.cost(problem)
            assert known is not None
            seconds = min(self._brief_seconds, solve_seconds(known, self.time_limit))
            request = value_request(problem, known, below, self.objective, seconds, self.padding)
            asked.append((key, problem, request))
        tasks = tasks_of(asked, self.arch)
        self._workers.run(tasks, lambda key, solved: self._receive(*by_key[key], solved), until)

    def _receive(self, problem: NodeProblem, below: int, solved: SolvedLayer) -> None:
        """Take over what the mapper found."""
        known = self.cost(problem)
        assert known is not None
        self.solves += 1
        cost = "-" if solved.mapping is None else f"{solved.cost}"
        self.report(f"{problem.layer.name}: cost {cost}, bound {solved.lower_bound}, {solved.solve_seconds:.1f} s")
        seconds = max(known.seconds, solved.solve_seconds)
        known = evolve(known, seconds=seconds, is_brief=self._brief_seconds < math.inf)
        if solved.mapping is not None:
            found = priced(problem, self.arch, self.objective, solved.mapping, known, solved.lower_bound or 0)
            self._keep_mapping(problem, evolve(found, is_tied=True))
        elif below < HIGHEST and (known.value is None or below < known.value):
            # No bound is left where nothing that costs less than `below` is left.
            least = below if solved.lower_bound is None else min(solved.lower_bound, below)
            self._keep(problem, evolve(known, least=max(known.least, least)))
        else:
            bound = None if solved.lower_bound is None else max(known.least, solved.lower_bound)
            self._keep(problem, None if bound is None else evolve(known, least=bound))

    def construct(self, problems: Iterable[NodeProblem], is_over: Callable[[], bool] = lambda: False) -> int:
        """Give problems without a mapping a good one that is found without a search; return to how many.

        They are kept. Several at a time with several jobs; none begins once `is_over` says so, but after a stop.
        """
        return self._builder.build(problems, self.cost, self._keep_mapping, is_over)

    def _keep_mapping(self, problem: NodeProblem, found: NodeCost) -> None:
        """Keep a mapping, in any layouts, too, if it is the best one there."""
        self._keep(problem, found)
        relaxed = self.cost(problem.relaxation)
        if found.mapping and relaxed and (relaxed.value is None or (found.value or 0) < relaxed.value):
            self._keep(problem.relaxation, priced(problem, self.arch, self.objective, found.mapping, relaxed))

    # --- Mappings of alike problems ----------------------------------------------------------------------------------

    def _transfer(self, problem: NodeProblem) -> None:
        """Take over the bound of the relaxation, and its mapping in the problem's layouts, if that is better."""
        known, relaxed = self.cost(problem), self.cost(problem.relaxation)
        if problem.is_free or known is None or known.is_proven:
            return
        if relaxed is None:
            self._keep(problem, None)
            return
        found = evolve(known, least=max(known.least, relaxed.least))
        for mapping in in_layouts(problem, relaxed.mapping, self.arch):
            candidate = priced(problem, self.arch, self.objective, mapping, found)
            if found.value is None or (candidate.value or 0) < found.value:
                found = evolve(candidate, seconds=max(found.seconds, relaxed.seconds), is_brief=relaxed.is_brief)
        if found.mapping is not None and found.mapping != known.mapping:
            verify_program(problem, found.mapping, self.arch)
        self._keep(problem, found)

    # --- The least energy at the least latency -----------------------------------------------------------------------

    def refine_energy(self, problem: NodeProblem) -> None:
        """Set the mapper's bound on the energy of mappings that cost no more than the one that is known."""
        known = self.cost(problem)
        if known is not None and known.is_solved and not known.least_energy_fj:
            self._keep(problem, evolve(known, least_energy_fj=self._bounds.energy(problem, self._budget(known))))

    def solve_energies(self, problems: Iterable[NodeProblem], until: float = math.inf) -> None:
        """Find the least energy of mappings that cost no more cycles than the ones that are known."""
        by_key, asked = {self._key(problem): problem for problem in problems}, []
        for key, problem in by_key.items():
            known = self.cost(problem)
            if known is not None and known.mapping is not None and not known.is_energy_proven:
                request = energy_request(problem, known.mapping, self._budget(known), self.time_limit, self.padding)
                asked.append((key, problem, request))
        tasks = tasks_of(asked, self.arch)
        self._workers.run(tasks, lambda key, solved: self._receive_energy(by_key[key], solved), until)

    def _receive_energy(self, problem: NodeProblem, solved: SolvedLayer) -> None:
        known = self.cost(problem)
        assert known is not None
        assert solved.mapping is not None
        self.solves += 1
        found = priced(problem, self.arch, self.objective, solved.mapping, known)
        self._keep(problem, evolve(found, least_energy_fj=max(known.least_energy_fj, solved.lower_bound or 0)))

    def _budget(self, known: NodeCost) -> Budget:
        return Budget(cycles=known.latency_cycles) if self.objective.weights[0] else NO_LIMIT
