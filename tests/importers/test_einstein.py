"""Einstein sums as products of matrices, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.importers.einstein import matrix_form


def check(equation, left, right):
    """Transpose the operands, multiply them as matrices, and put the axes of the result in order."""
    form = matrix_form(equation, left.shape, right.shape)
    made = left.transpose(form.left).reshape(form.left_shape) @ right.transpose(form.right).reshape(form.right_shape)
    assert made.shape == form.out
    np.testing.assert_array_equal(made.reshape(form.spelled).transpose(form.order), np.einsum(equation, left, right))


@given(data=st.data())
def test_product_of_matrices_is_the_sum(data):
    """Of up to two axes of each kind (of both operands and the result, of one of them and the result, summed), in any
    order.
    """
    kinds = {
        kind: own[: data.draw(st.integers(0, 2))] for kind, own in {"b": "ab", "r": "ij", "k": "kl", "s": "st"}.items()
    }
    term = ["".join(data.draw(st.permutations("".join(kinds[kind] for kind in own)))) for own in ("brs", "bks", "brk")]
    sizes = {letter: data.draw(st.integers(1, 3)) for letter in "abijklst"}
    chance = np.random.default_rng(0)
    left, right = (chance.integers(-5, 6, [sizes[letter] for letter in own]) for own in term[:2])
    equation = f"{term[0]},{term[1]}->{term[2]}"
    check(equation, left, right)


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("...ic,...cj->...ij", (2, 3, 4), (2, 4, 5)),
        ("...ic,cj", (2, 3, 4), (4, 5)),
        ("ci,...jc->j...i", (4, 3), (2, 5, 4)),
        ("ic,cj", (3, 4), (4, 5)),
        ("jc,ci", (3, 4), (4, 5)),
    ],
)
def test_axes_that_are_not_named_are_spelled_out(equation, left, right):
    """An ellipsis, or a result that is not named, as NumPy takes them."""
    check(equation, *(np.random.default_rng(0).integers(-5, 6, shape) for shape in (left, right)))


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("iic,cj->ij", (3, 3, 4), (4, 5)),  # a diagonal
        ("ic,cj->j", (3, 4), (4, 5)),  # a sum over the left operand alone
        ("bic,bcj->bij", (2, 3, 4), (1, 4, 5)),  # repeated for each b
    ],
)
def test_other_sums_are_none(equation, left, right):
    """What is done before or behind a product of matrices."""
    assert matrix_form(equation, left, right) is None
