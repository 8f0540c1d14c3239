"""`baselines`, `bench quality` (docs/baselines.md): mappers to beat, and how far they are from proven optima."""

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
    end_of_solving,
    given,
    note,
    note_unmapped,
    reader_may_leave,
    write_files,
)
from cpsat_pim.cli.solving import check_layers_fit, given_arch, given_objective, report_disagreement, told_death

if TYPE_CHECKING:
    from cpsat_pim.mapper.result import SolvedNetwork
    from cpsat_pim.study.baselines.problem import Problem
    from cpsat_pim.study.baselines.quality import Judged
    from cpsat_pim.study.baselines.references import Reference
    from cpsat_pim.study.baselines.search import Effort
    from cpsat_pim.workload.network import Network

#: What a file of results has already, and what is meant where there is no file.
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
    """The commands' words."""
    parser = add_command(commands, "baselines", "map layers with heuristics and searches", run_baselines)
    add_network(parser, metavar="NETWORK|FILE|SHAPE")
    _add_options(parser)
    text = "measure this program"
    bench = commands.add_parser("bench", help=text, description=text.capitalize() + ".", allow_abbrev=False)
    kinds = bench.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser = add_command(kinds, "quality", "tell how far the baselines are from proven optima", bench_quality)
    text = "results of `run --json`; or what `baselines` takes, to be solved first"
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
    add("--samples", metavar="N", type=_samples, default=1000, help="mappings that a search looks at (%(default)s)")
    add_seed(parser, "of what is drawn")
    add("--json", metavar="FILE", help="write the mappings and figures to a file, too (docs/baselines.md)")


# --- The commands ----------------------------------------------------------------------------------------------------


def run_baselines(arguments: argparse.Namespace) -> int:
    """`baselines`: a table for each different layer."""
    names, effort = _given_names(arguments), _given_effort(arguments)
    problems = _given_problems(arguments)
    return _judge(((problem, None) for problem in problems), names, effort, arguments.json)


def bench_quality(arguments: argparse.Namespace) -> int:
    """`bench quality`: the same, held against proven optima."""
    from cpsat_pim.evaluate.verify import Disagreement

    names, effort = _given_names(arguments), _given_effort(arguments)
    check_outputs(arguments.json)
    try:
        references, code = _given_references(arguments)
    except Disagreement as disagreement:
        return report_disagreement(disagreement)
    found = ((reference.problem, reference) for reference in references)
    verdict = _judge(found, names, effort, arguments.json)
    return verdict if verdict == DISAGREEMENT else max(code, verdict)


def _judge(
    given: "Iterable[tuple[Problem, Reference | None]]", names: list[str], effort: "Effort", json: str | None
) -> int:
    """Print layer by layer, then over all; the exit code."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.report.text import open_console
    from cpsat_pim.study.baselines.quality import judge
    from cpsat_pim.study.baselines.text import print_judged, print_summary

    console, found, is_interrupted = open_console(sys.stdout), [], False
    try:
        for problem, reference in given:
            found.append(judge(problem, names, effort, reference))
            with reader_may_leave():
                print_judged(console, found[-1])
    except KeyboardInterrupt:
        is_interrupted = True
        note("interrupted")
    if any(judged.reference for judged in found):
        with reader_may_leave():
            print_summary(console, found)
    write_files((json, lambda path: write_json([judged.to_dict() for judged in found], path)))
    verdict = _verdict(found)
    return INTERRUPTED if is_interrupted and verdict != DISAGREEMENT else verdict


def _verdict(found: "list[Judged]") -> int:
    """The exit code; on stderr a line for what should not be."""
    for judged in found:
        for name in judged.refuting:
            note(f"{judged.problem.layer.name}: {name} is below the proven bound: this is a bug, please report it")
    if any(judged.refuting for judged in found):
        return DISAGREEMENT
    unmapped = [judged.problem.layer.name for judged in found if not all(o.best for o in judged.outcomes)]
    note_unmapped(unmapped)
    return NO_MAPPING if unmapped else OK


# --- What was given --------------------------------------------------------------------------------------------------


def _given_names(arguments: argparse.Namespace) -> list[str]:
    """The baselines of `--only`, or all."""
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
    """The layers that are given; what solving needs and was not given takes its default."""
    for name, default in _SOLVING.items():
        if getattr(arguments, name, None) is None:
            setattr(arguments, name, default)
    return read_given_layers(arguments)


def _given_problems(arguments: argparse.Namespace) -> "Iterator[Problem]":
    """The different layers to be mapped."""
    from cpsat_pim.study.baselines.problem import Problem
    from cpsat_pim.study.baselines.references import distinct

    network = _given_network(arguments)
    arch, objective = given_arch(arguments.arch), given_objective(arguments)
    check_layers_fit(network, arch, objective)
    check_outputs(arguments.json)
    nodes = distinct(network.layers, lambda node: node.workload)
    return (Problem(layer=node.workload, arch=arch, objective=objective) for node in nodes)


def _given_references(arguments: argparse.Namespace) -> "tuple[list[Reference], int]":
    """The different solved layers of a file, or of a network that is solved now; the exit code for what is missing."""
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
    """The layers of a file, or those of `--layers`."""
    from cpsat_pim.study.baselines.references import read_references

    file = arguments.network
    for name in _SOLVING:
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name.replace('_', '-')}: {file} says it already")
    refuse_bindings(arguments)
    references = given(lambda: read_references(file))
    wanted = [*references] if arguments.layers is None else arguments.layers
    check_names(wanted, [*references], file)
    if not any(references[name] for name in wanted):
        raise InputError(f"{file}: holds no mapping")
    return {name: references[name] for name in wanted}


def _solve(arguments: argparse.Namespace) -> "tuple[SolvedNetwork, int]":
    """The network that is given, solved, as far as nothing was stopped or killed; then the exit code is not 0."""
    from cpsat_pim.mapper.network.run import WorkersDied, solve_network
    from cpsat_pim.report.progress import LiveProgress

    network = _given_network(arguments)
    arch, objective = given_arch(arguments.arch), given_objective(arguments)
    check_layers_fit(network, arch, objective)
    try:
        with LiveProgress(objective.kind, len(network.layers)) as report:
            limits = {"time_limit": arguments.time_limit, "jobs": arguments.jobs}
            solved = solve_network(network, arch, objective, report=report, **limits)
    except WorkersDied as death:
        note(str(told_death(death)))
        return death.solved, BAD_INPUT
    return solved, end_of_solving(network.layers, solved.layers, [], interrupted=solved.interrupted)
