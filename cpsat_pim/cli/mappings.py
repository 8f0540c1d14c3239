"""`simulate`, `trace`, `export`: simulate the mappings of a file, or write them for other tools."""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import add_command, add_mapped_file, add_timeline, gap, row_bits
from cpsat_pim.cli.output import (
    DISAGREEMENT,
    OK,
    InputError,
    check_names,
    check_not_overwritten,
    check_outputs,
    name_list,
    note,
    print_text,
    read_input,
    write_file,
    write_files,
)
from cpsat_pim.cli.reports import timeline_writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cpsat_pim.evaluate.cost import Figures
    from cpsat_pim.evaluate.verify import MappedLayer
    from cpsat_pim.export.dramtrace import AddressMap


def add_commands(commands: Any) -> None:
    """Add the commands `simulate`, `trace` and `export` to the parser."""
    parser = add_command(commands, "simulate", "simulate the mappings of a file, or a reproducer", simulate_file)
    add_mapped_file(parser)
    parser.add_argument("--constraints", metavar="FILE", help="report the violations of these constraints (.yaml)")
    parser.add_argument(
        "--second-order",
        action="store_true",
        help="print DRAM times with refresh, turnaround and overlapping activations, too",
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON (docs/json.md)")
    add_timeline(parser)
    text = "write the DRAM accesses of a mapping for a cycle-accurate simulator"
    _add_trace(add_command(commands, "trace", text, write_dram_trace))
    text = "write mappings as Timeloop's YAML, as loops with addresses (JSON), or as MLIR"
    _add_export(add_command(commands, "export", text, export_mappings))


def _add_trace(parser: argparse.ArgumentParser) -> None:
    add_mapped_file(parser)
    add = parser.add_argument
    add(
        "--format",
        choices=("ramulator2", "dramsim3"),
        required=True,
        help="the simulator that reads the trace (docs/export.md)",
    )
    add("-o", "--output", metavar="FILE", required=True, help="the trace")
    add("--row-bits", metavar="N", type=row_bits, default=16, help="bits of an address for the row (%(default)s)")
    add("--gap", metavar="N", type=gap, default=128, help="cycles between accesses (%(default)s)")
    add("--tensor", choices=("I", "W", "O"), help="only the accesses of this tensor")
    text = "write the simulator's configuration, too: an .ini file, or for ramulator2 a Python program"
    add("--config", metavar="FILE", help=text)


def _add_export(parser: argparse.ArgumentParser) -> None:
    add_mapped_file(parser)
    add = parser.add_argument
    add("--format", choices=("timeloop", "loops", "mlir"), required=True, help="what to write (docs/export.md)")
    add("-o", "--output", metavar="DIR", required=True, help="created if necessary; one file per layer, timeloop three")


# --- simulate --------------------------------------------------------------------------------------------------------


def simulate_file(arguments: argparse.Namespace) -> int:
    """Run `simulate`: print the simulated figures of each mapping beside the predicted ones."""
    cases = _read_mapped(arguments)
    if arguments.constraints is not None:
        _note_violations(cases, arguments.constraints)
    check_outputs(arguments.timeline, arguments.json)
    for output in (arguments.timeline, arguments.json):
        check_not_overwritten(output, arguments.file, arguments.constraints)
    records: list[dict[str, Any]] = []
    code = max([_simulate(case, arguments, records) for case in cases])
    write_files((arguments.timeline, timeline_writer(cases)), (arguments.json, partial(_write_records, records)))
    return code


def _write_records(records: list[dict[str, Any]], path: str) -> None:
    """Write what was simulated as JSON."""
    from cpsat_pim.base.files import write_json

    write_json({"schema": 1, "layers": records}, path)


def _note_violations(cases: "list[MappedLayer]", path: str) -> None:
    """Report on stderr which constraints the mappings violate."""
    from cpsat_pim.mapping.constraints import check_constraints, read_constraints

    constraints = read_input(lambda: read_constraints(path))
    for case in cases:
        for problem in check_constraints(case.mapping, constraints.of(case.layer.name)):
            note(f"{case.layer.name}: {problem}")


def _simulate(case: "MappedLayer", arguments: argparse.Namespace, records: list[dict[str, Any]]) -> int:
    """Print the figures of one mapping, and append them to `records`. Return 3 if prediction and simulation or
    prediction and file disagree, else 0.
    """
    from cpsat_pim.base.dims import Tensor
    from cpsat_pim.evaluate.cost import predict
    from cpsat_pim.evaluate.verify import simulate
    from cpsat_pim.mapping.check import check_mapping
    from cpsat_pim.mapping.loop_nest import format_padding
    from cpsat_pim.report.text import open_console, print_comparison

    name, file = case.layer.name, arguments.file
    if problems := check_mapping(case.layer, case.arch, case.mapping):
        if not case.is_reproducer:
            raise InputError("\n".join(f"{file}: {name}: {problem}" for problem in problems))
        for problem in problems:
            note(f"{name}: the mapping is illegal: {problem}")
        return DISAGREEMENT
    predicted = read_input(lambda: predict(case.layer, case.arch, case.mapping)).figures
    simulated = simulate(case.layer, case.arch, case.mapping)
    padding = format_padding(case.layer)
    print_comparison(open_console(sys.stdout), f"{name}, padded: {padding}" if padding else name, predicted, simulated)
    records.append({"name": name, "predicted": predicted.to_dict(), "simulated": simulated.to_dict()})
    if arguments.second_order:
        records[-1]["second_order"] = _print_second_order(case, simulated)
    wrong = predicted.differences(simulated)
    if wrong:
        note(f"{name}: prediction and simulation disagree on {', '.join(wrong)}")
    if (used := case.layer.used_inputs) < (whole := case.layer.elements(Tensor.I)):
        note(
            f"{name}: the stride skips inputs: {used:,} of the {whole:,} elements of I are used, tiles hold all of them"
        )
    figures = predicted.to_dict()
    stale = [key for key in figures if case.recorded is not None and case.recorded.get(key) != figures[key]]
    if stale:
        note(f"{name}: the file records other predictions for {', '.join(stale)}; was it edited?")
    if not wrong and not stale:
        print_text(f"{name}: all exact figures are equal, simulated and predicted")
    return DISAGREEMENT if wrong or stale else OK


def _print_second_order(case: "MappedLayer", figures: "Figures") -> dict[str, Any]:
    """Print the second-order figures of a mapping, and return them as plain data."""
    from cpsat_pim.evaluate.second_order import second_order
    from cpsat_pim.report.second_order import print_second_order
    from cpsat_pim.report.text import open_console

    effects = second_order(case.layer, case.arch, case.mapping, figures)
    print_second_order(open_console(sys.stdout), effects)
    return effects.to_dict()


# --- trace -----------------------------------------------------------------------------------------------------------


def write_dram_trace(arguments: argparse.Namespace) -> int:
    """Run `trace`: write the column accesses of one mapping, and print the counts that a simulator should report."""
    from cpsat_pim.base.files import write_text

    case = _only_case(_read_legal(arguments), arguments.file)
    check_outputs(arguments.output, arguments.config)
    check_not_overwritten(arguments.output, arguments.file)
    check_not_overwritten(arguments.config, arguments.file)
    configuration = read_input(lambda: _configuration(case, arguments))
    addresses = write_file(arguments.output, lambda path: _write_trace(case, path, arguments))
    if arguments.config is not None:
        write_file(arguments.config, lambda path: write_text(configuration(addresses), path))
    print_text(f"addresses: {addresses}")
    _print_expected(case, arguments.tensor)
    return OK


def _configuration(case: "MappedLayer", arguments: argparse.Namespace) -> "Callable[[AddressMap], str]":
    """Return what writes the configuration for an address map. Raise ValueError if the simulator cannot be configured
    for the machine, before a trace is written.
    """
    from pathlib import Path

    from cpsat_pim.export.dramtrace import AddressMap
    from cpsat_pim.export.simulators import CONFIGURATIONS

    def configuration(addresses: AddressMap) -> str:
        trace = str(Path(arguments.output).resolve())
        return CONFIGURATIONS[arguments.format](addresses, case.arch.dram_timings, trace, arguments.gap)

    if arguments.config is not None:
        configuration(AddressMap.of(case.arch, arguments.row_bits, case.mapping.banks, case.mapping.bank_counts))
    return configuration


def _write_trace(case: "MappedLayer", path: str, arguments: argparse.Namespace) -> "AddressMap":
    from cpsat_pim.base.dims import Tensor
    from cpsat_pim.base.files import replacing
    from cpsat_pim.export.dramtrace import write_trace

    mapped = (case.layer, case.arch, case.mapping)
    tensor = None if arguments.tensor is None else Tensor[arguments.tensor]
    with replacing(path) as file:
        return write_trace(
            *mapped, arguments.format, file, row_bits=arguments.row_bits, gap=arguments.gap, tensor=tensor
        )


def _print_expected(case: "MappedLayer", tensor: str | None) -> None:
    """Print the counts of a simulator that serves the accesses in order and leaves rows open; of one tensor, with its
    DRAM time, if one is named.
    """
    from attrs import evolve

    from cpsat_pim.base.dims import Tensor
    from cpsat_pim.evaluate.cost import stream_cycles
    from cpsat_pim.evaluate.verify import simulate

    arch = evolve(case.arch, page_policy="open")
    figures = simulate(case.layer, arch, case.mapping)
    counted: dict[str, tuple[int, ...]] = {
        "column accesses": figures.column_accesses,
        "row activations": figures.row_activations,
    }
    if tensor is not None:
        counted["DRAM cycles, back to back,"] = stream_cycles(case.layer, arch, case.mapping)
    for what, counts in counted.items():
        if tensor is None:
            print_text(f"{what} I / W / O: {' / '.join(map(str, counts))}, in all {sum(counts)}")
        else:
            print_text(f"{what} of {tensor}: {counts[Tensor[tensor]]}")
    if case.arch.page_policy != "open":
        note(
            f"{case.arch.name} closes its rows after each scan, which a trace cannot express; "
            "the activations assume open rows"
        )


# --- export ----------------------------------------------------------------------------------------------------------


def export_mappings(arguments: argparse.Namespace) -> int:
    """Run `export`: write each mapping with what the format needs of its problem and machine. A mapping that the format
    cannot express does not stop the others from being written.
    """
    cases = _read_legal(arguments)
    _check_stems([case.layer.name for case in cases], arguments.file)
    mistakes = []
    for case in cases:
        try:
            paths = write_file(arguments.output, partial(_export, case, arguments.format))
            print("\n".join(map(str, paths)))
        except InputError as error:
            mistakes.append(str(error))
    if mistakes:
        raise InputError("\n".join(dict.fromkeys(mistakes)))
    return OK


def _export(case: "MappedLayer", style: str, directory: str) -> "list[Path]":
    """Write the files of one layer and return their paths.

    Raises:
        ValueError: the format has no form for the mapping.
    """
    mapped = (case.layer, case.arch, case.mapping)
    if style == "timeloop":
        from cpsat_pim.export.timeloop import write_timeloop

        try:
            return write_timeloop(*mapped, directory)
        except ValueError as error:
            raise ValueError(f"{case.layer.name}: {error}") from error
    from cpsat_pim.export.loops import write_program

    return [write_program(*mapped, style, directory)]


def _check_stems(names: list[str], file: str) -> None:
    """Raise `InputError` if two layers would write files of the same name."""
    from cpsat_pim.base.files import file_stem

    stems = [file_stem(name) for name in names]
    for stem in stems:
        if stems.count(stem) > 1:
            raise InputError(f"{file}: {stems.count(stem)} layers have the file name {stem!r}; choose one with --layer")


# --- Input ------------------------------------------------------------------------------------------------------------


def _read_mapped(arguments: argparse.Namespace) -> list["MappedLayer"]:
    """Return the mapped layers of the given file, or the one that `--layer` names. Tell which have no mapping."""
    from cpsat_pim.report.jsonfile import read_mapped_layers, unmapped_layers

    cases = read_input(lambda: read_mapped_layers(arguments.file))
    if not cases:
        raise InputError(f"{arguments.file}: contains no mapping")
    unmapped = unmapped_layers(arguments.file)
    if arguments.layer is None:
        if unmapped:
            note(f"{arguments.file}: without a mapping: {name_list(unmapped)}")
        return cases
    if arguments.layer in unmapped:
        raise InputError(f"{arguments.file}: {arguments.layer} has no mapping")
    check_names([arguments.layer], [case.layer.name for case in cases], arguments.file)
    return [case for case in cases if case.layer.name == arguments.layer]


def _read_legal(arguments: argparse.Namespace) -> list["MappedLayer"]:
    """Return the mapped layers of the given file. Raise `InputError` if a mapping is illegal."""
    from cpsat_pim.mapping.check import check_mapping

    cases = _read_mapped(arguments)
    problems = [
        f"{arguments.file}: {case.layer.name}: {line}"
        for case in cases
        for line in check_mapping(case.layer, case.arch, case.mapping)
    ]
    if problems:
        raise InputError("\n".join(problems))
    return cases


def _only_case(cases: list["MappedLayer"], file: str) -> "MappedLayer":
    """Return the only mapping. Raise `InputError` if the file holds several."""
    from cpsat_pim.base.reading import hint

    if len(cases) > 1:
        names = [case.layer.name for case in cases]
        raise InputError(f"{file}: contains {len(cases)} mappings; choose one with --layer{hint('', names)}")
    return cases[0]
