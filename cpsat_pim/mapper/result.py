"""What a solve returns: status, bound, mapping and figures, free of the solver; results recost themselves."""

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

#: What is not proven has no smaller gap, however figures are rounded.
_LEAST_GAP = 2.0**-53

#: A mapping and what it is predicted to cost.
Found = tuple[Mapping, Prediction]
#: Seconds since a solve began, and the best value and the bound that were known then.
Known = tuple[float, int | float | None, int | float | None]


class Status(StrEnum):
    """How a solve ended: proven optimal, a mapping with a gap, proven empty, or out of time with nothing."""

    OPTIMAL = "OPTIMAL"
    FEASIBLE = "FEASIBLE"
    INFEASIBLE = "INFEASIBLE"
    UNKNOWN = "UNKNOWN"


def _exact(value: Fraction | float | str) -> Fraction:
    """A weight as it is written: 0.1 is a tenth."""
    return Fraction(str(value))


@frozen(kw_only=True)
class Objective:
    """alpha * latency (cycles) + beta * energy (nJ) (section 5.6.5); `scale` times that is an integer.

    Of kind `edp` it is their product, latency * energy (fJ), and the weights say nothing.

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
        """`latency`, `energy`, `blended` or `edp`; alpha and beta matter for `blended` only.

        Raises:
            ValueError: unknown name, or weights out of range.
        """
        weights = {"latency": (1, 0), "energy": (0, 1), "blended": (alpha, beta), "edp": (1, 1)}
        if kind not in weights:
            raise ValueError(f"objective: must be one of {', '.join(weights)} (got {kind!r})")
        return cls(kind=kind, alpha=weights[kind][0], beta=weights[kind][1])

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        weights = {"alpha": self.alpha, "beta": self.beta}
        return {"kind": self.kind} | {k: int(w) if w.denominator == 1 else float(w) for k, w in weights.items()}

    @property
    def is_product(self) -> bool:
        """Whether it is latency times energy, and no sum."""
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
            ValueError: it is no sum.
        """
        if self.is_product:
            raise ValueError("objective: a product has no weights")
        if self.kind == "energy":
            return (0, 1)
        return int(self.alpha * self.scale), int(self.beta / FJ_PER_NJ * self.scale)

    def value(self, latency_cycles: int, energy_fj: int) -> int:
        """The integer objective of a cost."""
        if self.is_product:
            return latency_cycles * energy_fj
        return self.weights[0] * latency_cycles + self.weights[1] * energy_fj

    def reported(self, value: int) -> int | float:
        """An integer objective in the reported unit."""
        exact = Fraction(value, self.scale)
        return exact.numerator if exact.denominator == 1 else float(exact)


@frozen(kw_only=True)
class Budget:
    """What a mapping may cost at most, as predicted: cycles, femtojoules, row activations of all tensors together; None
    is no limit.
    """

    cycles: int | None = None
    fj: int | None = None
    activations: int | None = None

    def to_dict(self) -> dict[str, int]:
        """Plain data: the limits that there are."""
        return {name: most for name, most in asdict(self).items() if most is not None}

    def allows(self, latency_cycles: int, energy_fj: int, activations: int) -> bool:
        """Whether a cost is within it."""
        costs = ((latency_cycles, self.cycles), (energy_fj, self.fj), (activations, self.activations))
        return all(most is None or cost <= most for cost, most in costs)

    def covers(self, figures: Figures) -> bool:
        """Whether a mapping of these figures is within it."""
        return self.allows(figures.latency_cycles, figures.energy_fj, sum(figures.row_activations))


#: For those who may spend what they like.
NO_LIMIT = Budget()


