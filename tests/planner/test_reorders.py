"""Boxes of a tensor whose elements are counted along other axes, against the elements themselves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.planner.channels import Span
from cpsat_pim.planner.reorders import reordered_boxes
from cpsat_pim.workload.reorders import AXES, Reorder


@st.composite
def reorders(draw):
    """A shape, and its elements along any axes: digits of every axis, shuffled and dealt out."""
    shape = tuple(draw(st.sampled_from(sizes)) for sizes in ((1, 2), (4, 6), (1, 4, 8), (3, 4, 6)))
    digits = []
    for axis, size in zip(AXES, shape, strict=True):
        step = 1
        while step < size:
            count = draw(st.sampled_from([f for f in range(2, size // step + 1) if size // step % f == 0]))
            digits.append((axis, count, step))
            step *= count
    axes = {axis: [] for axis in AXES}
    for digit in draw(st.permutations(digits)):
        axes[draw(st.sampled_from(AXES))].append(digit)
    rolls = {key: (draw(st.integers(-2, 2)), draw(st.integers(-2, 2))) for key in ("roll", "roll_behind")}
    return shape, Reorder(**axes, **rolls)


def as_seen(tensor, view):
    """The tensor cut in digits, the largest step of an axis first, which are moved and joined again."""
    wanted = [digit for digits in view.axes for digit in digits]
    stored = sorted(range(len(wanted)), key=lambda at: (AXES.index(wanted[at][0]), -wanted[at][2]))
    cut = np.roll(tensor, view.roll, axis=(3, 2)).reshape([wanted[at][1] for at in stored])
    moved = cut.transpose([stored.index(at) for at in range(len(wanted))])
    joined = moved.reshape([math.prod(count for _, count, _ in digits) for digits in view.axes])
    return np.roll(joined, view.roll_behind, axis=(3, 2))


@given(case=reorders(), data=st.data())
def test_boxes_are_the_elements_that_are_seen(case, data):
    """Of channels in two spans of a stack: each element of a part is in one box, and no other one is."""
    shape, view = case
    first = shape[1] // 2
    spans = (Span(0, 5, 5 + first), Span(first, 0, shape[1] - first))
    stack = (shape[0], 16, *shape[2:])
    part = []
    for size in view.shape:
        start = data.draw(st.integers(0, size))
        part += [start, data.draw(st.integers(start, size))]
    elements = np.arange(math.prod(stack)).reshape(stack)
    taken = np.concatenate([elements[:, span.start : span.stop] for span in spans], axis=1)
    n0, n1, c0, c1, y0, y1, x0, x1 = part
    expected = as_seen(taken, view)[n0:n1, c0:c1, y0:y1, x0:x1]
    boxes = reordered_boxes(view, spans, stack, np.array([[part]]))[0]
    found = [elements[a:b, c:d, e:f, g:h].reshape(-1) for a, b, c, d, e, f, g, h in boxes.tolist()]
    assert sorted(np.concatenate(found).tolist()) == sorted(expected.reshape(-1).tolist())


@pytest.mark.parametrize(
    ("axes", "is_whole"),
    [
        ({"W": [["W", 6, 1]]}, True),
        ({"C": [["W", 2, 3]], "W": [["W", 3, 1]]}, True),
        ({"C": [["W", 2, 1]], "W": [["W", 3, 1]]}, False),  # columns 0 to 3 only, some of them twice
        ({"W": [["W", 3, 1]]}, False),
        ({"W": [["W", 6, 1]], "H": [["H", 2, 1]]}, False),  # there is one row
    ],
)
def test_each_element_is_seen_once(axes, is_whole):
    """Of a tensor of six columns."""
    assert Reorder(**axes).fits((1, 1, 1, 6)) == is_whole
