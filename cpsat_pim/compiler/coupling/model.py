"""The choice of one option for every layer of a model, by CP-SAT.

Weights keep one layout for all batch sizes, so an option of a weight is chosen once for all of them. The attention of
every batch size is chosen by itself. What the weights of all blocks and the keys and values of a batch take must fit
the banks. The objective is time or energy of all generated tokens of all batch sizes, of all blocks.
"""

from collections.abc import Mapping as Names
from typing import Any

from attrs import frozen

from cpsat_pim.compiler.coupling.attention import AttentionOption, attention_options
from cpsat_pim.compiler.coupling.options import Option, product_options
from cpsat_pim.compiler.host import host_of
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.models.block import Block
from cpsat_pim.compiler.models.transformer import Transformer, fully_connected
from cpsat_pim.compiler.solving import finds_solution
from cpsat_pim.compiler.target import Target

OBJECTIVES = ("time", "energy")
#: Bytes in the unit of the capacity constraint.
KIB = 1024


@frozen(kw_only=True, slots=False)
class Problem:
    """A model for some batch sizes, all with the same lengths; the options of every weight and of every attention."""

    model: Transformer
    batches: tuple[int, ...]
    lengths: range
    weights: Names[str, tuple[Option, ...]]
    attentions: Names[int, tuple[AttentionOption, ...]]
    pointwise_ps: Names[int, int]
    capacity_bytes: int

    def cost_of(self, option: Option, objective: str) -> int:
        """Of a weight, for one token of every batch size."""
        return sum(option.times_ps if objective == "time" else option.energies_fj)

    def time_ps(self, decided: "Decision", batch: int) -> int:
        """Picoseconds of all tokens of a batch."""
        at, tokens = self.batches.index(batch), len(self.lengths)
        layers = sum(option.times_ps[at] for option in decided.weights.values())
        fixed = tokens * (layers + self.pointwise_ps[batch])
        return self.model.blocks * (fixed + decided.attentions[batch].time_ps)

    def energy_fj(self, decided: "Decision", batch: int) -> int:
        """Femtojoules of all tokens of a batch, without those of pointwise layers."""
        at, tokens = self.batches.index(batch), len(self.lengths)
        layers = sum(option.energies_fj[at] for option in decided.weights.values())
        return self.model.blocks * (tokens * layers + decided.attentions[batch].energy_fj)

    def stored_bytes(self, decided: "Decision", batch: int) -> int:
        """Bytes in the banks while a batch runs."""
        weights = sum(option.stored_bytes for option in decided.weights.values())
        return self.model.blocks * (weights + decided.attentions[batch].stored_bytes)


@frozen(kw_only=True)
class Decision:
    """The chosen options, the objective's value, and a bound that no choice falls below."""

    objective: str
    weights: Names[str, Option]
    attentions: Names[int, AttentionOption]
    value: int
    bound: int

    @property
    def status(self) -> str:
        """OPTIMAL: the bound is reached, by exact figures."""
        is_bound = self.objective == "energy" and any(found.is_energy_bound for found in self.attentions.values())
        return "OPTIMAL" if self.value == self.bound and not is_bound else "FEASIBLE"

    @property
    def gap(self) -> float:
        """(value - bound) / value."""
        return (self.value - self.bound) / self.value


def problem_of(model: Transformer, batches: tuple[int, ...], lengths: range, target: Target) -> Problem:
    """All options, with exact times. The space: host or PIM for every layer and batch size; for the feed-forward also
    both at once, by sixteenths of the outputs, if the host's part takes less than everything on PIM; for every such
    choice the layout with the least sum of times.
    """
    host = host_of(target.device)
    blocks = {batch: Block(model, batch, host, target) for batch in batches}
    weights = {
        layer.name: tuple(
            product_options(layer.name, layer.product, batches, target, host, layer.group == "feed-forward")
        )
        for layer in fully_connected(model, 1)
    }
    device = target.device
    return Problem(
        model=model,
        batches=batches,
        lengths=lengths,
        weights=weights,
        attentions={batch: tuple(attention_options(block, lengths)) for batch, block in blocks.items()},
        pointwise_ps={batch: round(block.pointwise * 1e12) for batch, block in blocks.items()},
        capacity_bytes=target.channels * device.cores * target.columns * device.core.column_bytes,
    )


