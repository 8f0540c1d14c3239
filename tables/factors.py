"""Divisors and prime factors of a loop bound, and division by powers of two."""

import math
from functools import cache

from tables.jit import njit


@cache
def divisors(n: int) -> tuple[int, ...]:
    """Return the divisors of n, ascending."""
    small = [i for i in range(1, math.isqrt(n) + 1) if n % i == 0]
    return (*small, *(n // i for i in reversed(small) if i * i != n))


def primes_of(n: int) -> list[int]:
    """Return the prime factors of n, ascending and with multiplicity."""
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found + [n] * (n > 1)


@njit
def log2_of(size: int) -> int:
    """Return log2 of a power of two, and -1 for any other number."""
    shift = 0
    while 1 << shift < size:
        shift += 1
    return shift if 1 << shift == size else -1


@njit
def quotient(number: int, divisor: int, shift: int) -> int:
    """Return number // divisor; `shift` is `log2_of` the divisor. A shift is several times faster than a division."""
    return number >> shift if shift >= 0 else number // divisor
