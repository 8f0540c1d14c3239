"""The command line (docs/cli.md). Whatever takes time to import is imported by the command that needs it."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cpsat_pim.sweep.command import COMMANDS as SWEEP_COMMANDS
from cpsat_pim.sweep.command import add_arguments as add_sweep_arguments
from cpsat_pim.sweep.command import spelled_out

if TYPE_CHECKING:
    from cpsat_pim.arch import PIMArchitecture
    from cpsat_pim.report.jsonfile import MappedLayer
    from cpsat_pim.result import Objective, SolvedNetwork
    from cpsat_pim.verify import Disagreement
    from cpsat_pim.workload.network import Network

PROGRAM = "cpsat_pim"

#: Exit codes.
OK, NO_MAPPING, BAD_INPUT, DISAGREEMENT, INTERRUPTED = 0, 1, 2, 3, 130

_T = TypeVar("_T")

_EPILOG = """exit codes: 0 every layer proven optimal (or nothing to prove); 1 time ran out before some layer was
proven, or it has no mapping; 2 bad input; 3 prediction and simulation disagree; 130 interrupted"""


class InputError(Exception):
    """What the user gave cannot be used; the message is one line."""


def main(argv: list[str] | None = None) -> int:
    """Run a command; the exit code."""
    _never_fail_to_print()
    try:
        arguments = _build_parser().parse_args(spelled_out(sys.argv[1:] if argv is None else argv))
        code: int = arguments.command(arguments)
        sys.stdout.flush()
        return code
    except InputError as error:
        print(f"{PROGRAM}: error: {_one_line(str(error))}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough; nothing more may be flushed to it on exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except SystemExit as end:  # argparse after --help or --version
        return int(end.code or 0)


# --- Arguments -------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser that complains in one line."""

    def error(self, message: str) -> NoReturn:
        command = self.prog.removeprefix(PROGRAM).strip()
        raise InputError(f"{command}: {message}" if command else message)


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Provably optimal mappings of neural-network layers onto DRAM processing-in-memory accelerators.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_map(commands)
    _add_simulate(commands)
    _add_sweep(commands)
    _add_command(commands, "networks", "list the networks that come with the package", list_networks)
    _add_command(commands, "archs", "list the architectures that come with the package", list_archs)
    return parser


def _add_command(commands: Any, name: str, text: str, command: Callable[[argparse.Namespace], int]) -> Any:
    parser = commands.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", epilog=_EPILOG, allow_abbrev=False
    )
    parser.set_defaults(command=command)
    return parser


def _add_run(commands: Any) -> None:
    parser = _add_command(commands, "run", "map the layers of a network", run_network)
    parser.add_argument("network", metavar="NETWORK|FILE", help="a name (see `networks`) or a .yaml file")
    parser.add_argument("--layers", metavar="A,B", help="only the layers of these names")
    _add_solve_options(parser)
    parser.add_argument("--nest", action="store_true", help="print the loop nest of every mapping, too")


def _add_map(commands: Any) -> None:
    parser = _add_command(commands, "map", "map one layer and print its loop nest", map_layer)
    parser.add_argument(
        "shape", metavar="SHAPE", help="loop bounds R S P Q C K N G (1 if absent), stride, dilation: R=3,S=3,stride=2"
    )
    _add_solve_options(parser)
    parser.set_defaults(layers=None, nest=True)


def _add_simulate(commands: Any) -> None:
    parser = _add_command(commands, "simulate", "simulate mappings that `--json` wrote, or a reproducer", simulate_file)
    parser.add_argument("file", metavar="FILE.json", help="written by `run --json` or `map --json`, or a reproducer")
    parser.add_argument("--layer", metavar="NAME", help="only the layer of this name")


def _add_sweep(commands: Any) -> None:
    parser = commands.add_parser("sweep", help="solve a plan of many runs, and keep the results", allow_abbrev=False)
    kinds = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, text in SWEEP_COMMANDS.items():
        command = _add_command(kinds, name, text, sweep)
        command.set_defaults(sweep=name)
        add_sweep_arguments(name, command, _jobs, _cpus())


