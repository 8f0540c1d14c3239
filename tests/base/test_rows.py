import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cpsat_pim.base.rows import Ints, distinct_rows


@given(arrays(np.int64, st.tuples(st.integers(0, 12), st.integers(1, 3)), elements=st.integers(-2, 2)))
def test_distinct_rows_are_those_of_a_set_in_order(rows: Ints) -> None:
    """Each row is found again by its number."""
    distinct, number = distinct_rows(rows)
    assert list(map(tuple, distinct.tolist())) == sorted(set(map(tuple, rows.tolist())))
    assert (distinct[number] == rows).all()
