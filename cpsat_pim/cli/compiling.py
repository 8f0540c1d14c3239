"""`compile`, `commands`, `drafts`, `llm`, `devices` (docs/compiler.md): kernels on command-driven PIM devices."""

import argparse
import re
from pathlib import Path
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
    """Add the commands for kernels, transformers and devices to the parser."""
    parser = add_command(commands, "compile", "compile a tensor kernel for a PIM device, with proof", compile_)
    add = parser.add_argument
    add("kernel", metavar="KERNEL|FILE.py:NAME", help="a kernel of the package, or of a file")
    add("--sizes", metavar="B=32,N=4096", type=sizes, default={}, help="the value of every size of the kernel")
    add("--device", metavar="NAME|FILE", default="attacc", help="a name (see `devices`) or a .yaml file (%(default)s)")
    add("--channels", metavar="N", type=_count, help="number of channels to use (all of the device)")
    add("--json", metavar="FILE", help="write the plan as JSON")
    add("--trace", metavar="FILE", help="write the commands of a channel as a trace of AttAcc's Ramulator")
    _add_commands_and_drafts(commands)
    text = "time of a transformer's generated tokens on host and PIM (DCC, fig. 8)"
    parser = add_command(commands, "llm", text, llm)
    add = parser.add_argument
    add("model", choices=("gpt3-13b", "llama-33b"))
    add("--batch", metavar="N", type=_count, default=1, help="requests together (%(default)s)")
    add("--lin", metavar="N", type=_count, default=2048, help="given tokens (%(default)s)")
    add("--lout", metavar="N", type=_count, default=128, help="generated tokens (%(default)s)")
    add("--device", metavar="NAME|FILE", default="attacc", help="a name (see `devices`) or a .yaml file (%(default)s)")
    add("--json", metavar="FILE", help="write the times as JSON")
    add_command(commands, "devices", "list the command-driven PIM devices that come with the package", list_devices)


def _add_commands_and_drafts(commands: Any) -> None:
    """Add `commands` and `drafts` to the parser."""
    parser = add_command(commands, "commands", "write the commands of a plan as a simulator's trace", commands_)
    add = parser.add_argument
    add("plan", metavar="PLAN.json", help="what `compile --json` wrote")
    add("--format", choices=("attacc", "pimsimulator", "aim"), required=True, help="the simulator that reads the trace")
    add("-o", "--output", metavar="FILE", required=True, help="the trace")
    text = "what the pruning rules of DCC lose against its whole space (DCC, section IV-B)"
    parser = add_command(commands, "drafts", text, drafts)
    add = parser.add_argument
    add("kernel", metavar="KERNEL|FILE.py:NAME", help="a kernel of the package, or of a file")
    add("--sizes", metavar="B=32,N=4096", type=sizes, default={}, help="the value of every size of the kernel")
    add("--device", metavar="NAME|FILE", default="attacc", help="a name (see `devices`) or a .yaml file (%(default)s)")
    add("--channels", metavar="N", type=_count, help="number of channels to use (all of the device)")
    add("--rules", metavar="1,2,3", default="1,2,3", help="rules to apply: 1, 2, 3, 3-lengths (%(default)s)")


