"""What `tables` predicts against what `tracesim` counts, which share no code: every exact figure of any mapping."""

from hypothesis import given, settings

from cpsat_pim.cost import predict
from cpsat_pim.verify import simulate
from tests.cross.cases import Case, cases


@settings(max_examples=800)
@given(cases(uneven=True))
def test_predicted_figures_are_the_simulated_ones(case: Case) -> None:
    """Accesses, columns, activations, DRAM cycles, compute cycles and energy, whatever the mapping."""
    predicted = predict(case.layer, case.arch, case.mapping).figures
    simulated = simulate(case.layer, case.arch, case.mapping)
    ours, theirs = predicted.to_dict(), simulated.to_dict()
    assert {key: (ours[key], theirs[key]) for key in predicted.differences(simulated)} == {}
