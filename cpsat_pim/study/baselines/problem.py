"""The problem that a baseline solves: a layer, a machine, an objective, and the exact cost that scores its mappings."""

from collections.abc import Iterable

from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.cost import Prediction, predict, predicted_energy, to_machine, to_nest
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping import Mapping
from cpsat_pim.study.baselines.space import Space
from cpsat_pim.workload import ConvWorkload
from tables.counts.accesses import fetches
from tables.counts.cost import cost_with
from tables.counts.on_chip import Machine
from tables.counts.walk import StreamCounts
from tables.nest import Nest, fetched_elements


@frozen(kw_only=True)
class Scored:
    """A legal mapping, its exact figures, and its objective value in the solver's integers."""

    mapping: Mapping
    prediction: Prediction
    value: int


@frozen(kw_only=True)
class Problem:
    """A layer to be mapped onto a machine, and the objective to minimize."""

    layer: ConvWorkload
    arch: PIMArchitecture
    objective: Objective
    machine: Machine = field(init=False, repr=False)
    space: Space = field(init=False, repr=False)

    @machine.default
    def _machine(self) -> Machine:
        return to_machine(self.arch)

    @space.default
    def _space(self) -> Space:
        return Space(self.layer, self.arch)

    def score(self, mapping: Mapping) -> Scored:
        """Return the exact cost of a legal mapping."""
        prediction = predict(self.layer, self.arch, mapping)
        figures = prediction.figures
        value = self.objective.value(figures.latency_cycles, figures.energy_fj)
        return Scored(mapping=mapping, prediction=prediction, value=value)

    def cost(self, mapping: Mapping) -> int:
        """Return the objective of a legal mapping. Where only energy counts, its latency is not walked."""
        if self.objective.is_product or self.objective.weights[0]:
            return self.score(mapping).value
        return self.objective.value(0, predicted_energy(self.layer, self.arch, mapping))

    def lower_bound(self, mapping: Mapping) -> int:
        """Return a lower bound of a legal mapping's cost: exact accesses, but the minimum DRAM time for that many
        bytes.

        The exact DRAM stream of a bad mapping can take seconds to count; this bound takes a fraction of a millisecond.
        """
        nest = to_nest(self.layer, mapping, self.arch.spatial_reduction)
        streams = tuple(self._least_stream(nest, t) for t in Tensor)
        cost = cost_with(nest, self.machine, streams)  # type: ignore[arg-type]
        return self.objective.value(max(cost.latency_cycles, cost.dram_cycles), cost.energy_fj)

    def best(self, mappings: Iterable[Mapping]) -> Scored | None:
        """Return the cheapest of some legal mappings, or None if there are none. Ties go to the lowest bound."""
        found = self.cheapest(mappings, 1)
        return self.score(found[0][1]) if found else None

    def cheapest(self, mappings: Iterable[Mapping], count: int) -> list[tuple[int, Mapping]]:
        """Return the `count` cheapest of some legal mappings with their costs, in order of cost. Costs are counted in
        order of their lower bounds, until the bounds exceed that of the `count`-th best.
        """
        lower_bounds = sorted(
            ((self.lower_bound(mapping), i, mapping) for i, mapping in enumerate(mappings)), key=lambda f: f[:2]
        )
        found: list[tuple[int, Mapping]] = []
        for bound, _, mapping in lower_bounds:
            if len(found) == count and bound >= found[-1][0]:
                break
            found = sorted([*found, (self.cost(mapping), mapping)], key=lambda one: one[0])[:count]
        return found

    def _least_stream(self, nest: Nest, t: Tensor) -> StreamCounts:
        """Return a lower bound of a tensor's stream: the columns that each scan's bytes fill, the time of these
        columns, one row.
        """
        dram, consumer = self.machine.dram, nest.consumers(t)[0]
        elements = fetched_elements(nest, t, consumer)
        scans = fetches(nest, t, consumer)
        each = -(-elements * nest.width(t, Level.DRAM) // dram.column_bytes)
        columns = scans * each
        pace = min(dram.tCCD, dram.tRCD + dram.tRTP + dram.tRP, dram.tRCD + dram.RL + dram.burst)
        return StreamCounts(
            columns, 1 if dram.is_open else scans, columns * pace, 0, 0, 0, 0, 0, columns * pace, each, 1
        )
