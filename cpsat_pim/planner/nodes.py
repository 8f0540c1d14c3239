"""What node programs cost: a lower bound at once, the exact optimum when it is asked for (lazy proofs)."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.units import to_fj
from cpsat_pim.mapper.bounds.layer_bound import layer_lower_bound
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.mapping.mapping import Mapping
from cpsat_pim.mapping.mapping_file import build_mapping
from cpsat_pim.planner.partition import LAYOUTS
from cpsat_pim.workload import ConvWorkload

#: So many times longer is a problem solved again that was not proven.
_LONGER = 4.0

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
    """Bounds of a node problem in the objective's integers; after a solve also its best mapping's exact figures.

    `is_refined`: the lower bound is that of the mapper, not just the MACs of all PEs at work.
    """

    least: int
    is_refined: bool = True
    value: int | None = None
    latency_cycles: int = 0
    energy_fj: int = 0
    mapping: Mapping | None = None
    seconds: float = 0.0

    @property
    def is_solved(self) -> bool:
        """Whether there is a mapping."""
        return self.mapping is not None

    @property
    def gap(self) -> int:
        """What the best mapping costs more than the bound."""
        return 0 if self.value is None else self.value - self.least

    @property
    def is_proven(self) -> bool:
        """Whether no mapping costs less than the one that is known."""
        return self.value is not None and self.value <= self.least


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
        self._known: dict[NodeProblem, NodeCost | None] = {}
        self._floors: dict[NodeProblem, int | None] = {}
        self._store = _Store(store) if store else None
        self._machine = _digest([arch.to_dict(), objective.to_dict(), version])

    @property
    def known(self) -> int:
        """Distinct node problems that were asked about."""
        return len(self._known)

    def cost(self, problem: NodeProblem) -> NodeCost | None:
        """What is known; None if the problem is known to have no mapping."""
        if problem not in self._known:
            self._known[problem] = self._recall(problem)
        return self._known[problem]

    def _recall(self, problem: NodeProblem) -> NodeCost | None:
        """What the store knows, or the plainest bound."""
        kept = self._store.read(self._key(problem)) if self._store else None
        if kept is not None and "mapping" in kept:
            self.reused += 1
            return _from_data(kept)
        return NodeCost(least=self._plain_bound(problem.layer), is_refined=False)

    def _plain_bound(self, layer: ConvWorkload) -> int:
        """All PEs busy with a MAC each cycle; the energy of the MACs alone."""
        array = self.arch.pe_array
        energy_fj = layer.macs * to_fj(array.compute_unit.mac_energy)
        return int(self.objective.value(-(-layer.macs // array.macs_per_cycle), energy_fj))

    def refine(self, problem: NodeProblem) -> NodeCost | None:
        """The mapper's lower bound, whatever the layouts are; None if the problem has no mapping."""
        known = self.cost(problem)
        if known is None or known.is_refined:
            return known
        floor = self._floor(problem.layer)
        self._known[problem] = None if floor is None else NodeCost(least=max(known.least, floor))
        return self._known[problem]

    def solve(self, problem: NodeProblem) -> NodeCost | None:
        """The optimum of a problem, proven or with its gap; None if it has no mapping.

        One that was solved before and not proven is solved again, in more time and from the mapping that is known.
        """
        known = self.refine(problem)
        if known is None or known.is_proven:
            return known
        found = self._solve(problem, known)
        self.solves += 1
        self._known[problem] = found
        if self._store and found is not None:
            self._store.write(self._key(problem), _to_data(found))
        return found

    def _floor(self, layer: ConvWorkload) -> int | None:
        """The mapper's bound of a layer in any layouts, kept in the store."""
        free = NodeProblem(layer=layer)
        if free not in self._floors:
            key = f"floor {self._key(free)}"
            kept = self._store.read(key) if self._store else None
            if kept is None:
                fits = not check_fits(layer, self.arch)
                kept = {"least": layer_lower_bound(layer, self.arch, self.objective) if fits else None}
                if self._store:
                    self._store.write(key, kept)
            self._floors[free] = kept["least"]
        return self._floors[free]

    def _solve(self, problem: NodeProblem, known: NodeCost) -> NodeCost | None:
        """Solve and verify; the solver is imported by whoever solves."""
        from cpsat_pim.mapper.network.run import solve_and_verify
        from cpsat_pim.mapper.search import SolveRequest

        request = SolveRequest(
            objective=self.objective,
            time_limit=max(self.time_limit, _LONGER * known.seconds),
            constraints=problem.constraints,
            start=known.mapping,
        )
        solved = solve_and_verify(problem.layer, self.arch, request)
        if solved.mapping is None:
            return None
        figures = solved.predicted
        return NodeCost(
            least=max(solved.lower_bound or 0, known.least),
            value=solved.cost,
            latency_cycles=figures.latency_cycles,
            energy_fj=figures.energy_fj,
            mapping=solved.mapping,
            seconds=solved.solve_seconds,
        )

    def _key(self, problem: NodeProblem) -> str:
        return _digest([problem.layer.shape, problem.layouts, self._machine])


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
