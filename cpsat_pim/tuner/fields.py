"""The numbers of a machine by their paths, as ranges, and the limits that follow from them (docs/tuner.md)."""

import math
from collections.abc import Mapping
from typing import Any

from attrs import fields, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.architecture import LEVEL_NAMES
from cpsat_pim.arch.dram import DramTimings
from cpsat_pim.arch.memory import MemoryLevel
from cpsat_pim.arch.pe_array import ComputeUnit, PEArray
from cpsat_pim.base.dims import Tensor
from cpsat_pim.planner.array import HOP_FJ_PER_BIT, HOST
from tables.hardware import Limits

#: A range of values, both ends included; one value has equal ends.
Span = tuple[float, float]
_PJ_PER_NJ, _FJ_PER_PJ = 1e3, 1e3
_LEVEL = "hierarchy.{}.{}"
#: The unit of each field of a machine that is measured in one.
_UNITS: dict[str, str] = {
    field.name: field.metadata["units"][0]
    for kind in (PIMArchitecture, MemoryLevel, PEArray, ComputeUnit, DramTimings)
    for field in fields(kind)
    if "units" in field.metadata
} | {"entries": "element"}


def with_unit(path: str, value: str) -> str:
    """Write the value of a number with its unit: `8,192 elements`; without one if it only counts."""
    unit = next((_UNITS[name] for name in reversed(path.split(".")) if name in _UNITS), "")
    return f"{value} {unit}{'s' if unit in ('element', 'cycle', 'bit') and value != '1' else ''}".rstrip()


def numbers_of(arch: PIMArchitecture) -> dict[str, float]:
    """Return all numbers of a machine by path, such as `hierarchy.GLOBAL_BUFFER.entries.I`."""
    return dict(_numbers("", arch.to_dict()))


def _numbers(path: str, value: Any) -> list[tuple[str, float]]:
    if value is None or isinstance(value, bool | str):
        return []
    if isinstance(value, Mapping):
        return [pair for key, item in value.items() for pair in _numbers(f"{path}.{key}" if path else key, item)]
    if isinstance(value, list | tuple):
        names = LEVEL_NAMES if path == "hierarchy" else tuple(map(str, range(len(value))))
        return [pair for name, item in zip(names, value, strict=True) for pair in _numbers(f"{path}.{name}", item)]
    return [(path, float(value))]


@frozen(kw_only=True)
class Ranges:
    """A machine whose numbers are partly ranges: `spans` replaces those of `base`. `most_pes`: PEs that a
    node has room for."""

    arch: PIMArchitecture
    base: Mapping[str, float]
    spans: Mapping[str, Span]
    nodes: int
    interconnect: str
    most_pes: float = math.inf

    def least(self, path: str) -> float | None:
        """Return the least value of a number, or None if the machine has none there."""
        return self.spans[path][0] if path in self.spans else self.base.get(path)

    def most(self, path: str) -> float | None:
        """Return the largest value of a number, or None if the machine has none there."""
        return self.spans[path][1] if path in self.spans else self.base.get(path)

    def size(self, path: str) -> float:
        """Return the largest value of a number that every machine has."""
        value = self.most(path)
        assert value is not None, path
        return value

    def cost(self, path: str) -> float:
        """Return the least value of a number that every machine has."""
        value = self.least(path)
        assert value is not None, path
        return value

    # --- Memories ----------------------------------------------------------------------------------------------------

    def level(self, name: str, key: str) -> str:
        """Return the path of a level's number."""
        return _LEVEL.format(name, key)

    def entries(self, name: str, tensor: Tensor) -> float:
        """Return the most entries of a level that a tensor may use; 0 if the level never stores it."""
        level = self.arch.hierarchy[LEVEL_NAMES.index(name)]
        if not level.stores[tensor]:
            return 0.0
        own, all_of_it = self.level(name, f"entries.{tensor.name}"), self.level(name, "entries")
        return self.size(own) if self.most(own) is not None else self.size(all_of_it)

    def room(self, name: str, tensor: Tensor) -> float:
        """Return the most bytes of a tensor that an instance of a level holds at a time (Eq. 17)."""
        level = self.arch.hierarchy[LEVEL_NAMES.index(name)]
        half = 2 if level.double_buffered and name in ("PE", "GLOBAL_BUFFER") else 1
        return self.entries(name, tensor) * self.size(self.level(name, "word_bytes")) / half

    def access_pj(self, name: str) -> float:
        """Return the least energy of a read or a write of a word."""
        read, write = (self.least(self.level(name, key)) for key in ("access_cost", "write_cost"))
        assert read is not None
        return _PJ_PER_NJ * (read if write is None else min(read, write))


