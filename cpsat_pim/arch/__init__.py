"""The machine: memory levels, PE array, DRAM timing, presets, and architecture files."""

from cpsat_pim.arch.architecture import PIMArchitecture
from cpsat_pim.arch.dram import DramTimings
from cpsat_pim.arch.memory import MemoryHierarchy, MemoryLevel, SeparateEntries
from cpsat_pim.arch.pe_array import ComputeUnit, PEArray, PhyDim2

__all__ = [
    "ComputeUnit",
    "DramTimings",
    "MemoryHierarchy",
    "MemoryLevel",
    "PEArray",
    "PIMArchitecture",
    "PhyDim2",
    "SeparateEntries",
]
