"""Tensors with several banks each: what `tables` counts is what `tracesim` counts, and more banks cost no more."""

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.evaluate.cost import predict, stream_cycles
from cpsat_pim.evaluate.verify import simulate
from tests.cross.cases import Case, in_several_banks
from tests.cross.test_exact_latency import check as check_latency
from tests.cross.test_tables_against_trace import wrong_figures


@settings(max_examples=300)
@given(in_several_banks())
def test_several_banks_a_tensor_are_counted_exactly(case: Case) -> None:
    """Activations, columns, DRAM cycles and energy of any mapping."""
    assert wrong_figures(case.layer, case.arch, case.mapping) == []


@settings(max_examples=200)
@given(in_several_banks())
def test_latency_is_the_simulated_one_with_several_banks(case: Case) -> None:
    """The walk by transitions ends in the cycle of the walk over elements."""
    check_latency(case)


@settings(max_examples=300)
@given(in_several_banks(), st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_twice_the_banks_cost_no_more(few: Case, doubled: tuple[bool, ...]) -> None:
    """The rows that b banks keep open are among those that 2b banks keep open (docs/solver.md, Bank counts).

    So no tensor opens more rows, no stream takes longer, and no scan: nor does the pipeline.
    """
    banks, counts = few.mapping.banks, few.mapping.bank_counts
    more = [n * 2 if banks.count(banks[t]) == 1 and doubled[t] else n for t, n in enumerate(counts)]
    many = attrs.evolve(few, mapping=attrs.evolve(few.mapping, bank_counts=more))
    old, new = (predict(case.layer, case.arch, case.mapping).figures for case in (few, many))
    assert all(n <= o for n, o in zip(new.row_activations, old.row_activations, strict=True))
    assert new.energy_fj <= old.energy_fj
    cycles = [stream_cycles(case.layer, case.arch, case.mapping) for case in (few, many)]
    assert all(n <= o for o, n in zip(*cycles, strict=True))
    simulated = [simulate(case.layer, case.arch, case.mapping).latency_cycles for case in (few, many)]
    assert simulated[1] <= simulated[0]