def compile_(arguments: argparse.Namespace) -> int:
    """Run `compile`: compile a kernel, print the plan, and write the `--json` and `--trace` files."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.compiler.compile import compile_kernel, stream_of
    from cpsat_pim.compiler.host_plan import format_host_plan, host_plan
    from cpsat_pim.compiler.language import read_kernel
    from cpsat_pim.compiler.plan import format_plan
    from cpsat_pim.compiler.traces import attacc_trace
    from cpsat_pim.device import read_device

    check_outputs(arguments.json, arguments.trace)
    device = read_input(lambda: read_device(arguments.device))
    kernel = read_input(lambda: read_kernel(arguments.kernel))
    if arguments.channels is not None and arguments.channels > device.system.stacks * device.system.groups:
        raise InputError(f"--channels: {device.name} has {device.system.stacks * device.system.groups}")
    on_host = None
    if not arguments.kernel.partition(".py:")[1]:
        on_host = read_input(lambda: host_plan(kernel, arguments.sizes, device.name))
    if on_host is not None:
        print(format_host_plan(on_host))
        if arguments.json is not None:
            data = on_host.as_data()
            write_file(arguments.json, lambda path: write_json(data, path))
        return OK
    plan = read_input(lambda: compile_kernel(kernel, arguments.sizes, device, arguments.channels))
    print(format_plan(plan))
    source = {"kernel": arguments.kernel, "device": arguments.device}
    if arguments.json is not None:
        write_file(arguments.json, lambda path: write_json({**plan.as_data(), "source": source}, path))
    if arguments.trace is not None:
        trace = read_input(lambda: attacc_trace(stream_of(plan, kernel, device), device))
        write_file(arguments.trace, lambda path: Path(path).write_text(trace))
    return OK


def commands_(arguments: argparse.Namespace) -> int:
    """Run `commands`: write the commands of a plan as the trace of a simulator."""
    from cpsat_pim.compiler.plan_file import read_commands
    from cpsat_pim.compiler.traces import FORMATS

    check_outputs(arguments.output)
    planned = read_input(lambda: read_commands(arguments.plan))
    text = read_input(lambda: FORMATS[arguments.format](planned.stream, planned.device))
    write_file(arguments.output, lambda path: Path(path).write_text(text))
    return OK


def drafts(arguments: argparse.Namespace) -> int:
    """Run `drafts`: a line a pruning rule, with the drafts that it leaves and what it loses."""
    from cpsat_pim.compiler.drafts import RULES, drafts_of, format_pruned, prune
    from cpsat_pim.compiler.language import read_kernel
    from cpsat_pim.compiler.mapping import contraction_of
    from cpsat_pim.compiler.target import target_of
    from cpsat_pim.device import read_device

    rules = arguments.rules.split(",")
    for rule in rules:
        if rule not in RULES:
            raise InputError(f"--rules: there are {', '.join(RULES)} (got {rule!r})")
    target = read_input(lambda: target_of(read_device(arguments.device)))
    kernel = read_input(lambda: read_kernel(arguments.kernel).bind(arguments.sizes))
    contraction = read_input(lambda: contraction_of(kernel, kernel.statements[0]))
    channels = arguments.channels or target.channels
    if channels > target.channels:
        raise InputError(f"--channels: {target.device.name} has {target.channels}")
    print(format_pruned(prune(drafts_of(contraction, target, channels), contraction, target, rules)))
    return OK


def llm(arguments: argparse.Namespace) -> int:
    """Run `llm`: a line a system, with its gain over the host alone and milliseconds a token by group of layers."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.compiler.models.llm import GROUPS, SYSTEMS, Request, generation_seconds
    from cpsat_pim.compiler.models.transformer import MODELS
    from cpsat_pim.compiler.target import target_of
    from cpsat_pim.device import read_device

    check_outputs(arguments.json)
    if arguments.lout < 2:
        raise InputError("--lout: must be at least 2: the first token belongs to the prefill")
    target = read_input(lambda: target_of(read_device(arguments.device)))
    request = Request(MODELS[arguments.model], arguments.batch, arguments.lin, arguments.lout)
    times = {system: generation_seconds(request, system, target) for system in SYSTEMS}
    host = sum(times["gpu"].values())
    print(f"{'system':14} {'gain':>6} {'ms a token':>11}  " + "  ".join(f"{group:>12}" for group in GROUPS))
    for system, parts in times.items():
        token = {group: seconds * 1e3 / (arguments.lout - 1) for group, seconds in parts.items()}
        shares = "  ".join(f"{token[group]:12.4f}" for group in GROUPS)
        print(f"{system:14} {host / sum(parts.values()):6.3f} {sum(token.values()):11.4f}  {shares}")
    if arguments.json is not None:
        write_file(arguments.json, lambda path: write_json({"format": 1, "seconds": times}, path))
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
