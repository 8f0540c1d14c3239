"""`run`, `map`: solve layers, print and write the results."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import (
    NO_LIMIT,
    add_arch,
    add_bytes,
    add_command,
    add_constraints,
    add_csv,
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
from cpsat_pim.cli.given import (
    check_layers_fit,
    check_starts,
    given_arch,
    given_constraints,
    given_objective,
    read_starts,
    with_given_widths,
)
from cpsat_pim.cli.models import named_layers, read_given_network
from cpsat_pim.cli.output import (
    DISAGREEMENT,
    PROGRAM,
    InputError,
    check_outputs,
    closed_pipe_allowed,
    incremental_writer,
    note,
    note_unmapped,
    read_input,
    solving_exit_code,
    write_files,
)
from cpsat_pim.cli.reports import check_page, csv_writer, page_writer, timeline_writer

if TYPE_CHECKING:
    from cpsat_pim.arch import PIMArchitecture
    from cpsat_pim.evaluate.verify import Disagreement
    from cpsat_pim.mapper.network.run import NetworkRequest, WorkersDied
    from cpsat_pim.mapper.result import NetworkLayer, Objective, SharedChoice, SolvedLayer, SolvedNetwork
    from cpsat_pim.mapping import Mapping
    from cpsat_pim.mapping.constraints import NetworkConstraints
    from cpsat_pim.workload.network import Network

    Starts = dict[str, Mapping]


_SHARES = ("bypass", "layout")
_shares = checked(names, lambda wanted: all(name in _SHARES for name in wanted), "must be bypass, layout or both")


def add_commands(commands: Any) -> None:
    """Add the commands `run` and `map` to the parser."""
    _add_run(add_command(commands, "run", "map the layers of a network", run_network))
    _add_map(add_command(commands, "map", "map one layer and print its loop nest", map_layer))


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_network(parser, metavar="NETWORK|..")
    add_model_options(parser)
    add_layers(parser)
    add(
        "--start-from", metavar="FILE", help="starting mappings (incumbents): a mapping file (.yaml) or results (.json)"
    )
    add("--share", metavar="A,B", type=_shares, help="choices that all layers share: bypass, layout (docs/shared.md)")
    add_total_time(parser, "--share: seconds for all layers together")
    _add_solve_options(parser)
    add("--nest", action="store_true", help="also print the loop nest of every mapping")
    add("--every-layer", action="store_true", help="print a row per layer, also for layers of equal shape and result")
    parser.set_defaults(timeline=None)


def _add_map(parser: argparse.ArgumentParser) -> None:
    text = "loop bounds R S P Q C K N G (1 if absent), stride, dilation: R=3,S=3,stride=2"
    parser.add_argument("shape", metavar="SHAPE", help=text)
    _add_solve_options(parser)
    add_timeline(parser)
    parser.set_defaults(nest=True, every_layer=True, share=None, total_time=NO_LIMIT)


def _add_solve_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_arch(parser, default="default")
    add_bytes(parser)
    add_constraints(parser)
    add("--padding", metavar="X%", type=share, default=0.0, help="pad awkward bounds, with at most X%% more MACs (0)")
    add_objective(parser, default="energy")
    text = "then minimize this, among the mappings of least energy or latency: the other one, or none (docs/pareto.md)"
    add("--then", choices=("latency", "energy", "none"), help=text)
    text = "the first objective may be X%% above its optimum, for the second one's sake (0)"
    add("--within", metavar="X%", type=share, default=0.0, help=text)
    add_time_limit(parser, "seconds per layer")
    add("--jobs", metavar="N", type=jobs, default=cpus(), help="layers solved at a time (one per CPU: %(default)s)")
    add_seed(parser)
    add("--json", metavar="FILE", help="also write the results to a file (docs/json.md)")
    add_csv(parser)
    add("--mapping", metavar="FILE.yaml", help="write the mappings to a file that can be edited and read back")
    add("--html", metavar="FILE", help="also draw the results as one HTML page (docs/report.md)")


# --- The commands ----------------------------------------------------------------------------------------------------


def run_network(arguments: argparse.Namespace) -> int:
    """Run `run`: map every layer of a network, or the selected ones."""
    network = read_given_network(arguments)
    starts = read_starts(network, arguments.start_from)
    constraints = given_constraints(network, arguments)
    return _solve_and_report(named_layers(network, arguments), arguments, starts, constraints)


def map_layer(arguments: argparse.Namespace) -> int:
    """Run `map`: map a network of one layer, which is named after its shape."""
    from cpsat_pim.workload.network_text import shape_network

    network = read_input(lambda: shape_network(arguments.shape))
    return _solve_and_report(network, arguments, {}, given_constraints(network, arguments))


def _solve_and_report(
    network: "Network", arguments: argparse.Namespace, starts: "Starts", constraints: "NetworkConstraints"
) -> int:
    """Check all arguments, solve, write the results, and return the exit code."""
    from cpsat_pim.evaluate.verify import Disagreement

    arch, objective = given_arch(arguments.arch), given_objective(arguments)
    network = with_given_widths(network, arch, arguments.bytes)
    if arguments.total_time != NO_LIMIT and arguments.share is None:
        raise InputError("--total-time needs --share")
    if arguments.padding and (arguments.share is not None or objective.is_product):
        raise InputError("--padding cannot be combined with --share or --objective edp")
    if arguments.then not in (None, "none") and arguments.share is not None:
        raise InputError("--then cannot be combined with --share")
    is_partly = arguments.share is None
    check_layers_fit(network, arch, objective, constraints=constraints, padding=arguments.padding, partly=is_partly)
    check_starts(network, arch, starts, constraints, arguments.padding)
    check_outputs(arguments.json, arguments.csv, arguments.mapping, arguments.timeline, arguments.html)
    check_page(arguments.html)
    try:
        solved = _solve(network, arch, _request(arguments, objective, starts, constraints), arguments)
    except Disagreement as disagreement:
        return report_disagreement(disagreement)
    _write_solved(solved, arguments)
    if not arguments.padding and arguments.share is None and not objective.is_product:
        _note_awkward_bounds(solved)
    return _exit_code(network, solved)


def _second_objective(arguments: argparse.Namespace) -> str | None:
    """Return what `SolveRequest.then` is: by default the other objective; a choice for all layers has none."""
    from cpsat_pim.mapper.search import OTHER

    if arguments.then == "none" or arguments.share is not None:
        return None
    return arguments.then or OTHER


def _request(
    arguments: argparse.Namespace, objective: "Objective", starts: "Starts", constraints: "NetworkConstraints"
) -> "NetworkRequest":
    """Build the request that is sent with every layer's solve."""
    from cpsat_pim.mapper.network.run import NetworkRequest
    from cpsat_pim.mapper.search import SolveRequest

    limits = {"time_limit": arguments.time_limit, "seed": arguments.seed, "padding": arguments.padding}
    order = {"then": _second_objective(arguments), "within": arguments.within}

    def build() -> SolveRequest:
        try:
            return SolveRequest(objective=objective, **order, **limits)
        except ValueError as error:  # of a field, which has the name of its option
            raise ValueError(str(error).replace("SolveRequest.", "--").replace("`then`", "--then")) from error

    each = read_input(build)
    return NetworkRequest(each=each, constraints=constraints, starts=starts)


