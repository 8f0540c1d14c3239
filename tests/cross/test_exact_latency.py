"""The latency that `tables` walks by transitions of the loops is the one that `tracesim` walks element by element."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.evaluate.cost import predict, to_machine, to_nest
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapping import BANKS
from tables.counts.cost import exact_cost
from tables.counts.latency import exact_latency
from tests.cross.cases import Case, cases
from tests.cross.test_shared_banks import in_one_bank


def check(case: Case) -> None:
    """Assert that both walks end in the same cycle."""
    nest, machine = to_nest(case.layer, case.mapping, case.arch.spatial_reduction), to_machine(case.arch)
    assert exact_latency(nest, machine) == simulate(case.layer, case.arch, case.mapping).latency_cycles


@settings(max_examples=200)
@given(cases(uneven=True))
def test_latency_is_the_simulated_one(case: Case) -> None:
    """Of any mapping, with tensors in banks of their own."""
    check(case)


@settings(max_examples=100)
@given(cases(uneven=True), st.sampled_from([text for text in BANKS if text != "I|W|O"]))
def test_latency_is_the_simulated_one_in_shared_banks(case: Case, banks: str) -> None:
    """A scan takes the time by which the merged sequence of its bank advances."""
    check(in_one_bank(case, banks))


@settings(max_examples=50)
@given(cases(uneven=True), st.sampled_from(list(BANKS)))
def test_prediction_is_the_larger_of_formula_and_walk(case: Case, banks: str) -> None:
    """So it is never below the simulated latency; and by the formula alone, where the walk would be too long."""
    case = in_one_bank(case, banks)
    nest, machine = to_nest(case.layer, case.mapping, case.arch.spatial_reduction), to_machine(case.arch)
    simulated, formula = simulate(case.layer, case.arch, case.mapping).latency_cycles, exact_cost(nest, machine)
    predicted = predict(case.layer, case.arch, case.mapping).figures.latency_cycles
    assert predicted == max(simulated, formula.latency_cycles)
    assert exact_latency(nest, machine, most=0) <= formula.latency_cycles
