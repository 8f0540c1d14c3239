"""What it costs to run the branches of a block side by side, for all homes of the tensors outside of it.

Given these homes the branches are independent, so the least time of a set of branches on a rectangle is that of the
better of two ways: one branch after the other, or the rectangle cut in two, each part with some of the branches, and
the time of the slower part. This recursion is exact over all slicing trees. What links carry for several branches
together is left out, so the result is a lower bound of the segment's time; the plan's own cost has it.

Branches whose costs on a rectangle were not computed have a bound that depends on the rectangle's size alone.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cpsat_pim.planner.array import Region
from cpsat_pim.planner.branches.blocks import Block
from cpsat_pim.planner.branches.cuts import Leaf, divisions, halves, members
from cpsat_pim.planner.eliminate import INFINITE, Factor, Projection, add, project
from cpsat_pim.planner.options import At, LayerOptions
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.tensors import LayerTask

#: Makes the options of a layer on a rectangle, with given homes of the tensors that lie there.
MakeOptions = Callable[[LayerTask, Region, dict[str, list[Home]]], LayerOptions]
#: Makes the factor of a layer's table, and says which homes of given values it is about.
MakeFactor = Callable[[LayerTask, np.ndarray], Factor]
Locate = Callable[[LayerTask, dict[str, int]], At]


class Branch:
    """One branch on one rectangle: options of its layers, and homes of the tensors that only it touches."""

    def __init__(self, tasks: list[LayerTask], homes: dict[str, list[Home]], options: list[LayerOptions]) -> None:
        self.tasks, self.homes, self.options = tasks, homes, options
        #: No partition's node programs cost less, wherever the rectangle lies.
        self.node_floor = min(INFINITE, sum(one.least_floor for one in options))
        self._known: dict[bool, tuple[tuple[int, ...], list[np.ndarray], Projection]] = {}

    def projection(self, upper: bool, sizes: dict[str, int], factor: MakeFactor) -> Projection:
        """Return its cost over the homes outside, least over those inside; the last one if no table has changed."""
        tables = [options.table(upper) for options in self.options]
        key = tuple(id(table) for table in tables)
        known = self._known.get(upper)
        if known is None or known[0] != key:
            factors = [factor(task, table) for task, table in zip(self.tasks, tables, strict=True)]
            own = {name: len(homes) for name, homes in self.homes.items()}
            touched = dict.fromkeys(name for one in factors for name in one.variables)
            outer = tuple(name for name in touched if name not in own)
            found = project(factors, own | {name: sizes[name] for name in outer}, outer)
            known = self._known[upper] = (key, tables, found)
        return known[2]


class Parallel:
    """The ways to run a block's branches side by side on the array.

    `sizes`: number of homes outside by name. `joins`: cost of the sums that are made at the end, over these homes.
    """

    def __init__(
        self,
        block: Block,
        tasks: dict[str, LayerTask],
        whole: Region,
        step: int,
        sizes: dict[str, int],
        joins: list[Factor],
        macs_per_cycle: int,
        make_options: MakeOptions,
        inner_homes: Callable[[str, Region], list[Home]],
        factor: MakeFactor,
        locate: Locate,
    ) -> None:
        self.block, self.whole, self.step, self.sizes = block, whole, step, sizes
        self.tasks, self.joins, self.macs_per_cycle = tasks, joins, macs_per_cycle
        self._make_options, self._inner_homes, self._factor, self._locate = make_options, inner_homes, factor, locate
        self._branches: dict[tuple[int, Region], Branch] = {}
        #: The last table by `upper`, with what it was made of.
        self._tables: dict[bool, tuple[list[Any], Factor]] = {}

    @property
    def all(self) -> int:
        """The mask of all branches."""
        return (1 << len(self.block.branches)) - 1

    @property
    def options(self) -> Iterator[LayerOptions]:
        """All options made so far."""
        for branch in self._branches.values():
            yield from branch.options

    # --- Costs -------------------------------------------------------------------------------------------------------

    def table(self, upper: bool, ceiling: int) -> Factor:
        """Return the cost over the homes outside; ways whose cost is at least `ceiling` everywhere may be left out."""
        made_of = [ceiling, *(one.projection(upper, self.sizes, self._factor) for one in self._branches.values())]
        known = self._tables.get(upper)
        if known is None or not _are_same(known[0], made_of):
            known = self._tables[upper] = (made_of, self._table(upper, ceiling))
        return known[1]

    def _table(self, upper: bool, ceiling: int) -> Factor:
        found = _Ways(self, upper, ceiling).best(self.whole, self.all)
        shape = tuple(self.sizes[name] for name in self.block.outer)
        cost, tie = (np.broadcast_to(values, shape).copy() for values in found)
        return add([Factor(variables=self.block.outer, cost=cost, tie=tie), *self.joins], self.block.outer, self.sizes)

    def leaves(self, values: dict[str, int], upper: bool) -> list[Leaf]:
        """Return the leaves of the best way for given homes outside."""
        at = tuple(values[name] for name in self.block.outer)
        return _Ways(self, upper, INFINITE).trace(self.whole, self.all, at)

    def leaf(self, number: int, region: Region, upper: bool) -> tuple[Any, Any]:
        """Return (cost, tie) of a branch on a rectangle over the homes outside, or a bound for all homes."""
        branch = self._branches.get((number, region))
        if branch is None:
            return (INFINITE, INFINITE) if upper else (self._floor(number, region), 0)
        factor = branch.projection(upper, self.sizes, self._factor).factor
        found = add([factor], self.block.outer, self._unit_sizes(branch, upper))
        return found.cost, found.tie if upper else np.zeros_like(found.tie)

    def _unit_sizes(self, branch: Branch, upper: bool) -> dict[str, int]:
        """Return the sizes of a branch's own axes, and 1 for the homes that it does not touch."""
        touched = branch.projection(upper, self.sizes, self._factor).factor.variables
        return {name: self.sizes[name] if name in touched else 1 for name in self.block.outer}

    def _floor(self, number: int, region: Region) -> int:
        """Return a bound from the rectangle's size: all its PEs at work, or the floors known of an equal rectangle."""
        macs = (self.tasks[name].workload.macs for name in self.block.branches[number])
        plain = sum(-(-count // (region.size * self.macs_per_cycle)) for count in macs)
        place = (number, region.h, region.w)
        alike = [one.node_floor for (n, r), one in self._branches.items() if (n, r.h, r.w) == place]
        return max(plain, *alike, 0)

    # --- Tightening --------------------------------------------------------------------------------------------------

    def missing(self, leaves: list[Leaf]) -> list[tuple[int, Region]]:
        """Return the branches of leaves whose costs were not computed."""
        pairs = [(number, leaf.region) for leaf in leaves for number in members(leaf.mask)]
        return [pair for pair in pairs if pair not in self._branches]

    def compute(self, number: int, region: Region, batch: int) -> None:
        """Compute the costs of a branch on a rectangle."""
        names = self.block.branches[number]
        tasks = [self.tasks[name] for name in names]
        homes = {name: self._inner_homes(name, region) for name in self.block.inner[number]}
        options = [self._make_options(task, region, homes) for task in tasks]
        for one in options:
            one.look_at(batch)
        self._branches[number, region] = Branch(tasks, homes, options)

    def uses(self, leaves: list[Leaf], values: dict[str, int], upper: bool) -> Iterator[tuple[str, LayerOptions, At]]:
        """Yield by layer the options that computed leaves use, with the homes they are used at."""
        for leaf in leaves:
            for number in members(leaf.mask):
                branch = self._branches.get((number, leaf.region))
                if branch is not None:
                    inside = branch.projection(upper, self.sizes, self._factor).values(values)
                    for task, options in zip(branch.tasks, branch.options, strict=True):
                        yield task.name, options, self._locate(task, inside)

    def homes(self, leaves: list[Leaf], values: dict[str, int], upper: bool) -> dict[str, Home]:
        """Return the homes inside."""
        found: dict[str, Home] = {}
        for leaf in leaves:
            for number in members(leaf.mask):
                branch = self._branches[number, leaf.region]
                inside = branch.projection(upper, self.sizes, self._factor).values(values)
                found |= {name: homes[inside[name]] for name, homes in branch.homes.items()}
        return found


class _Ways:
    """The recursion over rectangles and sets of branches, remembered."""

    def __init__(self, parallel: Parallel, upper: bool, ceiling: int) -> None:
        self.parallel, self.upper, self.ceiling = parallel, upper, ceiling
        self._known: dict[tuple[Region, int], tuple[Any, Any]] = {}
        self._leaves: dict[tuple[int, Region], tuple[Any, Any]] = {}

    def best(self, region: Region, mask: int) -> tuple[Any, Any]:
        """Return the least (cost, tie) of a set of branches on a rectangle, over the homes outside."""
        key = (region, mask)
        if key not in self._known:
            least = self._serial(region, mask)
            for one, other in self._cuts(region, mask):
                a, b = self.best(*one), self.best(*other)
                if max(np.min(a[0]), np.min(b[0])) < self.ceiling:
                    least = _least(least, _side_by_side(a, b))
            self._known[key] = least
        return self._known[key]

    def _cuts(self, region: Region, mask: int) -> Iterator[tuple[tuple[Region, int], tuple[Region, int]]]:
        if mask & (mask - 1):
            for first, second in halves(region, self.parallel.step):
                for part, rest in divisions(mask):
                    yield (first, part), (second, rest)

    def _serial(self, region: Region, mask: int) -> tuple[Any, Any]:
        """Return the cost of branches one after the other; all of them on the whole array are no segment of regions."""
        if (region, mask) == (self.parallel.whole, self.parallel.all):
            return INFINITE, INFINITE
        cost, tie = 0, 0
        for number in members(mask):
            key = (number, region)
            if key not in self._leaves:
                self._leaves[key] = self.parallel.leaf(number, region, self.upper)
            cost, tie = cost + self._leaves[key][0], tie + self._leaves[key][1]
        return np.minimum(cost, INFINITE), np.minimum(tie, INFINITE)

    def trace(self, region: Region, mask: int, at: tuple[int, ...]) -> list[Leaf]:
        """Return the leaves of a best way for given homes outside."""
        goal = _pair(self.best(region, mask), at)
        if _pair(self._serial(region, mask), at) == goal and (region, mask) != (self.parallel.whole, self.parallel.all):
            return [Leaf(region, mask)]
        for one, other in self._cuts(region, mask):
            pair = _side_by_side(*(_pair(self.best(*side), at) for side in (one, other)))
            if (int(pair[0]), int(pair[1])) == goal:
                return self.trace(*one, at) + self.trace(*other, at)
        raise AssertionError("no way has the least cost")


def _are_same(known: list[Any], made_of: list[Any]) -> bool:
    """Whether a table was made of the same ceiling and the very same projections."""
    same = len(known) == len(made_of) and known[0] == made_of[0]
    return same and all(a is b for a, b in zip(known[1:], made_of[1:], strict=True))


def _pair(values: tuple[Any, Any], at: tuple[int, ...]) -> tuple[int, int]:
    """Return (cost, tie) at given homes; axes of length 1 are the same for all."""
    found = []
    for value in values:
        array = np.asarray(value)
        place = tuple(i if n > 1 else 0 for i, n in zip(at, array.shape, strict=True)) if array.ndim else ()
        found.append(int(array[place]))
    return found[0], found[1]


def _side_by_side(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return np.maximum(a[0], b[0]), np.minimum(a[1] + b[1], INFINITE)


def _least(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    is_better = (b[0] < a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
    return np.where(is_better, b[0], a[0]), np.where(is_better, b[1], a[1])
