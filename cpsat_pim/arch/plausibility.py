"""Warnings about figures of a machine file that are legal but hardly those of a machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cpsat_pim.arch.architecture import PIMArchitecture
from cpsat_pim.arch.reading import ARCHS
from cpsat_pim.base.dims import Level

#: Clocks outside of this range, in Hz, are taken for a wrong unit: 500 for 500 MHz.
_CLOCKS = (10**6, 10 * 10**9)
#: More than any access of a memory on chip or of a DRAM beside it, pJ a bit. HBM with its interface takes 4 to 7.
_MOST_PJ_PER_BIT = 100
#: More than any MAC or row activation of one node, nJ.
_MOST_MAC_NJ, _MOST_ACTIVATION_NJ = 1, 1000
#: tRC and its parts are each rounded up to whole cycles.
_ROUNDING_CYCLES = 1


def arch_warnings(arch: PIMArchitecture, path: str | Path | None = None) -> list[str]:
    """Return a line `path.to.field: ...` for each doubtful figure of a machine, and of the file that gives it."""
    return [*_clock(arch), *_timings(arch), *_energies(arch), *(_word_bytes(path) if path is not None else ())]


def _clock(arch: PIMArchitecture) -> Iterator[str]:
    least, most = _CLOCKS
    if arch.clock is not None and not least <= arch.clock <= most:
        yield f"clock: {arch.clock:,} Hz is outside of 1 MHz to 10 GHz; is its unit right?"


def _timings(arch: PIMArchitecture) -> Iterator[str]:
    timings = arch.dram_timings
    parts = timings.tRAS + timings.tRP
    if timings.tRC + _ROUNDING_CYCLES < parts:
        yield f"dram_timings.tRC: {timings.tRC} cycles are less than tRAS + tRP = {parts}, of which it consists"


def _energies(arch: PIMArchitecture) -> Iterator[str]:
    for level in Level:
        memory = arch.hierarchy[level]
        for field, cost in (("access_cost", memory.access_cost), ("write_cost", memory.write_cost or 0)):
            pj_per_bit = 1000 * cost / (8 * memory.word_bytes)
            if pj_per_bit > _MOST_PJ_PER_BIT:
                yield (
                    f"hierarchy[{int(level)}].{field}: {cost:g} nJ an element of {memory.word_bytes} B are "
                    f"{pj_per_bit:,.4g} pJ a bit, more than {_MOST_PJ_PER_BIT}; is its unit right?"
                )
    mac, activation = arch.pe_array.compute_unit.mac_energy, arch.activation_energy
    if mac > _MOST_MAC_NJ:
        yield f"pe_array.compute_unit.mac_energy: {mac:g} nJ are more than {_MOST_MAC_NJ}; is its unit right?"
    if activation > _MOST_ACTIVATION_NJ:
        yield f"activation_energy: {activation:g} nJ are more than {_MOST_ACTIVATION_NJ:,}; is its unit right?"


def _word_bytes(path: str | Path) -> Iterator[str]:
    """Yield a warning if a file lists levels without the width of their words."""
    levels: Any = ARCHS.plain_data(path).get("hierarchy")
    missing = [i for i, level in enumerate(levels or ()) if isinstance(level, dict) and "word_bytes" not in level]
    if missing:
        where = ", ".join(f"hierarchy[{i}]" for i in missing)
        yield f"{where}.word_bytes: is missing, so an element has 1 B in capacities and energies"
