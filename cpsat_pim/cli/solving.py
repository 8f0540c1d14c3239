"""`run`, `map`: layers are solved, printed and written."""

import argparse
import itertools
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import (
    NO_LIMIT,
    add_arch,
    add_command,
    add_constraints,
    add_layers,
    add_model_options,
    add_network,
    add_objective,
    add_seed,
    add_time_limit,
    add_timeline,
    add_total_time,
    checked,
    cpus,
    jobs,
    names,
    share,
)
from cpsat_pim.cli.models import named_layers, read_given_network
from cpsat_pim.cli.output import (
    DISAGREEMENT,
    PROGRAM,
    InputError,
    check_names,
    check_outputs,
    end_of_solving,
    given,
    keeper,
    note,
    note_unmapped,
    reader_may_leave,
    write_files,
)
from cpsat_pim.cli.reports import check_page, page_writer, timeline_writer

if TYPE_CHECKING:
    from cpsat_pim.arch import PIMArchitecture
    from cpsat_pim.evaluate.verify import Disagreement
    from cpsat_pim.mapper.network.run import WorkersDied
    from cpsat_pim.mapper.result import NetworkLayer, Objective, SharedChoice, SolvedNetwork
    from cpsat_pim.mapping import Mapping
    from cpsat_pim.mapping.constraints import NetworkConstraints
    from cpsat_pim.workload.network import Network

    Starts = dict[str, Mapping]


_SHARES = ("bypass", "layout")
_shares = checked(names, lambda wanted: all(name in _SHARES for name in wanted), "must be of bypass, layout")


def add_commands(commands: Any) -> None:
    """The commands' words."""
    _add_run(add_command(commands, "run", "map the layers of a network", run_network))
    _add_map(add_command(commands, "map", "map one layer and print its loop nest", map_layer))


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_network(parser, metavar="NETWORK|..")
    add_model_options(parser)
    add_layers(parser)
    add("--start-from", metavar="FILE", help="mappings to start from: .yaml, or results as .json")
    add("--share", metavar="A,B", type=_shares, help="what all layers have in common: bypass, layout (docs/shared.md)")
    add_total_time(parser, "--share: seconds for all layers together")
    _add_solve_options(parser)
    add("--nest", action="store_true", help="print the loop nest of every mapping, too")
    parser.set_defaults(timeline=None)


def _add_map(parser: argparse.ArgumentParser) -> None:
    text = "loop bounds R S P Q C K N G (1 if absent), stride, dilation: R=3,S=3,stride=2"
    parser.add_argument("shape", metavar="SHAPE", help=text)
    _add_solve_options(parser)
    add_timeline(parser)
    parser.set_defaults(nest=True, share=None, total_time=NO_LIMIT)


def _add_solve_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_arch(parser, default="default")
    add_constraints(parser)
    add("--padding", metavar="X%", type=share, default=0.0, help="pad awkward bounds, to X%% more MACs at most (0)")
    add_objective(parser, default="energy")
    add_time_limit(parser, "seconds per layer")
    add("--jobs", metavar="N", type=jobs, default=cpus(), help="layers solved at a time (one per CPU: %(default)s)")
    add_seed(parser)
    add("--json", metavar="FILE", help="write the results to a file, too (docs/json.md)")
    add("--mapping", metavar="FILE.yaml", help="write the mappings to a file that can be edited and fed back")
    add("--html", metavar="FILE", help="draw the results as one HTML page, too (docs/report.md)")


# --- The commands ----------------------------------------------------------------------------------------------------


def run_network(arguments: argparse.Namespace) -> int:
    """`run`: every layer of a network, or some."""
    network = read_given_network(arguments)
    starts = _read_starts(network, arguments.start_from)
    constraints = given_constraints(network, arguments.constraints)
    return _solve_and_report(named_layers(network, arguments), arguments, starts, constraints)


def map_layer(arguments: argparse.Namespace) -> int:
    """`map`: a network of one layer, named after its shape."""
    from cpsat_pim.workload.network import shape_network

    network = given(lambda: shape_network(arguments.shape))
    return _solve_and_report(network, arguments, {}, given_constraints(network, arguments.constraints))