def _add_solve_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--arch", metavar="NAME|FILE", default="default", help="a name (see `archs`) or a .yaml file (%(default)s)")
    add("--objective", choices=("latency", "energy", "blended"), default="energy", help="(%(default)s)")
    add("--alpha", metavar="X", type=_weight, help="blended: weight of a cycle (1)")
    add("--beta", metavar="X", type=_weight, help="blended: weight of a nanojoule (1)")
    add("--time-limit", metavar="S", type=_seconds, default=25.0, help="seconds per layer (25)")
    add("--jobs", metavar="N", type=_jobs, default=_cpus(), help="layers solved at a time (one per CPU: %(default)s)")
    add("--seed", metavar="N", type=_seed, default=0, help="of the solver (%(default)s)")
    add("--json", metavar="FILE", help="write the results to a file, too (docs/json.md)")


def _checked(convert: Callable[[str], _T], holds: Callable[[_T], bool], rule: str) -> Callable[[str], _T]:
    """An argparse type that states its rule."""

    def parse(text: str) -> _T:
        try:
            value = convert(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{rule} (got {text!r})") from None
        if not holds(value):
            raise argparse.ArgumentTypeError(f"{rule} (got {text!r})")
        return value

    return parse


_weight = _checked(float, lambda x: 0 <= x <= 1e9, "must be a number from 0 to 1e9")
_seconds = _checked(float, lambda x: 0 < x <= 1e7, "must be a positive number of at most 1e7")
_jobs = _checked(int, lambda n: 1 <= n <= 1024, "must be an integer from 1 to 1024")
_seed = _checked(int, lambda n: 0 <= n < 2**31, "must be an integer from 0 to 2147483647")


def _cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- run, map --------------------------------------------------------------------------------------------------------


def run_network(arguments: argparse.Namespace) -> int:
    """`run`: every layer of a network, or some."""
    from cpsat_pim.workload.network import read_network

    network = _selected(_given(lambda: read_network(arguments.network)), arguments.layers)
    return _solve_and_report(network, arguments)


def map_layer(arguments: argparse.Namespace) -> int:
    """`map`: a network of one layer, named after its shape."""
    from cpsat_pim.workload.network import Network, NetworkNode, parse_shape

    workload = _given(lambda: parse_shape(arguments.shape))
    node = NetworkNode(name=workload.name, workload=workload)
    return _solve_and_report(Network(name=arguments.shape, layers=(node,)), arguments)


def _solve_and_report(network: "Network", arguments: argparse.Namespace) -> int:
    """Check all that was given, solve, report, and say how it went."""
    from cpsat_pim.verify import Disagreement

    arch, objective = _read_arch(arguments.arch), _read_objective(arguments)
    _check_layers_fit(network, arch)
    _check_json_path(arguments.json)
    try:
        solved = _solve(network, arch, objective, arguments)
    except Disagreement as disagreement:
        return _report_disagreement(disagreement)
    _print_solved(solved, arguments.nest)
    _write_json(solved, arguments.json)
    return _verdict(network, solved)


def _solve(
    network: "Network", arch: "PIMArchitecture", objective: "Objective", arguments: argparse.Namespace
) -> "SolvedNetwork":
    from concurrent.futures.process import BrokenProcessPool

    from cpsat_pim.report.progress import LiveProgress
    from cpsat_pim.run import solve_network

    different = len({str(node.workload.shape) for node in network.layers})
    try:
        with LiveProgress(objective.kind, different) as report:
            return solve_network(
                network,
                arch,
                objective,
                names=None,
                time_limit=arguments.time_limit,
                seed=arguments.seed,
                jobs=arguments.jobs,
                report=report,
            )
    except BrokenProcessPool as error:
        raise InputError("a worker process was killed; if memory is short, try fewer --jobs") from error


def _print_solved(solved: "SolvedNetwork", with_nests: bool) -> None:
    from cpsat_pim.report.nest import format_nest
    from cpsat_pim.report.text import open_console, print_plain, print_results

    console = open_console(sys.stdout)
    for node in solved.layers if with_nests else ():
        if node.solved.mapping:
            nest = format_nest(node.solved.workload, solved.arch, node.solved.mapping)
            print_plain(console, f"{node.name}\n{nest}\n")
    print_results(console, solved)


def _write_json(solved: "SolvedNetwork", path: str | None) -> None:
    from cpsat_pim.report.jsonfile import to_document, write_document

    if path is None:
        return
    try:
        write_document(to_document(solved), path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _verdict(network: "Network", solved: "SolvedNetwork") -> int:
    """The exit code; on stderr a line for what is missing."""
    from cpsat_pim.result import Status

    unmapped = [node.name for node in solved.layers if node.solved.mapping is None]
    unproven = [node.name for node in solved.layers if node.solved.status is Status.FEASIBLE]
    if unmapped:
        _note(f"no mapping for {', '.join(unmapped)}")
    if solved.interrupted:
        _note(f"interrupted, {len(network.layers) - len(solved.layers)} of {len(network.layers)} layers not begun")
        return INTERRUPTED
    if unproven:
        _note(f"time ran out before a proof for {', '.join(unproven)}")
    return NO_MAPPING if unmapped else OK


def _report_disagreement(disagreement: "Disagreement") -> int:
    """No result, but all that reproduces it."""
    import tempfile

    from cpsat_pim.verify import write_reproducer

    try:
        path = write_reproducer(disagreement, ".")
    except OSError:
        path = write_reproducer(disagreement, tempfile.mkdtemp(prefix="cpsat_pim-"))
    _note(f"prediction and simulation disagree: {disagreement}")
    _note(f"this is a bug, please report it with {path} (see `{PROGRAM} simulate {path}`)")
    return DISAGREEMENT


# --- simulate --------------------------------------------------------------------------------------------------------


def simulate_file(arguments: argparse.Namespace) -> int:
    """`simulate`: mappings from a file, each beside its prediction."""
    from cpsat_pim.report.jsonfile import read_mapped_layers

    cases = _given(lambda: read_mapped_layers(arguments.file))
    if not cases:
        raise InputError(f"{arguments.file}: holds no mapping")
    if arguments.layer is not None:
        _check_names([arguments.layer], [case.layer.name for case in cases], arguments.file)
        cases = [case for case in cases if case.layer.name == arguments.layer]
    return max([_simulate(case, arguments.file) for case in cases])


def _simulate(case: "MappedLayer", file: str) -> int:
    """Print one mapping's figures; 3 unless they are as predicted and as recorded."""
    from cpsat_pim.check import check_mapping
    from cpsat_pim.cost import predict
    from cpsat_pim.report.text import open_console, print_comparison
    from cpsat_pim.verify import simulate

    name = case.layer.name
    for problem in check_mapping(case.layer, case.arch, case.mapping):
        if not case.is_reproducer:
            raise InputError(f"{file}: {name}: {problem}")
        _note(f"{name}: the mapping is illegal: {problem}")
        return DISAGREEMENT
    predicted = predict(case.layer, case.arch, case.mapping).figures
    simulated = simulate(case.layer, case.arch, case.mapping)
    print_comparison(open_console(sys.stdout), name, predicted, simulated)
    wrong = predicted.differences(simulated)
    if wrong:
        _note(f"{name}: prediction and simulation disagree on {', '.join(wrong)}")
    figures = predicted.to_dict()
    stale = [key for key in figures if case.recorded is not None and case.recorded.get(key) != figures[key]]
    if stale:
        _note(f"{name}: the file holds other predictions for {', '.join(stale)}; was it edited?")
    if not wrong and not stale:
        print(f"{name}: all exact figures are equal, simulated and predicted")
    return DISAGREEMENT if wrong or stale else OK


# --- sweep -----------------------------------------------------------------------------------------------------------


def sweep(arguments: argparse.Namespace) -> int:
    """`sweep`: its commands; a plan's mistakes are a line each."""
    from cpsat_pim.sweep.command import UsageError, run
    from cpsat_pim.sweep.reading import PlanError

    try:
        return run(arguments.sweep, arguments)
    except PlanError as error:
        for problem in error.problems:
            print(f"{PROGRAM}: error: {_one_line(problem)}", file=sys.stderr)
        return BAD_INPUT
    except UsageError as error:
        raise InputError(str(error)) from error


# --- networks, archs -------------------------------------------------------------------------------------------------


def list_networks(arguments: argparse.Namespace) -> int:
    """`networks`."""
    from cpsat_pim.report.text import open_console, print_networks
    from cpsat_pim.workload.network import network_names, read_network

    print_networks(open_console(sys.stdout), [read_network(name) for name in network_names()])
    return OK


def list_archs(arguments: argparse.Namespace) -> int:
    """`archs`."""
    from cpsat_pim.arch.reading import arch_names, read_arch
    from cpsat_pim.report.text import open_console, print_archs

    print_archs(open_console(sys.stdout), [(name, read_arch(name)) for name in arch_names()])
    return OK


# --- What was given --------------------------------------------------------------------------------------------------


def _given(read: Callable[[], _T]) -> _T:
    """What a reader returns; its complaint is about the input."""
    try:
        return read()
    except ValueError as error:
        raise InputError(str(error)) from error


def _read_arch(name: str) -> "PIMArchitecture":
    from cpsat_pim.arch.reading import read_arch

    return _given(lambda: read_arch(name))


def _read_objective(arguments: argparse.Namespace) -> "Objective":
    from cpsat_pim.result import Objective

    kind, alpha, beta = arguments.objective, arguments.alpha, arguments.beta
    if kind != "blended" and (alpha is not None or beta is not None):
        raise InputError("--alpha and --beta are for --objective blended")
    return _given(lambda: Objective.named(kind, 1 if alpha is None else alpha, 1 if beta is None else beta))


def _selected(network: "Network", layers: str | None) -> "Network":
    """The network with the layers that `--layers` names, or all."""
    from attrs import evolve

    if layers is None:
        return network
    names = [name.strip() for name in layers.split(",")]
    _check_names(names, [node.name for node in network.layers], network.name)
    # What a layer comes after may be left out; nothing here reads it.
    chosen = [evolve(node, after=()) for node in network.layers if node.name in names]
    return evolve(network, layers=chosen)


def _check_names(names: list[str], known: list[str], place: str) -> None:
    """Every name is that of a layer."""
    for name in names:
        if name not in known:
            raise InputError(f"{place}: no layer is named {name!r}{_hint(name, known)}")


def _hint(name: str, known: Iterable[str]) -> str:
    import difflib

    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f", did you mean {close[0]!r}?"
    return f", there are {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}"


def _check_layers_fit(network: "Network", arch: "PIMArchitecture") -> None:
    """No layer is known beforehand to have no mapping."""
    from cpsat_pim.check import check_fits

    for node in network.layers:
        for problem in check_fits(node.workload, arch):
            raise InputError(f"{node.name} on {arch.name}: {problem}")


def _check_json_path(path: str | None) -> None:
    """The results can be written, known before they are there."""
    from cpsat_pim.report.jsonfile import check_writable

    if path is not None:
        _given(lambda: check_writable(path))


# --- Words -----------------------------------------------------------------------------------------------------------


def _note(text: str) -> None:
    """A message on stderr."""
    print(f"{PROGRAM}: {text}", file=sys.stderr)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _never_fail_to_print() -> None:
    """A name that the terminal's encoding lacks is shown escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
