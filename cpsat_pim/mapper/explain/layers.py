"""Layers explained: why one has no mapping, or what bounds the one it has, and what more of the machine would buy."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve, field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import interrupt_stops
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import verify
from cpsat_pim.mapper.bounds.countable import check_countable
from cpsat_pim.mapper.explain.bounds import Bounds, find_bounds
from cpsat_pim.mapper.explain.infeasible import Conflict, find_conflict
from cpsat_pim.mapper.explain.least import judge_least
from cpsat_pim.mapper.explain.limits import Problem
from cpsat_pim.mapper.explain.oracle import Oracle, violations
from cpsat_pim.mapper.explain.upgrades import Gain, Upgrade, find_gains
from cpsat_pim.mapper.network.run import Report, ignore_progress, solve_and_verify
from cpsat_pim.mapper.result import NO_LIMIT, Budget, Objective, SolvedLayer, Status
from cpsat_pim.mapper.search import Options
from cpsat_pim.mapping import Mapping as LayerMapping
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.mapping.constraints import FREE, Constraints, NetworkConstraints
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode


@frozen(kw_only=True)
class Explained:
    """An answer with its reasons: the `conflict` of a layer without a mapping, the `bounds` of a mapping, and what
    upgrades buy. `solved` is the mapping that is explained; one that was given has no bound.
    """

    solved: SolvedLayer
    conflict: Conflict | None = None
    bounds: Bounds | None = None
    gains: tuple[Gain, ...] = ()


@frozen(kw_only=True)
class Asked:
    """What is asked of every layer: the machine, what is to be least and within which `budget`, and which `upgrades` to
    try; `time_limit` seconds for each solve.
    """

    arch: PIMArchitecture
    objective: Objective
    budget: Budget = NO_LIMIT
    upgrades: Sequence[Upgrade] = ()
    time_limit: float = 60.0
    seed: int = 0
    stop: threading.Event = field(factory=threading.Event)
    report: Report = ignore_progress

    def problem(self, layer: ConvWorkload, constraints: Constraints = FREE) -> Problem:
        """A layer on the machine.

        Raises:
            ValueError: it costs more than can be counted.
        """
        problem = Problem(layer=layer, arch=self.arch, constraints=constraints, budget=self.budget)
        case = self.oracle(problem).only(frozenset()).problem()
        for line in check_fits(layer, case.arch) if case else ():
            raise ValueError(f"{layer.name} on {self.arch.name}: {line}")
        check_countable(layer, self.arch, self.objective)
        return problem

    def of(self, problem: Problem) -> dict[str, Any]:
        """The fields of an answer that say what it is of."""
        return {
            "workload": problem.layer,
            "arch": self.arch,
            "objective": self.objective,
            "constraints": problem.constraints,
            "budget": problem.budget,
        }

    def oracle(self, problem: Problem) -> Oracle:
        """What judges parts of a problem."""
        return Oracle(problem, time_limit=self.time_limit, seed=self.seed, stop=self.stop)

    def solve(self, problem: Problem, arch: PIMArchitecture, start: LayerMapping | None) -> SolvedLayer:
        """The problem on another machine, solved and simulated."""
        options = Options(
            time_limit=self.time_limit,
            seed=self.seed,
            stop=self.stop,
            start=start,
            constraints=problem.constraints,
            budget=problem.budget,
        )
        return solve_and_verify(problem.layer, arch, self.objective, options, self.report)


def explain_layer(
    layer: ConvWorkload, asked: Asked, constraints: Constraints = FREE, mapping: LayerMapping | None = None
) -> Explained:
    """A layer's least mapping with its reasons, or those of a `mapping` that is given.

    Raises:
        ValueError: the layer costs more than can be counted, or the mapping that is given is not legal or does not keep
            the constraints and the budget.
        Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
    """
    problem = asked.problem(layer, constraints)
    solved = _solved(problem, asked) if mapping is None else _given(problem, asked, mapping)
    if solved.status is Status.INFEASIBLE:
        return Explained(solved=solved, conflict=find_conflict(asked.oracle(problem)))
    if solved.mapping is None:
        return Explained(solved=solved)
    best, gains = _gains(problem, asked, solved)
    solved = solved if mapping else best
    assert solved.mapping is not None
    return Explained(solved=solved, bounds=find_bounds(layer, asked.arch, solved.mapping), gains=gains)


def _solved(problem: Problem, asked: Asked) -> SolvedLayer:
    """Solved, unless a look at the smallest mappings shows that there is none."""
    started = time.monotonic()
    if judge_least(problem).feasible is not False:
        return asked.solve(problem, asked.arch, None)
    seconds = time.monotonic() - started
    return SolvedLayer.known(None, None, solve_seconds=seconds, **asked.of(problem))


def _given(problem: Problem, asked: Asked, mapping: LayerMapping) -> SolvedLayer:
    """A mapping that nobody claims to be the best."""
    _check_given(problem, asked, mapping)
    prediction = predict(problem.layer, asked.arch, mapping)
    return SolvedLayer(
        status=Status.FEASIBLE,
        mapping=mapping,
        prediction=prediction,
        simulated=verify(problem.layer, asked.arch, mapping, prediction),
        **asked.of(problem),
    )


def _check_given(problem: Problem, asked: Asked, mapping: LayerMapping) -> None:
    if lines := violations(problem, mapping):
        raise ValueError("\n".join(f"{problem.layer.name} on {asked.arch.name}: {line}" for line in lines))


def _gains(problem: Problem, asked: Asked, solved: SolvedLayer) -> tuple[SolvedLayer, tuple[Gain, ...]]:
    """The best mapping, and what upgrades buy, as far as there is time; a mapping that was given is improved first."""
    if not asked.upgrades:
        return solved, ()
    base = asked.solve(problem, asked.arch, solved.mapping) if solved.bound is None else solved
    return find_gains(base, asked.upgrades, partial(asked.solve, problem), asked.budget, asked.stop.is_set)


# --- Networks --------------------------------------------------------------------------------------------------------


def explain_network(
    network: Network,
    asked: Asked,
    constraints: NetworkConstraints | None = None,
    mappings: Mapping[str, LayerMapping] | None = None,
) -> Iterator[tuple[NetworkNode, Explained]]:
    """Each layer, one after another, equal ones explained once; `mappings` are given ones by the names of layers.

    A stop, or Ctrl-C, ends it with what is known; layers not begun are then absent.

    Raises:
        ValueError, Disagreement: see `explain_layer`.
    """
    constraints, mappings = constraints or NetworkConstraints(), mappings or {}
    known: dict[tuple[str, LayerMapping | None], Explained] = {}
    for node in network.layers:
        if mapping := mappings.get(node.name):
            _check_given(asked.problem(node.workload, constraints.of(node.name)), asked, mapping)
    with interrupt_stops(asked.stop):
        for node in network.layers:
            mapping = mappings.get(node.name)
            key = (constraints.key(node.name, node.workload), mapping)
            if key not in known:
                if asked.stop.is_set():
                    return
                known[key] = explain_layer(node.workload, asked, constraints.of(node.name), mapping)
            yield node, _renamed(known[key], node)


def _renamed(explained: Explained, node: NetworkNode) -> Explained:
    return evolve(explained, solved=evolve(explained.solved, workload=node.workload))
