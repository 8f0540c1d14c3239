"""Plan files: YAML, all of whose mistakes are told at once.

    version: 1
    name: buffers                               # the file's stem if absent
    base: {network: resnet50, time_limit: 10}   # settings of every point
    grid:                                       # every combination of the values of its axes
      arch: [default, mine.yaml]
      arch.hierarchy[1].entries: {from: 16384, to: 65536, factor: 2}
    list:                                       # these points
    - {arch: hbm-pim, objective: latency}
    sample:                                     # `count` different combinations, the same for the same seed
      count: 20
      seed: 7
      axes: {arch: [default, hbm-pim], objective: [latency, energy]}

Settings are `network` (a name, a file or a shape such as `R=3,P=56,C=64`), `layers`, `arch`, `objective`, `alpha`,
`beta`, `time_limit`, `seed`, with the meanings and defaults of the command line, and `arch.` with the path of a field
that takes another value. Files are found from where the plan is. A plan has the points of all the parts that it has.
"""

import difflib
import itertools
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml
from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import build_arch, read_arch
from cpsat_pim.result import Objective
from cpsat_pim.sweep.job import JobOptions
from cpsat_pim.sweep.plan import Plan, Point, Settings
from cpsat_pim.validate import is_integer
from cpsat_pim.workload.network import Network, NetworkNode, parse_shape, read_network

VERSION = 1
KEYS = ("version", "name", "base", "grid", "list", "sample")
PARTS = ("grid", "list", "sample")
SAMPLE_KEYS = ("count", "seed", "axes")
SETTINGS = ("network", "layers", "arch", "objective", "alpha", "beta", "time_limit", "seed")
DEFAULTS: Settings = {"arch": "default", "objective": "energy", "alpha": 1, "beta": 1, "time_limit": 25.0, "seed": 0}
OBJECTIVES = ("latency", "energy", "blended")

#: Points of a plan; more is a slip of the pen.
MAX_POINTS = 20_000

_T = TypeVar("_T")
_SUFFIXES = (".yaml", ".yml")
_FIELD = re.compile(r"arch(\.[A-Za-z]\w*(\[\d{1,3}\])?)+")
_STEP = re.compile(r"\.([A-Za-z]\w*)|\[(\d+)\]")


