"""What a cost leaves the DRAM streams of a mapping (`tables.counts.limits`): never less than those take."""

import itertools

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.evaluate.cost import to_machine, to_nest
from tables.counts.cost import Cost, exact_cost
from tables.counts.limits import CostLimit, StreamLimits, cost_within
from tables.counts.on_chip import Machine, array_timing
from tables.counts.walk import NO_STREAM_LIMIT
from tables.nest import Nest
from tests.cross.cases import Case, cases, in_one_bank, in_several_banks

WEIGHTS = [(1, 0), (0, 1), (1000, 1)]
cases_of_any_banks = st.one_of(
    cases(), in_several_banks(), st.builds(in_one_bank, cases(), st.sampled_from(("IWO", "IO|W", "I|WO", "IW|O")))
)


def costed(case: Case, is_bus_shared: bool) -> tuple[Nest, Machine, Cost]:
    """Return the nest of a case, its machine with or without a shared bus, and its cost."""
    arch = attrs.evolve(case.arch, shared_data_bus=is_bus_shared)
    nest, machine = to_nest(case.layer, case.mapping, arch.spatial_reduction), to_machine(arch)
    return nest, machine, exact_cost(nest, machine)


@pytest.mark.parametrize("weights", WEIGHTS, ids=["latency", "energy", "blended"])
@given(case=cases_of_any_banks, is_bus_shared=st.booleans())
def test_a_mapping_keeps_the_limits_of_its_own_cost(weights: tuple[int, int], case: Case, is_bus_shared: bool) -> None:
    """Whatever streams are known: each of a mapping is admitted beside the others at what the mapping costs."""
    nest, machine, cost = costed(case, is_bus_shared)
    most = weights[0] * cost.latency_cycles + weights[1] * cost.energy_fj
    for order in itertools.permutations(range(3)):
        limits = StreamLimits(nest, machine, CostLimit(most, *weights), array_timing(nest, machine).array_cycles)
        assert not limits.is_empty
        for t in order:
            assert limits.of(t).admits(cost.streams[t])
            limits.know(t, [cost.streams[t]])


@pytest.mark.parametrize("weights", WEIGHTS, ids=["latency", "energy", "blended"])
@given(case=cases_of_any_banks, is_bus_shared=st.booleans(), left_out=st.integers(0, 3))
def test_a_cost_within_a_limit_is_the_exact_one(
    weights: tuple[int, int], case: Case, is_bus_shared: bool, left_out: int
) -> None:
    """At its own cost a mapping has it; below, either the same or none."""
    nest, machine, cost = costed(case, is_bus_shared)
    most = weights[0] * cost.latency_cycles + weights[1] * cost.energy_fj
    limit = CostLimit(most - most * left_out // 4, *weights)
    found = cost_within(nest, machine, [NO_STREAM_LIMIT] * 3, limit)
    assert found is not None or left_out
    assert found is None or (found.streams, found.latency_cycles) == (cost.streams, cost.latency_cycles)
