"""The distance of baselines from proven optima, and the samples that random search would need to come as close.

Of N samples, the i-th best is about what the best of N/i samples reaches. These points form the curve of the best of n
samples. If the density of costs falls as a power of the distance to the optimum, as it does at the end of a smooth
distribution, the distance of the best of n falls as a power of n too. The exponent is estimated from the smallest
samples (Hill's estimator, with the proven optimum as end point), and the curve is extrapolated from the last of them.
"""

import math
import time
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from cpsat_pim.mapping import Mapping
from cpsat_pim.study.baselines.catalogue import RANDOM, Outcome, run_baseline
from cpsat_pim.study.baselines.problem import Problem
from cpsat_pim.study.baselines.references import Reference
from cpsat_pim.study.baselines.search import Effort, draw_mappings

#: The least number of samples behind the exponent, and the distance within which all samples are kept.
_KEPT, _NEAR = 16, 0.1
#: The logarithm of a number of samples from which on extrapolation is meaningless.
_TOO_MANY = 300.0


@frozen(kw_only=True)
class Sampling:
    """A measurement of random search: number of samples, seconds, and the smallest distances in order.

    A distance is the ratio of a cost to the reference's cost, minus 1.
    """

    samples: int
    seconds: float
    distances: tuple[float, ...]

    @property
    def exponent(self) -> float | None:
        """The exponent k: the distance of the best of n samples falls as n^(-1/k). None if it cannot be estimated."""
        last = self.distances[-1]
        if math.isinf(last):
            return None
        logs = [math.log(last / distance) for distance in self.distances[:-1] if distance > 0]
        return len(logs) / sum(logs) if logs and sum(logs) > 0 else None

    def has_seen(self, distance: float) -> bool:
        """Return whether some sample lies within a distance of the reference."""
        return self.distances[0] <= distance

    def samples_within(self, distance: float) -> float | None:
        """Return the number of samples of which typically one lies within a distance, extrapolated unless `has_seen`.
        None if it cannot be estimated.
        """
        if self.has_seen(distance):
            return self.samples / sum(found <= distance for found in self.distances)
        power = None if self.exponent is None else self.exponent * math.log(self.distances[-1] / distance)
        if power is None or power > _TOO_MANY:
            return None
        return self.samples / len(self.distances) * math.exp(power)

    def seconds_for(self, samples: float) -> float:
        """Return the seconds that a number of samples takes."""
        return samples * self.seconds / self.samples

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {
            "samples": self.samples,
            "seconds": round(self.seconds, 3),
            "distances": [d if math.isfinite(d) else None for d in self.distances],
        }


@frozen(kw_only=True)
class Comparison:
    """The mappings that baselines found for a layer, and the reference that they are compared with, if any."""

    problem: Problem
    outcomes: tuple[Outcome, ...]
    reference: Reference | None = None
    sampling: Sampling | None = None

    @property
    def refuting(self) -> list[str]:
        """The baselines whose cost is below the proven lower bound; any such name refutes the proof."""
        reference = self.reference
        found = [(outcome.name, outcome.best) for outcome in self.outcomes]
        return [name for name, best in found if reference and best and reference.is_refuted_by(best.value)]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data."""
        plain: dict[str, Any] = {"name": self.problem.layer.name, "shape": self.problem.layer.shape}
        plain["baselines"] = [outcome.to_dict(self.problem.objective) for outcome in self.outcomes]
        if self.reference is not None:
            plain |= self.reference.to_dict()
        return plain | ({"random": self.sampling.to_dict()} if self.sampling else {})


def compare(problem: Problem, names: Sequence[str], effort: Effort, reference: Reference | None = None) -> Comparison:
    """Run baselines on a problem. With a reference, and if random search is among them, measure random search too."""
    outcomes = tuple(run_baseline(name, problem, effort) for name in names)
    sampling = sample(reference, effort) if reference and RANDOM in names else None
    return Comparison(problem=problem, outcomes=outcomes, reference=reference, sampling=sampling)


def sample(reference: Reference, effort: Effort) -> Sampling | None:
    """Measure random search; None if the search space is empty."""
    started = time.monotonic()
    mappings = draw_mappings(reference.problem, effort)
    least = reference.problem.cheapest(mappings, 1)
    seconds = time.monotonic() - started
    if not least:
        return None
    return Sampling(samples=effort.samples, seconds=seconds, distances=_distances(reference, mappings))


def _distances(reference: Reference, mappings: Sequence[Mapping]) -> tuple[float, ...]:
    """Return the smallest distances in order: all within the recorded range, and some more."""
    count, distances = _KEPT, tuple[float, ...]()
    while not distances or (len(distances) == count // 2 and distances[-1] <= _NEAR):
        kept = reference.problem.cheapest(mappings, count)
        distances = tuple(max(0.0, reference.ratio(cost) - 1) for cost, _ in kept)
        count *= 2
    return distances
