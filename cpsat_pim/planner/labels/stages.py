"""A network's plans as a path: one stage a layer, states are the homes that later layers still depend on.

Every stage takes one option of its layer. The cost of a path is the sum of its options' costs; of each resource (bytes
on a node at a step) it uses the sum of what they use, which must not exceed the capacity.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from attrs import field, frozen

from cpsat_pim.planner.eliminate import INFINITE, Factor, project

#: The sum of no tables.
NOTHING = Factor(variables=(), cost=np.zeros((), dtype=np.int64), tie=np.zeros((), dtype=np.int64))


@frozen(kw_only=True, eq=False)
class Stage:
    """The options of one layer.

    `variables`: the homes that they depend on. `cells`, int64[options, variables]: the index of each of these homes.
    `cost`, int64[options]; `usage`, int64[options, resources].
    """

    variables: tuple[str, ...]
    cells: np.ndarray
    cost: np.ndarray
    usage: np.ndarray

    def __len__(self) -> int:
        return len(self.cost)


@frozen(kw_only=True, eq=False)
class Multipliers:
    """Costs count `scale` times, and each unit of a resource costs `per_unit`: int64[resources]."""

    scale: int
    per_unit: np.ndarray


@frozen(kw_only=True, eq=False)
class Path:
    """The index of an option of every stage, the cost, and what is used of each resource."""

    options: tuple[int, ...]
    cost: int
    usage: tuple[int, ...]


@frozen(kw_only=True, slots=False, eq=False)
class StagedProblem:
    """Stages in the order of layers; `sizes`: values of each variable; `capacity`, int64[resources]."""

    stages: Sequence[Stage]
    sizes: dict[str, int]
    capacity: np.ndarray

    @cached_property
    def frontiers(self) -> list[tuple[str, ...]]:
        """Before each stage, and behind the last: variables of both an earlier and a later stage."""
        return frontiers([stage.variables for stage in self.stages])

    def completions(self, multipliers: Multipliers) -> list[np.ndarray]:
        """Return what all later stages cost at least, for each state before each stage and behind the last one.

        The first is a single number: less the price of the capacity it bounds the cost of every path that fits.
        """
        least = NOTHING
        found = [least.cost]
        for stage, frontier in zip(reversed(self.stages), reversed(self.frontiers[:-1]), strict=True):
            least = project([self._table(stage, multipliers), least], self._sizes_of(stage, least), frontier).factor
            found.append(least.cost)
        return found[::-1]

    def bound(self, multipliers: Multipliers, completions: Sequence[np.ndarray]) -> int:
        """Return the least cost that a path within the capacity has, as far as these multipliers prove."""
        least = int(completions[0])
        if least >= INFINITE:
            return INFINITE
        room = sum(int(a) * int(b) for a, b in zip(multipliers.per_unit, self.capacity, strict=True))
        return -((room - least) // multipliers.scale) if multipliers.scale else 0

    def _table(self, stage: Stage, multipliers: Multipliers) -> Factor:
        """Return the least priced cost of a stage's options by homes."""
        priced = multipliers.scale * stage.cost + stage.usage @ multipliers.per_unit
        table = np.full([self.sizes[name] for name in stage.variables], INFINITE, dtype=np.int64)
        np.minimum.at(table, tuple(stage.cells.T), priced)
        return Factor(variables=stage.variables, cost=table, tie=np.zeros_like(table))

    def _sizes_of(self, stage: Stage, rest: Factor) -> dict[str, int]:
        return {name: self.sizes[name] for name in (*stage.variables, *rest.variables)}


def frontiers(variables: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return, before each stage and behind the last, the variables of both an earlier and a later stage."""
    last = {name: at for at, names in enumerate(variables) for name in names}
    seen: dict[str, None] = {}
    found = []
    for at, names in enumerate(variables):
        found.append(tuple(name for name in seen if last[name] >= at))
        seen |= dict.fromkeys(names)
    return [*found, ()]


@frozen(kw_only=True, eq=False)
class Guide:
    """Multipliers, and the completions that they give: what every label's cost is bounded with."""

    multipliers: Multipliers
    completions: list[np.ndarray] = field(repr=False)


@frozen(kw_only=True, eq=False)
class LayoutLimit:
    """`most`: different layouts of all tensors; `layouts`: by tensor, that of each of its homes."""

    most: int
    layouts: Mapping[str, Sequence[str]]
