"""CP-SAT: are there rings of which no link carries more than a load? Asked for one load at a time.

Minimising the heaviest load in one model proves next to nothing; with the load fixed, each link is one short
constraint, at load 1 an `add_at_most_one`.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from attrs import frozen
from ortools.sat.python import cp_model

from cpsat_pim.planner.rings.instance import Instance
from cpsat_pim.planner.rings.routes import Ring, route


@frozen(kw_only=True)
class Answer:
    """Rings of the load asked for, or none; `is_proven` if there are none at all."""

    rings: tuple[tuple[int, ...], ...] | None
    is_proven: bool
    seconds: float


@frozen(kw_only=True)
class FeasibilityLimits:
    """Arcs of all sets together, beyond which no model is built; seconds and workers of the solver."""

    arcs: int = 20_000
    seconds: float = 10.0
    workers: int = 1


class _Model:
    """One circuit a set, one capacity a link."""

    def __init__(self, instance: Instance, load: int) -> None:
        self.model = cp_model.CpModel()
        self.instance = instance
        self.arcs = {
            (a, b): self.model.new_bool_var("") for nodes in instance.sets for a in nodes for b in nodes if a != b
        }
        self._close_rings()
        self._limit_links(load)

    def _close_rings(self) -> None:
        for nodes in self.instance.sets:
            index = {node: i for i, node in enumerate(nodes)}
            self.model.add_circuit([(index[a], index[b], self.arcs[a, b]) for a in nodes for b in nodes if a != b])

    def _limit_links(self, load: int) -> None:
        users = defaultdict(list)
        for (a, b), arc_var in self.arcs.items():
            for link in route(self.instance.mesh, a, b):
                users[link].append(arc_var)
        for arc_vars in users.values():
            if load == 1:
                self.model.add_at_most_one(arc_vars)
            else:
                self.model.add(sum(arc_vars) <= load)

    def add_hint(self, rings: Sequence[Ring]) -> None:
        """Start from rings of a higher load."""
        used = {(ring[i - 1], node) for ring in rings for i, node in enumerate(ring)}
        for arc, arc_var in self.arcs.items():
            self.model.add_hint(arc_var, arc in used)


def find_rings(
    instance: Instance, load: int, limits: FeasibilityLimits, hint: Sequence[Ring] = (), seed: int = 0
) -> Answer | None:
    """Return CP-SAT's answer, or None if the model would be too large."""
    if sum(len(nodes) * (len(nodes) - 1) for nodes in instance.sets) > limits.arcs:
        return None
    model = _Model(instance, load)
    if hint:
        model.add_hint(hint)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limits.seconds
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = seed
    status: Any = solver.solve(model.model)
    has_rings = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    rings = _rings(instance, model, solver) if has_rings else None
    return Answer(rings=rings, is_proven=status == cp_model.INFEASIBLE, seconds=solver.wall_time)


def _rings(instance: Instance, model: _Model, solver: cp_model.CpSolver) -> tuple[tuple[int, ...], ...]:
    """Follow the chosen arcs of each set from its first node."""
    following = {a: b for (a, b), arc_var in model.arcs.items() if solver.boolean_value(arc_var)}
    return tuple(_follow(following, nodes[0], len(nodes)) for nodes in instance.sets)


def _follow(following: dict[int, int], start: int, length: int) -> tuple[int, ...]:
    ring = [start]
    while len(ring) < length:
        ring.append(following[ring[-1]])
    return tuple(ring)
