"""`plan`: plan a whole network on an array of nodes (docs/plan.md)."""

import argparse
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import add_arch, add_bytes, add_command, add_model_options
from cpsat_pim.cli.given import given_arch, with_given_widths
from cpsat_pim.cli.models import read_given_network
from cpsat_pim.cli.output import (
    DISAGREEMENT,
    INTERRUPTED,
    NO_MAPPING,
    OK,
    InputError,
    check_outputs,
    note,
    print_text,
    read_input,
    write_files,
)
from cpsat_pim.cli.plan_baselines import add_options, check_starts, read_replay, solve_baseline
from cpsat_pim.cli.plan_search import (
    add_objectives,
    add_space,
    given_space,
    given_sum,
    make_front,
    node_costs,
    positive,
    search,
)
from cpsat_pim.cli.reports import check_page

if TYPE_CHECKING:
    from cpsat_pim.planner.array import NodeArray
    from cpsat_pim.planner.evaluate import PlanCost
    from cpsat_pim.planner.plan import Plan
    from cpsat_pim.planner.tensors import Graph
    from cpsat_pim.report.plan_view import CostedPlan
    from cpsat_pim.workload.network import Network


def add_commands(commands: Any) -> None:
    """Add the command `plan` to the parser."""
    parser = add_command(commands, "plan", "plan a whole network on an array of nodes, with a bound", make_plan)
    add = parser.add_argument
    add("network", metavar="NETWORK", help="a network (as for `run`)")
    add_model_options(parser)
    add_arch(parser, default="stacked-3d-4x4")
    add("--array", metavar="RxC", help="rows and columns of nodes (the machine's vaults and units)")
    text = "paths between nodes: a mesh, or only over a host (what the machine has)"
    add("--interconnect", choices=("mesh", "host"), help=text)
    add_objectives(parser)
    add("--batch", metavar="N", type=positive, default=1, help="samples processed together (%(default)s)")
    add_bytes(parser)
    add_space(parser)
    add("--json", metavar="FILE", help="also write the plan to a file (docs/array.md)")
    add("--html", metavar="FILE", help="also draw the plan as one HTML page")
    add("--trace", metavar="FILE", help="also write the plan's schedule for Perfetto (ui.perfetto.dev)")
    add("--explain", action="store_true", help="also print what limits the plan, and what capacity is worth")
    add("--replay", metavar="PLAN.json", help="compute the cost of this plan, without a search")
    add_options(parser)
    add("--simulate", action="store_true", help="also simulate the plan, and compare every exact figure")
    add("--quiet", action="store_true", help="print no progress")


def make_plan(arguments: argparse.Namespace) -> int:
    """Run `plan`: check the arguments, search the best plan, and write the results."""
    from cpsat_pim.planner.graph import build_graph
    from cpsat_pim.report.plan_view import CostedPlan
    from cpsat_pim.report.plans import format_plan, plan_document

    array = _given_array(arguments)
    network = _given_network(arguments, array)
    check_outputs(arguments.json, arguments.html, arguments.trace)
    check_page(arguments.html)
    check_starts(arguments.start)
    graph = read_input(lambda: build_graph(network, arguments.batch))
    if arguments.replay:
        return _replay(arguments, network, graph, array)
    if arguments.baseline:
        return _make_baseline(arguments, network, graph, array)
    if arguments.pareto:
        return make_front(arguments, graph, array)
    solved = read_input(lambda: search(arguments, graph, array))
    plan, cost, document, text = solved.plan, solved.cost, plan_document(solved, graph), format_plan(solved, graph)
    if plan is None or cost is None:
        _write(arguments, text, document, None)
        note(solved.reason or "no plan was found in time")
        return INTERRUPTED if solved.interrupted else NO_MAPPING
    simulated, code = _simulate(arguments, network, graph, plan, cost)
    document |= simulated
    costed = CostedPlan(network=network, graph=graph, plan=plan, cost=cost, document=document)
    _write(arguments, text, document, costed)
    return code or (INTERRUPTED if solved.interrupted else OK)


def _explain(arguments: argparse.Namespace, costed: "CostedPlan") -> tuple[str, dict[str, Any]]:
    """Explain a plan if `--explain` was given; return text to append and what the document gains."""
    from cpsat_pim.planner.explain import explain_plan
    from cpsat_pim.report.plan_explanation import explanation_document, format_explanation

    if not arguments.explain:
        return "", {}
    space = read_input(lambda: given_space(arguments, costed.plan.array, costed.graph))
    found = explain_plan(costed.graph, costed.plan, costed.cost, space)
    return "\n" + format_explanation(found, costed.cost), {"explanation": explanation_document(found)}


def _simulate(
    arguments: argparse.Namespace, network: "Network", graph: "Graph", plan: "Plan", cost: "PlanCost"
) -> tuple[dict[str, Any], int]:
    """Simulate the plan if `--simulate` was given; return what the document gains, and the exit code."""
    from cpsat_pim.planner.simulation import differences, simulate, simulated_document

    if not arguments.simulate:
        return {}, OK
    simulated = simulate(network, graph, plan)
    lines = differences(graph, cost, simulated)
    for line in lines:
        note(line)
    ratio = simulated.latency_cycles / max(1, cost.latency_cycles)
    note(f"simulated latency {simulated.latency_cycles:,} cycles, {ratio:.4f} of the estimate")
    note(f"prediction and simulation disagree in {len(lines)} figures" if lines else "every other figure is equal")
    return {"simulated": simulated_document(graph, plan.array, simulated)}, DISAGREEMENT if lines else OK


