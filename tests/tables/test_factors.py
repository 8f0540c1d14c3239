"""Divisors, prime factors and quotients, by their definitions."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tables.factors import divisors, log2_of, primes_of, quotient


@given(st.integers(1, 5000))
def test_divisors(n: int) -> None:
    """All that leave nothing over, and no others."""
    assert divisors(n) == tuple(m for m in range(1, n + 1) if n % m == 0)


@given(st.integers(1, 5000))
def test_prime_factors(n: int) -> None:
    """Their product is n, and none has a divisor."""
    primes = primes_of(n)
    assert math.prod(primes) == n
    assert primes == sorted(primes)
    assert all(all(p % m for m in range(2, p)) for p in primes)


@given(st.integers(0, 40))
def test_powers_of_two(exponent: int) -> None:
    """Nothing but these has a whole log2: neither the number after one nor, from 4 on, the one before."""
    power = 2**exponent
    assert log2_of(power) == exponent
    assert log2_of(power + 1) == (1 if power == 1 else -1)
    assert power < 4 or log2_of(power - 1) == -1


@given(st.integers(0, 10**12), st.integers(1, 5000))
def test_quotients(number: int, divisor: int) -> None:
    """By a shift or not."""
    assert quotient(number, divisor, log2_of(divisor)) == number // divisor
