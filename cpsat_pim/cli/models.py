"""`import`: write the network of a model; and read the network that any command is given, in each of its forms."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import add_command, add_model_options
from cpsat_pim.cli.output import OK, InputError, check_not_overwritten, note, read_input, write_file

if TYPE_CHECKING:
    from cpsat_pim.importers import ImportedNetwork
    from cpsat_pim.workload.network import Network


def add_commands(commands: Any) -> None:
    """Add the command `import` to the parser."""
    parser = add_command(commands, "import", "write the network of a model as YAML", import_model)
    text = "an .onnx file, an exported .pt2 program, or a Python function as module:function"
    parser.add_argument("model", metavar="MODEL", help=text)
    add_model_options(parser)
    parser.add_argument("-o", "--output", metavar="FILE.yaml", help="the file to write (standard output)")


def import_model(arguments: argparse.Namespace) -> int:
    """Run `import`: write a model's network to a file or to standard output."""
    from cpsat_pim.base.files import write_text
    from cpsat_pim.report.lists import print_networks
    from cpsat_pim.report.text import open_console
    from cpsat_pim.workload.network_text import format_network

    check_not_overwritten(arguments.output, arguments.model)
    imported = _import(arguments.model, arguments)
    binding = "".join(f", {name}={size}" for name, size in arguments.bind)
    skipped = [f"Skipped: {line}" for line in imported.summary]
    text = format_network(imported.network, f"Imported from {arguments.model}{binding}.", *skipped)
    if arguments.output is None:
        sys.stdout.write(text)
        return OK
    write_file(arguments.output, lambda path: write_text(text, path))
    print_networks(open_console(sys.stdout), [imported.network])
    return OK


def read_given_network(arguments: argparse.Namespace) -> "Network":
    """Read the network argument: a preset's name, a file, a model, or the shape of one layer."""
    from cpsat_pim.importers import is_model
    from cpsat_pim.workload.network import read_network
    from cpsat_pim.workload.network_text import is_shape, shape_network

    if is_model(arguments.network):
        return _import(arguments.network, arguments).network
    if is_shape(arguments.network):
        refuse_bindings(arguments)
        return read_input(lambda: shape_network(arguments.network))
    return read_input(lambda: read_network(arguments.network, parameters=_given_bindings(arguments)))


def _given_bindings(arguments: argparse.Namespace) -> dict[str, int]:
    """Return the values of `--bind` by name."""
    bind = dict(arguments.bind)
    if len(bind) < len(arguments.bind):
        raise InputError("--bind: a name is given twice")
    return bind


def refuse_bindings(arguments: argparse.Namespace) -> None:
    """Raise `InputError` if `--bind` is given although the network is no model."""
    if arguments.bind:
        raise InputError("--bind needs a model, or a network with parameters; these sizes are fixed")


def read_given_layers(arguments: argparse.Namespace) -> "Network":
    """Read the network argument, restricted to the layers of `--layers` if given."""
    return named_layers(read_given_network(arguments), arguments)


def named_layers(network: "Network", arguments: argparse.Namespace) -> "Network":
    """Return the network restricted to the layers of `--layers`, or all of it."""
    if arguments.layers is None:
        return network
    return read_input(lambda: network.only(arguments.layers))


def _import(model: str, arguments: argparse.Namespace) -> "ImportedNetwork":
    """Import a model's network, and report on stderr the operators that are not part of it."""
    from cpsat_pim.importers import import_network

    bind = _given_bindings(arguments)
    imported = read_input(lambda: import_network(model, bind, skip_unsupported=arguments.unsupported == "skip"))
    for line in imported.summary:
        note(f"skipped {line}")
    if imported.skipped:
        network, left = imported.network, len(imported.skipped)
        note(
            f"{left} of {left + len(network.layers)} operators that compute are in no total; "
            f"the others have {network.total_macs:,} MACs"
        )
        _note_work_left_out(imported)
    return imported


def _note_work_left_out(imported: "ImportedNetwork") -> None:
    """Report the skipped operators whose multiply-accumulates are known, and their share of the known work."""
    known = {operator.name: operator.macs for operator in imported.skipped if operator.macs is not None}
    if known:
        left = sum(known.values())
        listed = ", ".join(f"{name} {macs:,} MACs" for name, macs in known.items())
        note(f"left out: {listed}: {left / (left + imported.network.total_macs):.1%} of the work that is known")
