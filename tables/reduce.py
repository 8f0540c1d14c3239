"""Sums, products and the like of one-dimensional arrays, and a divisor.

A loop compiles in a tenth of a second. `np.sum` and its like take a second, and as long again in every kernel that they
are inlined into.
"""

import numpy as np
from numpy.typing import NDArray

from tables.jit import njit
from tables.nest import Ints


@njit
def total(numbers: Ints) -> int:
    """Return the sum; 0 of none."""
    found = 0
    for i in range(len(numbers)):
        found += numbers[i]
    return found


@njit
def product(numbers: Ints) -> int:
    """Return the product; 1 of none."""
    found = 1
    for i in range(len(numbers)):
        found *= numbers[i]
    return found


@njit
def is_any(numbers: Ints) -> bool:
    """Return whether any is not 0."""
    for i in range(len(numbers)):  # noqa: SIM110 - numba compiles no generator expressions within any()
        if numbers[i]:
            return True
    return False


@njit
def copied(numbers: Ints) -> Ints:
    """Return a copy."""
    found = np.empty(len(numbers), np.int64)
    for i in range(len(numbers)):
        found[i] = numbers[i]
    return found


@njit
def nonzero(flags: NDArray[np.bool_]) -> Ints:
    """Return the indices of what is true."""
    found, n = np.empty(len(flags), np.int64), 0
    for i in range(len(flags)):
        if flags[i]:
            found[n] = i
            n += 1
    return found[:n]


@njit
def gcd(a: int, b: int) -> int:
    """Return the greatest common divisor of two numbers, of which none is negative; 0 of two zeros."""
    while b:
        a, b = b, a % b
    return a
