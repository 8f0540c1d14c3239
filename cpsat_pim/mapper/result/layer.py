"""The result of one layer's solve. It knows no solver, and recosts itself."""

import json
import math
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve, field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import LAYOUT_ORDERS, RELEVANT, Dim, Direction, Level, Tensor
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.evaluate.cost import Figures, Prediction, energy_parts_fj
from cpsat_pim.evaluate.performance import Performance, performance_of
from cpsat_pim.mapper.result.objective import NO_LIMIT, Budget, Objective, SecondObjective, Status, gap_of
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.mapping.dataflow import classify_dataflow
from cpsat_pim.mapping.loop_nest import format_nest
from cpsat_pim.workload import ConvWorkload

if TYPE_CHECKING:
    from pandas import DataFrame

T = TypeVar("T")

#: Keys of a layer's entry that follow from the others.
_DERIVED = ("bound_by", "dataflow", "energy_parts_fj", "utilization", "performance")
#: A mapping and its predicted cost.
Predicted = tuple[Mapping, Prediction]
#: Seconds since a solve began, and its incumbent and lower bound then, in the objective's reported unit.
ProgressPoint = tuple[float, int | float | None, int | float | None]


@frozen(kw_only=True, repr=False)
class SolvedLayer:
    """The result of one layer's solve. `objective_value` and `bound` are in the objective's reported unit; without a
    mapping there is no value.

    `status` and `bound` are of all mappings that keep the `constraints` and the `budget`, of the layer and of all
    layers that it may be padded to with at most the share `padding` of MACs more. `workload` is the layer that the
    mapping is of. `simulated`: the trace simulator's figures of this mapping. `progress`: incumbents and lower bounds
    during the solve. `second`: what was minimized next, and how far that is proven. The properties named as in listing
    5-7 give the seeds' view.
    """

    workload: ConvWorkload
    arch: PIMArchitecture
    objective: Objective
    status: Status
    mapping: Mapping | None = None
    prediction: Prediction | None = None
    simulated: Figures | None = None
    bound: int | float | None = None
    solve_seconds: float = 0.0
    solver_info: dict[str, Any] = field(factory=dict)
    progress: tuple[ProgressPoint, ...] = ()
    constraints: Constraints = FREE
    budget: Budget = NO_LIMIT
    padding: float = 0.0
    second: SecondObjective | None = None

    @classmethod
    def concluded(cls, incumbent: Predicted | None, lower_bound: int | None, **fields: Any) -> "SolvedLayer":
        """Return the result of a search that ended with an incumbent, if any, and a lower bound in the objective's
        integers. A lower bound of None is a proof that no mapping costs less than the incumbent, or that there is none.
        """
        if incumbent is not None:
            mapping, prediction = incumbent
            solved = cls(status=Status.FEASIBLE, mapping=mapping, prediction=prediction, **fields)
            return solved.with_lower_bound(lower_bound)
        bound = None if lower_bound is None else fields["objective"].reported(lower_bound)
        return cls(status=Status.INFEASIBLE if lower_bound is None else Status.UNKNOWN, bound=bound, **fields)

    def with_lower_bound(self, lower_bound: int | None) -> "SolvedLayer":
        """Return the result, which has a mapping, with another lower bound: see `concluded`."""
        cost = self._of_mapping(self.cost)
        lower_bound = cost if lower_bound is None else min(lower_bound, cost)
        status = Status.OPTIMAL if lower_bound == cost else Status.FEASIBLE
        return evolve(self, bound=self.objective.reported(lower_bound), status=status)

    @property
    def predicted(self) -> Figures:
        """The predicted figures of the mapping."""
        return self._of_mapping(self.prediction).figures

    @property
    def objective_value(self) -> int | float | None:
        """The exact objective of the mapping."""
        return None if self.cost is None else self.objective.reported(self.cost)

    @property
    def cost(self) -> int | None:
        """The exact objective of the mapping in the objective's integers."""
        if self.prediction is None:
            return None
        return self.objective.value(self.predicted.latency_cycles, self.predicted.energy_fj)

    @property
    def lower_bound(self) -> int | None:
        """The bound in the objective's integers; never above the exact one, which a float may round."""
        if self.status is Status.OPTIMAL:
            return self.cost
        if self.bound is None:
            return None
        exact = Fraction(self.bound) * self.objective.scale
        return math.floor(exact if isinstance(self.bound, int) else exact * (1 - Fraction(1, 2**52)))

    @property
    def is_proven(self) -> bool:
        """Whether the mapping is proven to be as good as was asked: by both objectives, if there are two."""
        return (self.second or self).status is Status.OPTIMAL

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; 0 only if the objective is proven optimal."""
        return gap_of(self.objective_value, self.bound, self.status)

    @property
    def limited_by(self) -> str:
        """The resource that ends last: compute, dram_I, dram_W, dram_O, a level's transfers or the interconnect."""
        bounds = self._of_mapping(self.prediction).bounds
        return max(bounds, key=lambda name: bounds[name])

    @property
    def latency(self) -> int:
        """Latency in cycles."""
        return self.predicted.latency_cycles

    @property
    def energy(self) -> float:
        """Energy in nJ."""
        return self.predicted.energy_fj / FJ_PER_NJ

    @property
    def row_activations(self) -> int:
        """Row activations of all tensors."""
        return sum(self.predicted.row_activations)

    @property
    def pe_utilization(self) -> float:
        """Useful MACs per compute step over the array's peak: what the spatial mapping leaves idle is missing."""
        steps = self._of_mapping(self.mapping).compute_steps
        return self.workload.useful_macs / (steps * self.arch.pe_array.macs_per_cycle)

    @property
    def latency_utilization(self) -> float:
        """Useful MACs per cycle of the latency over the array's peak: waiting for data counts as idle, too."""
        return self.workload.useful_macs / (self.latency * self.arch.pe_array.macs_per_cycle)

    @property
    def performance(self) -> Performance | None:
        """Seconds, watts and operations per second on one node; None without a clock."""
        machine = {"clock": self.arch.clock, "static_power": self.arch.static_power}
        return performance_of(machine, self.latency, self.predicted.energy_fj, self.workload.useful_macs)

    @property
    def layout(self) -> dict[str, str]:
        """DRAM layout per tensor: mode and axis order."""
        mapping = self._of_mapping(self.mapping)
        return {
            t.name: ("row_aligned " if mapping.stored[Level.ROW_BUFFER][t] else "sequential ")
            + LAYOUT_ORDERS[t][mapping.layout[t]]
            for t in Tensor
        }

    @property
    def loop_bounds(self) -> dict[int, dict[str, dict[int, int]]]:
        """[m][H, W, INTERNAL or temporal][dim] = factor (listing 5)."""
        mapping = self._of_mapping(self.mapping)
        bounds = {int(m): {"temporal": {int(d): mapping.temporal[m][d] for d in Dim}} for m in Level}
        for s in Direction:
            bounds[int(Level.PE)][s.name] = {int(d): mapping.spatial[s][d] for d in Dim}
        return bounds

    @property
    def permutation(self) -> dict[int, dict[int, int]]:
        """[m][p] = dim, p counted from the innermost loop (listing 5)."""
        mapping = self._of_mapping(self.mapping)
        return {int(m): {p: int(d) for p, d in enumerate(reversed(mapping.order[m]))} for m in Level}

    @property
    def bypass(self) -> dict[int, dict[str, bool]]:
        """[m][tensor] = stored (listing 5)."""
        mapping = self._of_mapping(self.mapping)
        return {m: {t.name: mapping.stored[m][t] for t in Tensor} for m in range(3)}

    @property
    def metrics(self) -> dict[str, Any]:
        """Predicted figures as plain data (listing 5)."""
        return self.predicted.to_dict()

    @property
    def tile_info(self) -> dict[str, dict[str, dict[str, int]]]:
        """Tile extents per level, tensor that it stores, and dim relevant to the tensor (listing 5)."""
        mapping = self._of_mapping(self.mapping)
        held = {m: [t for t in Tensor if m is Level.DRAM or mapping.stored[m][t]] for m in Level}
        return {m.name: {t.name: {d.name: mapping.tile(m, t)[d] for d in RELEVANT[t]} for t in held[m]} for m in Level}

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data: the entry of a layer in a [JSON document](docs/json.md)."""
        entry = {
            "name": self.workload.name,
            "count": 1,
            "shape": self.workload.shape,
            "status": self.status.value,
            "objective": self.objective_value,
            "bound": self.bound,
            "gap": self.gap,
            "solve_seconds": round(self.solve_seconds, 3),
            "predicted": self.predicted.to_dict() if self.prediction else None,
            "simulated": self.simulated.to_dict() if self.simulated else None,
            "mapping": self.mapping.to_dict() if self.mapping else None,
            "progress": [[round(seconds, 3), incumbent, bound] for seconds, incumbent, bound in self.progress],
        } | (self._derived() if self.mapping else dict.fromkeys(_DERIVED))
        restricted = {
            "constraints": self.constraints.to_dict(),
            "budget": self.budget.to_dict(),
            "padding": self.padding,
            "second": self.second and self.second.to_dict(),
        }
        return entry | {key: value for key, value in restricted.items() if value}

    def _derived(self) -> dict[str, Any]:
        """Return what follows from shape, machine, mapping and figures."""
        performance = self.performance
        utilization = {"compute_steps": self.pe_utilization, "latency": self.latency_utilization}
        values = (
            self.limited_by,
            classify_dataflow(self._of_mapping(self.mapping)).value,
            energy_parts_fj(self.workload, self.arch, self.predicted),
            utilization,
            performance and performance.to_dict(),
        )
        return dict(zip(_DERIVED, values, strict=True))

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def to_frame(self) -> "DataFrame":
        """Return a pandas frame of one row; see `row`."""
        from pandas import DataFrame

        return DataFrame([self.row()])

    def row(self) -> dict[str, Any]:
        """Return the figures of one row of a table: cycles, nJ, counts, shares. Without a mapping only the proof's."""
        proof = {"layer": self.workload.name, "status": self.status.value, "gap": self.gap}
        if self.mapping is None:
            return proof
        performance = self.performance
        return proof | {
            "cycles": self.latency,
            "energy_nj": self.energy,
            **(performance.to_dict() if performance else {}),
            **{f"activations_{t.name}": self.predicted.row_activations[t] for t in Tensor},
            "pe_utilization": self.pe_utilization,
            "latency_utilization": self.latency_utilization,
            "bound_by": self.limited_by,
            "dataflow": classify_dataflow(self.mapping).value,
            **{f"layout_{name}": layout for name, layout in self.layout.items()},
            "seconds": self.solve_seconds,
        }

    def __repr__(self) -> str:
        value = "" if self.cost is None else f", {self.objective.kind} {self.objective_value:,}"
        return f"<SolvedLayer {self.workload.name} on {self.arch.name}: {self.status}{value}, bound {self.bound}>"

    def _repr_html_(self) -> str:
        """Return the row as a table, and the loop nest to fold out, for notebooks."""
        table: str = self.to_frame().to_html(index=False, border=0)
        if self.mapping is None:
            return table
        nest = escape(format_nest(self.workload, self.arch, self.mapping))
        return f"{table}<details><summary>loop nest</summary><pre>{nest}</pre></details>"

    def _of_mapping(self, value: T | None) -> T:
        """Return a value that only a result with a mapping has."""
        if value is None:
            raise ValueError(f"{self.workload.name}: no mapping was found ({self.status})")
        return value
