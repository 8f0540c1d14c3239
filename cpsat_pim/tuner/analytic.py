"""Lower bounds of what networks take on a machine, or on any machine of a box, without a search (docs/tuner.md)."""

from collections.abc import Mapping, Sequence

from cpsat_pim.planner.tensors import Graph
from cpsat_pim.tuner.fields import Ranges, limits_of
from cpsat_pim.tuner.objective import Figure, HardwareCost
from cpsat_pim.tuner.space import Box, HardwareSpace
from cpsat_pim.tuner.splits import SplitTable, split_table
from tables.hardware import Limits, layer_floors

_ARRAY_SIZES = ("pe_array.array_shape.h", "pe_array.array_shape.w", "pe_array.compute_unit.num_macs")


class Floors:
    """Bounds of networks' latency and energy. Splits of layers are computed once a number of nodes.

    They hold for every plan in which each layer runs on the whole array, one layer after the other, whatever the
    node programs, homes, layouts and partitions (docs/array.md).
    """

    def __init__(self, space: HardwareSpace, graphs: Sequence[Graph], extra: Mapping[str, float] | None = None) -> None:
        """`extra`: a machine outside of the space whose figures are also wanted."""
        self.space, self.graphs = space, tuple(graphs)
        self.sizes = self._largest_side(extra or {})
        layers = [task.workload for graph in graphs for task in graph.tasks]
        self._widths = (
            min(layer.input_bytes for layer in layers),
            min(layer.weight_bytes for layer in layers),
            min(layer.psum_bytes for layer in layers),
        )
        self._tables: dict[int, list[SplitTable]] = {}
        self._known: dict[tuple[int, Limits], tuple[Figure, ...]] = {}

    def _largest_side(self, extra: Mapping[str, float]) -> int:
        """Return the most PEs of a side, or lanes, of any machine."""
        top = self.space.whole.high
        values = [self.space.values(top), extra]
        found = [
            int(value) for one in values for path, value in one.items() if path.removeprefix("arch.") in _ARRAY_SIZES
        ]
        return max([*found, *(int(self.space.base[key]) for key in _ARRAY_SIZES)])

    def of_values(self, values: Mapping[str, float]) -> tuple[Figure, ...]:
        """Return the bounds of one machine, a figure a network."""
        return self._of(self.space.point(values))

    def of_box(self, box: Box, shape: tuple[int, int]) -> tuple[Figure, ...]:
        """Return figures that no machine of the box with so many rows and columns of nodes undercuts."""
        return self._of(self.space.ranges(box, shape))

    def _of(self, ranges: Ranges) -> tuple[Figure, ...]:
        limits = limits_of(ranges, self._widths)
        key = (ranges.nodes, limits)
        if key not in self._known:
            self._known[key] = tuple(self._figure(table, limits) for table in self.tables(ranges.nodes))
        return self._known[key]

    def _figure(self, table: SplitTable, limits: Limits) -> Figure:
        layer_floors(table.rows, table.starts, table.kinds, table.divisors, limits, table.found)
        cycles, pj = table.counts @ table.found
        return Figure(cycles=float(cycles), pj=float(pj))

    def tables(self, nodes: int) -> list[SplitTable]:
        """Return the splits of each network over so many nodes."""
        if nodes not in self._tables:
            self._tables[nodes] = [split_table(graph, nodes, self.sizes) for graph in self.graphs]
        return self._tables[nodes]


class AnalyticCost:
    """The cost of machines by the floors of their networks; a bound of what any plans cost."""

    def __init__(self, floors: Floors, cost: HardwareCost) -> None:
        self.floors, self.cost, self.space = floors, cost, floors.space

    def of_values(self, values: Mapping[str, float]) -> float:
        """Return the cost of one machine."""
        return self.cost.value(self.floors.of_values(values))

    def of_box(self, box: Box) -> float:
        """Return a cost that no machine of the box undercuts."""
        return min(self.cost.value(self.floors.of_box(box, shape)) for shape in self.space.shapes(box))
