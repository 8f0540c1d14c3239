"""The data that the page of a plan shows: plain data, all computed here, so that the page only draws."""

from typing import Any

from attrs import frozen

from cpsat_pim.planner.evaluate import PlanCost, StepCost
from cpsat_pim.planner.partition import Digits
from cpsat_pim.planner.phases import PhaseCost
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.tensors import Graph
from cpsat_pim.planner.tours import PULL, PULL_W, REDUCE, WEIGHTS, exchange_tours, replaced
from cpsat_pim.report.plan_timeline import spans_of
from cpsat_pim.workload.network import INPUT, Network
from tables.array.counts import INJECT

#: What the search says of a plan; a plan that was given has none of it.
_SOLVED = ("status", "objective_kind", "objective", "bound", "gap", "seconds")


@frozen(kw_only=True)
class CostedPlan:
    """A plan of a network with its cost, and the document that `plan --json` writes of it."""

    network: Network
    graph: Graph
    plan: Plan
    cost: PlanCost
    document: dict[str, Any]


def build_plan_view(costed: CostedPlan) -> dict[str, Any]:
    """Convert a plan with its cost to the page's data."""
    plan, cost = costed.plan, costed.cost
    array, document = plan.array, costed.document
    return {
        "network": plan.network,
        "batch": plan.batch,
        "array": array.to_dict() | {"clock": array.node.clock},
        "solved": {key: document[key] for key in _SOLVED} if "status" in document else None,
        "totals": _totals(cost),
        "performance": document.get("performance"),
        "simulated": document.get("simulated"),
        "segments": [_segment(plan, cost, number) for number in range(len(plan.segments))],
        "steps": [_step(costed, number, step) for number, step in enumerate(cost.steps)],
        "spans": [[s.step, s.name, s.start, s.end] for s in spans_of(plan, cost)],
        "homes": [_home(costed, stack) for stack in costed.graph.stacks],
    }


def _totals(cost: PlanCost) -> dict[str, Any]:
    """The plan's figures without those of its steps."""
    return {key: value for key, value in cost.to_dict().items() if key not in ("steps", "joins")}


def _segment(plan: Plan, cost: PlanCost, number: int) -> dict[str, Any]:
    """A segment: its regions, its cycles, and those of the sums at its end."""
    joined = cost.joins.get(number)
    return {
        "regions": [{"region": one.region.to_list(), "layers": list(one.layers)} for one in plan.segments[number]],
        "cycles": cost.segment_cycles[number],
        "join_cycles": joined.cycles if joined else 0,
    }


def _step(costed: CostedPlan, number: int, step: StepCost) -> dict[str, Any]:
    """A step: its split, where its cycles and its energy go, the load of every link, and the bytes on every node."""
    partition = costed.plan.layers[step.layer].partition
    return {
        "layer": step.layer,
        "segment": step.segment,
        "region": partition.region.to_list(),
        "rows": _digits(partition.h),
        "columns": _digits(partition.w),
        "replicas": partition.replicas,
        "reads": _operands(costed, step.layer),
        "cycles": step.cycles,
        "parts": _cycles(step),
        "energies": _energies(costed.cost, step),
        "phases": [_phase(phase) for phase in step.phases],
        "rings": _rings(costed, step.layer),
        "used_bytes": costed.cost.used_bytes[number].tolist(),
    }


def _rings(costed: CostedPlan, layer: str) -> dict[str, list[list[int]]]:
    """The tours along which a layer's nodes pass data on, by phase; without sets of one node."""
    plan, task = costed.plan, costed.graph.task(layer)
    step = plan.layers[layer]
    shown = {WEIGHTS: task.has_weights, PULL: True, PULL_W: not task.has_weights, REDUCE: step.partition.split("C") > 1}
    found = {}
    for exchange in (name for name, is_used in shown.items() if is_used):
        tours = replaced(
            exchange_tours(plan.array, step.partition, exchange, task.weight_dims), step.tours.get(exchange, ())
        )
        if tours.shape[1] > 1:
            found[exchange] = tours.tolist()
    return found


def _operands(costed: CostedPlan, layer: str) -> list[str]:
    """Names of the tensors that a layer reads, as the network gives them."""
    return next(list(node.after or (INPUT,)) for node in costed.network.layers if node.name == layer)


def _cycles(step: StepCost) -> dict[str, int]:
    """Split a step's cycles. A phase counts as network or as DRAM, whichever of the two ends later."""
    phases = step.phases
    return {
        "compute": step.node_cycles,
        "network": sum(phase.cycles for phase in phases if phase.network_cycles > phase.dram_cycles),
        "dram": sum(phase.cycles for phase in phases if phase.network_cycles <= phase.dram_cycles),
    }


def _energies(cost: PlanCost, step: StepCost) -> dict[str, int]:
    """Split a step's energy, fJ."""
    phases, rates = step.phases, cost.rates
    return {
        "compute": step.nodes * step.node_energy_fj,
        "network": sum(phase.noc_fj(rates) for phase in phases),
        "dram": sum(phase.dram_fj(rates) for phase in phases),
        "additions": sum(phase.additions_fj(rates) for phase in phases),
    }


def _phase(phase: PhaseCost) -> dict[str, Any]:
    """A phase: its figures, and per node the flits that leave it east, west, south and north; None without flits."""
    loads = phase.loads[:, :INJECT].tolist() if phase.flits else None
    return {"name": phase.name, "cycles": phase.cycles, "loads": loads} | phase.to_dict()


def _home(costed: CostedPlan, name: str) -> dict[str, Any]:
    """Where a tensor lies, how large it is, and which layers write and read it."""
    graph, stack, home = costed.graph, costed.graph.stacks[name], costed.plan.homes[name]
    return {
        "members": list(stack.members),
        "shape": list(stack.shape),
        "bytes": stack.elements * stack.element_bytes,
        "region": home.region.to_list(),
        "rows": _digits(home.h),
        "columns": _digits(home.w),
        "layout": home.layout,
        "readers": list(graph.readers(name)),
    }


def _digits(digits: Digits) -> str:
    return " ".join(f"{dim}{factor}" for dim, factor in digits)
