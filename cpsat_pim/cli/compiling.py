"""`compile`, `commands`, `drafts`, `llm`, `devices` (docs/compiler.md): kernels on command-driven PIM devices."""

import argparse
import re
from functools import partial
from pathlib import Path
from typing import Any

from cpsat_pim.cli.arguments import add_command, checked
from cpsat_pim.cli.output import OK, InputError, check_outputs, print_text, read_input, write_file

_count = checked(int, lambda n: n > 0, "must be a positive integer")
_percent = checked(float, lambda x: 0 <= x <= 100, "must be a number from 0 to 100")


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


def _counts(text: str) -> tuple[int, ...]:
    """Read positive integers such as `1,4`, in increasing order, each once."""
    return tuple(sorted({_count(part) for part in text.split(",")}))


def lengths(text: str) -> range:
    """Read a range of lengths such as `128:4096`, both ends included.

    Raises:
        argparse.ArgumentTypeError: the text is not of this form.
    """
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text)
    if match is None or not 2 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"expected lengths such as 128:4096, at least 2 (got {text!r})")
    return range(int(match[1]), int(match[2]) + 1)


def add_commands(commands: Any) -> None:
    """Add the commands for kernels, transformers and devices to the parser."""
    parser = add_command(commands, "compile", "compile a tensor kernel for a PIM device, with proof", compile_)
    add = parser.add_argument
    add("kernel", metavar="KERNEL|FILE.py:NAME", help="a kernel of the package, or of a file")
    add("--sizes", metavar="B=32,N=4096", type=sizes, default={}, help="the value of every size of the kernel")
    add("--device", metavar="NAME|FILE", default="attacc", help="a name (see `devices`) or a .yaml file (%(default)s)")
    add("--channels", metavar="N", type=_count, help="number of channels to use (all of the device)")
    add("--objective", choices=("time", "energy", "compute", "rearrangement"), default="time", help="what to minimise")
    add("--pack", action="store_true", help="pack the matrix for every run and charge it; else it is resident")
    text = "attention only: the best mapping of every length from A to B, and one layout for all of them"
    add("--lengths", metavar="A:B", type=lengths, help=text)
    add("--within", metavar="PERCENT", type=_percent, default=1.0, help="fewest mappings within it (%(default)s)")
    add("--dispatch", metavar="FILE", help="write the table of --lengths as JSON")
    add("--json", metavar="FILE", help="write the plan as JSON")
    add("--html", metavar="FILE", help="write a page: slots over time, dimension sets, a bank")
    add("--trace", metavar="FILE", help="write the commands of a channel as a trace of AttAcc's Ramulator")
    _add_commands_and_drafts(commands)
    text = "time of a transformer's generated tokens on host and PIM (DCC, fig. 8)"
    parser = add_command(commands, "llm", text, llm)
    add = parser.add_argument
    add("model", metavar="NAME|FILE", help="gpt3-13b, llama-33b, or a .yaml file (docs/compiler.md)")
    add("--batch", metavar="N,M", type=_counts, default=(1,), help="requests together, one number or several (1)")
    add("--lin", metavar="N", type=_count, default=2048, help="given tokens (%(default)s)")
    add("--lout", metavar="N", type=_count, default=128, help="generated tokens (%(default)s)")
    add("--device", metavar="NAME|FILE", default="attacc", help="a name (see `devices`) or a .yaml file (%(default)s)")
    text = "decide layouts, host or PIM for every layer and batch size at once by CP-SAT, with proof"
    add("--plan", choices=("time", "energy"), help=text)
    text = "the systems to compare: all, or those with attention (and feed-forward) on PIM (%(default)s)"
    add("--place", choices=("auto", "base", "full"), default="auto", help=text)
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
    from cpsat_pim.compiler.picture import plan_page
    from cpsat_pim.compiler.plan import format_plan
    from cpsat_pim.compiler.traces import attacc_trace
    from cpsat_pim.device import read_device

    check_outputs(arguments.json, arguments.trace, arguments.html, arguments.dispatch)
    device = read_input(lambda: read_device(arguments.device))
    kernel = read_input(lambda: read_kernel(arguments.kernel))
    if arguments.channels is not None and arguments.channels > device.system.channels:
        raise InputError(f"--channels: {device.name} has {device.system.channels}")
    if arguments.lengths is not None or arguments.dispatch is not None:
        return _dispatch(arguments, kernel, device)
    on_host = None
    if not arguments.kernel.partition(".py:")[1]:
        on_host = read_input(lambda: host_plan(kernel, arguments.sizes, device))
    if on_host is not None:
        print_text(format_host_plan(on_host))
        if arguments.json is not None:
            data = on_host.as_data()
            write_file(arguments.json, lambda path: write_json(data, path))
        return OK
    if _is_chain(read_input(lambda: kernel.bind(arguments.sizes)), device):
        return _compile_chain(arguments, kernel, device)
    given = (kernel, arguments.sizes, device, arguments.channels, arguments.objective, arguments.pack)
    plan = read_input(lambda: compile_kernel(*given))
    print_text(format_plan(plan))
    source = {"kernel": arguments.kernel, "device": arguments.device}
    if arguments.json is not None:
        write_file(arguments.json, lambda path: write_json({**plan.as_data(), "source": source}, path))
    if arguments.html is not None:
        page = read_input(lambda: plan_page(plan, kernel, stream_of(plan, kernel, device), device))
        write_file(arguments.html, lambda path: Path(path).write_text(page))
    if arguments.trace is not None:
        trace = read_input(lambda: attacc_trace(stream_of(plan, kernel, device), device))
        write_file(arguments.trace, lambda path: Path(path).write_text(trace))
    return OK


