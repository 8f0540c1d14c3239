"""Loops over arrays in place of NumPy's functions, against these."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tables.reduce import copied, gcd, is_any, nonzero, product, total

NUMBERS = st.lists(st.integers(-9, 9), max_size=6)


@given(numbers=NUMBERS)
def test_loops_agree_with_numpy(numbers: list[int]) -> None:
    """Also of no numbers at all."""
    array = np.array(numbers, np.int64)
    assert (total(array), product(array), is_any(array)) == (array.sum(), array.prod(), array.any())
    assert copied(array).tolist() == numbers
    assert nonzero(array != 0).tolist() == np.flatnonzero(array != 0).tolist()


@given(a=st.integers(0, 10**6), b=st.integers(0, 10**6))
def test_gcd_agrees_with_the_library(a: int, b: int) -> None:
    """Also with zeros."""
    assert gcd(a, b) == math.gcd(a, b)


def test_a_copy_is_its_own() -> None:
    """Changing it leaves the original alone."""
    array = np.zeros(2, np.int64)
    copied(array)[0] = 1
    assert not array.any()