class PlanError(ValueError):
    """A plan cannot be used; `problems` has a line `<file>: <path>: ...` for each mistake."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join(self.problems))


def read_plan(path: str | Path) -> Plan:
    """The plan of a file.

    Raises:
        PlanError: it cannot be read, or there are mistakes in it.
    """
    reader = _Reader(Path(path))
    plan = reader.read(_parse_yaml(Path(path)))
    if plan is None or reader.problems:
        raise PlanError(reader.problems)
    return plan


class _Reader:
    """Reads one file, collecting what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []
        self._known: dict[tuple[str, str], Any] = {}

    def read(self, data: Any) -> Plan | None:
        """The plan; None or a part of it if there are problems."""
        fields = self._fields("", data, KEYS)
        self._check_version(fields)
        name = fields.get("name", self.path.stem)
        self._require("name", isinstance(name, str) and name != "", "must be text", name)
        base = self._settings("base", fields.get("base", {}))
        drafts = list(itertools.islice(self._drafts(fields), MAX_POINTS + 1))
        if len(drafts) > MAX_POINTS:
            self._complain("", f"must have at most {MAX_POINTS:,} points")
        if self.problems:
            return None
        points = [point for where, draft in drafts if (point := self._point(where, DEFAULTS | base | draft, draft))]
        return Plan(name=name, points=points) if points else None

    def _check_version(self, fields: dict[str, Any]) -> None:
        """The file says for which version of the format it was written."""
        if fields and "version" not in fields:
            self._complain("version", f"is missing (this program reads {VERSION})")
        elif fields:
            given = fields["version"]
            self._require("version", is_integer(given) and given == VERSION, f"must be {VERSION}", given)

    # Points as the file gives them: where they stand, and their own settings

    def _drafts(self, fields: dict[str, Any]) -> Iterator[tuple[str, Settings]]:
        """The points of all parts."""
        if fields and not any(part in fields for part in PARTS):
            self._complain("", f"must have at least one of {', '.join(PARTS)}")
        for part, drafts in zip(PARTS, (self._grid, self._list, self._sample), strict=True):
            if part in fields:
                yield from drafts(fields[part])

    def _grid(self, data: Any) -> Iterator[tuple[str, Settings]]:
        """Every combination, the last axis fastest."""
        axes = self._axes("grid", data)
        for values in itertools.product(*axes.values()):
            yield "grid", dict(zip(axes, values, strict=True))

    def _list(self, data: Any) -> Iterator[tuple[str, Settings]]:
        """Each entry."""
        if not isinstance(data, list) or not data:
            self._complain("list", f"must be a list of at least one point (got {_shown(data)})")
            return
        for i, item in enumerate(data):
            yield f"list[{i}]", self._settings(f"list[{i}]", item)

    def _sample(self, data: Any) -> Iterator[tuple[str, Settings]]:
        """Different combinations, drawn by nothing but the seed (`random()` is the same in every Python)."""
        fields = self._fields("sample", data, SAMPLE_KEYS)
        axes = self._axes("sample.axes", fields.get("axes"))
        count: Any = fields.get("count")
        seed = fields.get("seed", 0)
        most = min(MAX_POINTS, math.prod(map(len, axes.values())))
        self._require("sample.seed", is_integer(seed), "must be an integer", seed)
        rule = f"must be an integer from 1 to {most}, as many as there are combinations"
        if not self._require("sample.count", is_integer(count) and 1 <= count <= most, rule, count):
            return
        draw, drawn = random.Random(seed).random, set[tuple[int, ...]]()
        while len(drawn) < count:
            places = tuple(int(draw() * len(values)) for values in axes.values())
            if places not in drawn:
                drawn.add(places)
                yield "sample", {key: values[i] for (key, values), i in zip(axes.items(), places, strict=True)}

    def _axes(self, where: str, data: Any) -> dict[str, list[Any]]:
        """Axes by the settings that they vary."""
        if not isinstance(data, dict) or not data:
            self._complain(where, f"must be a mapping of at least one axis (got {_shown(data)})")
            return {}
        return {str(key): self._axis(where, key, values) for key, values in data.items()}

    def _axis(self, where: str, key: Any, data: Any) -> list[Any]:
        """The values of an axis: a list of them, or a range."""
        path = _joined(where, str(key))
        values = self._range(path, data) if isinstance(data, dict) else data
        if not isinstance(values, list) or not values:
            self._complain(path, f"must be a list of values, or {{from, to, step or factor}} (got {_shown(data)})")
            return [None]
        for i, value in enumerate(values):
            self._check_setting(f"{path}[{i}]", path, key, value)
        return values

    def _range(self, path: str, data: dict[str, Any]) -> list[int]:
        """From one integer to another, each so much more than or so many times the one before."""
        fields = self._fields(path, data, ("from", "to", "step", "factor"))
        values: list[Any] = [fields.get("from"), fields.get("to"), fields.get("step", fields.get("factor"))]
        if len(fields) != 3 or not all(is_integer(value) and 0 <= value < 2**62 for value in values):
            self._complain(path, "must have from, to and either step or factor, all integers of at least 0")
            return [0]
        (first, last, by), is_factor = values, "factor" in fields
        if first > last or by < 1 or (is_factor and (first < 1 or by < 2)):
            self._complain(path, "must go up from `from` to `to`")
            return [0]
        if not is_factor and (last - first) // by >= MAX_POINTS:
            self._complain(path, f"must have at most {MAX_POINTS:,} values")
            return [0]
        after = (lambda n: n * by) if is_factor else (lambda n: n + by)
        return list(itertools.takewhile(lambda n: n <= last, _repeated(after, first)))

    # Settings

    def _settings(self, where: str, data: Any) -> Settings:
        """Settings with one value each."""
        if not isinstance(data, dict):
            self._complain(where, f"must be a mapping of settings (got {_shown(data)})")
            return {}
        for key, value in data.items():
            path = _joined(where, str(key))
            self._check_setting(path, path, key, value)
        return data

    def _check_setting(self, path: str, key_path: str, key: Any, value: Any) -> None:
        """A known setting with a value that is right by itself."""
        if isinstance(key, str) and _FIELD.fullmatch(key):
            rule = "must be a number, text, true, false, nothing, or a list of such"
            self._require(path, _is_field_value(value), rule, value)
        elif key not in SETTINGS:
            self._complain(key_path, f"unknown setting{_hint(str(key), (*SETTINGS, 'arch.FIELD'))}")
        elif key in ("arch", "network"):
            self._look_up(path, key, value)
        else:
            rule, holds = _RULES[key]
            self._require(path, holds(value), rule, value)

    def _look_up(self, path: str, key: str, value: Any) -> None:
        """What a name stands for is read once; later looks find it, or None."""
        if not self._require(path, isinstance(value, str), "must be text", value) or (key, value) in self._known:
            return
        read: Callable[[str], Any] = read_arch if key == "arch" else _network
        given = str(self.path.parent / value) if value.endswith(_SUFFIXES) else value
        self._known[key, value] = self._tried(path, lambda: read(given))

    def _point(self, where: str, settings: Settings, own: Settings) -> Point | None:
        """The point of settings that are right by themselves."""
        if "network" not in settings:
            self._complain(where, "network: is missing")
            return None
        network = self._network(where, settings)
        arch = self._arch(where, settings)
        weights = settings["alpha"], settings["beta"]
        objective = self._tried(where, lambda: Objective.named(settings["objective"], *weights))
        if network is None or arch is None or objective is None:
            return None
        options = JobOptions(time_limit=settings["time_limit"], seed=settings["seed"])
        return Point(settings=own, network=network, arch=arch, objective=objective, options=options)

    def _network(self, where: str, settings: Settings) -> Network | None:
        """The network, or those of its layers that `layers` names."""
        network: Network = self._known["network", settings["network"]]
        if "layers" not in settings:
            return network
        key = ("network", f"{settings['network']}\0{settings['layers']}")
        if key not in self._known:
            self._known[key] = self._tried(where, lambda: _selected(network, settings["layers"]))
        chosen: Network | None = self._known[key]
        return chosen

    def _arch(self, where: str, settings: Settings) -> PIMArchitecture | None:
        """The machine with the fields that have other values."""
        self._look_up(where, "arch", settings["arch"])
        base = self._known["arch", settings["arch"]]
        changes = {key: value for key, value in settings.items() if key not in SETTINGS}
        key = ("arch", f"{settings['arch']}\0{changes!r}")
        if key not in self._known:
            self._known[key] = self._changed_arch(where, base, changes)
        arch: PIMArchitecture | None = self._known[key]
        return arch

    def _changed_arch(self, where: str, base: PIMArchitecture, changes: Settings) -> PIMArchitecture | None:
        """The machine with its changes; if they are wrong, each that is wrong alone is told, else what is."""
        try:
            return _changed(f"{self.path}: {where}", base, changes)
        except ValueError:
            before = len(self.problems)
            for key, value in changes.items() if len(changes) > 1 else ():
                self._tried(where, partial(_changed, f"{self.path}: {where}", base, {key: value}))
            if len(self.problems) > before:
                return None
            return self._tried(where, partial(_changed, f"{self.path}: {where}", base, changes))

    # Complaints

    def _fields(self, where: str, data: Any, known: tuple[str, ...]) -> dict[str, Any]:
        """A mapping of known keys; empty if it is none."""
        if not isinstance(data, dict):
            self._complain(where, f"must be a mapping with the keys {', '.join(known)} (got {_shown(data)})")
            return {}
        for key in data:
            if key not in known:
                self._complain(_joined(where, str(key)), f"unknown key{_hint(str(key), known)}")
        return {key: value for key, value in data.items() if key in known}

    def _tried(self, where: str, read: Callable[[], _T]) -> _T | None:
        """What is read; a complaint is one about this place."""
        try:
            return read()
        except ValueError as error:
            self._complain(where, str(error).removeprefix(f"{self.path}: {where}: "))
            return None

    def _require(self, where: str, holds: bool, rule: str, value: Any) -> bool:
        if not holds:
            self._complain(where, f"{rule} (got {_shown(value)})")
        return holds

    def _complain(self, where: str, problem: str) -> None:
        self.problems.append(f"{self.path}: {where}: {problem}" if where else f"{self.path}: {problem}")


