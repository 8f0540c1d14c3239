"""The options that bounds leave: a staged problem small enough for label setting.

At a price of bytes the least cost of all plans that use an option (its min-marginal), less the price of the capacity,
bounds these plans. Options whose bound exceeds the trial value are dropped (variable fixing by Lagrangian costs).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import define, frozen

from cpsat_pim.planner.eliminate import INFINITE, Factor, TooLarge, project
from cpsat_pim.planner.instance import Instance
from cpsat_pim.planner.labels.stages import NOTHING, Path, Stage, StagedProblem, frontiers
from cpsat_pim.planner.labels.usage import Spot, Usage
from cpsat_pim.planner.options import At, LayerOptions
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.tensors import LayerTask
from cpsat_pim.planner.weighing import Price

#: Cells of a table whose options are made at a time.
_CELLS_AT_A_TIME = 256

#: More options than these would take gigabytes and minutes.
_MOST_OPTIONS = 3_000_000


@frozen(kw_only=True, eq=False)
class _Options:
    """What is left of a layer: cells int64[options, variables], cost (a bound where a row was not looked at), row,
    replicas.
    """

    variables: tuple[str, ...]
    cells: np.ndarray
    cost: np.ndarray
    row: np.ndarray
    replicas: np.ndarray


@frozen(kw_only=True)
class OptionUse:
    """An option of a path: a layer's options, the homes, the row and its replicas."""

    options: LayerOptions
    at: At
    row: int
    replicas: int


