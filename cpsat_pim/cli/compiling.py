"""`compile`, `devices` (docs/compiler.md): compile tensor kernels for command-driven PIM devices."""

import argparse
import re
from typing import Any

from cpsat_pim.cli.arguments import add_command, checked
from cpsat_pim.cli.output import OK, InputError, check_outputs, read_input, write_file

_count = checked(int, lambda n: n > 0, "must be a positive integer")


def sizes(text: str) -> dict[str, int]:
    """Read sizes such as `B=32,N=4096` as numbers by name.

    Raises:
        argparse.ArgumentTypeError: the text is not of this form.
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"([A-Z]\w*)=(\d{1,12})", part.strip())
        if match is None:
            raise argparse.ArgumentTypeError(f"expected sizes such as B=32,N=4096 (got {part!r})")
        found[match[1]] = int(match[2])
    return found


def add_commands(commands: Any) -> None:
    """Add the commands `compile` and `devices` to the parser."""
    parser = add_command(commands, "compile", "compile a tensor kernel for a PIM device, with proof", compile_)
    add = parser.add_argument
    add("kernel", metavar="KERNEL|FILE.py:NAME", help="a kernel of the package, or of a file")
    add("--sizes", metavar="B=32,N=4096", type=sizes, default={}, help="the value of every size of the kernel")
    add("--device", metavar="NAME|FILE", default="attacc", help="a name (see `devices`) or a .yaml file (%(default)s)")
    add("--channels", metavar="N", type=_count, help="number of channels to use (all of the device)")
    add("--json", metavar="FILE", help="write the plan as JSON")
    add_command(commands, "devices", "list the command-driven PIM devices that come with the package", list_devices)


def compile_(arguments: argparse.Namespace) -> int:
    """Run `compile`: compile a kernel, print the plan, and write it to the `--json` file."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.compiler.compile import compile_kernel
    from cpsat_pim.compiler.language import read_kernel
    from cpsat_pim.compiler.plan import format_plan
    from cpsat_pim.compiler.target import target_of
    from cpsat_pim.device import read_device

    check_outputs(arguments.json)
    device = read_input(lambda: read_device(arguments.device))
    kernel = read_input(lambda: read_kernel(arguments.kernel))
    if arguments.channels is not None and arguments.channels > device.system.stacks * device.system.groups:
        raise InputError(f"--channels: {device.name} has {device.system.stacks * device.system.groups}")
    plan = read_input(lambda: compile_kernel(kernel, arguments.sizes, device, arguments.channels))
    print(format_plan(plan, target_of(device)))
    if arguments.json is not None:
        write_file(arguments.json, lambda path: write_json(plan.as_data(), path))
    return OK


def list_devices(arguments: argparse.Namespace) -> int:
    """Run `devices`: print the devices that come with the package."""
    from cpsat_pim.device import device_names, read_device

    for name in device_names():
        device = read_device(name)
        channels = device.system.stacks * device.system.groups
        checked_against = device.system.checked_against or "not checked against a simulator"
        print(f"{name:24} {channels:4} channels of {device.cores:3} cores, {device.tick_ps} ps; {checked_against}")
    return OK
