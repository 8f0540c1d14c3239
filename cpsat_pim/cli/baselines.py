"""`baselines` and `bench quality` (docs/baselines.md): run heuristic mappers, and measure their distance from proven
optima.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import (
    TIME_LIMIT,
    add_arch,
    add_command,
    add_layers,
    add_model_options,
    add_network,
    add_objective,
    add_seed,
    add_time_limit,
    checked,
    cpus,
    jobs,
    names,
)
from cpsat_pim.cli.given import check_layers_fit, given_arch, given_objective, with_given_widths
from cpsat_pim.cli.models import read_given_layers, refuse_bindings
from cpsat_pim.cli.output import (
    BAD_INPUT,
    DISAGREEMENT,
    INTERRUPTED,
    NO_MAPPING,
    OK,
    InputError,
    check_names,
    check_outputs,
    closed_pipe_allowed,
    note,
    note_unmapped,
    read_input,
    solving_exit_code,
    write_files,
)
from cpsat_pim.cli.solving import report_disagreement, workers_died_error

if TYPE_CHECKING:
    from cpsat_pim.mapper.result import SolvedNetwork
    from cpsat_pim.study.baselines.problem import Problem
    from cpsat_pim.study.baselines.quality import Comparison
    from cpsat_pim.study.baselines.references import Reference
    from cpsat_pim.study.baselines.search import Effort
    from cpsat_pim.workload.network import Network

#: Options that a results file already fixes, with their defaults for when the command solves by itself.
_SOLVING = {
    "arch": "default",
    "objective": "energy",
    "alpha": None,
    "beta": None,
    "time_limit": TIME_LIMIT,
    "jobs": cpus(),
}

_samples = checked(int, lambda n: 1 <= n <= 10**7, "must be an integer from 1 to 10000000")


def add_commands(commands: Any) -> None:
    """Add the commands `baselines` and `bench quality` to the parser."""
    parser = add_command(commands, "baselines", "map layers with heuristics and searches", run_baselines)
    add_network(parser, metavar="NETWORK|FILE|SHAPE")
    _add_options(parser)
    text = "measure this program"
    bench = commands.add_parser("bench", help=text, description=text.capitalize() + ".", allow_abbrev=False)
    kinds = bench.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser = add_command(kinds, "quality", "measure the distance of the baselines from proven optima", bench_quality)
    text = "results of `run --json`, or what `baselines` takes, which is solved first"
    parser.add_argument("network", metavar="RESULT.json|NETWORK|..", help=text)
    _add_options(parser)
    add_time_limit(parser, "seconds per layer", default=None)
    parser.add_argument("--jobs", metavar="N", type=jobs, help="layers solved at a time (one per CPU)")


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_model_options(parser)
    add_layers(parser)
    add_arch(parser)
    add_objective(parser)
    add("--only", metavar="A,B", type=names, help="only the baselines of these names")
    add("--samples", metavar="N", type=_samples, default=1000, help="mappings that a search evaluates (%(default)s)")
    add_seed(parser, "of random choices")
    add("--json", metavar="FILE", help="also write the mappings and figures to a file (docs/baselines.md)")


# --- The commands ----------------------------------------------------------------------------------------------------


def run_baselines(arguments: argparse.Namespace) -> int:
    """Run `baselines`: print one table per distinct layer."""
    names, effort = _given_names(arguments), _given_effort(arguments)
    problems = _given_problems(arguments)
    return _compare(((problem, None) for problem in problems), names, effort, arguments.json)


def bench_quality(arguments: argparse.Namespace) -> int:
    """Run `bench quality`: print the same tables with the distance of each baseline from the proven optimum."""
    from cpsat_pim.evaluate.verify import Disagreement

    names, effort = _given_names(arguments), _given_effort(arguments)
    check_outputs(arguments.json)
    try:
        references, code = _given_references(arguments)
    except Disagreement as disagreement:
        return report_disagreement(disagreement)
    found = ((reference.problem, reference) for reference in references)
    verdict = _compare(found, names, effort, arguments.json)
    return verdict if verdict == DISAGREEMENT else max(code, verdict)


def _compare(
    given: "Iterable[tuple[Problem, Reference | None]]", names: list[str], effort: "Effort", json: str | None
) -> int:
    """Run the baselines, print a table per layer and a summary, write the results, and return the exit code."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.report.text import open_console
    from cpsat_pim.study.baselines.quality import compare
    from cpsat_pim.study.baselines.text import print_compared, print_summary

    console, found, is_interrupted = open_console(sys.stdout), [], False
    try:
        for problem, reference in given:
            found.append(compare(problem, names, effort, reference))
            with closed_pipe_allowed():
                print_compared(console, found[-1])
    except KeyboardInterrupt:
        is_interrupted = True
        note("interrupted")
    if any(compared.reference for compared in found):
        with closed_pipe_allowed():
            print_summary(console, found)
    write_files((json, lambda path: write_json([compared.to_dict() for compared in found], path)))
    verdict = _exit_code(found)
    return INTERRUPTED if is_interrupted and verdict != DISAGREEMENT else verdict


