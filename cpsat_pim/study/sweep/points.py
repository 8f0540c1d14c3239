"""Build points from settings: machines with changed fields, networks of selected layers, and the mistakes in them."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from attrs import fields_dict, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.plausibility import arch_warnings
from cpsat_pim.arch.reading import DEFAULT, read_arch
from cpsat_pim.base.reading import SUFFIXES, Mistake
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.constraints import NetworkConstraints
from cpsat_pim.mapping.widths import on_machine, with_widths
from cpsat_pim.study.sweep.job import JobOptions
from cpsat_pim.study.sweep.plan import Point, Settings
from cpsat_pim.workload.network import Network, read_network
from cpsat_pim.workload.network_text import is_shape


@frozen
class SettingValue:
    """The value of a setting, and its path in the plan file."""

    value: Any
    path: str


@frozen
class NamedObject:
    """The object of a name or file, the text in the plan that names it, and the directory of relative files."""

    given: str
    value: Any
    directory: Path | None = None


#: What the keys of a network's parameters begin with.
_PARAMETER = "network."

#: Some settings of a point, by key.
Draft = dict[str, SettingValue]


class _InvalidSettings(Exception):
    """Settings that are valid alone but not together; `mistakes` are pairs of path and message."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)


def _build_at(path: str, build: Callable[[], Any]) -> Any:
    """Call `build`; its ValueError becomes a mistake at `path`."""
    try:
        return build()
    except ValueError as error:
        raise _InvalidSettings((path, line) for line in str(error).splitlines()) from error


class PointBuilder:
    """Builds points; a machine that many points share is built once."""

    def __init__(self, base: Draft) -> None:
        self.mistakes: dict[Mistake, None] = {}
        #: Lines about doubtful figures of machines.
        self.warnings: dict[str, None] = {}
        self._base, self._default = base, NamedObject(DEFAULT, read_arch(DEFAULT))
        self._machines: dict[Any, PIMArchitecture | _InvalidSettings] = {}
        self._networks: dict[Any, Network] = {}

    def build(self, where: str, own: Draft) -> Iterator[Point]:
        """Yield the point of a draft, or nothing if it has mistakes, which are recorded."""
        try:
            yield self._point(where, self._base | own, {key: _plain(given.value) for key, given in own.items()})
        except _InvalidSettings as error:
            self.mistakes |= dict.fromkeys(error.mistakes)

    def _point(self, where: str, draft: Draft, settings: Settings) -> Point:
        values = {key: given.value for key, given in draft.items()}
        if "network" not in draft:
            raise _InvalidSettings([(f"{where}.network", "is missing")])
        weights = values.get("alpha", 1), values.get("beta", 1)
        objective = _build_at(where, lambda: Objective.named(values.get("objective", "energy"), *weights))
        options = JobOptions(**{key: values[key] for key in fields_dict(JobOptions) if key in values})
        if options.padding and objective.is_product:
            raise _InvalidSettings([(draft["padding"].path, "must be 0 for edp")])
        arch = self._arch(where, draft)
        return Point(
            settings=settings,
            network=self._network(draft, arch),
            arch=arch,
            objective=objective,
            options=options,
            constraints=self._constraints(draft),
        )

    def _constraints(self, draft: Draft) -> NetworkConstraints:
        """Return the constraints. A layer that they name must be in the network."""
        if "constraints" not in draft:
            return NetworkConstraints()
        constraints: NetworkConstraints = draft["constraints"].value.value
        if constraints.layers:
            network = self._bound(draft)
            _build_at(draft["constraints"].path, lambda: network.only(constraints.layers))
        return constraints

    def _network(self, draft: Draft, arch: PIMArchitecture) -> Network:
        """Return the network, or the layers of it that `layers` selects, with its or the machine's widths."""
        network = self._with_widths(draft, self._bound(draft), arch)
        if "layers" not in draft:
            return network
        names = [name.strip() for name in draft["layers"].value.split(",")]
        chosen: Network = _build_at(draft["layers"].path, lambda: network.only(names))
        return chosen

    def _bound(self, draft: Draft) -> Network:
        """Return the network with the values of its parameters; each combination is read once."""
        base: NamedObject = draft["network"].value
        given = {key.removeprefix(_PARAMETER): value for key, value in draft.items() if key.startswith(_PARAMETER)}
        key = (base.given, base.directory, *((name, value.value) for name, value in given.items()))
        if given and key not in self._networks:
            path = next(iter(given.values())).path
            if is_shape(base.given):
                raise _InvalidSettings([(path, "a shape has no parameters")])
            values = {name: value.value for name, value in given.items()}
            self._networks[key] = _build_at(path, lambda: read_network(base.given, base.directory, values))
        network: Network = self._networks[key] if given else base.value
        return network

    def _with_widths(self, draft: Draft, network: Network, arch: PIMArchitecture) -> Network:
        """Return the network with the bytes per element of `bytes`, its own, or the machine's."""
        if "bytes" not in draft:
            return on_machine(network, arch)
        width = draft["bytes"].value
        fitted: Network = _build_at(draft["bytes"].path, lambda: with_widths(network, (width,) * 4))
        return fitted

    def _arch(self, where: str, draft: Draft) -> PIMArchitecture:
        """Return the machine with its changed fields."""
        base = draft["arch"].value if "arch" in draft else self._default
        changes = {key.removeprefix("arch."): given for key, given in draft.items() if key.startswith("arch.")}
        key = (base, *((path, given.value) for path, given in changes.items()))
        if key not in self._machines:
            self._machines[key] = arch = _changed(where, base, changes)
            if isinstance(arch, PIMArchitecture):
                self.warnings |= dict.fromkeys(_doubts(base, arch, is_changed=bool(changes)))
        arch = self._machines[key]
        if isinstance(arch, _InvalidSettings):
            raise arch
        return arch


def _doubts(base: NamedObject, arch: PIMArchitecture, is_changed: bool) -> list[str]:
    """Return the warnings of a machine; what its file lacks only if the plan changes nothing, as it may give that."""
    is_file = base.given.endswith(SUFFIXES) and not is_changed
    path = Path(base.directory or "", base.given) if is_file else None
    return [f"{arch.name}: {line}" for line in arch_warnings(arch, path)]


def _changed(where: str, base: NamedObject, changes: Draft) -> "PIMArchitecture | _InvalidSettings":
    """Return the machine with its changes. If they are invalid, report each change that is invalid alone, else the
    combination.
    """
    if not changes:
        return cast(PIMArchitecture, base.value)
    changes_text = ", ".join(f"{path}={_value_text(given.value)}" for path, given in changes.items())
    values = {path: given.value for path, given in changes.items()}
    try:
        return read_arch(base.given, base.directory, values | {"name": f"{base.value.name} ({changes_text})"})
    except ValueError as error:
        alone = [mistake for path, given in changes.items() for mistake in _mistakes_of(base, path, given)]
        return _InvalidSettings(alone or [(where, line) for line in str(error).splitlines()])


def _mistakes_of(base: NamedObject, path: str, given: SettingValue) -> tuple[Mistake, ...]:
    """Return the mistakes in one change of a machine."""
    try:
        _build_at(given.path, lambda: read_arch(base.given, base.directory, {path: given.value}))
    except _InvalidSettings as error:
        return error.mistakes
    return ()


def _plain(value: Any) -> Any:
    """Return a value as the plan writes it."""
    return value.given if isinstance(value, NamedObject) else value


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
