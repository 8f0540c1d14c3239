"""`explain`: why a layer has no mapping, what bounds the one it has, and what more of the machine would buy."""

import argparse
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cpsat_pim.cli.arguments import (
    add_arch,
    add_command,
    add_constraints,
    add_layers,
    add_model_options,
    add_objective,
    add_seed,
    add_time_limit,
    checked,
    names,
)
from cpsat_pim.cli.models import named_layers, read_given_layers, refuse_bindings
from cpsat_pim.cli.output import (
    InputError,
    check_outputs,
    end_of_solving,
    given,
    note,
    reader_may_leave,
    write_files,
)
from cpsat_pim.cli.solving import given_arch, given_constraints, given_objective, report_disagreement

if TYPE_CHECKING:
    from cpsat_pim.arch import PIMArchitecture
    from cpsat_pim.mapper.explain import Asked, Upgrade
    from cpsat_pim.mapper.result import Objective
    from cpsat_pim.mapping import Mapping
    from cpsat_pim.report.explain import Layers
    from cpsat_pim.workload.network import Network

_cycles = checked(int, lambda n: 0 < n < 2**62, "must be a positive integer")


def _parse_energy(text: str) -> int:
    """Whole femtojoules in `1.5 uJ`, or in nanojoules without a unit."""
    from cpsat_pim.base.units import FJ_PER_NJ, amount_in, exact_number

    nanojoules = exact_number(text)
    return int((amount_in(text, ("nJ",), {}) if nanojoules is None else nanojoules) * FJ_PER_NJ)


_energy = checked(_parse_energy, lambda fj: 0 < fj < 2**62, "must be a positive energy such as 1.5uJ (nJ without unit)")


def add_commands(commands: Any) -> None:
    """The command's words."""
    text = "tell why layers have no mapping, what bounds the one they have, and what more of the machine would buy"
    parser = add_command(commands, "explain", text, explain)
    add = parser.add_argument
    text = "a shape as of `map`, a network as of `run`, or mappings as of `simulate`, which are explained as they are"
    add("network", metavar="SHAPE|NETWORK|FILE", help=text)
    add_model_options(parser)
    add_layers(parser)
    add_arch(parser)
    add_constraints(parser)
    add("--max-cycles", metavar="N", type=_cycles, help="only mappings of at most so many predicted cycles")
    add("--max-energy", metavar="E", type=_energy, help="only mappings of at most so much energy: 1.5uJ")
    add_objective(parser)
    text = "solve again with twice of one thing each: all, or some (docs/explain.md)"
    add("--upgrades", metavar="A,B", type=names, help=text)
    add_time_limit(parser, "seconds per solve")
    add_seed(parser)
    add("--json", metavar="FILE", help="write all this to a file, too (docs/explain.md)")


class _Given(NamedTuple):  # no attrs, which `--help` has no time for
    """What is to be explained: layers, and of some a mapping that is explained as it is."""

    network: "Network"
    arch: "PIMArchitecture"
    objective: "Objective"
    mappings: "dict[str, Mapping]"


def explain(arguments: argparse.Namespace) -> int:
    """`explain`: check all that was given, explain layer by layer, report."""
    from attrs import evolve

    from cpsat_pim.evaluate.verify import Disagreement
    from cpsat_pim.mapper.explain import explain_network
    from cpsat_pim.report.progress import LiveProgress

    what = _read_mapped(arguments) if _holds_mappings(arguments.network) else _read_unmapped(arguments)
    constraints = given_constraints(what.network, arguments.constraints)
    asked = _read_asked(what, arguments)
    check_outputs(arguments.json)
    started = time.monotonic()
    layers: Layers = []
    try:
        with LiveProgress(what.objective.kind, len(what.network.layers)) as report:
            found = explain_network(what.network, evolve(asked, report=report), constraints, what.mappings)
            layers = given(lambda: list(found))
    except Disagreement as disagreement:
        return report_disagreement(disagreement)
    _write(what, layers, arguments.json, time.monotonic() - started, asked.stop.is_set())
    return _verdict(what.network, layers, asked.stop.is_set())


# --- What was given --------------------------------------------------------------------------------------------------


def _holds_mappings(path: str) -> bool:
    """Whether a file is one of mappings: results, or YAML with such a key."""
    if not path.endswith((".yaml", ".yml")):
        return path.endswith(".json")
    from cpsat_pim.base.reading.nodes import file_text

    text = given(lambda: file_text(Path(path)))
    return re.search(r"^[^#]*\bmapping\s*:", text, re.MULTILINE) is not None


