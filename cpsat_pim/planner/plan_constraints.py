"""Side constraints of a plan: where given layers run and given tensors lie, which nodes are reserved, how many layouts.

All but the last restrict the options of single layers and the homes of single tensors, so the search stays as it is,
over fewer of them. The number of layouts couples all tensors: see `cpsat_pim.planner.labels.model`.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen

from cpsat_pim.base.reading import Field, FileKind, Record, Table, Value, hint, record_of
from cpsat_pim.base.validate import Rule, is_integer, or_none, positive
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.partition import LAYER_DIMS, TENSOR_DIMS, Digits, Home, Partition, layout_name
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.tensors import Graph

#: So many choices of layouts are each searched for themselves where their number is limited.
MOST_CHOICES = 20

Rectangle = tuple[int, int, int, int]
#: Yields the digits that a side of so many nodes may have, where none are given.
FreeSides = Callable[[int], Iterator[Digits]]


def _is_rectangle(value: Any) -> bool:
    is_four = isinstance(value, tuple) and len(value) == 4 and all(map(is_integer, value))
    return is_four and min(value[:2]) >= 0 and min(value[2:]) > 0


_RECTANGLE = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 4, "maxItems": 4}
_rectangle = Rule("must be [first row, first column, rows, columns]", _is_rectangle, _RECTANGLE)
_rectangles = Rule(
    "must be a list of [first row, first column, rows, columns]",
    lambda v: isinstance(v, tuple) and all(map(_is_rectangle, v)),
    {"type": "array", "items": _RECTANGLE},
)


def _digits(dims: tuple[str, ...]) -> Rule:
    def holds(value: Any) -> bool:
        return isinstance(value, tuple) and all(
            isinstance(one, tuple) and len(one) == 2 and one[0] in dims and is_integer(one[1]) and one[1] > 0
            for one in value
        )

    pair = [{"enum": list(dims)}, {"type": "integer", "minimum": 1}]
    schema = {"type": "array", "items": {"type": "array", "prefixItems": pair, "minItems": 2, "maxItems": 2}}
    return Rule(f"must be a list of [dim, parts], dims of {' '.join(dims)}", holds, schema)


def _given_digits(value: Any) -> Digits | None:
    return value and tuple(tuple(one) for one in value if one[1] != 1)


class _Placed:
    """What is fixed of where something lies: its region, and the split of rows (`h`) or of columns (`w`)."""

    region: Rectangle | None
    h: Digits | None
    w: Digits | None

    def sides(self, side: str, size: int, free: FreeSides) -> Iterator[Digits]:
        """Yield the digits that a side of so many nodes may have: those that are given, or all that are free."""
        digits = _given_digits(getattr(self, side))
        if digits is None:
            yield from free(size)
        elif math.prod(factor for _, factor in digits) == size:
            yield digits

    def broken_by(self, got: Partition | Home) -> Iterator[str]:
        """Yield what a partition or home has in place of what is fixed."""
        if self.region is not None and list(self.region) != got.region.to_list():
            yield f"region: must be {list(self.region)} (got {got.region.to_list()})"
        for side in ("h", "w"):
            digits = _given_digits(getattr(self, side))
            if digits is not None and digits != getattr(got, side):
                yield f"{side}: must be {_shown(digits)} (got {_shown(getattr(got, side))})"


@frozen(kw_only=True)
class LayerConstraint(_Placed):
    """What is fixed of a layer: its region, and the split of rows (`h`) or of columns (`w`), outermost first."""

    region: Rectangle | None = field(default=None, validator=or_none(_rectangle))
    h: Digits | None = field(default=None, validator=or_none(_digits(LAYER_DIMS)))
    w: Digits | None = field(default=None, validator=or_none(_digits(LAYER_DIMS)))


@frozen(kw_only=True)
class HomeConstraint(_Placed):
    """What is fixed of a tensor's home: its region, the split of rows (`h`) or of columns (`w`), and its layout."""

    region: Rectangle | None = field(default=None, validator=or_none(_rectangle))
    h: Digits | None = field(default=None, validator=or_none(_digits(TENSOR_DIMS)))
    w: Digits | None = field(default=None, validator=or_none(_digits(TENSOR_DIMS)))
    layout: str | None = field(default=None, validator=or_none(layout_name))

    def broken_by(self, got: Partition | Home) -> Iterator[str]:
        """Yield what a home has in place of what is fixed, its layout besides."""
        yield from super().broken_by(got)
        if self.layout is not None and isinstance(got, Home) and got.layout != self.layout:
            yield f"layout: must be {self.layout} (got {got.layout})"


