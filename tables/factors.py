"""Divisors and prime factors of a bound."""

import math


def divisors(n: int) -> list[int]:
    """Divisors of n, ascending."""
    small = [i for i in range(1, math.isqrt(n) + 1) if n % i == 0]
    return small + [n // i for i in reversed(small) if i * i != n]


def primes_of(n: int) -> list[int]:
    """The primes whose product n is, ascending."""
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found + [n] * (n > 1)
