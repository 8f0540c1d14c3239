"""What a solve is asked to minimize, what it may spend, and how it can end."""

import math
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any

from attrs import asdict, field, frozen

from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.evaluate.cost import Figures

#: The least gap of a result that is not proven, however its figures are rounded.
_LEAST_GAP = 2.0**-53


class Status(StrEnum):
    """How a solve ended: a proven optimum; a mapping with a gap; a proof that there is no mapping; neither of these."""

    OPTIMAL = "OPTIMAL"
    FEASIBLE = "FEASIBLE"
    INFEASIBLE = "INFEASIBLE"
    UNKNOWN = "UNKNOWN"


def _exact(value: Fraction | float | str) -> Fraction:
    """Return a weight as it is written: 0.1 is a tenth."""
    return Fraction(str(value))


@frozen(kw_only=True)
class Objective:
    """alpha * latency (cycles) + beta * energy (nJ) (section 5.6.5); `scale` times that is an integer.

    Of kind `edp` it is their product, latency * energy (fJ), and the weights have no effect.

    Raises:
        ValueError: both weights are zero or one is negative.
    """

    kind: str
    alpha: Fraction = field(converter=_exact)
    beta: Fraction = field(converter=_exact)

    def __attrs_post_init__(self) -> None:
        if self.alpha < 0 or self.beta < 0 or self.alpha + self.beta == 0:
            raise ValueError(
                f"objective: alpha and beta must be at least 0 and not both 0 (got {self.alpha} and {self.beta})"
            )

    @classmethod
    def named(cls, kind: str, alpha: float | str = 1, beta: float | str = 1) -> "Objective":
        """Return the objective `latency`, `energy`, `blended` or `edp`; alpha and beta matter for `blended` only.

        Raises:
            ValueError: unknown name, or weights out of range.
        """
        weights = {"latency": (1, 0), "energy": (0, 1), "blended": (alpha, beta), "edp": (1, 1)}
        if kind not in weights:
            raise ValueError(f"objective: must be one of {', '.join(weights)} (got {kind!r})")
        return cls(kind=kind, alpha=weights[kind][0], beta=weights[kind][1])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        weights = {"alpha": self.alpha, "beta": self.beta}
        return {"kind": self.kind} | {k: int(w) if w.denominator == 1 else float(w) for k, w in weights.items()}

    @property
    def is_product(self) -> bool:
        """Whether it is latency times energy instead of a sum."""
        return self.kind == "edp"

    @cached_property
    def scale(self) -> int:
        """Integer objective per unit of the reported one (cycles; fJ; alpha cycles + beta nJ; cycles * fJ)."""
        if self.kind == "energy" or self.is_product:
            return 1
        return math.lcm(self.alpha.denominator, (self.beta / FJ_PER_NJ).denominator)

    @cached_property
    def weights(self) -> tuple[int, int]:
        """Integer weights of a cycle and of a femtojoule.

        Raises:
            ValueError: the objective is a product.
        """
        if self.is_product:
            raise ValueError("objective: a product has no weights")
        if self.kind == "energy":
            return (0, 1)
        return int(self.alpha * self.scale), int(self.beta / FJ_PER_NJ * self.scale)

    def value(self, latency_cycles: int, energy_fj: int) -> int:
        """Return the integer objective of a cost."""
        if self.is_product:
            return latency_cycles * energy_fj
        return self.weights[0] * latency_cycles + self.weights[1] * energy_fj

    def reported(self, value: int) -> int | float:
        """Return an integer objective in the reported unit."""
        exact = Fraction(value, self.scale)
        return exact.numerator if exact.denominator == 1 else float(exact)


@frozen(kw_only=True)
class Budget:
    """The most that a mapping may cost, as predicted: cycles, femtojoules, row activations of all tensors together.

    None is no limit.
    """

    cycles: int | None = None
    fj: int | None = None
    activations: int | None = None

    def to_dict(self) -> dict[str, int]:
        """Return the limits that there are, as plain data."""
        return {name: most for name, most in asdict(self).items() if most is not None}

    def with_most(self, kind: str, most: int) -> "Budget":
        """Return it with at most so many cycles (`latency`) or femtojoules (`energy`), if it does not allow fewer."""
        return self & Budget(**{{"latency": "cycles", "energy": "fj"}[kind]: most})

    def __and__(self, other: "Budget") -> "Budget":
        """Return the budget that keeps both."""
        limits = [*self.to_dict().items(), *other.to_dict().items()]
        return Budget(**{name: min(most for one, most in limits if one == name) for name, _ in limits})

    def allows(self, latency_cycles: int, energy_fj: int, activations: int) -> bool:
        """Whether a cost keeps the budget."""
        costs = ((latency_cycles, self.cycles), (energy_fj, self.fj), (activations, self.activations))
        return all(most is None or cost <= most for cost, most in costs)

    def covers(self, figures: Figures) -> bool:
        """Whether a mapping with these figures keeps the budget."""
        return self.allows(figures.latency_cycles, figures.energy_fj, sum(figures.row_activations))


#: The budget without limits.
NO_LIMIT = Budget()


def gap_of(value: int | float | None, bound: int | float | None, status: Status) -> float | None:
    """Return (value - bound) / value; 0 if and only if proven, as reported numbers may be equal by rounding."""
    if value is None or bound is None:
        return None
    return 0.0 if status is Status.OPTIMAL else max(_LEAST_GAP, float((value - bound) / value))


@frozen(kw_only=True)
class SecondObjective:
    """What is minimized among the mappings whose first objective is at most the share `within` above its optimum.

    `kind`: latency or energy; `value` and `bound` are in its reported unit. The status is OPTIMAL if both objectives
    are proven, else FEASIBLE.
    """

    kind: str
    within: float
    value: int | float
    bound: int | float | None
    status: Status

    @property
    def gap(self) -> float | None:
        """(value - bound) / value of the second objective, with the first one as it was found."""
        return gap_of(self.value, self.bound, self.status)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self) | {"status": self.status.value, "gap": self.gap}