def _solve_and_report(
    network: "Network", arguments: argparse.Namespace, starts: "Starts", constraints: "NetworkConstraints"
) -> int:
    """Check all that was given, solve, report, and say how it went."""
    from cpsat_pim.evaluate.verify import Disagreement

    arch, objective = given_arch(arguments.arch), given_objective(arguments)
    if arguments.total_time != NO_LIMIT and arguments.share is None:
        raise InputError("--total-time is for --share")
    if arguments.padding and (arguments.share is not None or objective.is_product):
        raise InputError("--padding is neither for --share nor for --objective edp")
    check_layers_fit(network, arch, objective, padding=arguments.padding)
    _check_starts(network, arch, starts, constraints, arguments.padding)
    check_outputs(arguments.json, arguments.mapping, arguments.timeline, arguments.html)
    check_page(arguments.html)
    try:
        solved = _solve(network, arch, objective, arguments, starts, constraints)
    except Disagreement as disagreement:
        return report_disagreement(disagreement)
    _write_solved(solved, arguments)
    return _verdict(network, solved)


def _solve(
    network: "Network",
    arch: "PIMArchitecture",
    objective: "Objective",
    arguments: argparse.Namespace,
    starts: "Starts",
    constraints: "NetworkConstraints",
) -> "SolvedNetwork":
    from cpsat_pim.mapper.network.run import WorkersDied
    from cpsat_pim.report.progress import LiveProgress

    different = len({constraints.key(node.name, node.workload) for node in network.layers})
    try:
        with LiveProgress(objective.kind, different) as report:
            return _solver(arguments)(
                network,
                arch,
                objective,
                time_limit=arguments.time_limit,
                seed=arguments.seed,
                jobs=arguments.jobs,
                report=report,
                starts=starts,
                constraints=constraints,
            )
    except WorkersDied as death:
        _write_solved(death.solved, arguments)
        raise told_death(death) from death


def _solver(arguments: argparse.Namespace) -> "Callable[..., SolvedNetwork]":
    """How layers are solved: by themselves, or with a choice that they share."""
    from cpsat_pim.mapper.network.run import solve_network
    from cpsat_pim.mapper.network.shared import solve_shared
    from cpsat_pim.report.jsonfile import to_document

    if arguments.share is None:
        return partial(solve_network, padding=arguments.padding, keep=keeper(arguments.json, to_document))
    return partial(solve_shared, share=arguments.share, total_time=arguments.total_time)


# --- What was given --------------------------------------------------------------------------------------------------


def given_arch(name: str) -> "PIMArchitecture":
    """The machine of `--arch`."""
    from cpsat_pim.arch.reading import read_arch

    return given(lambda: read_arch(name))


def given_objective(arguments: argparse.Namespace) -> "Objective":
    """The objective of `--objective`, `--alpha` and `--beta`."""
    from cpsat_pim.mapper.result import Objective

    kind, alpha, beta = arguments.objective, arguments.alpha, arguments.beta
    if kind != "blended" and (alpha is not None or beta is not None):
        raise InputError("--alpha and --beta are for --objective blended")
    return given(lambda: Objective.named(kind, 1 if alpha is None else alpha, 1 if beta is None else beta))


def _read_starts(network: "Network", path: str | None) -> "Starts":
    """The mappings of `--start-from` by the names of layers."""
    from cpsat_pim.report.jsonfile import read_mappings

    if path is None:
        return {}
    starts = given(lambda: read_mappings(path))
    check_names(list(starts), [node.name for node in network.layers], f"{path}: {network.name}")
    return starts


def given_constraints(network: "Network", path: str | None) -> "NetworkConstraints":
    """The constraints of `--constraints`; layers that they name are the network's."""
    from cpsat_pim.mapping.constraints import NetworkConstraints, read_constraints

    if path is None:
        return NetworkConstraints()
    constraints = given(lambda: read_constraints(path))
    check_names(list(constraints.layers), [node.name for node in network.layers], f"{path}: {network.name}")
    return constraints


def _check_starts(
    network: "Network", arch: "PIMArchitecture", starts: "Starts", constraints: "NetworkConstraints", padding: float
) -> None:
    """Every mapping to start from is legal, of the layer or of what it may be padded to, and keeps the constraints."""
    from cpsat_pim.base.dims import Level
    from cpsat_pim.mapping.check import check_mapping
    from cpsat_pim.mapping.constraints import check_constraints
    from cpsat_pim.workload.padding import padded_to

    problems = []
    for node in network.layers:
        if node.name in starts:
            start = starts[node.name]
            layer = padded_to(node.workload, start.extents(Level.DRAM), padding)
            found = check_mapping(layer, arch, start) or check_constraints(start, constraints.of(node.name))
            problems += [f"--start-from: {node.name} on {arch.name}: {problem}" for problem in found]
    if problems:
        raise InputError("\n".join(problems))