def _is_chain(kernel: Any, device: Any) -> bool:
    """Whether a bound kernel has several statements, or one that only the host computes; the channels of AttAcc run
    the shipped attention as one stream."""
    from cpsat_pim.compiler.attention import attention_of
    from cpsat_pim.compiler.compile import has_commands, is_attacc_like

    if len(kernel.statements) == 1:
        return device.system.host is not None and not has_commands(kernel, device)
    return len(kernel.statements) > 1 and not (is_attacc_like(device) and attention_of(kernel) is not None)


def _compile_chain(arguments: argparse.Namespace, kernel: Any, device: Any) -> int:
    """Run `compile` of a kernel of several statements, or of one for the host: a place and a mapping for each."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.compiler.chain.compile import compile_chain
    from cpsat_pim.compiler.chain.plan import format_chain

    count = len(kernel.statements)
    several = (
        f"{kernel.name} has {count} statements" if count > 1 else f"{device.name} has no commands for {kernel.name}"
    )
    if arguments.objective != "time":
        raise InputError(f"--objective: expected time, since {several} (got {arguments.objective})")
    if arguments.html is not None or arguments.trace is not None:
        raise InputError(f"--html, --trace: expected a kernel of one statement ({several})")
    given = (kernel, arguments.sizes, device, arguments.channels, arguments.pack)
    plan = read_input(lambda: compile_chain(*given))
    print_text(format_chain(plan))
    if arguments.json is not None:
        write_file(arguments.json, lambda path: write_json(plan.as_data(), path))
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
    from cpsat_pim.compiler.drafts import RULES, draft_target, drafts_of, format_pruned, prune
    from cpsat_pim.compiler.language import read_kernel
    from cpsat_pim.compiler.mapping import contraction_of
    from cpsat_pim.device import read_device

    rules = arguments.rules.split(",")
    for rule in rules:
        if rule not in RULES:
            raise InputError(f"--rules: there are {', '.join(RULES)} (got {rule!r})")
    target = read_input(lambda: draft_target(read_device(arguments.device)))
    kernel = read_input(lambda: read_kernel(arguments.kernel).bind(arguments.sizes))
    contraction = read_input(lambda: contraction_of(kernel, kernel.statements[0]))
    channels = arguments.channels or target.channels
    if channels > target.channels:
        raise InputError(f"--channels: {target.device.name} has {target.channels}")
    print_text(format_pruned(prune(drafts_of(contraction, target, channels), contraction, target, rules)))
    return OK


def _dispatch(arguments: argparse.Namespace, kernel: Any, device: Any) -> int:
    """Run `compile attention --lengths`: the dispatch table of a range of lengths."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.compiler.dispatch.table import dispatch, format_dispatch
    from cpsat_pim.compiler.target import target_of

    given = arguments.sizes
    if arguments.lengths is None:
        raise InputError("--dispatch: expected --lengths, such as 128:4096")
    if kernel.name != "attention" or set(given) != {"B", "K"}:
        raise InputError("--lengths: expected the kernel attention with sizes B (heads) and K (head size) only")
    target = read_input(lambda: target_of(device))
    found = read_input(
        lambda: dispatch(given["B"], given["K"], arguments.lengths, target, arguments.channels, arguments.within)
    )
    print_text(format_dispatch(found))
    if arguments.dispatch is not None:
        write_file(arguments.dispatch, lambda path: write_json(found.as_data(), path))
    return OK


