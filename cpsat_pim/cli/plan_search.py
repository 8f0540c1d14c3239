"""`plan`: what is searched, by which objective, and the plans that come of it."""

import argparse
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cpsat_pim.cli.arguments import checked, cpus, names, seconds, share, weight
from cpsat_pim.cli.arguments import jobs as jobs_number
from cpsat_pim.cli.output import INTERRUPTED, NO_MAPPING, OK, InputError, note, print_text, read_input, write_files
from cpsat_pim.cli.plan_baselines import read_starts

if TYPE_CHECKING:
    from cpsat_pim.mapper.result import Objective
    from cpsat_pim.planner.array import NodeArray
    from cpsat_pim.planner.fronts import PlanRequest
    from cpsat_pim.planner.nodes import NodeCosts
    from cpsat_pim.planner.solved import SolvedPlan
    from cpsat_pim.planner.space import Space
    from cpsat_pim.planner.tensors import Graph

#: The first two have least latency; the first has, of all plans of the least latency, the one of least energy.
_OBJECTIVES = ("lexicographic", "latency", "energy", "blended", "edp")

#: A search that baselines left no time has so many seconds.
_LEAST_SECONDS = 0.5


def _whole_bytes(text: str) -> int:
    from cpsat_pim.base.units import amount_in, exact_number

    amount = exact_number(text) or amount_in(text, ("B",), {})
    if amount.denominator != 1:
        raise ValueError
    return int(amount)


positive = checked(int, lambda n: 1 <= n < 2**40, "must be a positive integer")
_bytes = checked(_whole_bytes, lambda n: 1 <= n < 2**60, "must be whole bytes, like 1048576 or 1 MiB")
_cuts = checked(int, lambda n: 0 <= n < 2**20, "must be an integer of at least 0")


def add_objectives(parser: argparse.ArgumentParser) -> None:
    """Add what is minimized."""
    add = parser.add_argument
    text = "what to minimize; lexicographic: latency, then energy at that latency (%(default)s)"
    add("--objective", choices=_OBJECTIVES, default=_OBJECTIVES[0], help=text)
    add("--alpha", metavar="X", type=weight, help="blended: weight of a cycle (1)")
    add("--beta", metavar="X", type=weight, help="blended: weight of a nanojoule (1)")
    text = "up to N plans from least latency to least energy, each the best of a weighted sum"
    add("--pareto", metavar="N", type=positive, help=text)


def add_space(parser: argparse.ArgumentParser) -> None:
    """Add what is searched, and for how long."""
    add = parser.add_argument
    text = "dims that each side of the array may be split by (%(default)s)"
    add("--dims", metavar="N", type=positive, default=2, help=text)
    text = "axes that each side of a home may be split by (%(default)s)"
    add("--home-dims", metavar="N", type=positive, default=1, help=text)
    text = "homes may also lie on the first column of the array (over a host, where that is one node of each channel)"
    add("--home-columns", action=argparse.BooleanOptionalAction, help=text)
    text = "run branches side by side on regions cut at multiples of N rows or columns (0: one after another)"
    add("--cuts", metavar="N", type=_cuts, default=0, help=text)
    text = "layouts of tensors at home, or `free`: node programs choose their own (BCHW,BHWC)"
    add("--layouts", metavar="A,B", type=names, default="BCHW,BHWC", help=text)
    text = "parts may be padded to bounds that divide better, with at most X%% more MACs (0)"
    add("--padding", metavar="X%", type=share, default=0.0, help=text)
    text = "what every plan must keep to: regions, splits and homes that are given, reserved nodes, the most layouts"
    add("--constraints", metavar="FILE", help=text)
    text = "DRAM bytes per node that may be used, like 1048576 or 1MiB (those of the machine)"
    add("--capacity", metavar="BYTES", type=_bytes, help=text)
    add("--time-limit", metavar="S", type=seconds, default=600.0, help="seconds (%(default)g)")
    text = "seconds of a node problem's first solve for a proof; what matters is solved again, for longer (%(default)g)"
    add("--node-time", metavar="S", type=seconds, default=20.0, help=text)
    text = "node problems bounded or solved at a time (%(default)s)"
    add("--jobs", metavar="N", type=jobs_number, default=cpus(), help=text)
    text = "store and reuse the results of node problems in this file (one in the user's cache)"
    add("--store", metavar="FILE", help=text)


def given_space(arguments: argparse.Namespace, array: "NodeArray", graph: "Graph") -> "Space":
    """Return the space that the options declare.

    Over a host each owner of a tensor's part costs a message, so homes may lie on fewer nodes unless told otherwise.
    """
    from cpsat_pim.planner.array import HOST
    from cpsat_pim.planner.plan_constraints import NO_CONSTRAINTS, read_plan_constraints
    from cpsat_pim.planner.space import Space

    given = arguments.constraints
    if given and arguments.cuts:
        raise InputError("--constraints cannot be combined with --cuts")
    is_free = arguments.layouts == ["free"]
    layouts = ["BCHW"] if is_free else arguments.layouts
    columns = arguments.home_columns
    return Space(
        dims=arguments.dims,
        home_dims=arguments.home_dims,
        home_columns=array.interconnect == HOST if columns is None else columns,
        layouts=layouts,
        is_tied=not is_free,
        cuts=arguments.cuts,
        padding=arguments.padding,
        constraints=read_plan_constraints(given, graph, array) if given else NO_CONSTRAINTS,
    )


