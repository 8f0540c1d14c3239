"""Divisors and prime factors of a bound, and quick quotients."""

import math
from functools import cache

from tables.jit import njit


@cache
def divisors(n: int) -> tuple[int, ...]:
    """Divisors of n, ascending."""
    small = [i for i in range(1, math.isqrt(n) + 1) if n % i == 0]
    return (*small, *(n // i for i in reversed(small) if i * i != n))


def primes_of(n: int) -> list[int]:
    """The primes whose product n is, ascending."""
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found + [n] * (n > 1)


@njit
def log2_of(size: int) -> int:
    """log2 of a power of two, else -1."""
    shift = 0
    while 1 << shift < size:
        shift += 1
    return shift if 1 << shift == size else -1


@njit
def quotient(number: int, divisor: int, shift: int) -> int:
    """Whole quotient by a divisor of which the log2 is known, or not (-1): a shift is several times faster."""
    return number >> shift if shift >= 0 else number // divisor
