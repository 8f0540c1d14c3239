"""Results of solves: status, lower bound, mapping and figures. They know no solver, and recost themselves."""

import math
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from typing import Any, TypeVar

from attrs import asdict, evolve, field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import LAYOUT_ORDERS, RELEVANT, Dim, Direction, Level, Tensor
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.evaluate.cost import Figures, Prediction
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.workload import ConvWorkload

T = TypeVar("T")

#: The least gap of a result that is not proven, however its figures are rounded.
_LEAST_GAP = 2.0**-53

#: A mapping and its predicted cost.
Predicted = tuple[Mapping, Prediction]
#: Seconds since a solve began, and its incumbent and lower bound then, in the objective's reported unit.
ProgressPoint = tuple[float, int | float | None, int | float | None]


class Status(StrEnum):
    """How a solve ended: a proven optimum; a mapping with a gap; a proof that there is no mapping; neither of these."""

    OPTIMAL = "OPTIMAL"
    FEASIBLE = "FEASIBLE"
    INFEASIBLE = "INFEASIBLE"
    UNKNOWN = "UNKNOWN"


def _exact(value: Fraction | float | str) -> Fraction:
    """Return a weight as it is written: 0.1 is a tenth."""
    return Fraction(str(value))


@frozen(kw_only=True)
class Objective:
    """alpha * latency (cycles) + beta * energy (nJ) (section 5.6.5); `scale` times that is an integer.

    Of kind `edp` it is their product, latency * energy (fJ), and the weights have no effect.

    Raises:
        ValueError: both weights are zero or one is negative.
    """

    kind: str
    alpha: Fraction = field(converter=_exact)
    beta: Fraction = field(converter=_exact)

    def __attrs_post_init__(self) -> None:
        if self.alpha < 0 or self.beta < 0 or self.alpha + self.beta == 0:
            raise ValueError(
                f"objective: alpha and beta must be at least 0 and not both 0 (got {self.alpha} and {self.beta})"
            )

    @classmethod
    def named(cls, kind: str, alpha: float | str = 1, beta: float | str = 1) -> "Objective":
        """Return the objective `latency`, `energy`, `blended` or `edp`; alpha and beta matter for `blended` only.

        Raises:
            ValueError: unknown name, or weights out of range.
        """
        weights = {"latency": (1, 0), "energy": (0, 1), "blended": (alpha, beta), "edp": (1, 1)}
        if kind not in weights:
            raise ValueError(f"objective: must be one of {', '.join(weights)} (got {kind!r})")
        return cls(kind=kind, alpha=weights[kind][0], beta=weights[kind][1])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        weights = {"alpha": self.alpha, "beta": self.beta}
        return {"kind": self.kind} | {k: int(w) if w.denominator == 1 else float(w) for k, w in weights.items()}

    @property
    def is_product(self) -> bool:
        """Whether it is latency times energy instead of a sum."""
        return self.kind == "edp"

    @property
    def scale(self) -> int:
        """Integer objective per unit of the reported one (cycles; fJ; alpha cycles + beta nJ; cycles * fJ)."""
        if self.kind == "energy" or self.is_product:
            return 1
        return math.lcm(self.alpha.denominator, (self.beta / FJ_PER_NJ).denominator)

    @property
    def weights(self) -> tuple[int, int]:
        """Integer weights of a cycle and of a femtojoule.

        Raises:
            ValueError: the objective is a product.
        """
        if self.is_product:
            raise ValueError("objective: a product has no weights")
        if self.kind == "energy":
            return (0, 1)
        return int(self.alpha * self.scale), int(self.beta / FJ_PER_NJ * self.scale)

    def value(self, latency_cycles: int, energy_fj: int) -> int:
        """Return the integer objective of a cost."""
        if self.is_product:
            return latency_cycles * energy_fj
        return self.weights[0] * latency_cycles + self.weights[1] * energy_fj

    def reported(self, value: int) -> int | float:
        """Return an integer objective in the reported unit."""
        exact = Fraction(value, self.scale)
        return exact.numerator if exact.denominator == 1 else float(exact)


@frozen(kw_only=True)
class Budget:
    """The most that a mapping may cost, as predicted: cycles, femtojoules, row activations of all tensors together.

    None is no limit.
    """

    cycles: int | None = None
    fj: int | None = None
    activations: int | None = None

    def to_dict(self) -> dict[str, int]:
        """Return the limits that there are, as plain data."""
        return {name: most for name, most in asdict(self).items() if most is not None}

    def allows(self, latency_cycles: int, energy_fj: int, activations: int) -> bool:
        """Whether a cost keeps the budget."""
        costs = ((latency_cycles, self.cycles), (energy_fj, self.fj), (activations, self.activations))
        return all(most is None or cost <= most for cost, most in costs)

    def covers(self, figures: Figures) -> bool:
        """Whether a mapping with these figures keeps the budget."""
        return self.allows(figures.latency_cycles, figures.energy_fj, sum(figures.row_activations))


#: The budget without limits.
NO_LIMIT = Budget()


@frozen(kw_only=True)
class SolvedLayer:
    """The result of one layer's solve. `objective_value` and `bound` are in the objective's reported unit; without a
    mapping there is no value.

    `status` and `bound` are of all mappings that keep the `constraints` and the `budget`, of the layer and of all
    layers that it may be padded to with at most the share `padding` of MACs more. `workload` is the layer that the
    mapping is of. `simulated`: the trace simulator's figures of this mapping. `progress`: incumbents and lower bounds
    during the solve. The properties named as in listing 5-7 give the seeds' view.
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
    def gap(self) -> float | None:
        """(objective - bound) / objective; 0 only if the objective is proven optimal."""
        return _gap(self.objective_value, self.bound, self.status)

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
        """Useful MACs a cycle over the array's peak."""
        steps = self._of_mapping(self.mapping).compute_steps
        return self.workload.useful_macs / (steps * self.arch.pe_array.macs_per_cycle)

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

    def _repr_html_(self) -> str:
        """For notebooks: the figures and the loop nest."""
        return _in_notebook("layer_html", self)

    def _of_mapping(self, value: T | None) -> T:
        """Return a value that only a result with a mapping has."""
        if value is None:
            raise ValueError(f"{self.workload.name}: no mapping was found ({self.status})")
        return value


@frozen(kw_only=True)
class NetworkLayer:
    """A layer of a network as solved: its name, how often it runs, the layers that feed it, and its result."""

    name: str
    count: int
    after: tuple[str, ...]
    solved: SolvedLayer


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
        return _gap(self.objective_value, self.bound, self.status)

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


@frozen(kw_only=True)
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
        return _gap(self.objective_value, self.bound, status) if self.mapped else None

    def _repr_html_(self) -> str:
        """For notebooks: a row per layer."""
        return _in_notebook("network_html", self)


def _gap(value: int | float | None, bound: int | float | None, status: Status) -> float | None:
    """Return (value - bound) / value; 0 if and only if proven, as reported numbers may be equal by rounding."""
    if value is None or bound is None:
        return None
    return 0.0 if status is Status.OPTIMAL else max(_LEAST_GAP, float((value - bound) / value))


def _in_notebook(form: str, result: SolvedLayer | SolvedNetwork) -> str:
    """Return a result as notebooks show it. Reports build on results, so this one is imported when it is needed."""
    text: str = getattr(import_module("cpsat_pim.report.notebook"), form)(result)
    return text
