"""Regions of the plane of latency and energy, and lower bounds of the product of both in them.

A region has a corner (at least so many cycles and femtojoules). The least sum a * cycles + b * fj in a region defines a
line, and all mappings of the region lie on or above it. The product is concave along the line, so it is least at one of
the line's two ends, on the borders of the corner. That bounds the product in the region, and soon closely where the
Pareto front is dense.
"""

import math
from collections.abc import Iterator
from fractions import Fraction

import attrs
from attrs import frozen

from cpsat_pim.mapper.bounds.countable import FJ_WEIGHT
from cpsat_pim.mapper.result import Budget


@frozen(kw_only=True)
class Line:
    """The line a * cycles + b * fj = `least`, which no mapping of a region lies below."""

    a: int
    b: int
    least: int

    def cycles_at(self, fj: int) -> Fraction:
        """Return the latency at which the line has an energy."""
        return Fraction(self.least - self.b * fj, self.a)

    def fj_at(self, cycles: int) -> Fraction:
        """Return the energy at which the line has a latency."""
        return Fraction(self.least - self.a * cycles, self.b)


@frozen(kw_only=True)
class Region:
    """Mappings of at least so many `cycles` and `fj` and at most `most_fj`, on or above a line.

    `known_bound`: a lower bound of their products, from the region that this one is a half of. `depth`: how often that
    one was divided.
    """

    cycles: int
    fj: int
    most_fj: int | None = None
    line: Line | None = None
    known_bound: int = 0
    depth: int = 0

    @property
    def bound(self) -> int:
        """A lower bound of the product in the region: at the corner, or at the lower end of the line above it."""
        if self.line is None or self.line.fj_at(self.cycles) <= self.fj:
            return max(self.known_bound, self.cycles * self.fj)
        ends = self.cycles * self.line.fj_at(self.cycles), self.fj * self.line.cycles_at(self.fj)
        return max(self.known_bound, _ceiling(min(ends)))

    @property
    def cycle_weight(self) -> int:
        """The weight of a cycle where a femtojoule weighs `FJ_WEIGHT`, such that the line is parallel to the chord of a
        hyperbola between the corner's borders.
        """
        return max(1, round(Fraction(FJ_WEIGHT * self.fj, self.cycles)))

    def budget(self, most: int) -> Budget:
        """Return the most that mappings of the region with at most this product cost."""
        return Budget(cycles=most // self.fj if self.fj else None, fj=self._top(most))

    def middle(self, most: int, narrow: Fraction) -> int:
        """Return the energy to divide the region at, for mappings with a product of at most `most`.

        It is the geometric middle of a wide range. A narrow range (up to the ratio `narrow`) is more often empty than
        worth a division, so all of it is below.
        """
        top = self._top(most)
        return math.isqrt(self.fj * top) if top > narrow * self.fj else top

    def halves(self, fj: int, most: int) -> "Iterator[Region]":
        """Yield what needs less than an energy, and what needs no less and is fast enough for a product of `most`."""
        if fj > self.fj:
            yield self._below(fj - 1)
        if fj <= self._top(most):
            yield self._above(max(fj, self.fj), most)

    def _top(self, most: int) -> int:
        """Return the greatest energy of mappings of the region with at most this product."""
        fj = most // self.cycles
        return fj if self.most_fj is None else min(fj, self.most_fj)

    def _below(self, fj: int) -> "Region":
        cycles = self.cycles if self.line is None else max(self.cycles, _ceiling(self.line.cycles_at(fj)))
        return attrs.evolve(self, cycles=cycles, most_fj=fj, known_bound=self.bound)

    def _above(self, fj: int, most: int) -> "Region":
        if self.line and fj:
            fj = max(fj, _ceiling(self.line.fj_at(most // fj)))
        return attrs.evolve(self, fj=fj, known_bound=self.bound)


def _ceiling(x: Fraction) -> int:
    return -(-x.numerator // x.denominator)
