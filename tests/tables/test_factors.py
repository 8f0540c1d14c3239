"""Divisors, prime factors and quotients, by their definitions."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tables.factors import divisors, log2_of, primes_of, quotient


@given(st.integers(1, 5000))
def test_divisors(n: int) -> None:
    """Exactly the numbers that divide without remainder."""
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
    """A power of two has its exponent, its neighbours from 4 on have -1."""
    power = 2**exponent
    assert log2_of(power) == exponent
    assert log2_of(power + 1) == (1 if power == 1 else -1)
    assert power < 4 or log2_of(power - 1) == -1


@given(st.integers(0, 10**12), st.integers(1, 5000))
def test_quotients(number: int, divisor: int) -> None:
    """With a shift, and without one."""
    assert quotient(number, divisor, log2_of(divisor)) == number // divisor