def given_sum(arguments: argparse.Namespace) -> "Objective":
    """Return the sum that the objective minimizes, or minimizes first; of a product, the latency."""
    from cpsat_pim.mapper.result import Objective

    weights = {key: value for key in ("alpha", "beta") if (value := getattr(arguments, key)) is not None}
    if arguments.objective != "blended" and weights:
        raise InputError("--alpha and --beta need --objective blended")
    if arguments.cuts and (arguments.objective not in _OBJECTIVES[:2] or arguments.pareto):
        raise InputError("--cuts needs --objective lexicographic or latency, as branches side by side save time only")
    is_latency = arguments.objective in ("lexicographic", "edp")
    return read_input(lambda: Objective.named("latency" if is_latency else arguments.objective, **weights))


def node_costs(arguments: argparse.Namespace, array: "NodeArray", objective: "Objective") -> "NodeCosts":
    """Return the costs of node problems for an objective of a node, with the file of `--store`."""
    from cpsat_pim.planner.nodes import NodeCosts
    from cpsat_pim.study.sweep.versions import current_versions

    store, version = _store(arguments), str(current_versions())
    time_limit, jobs, padding = arguments.node_time, arguments.jobs, arguments.padding
    return read_input(lambda: NodeCosts(array.node, objective, store, version, time_limit, jobs, padding=padding))


def _store(arguments: argparse.Namespace) -> Path | None:
    """Return the file that node problems are kept in; None, with a note, if there is no place for it."""
    from tables.bounds.shapes import cache_directory

    if arguments.store:
        return Path(arguments.store)
    path = cache_directory() / "nodes.sqlite"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        note(f"results of node problems are not kept: {path.parent} cannot be written to")
        return None
    return path


def search(arguments: argparse.Namespace, graph: "Graph", array: "NodeArray") -> "SolvedPlan":
    """Search the best plan by the objective."""
    from attrs import evolve

    from cpsat_pim.planner.fronts import solve_product, solve_weighted
    from cpsat_pim.planner.nodes import WorkerKilled

    objective, request = given_sum(arguments), _request(arguments, graph, array)
    if arguments.start and arguments.objective == "edp":
        raise InputError("--start cannot be combined with --objective edp")
    try:
        if arguments.objective == "edp":
            return solve_product(request)
        began = time.monotonic()
        starts = read_starts(arguments, request, objective)
        left = max(_LEAST_SECONDS, arguments.time_limit - (time.monotonic() - began))
        request = evolve(request, limits=evolve(request.limits, time_limit=left))
        return solve_weighted(request, objective, then_energy=arguments.objective == "lexicographic", known=starts)
    except WorkerKilled as death:
        raise InputError(str(death)) from death


def make_front(arguments: argparse.Namespace, graph: "Graph", array: "NodeArray") -> int:
    """Print plans from the least latency to the least energy, and write them as a list."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.planner.fronts import solve_front
    from cpsat_pim.report.plans import format_front, plan_document

    given_sum(arguments)
    front = read_input(lambda: solve_front(_request(arguments, graph, array), arguments.pareto))
    document = {"front": [plan_document(solved, graph) for solved in front]}
    write_files(
        ("standard output", lambda _: print_text(format_front(front))),
        (arguments.json, lambda path: write_json(document, path)),
    )
    if any(solved.interrupted for solved in front):
        return INTERRUPTED
    return OK if front else NO_MAPPING


def _request(arguments: argparse.Namespace, graph: "Graph", array: "NodeArray") -> "PlanRequest":
    """Return what the options ask the planner."""
    from cpsat_pim.planner.fronts import PlanRequest
    from cpsat_pim.planner.solved import SearchLimits, ignore

    _compile_first(arguments)
    return PlanRequest(
        graph=graph,
        array=array,
        space=read_input(lambda: given_space(arguments, array, graph)),
        make_costs=lambda objective: node_costs(arguments, array, objective),
        limits=SearchLimits(time_limit=arguments.time_limit),
        report=ignore if arguments.quiet else note,
    )


def _compile_first(arguments: argparse.Namespace) -> None:
    """Compile the mapper's kernels before the clock of a search starts: a compilation cannot be cut."""
    from cpsat_pim.mapper.network.compile import are_compiled, compile_kernels

    if not are_compiled():
        if not arguments.quiet:
            note("the first run compiles its kernels, which takes a minute; the time limit counts from then on")
        compile_kernels()
