"""A Gaussian process with a Matern-5/2 kernel and expected improvement.

Written out with numpy: it takes a page, and spares the default method a dependency. BoTorch (method `botorch`) is the
library for this; docs/tuner-results.md compares the two.
"""

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen

from cpsat_pim.tuner.methods.method import ModelSearch
from cpsat_pim.tuner.space import Design

#: Variance of noise in units of the targets' variance: costs are exact, this keeps the matrix regular.
_NOISE = 1e-5
#: Length scales in the unit cube that are tried for each axis, and rounds over all axes.
_LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
_ROUNDS = 2
#: Prior of the logarithm of a length scale: mean and standard deviation. Long scales are likely, as most axes act
#: smoothly; docs/tuner-results.md tells what a mean of 0.8 and a deviation of 1.2 gave.
_TYPICAL, _SPREAD = 3.0, 1.7


class GaussianProcessSearch(ModelSearch):
    """The candidate with the largest expected improvement of the log cost."""

    lengths: np.ndarray | None = None

    def scores(self, designs: Sequence[Design]) -> np.ndarray:
        """Fit the process to all costs, and return expected improvements."""
        start = np.full(len(self.space.axes), 1.0) if self.lengths is None else self.lengths
        process = fit(self.points(self.designs), self.targets(), start)
        self.lengths = process.lengths
        mean, deviation = process.predict(self.points(designs))
        return expected_improvement(mean, deviation, float(self.targets().min()))


@frozen(eq=False)
class Process:
    """A fitted process: points, their weights, the inverse of the covariance's factor, and the scale of the targets."""

    points: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray
    factor: np.ndarray
    offset: float
    scale: float

    def predict(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation at points, in the targets' units."""
        cross = matern(points, self.points, self.lengths)
        solved = np.linalg.solve(self.factor, cross.T)
        variance = np.maximum(1e-12, 1.0 - (solved**2).sum(axis=0))
        return self.offset + self.scale * (cross @ self.weights), self.scale * np.sqrt(variance)


def matern(a: np.ndarray, b: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the Matern-5/2 covariance of points, float64[len(a), len(b)]."""
    x, y = a / lengths, b / lengths
    squares = np.maximum(0.0, (x**2).sum(1)[:, None] + (y**2).sum(1)[None, :] - 2 * x @ y.T)
    far = np.sqrt(5 * squares)
    found: np.ndarray = (1 + far + far**2 / 3) * np.exp(-far)
    return found


def fit(points: np.ndarray, targets: np.ndarray, lengths: np.ndarray) -> Process:
    """Fit a process: length scales by coordinate search on the posterior density, the rest in closed form."""
    offset = float(targets.mean())
    centred = targets - offset

    def loss(lengths: np.ndarray) -> float:
        factor = np.linalg.cholesky(matern(points, points, lengths) + _NOISE * np.eye(len(points)))
        fitted = np.linalg.solve(factor, centred)
        variance = max(1e-12, float(fitted @ fitted) / len(points))
        prior = float((np.log(lengths / _TYPICAL) ** 2).sum()) / (2 * _SPREAD**2)
        return 0.5 * len(points) * math.log(variance) + float(np.log(np.diag(factor)).sum()) + prior

    best, least = lengths.copy(), loss(lengths)
    for _ in range(_ROUNDS):
        for axis in range(len(lengths)):
            for length in _LENGTHS:
                trial = best.copy()
                trial[axis] = length
                if (found := loss(trial)) < least:
                    best, least = trial, found
    factor = np.linalg.cholesky(matern(points, points, best) + _NOISE * np.eye(len(points)))
    fitted = np.linalg.solve(factor, centred)
    scale = math.sqrt(max(1e-12, float(fitted @ fitted) / len(points)))
    return Process(points, best, np.linalg.solve(factor.T, fitted) / scale, factor, offset, scale)


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """Return how much less than `best` a normal variable is on average, where more counts as 0."""
    gain = (best - mean) / deviation
    density = np.exp(-0.5 * gain**2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + np.array([math.erf(value / math.sqrt(2)) for value in gain]))
    found: np.ndarray = deviation * (gain * below + density)
    return found