# --- Values ----------------------------------------------------------------------------------------------------------


def _is_weight(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e9


def _holds(build: Callable[[Any], Any]) -> Callable[[Any], bool]:
    """Whether a value is taken by a class."""

    def check(value: Any) -> bool:
        try:
            build(value)
        except ValueError:
            return False
        return True

    return check


_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "layers": ("must be names of layers, as in conv1,fc", lambda value: isinstance(value, str) and value != ""),
    "objective": (f"must be one of {', '.join(OBJECTIVES)}", lambda value: value in OBJECTIVES),
    "alpha": ("must be a number from 0 to 1e9", _is_weight),
    "beta": ("must be a number from 0 to 1e9", _is_weight),
    "time_limit": ("must be a positive number of at most 1e7", _holds(lambda value: JobOptions(time_limit=value))),
    "seed": ("must be an integer from 0 to 2147483647", _holds(lambda value: JobOptions(seed=value))),
}


def _is_field_value(value: Any) -> bool:
    """A scalar or a flat list; whether it is right, the machine says."""
    items = value if isinstance(value, list) else [value]
    return all(item is None or isinstance(item, str | int | float) for item in items)


def _network(given: str) -> Network:
    """A network by its name, its file, or the shape of its only layer."""
    if "=" not in given:
        return read_network(given)
    return Network(name=given, layers=(NetworkNode(name="layer", workload=parse_shape(given)),))


