"""The same space as a CP-SAT model: splits by tables, products by multiplication, costs by a table of exact walks.

The sweep enumerates; this model states the rules instead: which splits fit the channels, how an axis multiplies the
cores of its class, how extents divide. Both must find the same optimum. It is meant for tests and small kernels: its
cost table walks every cut.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import frozen

from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.mapping.contraction import DEPTH
from cpsat_pim.compiler.search.space import SpaceOf, distinct_parts, space_of
from cpsat_pim.compiler.solving import finds_solution
from cpsat_pim.compiler.target import Target
from tables.commands.steps import ceiling
from tables.commands.sweep import best_tiling, is_legal, share_of


@frozen
class ModelOptimum:
    """What CP-SAT proved: the least picoseconds, and whether the status was OPTIMAL."""

    time_ps: int
    is_proven: bool


@frozen
class Facts:
    """What the model is told of a device and a contraction.

    `owners` that are possible, with the number of their pattern of moves; `costs`: (elements of each class a core,
    pattern, 1 for lanes along the depth, least ticks) of every cut that can be run; `host_ps` by the parts of the
    depth.
    """

    axes: tuple[int, ...]
    axis_names: tuple[str, ...]
    owners: tuple[tuple[int, ...], ...]
    patterns: tuple[int, ...]
    costs: tuple[tuple[int, ...], ...]
    host_ps: Mapping[int, int]
    tick_ps: int


def solve_as_model(contraction: Contraction, target: Target, channels: int, seconds: float = 60.0) -> ModelOptimum:
    """The least time of a contraction on AttAcc by CP-SAT.

    Raises:
        ValueError: the model is malformed.
    """
    space = space_of(contraction, target, channels)
    extra = {split[DEPTH]: int(ps) for split, ps in zip(space.splits, space.arrays.extra, strict=True)}
    patterns, costs = tuple(_patterns(space)), tuple(_costs(space, target))
    facts = Facts(target.axes, target.axis_names, space.owners, patterns, costs, extra, target.device.tick_ps)
    return solve_facts(facts, contraction.extents, channels, seconds)


def solve_facts(facts: Facts, extents: tuple[int, ...], channels: int, seconds: float = 60.0) -> ModelOptimum:
    """The least time by CP-SAT.

    Raises:
        ValueError: the model is malformed.
    """
    from ortools.sat.python import cp_model

    model = _Model(cp_model, facts, extents, channels)
    solver = cp_model.CpSolver()
    finds_solution(model.model, solver, seconds)
    return ModelOptimum(round(solver.objective_value), solver.status_name() == "OPTIMAL")


class _Model:
    """Variables and constraints; each method is one rule."""

    def __init__(self, cp_model: Any, facts: Facts, extents: tuple[int, ...], channels: int) -> None:
        self.model = cp_model.CpModel()
        self.facts, self.extents, self.channels = facts, extents, channels
        self.part_vars = [self._int(1, channels, f"parts of {name}") for name in CLASSES]
        self.extent_vars = [self._int(1, n, f"elements of {n}") for n in extents]
        self.owner_vars = [self._int(-1, len(CLASSES) - 1, f"owner of {name}") for name in facts.axis_names]
        self.tree_var = self.model.new_bool_var("lanes along the depth")
        self.pattern_var = self._int(0, max(facts.patterns), "pattern of moves")
        self._splits_fit_channels()
        self._cores_divide_chunks()
        self._owners_are_possible()
        self._minimize_time()

    def _int(self, least: int, most: int, name: str) -> Any:
        return self.model.new_int_var(least, most, name)

    def _splits_fit_channels(self) -> None:
        """The product of the parts of all classes is at most the channels."""
        product = self.part_vars[0]
        for part in self.part_vars[1:]:
            larger = self._int(1, self.channels, "")
            self.model.add_multiplication_equality(larger, [product, part])
            product = larger

    def _cores_divide_chunks(self) -> None:
        """Elements a core: those a channel over the product of the axes of the class, rounded up."""
        for number, extent in enumerate(self.extents):
            rows = [(parts, ceiling(extent, parts)) for parts in distinct_parts(extent, self.channels)]
            chunk = self._int(1, extent, "")
            self.model.add_allowed_assignments([self.part_vars[number], chunk], rows)
            cores = self._cores_of(number)
            padded = self._int(1, extent + int(np.prod(self.facts.axes)), "")
            self.model.add(padded == chunk + cores - 1)
            self.model.add_division_equality(self.extent_vars[number], padded, cores)

    def _cores_of(self, number: int) -> Any:
        """The product of the sizes of the axes that a class owns."""
        product = None
        for owner, size in zip(self.owner_vars, self.facts.axes, strict=True):
            factor = self._int(1, size, "")
            rows = [(c, size if c == number else 1) for c in range(-1, len(CLASSES))]
            self.model.add_allowed_assignments([owner, factor], rows)
            if product is None:
                product = factor
                continue
            larger = self._int(1, int(np.prod(self.facts.axes)), "")
            self.model.add_multiplication_equality(larger, [product, factor])
            product = larger
        return product

    def _owners_are_possible(self) -> None:
        """Owners as the device allows, with the number of their pattern of moves."""
        rows = [(*owners, pattern) for owners, pattern in zip(self.facts.owners, self.facts.patterns, strict=True)]
        self.model.add_allowed_assignments([*self.owner_vars, self.pattern_var], rows)

    def _minimize_time(self) -> None:
        """Ticks by the table of exact walks, and the host's picoseconds by the parts of the depth."""
        table = list(self.facts.costs)
        ticks = self._int(0, max(row[-1] for row in table), "ticks")
        self.model.add_allowed_assignments([*self.extent_vars, self.pattern_var, self.tree_var, ticks], table)
        host = self._int(0, max(self.facts.host_ps.values()), "host")
        self.model.add_allowed_assignments([self.part_vars[DEPTH], host], list(self.facts.host_ps.items()))
        self.model.minimize(ticks * self.facts.tick_ps + host)


def _patterns(space: SpaceOf) -> list[int]:
    """For every owner, the number of its pattern: owners whose moves are the same cost the same."""
    arrays = space.arrays
    keys = [
        (arrays.drains[at, : arrays.drain_moves[at]].tobytes(), arrays.loads[at, : arrays.load_moves[at]].tobytes())
        for at in range(len(space.owners))
    ]
    numbers: dict[tuple[bytes, bytes], int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _costs(space: SpaceOf, target: Target) -> list[tuple[int, ...]]:
    """(elements of each class a core, pattern, tree, least ticks) of every cut that can be run."""
    patterns, found = _patterns(space), {}
    for split in range(len(space.splits)):
        for owner, pattern in enumerate(patterns):
            for is_tree in range(2):
                share = share_of(space.arrays, split, owner, is_tree)
                key = (share.batches, share.shared, share.outputs, share.depth, pattern, is_tree)
                if key not in found and is_legal(space.arrays, target.timing, share):
                    found[key] = int(best_tiling(space.arrays, target.timing, share, owner)[0])
    return [(*key, ticks) for key, ticks in found.items()]
