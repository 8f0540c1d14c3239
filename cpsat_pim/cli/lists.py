"""`networks`, `archs`, `schema`: list what comes with the package."""

import argparse
import sys
from typing import Any

from cpsat_pim.cli.arguments import add_command
from cpsat_pim.cli.output import OK

#: The kinds of files that have a schema: the keys of `schema.FILE_KINDS`, which takes time to import.
KINDS = ("arch", "network", "mapping", "constraints", "sweep", "space", "tune", "plan-constraints")


def add_commands(commands: Any) -> None:
    """Add the commands `networks`, `archs` and `schema` to the parser."""
    add_command(commands, "networks", "list the networks that come with the package", list_networks)
    add_command(commands, "archs", "list the architectures that come with the package", list_archs)
    parser = add_command(commands, "schema", "print the JSON Schema of a kind of file, for editors", print_schema)
    parser.add_argument("kind", choices=KINDS)


def list_networks(arguments: argparse.Namespace) -> int:
    """Run `networks`: print the networks that come with the package."""
    from cpsat_pim.report.lists import print_networks
    from cpsat_pim.report.text import open_console
    from cpsat_pim.workload.network import network_names, read_network

    print_networks(open_console(sys.stdout), [read_network(name) for name in network_names()])
    return OK


def list_archs(arguments: argparse.Namespace) -> int:
    """Run `archs`: print the machines that come with the package."""
    from cpsat_pim.arch.reading import arch_names, read_arch
    from cpsat_pim.report.lists import print_archs
    from cpsat_pim.report.text import open_console

    print_archs(open_console(sys.stdout), [(name, read_arch(name)) for name in arch_names()])
    return OK


def print_schema(arguments: argparse.Namespace) -> int:
    """Run `schema`: print the JSON Schema of a kind of file."""
    import json

    from cpsat_pim.cli.schema import schema_of

    print(json.dumps(schema_of(arguments.kind), indent=1))
    return OK
