"""Padded (imperfect) factors: the larger bounds that a layer may be padded to, which divide better.

A bound is awkward if it has a prime factor above 7. It may be padded to any larger number without such a factor, as
long as the layer's MACs grow by at most a given share.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from attrs import evolve

from cpsat_pim.base.dims import Dim
from cpsat_pim.base.validate import LIMIT, share
from cpsat_pim.workload.layer import ConvWorkload

Bounds = tuple[int, ...]

_PRIMES = (2, 3, 5, 7)


def padded_layers(layer: ConvWorkload, padding: float) -> list[ConvWorkload]:
    """Return the layer and all paddings of it with at most the share `padding` of additional MACs, fewest MACs first.

    Raises:
        ValueError: `padding` is not from 0 to below 1.
    """
    check_padding(padding)
    most = min(math.floor(layer.macs * (1 + Fraction(str(padding)))), LIMIT - 1)
    return [with_bounds(layer, bounds) for bounds in sorted(_bounds(layer.bounds, most), key=math.prod)]


def padded_to(layer: ConvWorkload, bounds: Bounds, padding: float) -> ConvWorkload:
    """Return the one of `padded_layers` with these bounds, or the layer itself if none has them.

    Raises:
        ValueError: `padding` is not from 0 to below 1.
    """
    return next((padded for padded in padded_layers(layer, padding) if padded.bounds == bounds), layer)


def check_padding(padding: float) -> None:
    """Check that a share of additional MACs is valid.

    Raises:
        ValueError: it is not from 0 to below 1.
    """
    problem = share.broken_by(padding)
    if problem:
        raise ValueError(f"padding: {problem} (got {padding!r})")


def is_awkward(bound: int) -> bool:
    """Return whether a bound has a prime factor above 7."""
    for prime in _PRIMES:
        while bound % prime == 0:
            bound //= prime
    return bound > 1


def with_bounds(layer: ConvWorkload, bounds: Bounds) -> ConvWorkload:
    """Return the layer padded with zeros to larger bounds."""
    zeros = [old + n - bound for old, n, bound in zip(layer.zeros, bounds, layer.bounds, strict=True)]
    sizes: dict[str, Any] = {d.name: bounds[d] for d in Dim}
    return evolve(layer, **sizes, zeros=zeros)


def _bounds(bounds: Sequence[int], most: int) -> Iterator[Bounds]:
    """Yield all choices of a number for each bound whose product is at most `most`."""
    if not bounds:
        yield ()
        return
    first, rest = bounds[0], bounds[1:]
    for n in _choices(first, most // math.prod(rest)):
        yield from ((n, *others) for others in _bounds(rest, most // n))


def _choices(bound: int, most: int) -> list[int]:
    """Return the bound, and the numbers that it may be padded to."""
    return [bound, *(n for n in _smooth_numbers(most) if n > bound)] if is_awkward(bound) else [bound]


def _smooth_numbers(most: int) -> list[int]:
    """Return the numbers up to `most` without a prime factor above 7."""
    numbers = [1]
    for prime in _PRIMES:
        powers = [prime**k for k in range(most.bit_length())]
        numbers = [n * power for n in numbers for power in powers if n * power <= most]
    return sorted(numbers)