def decide(problem: Problem, objective: str, seconds: float = 60.0) -> Decision:
    """The best choice.

    Raises:
        KernelMistake: no choice fits the banks.
        ValueError: the model is malformed.
    """
    found, bound = _solve(problem, objective, seconds, is_bound=False)
    if any(option.bound_ps < option.time_ps for options in problem.attentions.values() for option in options):
        bound = _solve(problem, objective, seconds, is_bound=True)[1]  # some layouts of keys and values have a gap
    weights, attentions = found
    decided = Decision(objective=objective, weights=weights, attentions=attentions, value=0, bound=bound)
    value = _value(problem, decided)
    return Decision(objective=objective, weights=weights, attentions=attentions, value=value, bound=min(bound, value))


def _value(problem: Problem, decided: Decision) -> int:
    """The objective of a decision, recounted without the solver."""
    count = problem.time_ps if decided.objective == "time" else problem.energy_fj
    return sum(count(decided, batch) for batch in problem.batches)


Chosen = tuple[dict[str, Option], dict[int, AttentionOption]]


def _solve(problem: Problem, objective: str, seconds: float, is_bound: bool) -> tuple[Chosen, int]:
    from ortools.sat.python import cp_model

    model = _Model(cp_model, problem, objective, is_bound)
    return model.solved(cp_model.CpSolver(), seconds)


class _Model:
    """Variables and constraints; each method is one rule. Costs are in units that keep them below 2^62."""

    def __init__(self, cp_model: Any, problem: Problem, objective: str, is_bound: bool) -> None:
        self.model, self.problem, self.objective = cp_model.CpModel(), problem, objective
        self.is_bound = is_bound
        self.weight_vars = {name: self._literals(name, options) for name, options in problem.weights.items()}
        self.attention_vars = {
            batch: self._literals(f"attention {batch}", options) for batch, options in problem.attentions.items()
        }
        self._banks_hold_everything()
        self._minimize()

    def _literals(self, name: str, options: tuple[Any, ...]) -> list[Any]:
        """Exactly one option is chosen."""
        literals = [self.model.new_bool_var(f"{name} {number}") for number in range(len(options))]
        self.model.add_exactly_one(literals)
        return literals

    def _banks_hold_everything(self) -> None:
        """Weights of all blocks, and keys and values of each batch, in KiB rounded up."""
        blocks = self.problem.model.blocks
        weights = [
            (literal, -(-option.stored_bytes * blocks // KIB))
            for name, literals in self.weight_vars.items()
            for literal, option in zip(literals, self.problem.weights[name], strict=True)
        ]
        for batch, literals in self.attention_vars.items():
            kept = [
                (literal, -(-option.stored_bytes * blocks // KIB))
                for literal, option in zip(literals, self.problem.attentions[batch], strict=True)
            ]
            used = sum(literal * size for literal, size in weights + kept)
            self.model.add(used <= self.problem.capacity_bytes // KIB)

    def _minimize(self) -> None:
        """Tokens times weights, and the sum over lengths of every attention; of all blocks the same."""
        tokens, terms, fixed = len(self.problem.lengths), [], 0
        for name, literals in self.weight_vars.items():
            for literal, option in zip(literals, self.problem.weights[name], strict=True):
                terms.append((literal, tokens * self.problem.cost_of(option, self.objective)))
        for batch, literals in self.attention_vars.items():
            fixed += tokens * self.problem.pointwise_ps[batch] if self.objective == "time" else 0
            for literal, attention in zip(literals, self.problem.attentions[batch], strict=True):
                time = attention.bound_ps if self.is_bound else attention.time_ps
                terms.append((literal, time if self.objective == "time" else attention.energy_fj))
        self.terms, self.fixed = terms, fixed
        self.model.minimize(sum(literal * cost for literal, cost in terms) + fixed)

    def solved(self, solver: Any, seconds: float) -> tuple[Chosen, int]:
        """The chosen options, and the bound of all blocks."""
        if not finds_solution(self.model, solver, seconds):
            raise KernelMistake(f"{self.problem.model.name}: weights, keys and values do not fit the banks")
        weights = {name: self._chosen(solver, v, self.problem.weights[name]) for name, v in self.weight_vars.items()}
        attentions = {
            batch: self._chosen(solver, v, self.problem.attentions[batch]) for batch, v in self.attention_vars.items()
        }
        bound = int(solver.best_objective_bound)  # a double; of a proven optimum the sum in integers is the bound
        if solver.status_name() == "OPTIMAL":
            bound = self.fixed + sum(cost for literal, cost in self.terms if solver.value(literal))
        return (weights, attentions), bound * self.problem.model.blocks

    def _chosen(self, solver: Any, literals: list[Any], options: tuple[Any, ...]) -> Any:
        return next(option for literal, option in zip(literals, options, strict=True) if solver.value(literal))
