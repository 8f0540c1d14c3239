"""The declared space of plans: partitions of a layer and homes of a tensor that are searched."""

from collections.abc import Iterator
from typing import Any

from attrs import field, frozen

from cpsat_pim.base.validate import Rule, as_tuple, boolean, not_negative, positive
from cpsat_pim.planner.array import Region
from cpsat_pim.planner.boxes import bounds_of
from cpsat_pim.planner.graph import LayerTask
from cpsat_pim.planner.partition import (
    LAYER_DIMS,
    LAYOUTS,
    TENSOR_DIMS,
    Digits,
    Home,
    Partition,
    layout_code,
    layout_name,
)

_LAYOUTS = Rule(
    "must be different ones of BCHW and BHWC, alone or with grouped channels as in BCHW[C2]",
    lambda v: bool(v) and all(map(layout_name.holds, v)) and len({*map(layout_code, v)}) == len(v),
)


@frozen(kw_only=True)
class Space:
    """What is searched: up to `dims` digits a side of a partition, `home_dims` a side of a home; layouts at home.

    `is_tied`: node programs read I and write O in the layouts of their homes; else they choose for themselves, and
    repacking is not counted. `home_columns`: homes may also lie on the first column of their region alone, which over a
    host is one node of each channel. `cuts`: branches of up to four layers' chains may run side by side on regions of
    slicing trees that are cut at multiples of so many rows or columns; tensors of one branch alone then lie on its
    region. With 0, every layer runs on the whole array.

    Raises:
        ValueError: a number is not positive, or a layout unknown.
    """

    dims: int = field(default=2, validator=positive)
    home_dims: int = field(default=1, validator=positive)
    layouts: tuple[str, ...] = field(default=LAYOUTS, converter=as_tuple, validator=_LAYOUTS)
    is_tied: bool = field(default=True, validator=boolean)
    cuts: int = field(default=0, validator=not_negative)
    home_columns: bool = field(default=False, validator=boolean)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as results state it."""
        return {
            "regions": self.regions,
            "dims": self.dims,
            "home_dims": self.home_dims,
            "home_columns": self.home_columns,
            "layouts": list(self.layouts),
            "tied": self.is_tied,
        }

    def __str__(self) -> str:
        ties = "tied" if self.is_tied else "free"
        columns = " or on the first column" if self.home_columns else ""
        sides = f"up to {self.dims} dims a side, homes {self.home_dims}{columns}"
        return f"{self.regions}, {sides}, layouts {' '.join(self.layouts)} ({ties})"

    @property
    def regions(self) -> str:
        """Where layers may run, in words."""
        return f"branches on regions cut at multiples of {self.cuts}" if self.cuts else "whole array"

    def partitions(self, task: LayerTask, region: Region) -> Iterator[Partition]:
        """Partitions of a layer; no dim has more parts than its bound."""
        bounds = dict(zip(LAYER_DIMS, bounds_of(task), strict=True))
        for h in sides(region.h, bounds, self.dims):
            for w in sides(region.w, bounds, self.dims):
                partition = Partition(region=region, h=h, w=w)
                if all(partition.split(dim) <= bound for dim, bound in bounds.items()):
                    yield partition

    def homes(self, shape: tuple[int, int, int, int], region: Region) -> list[Home]:
        """Homes of a tensor; no axis has more parts than elements, unless a region has no other home."""
        column = Region(region.y, region.x, region.h, 1)
        regions = [region, column] if self.home_columns and region.w > 1 else [region]
        return [home for one in regions for home in self._homes_on(shape, one)]

    def _homes_on(self, shape: tuple[int, int, int, int], region: Region) -> list[Home]:
        extents = dict(zip(TENSOR_DIMS, shape, strict=True))
        splits = [
            (h, w)
            for h in sides(region.h, extents, self.home_dims)
            for w in sides(region.w, extents, self.home_dims)
            if all(_split(h + w, dim) <= extent for dim, extent in extents.items())
        ]
        if not splits:
            widest = max(TENSOR_DIMS, key=lambda dim: extents[dim])
            splits = [(_single(widest, region.h), _single(widest, region.w))]
        return [Home(region=region, h=h, w=w, layout=layout) for h, w in splits for layout in self.layouts]


def sides(size: int, bounds: dict[str, int], most: int) -> Iterator[Digits]:
    """Digits of at most so many entries that multiply to a size, neighbours of different dims, within the bounds."""
    yield from _sides(size, bounds, most, "")


def _sides(size: int, bounds: dict[str, int], most: int, before: str) -> Iterator[Digits]:
    if size == 1:
        yield ()
        return
    if most == 0:
        return
    for dim, bound in bounds.items():
        if dim == before:
            continue
        for factor in range(2, min(size, bound) + 1):
            if size % factor == 0:
                for rest in _sides(size // factor, bounds, most - 1, dim):
                    yield ((dim, factor), *rest)


def _split(digits: Digits, dim: str) -> int:
    product = 1
    for name, factor in digits:
        product *= factor if name == dim else 1
    return product


def _single(dim: str, size: int) -> Digits:
    return ((dim, size),) if size > 1 else ()