def limits_of(ranges: Ranges, widths: tuple[int, int, int]) -> Limits:
    """Return the best corner of a range of machines; `widths`: the least bytes of an element of I, W and a sum."""
    h, w = int(ranges.size("pe_array.array_shape.h")), int(ranges.size("pe_array.array_shape.w"))
    lanes = int(ranges.size("pe_array.compute_unit.num_macs"))
    pes = max(1.0, min(float(h * w), ranges.most_pes))
    chip = [max(ranges.room("GLOBAL_BUFFER", t), pes * ranges.room("PE", t), pes * lanes * widths[t]) for t in Tensor]
    row = [max(own, ranges.room("ROW_BUFFER", t)) for t, own in zip(Tensor, chip, strict=True)]
    streams = 1 if ranges.arch.shared_data_bus else len(Tensor)  # at a time; the longest is at least their mean
    column_bytes = ranges.size("dram_timings.co_w") / 8
    column_cycles = ranges.cost("dram_timings.tCCD_L") / column_bytes
    read_rate = ranges.most(ranges.level("ROW_BUFFER", "read_bandwidth_limit"))
    ports = ranges.size(ranges.level("ROW_BUFFER", "ports"))
    dram_pj, row_pj = ranges.access_pj("DRAM"), ranges.access_pj("ROW_BUFFER")
    word_bytes = ranges.size(ranges.level("DRAM", "word_bytes"))
    mac_pj = _PJ_PER_NJ * ranges.cost("pe_array.compute_unit.mac_energy")
    return Limits(
        h=h, w=w, lanes=lanes, most_macs=pes * lanes,
        chip_i=chip[0], chip_w=chip[1], chip_o=chip[2], row_i=row[0], row_w=row[1], row_o=row[2],
        bus=column_cycles / streams,
        dram=column_cycles,
        row=1 / (read_rate * min(3.0, ports)) if read_rate else 0.0,
        flit=_flit_cycles(ranges, column_bytes),
        opening=_opening_cycles(ranges) / streams,
        row_bytes=ranges.size(ranges.level("ROW_BUFFER", "row_buffer_size")),
        mac_pj=mac_pj,
        near_pj=ranges.access_pj("PE"),
        far_pj=min(ranges.access_pj(name) for name in ("GLOBAL_BUFFER", "ROW_BUFFER", "DRAM")),
        dram_pj=dram_pj,
        row_pj=min(row_pj, dram_pj),
        activation_pj=_PJ_PER_NJ * ranges.cost("activation_energy"),
        link_pj=0.0 if ranges.interconnect == HOST else 8 * HOP_FJ_PER_BIT / _FJ_PER_PJ,
        stored_pj=dram_pj / word_bytes,
        addition_pj=mac_pj,
    )  # fmt: skip


def _flit_cycles(ranges: Ranges, column_bytes: float) -> float:
    """Cycles a byte of a node's port; 0 where nodes hang on a host, whose buses are not bounded here."""
    return 0.0 if ranges.interconnect == HOST else 1 / max(1.0, column_bytes / 2)


def _opening_cycles(ranges: Ranges) -> float:
    """Cycles by which each run of columns is longer than its columns: `period(n)` less n*tCCD_L (docs/model.md, 5)."""
    found = sum(ranges.cost(f"dram_timings.{key}") for key in ("tRCDRD", "tRTP", "tRP"))
    return max(0.0, found - ranges.size("dram_timings.tCCD_L"))
