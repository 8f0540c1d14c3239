"""`schedule` (docs/rings.md): rings for the data exchange of sharing sets on a mesh, with proof."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import add_command, add_seed, checked, names, seconds
from cpsat_pim.cli.output import (
    DISAGREEMENT,
    OK,
    InputError,
    check_not_overwritten,
    check_outputs,
    closed_pipe_allowed,
    note,
    read_input,
    write_files,
)

if TYPE_CHECKING:
    from cpsat_pim.planner.rings.baselines import Outcome
    from cpsat_pim.planner.rings.instance import Instance, Mesh
    from cpsat_pim.planner.rings.schedule import Effort, Schedule
    from cpsat_pim.planner.rings.two_phase import TwoPhase

_draws = checked(int, lambda n: 1 <= n <= 10_000, "must be an integer from 1 to 10000")
_flits = checked(int, lambda n: 1 <= n <= 10**9, "must be an integer from 1 to 10^9")


def add_commands(commands: Any) -> None:
    """Add the command `schedule` to the parser."""
    parser = add_command(commands, "schedule", "schedule the data exchange of sharing sets on a mesh", run_schedule)
    add = parser.add_argument
    add("--mesh", metavar="RxC", required=True, help="rows x columns of nodes, like 16x16")
    which = parser.add_mutually_exclusive_group(required=True)
    text = "digits of row x column numbers that run within a set, most significant first, like 1100x1100"
    which.add_argument("--free", metavar="BITSxBITS", help=text)
    which.add_argument(
        "--sets", metavar="FILE.json", help='{"sets": [[node, ...], ...]}; a node is a number or [row, column]'
    )
    add("--baselines", metavar="A,B", type=names, help="tsp, shp: shortest rings and paths, drawn at random")
    add("--draws", metavar="N", type=_draws, default=20, help="draws of each baseline (%(default)s)")
    add(
        "--chunk-flits", metavar="N", type=_flits, default=64, help="flits a chunk, for estimates of time (%(default)s)"
    )
    add("--time-limit", metavar="S", type=seconds, default=30.0, help="seconds of search (%(default)g)")
    add_seed(parser, "of the search and of the draws")
    add("--json", metavar="FILE", help="write rings, bound and certificate to a file, too")
    add("--html", metavar="FILE", help="write a page with the rings drawn")
    add("--svg", metavar="FILE", help="write the picture alone")


def run_schedule(arguments: argparse.Namespace) -> int:
    """Run `schedule`: print load, bound and rings, and write the requested files."""
    from cpsat_pim.base.files import write_json, write_text
    from cpsat_pim.planner.rings.check import Disagreement, check_schedule
    from cpsat_pim.planner.rings.document import schedule_document
    from cpsat_pim.planner.rings.picture import draw
    from cpsat_pim.planner.rings.schedule import Effort
    from cpsat_pim.planner.rings.text import format_exchanges, format_outcomes, format_schedule, page

    instance = _given_instance(arguments)
    _check_baselines(arguments, instance)
    check_not_overwritten(arguments.json, arguments.sets)
    check_outputs(arguments.json, arguments.html, arguments.svg)
    effort = Effort(seconds=arguments.time_limit, seed=arguments.seed)
    schedule = _scheduled(instance, effort)
    try:
        check_schedule(schedule)
    except Disagreement as disagreement:
        note(f"{disagreement}: this is a bug, please report it")
        return DISAGREEMENT
    outcomes, exchanges = _baselines(arguments, instance), _exchanges(schedule, effort)
    lines = [*format_schedule(schedule), *format_outcomes(schedule, outcomes)]
    lines += format_exchanges(exchanges, arguments.chunk_flits)
    with closed_pipe_allowed():
        sys.stdout.write("\n".join(lines) + "\n")
    write_files(
        (arguments.json, lambda path: write_json(schedule_document(schedule, outcomes, exchanges), path)),
        (arguments.html, lambda path: write_text(page(schedule, lines), path)),
        (arguments.svg, lambda path: write_text(draw(schedule), path)),
    )
    return OK


# --- Input ------------------------------------------------------------------------------------------------------------


def _given_mesh(arguments: argparse.Namespace) -> "Mesh":
    from cpsat_pim.planner.rings.instance import read_mesh

    try:
        return read_mesh(arguments.mesh)
    except ValueError as error:
        raise InputError(f"--mesh: {error}") from error


def _given_instance(arguments: argparse.Namespace) -> "Instance":
    from cpsat_pim.planner.rings.document import read_sets
    from cpsat_pim.planner.rings.instance import masked_instance, read_mask

    mesh = _given_mesh(arguments)
    if arguments.sets is not None:
        return read_input(lambda: read_sets(arguments.sets, mesh))
    try:
        return masked_instance(mesh, read_mask(arguments.free, mesh))
    except ValueError as error:
        raise InputError(f"--free: {error}") from error


def _check_baselines(arguments: argparse.Namespace, instance: "Instance") -> None:
    from cpsat_pim.base.reading import hint
    from cpsat_pim.planner.rings.baselines import NAMES, check_sizes

    for name in arguments.baselines or ():
        if name not in NAMES:
            raise InputError(f"--baselines: no baseline is named {name!r}{hint(name, NAMES)}")
    if arguments.baselines:
        try:
            check_sizes(instance)
        except ValueError as error:
            raise InputError(f"--baselines: {error}") from error


# --- The work ----------------------------------------------------------------------------------------------------


def _scheduled(instance: "Instance", effort: "Effort") -> "Schedule":
    """Masks are searched as for the table of loads."""
    from cpsat_pim.planner.rings.schedule import schedule_rings
    from cpsat_pim.planner.rings.table import masked_schedule

    if instance.mask is not None:
        return masked_schedule(instance.mesh, instance.mask, effort)
    return schedule_rings(instance, effort)


def _baselines(arguments: argparse.Namespace, instance: "Instance") -> "list[Outcome]":
    from cpsat_pim.planner.rings.baselines import outcomes

    wanted = dict.fromkeys(arguments.baselines or ())
    return [found for name in wanted for found in outcomes(instance, name, arguments.draws, arguments.seed)]


def _exchanges(schedule: "Schedule", effort: "Effort") -> "list[tuple[str, TwoPhase]]":
    """The ring exchange, and two phases in both orders where sets are grids."""
    from cpsat_pim.planner.rings.two_phase import one_phase, two_phase

    found = [("one ring a set", one_phase(schedule))]
    for name, is_rows_first in (("rows, then columns", True), ("columns, then rows", False)):
        exchange = two_phase(schedule.instance, effort, is_rows_first=is_rows_first)
        if exchange is not None:
            found.append((name, exchange))
    return found
