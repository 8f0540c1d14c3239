"""Random machines and layers: every option, figures from tiny to large, few enough MACs for a step-by-step
simulation.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from attrs import evolve, frozen
from numpy.random import Generator

from cpsat_pim.arch import ComputeUnit, DramTimings, MemoryLevel, PEArray, PhyDim2, PIMArchitecture, SeparateEntries
from cpsat_pim.arch.pe_array import LANE_DIMS
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping import BANKS, Mapping
from cpsat_pim.workload import ConvWorkload

_T = TypeVar("_T")

#: At least the widest element: the model does not define elements that span columns.
_COLUMNS = (4, 8, 16, 32)
_BOUNDS = (2, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 55, 197, 1009)
#: The dims of a convolution, a matrix product and a depthwise convolution.
DIMS = (tuple(Dim), (Dim.N, Dim.C, Dim.K), (Dim.R, Dim.S, Dim.P, Dim.Q, Dim.N, Dim.G))
_WIDTHS = (1, 2, 4)
#: Bytes per cycle: unlimited, or down to a hundredth, where the transfer dominates everything else.
RATES = (None, None, 1, 3, 0.5, 64, 0.05, 0.01)
#: Bytes of the PEs, the global buffer, the row buffer and DRAM.
_SIZES = ((4, 12, 48, 256), (8, 32, 128, 1024), (16, 64, 256, 4096), (2**20, 2**30))
_KINDS = ("energy", "latency", "blended")


@frozen
class Drawer:
    """Draws values from a source of random integers: `below(n)` returns any integer from 0 to n - 1.

    Equal integers give equal values, and zeros give the simplest value.
    """

    below: Callable[[int], int]

    @classmethod
    def of(cls, rng: Generator) -> "Drawer":
        """Return a drawer on a generator, with uniform integers."""
        return cls(lambda n: int(rng.integers(n)))

    def any_of(self, values: Sequence[_T]) -> _T:
        """Draw one of some values, uniformly."""
        return values[self.below(len(values))]

    def flip(self) -> bool:
        """Draw a boolean."""
        return self.any_of((False, True))

    def chance(self, percent: int) -> bool:
        """Return True with this probability in percent."""
        return self.below(100) >= 100 - percent

    def some_of(self, values: Sequence[_T], most: int) -> list[_T]:
        """Draw between one and `most` distinct values, in random order."""
        left = list(values)
        count = 1 + self.below(min(most, len(left)))
        return [left.pop(self.below(len(left))) for _ in range(count)]

    def objective(self) -> Objective:
        """Draw an objective of any kind."""
        return Objective.named(self.any_of(_KINDS), self.any_of((0.5, 1, 7)), self.any_of((0.25, 1, 3)))

    def layer(self, most_macs: int) -> ConvWorkload:
        """Draw a layer of at most so many MACs: small bounds, large primes, products, groups, depthwise, batches."""
        bounds = dict.fromkeys(Dim, 1)
        for d in self.some_of(self.any_of(DIMS), most=5):
            fitting = [n for n in _BOUNDS if n * math.prod(bounds.values()) <= most_macs]
            bounds[d] = self.any_of(fitting or (1,))
        return self.layer_of(bounds)

    def layer_of(self, bounds: dict[Dim, int]) -> ConvWorkload:
        """Draw a layer with these bounds, any stride, dilation and element widths; part of a bound may be padding."""
        padded = self.any_of(tuple(Dim))
        zeros = {padded: self.below(bounds[padded])} if self.any_of((True, False, False)) else {}
        output, psum = sorted((self.any_of(_WIDTHS), self.any_of(_WIDTHS)))
        return ConvWorkload(
            **{d.name: bound for d, bound in bounds.items()},
            name="fuzz",
            zeros=[zeros.get(d, 0) for d in Dim],
            stride=(self.any_of((1, 1, 2, 3)), self.any_of((1, 1, 2, 3))),
            dilation=(self.any_of((1, 1, 2)), self.any_of((1, 1, 2))),
            input_bytes=self.any_of(_WIDTHS),
            weight_bytes=self.any_of(_WIDTHS),
            output_bytes=output,
            psum_bytes=psum,
        )

    def machine(self, forced: int = 25) -> PIMArchitecture:
        """Draw a machine; each of its levels fixes the tensors that it stores with probability `forced` percent."""
        column_bytes = self.any_of(_COLUMNS)
        return PIMArchitecture(
            name="fuzz",
            dram_timings=self._timings(column_bytes),
            hierarchy=(*(self._level(m, column_bytes, forced) for m in range(3)), self._dram()),
            pe_array=self._array(),
            page_policy=self.any_of(("open", "closed")),
            activation_energy=self._energy(),
            multicast=self.flip(),
            spatial_reduction=self.flip(),
            shared_data_bus=self.flip(),
            uneven_residency=self.flip(),
        )

    def few_banks(self, arch: PIMArchitecture) -> PIMArchitecture:
        """Return a machine whose nodes have up to eight banks: tensors may have to share some, or have several."""
        dram = evolve(arch.hierarchy[Level.DRAM], num_banks=1)
        return evolve(arch, node_banks=self.any_of((1, 2, 3, 4, 8)), hierarchy=(*arch.hierarchy[: Level.DRAM], dram))

    def changed(self, mapping: Mapping) -> Mapping:
        """Return a mapping with another stored set at one level, other banks, more of them or another input block:
        well-formed, and often illegal.
        """
        stored = [list(row) for row in mapping.stored]
        level, t = self.below(len(stored)), self.below(len(Tensor))
        stored[level][t] ^= self.flip()
        is_aligned = stored[Level.ROW_BUFFER][Tensor.I]
        old = (mapping.block_h, mapping.block_w)
        blocks = [max(1, n + self.below(3) - 1) if is_aligned else 0 for n in old]
        outside = [[n if stored[m][t] else 0 for t, n in enumerate(row)] for m, row in enumerate(mapping.outside)]
        banks = self.any_of((mapping.banks, mapping.banks, *BANKS.values()))
        counts = self.any_of((mapping.bank_counts, mapping.bank_counts, (2, 1, 1), (1, 2, 1), (1, 1, 2)))
        return evolve(
            mapping,
            stored=stored,
            block_h=blocks[0],
            block_w=blocks[1],
            outside=outside,
            banks=banks,
            bank_counts=counts,
        )

    def _timings(self, column_bytes: int) -> DramTimings:
        """Draw timings in which opening a row takes at least as long as the next column, sometimes exactly as long."""
        cycles = {name: self.below(21) for name in ("RL", "WL", "tRCDRD", "tRP", "tRAS", "tRC", "tRTP")}
        some = {name: 1 + self.below(8) for name in ("tCCD_L", "BL")}
        if self.chance(10):
            cycles |= {"tRCDRD": 0, "tRP": 0, "tRTP": 0}
        cycles["tRTP"] += max(0, some["tCCD_L"] - cycles["tRCDRD"] - cycles["tRP"] - cycles["tRTP"])
        cycles["RL"] += max(0, some["tCCD_L"] - cycles["tRCDRD"] - cycles["RL"] - some["BL"] // 2)
        return DramTimings(**cycles, **some, co_w=8 * column_bytes)

    def _level(self, m: int, column_bytes: int, forced: int) -> MemoryLevel:
        """Draw a PE, global buffer or row buffer level: some stored sets forced, some forbidden, some free."""
        is_forced = self.chance(forced)
        return MemoryLevel(
            name=("PE", "GlobalBuffer", "RowBuffer")[m],
            entries=self._entries((0, *_SIZES[m])[is_forced:]),
            latency=self.any_of((0, 1, 2.5)),
            access_cost=self._energy(),
            write_cost=self.any_of((None, self._energy())),
            stores=tuple(self.flip() if is_forced else self.chance(80) for _ in Tensor),
            bypass_defined=is_forced,
            row_buffer_size=column_bytes * self.any_of((1, 4, 16)),
            read_bandwidth_limit=self.any_of(RATES),
            write_bandwidth_limit=self.any_of(RATES),
            ports=self.any_of((1, 2, 3)),
            double_buffered=self.flip(),
        )

    def _entries(self, sizes: Sequence[int]) -> int | SeparateEntries:
        """Draw one of the sizes but 0 for a buffer that tensors share, or any size for each of three."""
        if not self.chance(20):
            return self.any_of([size for size in sizes if size])
        return SeparateEntries(**{t.name: self.any_of(sizes) for t in Tensor})

    def _dram(self) -> MemoryLevel:
        return MemoryLevel(
            name="DRAM",
            entries=self.any_of(_SIZES[3]),
            access_cost=self._energy(),
            write_cost=self.any_of((None, self._energy())),
            num_banks=self.any_of((1, 2, 3, 4, 8, 16)),
            double_buffered=False,
        )

    def _array(self) -> PEArray:
        """Draw an array, from one PE to a wide array, with any type of unit."""
        kind = self.any_of(tuple(LANE_DIMS))
        dims = LANE_DIMS[kind]
        unit: dict[str, Any] = {"num_macs": 1 if kind == "scalar" else self.any_of((1, 2, 4, 6))}
        if dims and self.chance(20):
            unit["internal_dim"] = int(self.any_of(dims))
        return PEArray(
            array_shape=PhyDim2(self.any_of((1, 2, 3, 4, 16)), self.any_of((1, 2, 4, 5, 64))),
            compute_unit=ComputeUnit(
                unit_type=kind, mac_energy=self._energy(), reduction_latency=self.any_of((0, 3)), **unit
            ),
            interconnect_bandwidth=self.any_of(RATES),
            exclusive_spatial=self.flip(),
        )

    def _energy(self) -> float:
        """Draw an energy in nanojoules that is a whole number of femtojoules."""
        return self.any_of((0, 1, 7, 100, 2500)) / 1_000_000
