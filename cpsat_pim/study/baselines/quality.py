"""How far baselines are from proven optima, and what random search would have to spend to come near.

Of N samples the i-th best is what the best of N/i samples comes to, typically: these points are the curve of the best
of n. Where costs thin out towards the optimum as a power of their distance, as they do at the end of a smooth
distribution, the distance falls as a power of n too. The exponent is taken from the least samples known (Hill's
estimator, whose end point here is the proven optimum), and the curve is followed from the last of them.
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

#: Samples that the exponent is taken from, at least; and a distance within which all are kept.
_KEPT, _NEAR = 16, 0.1
#: A power of e from which on a number of samples is none that anybody can tell.
_TOO_MANY = 300.0


@frozen(kw_only=True)
class Sampling:
    """Random search as measured: so many samples in so many seconds, and their least distances in order.

    A distance is a cost over the reference's, less 1.
    """

    samples: int
    seconds: float
    distances: tuple[float, ...]

    @property
    def exponent(self) -> float | None:
        """With n samples the distance falls as n to the power of -1 over this; None where nothing can be said."""
        last = self.distances[-1]
        if math.isinf(last):
            return None
        logs = [math.log(last / distance) for distance in self.distances[:-1] if distance > 0]
        return len(logs) / sum(logs) if logs and sum(logs) > 0 else None

    def has_seen(self, distance: float) -> bool:
        """Whether some sample is within a distance of the reference."""
        return self.distances[0] <= distance

    def samples_within(self, distance: float) -> float | None:
        """Samples of which one, typically, is within a distance of the reference; extrapolated unless `has_seen`. None
        if that cannot be told.
        """
        if self.has_seen(distance):
            return self.samples / sum(found <= distance for found in self.distances)
        power = None if self.exponent is None else self.exponent * math.log(self.distances[-1] / distance)
        if power is None or power > _TOO_MANY:
            return None
        return self.samples / len(self.distances) * math.exp(power)

    def seconds_for(self, samples: float) -> float:
        """What so many samples cost in time."""
        return samples * self.seconds / self.samples

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "samples": self.samples,
            "seconds": round(self.seconds, 3),
            "distances": [d if math.isfinite(d) else None for d in self.distances],
        }


@frozen(kw_only=True)
class Judged:
    """What baselines found for a layer, and what that is held against, if anything."""

    problem: Problem
    outcomes: tuple[Outcome, ...]
    reference: Reference | None = None
    sampling: Sampling | None = None

    @property
    def refuting(self) -> list[str]:
        """Baselines that are below what is proven to be the least: then the proof is wrong."""
        reference = self.reference
        found = [(outcome.name, outcome.best) for outcome in self.outcomes]
        return [name for name, best in found if reference and best and reference.is_refuted_by(best.value)]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain: dict[str, Any] = {"name": self.problem.layer.name, "shape": self.problem.layer.shape}
        plain["baselines"] = [outcome.to_dict(self.problem.objective) for outcome in self.outcomes]
        if self.reference is not None:
            plain |= self.reference.to_dict()
        return plain | ({"random": self.sampling.to_dict()} if self.sampling else {})


def judge(problem: Problem, names: Sequence[str], effort: Effort, reference: Reference | None = None) -> Judged:
    """Let baselines map a problem; with a reference, measure random search too, if it is among them."""
    outcomes = tuple(run_baseline(name, problem, effort) for name in names)
    sampling = sample(reference, effort) if reference and RANDOM in names else None
    return Judged(problem=problem, outcomes=outcomes, reference=reference, sampling=sampling)


def sample(reference: Reference, effort: Effort) -> Sampling | None:
    """Measure random search; None where there is nothing to draw."""
    started = time.monotonic()
    mappings = draw_mappings(reference.problem, effort)
    least = reference.problem.cheapest(mappings, 1)
    seconds = time.monotonic() - started
    if not least:
        return None
    return Sampling(samples=effort.samples, seconds=seconds, distances=_distances(reference, mappings))


def _distances(reference: Reference, mappings: Sequence[Mapping]) -> tuple[float, ...]:
    """The least distances in order: all that are near, and some more."""
    count, distances = _KEPT, tuple[float, ...]()
    while not distances or (len(distances) == count // 2 and distances[-1] <= _NEAR):
        kept = reference.problem.cheapest(mappings, count)
        distances = tuple(max(0.0, reference.ratio(scored.value) - 1) for scored in kept)
        count *= 2
    return distances