def _exit_code(found: "list[Comparison]") -> int:
    """Return the exit code, and warn on stderr about layers without a mapping and about refuted bounds."""
    for compared in found:
        for name in compared.refuting:
            layer = compared.problem.layer.name
            note(f"{layer}: {name} is below the proven lower bound; this is a bug, please report it")
    if any(compared.refuting for compared in found):
        return DISAGREEMENT
    unmapped = [compared.problem.layer.name for compared in found if not all(o.best for o in compared.outcomes)]
    note_unmapped(unmapped)
    return NO_MAPPING if unmapped else OK


# --- Input ------------------------------------------------------------------------------------------------------------


def _given_names(arguments: argparse.Namespace) -> list[str]:
    """Return the baselines named by `--only`, or all."""
    from cpsat_pim.base.reading import hint
    from cpsat_pim.study.baselines.catalogue import BASELINES

    names = [*dict.fromkeys(BASELINES if arguments.only is None else arguments.only)]
    for name in names:
        if name not in BASELINES:
            raise InputError(f"--only: no baseline is named {name!r}{hint(name, BASELINES)}")
    return names


def _given_effort(arguments: argparse.Namespace) -> "Effort":
    from cpsat_pim.study.baselines.search import Effort

    return Effort(samples=arguments.samples, seed=arguments.seed)


def _given_network(arguments: argparse.Namespace) -> "Network":
    """Read the network and fill in the defaults of the options that solving needs."""
    for name, default in _SOLVING.items():
        if getattr(arguments, name, None) is None:
            setattr(arguments, name, default)
    return read_given_layers(arguments)


def _given_problems(arguments: argparse.Namespace) -> "Iterator[Problem]":
    """Yield the distinct layers to be mapped."""
    from cpsat_pim.study.baselines.problem import Problem
    from cpsat_pim.study.baselines.references import distinct

    network = _given_network(arguments)
    arch, objective = given_arch(arguments.arch), given_objective(arguments)
    network = with_given_widths(network, arch, None)
    check_layers_fit(network, arch, objective)
    check_outputs(arguments.json)
    nodes = distinct(network.layers, lambda node: node.workload)
    return (Problem(layer=node.workload, arch=arch, objective=objective) for node in nodes)


def _given_references(arguments: argparse.Namespace) -> "tuple[list[Reference], int]":
    """Return the distinct solved layers, from a file or by solving now, and the exit code of the solve."""
    from cpsat_pim.study.baselines.references import distinct, solved_references

    if arguments.network.endswith(".json"):
        references, code = _read_references(arguments), OK
    else:
        solved, code = _solve(arguments)
        references = solved_references(solved)
    unmapped = [name for name, reference in references.items() if reference is None]
    note_unmapped(unmapped)
    found = (reference for reference in references.values() if reference is not None)
    mapped = distinct(found, lambda reference: reference.problem.layer)
    return mapped, max(code, NO_MAPPING if unmapped else OK)


def _read_references(arguments: argparse.Namespace) -> "dict[str, Reference | None]":
    """Read the reference solutions from a results file, restricted to `--layers` if given."""
    from cpsat_pim.study.baselines.references import read_references

    file = arguments.network
    for name in _SOLVING:
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name.replace('_', '-')}: {file} already gives it")
    refuse_bindings(arguments)
    references = read_input(lambda: read_references(file))
    wanted = [*references] if arguments.layers is None else arguments.layers
    check_names(wanted, [*references], file)
    if not any(references[name] for name in wanted):
        raise InputError(f"{file}: contains no mapping")
    return {name: references[name] for name in wanted}


def _solve(arguments: argparse.Namespace) -> "tuple[SolvedNetwork, int]":
    """The network that is given, solved, as far as nothing was stopped or killed; then the exit code is not 0."""
    from cpsat_pim.mapper.network.run import Execution, WorkersDied, solve_network
    from cpsat_pim.mapper.search import SolveRequest
    from cpsat_pim.report.progress import LiveProgress

    network = _given_network(arguments)
    arch, objective = given_arch(arguments.arch), given_objective(arguments)
    network = with_given_widths(network, arch, None)
    check_layers_fit(network, arch, objective)
    try:
        with LiveProgress(objective.kind, len(network.layers)) as report:
            request = SolveRequest(objective=objective, then=None, time_limit=arguments.time_limit)
            solved = solve_network(network, arch, request, Execution(jobs=arguments.jobs, on_progress=report))
    except WorkersDied as death:
        note(str(workers_died_error(death)))
        return death.solved, BAD_INPUT
    return solved, solving_exit_code(network.layers, solved.layers, [], interrupted=solved.interrupted)