def _replay(arguments: argparse.Namespace, network: "Network", graph: "Graph", array: "NodeArray") -> int:
    """Compute the cost of a given plan, without a search."""
    from cpsat_pim.planner.evaluate import evaluate_plan
    from cpsat_pim.report.plan_view import CostedPlan
    from cpsat_pim.report.plans import format_cost, performance_data

    space, objective = read_input(lambda: given_space(arguments, array, graph)), given_sum(arguments)
    plan = read_replay(arguments, graph, array, space, objective, node_costs(arguments, array, objective))
    if broken := list(space.constraints.broken_by(graph, plan)):
        raise InputError("\n".join(f"{arguments.replay}: {line}" for line in broken))
    plan = _on_given_array(arguments, plan)
    cost = evaluate_plan(graph, plan)
    if cost.peak_bytes > plan.array.capacity_bytes:
        held = f"takes {cost.peak_bytes} bytes of its fullest node"
        raise InputError(f"{arguments.replay}: {held}, which has {plan.array.capacity_bytes}")
    simulated, code = _simulate(arguments, network, graph, plan, cost)
    document = {**plan.to_dict(), "predicted": cost.to_dict(), **performance_data(graph, plan, cost), **simulated}
    _write(
        arguments,
        format_cost(plan, cost, graph),
        document,
        CostedPlan(network=network, graph=graph, plan=plan, cost=cost, document=document),
    )
    return code


def _on_given_array(arguments: argparse.Namespace, plan: "Plan") -> "Plan":
    """Return a plan of a file with the capacity of `--capacity`, if it is for the array of `--array`."""
    from attrs import evolve

    size = f"{plan.array.rows}x{plan.array.cols}"
    if arguments.array not in (None, size):
        raise InputError(f"{arguments.replay}: array: must be {arguments.array}, as --array says (got {size})")
    return evolve(plan, array=evolve(plan.array, capacity_bytes=arguments.capacity or plan.array.capacity_bytes))


def _make_baseline(arguments: argparse.Namespace, network: "Network", graph: "Graph", array: "NodeArray") -> int:
    """Print and write the plan of a simpler planner."""
    from cpsat_pim.planner.fronts import node_objective
    from cpsat_pim.report.plan_view import CostedPlan
    from cpsat_pim.report.plans import baseline_document, format_baseline

    if arguments.objective == "edp":
        raise InputError("--baseline cannot be combined with --objective edp")
    if arguments.constraints:
        raise InputError("--baseline cannot be combined with --constraints")
    objective, space = given_sum(arguments), read_input(lambda: given_space(arguments, array, graph))
    costs = node_costs(arguments, array, node_objective(objective, array.nodes))
    found = read_input(lambda: solve_baseline(arguments, arguments.baseline, graph, array, space, objective, costs))
    simulated, code = _simulate(arguments, network, graph, found.plan, found.cost)
    document = baseline_document(found, graph) | simulated
    costed = CostedPlan(network=network, graph=graph, plan=found.plan, cost=found.cost, document=document)
    _write(arguments, format_baseline(found, graph), document, costed)
    return code


def _given_array(arguments: argparse.Namespace) -> "NodeArray":
    """Return the array of `--array`, whose nodes are the machine of `--arch`."""
    from attrs import evolve

    from cpsat_pim.planner.array import default_array, parse_array

    node, text = given_arch(arguments.arch), arguments.array
    array = read_input(lambda: parse_array(text, node)) if text else default_array(node)
    if arguments.interconnect:
        array = evolve(array, interconnect=arguments.interconnect)
    return evolve(array, capacity_bytes=arguments.capacity) if arguments.capacity else array


def _given_network(arguments: argparse.Namespace, array: "NodeArray") -> "Network":
    """Return the network with all runs of its layers, as wide as `--bytes`, itself, or else the machine's words say."""
    from cpsat_pim.planner.repeats import written_out

    network = with_given_widths(read_given_network(arguments), array.node, arguments.bytes)
    return read_input(lambda: written_out(network))


def _write(arguments: argparse.Namespace, text: str, document: dict[str, Any], costed: "CostedPlan | None") -> None:
    """Print the plan, and write the files that are asked for; without a plan there is no page and no trace."""
    from cpsat_pim.base.files import write_json, write_text

    if costed is not None:
        more, gained = _explain(arguments, costed)
        text, document = text + more, document | gained

    def write_page(path: str) -> None:
        from cpsat_pim.report.html import render_plan

        if costed is not None:
            write_text(render_plan(costed), path)

    def write_trace(path: str) -> None:
        from cpsat_pim.report.plan_timeline import build_plan_timeline

        if costed is not None:
            write_json(build_plan_timeline(costed.plan, costed.cost), path)

    write_files(
        ("standard output", lambda _: print_text(text)),
        (arguments.json, lambda path: write_json(document, path)),
        (arguments.html, write_page),
        (arguments.trace, write_trace),
    )
