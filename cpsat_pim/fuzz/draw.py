"""Random machines and layers: every option, figures from tiny to wide, few enough MACs to be walked one by one."""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from attrs import frozen
from numpy.random import Generator

from cpsat_pim.arch import ComputeUnit, DramTimings, MemoryLevel, PEArray, PhyDim2, PIMArchitecture
from cpsat_pim.arch.pe_array import LANE_DIMS
from cpsat_pim.dims import Dim, Tensor
from cpsat_pim.result import Objective
from cpsat_pim.workload import ConvWorkload

_T = TypeVar("_T")

#: At least the widest element: what a narrower column transfers at a time is not defined.
_COLUMNS = (4, 8, 16, 32)
_BOUNDS = (2, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13)
_RATES = (None, None, 1, 3, 0.5, 64)
#: Bytes of the PEs, the global buffer, the row buffer and DRAM.
_SIZES = ((4, 12, 48, 256), (8, 32, 128, 1024), (16, 64, 256, 4096), (2**20, 2**30))
_KINDS = ("energy", "latency", "blended")


@frozen
class Drawer:
    """Draws with a generator: the same values from the same state."""

    rng: Generator

    def any_of(self, values: Sequence[_T]) -> _T:
        """Any of some values, all alike."""
        return values[int(self.rng.integers(len(values)))]

    def flip(self) -> bool:
        """Yes or no."""
        return self.any_of((False, True))

    def objective(self) -> Objective:
        """Any kind."""
        return Objective.named(self.any_of(_KINDS), self.any_of((0.5, 1, 7)), self.any_of((0.25, 1, 3)))

    def layer(self, most_macs: int) -> ConvWorkload:
        """Any layer of at most so many MACs: primes, groups, batches, strides, dilations and mixed widths."""
        bounds = dict.fromkeys(Dim, 1)
        for d in self.rng.permutation(len(Dim))[: self.rng.integers(1, 6)]:
            fitting = [n for n in _BOUNDS if n * math.prod(bounds.values()) <= most_macs]
            bounds[Dim(int(d))] = self.any_of(fitting or (1,))
        output, psum = sorted((self.any_of((1, 2, 4)), self.any_of((1, 2, 4))))
        return ConvWorkload(
            **{d.name: bound for d, bound in bounds.items()},
            name="fuzz",
            stride=(self.any_of((1, 1, 2, 3)), self.any_of((1, 1, 2, 3))),
            dilation=(self.any_of((1, 1, 2)), self.any_of((1, 1, 2))),
            input_bytes=self.any_of((1, 2, 4)),
            weight_bytes=self.any_of((1, 2, 4)),
            output_bytes=output,
            psum_bytes=psum,
        )

    def machine(self, is_forced: float = 0.25) -> PIMArchitecture:
        """Any machine; a level says with this probability which tensors it stores and which not."""
        column_bytes = self.any_of(_COLUMNS)
        return PIMArchitecture(
            name="fuzz",
            dram_timings=self._timings(column_bytes),
            hierarchy=(*(self._level(m, column_bytes, is_forced) for m in range(3)), self._dram()),
            pe_array=self._array(),
            page_policy=self.any_of(("open", "closed")),
            activation_energy=self._energy(),
            multicast=self.flip(),
            spatial_reduction=self.flip(),
            shared_data_bus=self.flip(),
        )

    def _timings(self, column_bytes: int) -> DramTimings:
        """Any, but opening a row takes no less time than a column after another."""
        cycles = {name: int(self.rng.integers(21)) for name in ("RL", "WL", "tRP", "tRAS", "tRC", "tRTP")}
        some = {name: int(self.rng.integers(1, 9)) for name in ("tCCD_L", "BL")}
        opening = some["tCCD_L"] + int(self.rng.integers(21))
        return DramTimings(tRCDRD=opening, **cycles, **some, co_w=8 * column_bytes)

    def _level(self, m: int, column_bytes: int, is_forced: float) -> MemoryLevel:
        """PE, global buffer or row buffer: some stored sets forced, some forbidden, some free."""
        forced = bool(self.rng.random() < is_forced)
        return MemoryLevel(
            name=("PE", "GlobalBuffer", "RowBuffer")[m],
            entries=self.any_of(_SIZES[m]),
            latency=self.any_of((0, 1, 2.5)),
            access_cost=self._energy(),
            write_cost=self.any_of((None, self._energy())),
            stores=tuple(self.flip() if forced else self.rng.random() < 0.8 for _ in Tensor),
            bypass_defined=forced,
            row_buffer_size=column_bytes * self.any_of((1, 4, 16)),
            read_bandwidth_limit=self.any_of(_RATES),
            write_bandwidth_limit=self.any_of(_RATES),
            ports=self.any_of((1, 2, 3)),
            double_buffered=self.flip(),
        )

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
        """From one PE to a wide array, of every type of unit."""
        kind = self.any_of(tuple(LANE_DIMS))
        dims = LANE_DIMS[kind]
        unit: dict[str, Any] = {"num_macs": 1 if kind == "scalar" else self.any_of((1, 2, 4, 6))}
        if dims and self.rng.random() < 0.2:
            unit["internal_dim"] = int(self.any_of(dims))
        return PEArray(
            array_shape=PhyDim2(self.any_of((1, 2, 3, 4, 16)), self.any_of((1, 2, 4, 5, 64))),
            compute_unit=ComputeUnit(
                unit_type=kind, mac_energy=self._energy(), reduction_latency=self.any_of((0, 3)), **unit
            ),
            interconnect_bandwidth=self.any_of(_RATES),
            exclusive_spatial=self.flip(),
        )

    def _energy(self) -> float:
        """Nanojoules, whole femtojoules."""
        return self.any_of((0, 1, 7, 100, 2500)) / 1_000_000
