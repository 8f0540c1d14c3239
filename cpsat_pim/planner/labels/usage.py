"""Bytes that a node needs at a step: what each option of a layer and each home adds (docs/array.md, section 6)."""

from typing import Any

import numpy as np
from attrs import define, field, frozen

from cpsat_pim.planner.additions import addition_of
from cpsat_pim.planner.capacity import home_bytes
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.options import At, LayerOptions


@frozen(kw_only=True)
class Spot:
    """A node at a step (both by number), whose bytes a plan must not exceed: a resource of label setting."""

    node: int
    step: int


@define(kw_only=True, eq=False)
class Usage:
    """Bytes on nodes, of a network whose layers run one after the other. What was counted is remembered."""

    instance: Instance
    _known: dict[Any, Any] = field(init=False, factory=dict)

    def homes(self, name: str, spot: Spot) -> np.ndarray:
        """Return the bytes at a spot of the tensors with a home, for each of its values: int64[values]."""
        key = ("home", name, spot)
        if key not in self._known:
            instance = self.instance
            homes = instance.homes[name]
            alive = instance.lives[name]
            self._known[key] = home_bytes(alive, instance.array.cols, homes, spot.node, spot.step)
        found: np.ndarray = self._known[key]
        return found

    def weights(self, options: LayerOptions, row: int, replicas: int, node: int) -> int:
        """Return the bytes of a layer's weights that a node holds all through."""
        key = (options.rows[row], replicas, "chunks")  # not by number: rows that were not looked at change places
        if key not in self._known:
            self._known[key] = options.step(row, replicas).weight_chunks()
        return int(self._known[key][node])

    def staged(self, options: LayerOptions, row: int, replicas: int, at: At, node: int) -> int:
        """Return the bytes that a layer's own step needs on a node besides weights and homes.

        0 for a row that was not looked at, which is a lower bound.
        """
        if row >= options.seen:
            return 0
        key = (options.rows[row], replicas, at)
        if key not in self._known:
            self._known[key] = self._staging(options, row, replicas, at)
        return int(self._known[key][node])

    def _staging(self, options: LayerOptions, row: int, replicas: int, at: At) -> np.ndarray:
        """Return the bytes on each node; phases do not depend on all of the homes, so they are counted once."""
        step, task = options.step(row, replicas), options.task
        key, known = (options.rows[row],), self._known
        added = addition_of(options.graph, task, task.finishes)
        second = options.others[at[1]] if options.others else None
        if (pull := (*key, "pull", at[:2])) not in known:
            known[pull] = step.pull(options.reads[at[0]], second)
        if (gather := (*key, "gather", replicas)) not in known:
            known[gather] = step.weights()
        if (push := (*key, "push", at[2])) not in known:
            known[push] = step.push(options.writes[at[2]], added)
        return step.staging(known[pull], known[gather], known[push])


def fullest_step(instance: Instance, usage: Usage) -> int:
    """Return the step at which tensors at home take most bytes on the first node, each at least."""
    spots = [Spot(node=instance.first_node, step=step) for step in range(len(instance.graph.tasks))]
    least = [sum(int(usage.homes(name, spot).min()) for name in instance.homes) for spot in spots]
    return int(np.argmax(least))
