"""A space of machines: axes with values, boxes of them, and the machine of a design (docs/tuner.md)."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from attrs import evolve, field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import change_arch
from cpsat_pim.base.validate import as_tuple, is_a, text
from cpsat_pim.planner.array import MESH, NodeArray
from cpsat_pim.tuner.area import AreaModel
from cpsat_pim.tuner.fields import Ranges, numbers_of, with_unit

ROWS, COLS = "array.rows", "array.cols"
_ARCH = "arch."
#: Paths of numbers that cost less time, energy or area the smaller they are.
_BETTER_SMALL = ("cost", "energy", "latency", "static_power", "tRCD", "tRP", "tRAS", "tRC", "tRTP", "tCCD", "RL", "WL")
#: A design: the index of each axis' value.
Design = tuple[int, ...]


def _is_increasing(instance: Any, attribute: Any, values: tuple[float, ...]) -> None:
    if not values or any(a >= b for a, b in pairwise(values)):
        raise ValueError(
            f"HardwareSpace.axes.{instance.path}: must have at least one value, each larger than the one before"
        )


#: Numbers of a machine on which no cost depends, and what to say of them.
_WITHOUT_EFFECT = {
    "clock": "has no effect: latency counts cycles",
    "static_power": "has no effect: energy is that of accesses, MACs and activations",
    "vault_count": f"has no effect: {ROWS} counts nodes",
    "pu_count": f"has no effect: {COLS} counts nodes",
}


@frozen(kw_only=True)
class Axis:
    """A field and its values, which increase: `array.rows`, `array.cols`, or `arch.` and the path of a number."""

    path: str = field(validator=text)
    values: tuple[float, ...] = field(converter=as_tuple, validator=_is_increasing)

    @property
    def field(self) -> str:
        """The path within the machine."""
        return self.path.removeprefix(_ARCH)

    @property
    def is_of_array(self) -> bool:
        """Whether the axis counts nodes."""
        return self.path in (ROWS, COLS)

    @property
    def is_better_small(self) -> bool:
        """Whether a machine with a smaller value is never worse."""
        last = self.path.rpartition(".")[2]
        return any(last.endswith(word) or last.startswith(word) for word in _BETTER_SMALL)


@frozen
class Box:
    """All designs whose indices lie between two designs, both included."""

    low: Design
    high: Design

    @property
    def size(self) -> int:
        """How many designs these are."""
        return math.prod(b - a + 1 for a, b in zip(self.low, self.high, strict=True))

    @property
    def is_single(self) -> bool:
        """Whether it is one design."""
        return self.low == self.high

    def holds(self, design: Design) -> bool:
        """Whether a design is one of them."""
        return all(a <= i <= b for a, i, b in zip(self.low, design, self.high, strict=True))

    def halves(self, axis: int) -> Iterator["Box"]:
        """Yield the two halves along an axis."""
        middle = (self.low[axis] + self.high[axis]) // 2
        yield Box(self.low, _with(self.high, axis, middle))
        yield Box(_with(self.low, axis, middle + 1), self.high)


def _with(design: Design, axis: int, index: int) -> Design:
    return (*design[:axis], index, *design[axis + 1 :])


@frozen(kw_only=True)
class HardwareSpace:
    """Machines that differ from `arch` in the values of `axes`. `shared`: numbers of `arch` that all nodes have
    together, such as the width of all DRAM banks: each node has its part.

    Raises:
        ValueError: an axis is given twice, or a number that is shared or an axis is none of the machine's.
    """

    name: str = field(validator=text)
    arch: PIMArchitecture = field(validator=is_a(PIMArchitecture))
    axes: tuple[Axis, ...] = field(converter=as_tuple)
    shared: Mapping[str, float] = field(factory=dict)
    area: AreaModel = field(factory=AreaModel)
    interconnect: str = MESH
    base: Mapping[str, float] = field(init=False, repr=False, eq=False)

    @base.default
    def _base(self) -> dict[str, float]:
        return numbers_of(self.arch)

    def __attrs_post_init__(self) -> None:
        paths = [axis.path for axis in self.axes]
        problems = [f"axes.{path}: is given twice" for path in {p for p in paths if paths.count(p) > 1}]
        for axis in self.axes:
            ends = self._problems(axis.path, axis.values[0]) or self._problems(axis.path, axis.values[-1])
            problems += [f"axes.{axis.path}: {problem}" for problem in ends]
        problems += [f"shared.{path}: must not be an axis too" for path in self.shared if path in paths]
        problems += [f"shared.{path}: {problem}" for path, problem in self._unknown(self.shared)]
        if problems:
            raise ValueError("\n".join(f"HardwareSpace.{line}" for line in problems))

    def _unknown(self, paths: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        for path in paths:
            if path.removeprefix(_ARCH) not in self.base:
                yield path, "is no number of the machine"

    def problems_of(self, values: Mapping[str, float]) -> list[str]:
        """Return what is wrong with the values of a machine, in the space or not; a line each, from the path on."""
        found = [f"{path}: {problem}" for path, value in values.items() for problem in self._problems(path, value)]
        if not found:
            try:
                self.array(values)
            except ValueError as error:
                found = str(error).splitlines()
        return found

    def _problems(self, path: str, value: float) -> list[str]:
        """Return what is wrong with a value of a number, apart from the others."""
        name = path.removeprefix(_ARCH)
        if path in (ROWS, COLS):
            return [] if value >= 1 and float(value).is_integer() else [f"must be positive integers (got {value:g})"]
        if not path.startswith(_ARCH):
            return [f"must be {ROWS}, {COLS}, or arch. and a field"]
        if name in _WITHOUT_EFFECT:
            return [_WITHOUT_EFFECT[name]]
        try:
            changed = change_arch(self.arch, {name: plain(value)})
        except ValueError as error:
            # Separate buffers or combinations of fields may be right together and wrong alone: those are told later.
            alone = [line for line in str(error).splitlines() if name in line or "unknown" in line]
            return [line.partition(": ")[2] or line for line in alone]
        return [] if name in numbers_of(changed) else ["is no number of the machine"]

    # --- Designs -----------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """How many designs there are."""
        return math.prod(len(axis.values) for axis in self.axes)

    @property
    def whole(self) -> Box:
        """All designs."""
        return Box(tuple(0 for _ in self.axes), tuple(len(axis.values) - 1 for axis in self.axes))

    def values(self, design: Design) -> dict[str, float]:
        """Return the values of a design by the paths of the axes."""
        return {axis.path: axis.values[i] for axis, i in zip(self.axes, design, strict=True)}

    def shape(self, values: Mapping[str, float]) -> tuple[int, int]:
        """Return rows and columns of nodes."""
        rows, cols = values.get(ROWS, self.arch.vault_count), values.get(COLS, self.arch.pu_count)
        return int(rows), int(cols)

    def array(self, values: Mapping[str, float], name: str = "") -> NodeArray:
        """Return the array of nodes that has these values.

        Raises:
            ValueError: the values do not go together; a line each.
        """
        rows, cols = self.shape(values)
        changes: dict[str, Any] = {"vault_count": rows, "pu_count": cols, "name": name or self.named(values)}
        for path, value in {**self._parts(rows * cols), **values}.items():
            if path.startswith(_ARCH):
                changes[path.removeprefix(_ARCH)] = plain(value)
        return NodeArray(rows=rows, cols=cols, node=change_arch(self.arch, changes), interconnect=self.interconnect)

    def named(self, values: Mapping[str, float]) -> str:
        """Return a name for the machine of some values."""
        return f"{self.name} ({describe(values)})"

    def _parts(self, nodes: int) -> dict[str, float]:
        """Return each node's part of what is shared."""
        return {path: value / nodes for path, value in self.shared.items()}

    # --- Ranges ------------------------------------------------------------------------------------------------------

    def ranges(self, box: Box, shape: tuple[int, int]) -> Ranges:
        """Return the numbers of the box's machines that have so many rows and columns of nodes."""
        spans = {
            axis.field: (axis.values[a], axis.values[b])
            for axis, a, b in zip(self.axes, box.low, box.high, strict=True)
        }
        found = self._ranges(spans, shape)
        return evolve(found, most_pes=self.area.most_pes(found.nodes, found.least))

    def point(self, values: Mapping[str, float]) -> Ranges:
        """Return the numbers of one machine, in the space or not."""
        return self._ranges({path.removeprefix(_ARCH): (v, v) for path, v in values.items()}, self.shape(values))

    def _ranges(self, spans: dict[str, tuple[float, float]], shape: tuple[int, int]) -> Ranges:
        nodes = shape[0] * shape[1]
        parts = {path.removeprefix(_ARCH): (value, value) for path, value in self._parts(nodes).items()}
        return Ranges(
            arch=self.arch, base=self.base, spans={**parts, **spans}, nodes=nodes, interconnect=self.interconnect
        )

    def shapes(self, box: Box) -> list[tuple[int, int]]:
        """Return all rows and columns of nodes in a box."""
        options: dict[str, tuple[float, ...]] = {ROWS: (self.arch.vault_count,), COLS: (self.arch.pu_count,)}
        for axis, a, b in zip(self.axes, box.low, box.high, strict=True):
            if axis.is_of_array:
                options[axis.path] = axis.values[a : b + 1]
        return [(int(rows), int(cols)) for rows in options[ROWS] for cols in options[COLS]]

    def area_mm2(self, values: Mapping[str, float]) -> float:
        """Return the area of a machine."""
        own = {path.removeprefix(_ARCH): value for path, value in values.items()}
        rows, cols = self.shape(values)

        def number(path: str) -> float | None:
            if _ARCH + path in self.shared:
                return self.shared[_ARCH + path] / (rows * cols)
            return own[path] if path in own else self.base.get(path)

        return self.area.array_mm2(rows * cols, number)

    def fits(self, design: Design) -> bool:
        """Return whether a design is within the area."""
        return self.area.fits(self.area_mm2(self.values(design)))

    def within_area(self, box: Box) -> Box | None:
        """Return the box without values that are too large beside the smallest others; None if nothing is left.

        Area only grows with every field that it depends on.
        """
        numbers = {**self.base, **{axis.field: axis.values[i] for axis, i in zip(self.axes, box.low, strict=True)}}
        nodes = math.prod(min(sides) for sides in zip(*self.shapes(box), strict=True))

        def fits(axis: Axis, index: int) -> bool:
            if axis.is_of_array:
                return self.area.fits(
                    self.area.array_mm2(nodes // int(numbers[axis.path]) * int(axis.values[index]), numbers.get)
                )
            one = numbers | {axis.field: axis.values[index]}
            return self.area.fits(self.area.array_mm2(nodes, one.get))

        if not self.area.fits(self.area.array_mm2(nodes, numbers.get)):
            return None
        high = [_largest(a, b, partial(fits, axis)) for axis, a, b in zip(self.axes, box.low, box.high, strict=True)]
        return Box(box.low, tuple(high))


def _largest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest index from low to high that fits; low does."""
    if low == high or fits(high):
        return high
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def describe(values: Mapping[str, float]) -> str:
    """Name a machine by its values: `rows 4, cols 8, h 128, I 8192 elements, ...`."""
    return ", ".join(
        f"{path.rpartition('.')[2]} {with_unit(path, str(plain(value)))}" for path, value in values.items()
    )


def plain(value: float) -> int | float:
    """Return a whole number as an integer, as machines want it."""
    return int(value) if float(value).is_integer() else value
