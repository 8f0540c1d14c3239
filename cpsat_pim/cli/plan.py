"""`plan`: plan a whole network on an array of nodes (docs/plan.md)."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import (
    add_arch,
    add_command,
    add_model_options,
    checked,
    cpus,
    jobs,
    names,
    seconds,
    weight,
)
from cpsat_pim.cli.models import read_given_network
from cpsat_pim.cli.output import (
    DISAGREEMENT,
    INTERRUPTED,
    NO_MAPPING,
    OK,
    InputError,
    check_outputs,
    note,
    read_input,
    write_files,
)
from cpsat_pim.cli.plan_baselines import add_options, check_starts, read_replay, read_starts, solve_baseline
from cpsat_pim.cli.reports import check_page
from cpsat_pim.cli.solving import given_arch

if TYPE_CHECKING:
    from cpsat_pim.mapper.result import Objective
    from cpsat_pim.planner.array import NodeArray
    from cpsat_pim.planner.evaluate import PlanCost
    from cpsat_pim.planner.fronts import PlanRequest
    from cpsat_pim.planner.graph import Graph
    from cpsat_pim.planner.nodes import NodeCosts
    from cpsat_pim.planner.plan import Plan
    from cpsat_pim.planner.search import SolvedPlan
    from cpsat_pim.planner.space import Space
    from cpsat_pim.report.plan_view import CostedPlan
    from cpsat_pim.workload.network import Network

#: Objectives; the first is latency, and of all plans of the least latency the one of least energy.
_OBJECTIVES = ("lexicographic", "latency", "energy", "blended", "edp")

_positive = checked(int, lambda n: 1 <= n < 2**40, "must be a positive integer")


_cuts = checked(int, lambda n: 0 <= n < 2**20, "must be an integer of at least 0")


def add_commands(commands: Any) -> None:
    """Add the command `plan` to the parser."""
    parser = add_command(commands, "plan", "plan a whole network on an array of nodes, with a bound", make_plan)
    add = parser.add_argument
    add("network", metavar="NETWORK", help="a network (as for `run`)")
    add_model_options(parser)
    add_arch(parser, default="stacked-3d-4x4")
    add("--array", metavar="RxC", help="rows and columns of nodes (the machine's vaults and units)")
    text = "what to minimize; lexicographic: latency, then energy at that latency (%(default)s)"
    add("--objective", choices=_OBJECTIVES, default=_OBJECTIVES[0], help=text)
    add("--alpha", metavar="X", type=weight, help="blended: weight of a cycle (1)")
    add("--beta", metavar="X", type=weight, help="blended: weight of a nanojoule (1)")
    text = "up to N plans from least latency to least energy, each the best of a weighted sum"
    add("--pareto", metavar="N", type=_positive, help=text)
    text = "paths between nodes: a mesh, or only over a host (what the machine has)"
    add("--interconnect", choices=("mesh", "host"), help=text)
    add("--batch", metavar="N", type=_positive, default=1, help="samples processed together (%(default)s)")
    add("--bytes", metavar="I,W,O,PSUM", type=_widths, help="bytes per element (those of the network)")
    add(
        "--dims",
        metavar="N",
        type=_positive,
        default=2,
        help="dims that each side of the array may be split by (%(default)s)",
    )
    add(
        "--home-dims",
        metavar="N",
        type=_positive,
        default=1,
        help="axes that each side of a home may be split by (%(default)s)",
    )
    text = "run branches side by side on regions cut at multiples of N rows or columns (0: one after another)"
    add("--cuts", metavar="N", type=_cuts, default=0, help=text)
    text = "layouts of tensors at home, or `free`: node programs choose their own (BCHW,BHWC)"
    add("--layouts", metavar="A,B", type=names, default="BCHW,BHWC", help=text)
    add(
        "--capacity",
        metavar="BYTES",
        type=_positive,
        help="DRAM bytes per node that may be used (those of the machine)",
    )
    add("--time-limit", metavar="S", type=seconds, default=600.0, help="seconds (%(default)g)")
    text = "seconds of the first solve of a node problem; what matters is solved again, for longer (%(default)g)"
    add("--node-time", metavar="S", type=seconds, default=20.0, help=text)
    add("--jobs", metavar="N", type=jobs, default=cpus(), help="node problems solved at a time (%(default)s)")
    add("--store", metavar="FILE", help="store and reuse the results of node problems in this file")
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

    network, array = _with_widths(read_given_network(arguments), arguments.bytes), _given_array(arguments)
    check_outputs(arguments.json, arguments.html, arguments.trace)
    check_page(arguments.html)
    check_starts(arguments.start)
    graph = read_input(lambda: build_graph(network, arguments.batch))
    if arguments.replay:
        return _replay(arguments, network, graph, array)
    if arguments.baseline:
        return _make_baseline(arguments, network, graph, array)
    if arguments.pareto:
        return _make_front(arguments, graph, array)
    solved = read_input(lambda: _solve(arguments, graph, array))
    plan, cost = solved.plan, solved.cost
    document, text = plan_document(solved), format_plan(solved)
    if plan is None or cost is None:
        _write(arguments, text, document, None)
        note(solved.reason or "no plan was found in time")
        return INTERRUPTED if solved.interrupted else NO_MAPPING
    simulated, code = _simulate(arguments, network, graph, plan, cost)
    code = code or (INTERRUPTED if solved.interrupted else OK)
    document |= simulated
    _write(arguments, text, document, CostedPlan(network=network, graph=graph, plan=plan, cost=cost, document=document))
    return code


def _space(arguments: argparse.Namespace) -> "Space":
    """Return the space that the options declare."""
    from cpsat_pim.planner.space import Space

    is_free = arguments.layouts == ["free"]
    return Space(
        dims=arguments.dims,
        home_dims=arguments.home_dims,
        layouts=["BCHW"] if is_free else arguments.layouts,
        is_tied=not is_free,
        cuts=arguments.cuts,
    )


def _objective(arguments: argparse.Namespace) -> "Objective":
    """Return the sum that the options minimize; of lexicographic objectives the first, latency."""
    from cpsat_pim.mapper.result import Objective

    weights = {"alpha": arguments.alpha, "beta": arguments.beta}
    given = {key: value for key, value in weights.items() if value is not None}
    if arguments.objective != "blended" and given:
        raise InputError("--alpha and --beta need --objective blended")
    kind = "latency" if arguments.objective in ("lexicographic", "edp") else arguments.objective
    return Objective.named(kind, **given)


def _costs(arguments: argparse.Namespace, array: "NodeArray", objective: "Objective") -> "NodeCosts":
    """Return the costs of node problems, with the file of `--store`."""
    from cpsat_pim.planner.nodes import NodeCosts
    from cpsat_pim.study.sweep.versions import current_versions

    store, version = Path(arguments.store) if arguments.store else None, str(current_versions())
    return NodeCosts(array.node, objective, store, version, arguments.node_time, arguments.jobs)


def _explain(arguments: argparse.Namespace, costed: "CostedPlan") -> tuple[str, dict[str, Any]]:
    """Explain a plan if `--explain` was given; return text to append and what the document gains."""
    from cpsat_pim.planner.explain import explain_plan
    from cpsat_pim.report.plan_explanation import explanation_document, format_explanation

    if not arguments.explain:
        return "", {}
    found = explain_plan(costed.graph, costed.plan, costed.cost, read_input(lambda: _space(arguments)))
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
    note(f"simulated latency {simulated.latency_cycles} cycles, {ratio:.4f} of the estimate")
    note(f"prediction and simulation disagree in {len(lines)} figures" if lines else "every other figure is equal")
    return {"simulated": simulated_document(simulated)}, DISAGREEMENT if lines else OK


def _replay(arguments: argparse.Namespace, network: "Network", graph: "Graph", array: "NodeArray") -> int:
    """Compute the cost of a given plan, without a search."""
    from cpsat_pim.planner.evaluate import evaluate_plan
    from cpsat_pim.report.plan_view import CostedPlan
    from cpsat_pim.report.plans import format_cost

    space, objective = read_input(lambda: _space(arguments)), _objective(arguments)
    plan = read_replay(arguments, graph, array, space, objective, _costs(arguments, array, objective))
    cost = evaluate_plan(graph, plan)
    simulated, code = _simulate(arguments, network, graph, plan, cost)
    document = {**plan.to_dict(), "predicted": cost.to_dict(), **simulated}
    _write(
        arguments,
        format_cost(plan, cost),
        document,
        CostedPlan(network=network, graph=graph, plan=plan, cost=cost, document=document),
    )
    return code


def _make_baseline(arguments: argparse.Namespace, network: "Network", graph: "Graph", array: "NodeArray") -> int:
    """Print and write the plan of a simpler planner."""
    from cpsat_pim.planner.fronts import node_objective
    from cpsat_pim.report.plan_view import CostedPlan
    from cpsat_pim.report.plans import baseline_document, format_baseline

    if arguments.objective == "edp":
        raise InputError("--baseline cannot be combined with --objective edp")
    objective, space = _objective(arguments), read_input(lambda: _space(arguments))
    costs = _costs(arguments, array, node_objective(objective, array.nodes))
    found = read_input(lambda: solve_baseline(arguments, arguments.baseline, graph, array, space, objective, costs))
    simulated, code = _simulate(arguments, network, graph, found.plan, found.cost)
    document = baseline_document(found) | simulated
    costed = CostedPlan(network=network, graph=graph, plan=found.plan, cost=found.cost, document=document)
    _write(arguments, format_baseline(found), document, costed)
    return code


def _solve(arguments: argparse.Namespace, graph: "Graph", array: "NodeArray") -> "SolvedPlan":
    """Search the best plan by the objective."""
    from cpsat_pim.planner.fronts import solve_product, solve_weighted
    from cpsat_pim.planner.nodes import WorkerKilled

    kind, request, objective = arguments.objective, _request(arguments, graph, array), _objective(arguments)
    if arguments.cuts and kind not in _OBJECTIVES[:2]:
        raise InputError("--cuts needs --objective lexicographic or latency, as branches side by side save time only")
    if arguments.start and kind == "edp":
        raise InputError("--start cannot be combined with --objective edp")
    try:
        if kind == "edp":
            return solve_product(request)
        starts = read_starts(arguments, request, objective)
        return solve_weighted(request, objective, then_energy=kind == "lexicographic", known=starts)
    except WorkerKilled as death:
        raise InputError(str(death)) from death


def _make_front(arguments: argparse.Namespace, graph: "Graph", array: "NodeArray") -> int:
    """Print plans from the least latency to the least energy, and write them as a list."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.planner.fronts import solve_front
    from cpsat_pim.report.plans import format_front, plan_document

    front = solve_front(_request(arguments, graph, array), arguments.pareto)
    document = {"front": [plan_document(solved) for solved in front]}
    write_files(
        ("standard output", lambda _: print(format_front(front))),
        (arguments.json, lambda path: write_json(document, path)),
    )
    if any(solved.interrupted for solved in front):
        return INTERRUPTED
    return OK if front else NO_MAPPING


