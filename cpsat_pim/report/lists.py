"""Tables of what comes with the package: networks, machines and devices."""

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpsat_pim.arch import MemoryLevel, PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.device import Device
from cpsat_pim.report.format import format_bytes
from cpsat_pim.report.text import print_fitted
from cpsat_pim.workload.network import Network


def print_networks(console: Console, networks: Iterable[Network]) -> None:
    """Print the number of layers, distinct shapes, MACs and weights of each network."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("network", no_wrap=True)
    for heading in ("layers", "unique shapes", "MACs", "weights"):
        table.add_column(heading, justify="right", no_wrap=True)
    for network in networks:
        shapes = {node.workload.shape_key for node in network.layers}
        runs = sum(node.count for node in network.layers)
        table.add_row(
            Text(network.name), str(runs), str(len(shapes)), f"{network.total_macs:,}", f"{network.total_weights:,}"
        )
    print_fitted(console, table)


def print_archs(console: Console, archs: Iterable[tuple[str, PIMArchitecture]]) -> None:
    """Print the key figures of each machine: the array and the memories of one node, which is what a mapping uses."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("arch", "nodes", "PEs x lanes", "PE", "global", "row", "row size", "DRAM", "banks", "page", "act."):
        table.add_column(heading, justify="left" if heading in ("arch", "page") else "right", no_wrap=True)
    buffers = (Level.PE, Level.GLOBAL_BUFFER, Level.ROW_BUFFER)
    for name, arch in archs:
        shape, unit = arch.pe_array.array_shape, arch.pe_array.compute_unit
        table.add_row(
            Text(name),
            str(arch.nodes),
            f"{shape.h}x{shape.w} x {unit.num_macs}",
            *(_format_capacity(arch.hierarchy[m]) for m in buffers),
            format_bytes(arch.row_bytes),
            format_bytes(arch.hierarchy[Level.DRAM].capacity_bytes),
            str(arch.banks),
            arch.page_policy,
            f"{arch.activation_energy:g} nJ",
        )
    print_fitted(console, table)


def print_devices(console: Console, devices: Iterable[Device]) -> None:
    """Print the size and the command clock of each device, and the simulator that its model was compared with."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("device", "channels", "cores each", "tick", "checked against"):
        table.add_column(heading, justify="left" if heading in ("device", "checked against") else "right", no_wrap=True)
    for device in devices:
        system = device.system
        table.add_row(
            Text(device.name),
            str(system.channels),
            str(device.cores),
            f"{device.tick_ps:,} ps",
            Text(system.checked_against or "no simulator"),
        )
    print_fitted(console, table)


def _format_capacity(memory: MemoryLevel) -> str:
    """Format the size of a level: of its one buffer, or of those for I, W and O."""
    if memory.is_shared:
        return format_bytes(memory.capacity_bytes)
    return " + ".join(format_bytes(memory.entries_of(t) * memory.word_bytes) for t in Tensor)
