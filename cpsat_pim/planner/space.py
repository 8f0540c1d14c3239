"""The declared space of plans: partitions of a layer and homes of a tensor that are searched."""

from collections.abc import Iterator
from typing import Any

from attrs import field, frozen

from cpsat_pim.base.validate import Rule, as_tuple, boolean, is_a, not_negative, positive, share
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.boxes import bounds_of
from cpsat_pim.planner.partition import (
    LAYER_DIMS,
    LAYOUTS,
    TENSOR_DIMS,
    Digits,
    Home,
    Partition,
    layout_code,
    layout_name,
    products,
)
from cpsat_pim.planner.plan_constraints import NO_CONSTRAINTS, HomeConstraint, PlanConstraints
from cpsat_pim.planner.tensors import Graph, LayerTask

Shape = tuple[int, int, int, int]
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
    region. With 0, every layer runs on the whole array. `padding`: node programs may be of parts padded with zeros,
    with at most this share of MACs more; it is that of the node costs. `constraints`: what every plan must keep to,
    besides; a split that they give may have more digits.

    Raises:
        ValueError: a number is not positive, a layout unknown, or there are constraints and cuts.
    """

    dims: int = field(default=2, validator=positive)
    home_dims: int = field(default=1, validator=positive)
    layouts: tuple[str, ...] = field(default=LAYOUTS, converter=as_tuple, validator=_LAYOUTS)
    is_tied: bool = field(default=True, validator=boolean)
    cuts: int = field(default=0, validator=not_negative)
    home_columns: bool = field(default=False, validator=boolean)
    padding: float = field(default=0.0, validator=share)
    constraints: PlanConstraints = field(default=NO_CONSTRAINTS, validator=is_a(PlanConstraints))

    def __attrs_post_init__(self) -> None:
        if self.cuts and self.constraints:
            raise ValueError(f"Space.cuts: must be 0 where a plan has constraints (got {self.cuts})")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as results state it."""
        return {
            "regions": self.regions,
            "dims": self.dims,
            "home_dims": self.home_dims,
            "home_columns": self.home_columns,
            "layouts": list(self.layouts),
            "tied": self.is_tied,
            **({"padding": self.padding} if self.padding else {}),
            **({"constraints": self.constraints.to_dict()} if self.constraints else {}),
        }

    def __str__(self) -> str:
        ties = "tied" if self.is_tied else "free"
        columns = " or on the first column" if self.home_columns else ""
        sides = f"up to {self.dims} dims a side, homes {self.home_dims}{columns}"
        padded = f", parts padded by at most {100 * self.padding:g} % of MACs" if self.padding else ""
        limited = f", {self.constraints}" if self.constraints else ""
        return f"{self.regions}, {sides}, layouts {' '.join(self.layouts)} ({ties}){padded}{limited}"

    @property
    def regions(self) -> str:
        """Where layers may run, in words."""
        return f"branches on regions cut at multiples of {self.cuts}" if self.cuts else "whole array"

    def partitions(self, task: LayerTask, region: Region) -> Iterator[Partition]:
        """Partitions of a layer that keep to the constraints; no dim has more parts than its bound."""
        bounds, fixed = dict(zip(LAYER_DIMS, bounds_of(task), strict=True)), self.constraints.of_layer(task.name)
        for h in fixed.sides("h", region.h, lambda size: sides(size, bounds, self.dims)):
            for w in fixed.sides("w", region.w, lambda size: sides(size, bounds, self.dims)):
                split = products(h + w)
                if all(split[dim] <= bound for dim, bound in bounds.items()):
                    yield Partition(region=region, h=h, w=w)

    def region_of(self, task: LayerTask, free: Region) -> Region:
        """Return the region that is given, or the largest rectangle from the corner that some partition fills.

        That is all of the region that is free, unless the layer has fewer values to split than there are nodes.

        Raises:
            ValueError: no split that keeps to the constraints fills such a region.
        """
        given = self.constraints.of_layer(task.name).region
        shapes = [(h, w) for h in range(1, free.h + 1) for w in range(1, free.w + 1)]
        ordered = sorted(shapes, key=lambda shape: (-shape[0] * shape[1], shape))
        for region in [Region(*given)] if given else [Region(free.y, free.x, h, w) for h, w in ordered]:
            if next(self.partitions(task, region), None) is not None:
                return region
        where = f"the {given[2]} x {given[3]} nodes of its region" if given else "any region"
        raise ValueError(f"layers.{task.name}: no split of the space fills {where}")

    def homes_of(self, graph: Graph, array: NodeArray) -> dict[str, list[Home]]:
        """Homes of all tensors that need one of their own, by name; those that keep to the constraints.

        Raises:
            ValueError: a tensor has none.
        """
        free = self.constraints.free_region(array)
        found = {}
        for name in graph.homes:
            shape, fixed = graph.home_shape(name), self.constraints.of_home(graph, name)
            found[name] = [home for home in self._homes_at(shape, free, fixed) if not _breaks(home, fixed)]
            if not found[name]:
                raise ValueError(f"homes.{name}: no home of the space keeps to all that is fixed of it")
        return found

    def _homes_at(self, shape: Shape, free: Region, fixed: tuple[HomeConstraint, ...]) -> list[Home]:
        """Homes of a tensor on a region that is free, or on the one that is given, with splits that are given."""
        region = next((Region(*one.region) for one in fixed if one.region is not None), free)
        extents = dict(zip(TENSOR_DIMS, shape, strict=True))
        given = [
            Home(region=region, h=h, w=w, layout=layout)
            for one in fixed
            if one.h is not None or one.w is not None
            for h in one.sides("h", region.h, lambda size: sides(size, extents, self.home_dims))
            for w in one.sides("w", region.w, lambda size: sides(size, extents, self.home_dims))
            for layout in self.layouts
        ]
        return list(dict.fromkeys(given)) or self.homes(shape, region)

    def homes(self, shape: Shape, region: Region) -> list[Home]:
        """Homes of a tensor; no axis has more parts than elements, unless a region has no other home."""
        column = Region(region.y, region.x, region.h, 1)
        regions = [region, column] if self.home_columns and region.w > 1 else [region]
        return [home for one in regions for home in self._homes_on(shape, one)]

    def _homes_on(self, shape: Shape, region: Region) -> list[Home]:
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


def _breaks(home: Home, fixed: tuple[HomeConstraint, ...]) -> bool:
    return any(True for one in fixed for _ in one.broken_by(home))


def _split(digits: Digits, dim: str) -> int:
    product = 1
    for name, factor in digits:
        product *= factor if name == dim else 1
    return product


def _single(dim: str, size: int) -> Digits:
    return ((dim, size),) if size > 1 else ()
