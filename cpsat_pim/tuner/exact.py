"""Best-first branch and bound over boxes of machines: the best machine of a space, or a lower bound (docs/tuner.md).

A box is bounded by the cost of a machine that is at least as good as all of its machines, real or not. Its machines
that are too large are cut off by area propagation: no value remains that is too large beside the smallest values of
all other axes. Where a real machine of the box costs as little as the bound, the box is closed.
"""

import heapq
import math
import time
from collections.abc import Callable
from itertools import product

from attrs import define, field, frozen

from cpsat_pim.tuner.analytic import AnalyticCost
from cpsat_pim.tuner.space import Box, Design, HardwareSpace

#: Receives evaluations, the bound, and the incumbent's cost, whenever one of the latter changes.
OnProgress = Callable[[int, float, float], None]


@frozen(kw_only=True)
class ExactLimits:
    """`time_limit`: seconds. `gap`: the search ends when (cost - bound) / cost is at most this; 0 is a proof."""

    time_limit: float = 600.0
    gap: float = 0.0


@frozen(kw_only=True)
class ExactResult:
    """The best design found, its cost and a bound of all costs; None and infinite costs if none was found.

    The bound is infinite, too, if no design is within the area.

    `evaluations`: boxes and designs that were bounded. `history`: evaluations, bound, incumbent's cost, over time.
    """

    design: Design | None
    cost: float
    bound: float
    evaluations: int
    seconds: float
    history: tuple[tuple[int, float, float], ...]

    @property
    def gap(self) -> float:
        """(cost - bound) / cost; 0 is a proof."""
        return 0.0 if self.design is None else max(0.0, (self.cost - self.bound) / self.cost)

    @property
    def is_proven(self) -> bool:
        """Whether nothing of the space costs less."""
        return self.bound >= self.cost


def best_hardware(
    space: HardwareSpace, cost: AnalyticCost, limits: ExactLimits | None = None, known: Design | None = None
) -> ExactResult:
    """Return the best machine of a space. `known`: a design to start from."""
    search = _Search(space, cost, limits or ExactLimits())
    if known is not None and space.fits(known):
        search.offer(known)
    return search.run()


@define(eq=False)
class _Search:
    """Boxes that are left, by their bounds, and the best design so far."""

    space: HardwareSpace
    cost: AnalyticCost
    limits: ExactLimits
    best: Design | None = None
    best_cost: float = math.inf
    bound: float = 0.0
    evaluations: int = 0
    open: list[tuple[float, int, Box]] = field(factory=list)
    history: list[tuple[int, float, float]] = field(factory=list)
    #: The axes of the PE array's height and width, if they have the same values.
    sides: tuple[int, int] | None = field(init=False)

    @sides.default
    def _sides(self) -> tuple[int, int] | None:
        values = {axis.field: (i, axis.values) for i, axis in enumerate(self.space.axes)}
        h, w = (values.get(f"pe_array.array_shape.{side}") for side in "hw")
        return (h[0], w[0]) if h and w and h[1] == w[1] else None

    def run(self) -> ExactResult:
        """Split the box with the least bound until the incumbent is no worse than any."""
        started = time.monotonic()
        for box in self._boxes_of_shapes():
            self._add(box, 0.0)
        while self.open and not self._is_done(started):
            bound, _, box = heapq.heappop(self.open)
            self._raise(bound)
            if bound >= self.best_cost:
                break
            for half in box.halves(self._widest(box)):
                self._add(half, bound)
        self._raise(min([self.best_cost, *(bound for bound, _, _ in self.open)]))
        return ExactResult(
            design=self.best,
            cost=self.best_cost,
            bound=min(self.bound, self.best_cost),
            evaluations=self.evaluations,
            seconds=time.monotonic() - started,
            history=tuple(self.history),
        )

    def offer(self, design: Design) -> None:
        """Take a design that fits, if it is the best."""
        cost = self.cost.of_values(self.space.values(design))
        if cost < self.best_cost:
            self.best, self.best_cost = design, cost
            self._note()

    def _boxes_of_shapes(self) -> list[Box]:
        """Return the boxes that each have one number of rows and columns."""
        whole = self.space.whole
        sides = [
            range(a, b + 1) if axis.is_of_array else [None]
            for axis, a, b in zip(self.space.axes, whole.low, whole.high, strict=True)
        ]
        boxes = [Box(_fixed(whole.low, chosen), _fixed(whole.high, chosen)) for chosen in product(*sides)]
        # Floors and areas depend on how many nodes there are, not on how they lie: one shape stands for all of a size.
        return list({math.prod(self.space.shapes(box)[0]): box for box in reversed(boxes)}.values())

    def _is_done(self, started: float) -> bool:
        least = self.open[0][0]
        is_close = self.best is not None and self.best_cost - least <= self.limits.gap * self.best_cost
        return is_close or time.monotonic() - started >= self.limits.time_limit

    def _raise(self, bound: float) -> None:
        if bound > self.bound:
            self.bound = bound
            self._note()

    def _note(self) -> None:
        self.history.append((self.evaluations, min(self.bound, self.best_cost), self.best_cost))

    def _add(self, box: Box, least: float) -> None:
        """Bound a box and keep it, unless nothing of it fits, it is no better than the incumbent, or it is closed."""
        shrunk = None if self._is_mirrored(box) else self.space.within_area(box)
        if shrunk is None:
            return
        self.evaluations += 1
        bound = max(least, self.cost.of_box(shrunk))
        if bound >= self.best_cost:
            return
        corner = self._best_corner(shrunk)
        if self.space.fits(corner):
            self.offer(corner)
        if bound < self.best_cost and not shrunk.is_single:
            heapq.heappush(self.open, (bound, self.evaluations, shrunk))

    def _is_mirrored(self, box: Box) -> bool:
        """Whether every PE array of the box is wider than high, and the turned ones are in the space.

        Floors and areas stay the same if the sides of the PE array are exchanged.
        """
        if self.sides is None:
            return False
        h, w = self.sides
        return box.low[w] > box.high[h]

    def _best_corner(self, box: Box) -> Design:
        """Return the design of a box that is the best one, if all its fields only help or only hurt."""
        corners = zip(self.space.axes, box.low, box.high, strict=True)
        return tuple(a if axis.is_better_small else b for axis, a, b in corners)

    def _widest(self, box: Box) -> int:
        """Return the axis whose values differ by the largest factor."""

        def width(axis: int) -> float:
            low, high = (self.space.axes[axis].values[design[axis]] for design in (box.low, box.high))
            return 0.0 if low == high else math.log(max(high, 1e-9) / max(low, 1e-9)) if low > 0 else math.inf

        return max(range(len(self.space.axes)), key=width)


def _fixed(design: Design, chosen: tuple[int | None, ...]) -> Design:
    return tuple(own if one is None else one for own, one in zip(design, chosen, strict=True))
