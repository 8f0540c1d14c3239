"""The lower bound of the linear relaxation, with numbers that prove it.

The relaxation asks for the least heaviest load of fractional rings: every node is left once and entered once, and every
part of a set that a solution cuts off is left at least once (subtour constraints, added as they are violated). Its dual
gives link weights, and of each set the numbers of a `SetProof`. They are floating-point numbers here, so they are
scaled and rounded to integers, and the numbers of the entered nodes are computed anew as what the routes leave over:
the proof holds exactly, whatever the LP solver returned.
"""

import math
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from attrs import frozen
from ortools.linear_solver.python import model_builder  # pywraplp may crash on import once PyArrow is loaded

from cpsat_pim.planner.rings.certificate import LinkWeights, SetProof
from cpsat_pim.planner.rings.instance import Instance
from cpsat_pim.planner.rings.routes import Ints, route

#: Dual values are multiplied by this and rounded.
_SCALE = 10**6

Part: TypeAlias = tuple[int, frozenset[int]]
"""A set's number and some of its nodes."""


@frozen(kw_only=True)
class RelaxationLimits:
    """Arcs: beyond these the relaxation is not built (GLOP took 20 s and more). Rounds of subtour constraints."""

    arcs: int = 20_000
    rounds: int = 30
    seconds: float = 60.0


class _Relaxation:
    """The linear program of an instance; constraints on parts come one by one."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.model = model_builder.Model()  # type: ignore[no-untyped-call]
        self.solver = model_builder.Solver("GLOP")
        self.load = self._variable()
        self.arcs = {
            (s, a, b): self._variable() for s, nodes in enumerate(instance.sets) for a in nodes for b in nodes if a != b
        }
        self.links = [self._row(0, math.inf) for _ in range(instance.mesh.links)]
        self.leaving = {node: self._row(1, 1) for nodes in instance.sets for node in nodes}
        self.entering = {node: self._row(1, 1) for nodes in instance.sets for node in nodes}
        self.parts: dict[Part, Any] = {}
        self._connect()
        self.model.minimize(self.load)

    def _variable(self) -> Any:
        return self.model.new_num_var(0, math.inf, "")

    def _row(self, least: float, most: float) -> Any:
        return self.model.add_linear_constraint(0, least, most)

    def solve(self, seconds: float) -> bool:
        """Whether the optimum was found in time."""
        self.solver.set_time_limit_in_seconds(seconds)
        return bool(self.solver.solve(self.model) == model_builder.SolveStatus.OPTIMAL)

    def _connect(self) -> None:
        """Every arc is counted on the links of its route and at its ends."""
        for link in self.links:
            link.add_term(self.load, 1)
        for (_, a, b), arc_var in self.arcs.items():
            self.leaving[a].add_term(arc_var, 1)
            self.entering[b].add_term(arc_var, 1)
            for link in route(self.instance.mesh, a, b):
                self.links[link].add_term(arc_var, -1)

    def add_part(self, part: Part) -> None:
        """The ring of a set leaves a part of it."""
        s, inside = part
        self.parts[part] = row = self._row(1, math.inf)
        for a in inside:
            for b in self.instance.sets[s]:
                if b not in inside:
                    row.add_term(self.arcs[s, a, b], 1)

    def cut_off(self) -> list[Part]:
        """Parts that the solution does not leave at all, and that are not constrained yet."""
        found = []
        for s, nodes in enumerate(self.instance.sets):
            used = [(a, b) for a in nodes for b in nodes if a != b and self.solver.value(self.arcs[s, a, b]) > 1e-6]
            found += [(s, part) for part in _components(nodes, used) if len(part) < len(nodes)]
        return [part for part in found if part not in self.parts]


def _components(nodes: Sequence[int], pairs: Sequence[tuple[int, int]]) -> list[frozenset[int]]:
    """Nodes that are joined by pairs, directly or not."""
    label = {node: node for node in nodes}
    for a, b in pairs:
        if label[a] != label[b]:
            old, new = label[a], label[b]
            label = {node: new if name == old else name for node, name in label.items()}
    return [frozenset(n for n in nodes if label[n] == name) for name in sorted(set(label.values()))]


def relaxation_bound(instance: Instance, limits: RelaxationLimits) -> LinkWeights | None:
    """Return the certificate of the relaxation's bound, or None if it is too large or was not solved in time."""
    if sum(len(nodes) * (len(nodes) - 1) for nodes in instance.sets) > limits.arcs:
        return None
    end = time.monotonic() + limits.seconds
    relaxation = _Relaxation(instance)
    best = None
    for _ in range(limits.rounds):
        left = end - time.monotonic()
        if left <= 0:
            break
        if not relaxation.solve(left):
            break
        found = _rounded(relaxation)
        if found is not None and (best is None or found.ratio > best.ratio):
            best = found
        parts = relaxation.cut_off()
        if not parts:
            break
        for part in parts:
            relaxation.add_part(part)
    return best


def _rounded(relaxation: _Relaxation) -> LinkWeights | None:
    """The dual solution as integers that prove a bound; None if all weights are rounded to 0."""
    dual = relaxation.solver.dual_value
    weights = np.array([max(0, round(dual(link) * _SCALE)) for link in relaxation.links], np.int64)
    if not weights.any():
        return None
    proofs = [_proof(relaxation, s, nodes, weights) for s, nodes in enumerate(relaxation.instance.sets)]
    return LinkWeights(weights=tuple(weights.tolist()), proofs=tuple(proofs))


def _proof(relaxation: _Relaxation, s: int, nodes: Sequence[int], weights: Ints) -> SetProof:
    """Of one set: rounded numbers, and for each entered node the most that all routes to it leave over."""
    mesh, dual = relaxation.instance.mesh, relaxation.solver.dual_value
    length = np.array([[weights[route(mesh, a, b)].sum() if a != b else 0 for b in nodes] for a in nodes], np.int64)
    parts = []
    for (owner, inside), row in relaxation.parts.items():
        value = max(0, round(dual(row) * _SCALE))
        if owner == s and value:
            is_inside = np.array([node in inside for node in nodes])
            length = length - value * np.outer(is_inside, ~is_inside)
            parts.append((tuple(sorted(inside)), value))
    leaving = np.array([round(dual(relaxation.leaving[node]) * _SCALE) for node in nodes], np.int64)
    left_over = length - leaving[:, None]
    np.fill_diagonal(left_over, np.iinfo(np.int64).max)
    entering = left_over.min(axis=0)
    return SetProof(leaving=tuple(leaving.tolist()), entering=tuple(entering.tolist()), parts=tuple(parts))
