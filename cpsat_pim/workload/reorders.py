"""A tensor whose elements a layer counts along other axes: windows, tokens of pixels, pixel shuffle
(docs/array.md, section 2).
"""

import math
from typing import Any

from attrs import field, frozen

from cpsat_pim.base.reading import Value
from cpsat_pim.base.validate import LIMIT, Rule, as_pair, is_integer

#: The axes of a tensor.
AXES = ("N", "C", "H", "W")

#: A digit of an index: the axis of what is read that it counts along, how many, and in which steps.
Digit = tuple[str, int, int]

Shape = tuple[int, int, int, int]


def _as_digits(value: Any) -> Any:
    """Convert lists of lists to tuples."""
    if not isinstance(value, list | tuple):
        return value
    return tuple(tuple(one) if isinstance(one, list) else one for one in value)


def _is_digit(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 3 or value[0] not in AXES:
        return False
    return all(is_integer(number) and 0 < number < LIMIT for number in value[1:])


_NUMBER = {"type": "integer", "minimum": 1}
_digits = Rule(
    "must be a list of digits [axis (N, C, H or W), count, step]",
    lambda value: isinstance(value, tuple) and all(map(_is_digit, value)),
    {
        "type": "array",
        "items": {
            "type": "array",
            "prefixItems": [{"enum": list(AXES)}, _NUMBER, _NUMBER],
            "minItems": 3,
            "maxItems": 3,
        },
    },
)
_pair_of_integers = Rule(
    "must be two integers (columns, rows)",
    lambda value: isinstance(value, tuple) and len(value) == 2 and all(map(is_integer, value)),
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
)


def _digits_field() -> Any:
    return field(default=(), converter=_as_digits, validator=_digits, metadata={"kind": Value(_digits)})


def _roll_field() -> Any:
    kind = Value(_pair_of_integers)
    return field(default=(0, 0), converter=as_pair, validator=_pair_of_integers, metadata={"kind": kind})


@frozen(kw_only=True)
class Reorder:
    """A tensor with its axes cut in digits, which make up other axes: `N`, `C`, `H`, `W`, the outermost digit first.

    Index i of an axis of digits of counts a, b, ... is read with its last digit as the fastest one. Each digit is
    multiplied by its step; what digits of one axis of the tensor give is added up. `roll`, `roll_behind`: by how many
    columns and rows the tensor is rolled before, and what it becomes is behind, as `torch.roll` does.

    Raises:
        ValueError: a field is no list of digits, or no pair of integers.
    """

    N: tuple[Digit, ...] = _digits_field()
    C: tuple[Digit, ...] = _digits_field()
    H: tuple[Digit, ...] = _digits_field()
    W: tuple[Digit, ...] = _digits_field()
    roll: tuple[int, int] = _roll_field()
    roll_behind: tuple[int, int] = _roll_field()

    @property
    def axes(self) -> tuple[tuple[Digit, ...], ...]:
        """Digits of N, C, H and W."""
        return self.N, self.C, self.H, self.W

    @property
    def shape(self) -> Shape:
        """N, C, H and W as they are seen."""
        n, c, h, w = (math.prod(count for _, count, _ in axis) for axis in self.axes)
        return n, c, h, w

    @property
    def size(self) -> tuple[int, int]:
        """Width and height as they are seen."""
        return self.shape[3], self.shape[2]

    @property
    def is_plain(self) -> bool:
        """Whether it leaves every element at its place."""
        own = zip(AXES, self.axes, strict=True)
        return not any((*self.roll, *self.roll_behind)) and all(
            [digit[0] for digit in digits] in ([], [axis]) for axis, digits in own
        )

    def fits(self, shape: Shape) -> bool:
        """Return whether it sees each element of a tensor of this shape once: steps are products of inner counts."""
        for axis, size in zip(AXES, shape, strict=True):
            behind = 1
            for step, count in sorted((step, count) for one in self.axes for own, count, step in one if own == axis):
                if step != behind:
                    return False
                behind *= count
            if behind != size:
                return False
        return True
