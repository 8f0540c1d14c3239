"""Warnings about figures of a machine file that are legal but hardly those of a machine, or that the file lacks."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from cpsat_pim.arch.architecture import PIMArchitecture
from cpsat_pim.arch.dram import DramTimings
from cpsat_pim.arch.reading import ARCHS
from cpsat_pim.base.dims import Level, Tensor

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
    doubtful = [*_clock(arch), *_timings(arch), *_energies(arch)]
    if path is None:
        return doubtful
    stated = ARCHS.plain_data(path)
    return [*doubtful, *_word_bytes(stated), *_missing_figures(arch, stated)]


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


def _word_bytes(stated: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning if a file lists levels without the width of their words."""
    levels = stated.get("hierarchy")
    missing = [i for i, level in enumerate(levels or ()) if isinstance(level, dict) and "word_bytes" not in level]
    if missing:
        where = ", ".join(f"hierarchy[{i}]" for i in missing)
        yield f"{where}.word_bytes: is missing, so an element has 1 B in capacities and energies"


def _missing_figures(arch: PIMArchitecture, stated: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning if a file that describes a whole machine lacks figures of its data sheet."""
    missing = [figure for figure in _figures(arch) if not _is_stated(stated, figure.path)]
    if missing:
        yield f"figures are missing, so defaults are taken: {', '.join(map(str, missing))}"


class _Figure(NamedTuple):
    """A figure of a data sheet: the keys that lead to it, and its value with the unit of a bare number."""

    path: tuple[str | int, ...]
    value: Any
    unit: str

    def __str__(self) -> str:
        place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path).removeprefix(".")
        value = f"{self.value:g}" if isinstance(self.value, float) else str(self.value)
        return f"{place} = {value} {self.unit}".rstrip()


def _figures(arch: PIMArchitecture) -> Iterator[_Figure]:
    """Yield the figures that decide a machine's costs and that differ from chip to chip."""
    yield _figure(arch, ("activation_energy",))
    for timing in attrs.fields(DramTimings):
        if timing.default is not None:
            yield _figure(arch.dram_timings, ("dram_timings", timing.name))
    for side in ("h", "w"):
        yield _figure(arch.pe_array.array_shape, ("pe_array", "array_shape", side))
    for name in ("unit_type", "num_macs", "mac_energy"):
        yield _figure(arch.pe_array.compute_unit, ("pe_array", "compute_unit", name))
    yield _figure(arch.hierarchy[Level.ROW_BUFFER], ("hierarchy", int(Level.ROW_BUFFER), "row_buffer_size"))
    for level in Level:
        if any(any(arch.storing_choices(level, tensor)) for tensor in Tensor):
            yield _figure(arch.hierarchy[level], ("hierarchy", int(level), "access_cost"))


def _figure(record: Any, path: tuple[str | int, ...]) -> _Figure:
    """Return the field of a record that a path ends in."""
    name = str(path[-1])
    unit, *_ = attrs.fields_dict(type(record))[name].metadata.get("units", ("",))
    return _Figure(path, getattr(record, name), "cycles" if unit == "cycle" else unit)


def _is_stated(stated: Any, path: tuple[str | int, ...]) -> bool:
    """Return whether the plain data of a file have a value at a path. Levels are a list in them."""
    for key in path:
        if isinstance(key, str) and key not in stated:
            return False
        stated = stated[key]
    return True