def _shown(digits: Digits) -> str:
    return str([list(one) for one in digits])


@frozen(kw_only=True)
class PlanConstraints:
    """What every plan of the space must keep to.

    `layers` and `homes`: by name, what is fixed of them; a home is named by any tensor that lies there. `reserved`:
    rectangles of nodes that no other layer and no other tensor uses; their routers pass data on. `most_layouts`: so
    many different layouts have tensors at home, at most.
    """

    layers: dict[str, LayerConstraint] = field(factory=dict)
    homes: dict[str, HomeConstraint] = field(factory=dict)
    reserved: tuple[Rectangle, ...] = field(default=(), validator=_rectangles)
    most_layouts: int | None = field(default=None, validator=or_none(positive))

    def __bool__(self) -> bool:
        return bool(self.layers or self.homes or self.reserved or self.most_layouts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as a file has it."""
        named = {key: {name: _plain(one) for name, one in getattr(self, key).items()} for key in ("layers", "homes")}
        whole = named | {"reserved": [list(one) for one in self.reserved], "most_layouts": self.most_layouts}
        return {key: value for key, value in whole.items() if value}

    def __str__(self) -> str:
        named = [f"{key} {', '.join(getattr(self, key))}" for key in ("layers", "homes") if getattr(self, key)]
        reserved = [f"{len(self.reserved)} reserved rectangles"] if self.reserved else []
        layouts = [f"at most {self.most_layouts} layouts"] if self.most_layouts else []
        return "constraints: " + "; ".join([*named, *reserved, *layouts])

    # --- Where anything may be ---------------------------------------------------------------------------------------

    def free_region(self, array: NodeArray) -> Region:
        """Return the largest rectangle without reserved nodes, the first of them row by row.

        Raises:
            ValueError: all nodes are reserved.
        """
        is_free = self._free(array)
        if is_free.all():
            return array.whole
        found = max(_free_rectangles(is_free), key=lambda r: (r.size, -r.y, -r.x), default=None)
        if found is None:
            raise ValueError("reserved: no node is left")
        return found

    def free_nodes(self, array: NodeArray) -> int:
        """Return how many nodes a plan may use: those that are not reserved, and those of given regions."""
        is_used = self._free(array)
        regions = [one.region for one in self.layers.values()] + [one.region for one in self.homes.values()]
        for region in filter(None, regions):
            is_used[_nodes_of(region)] = True
        return int(is_used.sum())

    def _free(self, array: NodeArray) -> np.ndarray:
        is_free = np.ones((array.rows, array.cols), dtype=np.bool_)
        for one in self.reserved:
            is_free[_nodes_of(one)] = False
        return is_free

    def of_layer(self, name: str) -> LayerConstraint:
        """Return what is fixed of a layer."""
        return self.layers.get(name, LayerConstraint())

    def of_home(self, graph: Graph, home: str) -> tuple[HomeConstraint, ...]:
        """Return what is fixed of a home, by any of the tensors that lie there."""
        return tuple(one for name, one in self.homes.items() if graph.home_of[graph.stack_of[name]] == home)

    def choices_of_layouts(self, layouts: tuple[str, ...]) -> list[tuple[str, ...] | None]:
        """Return all choices of as many layouts as are allowed; None, so all layouts, where they are too many."""
        most = self.most_layouts
        if most is None or most >= len(layouts) or math.comb(len(layouts), most) > MOST_CHOICES:
            return [None]
        return list(combinations(layouts, most))

    # --- Checks ------------------------------------------------------------------------------------------------------

    def problems(self, graph: Graph, array: NodeArray) -> Iterator[str]:
        """Yield a line for each name that the network does not have, and each rectangle that leaves the array."""
        layers = [task.name for task in graph.tasks]
        yield from _unknown("layers", self.layers, layers)
        yield from _unknown("homes", self.homes, list(graph.stack_of))
        named = {f"layers.{name}.region": one.region for name, one in self.layers.items()}
        named |= {f"homes.{name}.region": one.region for name, one in self.homes.items()}
        named |= {f"reserved[{i}]": one for i, one in enumerate(self.reserved)}
        for place, one in named.items():
            if one is not None and (one[0] + one[2] > array.rows or one[1] + one[3] > array.cols):
                yield f"{place}: must lie in the {array.rows} x {array.cols} nodes (got {list(one)})"
        if not self._free(array).any():
            yield "reserved: no node is left"

    def broken_by(self, graph: Graph, plan: Plan) -> Iterator[str]:
        """Yield a line for each constraint that a plan breaks."""
        for name, layer in self.layers.items():
            yield from (f"layers.{name}.{line}" for line in layer.broken_by(plan.layers[name].partition))
        for name, home in self.homes.items():
            yield from (f"homes.{name}.{line}" for line in home.broken_by(plan.homes[graph.stack_of[name]]))
        free = self._free(plan.array)
        for name, one in self._elsewhere(graph, plan):
            if not free[_nodes_of(tuple(one.to_list()))].all():
                yield f"{name}: must not lie on reserved nodes (got {one.to_list()})"
        if self.has_too_many_layouts(plan):
            yield f"homes: must have {self.most_layouts} layouts at most (got {', '.join(_layouts_of(plan))})"

    def _elsewhere(self, graph: Graph, plan: Plan) -> Iterator[tuple[str, Region]]:
        """Yield the regions of a plan that no constraint gives."""
        for name, layer in plan.layers.items():
            if self.of_layer(name).region is None:
                yield f"layers.{name}", layer.partition.region
        for name, home in plan.homes.items():
            if all(one.region is None for one in self.of_home(graph, graph.home_of[name])):
                yield f"homes.{name}", home.region

    def has_too_many_layouts(self, plan: Plan) -> bool:
        """Whether tensors of a plan lie in more different layouts than allowed."""
        return self.most_layouts is not None and len(_layouts_of(plan)) > self.most_layouts


NO_CONSTRAINTS = PlanConstraints()


def _plain(one: LayerConstraint | HomeConstraint) -> dict[str, Any]:
    keys = ("region", "h", "w", "layout")
    given = {key: getattr(one, key, None) for key in keys}
    return {key: _as_lists(value) for key, value in given.items() if value is not None}


def _as_lists(value: Any) -> Any:
    return [_as_lists(one) for one in value] if isinstance(value, tuple) else value


def _layouts_of(plan: Plan) -> list[str]:
    return sorted({home.layout for home in plan.homes.values()})


def _nodes_of(rectangle: Iterable[int]) -> tuple[slice, slice]:
    y, x, h, w = rectangle
    return slice(y, y + h), slice(x, x + w)


def _unknown(place: str, given: Iterable[str], known: list[str]) -> Iterator[str]:
    for name in given:
        if name not in known:
            yield f"{place}.{name}: is not in the network{hint(name, known)}"


def _free_rectangles(is_free: np.ndarray) -> Iterator[Region]:
    """Yield, for all pairs of a first and a last row, the widest rectangles of free nodes."""
    rows, cols = is_free.shape
    for first in range(rows):
        is_open = np.ones(cols, dtype=np.bool_)
        for last in range(first, rows):
            is_open &= is_free[last]
            edges = np.flatnonzero(np.diff(np.concatenate([[0], is_open.astype(np.int8), [0]])))
            for start, stop in edges.reshape(-1, 2).tolist():
                yield Region(first, start, last - first + 1, stop - start)


PLAN_CONSTRAINTS = FileKind(
    kind="constraints of a plan",
    record=Record(
        fields={
            "layers": Field(kind=Table(record_of(LayerConstraint))),
            "homes": Field(kind=Table(record_of(HomeConstraint))),
            "reserved": Field(kind=Value(_rectangles)),
            "most_layouts": Field(kind=Value(positive)),
        },
        build=PlanConstraints,
        doc="What every plan must keep to.",
    ),
)


def read_plan_constraints(path: str | Path, graph: Graph, array: NodeArray) -> PlanConstraints:
    """Read the constraints of a YAML file, for a network on an array.

    Raises:
        ValueError: an unreadable file, or mistakes in it; a line each.
    """
    found: PlanConstraints = PLAN_CONSTRAINTS.read(path)
    problems = list(found.problems(graph, array))
    if problems:
        raise ValueError("\n".join(f"{path}: {line}" for line in problems))
    return found
