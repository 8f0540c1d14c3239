"""Tensors that share a bank: what `tables` counts tensor by tensor is what `tracesim` counts in the merged scans."""

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapping import BANKS, OWN_BANKS
from tests.cross.cases import Case, cases, in_one_bank
from tests.cross.test_tables_against_trace import wrong_figures


def check(case: Case, banks: str) -> None:
    """Assert that every exact figure is the simulated one, and that sharing neither saves nor moves anything."""
    shared = in_one_bank(case, banks)
    assert wrong_figures(shared.layer, shared.arch, shared.mapping) == []
    figures, own, closed = (
        predict(shared.layer, arch, mapping).figures
        for arch, mapping in (
            (shared.arch, shared.mapping),
            (shared.arch, attrs.evolve(shared.mapping, banks=OWN_BANKS)),
            (attrs.evolve(shared.arch, page_policy="closed"), shared.mapping),
        )
    )
    for least, count, most in zip(own.row_activations, figures.row_activations, closed.row_activations, strict=True):
        assert least <= count <= most
    assert figures.column_accesses == own.column_accesses
    assert figures.accesses == own.accesses


@settings(max_examples=300)
@given(cases(uneven=True), st.sampled_from([text for text in BANKS if text != "I|W|O"]))
def test_shared_banks_are_counted_exactly(case: Case, banks: str) -> None:
    """Activations, columns, DRAM cycles and energy of any mapping, also one whose row buffer stores what is shared."""
    check(case, banks)
