"""What node programs cost: a lower bound at once, the exact optimum when it is asked for (lazy proofs)."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.mapper.bounds.layer_bound import least_cost
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.mapping.mapping import Mapping
from cpsat_pim.mapping.mapping_file import build_mapping
from cpsat_pim.planner.partition import LAYOUTS
from cpsat_pim.workload import ConvWorkload

#: Indices of the layouts of I and O; None is free.
Layouts = tuple[int | None, int | None]


@frozen(kw_only=True, cache_hash=True)
class NodeProblem:
    """A layer on one node, I and O in given layouts."""

    layer: ConvWorkload
    layouts: Layouts = (None, None)

    @property
    def constraints(self) -> Constraints:
        """The layouts as constraints: index 0 is NGCHW and NGKQP, as BCHW; 1 has channels last, as BHWC."""
        if self.layouts == (None, None):
            return FREE
        return Constraints(layout=(self.layouts[0], None, self.layouts[1]))


@frozen(kw_only=True)
class NodeCost:
    """Bounds of a node problem in the objective's integers; after a solve also its best mapping's exact figures."""

    least: int
    value: int | None = None
    latency_cycles: int = 0
    energy_fj: int = 0
    mapping: Mapping | None = None
    seconds: float = 0.0

    @property
    def is_solved(self) -> bool:
        """Whether there is a mapping."""
        return self.mapping is not None


class NodeCosts:
    """Costs of node problems on one machine for one objective; solved ones are kept in a file, if there is one."""

    def __init__(
        self,
        arch: PIMArchitecture,
        objective: Objective,
        store: Path | None = None,
        version: str = "",
        time_limit: float = 60.0,
    ) -> None:
        """`version` of this program, which is part of the key: optima of another one are not ours."""
        self.arch, self.objective, self.time_limit = arch, objective, time_limit
        self.solves, self.reused = 0, 0
        self._keys: dict[NodeProblem, str] = {}
        self._floors: dict[str, int | None] = {}
        self._solved: dict[str, NodeCost] = {}
        self._store = _Store(store) if store else None
        self._machine = _digest([arch.to_dict(), objective.to_dict(), version])

    @property
    def known(self) -> int:
        """Distinct node problems that were asked about."""
        return len(self._floors.keys() | self._solved.keys())

    def cost(self, problem: NodeProblem) -> NodeCost | None:
        """What is known without a solve; None if the problem has no mapping."""
        key = self._key(problem)
        if key in self._solved:
            return self._solved[key]
        kept = self._store.read(key) if self._store else None
        if kept is not None and "mapping" in kept:
            self.reused += 1
            return self._solved.setdefault(key, _from_data(kept))
        if key not in self._floors:
            self._floors[key] = kept["least"] if kept is not None else self._floor(problem)
            if self._store and kept is None:
                self._store.write(key, {"least": self._floors[key]})
        least = self._floors[key]
        return None if least is None else NodeCost(least=least)

    def solve(self, problem: NodeProblem) -> NodeCost | None:
        """The optimum of a problem, proven or with its gap; None if it has no mapping."""
        known = self.cost(problem)
        if known is None or known.is_solved:
            return known
        key, found = self._key(problem), self._solve(problem)
        self.solves += 1
        if found is None:
            self._floors[key] = None
            return None
        self._solved[key] = found
        if self._store:
            self._store.write(key, _to_data(found))
        return found

    def _floor(self, problem: NodeProblem) -> int | None:
        if check_fits(problem.layer, self.arch):
            return None
        return least_cost(problem.layer, self.arch, self.objective, problem.constraints)

    def _solve(self, problem: NodeProblem) -> NodeCost | None:
        """Solve and verify; the solver is imported by whoever solves."""
        from cpsat_pim.mapper.network.run import solve_and_verify
        from cpsat_pim.mapper.search.state import Options

        options = Options(time_limit=self.time_limit, constraints=problem.constraints)
        solved = solve_and_verify(problem.layer, self.arch, self.objective, options)
        if solved.mapping is None:
            return None
        figures, floor = solved.predicted, self.cost(problem)
        least = max(solved.least_cost or 0, floor.least if floor else 0)
        return NodeCost(
            least=least,
            value=solved.cost,
            latency_cycles=figures.latency_cycles,
            energy_fj=figures.energy_fj,
            mapping=solved.mapping,
            seconds=solved.solve_seconds,
        )

    def _key(self, problem: NodeProblem) -> str:
        if problem not in self._keys:
            self._keys[problem] = _digest([problem.layer.shape, problem.layouts, self._machine])
        return self._keys[problem]


def layout_index(layout: str) -> int:
    """The index of a home's layout among a mapping's."""
    return LAYOUTS.index(layout)


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


def _to_data(cost: NodeCost) -> dict[str, Any]:
    keys = ("least", "value", "latency_cycles", "energy_fj", "seconds")
    return {key: getattr(cost, key) for key in keys} | {"mapping": cost.mapping and cost.mapping.to_dict()}


def _from_data(data: dict[str, Any]) -> NodeCost:
    return NodeCost(**{**data, "mapping": build_mapping("node store", data["mapping"])})


class _Store:
    """Node costs by key in an SQLite file."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, timeout=60.0, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("CREATE TABLE IF NOT EXISTS nodes (key TEXT PRIMARY KEY, data TEXT) WITHOUT ROWID")

    def read(self, key: str) -> dict[str, Any] | None:
        """What is known of a key."""
        row = self._database.execute("SELECT data FROM nodes WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def write(self, key: str, data: dict[str, Any]) -> None:
        """Keep what is known of a key."""
        self._database.execute("INSERT OR REPLACE INTO nodes VALUES (?, ?)", (key, json.dumps(data)))
