"""Bytes per element: a network that does not give them has elements as wide as the machine's words."""

from collections.abc import Iterator
from typing import Any

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level
from cpsat_pim.workload.layer import ConvWorkload
from cpsat_pim.workload.network import Network

#: Bytes per element of I, W, O and of a partial sum.
Widths = tuple[int, int, int, int]

_FIELDS = ("input_bytes", "weight_bytes", "output_bytes", "psum_bytes")


def machine_widths(arch: PIMArchitecture) -> Widths:
    """Return the widths of a machine's words: those of its DRAM, and for partial sums those of its PEs if wider."""
    word = arch.hierarchy[Level.DRAM].word_bytes
    return (word, word, word, max(word, arch.hierarchy[Level.PE].word_bytes))


def with_widths(network: Network, widths: Widths) -> Network:
    """Return a network with these bytes per element in every layer.

    Raises:
        ValueError: a partial sum would be narrower than an output, or a tensor has 2^62 bytes.
    """
    fields: dict[str, Any] = dict(zip(_FIELDS, widths, strict=True))
    layers = [evolve(node, workload=evolve(node.workload, **fields)) for node in network.layers]
    return evolve(network, layers=layers, has_widths=True)


def on_machine(network: Network, arch: PIMArchitecture) -> Network:
    """Return a network with its own bytes per element or, if it does not give them, with the machine's."""
    return network if network.has_widths else with_widths(network, machine_widths(arch))


def width_warnings(network: Network, arch: PIMArchitecture) -> Iterator[str]:
    """Yield a line for each width of elements that differs from the machine's words, with its effect."""
    word = arch.hierarchy[Level.DRAM].word_bytes
    found: dict[tuple[str, int], list[str]] = {}
    for node in network.layers:
        for tensor, width in _widths_of(node.workload):
            if width != word:
                found.setdefault((tensor, width), []).append(node.name)
    tensors: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for (tensor, width), narrow in found.items():
        tensors.setdefault((width, tuple(narrow)), []).append(tensor)
    for (width, names), same in tensors.items():
        where = "every layer" if len(names) == len(network.layers) else f"{len(names)} layers, first {names[0]}"
        factor, side = (word / width, "high") if word > width else (width / word, "low")
        yield (
            f"elements of {', '.join(same)} have {width} B in {where}, but words of {arch.name} have {word} B: "
            f"energies per element are those of {word} B, {factor:g} times too {side} if they grow with the width"
        )


def _widths_of(layer: ConvWorkload) -> Iterator[tuple[str, int]]:
    yield from zip("IWO", (layer.input_bytes, layer.weight_bytes, layer.output_bytes), strict=True)