def _solve(
    network: "Network", arch: "PIMArchitecture", request: "NetworkRequest", arguments: argparse.Namespace
) -> "SolvedNetwork":
    """Solve the layers, each on its own or with a shared choice, and show the progress."""
    from cpsat_pim.mapper.network.run import Execution, WorkersDied, solve_network
    from cpsat_pim.mapper.network.shared import solve_shared
    from cpsat_pim.mapper.result import SolvedNetwork
    from cpsat_pim.report.progress import LiveProgress

    different = len({request.key(node) for node in network.layers})
    try:
        with LiveProgress(request.each.objective.kind, different) as report:
            execution = Execution(jobs=arguments.jobs, on_progress=report)
            if arguments.share is not None:
                return solve_shared(network, arch, request, arguments.share, arguments.total_time, execution)
            return solve_network(
                network, arch, request, execution, incremental_writer(arguments.json, SolvedNetwork.to_dict)
            )
    except WorkersDied as death:
        _write_solved(death.solved, arguments)
        raise workers_died_error(death) from death


# --- Results ---------------------------------------------------------------------------------------------------------


def _print_solved(solved: "SolvedNetwork", with_nests: bool, every_layer: bool) -> None:
    """Print the loop nests, if requested, and the table of results."""
    from cpsat_pim.mapping.loop_nest import format_nest
    from cpsat_pim.report.results import print_results
    from cpsat_pim.report.text import open_console, print_plain

    console = open_console(sys.stdout)
    with closed_pipe_allowed():
        for node in solved.layers if with_nests else ():
            if node.solved.mapping:
                nest = format_nest(node.solved.workload, solved.arch, node.solved.mapping)
                print_plain(console, f"{node.name}\n{nest}\n")
        print_results(console, solved, every_layer)


