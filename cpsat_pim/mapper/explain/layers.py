"""Explain layers: why one has no mapping; what bounds the mapping of another, and what a larger machine would save."""

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
from cpsat_pim.mapper.explain.least import decide_least
from cpsat_pim.mapper.explain.limits import Problem
from cpsat_pim.mapper.explain.oracle import Oracle, violations
from cpsat_pim.mapper.explain.upgrades import Gain, Upgrade, find_gains
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import SolvedLayer, Status
from cpsat_pim.mapper.search import OnProgress, SolveRequest, ignore_progress
from cpsat_pim.mapping import Mapping as LayerMapping
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.mapping.constraints import FREE, Constraints, NetworkConstraints
from cpsat_pim.mapping.widths import on_machine
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode


@frozen(kw_only=True)
class Explained:
    """A result with its reasons: the `conflict` of a layer without a mapping; else the `bounds` of the mapping and
    the `gains` of upgrades. `solved`: the mapping that is explained; a given one has no lower bound.
    """

    solved: SolvedLayer
    conflict: Conflict | None = None
    bounds: Bounds | None = None
    gains: tuple[Gain, ...] = ()


@frozen(kw_only=True)
class ExplainRequest:
    """What is asked of every layer: the machine, the `upgrades` to try, and what each solve is asked (its constraints
    and start are replaced by the layer's own).
    """

    arch: PIMArchitecture
    solve: SolveRequest
    upgrades: Sequence[Upgrade] = ()
    stop: threading.Event = field(factory=threading.Event)
    on_progress: OnProgress = ignore_progress

    def problem(self, layer: ConvWorkload, constraints: Constraints = FREE) -> Problem:
        """Return the problem of a layer on the machine.

        Raises:
            ValueError: its cost may be too large to be counted.
        """
        problem = Problem(layer=layer, arch=self.arch, constraints=constraints, budget=self.solve.budget)
        case = self.oracle(problem).only(frozenset()).problem()
        for line in check_fits(layer, case.arch) if case else ():
            raise ValueError(f"{layer.name} on {self.arch.name}: {line}")
        check_countable(layer, self.arch, self.solve.objective)
        return problem

    def fields(self, problem: Problem) -> dict[str, Any]:
        """Return the fields of a result that describe the problem."""
        return {
            "workload": problem.layer,
            "arch": self.arch,
            "objective": self.solve.objective,
            "constraints": problem.constraints,
            "budget": problem.budget,
        }

    def oracle(self, problem: Problem) -> Oracle:
        """Return the oracle that decides which limits of a problem can be kept."""
        return Oracle(problem, self.solve, self.stop)

    def solved(self, problem: Problem, arch: PIMArchitecture, start: LayerMapping | None) -> SolvedLayer:
        """Solve a problem on another machine, and simulate the mapping."""
        solve = evolve(self.solve, start=start, constraints=problem.constraints, budget=problem.budget)
        return solve_and_verify(problem.layer, arch, solve, self.stop, self.on_progress)


def explain_layer(
    layer: ConvWorkload, request: ExplainRequest, constraints: Constraints = FREE, mapping: LayerMapping | None = None
) -> Explained:
    """Explain a layer's optimal mapping, or a given `mapping`.

    Raises:
        ValueError: the layer's cost may be too large to be counted; or the given mapping is not legal or breaks the
            constraints or the budget.
        Disagreement: a mapping is illegal, or some exact figure was predicted wrongly.
    """
    problem = request.problem(layer, constraints)
    solved = _solved(problem, request) if mapping is None else _given(problem, request, mapping)
    if solved.status is Status.INFEASIBLE:
        return Explained(solved=solved, conflict=find_conflict(request.oracle(problem)))
    if solved.mapping is None:
        return Explained(solved=solved)
    best, gains = _gains(problem, request, solved)
    solved = solved if mapping else best
    assert solved.mapping is not None
    return Explained(solved=solved, bounds=find_bounds(layer, request.arch, solved.mapping), gains=gains)


def _solved(problem: Problem, request: ExplainRequest) -> SolvedLayer:
    """Solve a problem, unless the smallest mappings prove that there is no mapping."""
    started = time.monotonic()
    if decide_least(problem).feasible is not False:
        return request.solved(problem, request.arch, None)
    seconds = time.monotonic() - started
    return SolvedLayer.concluded(None, None, solve_seconds=seconds, **request.fields(problem))


def _given(problem: Problem, request: ExplainRequest, mapping: LayerMapping) -> SolvedLayer:
    """Return a given mapping as a result without a lower bound."""
    _check_given(problem, request, mapping)
    prediction = predict(problem.layer, request.arch, mapping)
    return SolvedLayer(
        status=Status.FEASIBLE,
        mapping=mapping,
        prediction=prediction,
        simulated=verify(problem.layer, request.arch, mapping, prediction),
        **request.fields(problem),
    )


def _check_given(problem: Problem, request: ExplainRequest, mapping: LayerMapping) -> None:
    if lines := violations(problem, mapping):
        raise ValueError("\n".join(f"{problem.layer.name} on {request.arch.name}: {line}" for line in lines))


def _gains(problem: Problem, request: ExplainRequest, solved: SolvedLayer) -> tuple[SolvedLayer, tuple[Gain, ...]]:
    """Return the best mapping, and the gains of upgrades, while there is time; a given mapping is improved first."""
    if not request.upgrades:
        return solved, ()
    base = request.solved(problem, request.arch, solved.mapping) if solved.bound is None else solved
    return find_gains(base, request.upgrades, partial(request.solved, problem), problem.budget, request.stop.is_set)


# --- Networks --------------------------------------------------------------------------------------------------------


def explain_network(
    network: Network,
    request: ExplainRequest,
    constraints: NetworkConstraints | None = None,
    mappings: Mapping[str, LayerMapping] | None = None,
) -> Iterator[tuple[NetworkNode, Explained]]:
    """Explain each layer, one after another, equal ones once; `mappings`: given ones, by the names of layers.

    A stop, or Ctrl-C, ends it with what is known; layers that were not begun are then absent.

    Raises:
        ValueError, Disagreement: see `explain_layer`.
    """
    constraints, mappings = constraints or NetworkConstraints(), mappings or {}
    network = on_machine(network, request.arch)
    known: dict[tuple[str, LayerMapping | None], Explained] = {}
    for node in network.layers:
        if mapping := mappings.get(node.name):
            _check_given(request.problem(node.workload, constraints.of(node.name)), request, mapping)
    with interrupt_stops(request.stop):
        for node in network.layers:
            mapping = mappings.get(node.name)
            key = (constraints.key(node.name, node.workload), mapping)
            if key not in known:
                if request.stop.is_set():
                    return
                known[key] = explain_layer(node.workload, request, constraints.of(node.name), mapping)
            yield node, _renamed(known[key], node)


def _renamed(explained: Explained, node: NetworkNode) -> Explained:
    return evolve(explained, solved=evolve(explained.solved, workload=node.workload))
