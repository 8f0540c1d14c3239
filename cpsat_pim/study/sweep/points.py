"""From settings to points: machines with other fields, networks of some layers, and what is wrong with them."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from attrs import fields_dict, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import DEFAULT, read_arch
from cpsat_pim.base.reading import Mistake
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.constraints import NetworkConstraints
from cpsat_pim.study.sweep.job import JobOptions
from cpsat_pim.study.sweep.plan import Point, Settings
from cpsat_pim.workload.network import Network


@frozen
class Given:
    """A setting's value, and where it stands."""

    value: Any
    path: str


@frozen
class Named:
    """What a name or a file stands for, how the plan gives it, and from where files are found."""

    given: str
    value: Any
    directory: Path | None = None


#: Some settings of a point by their keys.
Draft = dict[str, Given]


class _Mistaken(Exception):
    """Settings that are right by themselves but not together; `mistakes` tell where and what."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)


def _tried(path: str, build: Callable[[], Any]) -> Any:
    """What is built; what is wrong with it is wrong at a path."""
    try:
        return build()
    except ValueError as error:
        raise _Mistaken((path, line) for line in str(error).splitlines()) from error


class PointBuilder:
    """Builds points; machines that many of them have are built once."""

    def __init__(self, base: Draft) -> None:
        self.mistakes: dict[Mistake, None] = {}
        self._base, self._default = base, Named(DEFAULT, read_arch(DEFAULT))
        self._machines: dict[Any, PIMArchitecture | _Mistaken] = {}

    def build(self, where: str, own: Draft) -> Iterator[Point]:
        """The point of a draft, unless there are mistakes in it."""
        try:
            yield self._point(where, self._base | own, {key: _plain(given.value) for key, given in own.items()})
        except _Mistaken as error:
            self.mistakes |= dict.fromkeys(error.mistakes)

    def _point(self, where: str, draft: Draft, settings: Settings) -> Point:
        values = {key: given.value for key, given in draft.items()}
        if "network" not in draft:
            raise _Mistaken([(f"{where}.network", "is missing")])
        weights = values.get("alpha", 1), values.get("beta", 1)
        objective = _tried(where, lambda: Objective.named(values.get("objective", "energy"), *weights))
        options = JobOptions(**{key: values[key] for key in fields_dict(JobOptions) if key in values})
        if options.padding and objective.is_product:
            raise _Mistaken([(draft["padding"].path, "must be 0 for edp")])
        return Point(
            settings=settings,
            network=self._network(draft),
            arch=self._arch(where, draft),
            objective=objective,
            options=options,
            constraints=self._constraints(draft),
        )

    def _constraints(self, draft: Draft) -> NetworkConstraints:
        """The constraints, if there are any; layers that they name are the network's."""
        if "constraints" not in draft:
            return NetworkConstraints()
        constraints: NetworkConstraints = draft["constraints"].value.value
        if constraints.layers:
            _tried(draft["constraints"].path, lambda: draft["network"].value.value.only(constraints.layers))
        return constraints

    def _network(self, draft: Draft) -> Network:
        """The network, or those of its layers that `layers` names."""
        network: Network = draft["network"].value.value
        if "layers" not in draft:
            return network
        names = [name.strip() for name in draft["layers"].value.split(",")]
        chosen: Network = _tried(draft["layers"].path, lambda: network.only(names))
        return chosen

    def _arch(self, where: str, draft: Draft) -> PIMArchitecture:
        """The machine with the fields that have other values."""
        base = draft["arch"].value if "arch" in draft else self._default
        changes = {key.removeprefix("arch."): given for key, given in draft.items() if key.startswith("arch.")}
        key = (base, *((path, given.value) for path, given in changes.items()))
        if key not in self._machines:
            self._machines[key] = _changed(where, base, changes)
        arch = self._machines[key]
        if isinstance(arch, _Mistaken):
            raise arch
        return arch


def _changed(where: str, base: Named, changes: Draft) -> "PIMArchitecture | _Mistaken":
    """The machine with its changes; if they are wrong, each that is wrong alone is told, else what is."""
    if not changes:
        return cast(PIMArchitecture, base.value)
    told = ", ".join(f"{path}={_told(given.value)}" for path, given in changes.items())
    values = {path: given.value for path, given in changes.items()}
    try:
        return read_arch(base.given, base.directory, values | {"name": f"{base.value.name} ({told})"})
    except ValueError as error:
        alone = [mistake for path, given in changes.items() for mistake in _mistakes_of(base, path, given)]
        return _Mistaken(alone or [(where, line) for line in str(error).splitlines()])


def _mistakes_of(base: Named, path: str, given: Given) -> tuple[Mistake, ...]:
    """What is wrong with one change of a machine."""
    try:
        _tried(given.path, lambda: read_arch(base.given, base.directory, {path: given.value}))
    except _Mistaken as error:
        return error.mistakes
    return ()


def _plain(value: Any) -> Any:
    """A value as the plan gives it."""
    return value.given if isinstance(value, Named) else value


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