@frozen(kw_only=True)
class SolvedLayer:
    """One layer's answer. `objective_value` and `bound` are in the objective's reported unit; no mapping, no value.

    `simulated` is what the trace simulator counted for this very mapping, `progress` what was known while solving; the
    status is of the mappings that keep the `constraints` and the `budget`, of the layer and all that it may be padded
    to with the share `padding` of MACs more: `workload` is what the mapping is of. The properties named as in listing
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
    progress: tuple[Known, ...] = ()
    constraints: Constraints = FREE
    budget: Budget = NO_LIMIT
    padding: float = 0.0

    @classmethod
    def known(cls, best: Found | None, least: int | None, **fields: Any) -> "SolvedLayer":
        """What is known when a search ends: the best mapping found, if any, and that none costs less than `least`, in
        the objective's integers; None is a proof that there is none that is better, or none at all.
        """
        if best is not None:
            mapping, prediction = best
            return cls(status=Status.FEASIBLE, mapping=mapping, prediction=prediction, **fields).bounded(least)
        bound = None if least is None else fields["objective"].reported(least)
        return cls(status=Status.INFEASIBLE if least is None else Status.UNKNOWN, bound=bound, **fields)

    def bounded(self, least: int | None) -> "SolvedLayer":
        """The answer, which has a mapping, with what is known besides: see `known`."""
        cost = self._answer(self.cost)
        least = cost if least is None else min(least, cost)
        status = Status.OPTIMAL if least == cost else Status.FEASIBLE
        return evolve(self, bound=self.objective.reported(least), status=status)

    @property
    def predicted(self) -> Figures:
        """Predicted figures of the mapping."""
        return self._answer(self.prediction).figures

    @property
    def objective_value(self) -> int | float | None:
        """The exact objective of the mapping."""
        return None if self.cost is None else self.objective.reported(self.cost)

    @property
    def cost(self) -> int | None:
        """The same in the objective's integers."""
        if self.prediction is None:
            return None
        return self.objective.value(self.predicted.latency_cycles, self.predicted.energy_fj)

    @property
    def least_cost(self) -> int | None:
        """The bound in these integers; where the reported one was rounded to a float, at most what it stood for."""
        if self.status is Status.OPTIMAL:
            return self.cost
        if self.bound is None:
            return None
        exact = Fraction(self.bound) * self.objective.scale
        return math.floor(exact if isinstance(self.bound, int) else exact * (1 - Fraction(1, 2**52)))

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; 0 is a proof."""
        return _gap(self.objective_value, self.bound, self.status)

    @property
    def limited_by(self) -> str:
        """What ends last: compute, dram_I, dram_W, dram_O, a level's transfers or the interconnect."""
        bounds = self._answer(self.prediction).bounds
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
        steps = self._answer(self.mapping).compute_steps
        return self.workload.useful_macs / (steps * self.arch.pe_array.macs_per_cycle)

    @property
    def layout(self) -> dict[str, str]:
        """DRAM layout per tensor: mode and axis order."""
        mapping = self._answer(self.mapping)
        return {
            t.name: ("row_aligned " if mapping.stored[Level.ROW_BUFFER][t] else "sequential ")
            + LAYOUT_ORDERS[t][mapping.layout[t]]
            for t in Tensor
        }

    @property
    def loop_bounds(self) -> dict[int, dict[str, dict[int, int]]]:
        """[m][H, W, INTERNAL or temporal][dim] = factor (listing 5)."""
        mapping = self._answer(self.mapping)
        bounds = {int(m): {"temporal": {int(d): mapping.temporal[m][d] for d in Dim}} for m in Level}
        for s in Direction:
            bounds[int(Level.PE)][s.name] = {int(d): mapping.spatial[s][d] for d in Dim}
        return bounds

    @property
    def permutation(self) -> dict[int, dict[int, int]]:
        """[m][p] = dim, p counted from the innermost loop (listing 5)."""
        mapping = self._answer(self.mapping)
        return {int(m): {p: int(d) for p, d in enumerate(reversed(mapping.order[m]))} for m in Level}

    @property
    def bypass(self) -> dict[int, dict[str, bool]]:
        """[m][tensor] = stored (listing 5)."""
        mapping = self._answer(self.mapping)
        return {m: {t.name: mapping.stored[m][t] for t in Tensor} for m in range(3)}

    @property
    def metrics(self) -> dict[str, Any]:
        """Predicted figures as plain data (listing 5)."""
        return self.predicted.to_dict()

    @property
    def tile_info(self) -> dict[str, dict[str, dict[str, int]]]:
        """Tile extents per level, tensor that it stores, and dim relevant to the tensor (listing 5)."""
        mapping = self._answer(self.mapping)
        held = {m: [t for t in Tensor if m is Level.DRAM or mapping.stored[m][t]] for m in Level}
        return {m.name: {t.name: {d.name: mapping.tile(m, t)[d] for d in RELEVANT[t]} for t in held[m]} for m in Level}

    def _repr_html_(self) -> str:
        """For notebooks: the figures and the loop nest."""
        return _in_notebook("layer_html", self)

    def _answer(self, value: T | None) -> T:
        if value is None:
            raise ValueError(f"{self.workload.name}: no mapping was found ({self.status})")
        return value


@frozen(kw_only=True)
class NetworkLayer:
    """A layer of a network as solved: its name, how often it runs, what feeds it, and the answer."""

    name: str
    count: int
    after: tuple[str, ...]
    solved: SolvedLayer


@frozen(kw_only=True)
class SharedChoice:
    """What all layers of a network have in common, best for their sum; both are in the objective's reported unit.

    `share` names what was to be shared, `choice` says how (nothing where no choice suits all layers, or none was found
    in time). No choice has a sum below `bound`; `free` is the sum of what the layers cost, as far as is known, where
    each has its own. `solves`: how many it took.
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
        """(objective - bound) / objective; 0 is a proof."""
        return _gap(self.objective_value, self.bound, self.status)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
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
    """All layers of a network, in execution order; `shared`: what they were to have in common, if anything."""

    network: str
    arch: PIMArchitecture
    objective: Objective
    layers: tuple[NetworkLayer, ...]
    seconds: float
    interrupted: bool = False
    shared: SharedChoice | None = None

    @property
    def mapped(self) -> tuple[NetworkLayer, ...]:
        """The layers that have a mapping, of which all sums are."""
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
        """Sum over the same layers of what no mapping has less of."""
        return self.objective.reported(sum(n.count * (n.solved.least_cost or 0) for n in self.mapped))

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; 0 is a proof of all layers that have a mapping, None if none has."""
        is_proven = all(n.solved.status is Status.OPTIMAL for n in self.mapped)
        status = Status.OPTIMAL if is_proven else Status.FEASIBLE
        return _gap(self.objective_value, self.bound, status) if self.mapped else None

    def _repr_html_(self) -> str:
        """For notebooks: a row per layer."""
        return _in_notebook("network_html", self)


def _gap(value: int | float | None, bound: int | float | None, status: Status) -> float | None:
    """(value - bound) / value; 0 if proven and only then: what is reported may be rounded to be equal."""
    if value is None or bound is None:
        return None
    return 0.0 if status is Status.OPTIMAL else max(_LEAST_GAP, float((value - bound) / value))


def _in_notebook(form: str, result: SolvedLayer | SolvedNetwork) -> str:
    """A result as notebooks show it. Reports build on results, so theirs is looked up when a notebook asks for it."""
    text: str = getattr(import_module("cpsat_pim.report.notebook"), form)(result)
    return text
