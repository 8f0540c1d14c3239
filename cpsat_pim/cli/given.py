"""What the arguments of a command give: machine, widths, objective, constraints and starting mappings, checked."""

import argparse
import itertools
from functools import partial
from typing import TYPE_CHECKING

from cpsat_pim.cli.output import InputError, check_names, note, read_input

if TYPE_CHECKING:
    from cpsat_pim.arch import PIMArchitecture
    from cpsat_pim.mapper.result import Objective
    from cpsat_pim.mapping import Mapping
    from cpsat_pim.mapping.constraints import NetworkConstraints
    from cpsat_pim.workload.network import Network

    Starts = dict[str, Mapping]


def given_arch(name: str) -> "PIMArchitecture":
    """Read the machine of `--arch`, and warn of doubtful figures in a file."""
    from cpsat_pim.arch.plausibility import arch_warnings
    from cpsat_pim.arch.reading import read_arch
    from cpsat_pim.base.reading import SUFFIXES

    arch = read_input(lambda: read_arch(name))
    if name.endswith(SUFFIXES):
        for line in arch_warnings(arch, name):
            note(f"warning: {name}: {line}")
    return arch


def with_given_widths(network: "Network", arch: "PIMArchitecture", widths: tuple[int, ...] | None) -> "Network":
    """Return the network with the bytes per element of `--bytes`, its own, or the machine's; warn if they differ from
    the machine's.
    """
    from cpsat_pim.mapping.widths import on_machine, width_warnings, with_widths

    if widths is not None:
        network = read_input(lambda: with_widths(network, widths))  # type: ignore[arg-type]
    network = on_machine(network, arch)
    for line in width_warnings(network, arch):
        note(f"warning: {line}")
    return network


def given_objective(arguments: argparse.Namespace) -> "Objective":
    """Build the objective of `--objective`, `--alpha` and `--beta`."""
    from cpsat_pim.mapper.result import Objective

    kind, alpha, beta = arguments.objective, arguments.alpha, arguments.beta
    if kind != "blended" and (alpha is not None or beta is not None):
        raise InputError("--alpha and --beta need --objective blended")
    return read_input(lambda: Objective.named(kind, 1 if alpha is None else alpha, 1 if beta is None else beta))


def read_starts(network: "Network", path: str | None) -> "Starts":
    """Read the starting mappings of `--start-from`, by layer name."""
    from cpsat_pim.report.jsonfile import read_mappings

    if path is None:
        return {}
    starts = read_input(lambda: read_mappings(path))
    check_names(list(starts), [node.name for node in network.layers], f"{path}: {network.name}")
    return starts


def given_constraints(
    network: "Network", arguments: "argparse.Namespace", recorded: "NetworkConstraints | None" = None
) -> "NetworkConstraints":
    """Read the constraints of `--constraints`, with the banks of `--banks` and `--bank-counts` for all layers.

    `recorded`: those of a file of results, which count without `--constraints`.

    Raises:
        InputError: they name a layer that the network lacks.
    """
    from cpsat_pim.mapping.constraints import NetworkConstraints, read_constraints

    path: str | None = arguments.constraints
    constraints = recorded or NetworkConstraints()
    if path is not None:
        constraints = read_input(lambda: read_constraints(path))
    check_names(list(constraints.layers), [node.name for node in network.layers], f"{path}: {network.name}")
    banks = {} if arguments.banks is None else {"banks": arguments.banks}
    return constraints.with_banks(**banks, **(arguments.bank_counts or {}))


def check_starts(
    network: "Network", arch: "PIMArchitecture", starts: "Starts", constraints: "NetworkConstraints", padding: float
) -> None:
    """Check every starting mapping: it is legal for the layer or a padded form of it, and satisfies the constraints."""
    from cpsat_pim.base.dims import Level
    from cpsat_pim.mapping.check import check_mapping
    from cpsat_pim.mapping.constraints import check_constraints
    from cpsat_pim.workload.padding import padded_to

    problems = []
    for node in network.layers:
        if node.name in starts:
            start = starts[node.name]
            layer = padded_to(node.workload, start.extents(Level.DRAM), padding)
            found = check_mapping(layer, arch, start) or check_constraints(start, constraints.of(node.name))
            problems += [f"--start-from: {node.name} on {arch.name}: {problem}" for problem in found]
    if problems:
        raise InputError("\n".join(problems))


def check_layers_fit(
    network: "Network",
    arch: "PIMArchitecture",
    *objectives: "Objective",
    constraints: "NetworkConstraints | None" = None,
    padding: float = 0.0,
    partly: bool = False,
) -> None:
    """Raise `InputError` if a layer is known beforehand to have no mapping, or could cost more than 64 bits can count,
    also when padded. Of the `constraints` only the banks of the tensors count.

    `partly`: layers without a mapping are allowed, if not all are such.
    """
    from cpsat_pim.mapper.bounds.countable import check_countable
    from cpsat_pim.mapping.check import check_fits
    from cpsat_pim.mapping.constraints import NetworkConstraints
    from cpsat_pim.workload.padding import padded_layers

    limits = constraints or NetworkConstraints()
    problems = {n.name: check_fits(n.workload, arch, limits.of(n.name).bank_counts) for n in network.layers}
    if (all if partly else any)(problems.values()):
        name, found = next((name, found) for name, found in problems.items() if found)
        raise InputError(f"{name} on {arch.name}: {found[0]}")
    for node in network.layers:
        if problems[node.name]:
            continue
        padded = read_input(partial(padded_layers, node.workload, padding))
        for objective, layer in itertools.product(objectives, padded):
            read_input(partial(check_countable, layer, arch, objective))
