"""Bounds whose large prime factors neither array nor tiles can divide, and the nearest numbers without them."""

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.padding import is_awkward
from tables.factors import primes_of

#: A prime up to this divides well enough: a tile has few more sizes with any larger bound near it.
_HARMLESS = 16

#: The most that a bound may grow for padding to be suggested: a twentieth.
_GROWTH = 20


@frozen
class AwkwardBound:
    """A bound of a layer with a prime factor that no row, column or lane can share, and the next larger number that
    has none above 7.
    """

    dim: Dim
    bound: int
    prime: int
    padded: int

    @property
    def percent(self) -> int:
        """Per cent by which the bound grows, rounded up."""
        return -(-100 * (self.padded - self.bound) // self.bound)

    def __str__(self) -> str:
        return (
            f"{self.dim.name} = {self.bound} has the prime factor {self.prime}, which neither array nor tiles can "
            f"divide; --padding {self.percent}% tries {self.dim.name} = {self.padded}, too"
        )


def awkward_bounds(layer: ConvWorkload, arch: PIMArchitecture) -> list[AwkwardBound]:
    """Return the bounds that a little padding could make divisible on a machine."""
    shape, lanes = arch.pe_array.array_shape, arch.pe_array.compute_unit.num_macs
    widest = max(_HARMLESS, shape.h, shape.w, lanes)
    found = []
    for d in Dim:
        bound = layer.bounds[d]
        prime = max(primes_of(bound), default=1)
        padded = next((n for n in range(bound, bound + bound // _GROWTH + 1) if not is_awkward(n)), None)
        if prime > widest and padded is not None:
            found.append(AwkwardBound(d, bound, prime, padded))
    return found
