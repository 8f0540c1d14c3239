"""Plans as text and as a document: a row per step, then totals, bound, and the resources that limit them."""

from collections.abc import Sequence
from typing import Any

from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.evaluate.performance import Performance
from cpsat_pim.mapper.result import Status
from cpsat_pim.planner.array import Region
from cpsat_pim.planner.baselines.run import BaselinePlan
from cpsat_pim.planner.evaluate import PlanCost, StepCost
from cpsat_pim.planner.partition import Digits
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.solved import SolvedPlan
from cpsat_pim.planner.tensors import Graph
from cpsat_pim.report.format import format_energy, format_performance, format_si

_PHASES = ("node", "pull", "reduce", "push")
_SPLITS = ("rows", "columns", "layouts")
_HEADINGS = ("step", "region", *_SPLITS, "segment", "WR", *_PHASES, "cycles", "share", "link flits", "DRAM")
#: Columns of text, the others are numbers.
_TEXTS = 5


def plan_document(solved: SolvedPlan, graph: Graph) -> dict[str, Any]:
    """Convert a solved plan to plain data: status, bound, the declared space, the plan (as `--replay` reads it) and its
    cost.
    """
    return {
        "status": solved.status.value,
        "objective_kind": solved.objective.kind,
        "objective": _reported(solved, solved.value),
        "bound": _reported(solved, solved.bound),
        "gap": solved.gap,
        **({"outside": solved.outside} if solved.outside else {}),
        "energy_bound_fj": solved.energy_bound,
        "space": solved.space.to_dict(),
        "seconds": round(solved.seconds, 3),
        "statistics": solved.statistics,
        **(solved.plan.to_dict() if solved.plan else {}),
        "predicted": solved.cost.to_dict() if solved.cost else None,
        **(performance_data(graph, solved.plan, solved.cost) if solved.plan and solved.cost else {}),
    }


def _reported(solved: SolvedPlan, value: int | None) -> int | float | None:
    return None if value is None else solved.objective.reported(value)


def format_plan(solved: SolvedPlan, graph: Graph) -> str:
    """Format a solved plan as lines of text."""
    return "\n".join([*_head(solved), *(_body(graph, solved.plan, solved.cost) if solved.plan and solved.cost else [])])


def format_cost(plan: Plan, cost: PlanCost, graph: Graph) -> str:
    """Format a given plan and its cost."""
    return "\n".join(_body(graph, plan, cost))


def baseline_document(found: BaselinePlan, graph: Graph) -> dict[str, Any]:
    """Convert a baseline's plan to plain data, with the keys of a solved plan; it has no bound."""
    return {
        "status": Status.FEASIBLE.value,
        "baseline": found.name,
        "objective_kind": found.objective.kind,
        "objective": found.objective.reported(found.value),
        "bound": None,
        "gap": None,
        "space": found.space.to_dict(),
        "seconds": round(found.seconds, 3),
        "statistics": found.statistics,
        **found.plan.to_dict(),
        "predicted": found.cost.to_dict(),
        **performance_data(graph, found.plan, found.cost),
    }


def format_baseline(found: BaselinePlan, graph: Graph) -> str:
    """Format a baseline's plan as lines of text."""
    counts = found.statistics
    cut = counts["choices_cut"]
    head = [
        f"{Status.FEASIBLE}: {found.objective.kind} {found.objective.reported(found.value):,} by the {found.name} "
        f"baseline, without a bound, {found.seconds:.1f} s",
        f"space: {found.space}",
        f"{counts['node_solves']:,} node problems solved; {cut:,} choices among partitions that were not all solved",
        "",
    ]
    return "\n".join([*head, *_body(graph, found.plan, found.cost)])


def _head(solved: SolvedPlan) -> list[str]:
    gap = "-" if solved.gap is None else f"{100 * solved.gap:.3g} %"
    counts = solved.statistics
    value, bound = (_grouped(_reported(solved, one)) for one in (solved.value, solved.bound))
    return [
        f"{solved.status}: {solved.objective.kind} {value}, lower bound {bound} (gap {gap}), {solved.seconds:.1f} s",
        *_second_objective(solved),
        *([f"a plan to start from, not of the space: {solved.outside}"] if solved.outside else []),
        f"space: {solved.space}",
        f"{counts['node_solves']:,} node problems solved, {counts['node_reused']:,} taken from the store, of "
        f"{counts['node_problems']:,}; {counts['partitions_computed']:,} of {counts['partitions']:,} partitions "
        f"computed; {counts['rounds']:,} rounds",
        "",
    ]


def _grouped(value: int | float | None) -> str:
    return "-" if value is None else f"{value:,}"


def _second_objective(solved: SolvedPlan) -> list[str]:
    """Say what is proven of the energy, where it is the second objective."""
    if solved.energy_bound is None or solved.cost is None:
        return []
    bound, gap = format_energy(solved.energy_bound), solved.energy_gap or 0.0
    found = format_energy(solved.cost.energy_fj)
    if not gap:
        return [f"of all plans of this latency none takes less energy than {found}"]
    return [f"plans of this latency take at least {bound}; this one takes {found} (gap {100 * gap:.3g} %)"]


def format_front(front: Sequence[SolvedPlan]) -> str:
    """Format plans that trade latency for energy, a row for each."""
    rows: list[tuple[str, ...]] = [("cycles", "mJ", "weighted sum", "status", "gap")]
    for solved in front:
        assert solved.cost is not None
        energy = f"{solved.cost.energy_fj / FJ_PER_NJ / 1e6:.3f}"
        kind = f"{float(solved.objective.alpha):g} cycles + {float(solved.objective.beta):g} nJ"
        rows.append(
            (f"{solved.cost.latency_cycles:,}", energy, kind, solved.status.value, f"{100 * (solved.gap or 0):.3g} %")
        )
    return "\n".join(_aligned(rows))


