"""`pareto`: compute Pareto fronts of layers in latency and energy, optionally also in row activations."""

import argparse
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import (
    add_arch,
    add_bytes,
    add_command,
    add_csv,
    add_layers,
    add_model_options,
    add_seed,
    add_time_limit,
    add_total_time,
    share,
)
from cpsat_pim.cli.given import check_layers_fit, given_arch, with_given_widths
from cpsat_pim.cli.models import read_given_layers
from cpsat_pim.cli.output import (
    check_outputs,
    closed_pipe_allowed,
    incremental_writer,
    note_unmapped,
    solving_exit_code,
    write_files,
)
from cpsat_pim.cli.reports import check_page, csv_writer, page_writer
from cpsat_pim.cli.solving import report_disagreement

if TYPE_CHECKING:
    from cpsat_pim.mapper.network.fronts import NetworkFronts
    from cpsat_pim.workload.network import Network


def add_commands(commands: Any) -> None:
    """Add the command `pareto` to the parser."""
    parser = add_command(
        commands, "pareto", "compute the latency-energy Pareto front of layers, each point proven", find_fronts
    )
    add = parser.add_argument
    text = "a shape (as for `map`), or a network (as for `run`)"
    add("network", metavar="SHAPE|NETWORK", help=text)
    add_model_options(parser)
    add_layers(parser)
    add_arch(parser, default="default")
    add_bytes(parser)
    add(
        "--step",
        metavar="X%",
        type=share,
        default=0,
        help="each point has at least X%% less energy than the previous one (0)",
    )
    add("--activations", action="store_true", help="also minimize row activations: the front in all three")
    add_time_limit(parser, "seconds per solve")
    add_total_time(parser, "seconds per layer")
    add_seed(parser)
    add("--json", metavar="FILE", help="also write the fronts to a file (docs/json.md)")
    add_csv(parser, "a row per point")
    add("--mapping", metavar="FILE.yaml", help="write the points' mappings to a file that `simulate` reads")
    add("--html", metavar="FILE", help="also draw the fronts on an HTML page (docs/report.md)")


def find_fronts(arguments: argparse.Namespace) -> int:
    """Run `pareto`: check the arguments, compute the fronts, and write the results."""
    from cpsat_pim.evaluate.verify import Disagreement
    from cpsat_pim.mapper.network.front_points import AXES
    from cpsat_pim.mapper.network.fronts import network_fronts
    from cpsat_pim.mapper.network.pareto import FrontRequest
    from cpsat_pim.mapper.search import SolveRequest
    from cpsat_pim.report.fronts import fronts_document

    arch = given_arch(arguments.arch)
    network = with_given_widths(read_given_layers(arguments), arch, arguments.bytes)
    step = Fraction(str(arguments.step))
    check_layers_fit(network, arch, *AXES)
    check_outputs(arguments.json, arguments.csv, arguments.mapping, arguments.html)
    check_page(arguments.html)
    request = FrontRequest(
        step=step,
        with_activations=arguments.activations,
        total_time=arguments.total_time,
        each=SolveRequest(objective=AXES[0], then=None, time_limit=arguments.time_limit, seed=arguments.seed),
    )
    try:
        fronts = network_fronts(network, arch, request, on_front=incremental_writer(arguments.json, fronts_document))
    except Disagreement as disagreement:
        return report_disagreement(disagreement)
    _write_fronts(fronts, arguments)
    return _exit_code(network, fronts)


# --- Results ---------------------------------------------------------------------------------------------------------


def _write_fronts(fronts: "NetworkFronts", arguments: argparse.Namespace) -> None:
    """Print the fronts, and write all requested files."""
    from cpsat_pim.base.files import write_json, write_text
    from cpsat_pim.mapping.mapping_file import format_mapping_file
    from cpsat_pim.report.fronts import fronts_document, mapped_points, points_document

    document = fronts_document(fronts)
    mapped = mapped_points(fronts)
    write_files(
        ("standard output", lambda _: _print(fronts)),
        (arguments.json, lambda path: write_json(document, path)),
        (arguments.csv, csv_writer(points_document(fronts))),
        (arguments.mapping, lambda path: write_text(format_mapping_file(fronts.arch, mapped), path)),
        (arguments.html, page_writer([("this run", document)])),
    )


def _print(fronts: "NetworkFronts") -> None:
    from cpsat_pim.report.fronts import print_fronts
    from cpsat_pim.report.text import open_console

    with closed_pipe_allowed():
        print_fronts(open_console(sys.stdout), fronts)


def _exit_code(network: "Network", fronts: "NetworkFronts") -> int:
    """Return the exit code, and name on stderr the layers without a mapping or without a complete front."""
    unmapped = [layer.node.name for layer in fronts.layers if not layer.points]
    unproven = [layer.node.name for layer in fronts.layers if layer.points and not layer.front.is_complete]
    note_unmapped(unmapped)
    return solving_exit_code(network.layers, fronts.layers, unmapped, unproven, interrupted=fronts.interrupted)