def _request(arguments: argparse.Namespace, graph: "Graph", array: "NodeArray") -> "PlanRequest":
    """Return what the options ask the planner."""
    from cpsat_pim.planner.fronts import PlanRequest
    from cpsat_pim.planner.search import SearchLimits, ignore

    return PlanRequest(
        graph=graph,
        array=array,
        space=read_input(lambda: _space(arguments)),
        make_costs=lambda objective: _costs(arguments, array, objective),
        limits=SearchLimits(time_limit=arguments.time_limit),
        report=ignore if arguments.quiet else note,
    )


def _given_array(arguments: argparse.Namespace) -> "NodeArray":
    """Return the array of `--array`, whose nodes are the machine of `--arch`."""
    from attrs import evolve

    from cpsat_pim.planner.array import default_array, parse_array

    node, text = given_arch(arguments.arch), arguments.array
    array = read_input(lambda: parse_array(text, node)) if text else default_array(node)
    if arguments.interconnect:
        array = evolve(array, interconnect=arguments.interconnect)
    return evolve(array, capacity_bytes=arguments.capacity) if arguments.capacity else array


def _with_widths(network: "Network", widths: tuple[int, ...] | None) -> "Network":
    """Return the network with other bytes per element, if `--bytes` gives them."""
    from attrs import evolve

    if widths is None:
        return network
    keys = ("input_bytes", "weight_bytes", "output_bytes", "psum_bytes")
    fields: Any = dict(zip(keys, widths, strict=True))
    layers = read_input(lambda: [evolve(n, workload=evolve(n.workload, **fields)) for n in network.layers])
    return evolve(network, layers=layers)


def _widths(text: str) -> tuple[int, ...]:
    """Read four element widths such as `2,2,2,4`."""
    parts = text.split(",")
    if len(parts) != 4 or not all(part.isdecimal() and 0 < int(part) <= 64 for part in parts):
        raise argparse.ArgumentTypeError(f"must be four integers from 1 to 64, like 2,2,2,4 (got {text!r})")
    return tuple(map(int, parts))


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
        ("standard output", lambda _: print(text)),
        (arguments.json, lambda path: write_json(document, path)),
        (arguments.html, write_page),
        (arguments.trace, write_trace),
    )
