"""`import`: networks from models; and the network that a command is given, in whatever form."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from cpsat_pim.cli.arguments import add_command, add_model_options
from cpsat_pim.cli.output import OK, InputError, check_kept, given, note, written

if TYPE_CHECKING:
    from cpsat_pim.importers import ImportedNetwork
    from cpsat_pim.workload.network import Network


def add_commands(commands: Any) -> None:
    """The command's words."""
    parser = add_command(commands, "import", "write the network of a model as YAML", import_model)
    text = "an .onnx file, an exported .pt2 program, or a Python function as module:function"
    parser.add_argument("model", metavar="MODEL", help=text)
    add_model_options(parser)
    parser.add_argument("-o", "--output", metavar="FILE.yaml", help="the file to write (standard output)")


def import_model(arguments: argparse.Namespace) -> int:
    """`import`: a model's network to a file, or to standard output."""
    from cpsat_pim.base.files import write_text
    from cpsat_pim.report.text import open_console, print_networks
    from cpsat_pim.workload.network import format_network

    check_kept(arguments.output, arguments.model)
    imported = _import(arguments.model, arguments)
    binding = "".join(f", {name}={size}" for name, size in arguments.bind)
    left_out = [f"Left out: {line}" for line in imported.summary]
    text = format_network(imported.network, f"Imported from {arguments.model}{binding}.", *left_out)
    if arguments.output is None:
        sys.stdout.write(text)
        return OK
    written(arguments.output, lambda path: write_text(text, path))
    print_networks(open_console(sys.stdout), [imported.network])
    return OK


def read_given_network(arguments: argparse.Namespace) -> "Network":
    """The network that is given: by name, from a file, of a model, or of one layer by its shape."""
    from cpsat_pim.importers import is_model
    from cpsat_pim.workload.network import is_shape, read_network, shape_network

    if is_model(arguments.network):
        return _import(arguments.network, arguments).network
    refuse_bindings(arguments)
    read = shape_network if is_shape(arguments.network) else read_network
    return given(lambda: read(arguments.network))


def refuse_bindings(arguments: argparse.Namespace) -> None:
    """What is given is no model."""
    if arguments.bind:
        raise InputError("--bind is for models; the sizes of a file or a shape are in it")


def read_given_layers(arguments: argparse.Namespace) -> "Network":
    """The same with only the layers that `--layers` names, if it does."""
    return named_layers(read_given_network(arguments), arguments)


def named_layers(network: "Network", arguments: argparse.Namespace) -> "Network":
    """The layers that `--layers` names, or all."""
    if arguments.layers is None:
        return network
    return given(lambda: network.only(arguments.layers))


def _import(model: str, arguments: argparse.Namespace) -> "ImportedNetwork":
    """A model's network; on stderr what is not in it."""
    from cpsat_pim.importers import import_network

    bind = dict(arguments.bind)
    if len(bind) < len(arguments.bind):
        raise InputError("--bind: a name is given twice")
    imported = given(lambda: import_network(model, bind, skip_unsupported=arguments.unsupported == "skip"))
    for line in imported.summary:
        note(f"left out {line}")
    return imported
