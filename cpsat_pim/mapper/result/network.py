"""The results of a network's layers, and of a choice that they share."""

import json
from typing import TYPE_CHECKING, Any

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.evaluate.performance import Performance, performance_of
from cpsat_pim.mapper.result.document import build_document
from cpsat_pim.mapper.result.layer import SolvedLayer
from cpsat_pim.mapper.result.objective import Objective, Status, gap_of
from cpsat_pim.mapping.constraints import Constraints

if TYPE_CHECKING:
    from pandas import DataFrame


@frozen(kw_only=True)
class NetworkLayer:
    """A layer of a network as solved: its name, how often it runs, the layers that feed it, and its result."""

    name: str
    count: int
    after: tuple[str, ...]
    solved: SolvedLayer

    def to_dict(self) -> dict[str, Any]:
        """Return the layer's entry in a JSON document (docs/json.md)."""
        return self.solved.to_dict() | {"name": self.name, "count": self.count}


@frozen(kw_only=True)
class SharedChoice:
    """The choice that all layers of a network share, with the least sum of objectives.

    `share`: the names of what is shared. `choice`: how; None if no choice suits all layers, or none was found in time.
    `objective_value`: the sum under the choice; `bound`: no choice has a lower sum; `free`: the sum of the best known
    mappings where each layer has a choice of its own; all in the objective's reported unit. `solves`: how many solves
    were made.
    """

    share: tuple[str, ...]
    choice: Constraints | None
    status: Status
    objective_value: int | float | None
    bound: int | float | None
    free: int | float | None
    solves: int

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; 0 only if the objective is proven optimal."""
        return gap_of(self.objective_value, self.bound, self.status)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "share": list(self.share),
            "choice": self.choice and self.choice.to_dict(),
            "status": self.status.value,
            "objective": self.objective_value,
            "bound": self.bound,
            "gap": self.gap,
            "free": self.free,
            "solves": self.solves,
        }


@frozen(kw_only=True, repr=False)
class SolvedNetwork:
    """The results of a network's layers, in execution order; `shared`: the choice that they share, if any."""

    network: str
    arch: PIMArchitecture
    objective: Objective
    layers: tuple[NetworkLayer, ...]
    seconds: float
    interrupted: bool = False
    shared: SharedChoice | None = None

    @property
    def mapped(self) -> tuple[NetworkLayer, ...]:
        """The layers that have a mapping; all sums are over these."""
        return tuple(n for n in self.layers if n.solved.mapping)

    @property
    def latency_cycles(self) -> int:
        """Sum over layers and their counts."""
        return sum(n.count * n.solved.predicted.latency_cycles for n in self.mapped)

    @property
    def energy_fj(self) -> int:
        """Sum over layers and their counts."""
        return sum(n.count * n.solved.predicted.energy_fj for n in self.mapped)

    @property
    def performance(self) -> Performance | None:
        """Seconds, watts and operations per second of the layers with a mapping, one after the other on one node; None
        without a clock.
        """
        machine = {"clock": self.arch.clock, "static_power": self.arch.static_power}
        macs = sum(n.count * n.solved.workload.useful_macs for n in self.mapped)
        return performance_of(machine, self.latency_cycles, self.energy_fj, macs)

    @property
    def objective_value(self) -> int | float:
        """Sum over layers and their counts of the exact objectives (so for `edp` of products)."""
        return self.objective.reported(sum(n.count * (n.solved.cost or 0) for n in self.mapped))

    @property
    def bound(self) -> int | float:
        """Sum over the same layers of their lower bounds."""
        return self.objective.reported(sum(n.count * (n.solved.lower_bound or 0) for n in self.mapped))

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; 0 if all layers with a mapping are proven; None if none has a mapping."""
        is_proven = all(n.solved.status is Status.OPTIMAL for n in self.mapped)
        status = Status.OPTIMAL if is_proven else Status.FEASIBLE
        return gap_of(self.objective_value, self.bound, status) if self.mapped else None

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain data: a JSON document (docs/json.md)."""
        document = build_document(
            network=self.network,
            arch=self.arch.to_dict(),
            objective=self.objective.to_dict(),
            layers=[node.to_dict() for node in self.layers],
            seconds=self.seconds,
            interrupted=self.interrupted,
        )
        document["totals"] |= {"objective": self.objective_value, "bound": self.bound}
        return document | ({"shared": self.shared.to_dict()} if self.shared else {})

    def to_json(self) -> str:
        """Return `to_dict` as JSON text, as `--json` writes it."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def to_frame(self) -> "DataFrame":
        """Return a pandas frame with a row for each layer: `SolvedLayer.row` and how often the layer runs."""
        from pandas import DataFrame

        return DataFrame(
            [{"layer": n.name, "count": n.count} | {**n.solved.row(), "layer": n.name} for n in self.layers]
        )

    def __repr__(self) -> str:
        proven = sum(n.solved.status is Status.OPTIMAL for n in self.layers)
        totals = f"{self.latency_cycles:,} cycles, {self.energy_fj / FJ_PER_NJ:,.0f} nJ"
        return f"<SolvedNetwork {self.network} on {self.arch.name}: {proven}/{len(self.layers)} proven, {totals}>"

    def _repr_html_(self) -> str:
        """Return a table with a row for each layer, for notebooks."""
        table: str = self.to_frame().to_html(index=False, border=0)
        return table
