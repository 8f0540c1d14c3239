"""Plan files.

    version: 1
    name: buffers                               # the file's stem if absent
    base: {network: resnet50, time_limit: 10}   # settings of every point
    grid:                                       # every combination of the values of its axes
      arch: [default, mine.yaml]
      arch.hierarchy.GLOBAL_BUFFER.entries: {from: 16384, to: 65536, factor: 2}
    list:                                       # these points
    - {arch: hbm-pim, objective: latency}
    sample:                                     # `count` different combinations, the same for the same seed
      count: 20
      seed: 7
      axes: {arch: [default, hbm-pim], objective: [latency, energy]}

Settings are `network` (a name, a file or a shape such as `R=3,P=56,C=64`), `layers`, `bytes` (per element), `arch`,
`constraints` (a file), `objective`, `alpha`, `beta`, `time_limit`, `seed`, `padding` (a number: 0.25), with the
meanings and defaults of the command line, `network.` with the name of a parameter of the network, and `arch.` with the
path of a field that takes another value. Files are found from where the plan is. A plan has the points of all the
parts that it has.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from attrs import frozen

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.base.reading import WRONG, Field, FileKind, Kind, Listing, Record, Value, fields_of
from cpsat_pim.base.reading.reader import Reader, Scales, Schema
from cpsat_pim.base.validate import Rule, is_integer, not_negative, one_of, positive, text, whole_bits
from cpsat_pim.mapping.constraints import read_constraints
from cpsat_pim.study.sweep.job import JobOptions
from cpsat_pim.study.sweep.plan import Plan
from cpsat_pim.study.sweep.points import Draft, NamedObject, PointBuilder, SettingValue
from cpsat_pim.workload.network import Network, read_network
from cpsat_pim.workload.network_text import is_shape, shape_network

#: Limits: points of a plan, and values of an axis; more are taken for a mistake.
MAX_POINTS = 20_000


def read_plan(path: str | Path) -> Plan:
    """Read the plan of a file.

    Raises:
        ValueError: an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`.
    """
    plan: Plan = PLANS.read(path)
    return plan


# --- Settings --------------------------------------------------------------------------------------------------------


@frozen
class _Setting:
    """A setting: a value of some kind that remembers its path."""

    kind: Kind

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Return a `SettingValue`."""
        value = self.kind.read(reader, node, path, scales)
        return WRONG if value is WRONG else SettingValue(value, path)

    def schema(self, partial: bool = False) -> Schema:
        """Return the value's schema."""
        return self.kind.schema(partial)


@frozen
class Reference:
    """A name, or a file relative to the plan; the object that it names is read once."""

    look_up: Callable[[str, Path], Any]

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Return a `NamedObject`."""
        given = Value(text).read(reader, node, path, scales)
        if given is WRONG:
            return WRONG
        key = (self, given, Path(node.start_mark.name).parent)
        if key not in reader.known:
            reader.known[key] = self._looked_up(given, key[-1])
        found = reader.known[key]
        if not isinstance(found, ValueError):
            return NamedObject(given, found, key[-1])
        for line in str(found).splitlines():
            reader.complain(node, path, line)
        return WRONG

    def _looked_up(self, given: str, directory: Path) -> Any:
        """Return the object of a name, or the mistake if it cannot be read."""
        try:
            return self.look_up(given, directory)
        except ValueError as error:
            return error

    def schema(self, partial: bool = False) -> Schema:
        """Return the schema of text."""
        return text.schema


def _network(given: str, directory: Path) -> Network:
    """Read a network by name, by file, or by the shape of its only layer."""
    return shape_network(given) if is_shape(given) else read_network(given, directory)


def _is_weight(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e9


def _is_field_value(value: Any) -> bool:
    """Accept a scalar or a flat list; the machine's own rules check the value later."""
    items = value if isinstance(value, tuple) else (value,)
    return all(item is None or isinstance(item, str | int | float) for item in items)


_WEIGHT = Value(Rule("must be a number from 0 to 1e9", _is_weight, {"type": "number", "minimum": 0, "maximum": 1e9}))
_NAMES = Rule("must be names of layers, as in conv1,fc", lambda v: isinstance(v, str) and v != "", text.schema)
_FIELD_VALUE = Rule("must be a number, text, true, false, nothing, or a list of such", _is_field_value)

_SETTINGS: dict[str, Kind] = {
    "network": Reference(_network),
    "layers": Value(_NAMES),
    "bytes": Value(whole_bits),
    "arch": Reference(read_arch),
    "constraints": Reference(read_constraints),
    "objective": Value(one_of("latency", "energy", "blended", "edp")),
    "alpha": _WEIGHT,
    "beta": _WEIGHT,
    **{name: item.kind for name, item in fields_of(JobOptions).items()},
}
_ARCH_FIELD = r"arch(\.[A-Za-z]\w*)+"
_PARAMETER = r"network\.[A-Za-z]\w*"


def _record(wrap: Callable[[Kind], Kind], build: Callable[..., Any] | None = None, doc: str = "") -> Record:
    """Return a record of all settings, each with its kind wrapped by `wrap`."""
    fields = {name: Field(kind=wrap(_Setting(kind))) for name, kind in _SETTINGS.items()}
    patterns = {
        _ARCH_FIELD: Field(kind=wrap(_Setting(Value(_FIELD_VALUE)))),
        _PARAMETER: Field(kind=wrap(_Setting(Value(not_negative)))),
    }
    return Record(fields=fields, patterns=patterns, build=build, doc=doc)


# --- Axes ------------------------------------------------------------------------------------------------------------


def _range(**ends: int) -> list[int]:
    """Return the numbers from one to another, by a fixed step or a fixed factor."""
    first, last, step, factor = (ends.get(key) for key in ("from", "to", "step", "factor"))
    assert first is not None
    assert last is not None
    if (step is None) == (factor is None):
        raise ValueError("Range: must have either step or factor")
    if first > last or (factor and (first < 1 or factor < 2)):
        raise ValueError("Range: must go up from `from` to `to`")
    if step and (last - first) // step >= MAX_POINTS:
        raise ValueError(f"Range: must have at most {MAX_POINTS:,} values")
    if step:
        return list(range(first, last + 1, step))
    powers = (first * (factor or 1) ** n for n in itertools.count())
    return list(itertools.takewhile(lambda number: number <= last, powers))


_RANGE = Record(
    fields={
        "from": Field(kind=Value(not_negative), required=True),
        "to": Field(kind=Value(not_negative), required=True),
        "step": Field(kind=Value(positive)),
        "factor": Field(kind=Value(positive)),
    },
    build=_range,
    doc="Integers: each `step` more than the one before, or `factor` times it.",
)


@frozen
class Axis:
    """The values of a setting over which the plan varies: a list, or a range."""

    item: Kind

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Return a tuple of `SettingValue`s."""
        if not isinstance(node, yaml.MappingNode):
            return self._listing.read(reader, node, path, scales)
        numbers = _RANGE.read(reader, node, path, scales)
        if numbers is WRONG:
            return WRONG
        nodes = (yaml.ScalarNode(node.tag, str(number), node.start_mark, node.end_mark) for number in numbers)
        values = tuple(itertools.takewhile(lambda v: v is not WRONG, self._read(reader, nodes, path, scales)))
        return values if len(values) == len(numbers) else WRONG

    def _read(self, reader: Reader, nodes: Iterable[yaml.Node], path: str, scales: Scales) -> Iterator[Any]:
        return (self.item.read(reader, node, path, scales) for node in nodes)

    @property
    def _listing(self) -> Listing:
        return Listing(self.item, "a list of values, or {from, to, step or factor}")

    def schema(self, partial: bool = False) -> Schema:
        """Return the schema of a list or a range."""
        return {"anyOf": [{"type": "array", "items": self.item.schema(), "minItems": 1}, _RANGE.schema(partial)]}


def _combinations(**axes: tuple[SettingValue, ...]) -> list[Draft]:
    """Return every combination of the axes, the last axis fastest; none without axes."""
    if math.prod(map(len, axes.values())) > MAX_POINTS:
        raise ValueError(f"Grid: must have at most {MAX_POINTS:,} points")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())] if axes else []


def _drawn(count: int, axes: dict[str, tuple[SettingValue, ...]], seed: int = 0) -> list[Draft]:
    """Draw distinct combinations that depend only on the seed (`random()` is the same in every Python)."""
    most = min(MAX_POINTS, math.prod(map(len, axes.values())) if axes else 0)
    if count > most:
        raise ValueError(f"Sample.count: must be at most {most}, as many as there are combinations (got {count})")
    draw, drawn = random.Random(seed).random, dict[tuple[int, ...], None]()
    while len(drawn) < count:
        drawn[tuple(int(draw() * len(values)) for values in axes.values())] = None
    return [{key: values[i] for (key, values), i in zip(axes.items(), places, strict=True)} for places in drawn]


# --- Plans -----------------------------------------------------------------------------------------------------------


def _build_plan(name: str, base: Draft | None = None, **parts: Iterable[Draft]) -> Plan:
    """Build the plan from the points of all parts, in the order of the parts below."""
    if not parts:
        raise ValueError(f"Plan: must have at least one of {', '.join(_PARTS)}")
    drafts = [(_where(part, i), draft) for part in _PARTS for i, draft in enumerate(parts.get(part, ()))]
    if len(drafts) > MAX_POINTS:
        raise ValueError(f"Plan: must have at most {MAX_POINTS:,} points")
    builder = PointBuilder(base or {})
    points = [point for where, draft in drafts for point in builder.build(where, draft)]
    if builder.mistakes:
        raise ValueError("\n".join(f"Plan.{path}: {problem}" for path, problem in builder.mistakes))
    return Plan(name=name, points=points, warnings=tuple(builder.warnings))


def _where(part: str, i: int) -> str:
    """Return the path of a draft in the file, for messages."""
    return f"{part}[{i}]" if part == "list" else part


_AXES = _record(Axis, doc="The values of each axis.")
_PARTS: dict[str, Kind] = {
    "grid": _record(Axis, build=_combinations, doc="Every combination of the values of its axes."),
    "list": Listing(_record(lambda kind: kind, doc="The settings of a point."), "a list of at least one point"),
    "sample": Record(
        fields={
            "count": Field(kind=Value(positive), required=True),
            "seed": Field(kind=Value(Rule("must be an integer", is_integer, {"type": "integer"})), default=0),
            "axes": Field(kind=_AXES, required=True),
        },
        build=_drawn,
        doc="So many different combinations of the values of its axes.",
    ),
}
PLANS = FileKind(
    kind="sweep plan",
    record=Record(
        fields={
            "name": Field(kind=Value(text), required=True),
            "base": Field(kind=_record(lambda kind: kind, doc="Settings of every point.")),
            **{name: Field(kind=kind) for name, kind in _PARTS.items()},
        },
        build=_build_plan,
    ),
)
