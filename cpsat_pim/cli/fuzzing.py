"""`fuzz` (docs/fuzz.md): random layers, machines and mappings, on which independent answers must agree."""

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
    given,
    note,
    print_mistakes,
    written,
)

if TYPE_CHECKING:
    from cpsat_pim.study.fuzz.campaign import Discovery

#: Seconds between lines that tell the counts.
_TELL_SECONDS = 30.0

_minutes = checked(float, lambda x: 0 < x <= 1e5, "must be a positive number of at most 1e5")


def add_commands(commands: Any) -> None:
    """The command's words."""
    text = "compare tables, simulation, solver and enumeration on random cases"
    parser = add_command(commands, "fuzz", text, fuzz)
    add = parser.add_argument
    add("--minutes", metavar="M", type=_minutes, default=1.0, help="how long (%(default)s)")
    add_seed(parser, "of what is drawn", metavar="S")
    add("-o", "--output", metavar="FILE", default="fuzz.json", help="where a disagreement goes (%(default)s)")
    add("--replay", metavar="FILE", help="make the comparison of such a file again, and nothing else")


def fuzz(arguments: argparse.Namespace) -> int:
    """`fuzz`: until time is over, a disagreement is found, or Ctrl-C."""
    from cpsat_pim.base.interrupts import interrupt_stops
    from cpsat_pim.study.fuzz.campaign import run_campaign

    if arguments.replay is not None:
        return _replay(arguments.replay)
    check_outputs(arguments.output)
    print(f"seed {arguments.seed}", flush=True)
    tell, stop = _Teller(), threading.Event()
    with _tables_of_its_own(), interrupt_stops(stop):
        keep = partial(_keep, path=arguments.output)
        discovery = run_campaign(arguments.seed, 60 * arguments.minutes, stop, tell.hear, keep)
    tell.tell()
    if discovery is not None:
        return _report(discovery, arguments.output)
    if stop.is_set():
        note("interrupted")
        return INTERRUPTED
    print("no disagreement")
    return OK


class _Teller:
    """Prints the counts from time to time."""

    def __init__(self) -> None:
        self.started = self.told = time.monotonic()
        self.counts, self.rounds = Counter[str](), 0

    def hear(self, counts: Counter[str], rounds: int) -> None:
        """Take the counts, and print them if the last time is long ago."""
        self.counts, self.rounds = counts, rounds
        if rounds == 1 or time.monotonic() - self.told >= _TELL_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Print the counts."""
        from cpsat_pim.study.fuzz.compare import COMPARISONS

        self.told = time.monotonic()
        counts = ", ".join(f"{name} {self.counts[name]:,}" for name in COMPARISONS)
        print(f"{self.told - self.started:6.0f} s  {self.rounds:,} rounds: {counts}", flush=True)


@contextmanager
def _tables_of_its_own() -> Iterator[None]:
    """Tables of random layers are kept as long as this lasts, not among those of the user."""
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
    """Tell and write what was found."""
    note(f"round {discovery.round}, {discovery.comparison}: a disagreement")
    for line in discovery.finding.lines:
        note(f"  {line}")
    try:
        _write(discovery, path)
    except InputError as error:
        print_mistakes(str(error))
        path = os.path.join(tempfile.mkdtemp(prefix="cpsat_pim-"), os.path.basename(path))
        _write(discovery, path)
    note(f"this is a bug, please report it with {path} (see `{PROGRAM} fuzz --replay {path}`)")
    return DISAGREEMENT


def _keep(discovery: "Discovery", path: str) -> None:
    """Write it as it is found, if that can be; the end tells."""
    with suppress(InputError):
        _write(discovery, path)


def _write(discovery: "Discovery", path: str) -> None:
    from cpsat_pim.study.fuzz.reproducer import write_discovery

    written(path, lambda path: write_discovery(discovery, path))


def _replay(path: str) -> int:
    """Make one comparison."""
    from cpsat_pim.mapper.search import Options
    from cpsat_pim.study.fuzz.compare import compare
    from cpsat_pim.study.fuzz.reproducer import read_case

    name, case = given(lambda: read_case(path))
    with _tables_of_its_own():
        finding = compare(name, case, Options())
    if finding is None:
        print(f"{name}: no disagreement")
        return OK
    print(f"{name}: a disagreement")
    for line in finding.lines:
        print(f"  {line}")
    return DISAGREEMENT
