"""Identify what solves a job: the code by its content, the solver by its release."""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

_PACKAGES = ("cpsat_pim", "tables", "tracesim")

#: Parts of `cpsat_pim` that do not influence a layer's solution: they only display it or request it.
_AROUND = (
    "__init__.py",
    "__main__.py",
    "cli",
    "compiler",
    "export",
    "importers",
    "planner",
    "report",
    "study",
    "tuner",
)
#: Modules in these folders that do: they write what is stored.
_WRITING = ("report/jsonfile.py", "study/sweep/job.py")


@frozen(kw_only=True)
class Versions:
    """The versions of this program's code and of OR-Tools."""

    code: str
    solver: str


@cache
def current_versions(*more: str) -> Versions:
    """Return this installation's versions; any change of code that solves, counts or simulates gives a new one.

    `more`: other parts of `cpsat_pim` whose code counts as well, as `planner`.
    """
    text = hashlib.sha256()
    for name, path in _sources(more):
        text.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return Versions(code=f"{version('cpsat-pim')}+{text.hexdigest()[:12]}", solver=version("ortools"))


def _sources(more: tuple[str, ...] = ()) -> Iterator[tuple[str, Path]]:
    """Yield names and paths of the source files, in the same order wherever they are installed."""
    for package in _PACKAGES:
        spec = find_spec(package)
        for root in map(Path, (spec.submodule_search_locations if spec else None) or ()):
            names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
            for name in names:
                part = name.split("/")[0]
                if package != "cpsat_pim" or name in _WRITING or part in more or part not in _AROUND:
                    yield f"{package}/{name}", root / name
