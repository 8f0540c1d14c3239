"""`pareto`: the fronts of layers in latency and energy, and perhaps row activations."""

import argparse
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import (
    add_arch,
    add_command,
    add_layers,
    add_model_options,
    add_seed,
    add_time_limit,
    add_total_time,
    share,
)
from cpsat_pim.cli.models import read_given_layers
from cpsat_pim.cli.output import (
    check_outputs,
    end_of_solving,
    keeper,
    note_unmapped,
    reader_may_leave,
    write_files,
)
from cpsat_pim.cli.reports import check_page, page_writer
from cpsat_pim.cli.solving import check_layers_fit, given_arch, report_disagreement

if TYPE_CHECKING:
    from cpsat_pim.mapper.network.pareto import NetworkFronts
    from cpsat_pim.workload.network import Network


def add_commands(commands: Any) -> None:
    """The command's words."""
    parser = add_command(commands, "pareto", "find the latency-energy front of layers, each point proven", find_fronts)
    add = parser.add_argument
    text = "a shape as of `map`, or a network as of `run`"
    add("network", metavar="SHAPE|NETWORK", help=text)
    add_model_options(parser)
    add_layers(parser)
    add_arch(parser, default="default")
    add("--step", metavar="X%", type=share, default=0, help="each point needs X%% less energy than the last one (0)")
    add("--activations", action="store_true", help="trade row activations, too: the front in all three")
    add_time_limit(parser, "seconds per solve")
    add_total_time(parser, "seconds per layer")
    add_seed(parser)
    add("--json", metavar="FILE", help="write the fronts to a file, too (docs/json.md)")
    add("--mapping", metavar="FILE.yaml", help="write the points' mappings to a file that `simulate` reads")
    add("--html", metavar="FILE", help="draw the fronts on an HTML page, too (docs/report.md)")


def find_fronts(arguments: argparse.Namespace) -> int:
    """`pareto`: check all that was given, find, report, and say how it went."""
    from cpsat_pim.evaluate.verify import Disagreement
    from cpsat_pim.mapper.network.pareto import AXES, network_fronts
    from cpsat_pim.report.fronts import fronts_document

    network, arch = read_given_layers(arguments), given_arch(arguments.arch)
    step = Fraction(str(arguments.step))
    check_layers_fit(network, arch, *AXES)
    check_outputs(arguments.json, arguments.mapping, arguments.html)
    check_page(arguments.html)
    asked = {name: getattr(arguments, name) for name in ("time_limit", "total_time", "seed")}
    asked |= {"with_activations": arguments.activations, "keep": keeper(arguments.json, fronts_document)}
    try:
        fronts = network_fronts(network, arch, step=step, **asked)
    except Disagreement as disagreement:
        return report_disagreement(disagreement)
    _write_fronts(fronts, arguments)
    return _verdict(network, fronts)


# --- Results ---------------------------------------------------------------------------------------------------------


def _write_fronts(fronts: "NetworkFronts", arguments: argparse.Namespace) -> None:
    """To standard output, and to all files that were asked for."""
    from cpsat_pim.base.files import write_json, write_text
    from cpsat_pim.mapping.mapping_file import format_mapping_file
    from cpsat_pim.report.fronts import fronts_document, mapped_points

    document = fronts_document(fronts)
    mapped = mapped_points(fronts)
    write_files(
        ("standard output", lambda _: _print(fronts)),
        (arguments.json, lambda path: write_json(document, path)),
        (arguments.mapping, lambda path: write_text(format_mapping_file(fronts.arch, mapped), path)),
        (arguments.html, page_writer([("this run", document)])),
    )


def _print(fronts: "NetworkFronts") -> None:
    from cpsat_pim.report.fronts import print_fronts
    from cpsat_pim.report.text import open_console

    with reader_may_leave():
        print_fronts(open_console(sys.stdout), fronts)


def _verdict(network: "Network", fronts: "NetworkFronts") -> int:
    """The exit code; on stderr a line for what is missing."""
    unmapped = [layer.node.name for layer in fronts.layers if not layer.points]
    unproven = [layer.node.name for layer in fronts.layers if layer.points and not layer.front.is_complete]
    note_unmapped(unmapped)
    return end_of_solving(network.layers, fronts.layers, unmapped, unproven, interrupted=fronts.interrupted)
