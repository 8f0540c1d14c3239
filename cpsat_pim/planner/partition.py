"""Partitions of layers and homes of tensors: digits of rows and columns (docs/array.md, section 3)."""

import math
import re
from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import field, frozen

from cpsat_pim.base.validate import Rule, is_a, is_integer, or_none, positive
from cpsat_pim.planner.array import Region

#: Dims that a layer is split in, in the order of part ranges.
LAYER_DIMS = ("N", "P", "Q", "K", "C", "G")
#: Axes of a tensor, in the order of boxes.
TENSOR_DIMS = ("N", "C", "H", "W")
#: Layouts of a tensor at home; followed by `[Cn]`, n channels lie innermost.
LAYOUTS = ("BCHW", "BHWC")
_LAYOUT = re.compile(r"(BCHW|BHWC)(?:\[C([1-9]\d{0,5})\])?")
#: A layout at home by its name.
layout_name = Rule(
    "must be BCHW or BHWC, alone or with grouped channels as in BCHW[C2]",
    lambda v: isinstance(v, str) and bool(_LAYOUT.fullmatch(v)),
)

Digits = tuple[tuple[str, int], ...]


def _as_digits(value: Any) -> Any:
    """Pairs (dim, factor) without factors of 1."""
    return tuple((dim, factor) for dim, factor in value if factor != 1)


def _digits_over(dims: tuple[str, ...]) -> Rule:
    def holds(value: Any) -> bool:
        return isinstance(value, tuple) and all(d in dims and is_integer(f) and f > 1 for d, f in value)

    return Rule(f"must be pairs of a dim of {' '.join(dims)} and a factor above 1", holds)


def _product(digits: Digits) -> int:
    return math.prod(factor for _, factor in digits)


def products(digits: Digits) -> Counter[str]:
    """The product of the digits of each layer dim."""
    found = Counter(dict.fromkeys(LAYER_DIMS, 1))
    for dim, factor in digits:
        found[dim] *= factor
    return found


def _check_sides(name: str, region: Region, h: Digits, w: Digits) -> None:
    """Raise ValueError unless the digits fill the region."""
    for side, digits, size in (("h", h, region.h), ("w", w, region.w)):
        if _product(digits) != size:
            raise ValueError(f"{name}.{side}: the factors must multiply to {size} (got {_product(digits)})")


@frozen(kw_only=True)
class Partition:
    """A layer's split over a region: digits of rows and of columns, outermost first; WR replicas of its weights.

    Raises:
        ValueError: the factors do not fill the region, or the replicas do not divide the sharing sets of W.
    """

    region: Region = field(validator=is_a(Region))
    h: Digits = field(default=(), converter=_as_digits, validator=_digits_over(LAYER_DIMS))
    w: Digits = field(default=(), converter=_as_digits, validator=_digits_over(LAYER_DIMS))
    weight_replicas: int | None = field(default=None, validator=or_none(positive))

    def __attrs_post_init__(self) -> None:
        _check_sides("Partition", self.region, self.h, self.w)
        if self.sharing % self.replicas:
            raise ValueError(
                f"Partition.weight_replicas: must divide the {self.sharing} nodes that share (got {self.replicas})"
            )

    @property
    def sharing(self) -> int:
        """Nodes that need the same weights."""
        return math.prod(factor for dim, factor in self.h + self.w if dim in ("N", "P", "Q"))

    @property
    def replicas(self) -> int:
        """Replicas of the weights in a sharing set: as many as nodes, if nothing is said."""
        return self.sharing if self.weight_replicas is None else self.weight_replicas

    def split(self, dim: str) -> int:
        """Parts of a dim."""
        return _product(tuple(digit for digit in self.h + self.w if digit[0] == dim))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "region": self.region.to_list(),
            "h": [list(digit) for digit in self.h],
            "w": [list(digit) for digit in self.w],
            "weight_replicas": self.replicas,
        }


@frozen(kw_only=True)
class Home:
    """Where a tensor lies: its split over a region, and the order of its axes on each node.

    Raises:
        ValueError: the factors do not fill the region, or there is no such layout.
    """

    region: Region = field(validator=is_a(Region))
    h: Digits = field(default=(), converter=_as_digits, validator=_digits_over(TENSOR_DIMS))
    w: Digits = field(default=(), converter=_as_digits, validator=_digits_over(TENSOR_DIMS))
    layout: str = field(default=LAYOUTS[0], validator=layout_name)

    def __attrs_post_init__(self) -> None:
        _check_sides("Home", self.region, self.h, self.w)

    def split(self, axis: str) -> int:
        """Parts of an axis."""
        return _product(tuple(digit for digit in self.h + self.w if digit[0] == axis))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "region": self.region.to_list(),
            "h": [list(digit) for digit in self.h],
            "w": [list(digit) for digit in self.w],
            "layout": self.layout,
        }


@lru_cache(maxsize=256)
def channel_group(layout: str) -> int:
    """Return the channels of a group of a layout, 1 for none."""
    found = _LAYOUT.fullmatch(layout)
    assert found is not None
    return int(found[2] or 1)


def layout_code(layout: str) -> int:
    """Return a layout as kernels take it: twice the channels of a group if there are groups, and 1 for BHWC."""
    group = channel_group(layout)
    return (2 * group if group > 1 else 0) + layout.startswith("BHWC")


@lru_cache(maxsize=4096)
def part_indices(h: Digits, w: Digits, dims: tuple[str, ...]) -> np.ndarray:
    """Part index of every dim for every node of a region, row by row: int64[nodes, dims]."""
    rows, cols = _side_indices(h, dims), _side_indices(w, dims)
    splits = np.array([_product(tuple(d for d in w if d[0] == dim)) for dim in dims], dtype=np.int64)
    both: np.ndarray = rows[:, None, :] * splits + cols[None, :, :]
    return both.reshape(-1, len(dims))


def _side_indices(digits: Digits, dims: tuple[str, ...]) -> np.ndarray:
    """Part index along one side: int64[side, dims]; the last digit is the fastest."""
    indices = np.zeros((_product(digits), len(dims)), dtype=np.int64)
    local, weight = np.arange(len(indices)), len(indices)
    for dim, factor in digits:
        weight //= factor
        at = dims.index(dim)
        indices[:, at] = indices[:, at] * factor + local // weight % factor
    return indices


def part_ranges(indices: np.ndarray, bounds: tuple[int, ...], splits: tuple[int, ...]) -> np.ndarray:
    """The half-open range of each dim's part: int64[nodes, dims, 2]; ceil-sized parts, late ones clipped."""
    sizes = np.array([part_size(bound, split) for bound, split in zip(bounds, splits, strict=True)])
    starts = np.minimum(indices * sizes, bounds)
    return np.stack([starts, np.minimum(starts + sizes, bounds)], axis=-1)


def part_size(bound: int, split: int) -> int:
    """Size of the parts of a dim: the bound over the split, rounded up."""
    return -(-bound // split)
