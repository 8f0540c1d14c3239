"""`fuzz` (docs/fuzz.md): compare independent computations on random layers, machines and mappings."""

import argparse
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import add_command, add_seed, checked
from cpsat_pim.cli.output import (
    DISAGREEMENT,
    INTERRUPTED,
    OK,
    PROGRAM,
    InputError,
    check_outputs,
    note,
    print_errors,
    read_input,
    write_file,
)

if TYPE_CHECKING:
    from cpsat_pim.study.fuzz.campaign import Discovery

#: Seconds between lines that report the counts.
_PRINT_SECONDS = 30.0

_minutes = checked(float, lambda x: 0 < x <= 1e5, "must be a positive number of at most 1e5")


def add_commands(commands: Any) -> None:
    """Add the command `fuzz` to the parser."""
    text = "compare tables, simulation, solver and enumeration on random cases"
    parser = add_command(commands, "fuzz", text, fuzz)
    add = parser.add_argument
    add("--minutes", metavar="M", type=_minutes, default=1.0, help="how long (%(default)s)")
    add_seed(parser, "of random choices", metavar="S")
    add("-o", "--output", metavar="FILE", default="fuzz.json", help="file for a disagreement (%(default)s)")
    add("--replay", metavar="FILE", help="only repeat the comparison of such a file")


def fuzz(arguments: argparse.Namespace) -> int:
    """Run `fuzz` until the time limit, a disagreement, or Ctrl-C."""
    from cpsat_pim.base.interrupts import interrupt_stops
    from cpsat_pim.study.fuzz.campaign import run_campaign

    if arguments.replay is not None:
        return _replay(arguments.replay)
    check_outputs(arguments.output)
    print(f"seed {arguments.seed}", flush=True)
    printer, stop = _CountPrinter(), threading.Event()
    with _temporary_table_cache(), interrupt_stops(stop):
        on_discovery = partial(_write_early, path=arguments.output)
        discovery = run_campaign(arguments.seed, 60 * arguments.minutes, stop, printer.update, on_discovery)
    printer.print_counts()
    if discovery is not None:
        return _report(discovery, arguments.output)
    if stop.is_set():
        note("interrupted")
        return INTERRUPTED
    print("no disagreement")
    return OK


class _CountPrinter:
    """Prints the number of comparisons at regular intervals."""

    def __init__(self) -> None:
        self.started = self.printed_at = time.monotonic()
        self.counts, self.rounds = Counter[str](), 0

    def update(self, counts: Counter[str], rounds: int) -> None:
        """Store the counts, and print them if the last line is old enough."""
        self.counts, self.rounds = counts, rounds
        if rounds == 1 or time.monotonic() - self.printed_at >= _PRINT_SECONDS:
            self.print_counts()

    def print_counts(self) -> None:
        """Print the counts."""
        from cpsat_pim.study.fuzz.compare import COMPARISONS

        self.printed_at = time.monotonic()
        counts = ", ".join(f"{name} {self.counts[name]:,}" for name in COMPARISONS)
        print(f"{self.printed_at - self.started:6.0f} s  {self.rounds:,} rounds: {counts}", flush=True)


@contextmanager
def _temporary_table_cache() -> Iterator[None]:
    """Keep cached tables of random layers in a temporary directory, apart from the user's cache."""
    name = "CPSAT_PIM_CACHE"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory(prefix="cpsat_pim-") as directory:
        os.environ[name] = directory
        try:
            yield
        finally:
            os.environ.pop(name)
            os.environ.update({} if before is None else {name: before})


def _report(discovery: "Discovery", path: str) -> int:
    """Print the disagreement, write its reproducer, and return the exit code."""
    note(f"round {discovery.round}, {discovery.comparison}: a disagreement")
    for line in discovery.finding.lines:
        note(f"  {line}")
    try:
        _write(discovery, path)
    except InputError as error:
        print_errors(str(error))
        path = os.path.join(tempfile.mkdtemp(prefix="cpsat_pim-"), os.path.basename(path))
        _write(discovery, path)
    note(f"this is a bug, please report it with {path} (see `{PROGRAM} fuzz --replay {path}`)")
    return DISAGREEMENT


def _write_early(discovery: "Discovery", path: str) -> None:
    """Write the disagreement as soon as it is found. A failure is ignored here; the write at the end reports it."""
    with suppress(InputError):
        _write(discovery, path)


def _write(discovery: "Discovery", path: str) -> None:
    from cpsat_pim.study.fuzz.reproducer import write_discovery

    write_file(path, lambda path: write_discovery(discovery, path))


def _replay(path: str) -> int:
    """Repeat the comparison of a reproducer."""
    from cpsat_pim.study.fuzz.compare import Limits, compare
    from cpsat_pim.study.fuzz.reproducer import read_case

    name, case = read_input(lambda: read_case(path))
    with _temporary_table_cache():
        finding = compare(name, case, Limits())
    if finding is None:
        print(f"{name}: no disagreement")
        return OK
    print(f"{name}: a disagreement")
    for line in finding.lines:
        print(f"  {line}")
    return DISAGREEMENT
