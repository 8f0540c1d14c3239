"""The transfer times of ports and interconnect as CP-SAT variables (docs/model.md, section 6; Eq. 38)."""

from fractions import Fraction

from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.cost import rate, tile_width
from cpsat_pim.mapper.model.builder import Int, is_one
from cpsat_pim.mapper.model.compute import Compute
from cpsat_pim.mapper.model.traffic import Traffic
from cpsat_pim.mapper.model.variables import Variables
from cpsat_pim.mapping import Stored
from tables.bounds.spatial import Terms, access_terms, crossing_terms
from tables.counts.accesses import READ, WRITE


class Transfers:
    """`busy`: cycles for which each limited way of a level, and the interconnect, moves bytes."""

    def __init__(self, v: Variables, traffic: Traffic, compute: Compute, max_cycles: int) -> None:
        self.v, self.b, self.traffic, self.max_cycles = v, v.b, traffic, max_cycles
        self.busy: list[Int] = []
        for level in traffic.levels:
            for way in (READ, WRITE):
                pace = compute.pace(level, way)
                if pace is not None:
                    self._level_term(level, way, pace)
        self._interconnect_term()

    def _level_term(self, level: int, way: int, pace: Fraction) -> None:
        """A level's ports are busy for the bytes of each tensor over one port, and of all tensors over all ports."""
        b = self.b
        busy = b.interval(0, self.max_cycles, f"busy_{level}_{way}")
        instances = self.v.used_pes if level == Level.PE else 1
        work = busy if is_one(instances) else b.product([busy, instances], f"work_{level}_{way}")
        loads = [self._load(level, way, t) for t in Tensor]
        for load in loads:
            b.model.add(work * pace.numerator >= load * pace.denominator)
        ports = self.v.arch.hierarchy[level].ports
        b.model.add(work * (pace.numerator * ports) >= sum(loads) * pace.denominator)
        self.busy.append(busy)

    def _load(self, level: int, way: int, t: Tensor) -> Int:
        """Return the bytes of t that a level reads or writes, under the set of levels which stores t."""

        def terms(stored: Stored) -> Terms:
            return access_terms(t, stored, self.traffic.energies.sharing).get((level, way), {})

        return self.traffic.at_least_terms(t, terms, tile_width(self.v.layer, level, t), f"load_{level}_{way}_{t.name}")

    def _interconnect_term(self) -> None:
        """The interconnect is busy for all bytes that cross into or out of the array."""
        numerator, denominator = rate(self.v.arch.pe_array.interconnect_bandwidth)
        if not numerator:
            return
        b = self.b
        loads = []
        for t in Tensor:

            def terms(stored: Stored, t: Tensor = t) -> Terms:
                return crossing_terms(t, stored, self.traffic.energies.sharing)

            width = tile_width(self.v.layer, Level.PE, t)
            loads.append(self.traffic.at_least_terms(t, terms, width, f"crossing_{t.name}"))
        busy = b.interval(0, self.max_cycles, "busy_interconnect")
        b.model.add(busy * numerator >= sum(loads) * denominator)
        self.busy.append(busy)
