"""What a network file states about the tensors between layers: pooling windows, and the size of the network's input."""

import itertools
from typing import Any

from attrs import field, frozen

from cpsat_pim.base.validate import LIMIT, Rule, as_pair, is_integer, pair_of_positive, positive

CONCAT, ADD = "concat", "add"
#: The ways in which several tensors become a layer's input.
JOINS = (CONCAT, ADD)


def _is_pad(value: Any) -> bool:
    numbers = value if isinstance(value, tuple) and len(value) == 2 else (value,)
    return all(is_integer(v) and 0 <= v < LIMIT for v in numbers)


#: Zeros before the tensor, (left, top), or one number for both.
padding = Rule(
    "must be an integer of at least 0, or two (left, top)",
    _is_pad,
    {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2},
        ]
    },
)


#: A half-open range of channels.
Range = tuple[int, int]


def as_ranges(value: Any) -> Any:
    """Convert lists of pairs to tuples."""
    if not isinstance(value, list | tuple):
        return value
    return tuple(tuple(one) if isinstance(one, list) else one for one in value)


def _are_ranges(value: Any) -> bool:
    pairs = value if isinstance(value, tuple) and value else (None,)
    if not all(isinstance(pair, tuple) and len(pair) == 2 and all(map(is_integer, pair)) for pair in pairs):
        return False
    ordered = sorted(pairs)
    are_apart = all(one[1] <= other[0] for one, other in itertools.pairwise(ordered))
    return are_apart and all(0 <= first < behind < LIMIT for first, behind in ordered)


#: Channels that are read, in the order of the reader's own.
channel_ranges = Rule(
    "must be a list of ranges [first, behind], none of which overlap",
    _are_ranges,
    {
        "type": "array",
        "minItems": 1,
        "items": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2},
    },
)


@frozen(kw_only=True)
class Pool:
    """A pooling window over a tensor; pairs are (width, height).

    Pooled element x covers columns `[x * stride - pad, x * stride - pad + window)`, clipped to the tensor, and rows
    likewise. `size` is the size of the pooled tensor, so that no rounding rule is needed.

    Raises:
        ValueError: a field is not a pair of positive integers (`pad`: of non-negative integers).
    """

    window: tuple[int, int] = field(converter=as_pair, validator=pair_of_positive)
    stride: tuple[int, int] = field(default=(1, 1), converter=as_pair, validator=pair_of_positive)
    pad: tuple[int, int] = field(default=(0, 0), converter=as_pair, validator=padding)
    size: tuple[int, int] = field(converter=as_pair, validator=pair_of_positive)


@frozen(kw_only=True)
class InputSize:
    """The size of a network's input: samples, channels, height and width.

    Raises:
        ValueError: one of them is not a positive integer.
    """

    N: int = field(default=1, validator=positive)
    C: int = field(validator=positive)
    H: int = field(default=1, validator=positive)
    W: int = field(default=1, validator=positive)