def check_layers_fit(
    network: "Network", arch: "PIMArchitecture", *objectives: "Objective", padding: float = 0.0
) -> None:
    """No layer is known beforehand to have no mapping, nor it or what it may be padded to to cost more than can be
    counted.
    """
    from cpsat_pim.mapper.bounds.countable import check_countable
    from cpsat_pim.mapping.check import check_fits
    from cpsat_pim.workload.padding import padded_layers

    for node in network.layers:
        for problem in check_fits(node.workload, arch):
            raise InputError(f"{node.name} on {arch.name}: {problem}")
        padded = given(partial(padded_layers, node.workload, padding))
        for objective, layer in itertools.product(objectives, padded):
            given(partial(check_countable, layer, arch, objective))


# --- Results ---------------------------------------------------------------------------------------------------------


def _print_solved(solved: "SolvedNetwork", with_nests: bool) -> None:
    """The table, below the nests."""
    from cpsat_pim.report.nest import format_nest
    from cpsat_pim.report.text import open_console, print_plain, print_results

    console = open_console(sys.stdout)
    with reader_may_leave():
        for node in solved.layers if with_nests else ():
            if node.solved.mapping:
                nest = format_nest(node.solved.workload, solved.arch, node.solved.mapping)
                print_plain(console, f"{node.name}\n{nest}\n")
        print_results(console, solved)


def _write_solved(solved: "SolvedNetwork", arguments: argparse.Namespace) -> None:
    """To standard output, and to all files that were asked for."""
    from cpsat_pim.base.files import write_json, write_text
    from cpsat_pim.evaluate.verify import MappedLayer
    from cpsat_pim.mapping.mapping_file import format_mapping_file
    from cpsat_pim.report.jsonfile import to_document

    document = to_document(solved)
    mapped = [(node.solved.workload, node.solved.mapping) for node in solved.layers if node.solved.mapping]
    cases = [MappedLayer(layer=layer, arch=solved.arch, mapping=mapping) for layer, mapping in mapped]
    write_files(
        ("standard output", lambda _: _print_solved(solved, arguments.nest)),
        (arguments.json, lambda path: write_json(document, path)),
        (arguments.mapping, lambda path: write_text(format_mapping_file(solved.arch, mapped), path)),
        (arguments.html, page_writer([("this run", document)])),
        (arguments.timeline, timeline_writer(cases)),
    )


def _verdict(network: "Network", solved: "SolvedNetwork") -> int:
    """The exit code; on stderr a line for what is missing."""
    from cpsat_pim.mapper.result import Status

    unmapped = [node.name for node in solved.layers if node.solved.mapping is None]
    unproven = [node.name for node in solved.layers if node.solved.status is Status.FEASIBLE]
    ruled_out = [node.name for node in solved.layers if _is_ruled_out(node)]
    if solved.shared and solved.shared.status is not Status.OPTIMAL and not solved.interrupted:
        unproven = []
        note(_shared_verdict(solved.shared))
    note_unmapped([name for name in unmapped if name not in ruled_out])
    return end_of_solving(network.layers, solved.layers, unmapped, unproven, interrupted=solved.interrupted)


def _shared_verdict(shared: "SharedChoice") -> str:
    """What is missing of a shared choice."""
    from cpsat_pim.mapper.result import Status

    if shared.status is Status.INFEASIBLE:
        return "no shared choice suits all layers"
    return "time ran out before a proof of the shared choice"


def _is_ruled_out(node: "NetworkLayer") -> bool:
    """Say which layer has no mapping that keeps its constraints, and why if a look at them tells."""
    from cpsat_pim.mapper.result import Status
    from cpsat_pim.mapping.constraints import FREE, check_constraints_fit

    solved = node.solved
    if solved.status is not Status.INFEASIBLE or solved.constraints == FREE:
        return False
    reasons = check_constraints_fit(solved.workload, solved.constraints)
    note(": ".join([f"{node.name}: no mapping keeps the constraints", *(["; ".join(reasons)] if reasons else [])]))
    return True


def told_death(death: "WorkersDied") -> InputError:
    """What to tell of worker processes that were killed."""
    return InputError(f"{death}; if memory is short, try fewer --jobs")


def report_disagreement(disagreement: "Disagreement") -> int:
    """No result, but all that reproduces it."""
    import tempfile

    from cpsat_pim.evaluate.verify import write_reproducer

    try:
        path = write_reproducer(disagreement, ".")
    except OSError:
        path = write_reproducer(disagreement, tempfile.mkdtemp(prefix="cpsat_pim-"))
    note(f"prediction and simulation disagree: {disagreement}")
    note(f"this is a bug, please report it with {path} (see `{PROGRAM} simulate {path}`)")
    return DISAGREEMENT
