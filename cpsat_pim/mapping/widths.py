"""Bytes per element: a network that does not give them has elements as wide as the machine's words."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level
from cpsat_pim.workload.layer import ConvWorkload, width_text
from cpsat_pim.workload.network import Network

#: Bytes per element of I, W, O and of a partial sum.
Widths = tuple[int, int, int, int]

_FIELDS = ("input_bytes", "weight_bytes", "output_bytes", "psum_bytes")


def machine_widths(arch: PIMArchitecture) -> Widths:
    """Return the widths of a machine's words: those of its DRAM, and for partial sums those of its PEs if wider."""
    word = arch.hierarchy[Level.DRAM].word_bytes
    return (word, word, word, max(word, arch.hierarchy[Level.PE].word_bytes))


def with_widths(network: Network, widths: Widths) -> Network:
    """Return a network with these bytes per element in every layer, except where it has its own.

    Raises:
        ValueError: a partial sum would be narrower than an output, or a tensor has 2^62 bytes.
    """
    fields: dict[str, Any] = dict(zip(_FIELDS, widths, strict=True))
    layers = []
    for node in network.layers:
        own = {f"{key}_bytes": width for key, width in node.bytes.items()}
        layers.append(evolve(node, workload=evolve(node.workload, **fields | own)))
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
        some = f"{len(names)} layers, first {names[0]}" if len(names) > 1 else f"layer {names[0]}"
        where = "every layer" if len(names) == len(network.layers) else some
        factor, side = float(max(word / width, width / word)), "high" if word > width else "low"
        yield (
            f"elements of {', '.join(same)} have {width_text(width)} in {where}, but words of {arch.name} have "
            f"{word} B: energies per element are those of {word} B, {factor:g} times too {side} if they grow with the "
            "width"
        )


def _widths_of(layer: ConvWorkload) -> Iterator[tuple[str, int]]:
    yield from zip("IWO", (layer.input_bytes, layer.weight_bytes, layer.output_bytes), strict=True)


# --- Elements of some bits -------------------------------------------------------------------------------------------


def in_whole_units(layer: ConvWorkload, arch: PIMArchitecture) -> tuple[ConvWorkload, PIMArchitecture]:
    """Return layer and machine with all widths and sizes in a unit of which every element has a whole number.

    The unit is the byte, and both come back as they are, unless some element has a fraction of a byte: then it is 4, 2
    or 1 bits. Counts, cycles and energies do not depend on the unit, so a mapping costs the same in both.
    """
    scale = 1
    while any(scale * width % 1 for width in layer.width_bytes):
        scale *= 2
    if scale == 1:
        return layer, arch
    fields: dict[str, Any] = {name: int(scale * getattr(layer, name)) for name in _FIELDS}
    return evolve(layer, **fields), _scaled(arch, scale)


@lru_cache(maxsize=32)
def _scaled(arch: PIMArchitecture, scale: int) -> PIMArchitecture:
    """Return a machine whose sizes and rates are counted in a unit that is smaller by `scale`."""

    def rate(limit: float | None) -> float | None:
        return limit if limit is None else limit * scale

    levels = [
        evolve(
            level,
            word_bytes=level.word_bytes * scale,
            blocksize=level.blocksize * scale,
            row_buffer_size=level.row_buffer_size * scale,
            read_bandwidth_limit=rate(level.read_bandwidth_limit),
            write_bandwidth_limit=rate(level.write_bandwidth_limit),
        )
        for level in arch.hierarchy
    ]
    array = evolve(arch.pe_array, interconnect_bandwidth=rate(arch.pe_array.interconnect_bandwidth))
    timings = evolve(arch.dram_timings, co_w=arch.dram_timings.co_w * scale)
    return evolve(arch, hierarchy=tuple(levels), pe_array=array, dram_timings=timings)