def llm(arguments: argparse.Namespace) -> int:
    """Run `llm`: a line a system, with its gain over the host alone and milliseconds a token by group of layers."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.compiler.compile import is_attacc_like
    from cpsat_pim.compiler.models.block import Request, check_fits
    from cpsat_pim.compiler.models.llm import PLACES, Generation
    from cpsat_pim.compiler.models.report import as_data, format_times
    from cpsat_pim.compiler.models.transformer import read_transformer
    from cpsat_pim.compiler.target import target_of
    from cpsat_pim.device import read_device

    check_outputs(arguments.json)
    if arguments.lout < 2:
        raise InputError("--lout: must be at least 2: the first token belongs to the prefill")
    model = read_input(lambda: read_transformer(arguments.model))
    device = read_input(lambda: read_device(arguments.device))
    if not is_attacc_like(device):
        return _llm_on_broadcast_device(arguments, model, device)
    target = read_input(lambda: target_of(device))
    for batch in arguments.batch:
        request = Request(model, batch, arguments.lin, arguments.lout)
        read_input(partial(check_fits, request, target))
    if arguments.plan is not None:
        return _plan_model(arguments, model, target)
    data = []
    for batch in arguments.batch:
        request = Request(model, batch, arguments.lin, arguments.lout)
        generation = Generation(request, target)
        times = {system: read_input(partial(generation.seconds, system)) for system in PLACES[arguments.place]}
        print_text(format_times(request, times))
        data.append(as_data(request, device, times))
    if arguments.json is not None:
        write_file(arguments.json, lambda path: write_json(data if len(data) > 1 else data[0], path))
    return OK


def _llm_on_broadcast_device(arguments: argparse.Namespace, model: Any, device: Any) -> int:
    """Run `llm` on HBM-PIM or AiM: the host alone, and with the layers on PIM for which that pays."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.compiler.models.block import Request
    from cpsat_pim.compiler.models.broadcast_llm import (
        SYSTEMS,
        BroadcastGeneration,
        blocks_data,
        check_device,
        format_blocks,
    )
    from cpsat_pim.compiler.models.report import as_data, format_times

    if arguments.plan is not None or arguments.place != "auto":
        raise InputError(f"--plan, --place: for AttAcc only (the device is {device.name})")
    read_input(lambda: check_device(device))
    data = []
    for batch in arguments.batch:
        generation = BroadcastGeneration(Request(model, batch, arguments.lin, arguments.lout), device)
        times = {system: read_input(partial(generation.seconds, system)) for system in SYSTEMS}
        print_text(format_times(generation.request, times))
        print_text(format_blocks(generation))
        data.append({**as_data(generation.request, device, times), **blocks_data(generation)})
    if arguments.json is not None:
        write_file(arguments.json, lambda path: write_json(data if len(data) > 1 else data[0], path))
    return OK


def _plan_model(arguments: argparse.Namespace, model: Any, target: Any) -> int:
    """Run `llm --plan`: one decision for all batch sizes."""
    from cpsat_pim.base.files import write_json
    from cpsat_pim.compiler.coupling.model import decide, problem_of
    from cpsat_pim.compiler.coupling.report import as_data, format_decision

    lengths = range(arguments.lin + 1, arguments.lin + arguments.lout)
    problem = read_input(lambda: problem_of(model, arguments.batch, lengths, target))
    decided = read_input(lambda: decide(problem, arguments.plan))
    print_text(format_decision(problem, decided))
    if arguments.json is not None:
        write_file(arguments.json, lambda path: write_json(as_data(problem, decided), path))
    return OK


def list_devices(arguments: argparse.Namespace) -> int:
    """Run `devices`: print the devices that come with the package."""
    import sys

    from cpsat_pim.device import device_names, read_device
    from cpsat_pim.report.lists import print_devices
    from cpsat_pim.report.text import open_console

    print_devices(open_console(sys.stdout), [read_device(name) for name in device_names()])
    return OK
