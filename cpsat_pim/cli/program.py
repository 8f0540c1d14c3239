"""The program: build the parser, run one command, and return its exit code."""

import argparse
import sys

from cpsat_pim.base.interrupts import exit_by_code, termination_interrupts
from cpsat_pim.cli import (
    baselines,
    compiling,
    explain,
    fronts,
    fuzzing,
    lists,
    mappings,
    models,
    plan,
    reports,
    schedule,
    solving,
    sweeps,
    tune,
)
from cpsat_pim.cli.arguments import EPILOG, Parser
from cpsat_pim.cli.output import (
    BAD_INPUT,
    INTERRUPTED,
    OK,
    PROGRAM,
    InputError,
    closed_pipe_allowed,
    note,
    prepare_streams,
    print_errors,
)


def main(argv: list[str] | None = None) -> int:
    """Run the command of `argv` and return the exit code."""
    prepare_streams()
    try:
        with closed_pipe_allowed(), termination_interrupts():
            return _run(sys.argv[1:] if argv is None else argv)
    except OSError as error:
        print_errors(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))
        return BAD_INPUT
    return OK


def _run(argv: list[str]) -> int:
    """Run the command. Return an exit code for a mistake, an interruption, and the `SystemExit` of argparse."""
    try:
        _check_environment()
        arguments = build_parser().parse_args(sweeps.expand_shorthand(argv))
        code: int = arguments.command(arguments)
        return code
    except InputError as error:
        print_errors(str(error))
        return BAD_INPUT
    except OverflowError as error:
        print_errors(f"a figure exceeds 64 bits: {error}")
        return BAD_INPUT
    except KeyboardInterrupt:
        note("interrupted")
        exit_by_code()
        return INTERRUPTED
    except SystemExit as end:
        return int(end.code or 0)


def _check_environment() -> None:
    """Raise `InputError` if another package has the import name of a part of this one."""
    from cpsat_pim.base.extras import ForeignTables, check_tables

    try:
        check_tables()
    except ForeignTables as error:
        raise InputError(str(error)) from error


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    parser = Parser(
        prog=PROGRAM,
        description="Provably optimal mappings of neural-network layers onto DRAM processing-in-memory accelerators.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in (
        solving,
        fronts,
        schedule,
        explain,
        reports,
        mappings,
        models,
        plan,
        sweeps,
        tune,
        baselines,
        fuzzing,
        compiling,
        lists,
    ):
        group.add_commands(commands)
    return parser
