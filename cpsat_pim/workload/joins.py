"""What a network file states about the tensors between layers: pooling windows, other sizes, the input's size."""

import itertools
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from attrs.converters import optional

from cpsat_pim.base.reading import Either, Listing, Value, record_of
from cpsat_pim.base.validate import (
    LIMIT,
    Rule,
    as_pair,
    is_a,
    is_integer,
    one_of,
    or_none,
    pair_of_positive,
    positive,
)
from cpsat_pim.workload.reorders import Reorder

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


def pad_field() -> Any:
    """Return the field of zeros before an input."""
    kind = Value(padding)
    return field(default=None, converter=optional(as_pair), validator=or_none(padding), metadata={"kind": kind})


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


def channels_field() -> Any:
    """Return the field of channels that are read."""
    return field(
        default=None,
        converter=optional(as_ranges),
        validator=or_none(channel_ranges),
        metadata={"kind": Value(channel_ranges)},
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(name, str) and name for name in value)


#: Names of layers that are read.
layer_names = Rule(
    "must be a list of layer names or [input]",
    _is_names,
    {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
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


NEAREST, LINEAR, CORNERS = "nearest", "linear", "corners"
#: How a tensor gets other rows and columns.
RESIZES = (NEAREST, LINEAR, CORNERS)


@frozen(kw_only=True)
class Resize:
    """A tensor with other rows and columns, `size` (width, height) in all (docs/array.md, section 2).

    `kind`: `nearest`: each element is one of the source; `linear` and `corners`: it blends those that it lies between,
    where halves of elements, or the corners of both, lie on each other.

    Raises:
        ValueError: the size is not a pair of positive integers, or there is no such kind.
    """

    size: tuple[int, int] = field(converter=as_pair, validator=pair_of_positive)
    kind: str = field(default=NEAREST, validator=one_of(*RESIZES), metadata={"kind": Value(one_of(*RESIZES))})


@frozen(kw_only=True)
class View:
    """How a layer sees one of the tensors that it reads: pooled, resized or reordered, or as it is.

    `channels`: of a tensor that is added to its output, the range that is taken; absent: all.

    Raises:
        ValueError: it says several of them.
    """

    pool: Pool | None = field(default=None, validator=or_none(is_a(Pool)), metadata={"kind": record_of(Pool)})
    resize: Resize | None = field(default=None, validator=or_none(is_a(Resize)), metadata={"kind": record_of(Resize)})

    reorder: Reorder | None = field(
        default=None, validator=or_none(is_a(Reorder)), metadata={"kind": record_of(Reorder)}
    )
    channels: tuple[Range, ...] | None = channels_field()

    def __attrs_post_init__(self) -> None:
        if sum(one is not None for one in (self.pool, self.resize, self.reorder)) > 1:
            raise ValueError("View: must have at most one of pool, resize and reorder")

    @property
    def change(self) -> Pool | Resize | Reorder | None:
        """What is done to the tensor."""
        return self.pool or self.resize or self.reorder


#: How a layer sees a tensor, or, where it lists that several times, how each time.
Views = View | tuple[View, ...]
#: The same in files.
VIEWS = Either(Listing(record_of(View), "a view, or a list of views"), record_of(View))


def view_of(views: Mapping[str, Views] | None, name: str, time: int = 0) -> View | None:
    """Return how a layer sees a tensor, where it lists that for the first time (0) or again."""
    view = (views or {}).get(name)
    if isinstance(view, tuple):
        return view[time] if time < len(view) else None
    return view


def all_views(views: Mapping[str, Views] | None) -> tuple[View, ...]:
    """Return how a layer sees tensors, whichever they are."""
    return tuple(one for some in (views or {}).values() for one in (some if isinstance(some, tuple) else (some,)))


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