@define(kw_only=True, eq=False, init=False)
class ReducedProblem:
    """Options of all layers by which a plan within the first node's capacity may cost no more than a trial value."""

    instance: Instance
    options: list[_Options]
    _is_over: Callable[[], bool]
    _left_so_far: int

    def __init__(
        self, instance: Instance, price: Price, trial: int, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """`is_over()`: whether the time is up.

        Raises:
            TooLarge: options are too many, or the time is up before all were made.
        """
        self.instance, self._is_over, self._left_so_far = instance, is_over, 0
        limit = price.scale * trial + price.per_byte * max(0, instance.most_weight_bytes)
        factors = instance.factors(price)
        marginals = min_marginals(factors, instance.sizes)
        self.options = [
            self._left(task, factor, marginal, price, limit)
            for task, factor, marginal in zip(instance.graph.tasks, factors, marginals, strict=True)
        ]

    def _left(self, task: LayerTask, factor: Factor, marginal: np.ndarray, price: Price, limit: int) -> _Options:
        """Return the options of a layer whose bounds are within the limit."""
        cells = np.argwhere(marginal <= limit)
        at = tuple(cells.T)
        allowed = limit - (marginal[at] - factor.cost[at])
        made = [_nothing(len(factor.variables))]
        for start in range(0, len(cells), _CELLS_AT_A_TIME):
            part = cells[start : start + _CELLS_AT_A_TIME]
            homes = self._roles(task, factor.variables, part)
            room = allowed[start : start + _CELLS_AT_A_TIME]
            which, *rest = _priced(self.instance.options[task.name], homes, room, price)
            self._count(len(which))
            made.append((part[which], *rest))
        own, cost, row, replicas = (np.concatenate(parts) for parts in zip(*made, strict=True))
        return _Options(variables=factor.variables, cells=own, cost=cost, row=row, replicas=replicas)

    def _count(self, made: int) -> None:
        """Raise TooLarge if options are too many, or the time is up."""
        self._left_so_far += made
        if self._left_so_far > _MOST_OPTIONS or self._is_over():
            raise TooLarge(f"{self._left_so_far} options or more cost no more than the trial value")

    def _roles(self, task: LayerTask, variables: Sequence[str], cells: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the indices of what a layer reads, of what takes the place of W and of what it writes."""
        reads, *second, writes = (cells[:, variables.index(name)] for name in self.instance.roles(task))
        return reads, second[0] if second else np.zeros_like(reads), writes

    def staged(self, spots: Sequence[Spot], usage: Usage) -> StagedProblem:
        """Return the problem whose resources are bytes at some spots."""
        tasks, seen = self.instance.graph.tasks, set[str]()
        stages = []
        for number, (task, options) in enumerate(zip(tasks, self.options, strict=True)):
            columns = [self._used(task, number, options, spot, usage, seen) for spot in spots]
            used = np.stack(columns, axis=-1) if columns else np.zeros((len(options.cost), 0), dtype=np.int64)
            stages.append(Stage(variables=options.variables, cells=options.cells, cost=options.cost, usage=used))
            seen |= set(options.variables)
        capacity = np.full(len(spots), self.instance.array.capacity_bytes, dtype=np.int64)
        return StagedProblem(stages=stages, sizes=self.instance.sizes, capacity=capacity)

    def _used(
        self, task: LayerTask, number: int, options: _Options, spot: Spot, usage: Usage, seen: set[str]
    ) -> np.ndarray:
        """Return the bytes that each option takes at a spot, with those of homes that no earlier layer depends on."""
        own = self.instance.options[task.name]
        pairs, of_pair = np.unique(np.stack([options.row, options.replicas], axis=-1), axis=0, return_inverse=True)
        held = [usage.weights(own, int(row), int(replicas), spot.node) for row, replicas in pairs]
        used = np.array(held, dtype=np.int64)[of_pair.reshape(-1)] if len(pairs) else np.zeros(0, dtype=np.int64)
        for i, name in enumerate(options.variables):
            if name not in seen:
                used += usage.homes(name, spot)[options.cells[:, i]]
        if spot.step == number:
            at = zip(*self._roles(task, options.variables, options.cells), strict=True)
            for i, (row, replicas, cell) in enumerate(zip(options.row, options.replicas, at, strict=True)):
                place = (int(cell[0]), int(cell[1]), int(cell[2]))
                used[i] += usage.staged(own, int(row), int(replicas), place, spot.node)
        return used

    def uses(self, path: Path) -> list[OptionUse]:
        """Return what a path uses of each layer."""
        found = []
        for task, options, i in zip(self.instance.graph.tasks, self.options, path.options, strict=True):
            at = self._roles(task, options.variables, options.cells[i : i + 1])
            found.append(
                OptionUse(
                    options=self.instance.options[task.name],
                    at=(int(at[0][0]), int(at[1][0]), int(at[2][0])),
                    row=int(options.row[i]),
                    replicas=int(options.replicas[i]),
                )
            )
        return found

    def plan(self, path: Path) -> Plan:
        """Return the plan of a path whose node problems are solved."""
        values: dict[str, int] = {}
        for options, i in zip(self.options, path.options, strict=True):
            values |= dict(zip(options.variables, map(int, options.cells[i]), strict=True))
        layers = {
            task.name: self.instance.layer(use.options, *use.options.option(use.row, use.replicas, use.at))
            for task, use in zip(self.instance.graph.tasks, self.uses(path), strict=True)
        }
        return self.instance.assembled(layers, {name: self.instance.homes[name][at] for name, at in values.items()})


def min_marginals(factors: Sequence[Factor], sizes: dict[str, int]) -> list[np.ndarray]:
    """Return the least sum of all factors for each entry of each of them."""
    ends = frontiers([factor.variables for factor in factors])
    before, behind = [NOTHING], [NOTHING]
    for factor, end in zip(factors, ends[1:], strict=True):
        before.append(_least([before[-1], factor], sizes, end))
    for factor, end in zip(reversed(factors), reversed(ends[:-1]), strict=True):
        behind.append(_least([behind[-1], factor], sizes, end))
    around = zip(before[:-1], factors, reversed(behind[:-1]), strict=True)
    return [_least(list(three), sizes, three[1].variables).cost for three in around]


def _least(factors: Sequence[Factor], sizes: dict[str, int], keep: Sequence[str]) -> Factor:
    names = {name: sizes[name] for factor in factors for name in factor.variables}
    return project(factors, names, keep).factor


def _nothing(variables: int) -> tuple[np.ndarray, ...]:
    none = np.zeros(0, dtype=np.int64)
    return np.zeros((0, variables), dtype=np.int64), none, none, none


def _priced(
    options: LayerOptions, at: tuple[np.ndarray, ...], allowed: np.ndarray, price: Price
) -> tuple[np.ndarray, ...]:
    """Return what costs no more than is allowed at each of some homes: which of them, cost, row, replicas."""
    most, floors = int(allowed.max(initial=0)), options.floors(price)
    rest = options.seen + np.flatnonzero(floors <= most)
    rows = [*range(options.seen), *rest.tolist()]
    bounds = np.array([options.rows[row].floor for row in rest], dtype=np.int64)
    cost = np.concatenate([options.costs_of(*at), np.repeat(bounds[:, None], len(allowed), axis=1)])
    every: list[tuple[Any, ...]] = [
        (i, row, one.replicas, one.cost, one.node_bytes)
        for i, row in enumerate(rows)
        for one in options.replications(row)
    ]
    index, row, replicas, gather, held = np.array(every, dtype=np.int64).reshape(-1, 5).T
    priced = price.scale * np.minimum(cost[index] + gather[:, None], INFINITE // price.scale)
    option, cell = np.nonzero(priced + price.per_byte * held[:, None] <= allowed)
    return cell, cost[index[option], cell] + gather[option], row[option], replicas[option]
