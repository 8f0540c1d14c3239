"""Results as notebooks show them."""

from cpsat_pim.mapper.network.optimizer import OptimizationResult
from cpsat_pim.mapper.result import Status
from tests.report.results import UNMAPPED, solved_layer, solved_network


def test_network_is_a_table_with_totals() -> None:
    """A heading, a row per layer, the totals; names are text."""
    text = solved_network()._repr_html_()
    assert text.count("<tr>") == 4
    assert "<td>&lt;b&gt;</td><td>3</td>" in text
    assert "<tfoot><tr><th>total</th><th>4</th>" in text


def test_layer_brings_its_nest() -> None:
    """One row without totals, and the loops; without a mapping just the row."""
    text = solved_layer()._repr_html_()
    assert text.count("<tr>") == 2
    assert "for K in [0:4)" in text
    assert "<pre>" not in solved_layer(**UNMAPPED)._repr_html_()


def test_optimizer_result_is_a_table() -> None:
    """A row per workload."""
    layers = (solved_layer(), solved_layer())
    result = OptimizationResult(mappings=layers, status=Status.OPTIMAL, objective_value=1, bound=1, seconds=1.0)
    assert result._repr_html_().count("<tr>") == 3
