"""Mappings in shorthand, and machines with so many bytes at each level, for the validator's tests."""

from typing import Any

import attrs

from cpsat_pim.arch import ComputeUnit, DramTimings, MemoryLevel, PEArray, PhyDim2, PIMArchitecture
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.workload import ConvWorkload
from tests.shorthand import read_loops, read_stored

PE, GLOBAL_BUFFER, ROW_BUFFER, DRAM = range(4)
NAMES = ("Pe", "Gbuf", "Row", "Dram")
ROOMY = 2**40


def build_arch(*capacities: int, array: dict[str, Any] | None = None, **fields: Any) -> PIMArchitecture:
    """A machine of 4 x 2 PEs of 2 lanes with rows of 8 bytes and so many bytes at each level, no double buffering."""
    sizes = (*capacities, *[ROOMY] * (4 - len(capacities)))
    levels = [
        MemoryLevel(name=name, entries=size, row_buffer_size=8, double_buffered=False)
        for name, size in zip(NAMES, sizes, strict=True)
    ]
    unit = ComputeUnit(unit_type="simd", num_macs=2)
    return PIMArchitecture(
        hierarchy=levels,
        dram_timings=DramTimings(co_w=32),
        pe_array=PEArray(**{"array_shape": PhyDim2(h=4, w=2), "compute_unit": unit} | (array or {})),
        **fields,
    )


def change_level(arch: PIMArchitecture, level: int, **fields: Any) -> PIMArchitecture:
    """The machine with other fields at a level."""
    levels = list(arch.hierarchy)
    levels[level] = attrs.evolve(levels[level], **fields)
    return attrs.evolve(arch, hierarchy=levels)


def build_mapping(loops: str = "", stored: str = "- - -", **fields: Any) -> Mapping:
    """A mapping from its loops, and the levels that store I, W and O."""
    return Mapping(**read_loops(loops)._asdict() | {"stored": read_stored(stored)} | fields)


def violations(layer: ConvWorkload, mapping: Mapping, arch: PIMArchitecture | None = None) -> list[str]:
    """What is wrong with a mapping on a machine, by default a roomy one."""
    return check_mapping(layer, arch or build_arch(), mapping)
