"""The command line (docs/cli.md). Whatever takes time to import is imported by the command that needs it."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cpsat_pim.sweep.command import COMMANDS as SWEEP_COMMANDS
from cpsat_pim.sweep.command import add_arguments as add_sweep_arguments
from cpsat_pim.sweep.command import spelled_out

if TYPE_CHECKING:
    from cpsat_pim.arch import PIMArchitecture
    from cpsat_pim.importers import ImportedNetwork
    from cpsat_pim.mapping import Mapping
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
    """What the user gave cannot be used; the message is one line, or a line for each mistake of a file."""


def main(argv: list[str] | None = None) -> int:
    """Run a command; the exit code."""
    _never_fail_to_print()
    try:
        arguments = _build_parser().parse_args(spelled_out(sys.argv[1:] if argv is None else argv))
        code: int = arguments.command(arguments)
        sys.stdout.flush()
        return code
    except InputError as error:
        for line in str(error).splitlines() or [""]:
            print(f"{PROGRAM}: error: {_one_line(line)}", file=sys.stderr)
        return BAD_INPUT
    except OverflowError as error:
        print(f"{PROGRAM}: error: a figure is too large to be counted in 64 bits: {error}", file=sys.stderr)
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
    _add_import(commands)
    _add_simulate(commands)
    _add_schema(commands)
    _add_trace(commands)
    _add_export(commands)
    _add_report(commands)
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
    parser.add_argument(
        "network", metavar="NETWORK|FILE", help="a name (see `networks`), a .yaml file, or a model that `import` takes"
    )
    _add_model_options(parser)
    parser.add_argument("--layers", metavar="A,B", help="only the layers of these names")
    parser.add_argument("--start-from", metavar="FILE", help="mappings to start from: .yaml, or results as .json")
    _add_solve_options(parser)
    parser.add_argument("--nest", action="store_true", help="print the loop nest of every mapping, too")
    parser.set_defaults(timeline=None)


def _add_map(commands: Any) -> None:
    parser = _add_command(commands, "map", "map one layer and print its loop nest", map_layer)
    parser.add_argument(
        "shape", metavar="SHAPE", help="loop bounds R S P Q C K N G (1 if absent), stride, dilation: R=3,S=3,stride=2"
    )
    _add_solve_options(parser)
    _add_timeline(parser)
    parser.set_defaults(layers=None, start_from=None, nest=True)


def _add_import(commands: Any) -> None:
    parser = _add_command(commands, "import", "write the network of a model as YAML", import_model)
    text = "an .onnx file, an exported .pt2 program, or a Python function as module:function"
    parser.add_argument("model", metavar="MODEL", help=text)
    _add_model_options(parser)
    parser.add_argument("-o", "--output", metavar="FILE.yaml", help="the file to write (standard output)")


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "what to do about a model's operators that cannot be mapped (%(default)s)"
    add("--bind", metavar="NAME=N", type=_binding, action="append", default=[], help="size of an open dim of a model")
    add("--unsupported", choices=("error", "skip"), default="error", help=text)


def _add_simulate(commands: Any) -> None:
    parser = _add_command(commands, "simulate", "simulate the mappings of a file, or a reproducer", simulate_file)
    parser.add_argument("file", metavar="FILE", help="results of `--json`, a mapping file (.yaml), or a reproducer")
    parser.add_argument("--layer", metavar="NAME", help="only the layer of this name")
    parser.add_argument("--constraints", metavar="FILE", help="tell what of these constraints (.yaml) is not kept")
    _add_timeline(parser)


def _add_schema(commands: Any) -> None:
    parser = _add_command(commands, "schema", "print the JSON Schema of a kind of file, for editors", print_schema)
    parser.add_argument("kind", choices=("arch", "network", "mapping", "constraints"))


def _add_trace(commands: Any) -> None:
    text = "write the DRAM accesses of a mapping for a cycle-accurate simulator"
    parser = _add_command(commands, "trace", text, write_dram_trace)
    add = parser.add_argument
    add("file", metavar="FILE.json", help="written by `run --json` or `map --json`, or a reproducer")
    add("--format", choices=("ramulator2", "dramsim3"), required=True, help="whose traces (docs/export.md)")
    add("-o", "--output", metavar="FILE", required=True, help="the trace")
    add("--layer", metavar="NAME", help="the layer, if the file holds mappings of several")
    add("--row-bits", metavar="N", type=_row_bits, default=16, help="bits of an address for the row (%(default)s)")
    add("--gap", metavar="N", type=_gap, default=128, help="dramsim3: cycles between accesses (%(default)s)")


def _add_export(commands: Any) -> None:
    parser = _add_command(commands, "export", "write mappings and their problems as Timeloop's YAML", export_mappings)
    add = parser.add_argument
    add("file", metavar="FILE.json", help="written by `run --json` or `map --json`, or a reproducer")
    add("--format", choices=("timeloop",), required=True, help="whose form (docs/export.md)")
    add("-o", "--output", metavar="DIR", required=True, help="made if need be; three files a layer")
    add("--layer", metavar="NAME", help="only the layer of this name")


def _add_timeline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeline", metavar="FILE.json", help="write the simulated pipeline as a trace for Perfetto")


def _add_report(commands: Any) -> None:
    text = "draw a result that `--json` wrote, or two compared, as one HTML page"
    parser = _add_command(commands, "report", text, report_results)
    parser.add_argument("result", metavar="RESULT.json", help="written by `run --json` or `map --json`")
    parser.add_argument("other", metavar="OTHER.json", nargs="?", help="another one, to compare with")
    parser.add_argument("-o", "--output", metavar="FILE.html", default="report.html", help="(%(default)s)")


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
    add("--mapping", metavar="FILE.yaml", help="write the mappings to a file that can be edited and fed back")
    add("--html", metavar="FILE", help="draw the results as one HTML page, too (docs/report.md)")


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
_row_bits = _checked(int, lambda n: 0 <= n <= 40, "must be an integer from 0 to 40")
_gap = _checked(int, lambda n: 0 <= n < 2**20, "must be an integer from 0 to 1048575")
_seed = _checked(int, lambda n: 0 <= n < 2**31, "must be an integer from 0 to 2147483647")


def _binding(text: str) -> tuple[str, int]:
    """`batch=1`."""
    name, _, size = text.rpartition("=")
    if not name or not re.fullmatch(r"[1-9][0-9]{0,8}", size):
        raise argparse.ArgumentTypeError(f"must be a name and a size below 10^9, like batch=1 (got {text!r})")
    return name, int(size)


def _cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- run, map --------------------------------------------------------------------------------------------------------


def run_network(arguments: argparse.Namespace) -> int:
    """`run`: every layer of a network, or some."""
    network = _read_network(arguments)
    starts = _read_starts(network, arguments.start_from)
    return _solve_and_report(_selected(network, arguments.layers), arguments, starts)


def map_layer(arguments: argparse.Namespace) -> int:
    """`map`: a network of one layer, named after its shape."""
    from cpsat_pim.workload.network import Network, NetworkNode, parse_shape

    workload = _given(lambda: parse_shape(arguments.shape))
    node = NetworkNode(name=workload.name, workload=workload)
    return _solve_and_report(Network(name=arguments.shape, layers=(node,)), arguments)


def _solve_and_report(
    network: "Network", arguments: argparse.Namespace, starts: "dict[str, Mapping] | None" = None
) -> int:
    """Check all that was given, solve, report, and say how it went."""
    from cpsat_pim.verify import Disagreement

    arch, objective = _read_arch(arguments.arch), _read_objective(arguments)
    _check_layers_fit(network, arch)
    _check_starts(network, arch, starts or {})
    _check_outputs(arguments.json, arguments.mapping, arguments.html, arguments.timeline)
    if arguments.html is not None:
        _check_plotting()
    try:
        solved = _solve(network, arch, objective, arguments, starts or {})
    except Disagreement as disagreement:
        return _report_disagreement(disagreement)
    _print_solved(solved, arguments.nest)
    _write_json(solved, arguments.json)
    _write_mappings(solved, arguments.mapping)
    _write_html(solved, arguments.html)
    _write_timeline(_mapped_layers(solved), arguments.timeline)
    return _verdict(network, solved)


def _solve(
    network: "Network",
    arch: "PIMArchitecture",
    objective: "Objective",
    arguments: argparse.Namespace,
    starts: "dict[str, Mapping]",
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
                starts=starts,
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

    if path is not None:
        _written(path, lambda: write_document(to_document(solved), path))


def _write_mappings(solved: "SolvedNetwork", path: str | None) -> None:
    from cpsat_pim.files import write_text
    from cpsat_pim.mapping_file import format_mapping_file

    if path is not None:
        mapped = [(node.name, node.solved.workload, node.solved.mapping) for node in solved.layers]
        kept = [(name, layer, mapping) for name, layer, mapping in mapped if mapping is not None]
        _written(path, lambda: write_text(format_mapping_file(solved.arch, kept), path))
def _write_html(solved: "SolvedNetwork", path: str | None) -> None:
    from cpsat_pim.report.jsonfile import to_document

    if path is not None:
        _write_page([("this run", to_document(solved))], path)


def _write_page(documents: "list[tuple[str, dict[str, Any]]]", path: str) -> None:
    from cpsat_pim.files import write_text
    from cpsat_pim.report.html import render_report

    text = _given(lambda: render_report(documents))
    _written(path, lambda: write_text(text, path))


def _write_timeline(cases: "list[MappedLayer]", path: str | None) -> None:
    import json

    from cpsat_pim.files import write_text
    from cpsat_pim.report.timeline import build_timeline

    if path is not None and cases:
        text = json.dumps(_given(lambda: build_timeline(cases)), separators=(",", ":"))
        _written(path, lambda: write_text(text + "\n", path))


def _mapped_layers(solved: "SolvedNetwork") -> "list[MappedLayer]":
    from cpsat_pim.report.jsonfile import MappedLayer

    mapped = [(node.solved.workload, node.solved.mapping) for node in solved.layers]
    return [MappedLayer(layer=layer, arch=solved.arch, mapping=m, recorded=None) for layer, m in mapped if m]


def _written(path: str, write: Callable[[], None]) -> None:
    try:
        write()
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
    cases = _read_mapped(arguments)
    if arguments.constraints is not None:
        _note_violations(cases, arguments.constraints)
    _check_outputs(arguments.timeline)
    code = max([_simulate(case, arguments.file) for case in cases])
    _write_timeline(cases, arguments.timeline)
    return code


def _read_mapped(arguments: argparse.Namespace) -> list["MappedLayer"]:
    """The mapped layers of the file that is given, or the one that `--layer` names."""
    from cpsat_pim.report.jsonfile import read_mapped_layers

    cases = _given(lambda: read_mapped_layers(arguments.file))
    if not cases:
        raise InputError(f"{arguments.file}: holds no mapping")
    if arguments.layer is None:
        return cases
    _check_names([arguments.layer], [case.layer.name for case in cases], arguments.file)
    return [case for case in cases if case.layer.name == arguments.layer]


def _note_violations(cases: "list[MappedLayer]", path: str) -> None:
    """Say on stderr which constraints the mappings do not keep."""
    from cpsat_pim.constraints import check_constraints, read_constraints

    constraints = _given(lambda: read_constraints(path))
    for case in cases:
        for problem in check_constraints(case.mapping, constraints.of(case.layer.name)):
            _note(f"{case.layer.name}: {problem}")


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


# --- schema ----------------------------------------------------------------------------------------------------------


def print_schema(arguments: argparse.Namespace) -> int:
    """`schema`."""
    import json

    from cpsat_pim.schema import schema_of

    print(json.dumps(schema_of(arguments.kind), indent=1))
    return OK


# --- trace, export ---------------------------------------------------------------------------------------------------


def write_dram_trace(arguments: argparse.Namespace) -> int:
    """`trace`: the column accesses of one mapping, and what a simulator should count."""
    from cpsat_pim.export.dramtrace import write_trace
    from cpsat_pim.files import check_writable, replacing

    case = _only_case(_read_legal(arguments), arguments.file)
    _given(lambda: check_writable(arguments.output))
    try:
        with replacing(arguments.output) as file:
            addresses = _given(
                lambda: write_trace(
                    *(case.layer, case.arch, case.mapping, arguments.format, file),
                    row_bits=arguments.row_bits,
                    gap=arguments.gap,
                )
            )
    except OSError as error:
        raise InputError(f"{arguments.output}: cannot be written: {error.strerror or error}") from error
    _print_expected(case, str(addresses))
    return OK


def _print_expected(case: "MappedLayer", addresses: str) -> None:
    """What a simulator should count that serves the accesses in order and leaves rows open."""
    from attrs import evolve

    from cpsat_pim.verify import simulate

    figures = simulate(case.layer, evolve(case.arch, page_policy="open"), case.mapping)
    print(f"addresses: {addresses}")
    for what, counts in (("column accesses", figures.column_accesses), ("row activations", figures.row_activations)):
        print(f"{what} I / W / O: {' / '.join(map(str, counts))}, in all {sum(counts)}")
    if case.arch.page_policy != "open":
        _note(f"{case.arch.name} closes its rows after each scan, a trace cannot: the activations are of open rows")


def export_mappings(arguments: argparse.Namespace) -> int:
    """`export`: mappings with their problems and machine."""
    from cpsat_pim.export.timeloop import write_timeloop

    cases = _read_legal(arguments)
    _check_stems([case.layer.name for case in cases], arguments.file)
    try:
        for case in cases:
            for path in write_timeloop(case.layer, case.arch, case.mapping, arguments.output):
                print(path)
    except OSError as error:
        raise InputError(f"{arguments.output}: cannot be written: {error.strerror or error}") from error
    return OK


def _read_legal(arguments: argparse.Namespace) -> list["MappedLayer"]:
    """The mapped layers of the file that is given, if their mappings are legal."""
    from cpsat_pim.check import check_mapping

    cases = _read_mapped(arguments)
    for case in cases:
        for problem in check_mapping(case.layer, case.arch, case.mapping):
            raise InputError(f"{arguments.file}: {case.layer.name}: {problem}")
    return cases


def _check_stems(names: list[str], file: str) -> None:
    """No layer's files would replace another's."""
    from cpsat_pim.files import file_stem

    stems = [file_stem(name) for name in names]
    for stem in stems:
        if stems.count(stem) > 1:
            raise InputError(f"{file}: {stems.count(stem)} layers have the file name {stem!r}, choose one with --layer")


def _only_case(cases: list["MappedLayer"], file: str) -> "MappedLayer":
    """The one mapping that there is to choose from."""
    if len(cases) > 1:
        names = [case.layer.name for case in cases]
        raise InputError(f"{file}: holds {len(cases)} mappings, choose one with --layer{_hint('', names)}")
    return cases[0]
# --- import ----------------------------------------------------------------------------------------------------------


def import_model(arguments: argparse.Namespace) -> int:
    """`import`: a model's network to a file, or to standard output."""
    from cpsat_pim.files import write_text
    from cpsat_pim.report.text import open_console, print_networks
    from cpsat_pim.workload.network import format_network

    imported = _import(arguments.model, arguments)
    binding = "".join(f", {name}={size}" for name, size in arguments.bind)
    left_out = [f"Left out: {line}" for line in imported.summary]
    text = format_network(imported.network, f"Imported from {arguments.model}{binding}.", *left_out)
    if arguments.output is None:
        sys.stdout.write(text)
        return OK
    _written(arguments.output, lambda: write_text(text, arguments.output))
    print_networks(open_console(sys.stdout), [imported.network])
    return OK