def _selected(network: Network, layers: str) -> Network:
    """The network with the named layers only, in its own order."""
    names = [name.strip() for name in layers.split(",")]
    known = [node.name for node in network.layers]
    for name in names:
        if name not in known:
            raise ValueError(f"layers: {network.name} has no layer {name!r}{_hint(name, known)}")
    # What a layer comes after may be left out; nothing here reads it.
    return evolve(network, layers=[evolve(node, after=()) for node in network.layers if node.name in names])


def _changed(file: str, arch: PIMArchitecture, changes: Settings) -> PIMArchitecture:
    """A machine with other values in some fields, and a name that tells them."""
    if not changes:
        return arch
    data = json.loads(json.dumps(arch.to_dict()))  # lists, as in a file
    for key, value in changes.items():
        _set(data, key, value)
    told = ", ".join(f"{key.removeprefix('arch.')}={_shown(value)}" for key, value in changes.items())
    return build_arch(file, data | {"name": f"{data['name']} ({told})"})


def _set(data: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a path `arch.hierarchy[1].entries`.

    Raises:
        ValueError: a step of the path leads nowhere.
    """
    steps = [name or int(index) for name, index in _STEP.findall(path)]
    place: Any = data
    for step in steps[:-1]:
        place = _at(place, step, path)
    _at(place, steps[-1], path)
    place[steps[-1]] = value


def _at(place: Any, step: str | int, path: str) -> Any:
    try:
        return place[step]
    except (KeyError, IndexError, TypeError):
        known = f"{_hint(str(step), place)}" if isinstance(place, dict) else ""
        raise ValueError(f"{path}: there is no {step!r}{known}") from None


def _repeated(after: Callable[[int], int], first: int) -> Iterator[int]:
    """A number, the one after it, and so on."""
    while True:
        yield first
        first = after(first)


# --- YAML and words --------------------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    """YAML without aliases, which could stand for more than memory holds, and without keys given twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse an alias."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not taken here", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Refuse a key that is there already, of which YAML would keep the last."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key, _ in node.value:
            if keys.count(key.value) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
        return super().construct_mapping(node, deep)


# YAML 1.2; PyYAML reads 1.1, where 1e-3 is text and 1.0e-3 a number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _parse_yaml(path: Path) -> Any:
    """The data of a YAML file."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise PlanError([f"{path}: cannot be read: {error.strerror}"]) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise PlanError([f"{path}: line {mark.line + 1 if mark else 1}: is not YAML: {error.problem}"]) from error
    except RecursionError as error:
        raise PlanError([f"{path}: is nested too deeply"]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise PlanError([f"{path}: is not a YAML text file"]) from error


def _joined(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _shown(value: Any) -> str:
    """A value in few letters, or the name of what else it is."""
    if isinstance(value, dict):
        return "a mapping"
    if value is None:
        return "nothing"
    shown = f"a list of {len(value)}" if isinstance(value, list) and len(value) > 4 else str(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


def _hint(given: str, known: Iterable[str]) -> str:
    """`, did you mean ...?`, else what there is."""
    known = list(known)
    close = difflib.get_close_matches(given, known, n=1)
    return f", did you mean {close[0]!r}?" if close else f", there are {', '.join(known[:12])}"