def _write_solved(solved: "SolvedNetwork", arguments: argparse.Namespace) -> None:
    """Print the results, and write all requested files."""
    from cpsat_pim.base.files import write_json, write_text
    from cpsat_pim.evaluate.verify import MappedLayer
    from cpsat_pim.mapping.mapping_file import format_mapping_file

    document = solved.to_dict()
    mapped = [(node.solved.workload, node.solved.mapping) for node in solved.layers if node.solved.mapping]
    cases = [MappedLayer(layer=layer, arch=solved.arch, mapping=mapping) for layer, mapping in mapped]
    write_files(
        ("standard output", lambda _: _print_solved(solved, arguments.nest, arguments.every_layer)),
        (arguments.json, lambda path: write_json(document, path)),
        (arguments.csv, csv_writer(document)),
        (arguments.mapping, lambda path: write_text(format_mapping_file(solved.arch, mapped), path)),
        (arguments.html, page_writer([("this run", document)])),
        (arguments.timeline, timeline_writer(cases)),
    )


def _note_awkward_bounds(solved: "SolvedNetwork") -> None:
    """Say on stderr which layers a little padding could help, equal ones once."""
    from cpsat_pim.mapping.awkward import awkward_bounds

    layers = {node.solved.workload.bounds: node for node in reversed(solved.layers) if node.solved.mapping}
    for node in reversed(layers.values()):
        for awkward in awkward_bounds(node.solved.workload, solved.arch):
            note(f"{node.name}: {awkward}")


def _exit_code(network: "Network", solved: "SolvedNetwork") -> int:
    """Return the exit code, and report on stderr what is missing."""
    from cpsat_pim.mapper.result import Status

    unmapped = [node.name for node in solved.layers if node.solved.mapping is None]
    unproven = [node.name for node in solved.layers if node.solved.mapping and not _is_first_proven(node.solved)]
    ruled_out = [node.name for node in solved.layers if _is_ruled_out(node)]
    if solved.shared and solved.shared.status is not Status.OPTIMAL and not solved.interrupted:
        unproven = []
        note(_shared_verdict(solved.shared))
    unexplained = [name for name in unmapped if name not in ruled_out]
    note_unmapped(unexplained)
    if unexplained:
        note(f"`{PROGRAM} explain` with the same layers and machine says why")
    return solving_exit_code(network.layers, solved.layers, unmapped, unproven, interrupted=solved.interrupted)


def _is_first_proven(layer: "SolvedLayer") -> bool:
    """Whether the objective is proven; a line below the table says what is not proven of the second one."""
    from cpsat_pim.mapper.result import Status

    return layer.is_proven or layer.status is Status.OPTIMAL


def _shared_verdict(shared: "SharedChoice") -> str:
    """Say what is not proven about a shared choice."""
    from cpsat_pim.mapper.result import Status

    if shared.status is Status.INFEASIBLE:
        return "infeasible: no shared choice has a mapping of every layer"
    return "time limit reached before a proof of optimality of the shared choice"


def _is_ruled_out(node: "NetworkLayer") -> bool:
    """Return whether a layer is proven to have no mapping, and report the reason on stderr."""
    from cpsat_pim.mapper.result import Status
    from cpsat_pim.mapping.check import check_fits
    from cpsat_pim.mapping.constraints import FREE, check_constraints_fit

    solved = node.solved
    if solved.status is not Status.INFEASIBLE:
        return False
    if reasons := check_fits(solved.workload, solved.arch, solved.constraints.bank_counts):
        note(f"{node.name}: infeasible: {'; '.join(reasons)}")
        return True
    if solved.constraints == FREE:
        return False
    reasons = check_constraints_fit(solved.workload, solved.constraints)
    because = f": {'; '.join(reasons)}" if reasons else f"; `{PROGRAM} explain` names the limits that conflict"
    note(f"{node.name}: infeasible: no mapping satisfies the constraints{because}")
    return True


def workers_died_error(death: "WorkersDied") -> InputError:
    """Return the error that reports worker processes that were killed."""
    return InputError(f"{death}; if memory is short, try fewer --jobs")


def report_disagreement(disagreement: "Disagreement") -> int:
    """Report a disagreement: write its reproducer, name the file on stderr, and return the exit code."""
    import tempfile

    from cpsat_pim.evaluate.verify import write_reproducer

    try:
        path = write_reproducer(disagreement, ".")
    except OSError:
        path = write_reproducer(disagreement, tempfile.mkdtemp(prefix="cpsat_pim-"))
    note(f"prediction and simulation disagree: {disagreement}")
    note(f"this is a bug, please report it with {path} (see `{PROGRAM} simulate {path}`)")
    return DISAGREEMENT
