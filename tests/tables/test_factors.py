"""Divisors and prime factors, by their definitions."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tables.factors import divisors, primes_of


@given(st.integers(1, 5000))
def test_divisors(n: int) -> None:
    """All that leave nothing over, and no others."""
    assert divisors(n) == [m for m in range(1, n + 1) if n % m == 0]


@given(st.integers(1, 5000))
def test_prime_factors(n: int) -> None:
    """Their product is n, and none has a divisor."""
    primes = primes_of(n)
    assert math.prod(primes) == n
    assert primes == sorted(primes)
    assert all(all(p % m for m in range(2, p)) for p in primes)
