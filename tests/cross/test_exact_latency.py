"""The predicted latency is the simulated one, and no term of docs/model.md, section 7, exceeds it."""

from hypothesis import given, settings

from cpsat_pim.evaluate.cost import to_machine, to_nest
from cpsat_pim.evaluate.verify import simulate
from tables.counts.cost import exact_cost
from tests.cross.cases import Case, cases


@settings(max_examples=250)
@given(cases(uneven=True))
def test_latency_is_what_the_simulator_walks(case: Case) -> None:
    """The walk by transitions ends in the same cycle as the walk step by step; its lower bounds lie below."""
    cost = exact_cost(to_nest(case.layer, case.mapping, case.arch.spatial_reduction), to_machine(case.arch))
    simulated = simulate(case.layer, case.arch, case.mapping).latency_cycles
    assert cost.latency_cycles == simulated
    for name, cycles in cost.latency_terms.items():
        assert cycles + case.arch.pipeline_latency <= simulated, name
