"""`explain`: say why a layer has no mapping, what bounds the mapping it has, and what larger hardware would gain."""

import argparse
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cpsat_pim.cli.arguments import (
    add_arch,
    add_bytes,
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
from cpsat_pim.cli.given import given_arch, given_constraints, given_objective, with_given_widths
from cpsat_pim.cli.models import named_layers, read_given_layers, refuse_bindings
from cpsat_pim.cli.output import (
    InputError,
    check_outputs,
    closed_pipe_allowed,
    note,
    read_input,
    solving_exit_code,
    write_files,
)
from cpsat_pim.cli.solving import report_disagreement

if TYPE_CHECKING:
    from cpsat_pim.arch import PIMArchitecture
    from cpsat_pim.mapper.explain import ExplainRequest, Upgrade
    from cpsat_pim.mapper.result import Objective
    from cpsat_pim.mapping import Mapping
    from cpsat_pim.mapping.constraints import NetworkConstraints
    from cpsat_pim.report.explain import Layers
    from cpsat_pim.workload.network import Network

_cycles = checked(int, lambda n: 0 < n < 2**62, "must be a positive integer")


def _parse_energy(text: str) -> int:
    """Read an energy such as `1.5 uJ`, in nJ without a unit, and return whole femtojoules."""
    from cpsat_pim.base.units import FJ_PER_NJ, amount_in, exact_number

    nanojoules = exact_number(text)
    return int((amount_in(text, ("nJ",), {}) if nanojoules is None else nanojoules) * FJ_PER_NJ)


_energy = checked(_parse_energy, lambda fj: 0 < fj < 2**62, "must be a positive energy such as 1.5uJ (nJ without unit)")


def add_commands(commands: Any) -> None:
    """Add the command `explain` to the parser."""
    text = "explain why layers have no mapping, what limits the mapping they have, and what a larger machine would gain"
    parser = add_command(commands, "explain", text, explain)
    add = parser.add_argument
    text = (
        "a shape (as for `map`), a network (as for `run`), or mappings (as for `simulate`), which are not solved again"
    )
    add("network", metavar="SHAPE|NETWORK|FILE", help=text)
    add_model_options(parser)
    add_layers(parser)
    add_arch(parser)
    add_bytes(parser)
    add_constraints(parser)
    add("--max-cycles", metavar="N", type=_cycles, help="only mappings of at most N predicted cycles")
    add("--max-energy", metavar="E", type=_energy, help="only mappings of at most this energy: 1.5uJ")
    add_objective(parser)
    text = "solve again with one resource doubled at a time: all, or some (docs/explain.md)"
    add("--upgrades", metavar="A,B", type=names, help=text)
    add_time_limit(parser, "seconds per solve")
    add_seed(parser)
    add("--json", metavar="FILE", help="also write the explanations to a file (docs/explain.md)")


class _Given(NamedTuple):  # No attrs here: `--help` would wait for its import.
    """What is to be explained: the layers, the given mappings of those layers that must not be solved again, and the
    constraints under which a file of results was made.
    """

    network: "Network"
    arch: "PIMArchitecture"
    objective: "Objective"
    mappings: "dict[str, Mapping]"
    constraints: "NetworkConstraints | None" = None


def explain(arguments: argparse.Namespace) -> int:
    """Run `explain`: check the arguments, explain each layer, and write the results."""
    from attrs import evolve

    from cpsat_pim.evaluate.verify import Disagreement
    from cpsat_pim.mapper.explain import explain_network
    from cpsat_pim.report.progress import LiveProgress

    what = _read_mapped(arguments) if _holds_mappings(arguments.network) else _read_unmapped(arguments)
    constraints = given_constraints(what.network, arguments, what.constraints)
    request = _read_request(what, constraints, arguments)
    check_outputs(arguments.json)
    started = time.monotonic()
    layers: Layers = []
    try:
        with LiveProgress(what.objective.kind, len(what.network.layers)) as report:
            found = explain_network(what.network, evolve(request, on_progress=report), constraints, what.mappings)
            layers = read_input(lambda: list(found))
    except Disagreement as disagreement:
        return report_disagreement(disagreement)
    _write(what, layers, arguments.json, time.monotonic() - started, request.stop.is_set())
    return _exit_code(what.network, layers, request.stop.is_set())


# --- Input ------------------------------------------------------------------------------------------------------------


def _holds_mappings(path: str) -> bool:
    """Return whether a file holds mappings: a results file, or YAML with a `mapping` key."""
    if not path.endswith((".yaml", ".yml")):
        return path.endswith(".json")
    from cpsat_pim.base.reading.text import file_text

    text = read_input(lambda: file_text(Path(path)))
    return re.search(r"^[^#]*\bmapping\s*:", text, re.MULTILINE) is not None


def _read_unmapped(arguments: argparse.Namespace) -> _Given:
    """Read layers that have no mapping yet."""
    arguments.objective = arguments.objective or "energy"
    arch = given_arch(arguments.arch or "default")
    network = with_given_widths(read_given_layers(arguments), arch, arguments.bytes)
    return _Given(network=network, arch=arch, objective=given_objective(arguments), mappings={})


def _read_mapped(arguments: argparse.Namespace) -> _Given:
    """Read mapped layers from a file. The file gives the machine; a results file also gives the objective, the
    constraints, and the layers without a mapping, which are solved.
    """
    from attrs import evolve

    from cpsat_pim.mapping.constraints import NetworkConstraints
    from cpsat_pim.report.jsonfile import read_mapped_layers
    from cpsat_pim.workload.network import Network, NetworkNode

    file = arguments.network
    if arguments.arch is not None:
        raise InputError(f"--arch: {file} already gives it")
    if arguments.bytes is not None:
        raise InputError(f"--bytes: {file} already gives them")
    refuse_bindings(arguments)
    cases = read_input(lambda: read_mapped_layers(file))
    result = _read_result(file)
    entries = result.get("layers") or [{"name": c.layer.name, "count": 1, "shape": c.layer} for c in cases]
    if not entries:
        raise InputError(f"{file}: contains no mapping")
    nodes = [
        NetworkNode(name=entry["name"], count=entry["count"], workload=evolve(entry["shape"], name=entry["name"]))
        for entry in entries
    ]
    network = named_layers(read_input(lambda: Network(name=result.get("network", file), layers=nodes)), arguments)
    kept = {node.name for node in network.layers}
    recorded = {e["name"]: e["constraints"] for e in entries if "constraints" in e and e["name"] in kept}
    return _Given(
        network=network,
        arch=result["arch"] if result else cases[0].arch,
        objective=_objective(arguments, result.get("objective")),
        mappings={case.layer.name: case.mapping for case in cases},
        constraints=NetworkConstraints(layers=recorded),
    )


def _objective(arguments: argparse.Namespace, recorded: "Objective | None") -> "Objective":
    """Return the objective of the command line or, without one, the objective that the file records."""
    if arguments.objective is None and recorded is not None and arguments.alpha is arguments.beta is None:
        return recorded
    arguments.objective = arguments.objective or "energy"
    return given_objective(arguments)


def _read_result(file: str) -> dict[str, Any]:
    """Return the content of a results file, or an empty dict for other files."""
    from cpsat_pim.base.reading import read_json
    from cpsat_pim.report.jsonfile import build_result

    data = read_input(lambda: read_json(file)) if file.endswith(".json") else {}
    return read_input(lambda: build_result(file, data)) if "schema" in data else {}


def _read_request(what: _Given, constraints: "NetworkConstraints", arguments: argparse.Namespace) -> "ExplainRequest":
    from cpsat_pim.mapper.explain import ExplainRequest
    from cpsat_pim.mapper.result import Budget
    from cpsat_pim.mapper.search import SolveRequest

    solve = SolveRequest(
        then=None,
        objective=what.objective,
        budget=Budget(cycles=arguments.max_cycles, fj=arguments.max_energy),
        time_limit=arguments.time_limit,
        seed=arguments.seed,
    )
    chooses = any(constraints.of(node.name).bank_counts is None for node in what.network.layers)
    upgrades = _read_upgrades(what.arch, chooses, arguments.upgrades)
    request = ExplainRequest(arch=what.arch, solve=solve, upgrades=upgrades)
    for node in what.network.layers:
        read_input(partial(request.problem, node.workload))
    return request


def _read_upgrades(arch: "PIMArchitecture", chooses_bank_counts: bool, wanted: list[str] | None) -> "list[Upgrade]":
    """Return the upgrades named by `--upgrades`: all, some, or none."""
    from cpsat_pim.base.reading import hint
    from cpsat_pim.mapper.explain import upgrades_of

    there = {upgrade.path: upgrade for upgrade in upgrades_of(arch, chooses_bank_counts)}
    if wanted is None or wanted == ["all"]:
        return [] if wanted is None else [*there.values()]
    for name in wanted:
        if name not in there:
            raise InputError(f"--upgrades: {arch.name} has no step {name!r}{hint(name, there)}")
    return [there[name] for name in dict.fromkeys(wanted)]


# --- Results ---------------------------------------------------------------------------------------------------------


def _write(what: _Given, layers: "Layers", json: str | None, seconds: float, interrupted: bool) -> None:
    """Print the explanations, and write them to the `--json` file."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.report.explain import explained_document

    document = explained_document(
        what.network.name, what.arch.to_dict(), what.objective, layers, seconds=seconds, interrupted=interrupted
    )
    write_files(("standard output", lambda _: _print(layers)), (json, lambda path: write_json(document, path)))


def _print(layers: "Layers") -> None:
    from cpsat_pim.report.explain import print_explained
    from cpsat_pim.report.text import open_console

    with closed_pipe_allowed():
        print_explained(open_console(sys.stdout), layers)


def _exit_code(network: "Network", layers: "Layers", interrupted: bool) -> int:
    """Return the exit code, and name on stderr the layers without a mapping."""
    unmapped = [node.name for node, explained in layers if explained.solved.mapping is None]
    if unmapped:
        note(f"no mapping for {', '.join(unmapped)}")
    return solving_exit_code(network.layers, layers, unmapped, interrupted=interrupted)
