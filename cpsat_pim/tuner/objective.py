"""The cost of a machine: NicePIM's Eq. (1) with weights that are relative to a reference machine (docs/tuner.md)."""

from collections.abc import Sequence

from attrs import field, frozen

from cpsat_pim.base.validate import as_tuple, not_negative_real


@frozen(kw_only=True)
class Figure:
    """Latency and energy of a network on a machine: cycles and pJ."""

    cycles: float
    pj: float


@frozen(kw_only=True)
class HardwareCost:
    """The sum over networks of weight x energy^alpha x latency^beta, Eq. (1).

    `weights` are relative: Eq. (1)'s gamma is a network's weight over the sum of all, and over what the network costs
    on the reference machine. So the reference machine costs 1, and no network counts more because it is larger.
    """

    alpha: float = field(default=1.0, validator=not_negative_real)
    beta: float = field(default=1.0, validator=not_negative_real)
    weights: tuple[float, ...] = field(converter=as_tuple)
    references: tuple[Figure, ...] = field(converter=as_tuple)

    def value(self, figures: Sequence[Figure]) -> float:
        """Return the cost of a machine from what its networks take, in the order of the references."""
        parts = zip(self.weights, figures, self.references, strict=True)
        return sum(weight * self.ratio(figure, reference) for weight, figure, reference in parts) / sum(self.weights)

    def ratio(self, figure: Figure, reference: Figure) -> float:
        """Return what one network costs, relative to the reference machine."""
        return float((figure.pj / reference.pj) ** self.alpha * (figure.cycles / reference.cycles) ** self.beta)
