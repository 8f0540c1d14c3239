import sys
from hypothesis import given, settings, HealthCheck
from cpsat_pim.evaluate.cost import to_machine, to_nest
from cpsat_pim.evaluate.verify import simulate
from tables.counts.latency import exact_latency
from tests.cross.cases import Case, cases
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(uneven=True))
def test_exact(case: Case) -> None:
    nest = to_nest(case.layer, case.mapping, case.arch.spatial_reduction)
    assert exact_latency(nest, to_machine(case.arch)) == simulate(case.layer, case.arch, case.mapping).latency_cycles
