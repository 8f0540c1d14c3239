"""What methods have in common: random designs within the area, neighbours, designs as points of the unit cube."""

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from attrs import field, frozen

from cpsat_pim.base.validate import positive, seed_number
from cpsat_pim.tuner.space import Design, HardwareSpace

#: Random designs that are drawn at most for one within the area.
_PATIENCE = 100_000
#: One in so many random candidates is new each time: most of a space may be too large, so drawing takes time.
_SHARE = 10


@frozen(kw_only=True)
class MethodOptions:
    """`seed` of all random choices. `trials`: how many there will be. `initial`: random designs before a model is used.

    `candidates`: designs among which a model chooses the next one; half are random, half near the best ones. `floor`
    returns a lower bound of a design's cost.
    """

    seed: int = field(default=0, validator=seed_number)
    trials: int = field(default=60, validator=positive)
    initial: int = field(default=10, validator=positive)
    candidates: int = field(default=2000, validator=positive)
    floor: Callable[[Design], float] | None = field(default=None, eq=False, repr=False)


class Method(ABC):
    """Proposes designs; the same seed and the same costs give the same designs."""

    def __init__(self, space: HardwareSpace, options: MethodOptions) -> None:
        self.space, self.options = space, options
        self.random = random.Random(options.seed)
        self.designs: list[Design] = []
        self.costs: list[float] = []
        self._pool: list[Design] = []
        self._scales = [_scale(axis.values) for axis in space.axes]

    @abstractmethod
    def propose(self) -> Design:
        """Return a design within the area."""

    def learn(self, design: Design, cost: float) -> None:
        """Take the cost of a design; infinite if it cannot run the networks."""
        self.designs.append(design)
        self.costs.append(cost)

    # --- Designs -----------------------------------------------------------------------------------------------------

    def random_design(self) -> Design:
        """Draw a design within the area, all equally likely.

        Raises:
            ValueError: none was found.
        """
        for _ in range(_PATIENCE):
            design = tuple(int(self.random.random() * len(axis.values)) for axis in self.space.axes)
            if self.space.fits(design):
                return design
        raise ValueError(f"{self.space.name}: none of {_PATIENCE:,} random machines is within the area")

    def neighbour(self, design: Design, reach: float) -> Design:
        """Return a design within the area that differs in one or two axes, by up to a share of their values."""
        for _ in range(_PATIENCE):
            changed = list(design)
            for axis in {int(self.random.random() * len(changed)) for _ in range(2)}:
                count = len(self.space.axes[axis].values)
                step = max(1, round(reach * count * self.random.random()))
                changed[axis] = min(count - 1, max(0, changed[axis] + (step if self.random.random() < 0.5 else -step)))
            if tuple(changed) != design and self.space.fits(tuple(changed)):
                return tuple(changed)
        return self.random_design()

    def points(self, designs: Sequence[Design]) -> np.ndarray:
        """Return designs as points of the unit cube, float64[designs, axes]: logarithms of values, scaled."""
        return np.array([[scale[i] for scale, i in zip(self._scales, design, strict=True)] for design in designs])

    def targets(self) -> np.ndarray:
        """Return logarithms of the costs, float64[designs]; those that are infinite are the worst of all others."""
        worst = max((cost for cost in self.costs if math.isfinite(cost)), default=1.0)
        return np.log([min(cost, worst) for cost in self.costs])

    def candidates(self) -> list[Design]:
        """Return designs that were not tried: random ones, and neighbours of the three best."""
        half = self.options.candidates // 2
        best = sorted(range(len(self.costs)), key=lambda i: self.costs[i])[:3]
        near = [
            self.neighbour(self.designs[best[i % len(best)]], 0.02 + 0.2 * self.random.random()) for i in range(half)
        ]
        tried = set(self.designs)
        fresh = half if not self._pool else max(1, half // _SHARE)
        self._pool = [*self._pool, *(self.random_design() for _ in range(fresh))][-half:]
        found = dict.fromkeys([*self._pool, *near])
        return [design for design in found if design not in tried] or [self.random_design()]


class ModelSearch(Method):
    """Random designs first; then the candidate that a model of the costs so far ranks highest."""

    def propose(self) -> Design:
        """Return a design within the area."""
        if len(self.designs) < self.options.initial:
            return self.random_design()
        found = self.candidates()
        return found[int(np.argmax(self.scores(found)))]

    @abstractmethod
    def scores(self, designs: Sequence[Design]) -> np.ndarray:
        """Fit the model, and return how promising designs are: float64[designs], larger is better."""


class RandomSearch(Method):
    """Every design is drawn at random."""

    def propose(self) -> Design:
        """Return a design within the area."""
        return self.random_design()


def _scale(values: Sequence[float]) -> list[float]:
    """Return logarithms of values from 0 to 1; of values that may be 0, the values themselves."""
    logs = [math.log(value) for value in values] if values[0] > 0 else list(values)
    width = logs[-1] - logs[0]
    return [(value - logs[0]) / width if width else 0.0 for value in logs]
