"""The program: its commands, and how it ends."""

import argparse
import sys

from cpsat_pim.base.interrupts import termination_interrupts
from cpsat_pim.cli import (
    baselines,
    compiling,
    explain,
    fronts,
    fuzzing,
    lists,
    mappings,
    models,
    reports,
    schedule,
    solving,
    sweeps,
)
from cpsat_pim.cli.arguments import EPILOG, Parser
from cpsat_pim.cli.output import (
    BAD_INPUT,
    INTERRUPTED,
    OK,
    PROGRAM,
    InputError,
    note,
    prepare_streams,
    print_mistakes,
    reader_may_leave,
)


def main(argv: list[str] | None = None) -> int:
    """Run a command; the exit code."""
    prepare_streams()
    try:
        with reader_may_leave(), termination_interrupts():
            return _run(sys.argv[1:] if argv is None else argv)
    except OSError as error:
        print_mistakes(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))
        return BAD_INPUT
    return OK


def _run(argv: list[str]) -> int:
    """Run a command; a mistake, an interruption and the end that argparse makes after `--help` as exit codes."""
    try:
        arguments = build_parser().parse_args(sweeps.spelled_out(argv))
        code: int = arguments.command(arguments)
        return code
    except InputError as error:
        print_mistakes(str(error))
        return BAD_INPUT
    except OverflowError as error:
        print_mistakes(f"a figure is too large to be counted in 64 bits: {error}")
        return BAD_INPUT
    except KeyboardInterrupt:
        note("interrupted")
        return INTERRUPTED
    except SystemExit as end:
        return int(end.code or 0)


def build_parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
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
        sweeps,
        baselines,
        fuzzing,
        compiling,
        lists,
    ):
        group.add_commands(commands)
    return parser