def _import(model: str, arguments: argparse.Namespace) -> "ImportedNetwork":
    """A model's network; on stderr what is not in it."""
    from cpsat_pim.importers import import_network

    bind = dict(arguments.bind)
    if len(bind) < len(arguments.bind):
        raise InputError("--bind: a name is given twice")
    imported = _given(lambda: import_network(model, bind, skip_unsupported=arguments.unsupported == "skip"))
    for line in imported.summary:
        _note(f"left out {line}")
    return imported


# --- report ----------------------------------------------------------------------------------------------------------


def report_results(arguments: argparse.Namespace) -> int:
    """`report`: one page of a result, or of two."""
    from cpsat_pim.report.jsonfile import read_document

    _check_plotting()
    paths = [path for path in (arguments.result, arguments.other) if path is not None]
    documents = [(path, _given(partial(read_document, path))) for path in paths]
    _check_outputs(arguments.output)
    _write_page(documents, arguments.output)
    return OK
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


def _read_network(arguments: argparse.Namespace) -> "Network":
    """A network by name, from a file, or of a model."""
    from cpsat_pim.importers import is_model
    from cpsat_pim.workload.network import read_network

    if is_model(arguments.network):
        return _import(arguments.network, arguments).network
    if arguments.bind:
        raise InputError("--bind is for models; the sizes of a network file are in it")
    return _given(lambda: read_network(arguments.network))


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


def _read_starts(network: "Network", path: str | None) -> "dict[str, Mapping]":
    """The mappings of `--start-from` by the names of layers."""
    from cpsat_pim.report.jsonfile import read_mappings

    if path is None:
        return {}
    starts = _given(lambda: read_mappings(path))
    _check_names(list(starts), [node.name for node in network.layers], f"{path}: {network.name}")
    return starts


def _check_starts(network: "Network", arch: "PIMArchitecture", starts: "dict[str, Mapping]") -> None:
    """Every mapping to start from is legal."""
    from cpsat_pim.check import check_mapping

    problems = [
        f"--start-from: {node.name} on {arch.name}: {problem}"
        for node in network.layers
        if node.name in starts
        for problem in check_mapping(node.workload, arch, starts[node.name])
    ]
    if problems:
        raise InputError("\n".join(problems))


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


def _check_outputs(*paths: str | None) -> None:
    """What was asked for can be written, known before it is there."""
    from cpsat_pim.files import check_writable

    for path in paths:
        if path is not None:
            _given(partial(check_writable, path))


def _check_plotting() -> None:
    """A page can be drawn."""
    from cpsat_pim.report.html import check_plotting

    _given(check_plotting)


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