def _read_unmapped(arguments: argparse.Namespace) -> _Given:
    """Layers to be solved."""
    arguments.objective = arguments.objective or "energy"
    network, arch = read_given_layers(arguments), given_arch(arguments.arch or "default")
    return _Given(network=network, arch=arch, objective=given_objective(arguments), mappings={})


def _read_mapped(arguments: argparse.Namespace) -> _Given:
    """Mapped layers of a file, which gives the machine, and its objective if it is one of results; of these also layers
    without a mapping, for which one is looked for.
    """
    from attrs import evolve

    from cpsat_pim.report.jsonfile import read_mapped_layers
    from cpsat_pim.workload.network import Network, NetworkNode

    file = arguments.network
    if arguments.arch is not None:
        raise InputError(f"--arch: {file} says it already")
    refuse_bindings(arguments)
    cases = given(lambda: read_mapped_layers(file))
    result = _read_result(file)
    entries = result.get("layers") or [{"name": c.layer.name, "count": 1, "shape": c.layer} for c in cases]
    if not entries:
        raise InputError(f"{file}: holds no mapping")
    nodes = [
        NetworkNode(name=entry["name"], count=entry["count"], workload=evolve(entry["shape"], name=entry["name"]))
        for entry in entries
    ]
    network = given(lambda: Network(name=result.get("network", file), layers=nodes))
    return _Given(
        network=named_layers(network, arguments),
        arch=result["arch"] if result else cases[0].arch,
        objective=_objective(arguments, result.get("objective")),
        mappings={case.layer.name: case.mapping for case in cases},
    )


def _objective(arguments: argparse.Namespace, recorded: "Objective | None") -> "Objective":
    """What is asked for, else what the file was solved for."""
    if arguments.objective is None and recorded is not None and arguments.alpha is arguments.beta is None:
        return recorded
    arguments.objective = arguments.objective or "energy"
    return given_objective(arguments)


def _read_result(file: str) -> dict[str, Any]:
    """What a file of results says of all layers; nothing for other files."""
    from cpsat_pim.base.reading import read_json
    from cpsat_pim.report.jsonfile import build_result

    data = given(lambda: read_json(file)) if file.endswith(".json") else {}
    return given(lambda: build_result(file, data)) if "schema" in data else {}


def _read_asked(what: _Given, arguments: argparse.Namespace) -> "Asked":
    from cpsat_pim.mapper.explain import Asked
    from cpsat_pim.mapper.result import Budget

    asked = Asked(
        arch=what.arch,
        objective=what.objective,
        budget=Budget(cycles=arguments.max_cycles, fj=arguments.max_energy),
        upgrades=_read_upgrades(what.arch, arguments.upgrades),
        time_limit=arguments.time_limit,
        seed=arguments.seed,
    )
    for node in what.network.layers:
        given(partial(asked.problem, node.workload))
    return asked


def _read_upgrades(arch: "PIMArchitecture", wanted: list[str] | None) -> "list[Upgrade]":
    """All steps, those of some names, or none."""
    from cpsat_pim.base.reading import hint
    from cpsat_pim.mapper.explain import upgrades_of

    there = {upgrade.path: upgrade for upgrade in upgrades_of(arch)}
    if wanted is None or wanted == ["all"]:
        return [] if wanted is None else [*there.values()]
    for name in wanted:
        if name not in there:
            raise InputError(f"--upgrades: {arch.name} has no step {name!r}{hint(name, there)}")
    return [there[name] for name in dict.fromkeys(wanted)]


# --- Results ---------------------------------------------------------------------------------------------------------


def _write(what: _Given, layers: "Layers", json: str | None, seconds: float, interrupted: bool) -> None:
    """To standard output, and to the file that was asked for."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.report.explain import explained_document

    document = explained_document(
        what.network.name, what.arch.to_dict(), what.objective, layers, seconds=seconds, interrupted=interrupted
    )
    write_files(("standard output", lambda _: _print(layers)), (json, lambda path: write_json(document, path)))


def _print(layers: "Layers") -> None:
    from cpsat_pim.report.explain import print_explained
    from cpsat_pim.report.text import open_console

    with reader_may_leave():
        print_explained(open_console(sys.stdout), layers)


def _verdict(network: "Network", layers: "Layers", interrupted: bool) -> int:
    """The exit code; on stderr a line for what is missing."""
    unmapped = [node.name for node, explained in layers if explained.solved.mapping is None]
    if unmapped:
        note(f"no mapping for {', '.join(unmapped)}")
    return end_of_solving(network.layers, layers, unmapped, interrupted=interrupted)