def _body(graph: Graph, plan: Plan, cost: PlanCost) -> list[str]:
    rows = [_row(graph, plan, cost, steps) for steps in _alike(plan, cost)]
    return [*_aligned([_HEADINGS, *rows]), "", *_totals(graph, plan, cost)]


def _alike(plan: Plan, cost: PlanCost) -> list[list[StepCost]]:
    """Return the steps, equal runs of a repeated layer (NAME.0, NAME.1, ...) together, where the first of them is."""
    found: dict[Any, list[StepCost]] = {}
    for step in cost.steps:
        name, _, run = step.layer.rpartition(".")
        partition, node = plan.layers[step.layer].partition, step.node_cycles
        key = (name, partition, node, step.cycles) if run.isdecimal() else step.layer
        found.setdefault(key, []).append(step)
    return list(found.values())


def _name(steps: list[StepCost]) -> str:
    """Return a step's name; of equal runs the first and the last, and how many there are if some are missing."""
    first, last = (int(step.layer.rpartition(".")[2]) if len(steps) > 1 else 0 for step in (steps[0], steps[-1]))
    if len(steps) == 1:
        return steps[0].layer
    missing = "" if last - first + 1 == len(steps) else f" ({len(steps)})"
    return f"{steps[0].layer}-{last}{missing}"


def _row(graph: Graph, plan: Plan, cost: PlanCost, steps: list[StepCost]) -> tuple[str, ...]:
    step, task = steps[0], graph.task(steps[0].layer)
    columns = sum(phase.columns for phase in step.phases)
    partition = plan.layers[step.layer].partition
    cycles = {phase.name: phase.cycles for phase in step.phases}
    share = f"{100 * len(steps) * step.cycles / max(1, cost.latency_cycles):.1f} %"
    links = max(phase.max_link_flits for phase in step.phases)
    return (
        _name(steps),
        _region(partition.region),
        _digits(partition.h),
        _digits(partition.w),
        f"{plan.homes[task.reads.stack].layout} > {plan.homes[task.writes].layout}",
        str(step.segment),
        str(partition.replicas),
        _grouped(step.node_cycles),
        _grouped(cycles["weights"] + cycles["pull"]),
        _grouped(cycles["reduce"]),
        _grouped(cycles["push"]),
        _grouped(step.cycles),
        share,
        _grouped(links),
        _kib(columns * plan.array.node.column_bytes),
    )


def _region(region: Region) -> str:
    return f"{region.h}x{region.w} at {region.y},{region.x}"


def _kib(size: int) -> str:
    return f"{size / 1024:,.1f} KiB"


def _digits(digits: Digits) -> str:
    return " ".join(f"{dim}{factor}" for dim, factor in digits) or "-"


def ideal_cycles(graph: Graph, plan: Plan) -> int:
    """Return the cycles that all multiplications take on the PEs of all nodes, each busy all the time."""
    macs = sum(task.workload.macs for task in graph.tasks)
    return -(-macs // (plan.array.nodes * plan.array.node.pe_array.macs_per_cycle))


def _performance(graph: Graph, plan: Plan, cost: PlanCost) -> Performance | None:
    """Return the performance of all nodes together, each with its static power; None without a clock or work."""
    node = plan.array.node
    if not node.clock or not cost.latency_cycles:
        return None
    return Performance(
        clock=node.clock,
        latency_cycles=cost.latency_cycles,
        energy_fj=cost.energy_fj,
        macs=sum(task.workload.macs for task in graph.tasks),
        static_power_w=float(plan.array.nodes * (node.static_power or 0)),
    )


def performance_data(graph: Graph, plan: Plan, cost: PlanCost) -> dict[str, Any]:
    """Return the performance as plain data; nothing without a clock."""
    performance = _performance(graph, plan, cost)
    return {"performance": performance.to_dict()} if performance else {}


def _performance_text(graph: Graph, plan: Plan, cost: PlanCost) -> list[str]:
    """State the performance; a run is an inference of the whole batch."""
    performance = _performance(graph, plan, cost)
    if performance is None:
        return []
    clock = format_si(performance.clock, "Hz")
    batch = f"; a run is of {plan.batch} samples" if plan.batch > 1 else ""
    return [f"at {clock}: {format_performance(performance, performance.runs_per_second)}{batch}"]


def _totals(graph: Graph, plan: Plan, cost: PlanCost) -> list[str]:
    totals, array = cost.to_dict(), plan.array
    node_cycles = sum(step.node_cycles for step in cost.steps)
    by_network = sum(phase.cycles for phase in cost.phases if phase.network_cycles > phase.dram_cycles)
    by_dram = sum(phase.cycles for phase in cost.phases) - by_network
    ideal = ideal_cycles(graph, plan)
    parts = ("node", "noc", "dram", "add")
    energies = ", ".join(f"{part} {format_energy(totals[f'{part}_energy_fj'])}" for part in parts)
    full = 100 * cost.peak_bytes / array.capacity_bytes
    return [
        f"latency {cost.latency_cycles:,} cycles: node programs {node_cycles:,}, network "
        f"{by_network:,}, DRAM of exchanges {by_dram:,} (network times are estimates)",
        f"{cost.latency_cycles / max(1, ideal):.2f} times the ideal, {ideal:,} cycles: all multiplications over all "
        "PEs",
        f"energy {format_energy(cost.energy_fj)}: {energies}",
        *_performance_text(graph, plan, cost),
        f"fullest node {cost.peak_bytes:,} bytes of {array.capacity_bytes:,} ({full:.1f} %)",
    ]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(w) if i < _TEXTS else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
