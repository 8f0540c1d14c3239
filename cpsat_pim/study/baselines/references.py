"""Reference solutions for baselines: solved layers, from the solver or from a file of results."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from attrs import evolve, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.reading import read_json
from cpsat_pim.mapper.result import Objective, SolvedLayer, SolvedNetwork, Status
from cpsat_pim.mapper.result.document import Entry
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.widths import in_whole_units
from cpsat_pim.report.jsonfile import build_result
from cpsat_pim.study.baselines.problem import Problem, Scored
from cpsat_pim.workload import ConvWorkload

T = TypeVar("T")


@frozen(kw_only=True)
class Reference:
    """A solved layer: its mapping, and the proven lower bound of its cost.

    `bound` is in the objective's reported unit.
    """

    problem: Problem
    status: Status
    best: Scored
    bound: int | float | None

    def ratio(self, value: int) -> float:
        """Return the ratio of a cost, in the solver's integers, to the mapping's cost."""
        return value / self.best.value if self.best.value else math.inf if value else 1.0

    def is_refuted_by(self, value: int) -> bool:
        """Return whether a cost lies below the proven lower bound, which refutes the proof."""
        return self.bound is not None and self.problem.objective.reported(value) < self.bound

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data, as in a file of results."""
        cost = self.problem.objective.reported(self.best.value)
        return {"status": self.status.value, "objective": cost, "bound": self.bound}


def solved_references(network: SolvedNetwork) -> dict[str, Reference | None]:
    """Return the solved layers by name, None for a layer without a mapping."""
    return {node.name: _solved_reference(node.solved) for node in network.layers}


def read_references(path: str | Path) -> dict[str, Reference | None]:
    """Read the solved layers from a file that `--json` wrote.

    Raises:
        ValueError: it cannot be read, or something in it is missing or wrong; lines `<file>: ...`.
    """
    data = read_json(path)
    result = build_result(str(path), data)
    entries = [plain | entry for plain, entry in zip(data["layers"], result["layers"], strict=True)]
    for entry in entries:
        entry["layer"] = evolve(entry["shape"], name=entry["name"])
    machine = (result["arch"], result["objective"])
    return {e["name"]: e["mapping"] and _reference(f"{path}: {e['name']}", e, *machine) for e in entries}


def distinct(nodes: Iterable[T], layer_of: Callable[[T], ConvWorkload]) -> list[T]:
    """Drop each item whose layer equals that of an earlier item, apart from the name."""
    first: dict[str, T] = {}
    for node in nodes:
        first.setdefault(layer_of(node).shape_key, node)
    return list(first.values())


def _solved_reference(solved: SolvedLayer) -> Reference | None:
    """Build the reference of a layer that was solved in this process."""
    if solved.mapping is None:
        return None
    layer, arch = in_whole_units(solved.workload, solved.arch)
    problem = Problem(layer=layer, arch=arch, objective=solved.objective)
    return Reference(problem=problem, status=solved.status, best=problem.score(solved.mapping), bound=solved.bound)


def _reference(at: str, entry: Entry, arch: PIMArchitecture, objective: Objective) -> Reference:
    """Build the reference of a layer in a file, with its cost recomputed. The bound is dropped if this version computes
    another cost, or if it holds only under restrictions.
    """
    for key in ("constraints", "budget"):
        if entry.get(key):
            raise ValueError(f"{at}: {key}: must be absent: the baselines keep none")
    for mistake in check_mapping(entry["layer"], arch, entry["mapping"]):
        raise ValueError(f"{at}: {mistake}")
    layer, arch = in_whole_units(entry["layer"], arch)
    problem = Problem(layer=layer, arch=arch, objective=objective)
    best, bound = problem.score(entry["mapping"]), entry.get("bound")
    cost = objective.reported(best.value)
    if entry.get("objective") != cost:
        raise ValueError(f"{at}: objective: the mapping costs {cost} (got {entry.get('objective')})")
    if not isinstance(bound, int | float | None):
        raise ValueError(f"{at}: bound: must be a number or null (got {bound!r})")
    return Reference(problem=problem, status=Status(entry["status"]), best=best, bound=bound)
