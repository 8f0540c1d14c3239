"""Results as plain data, frames, text and notebook tables."""

import json

from cpsat_pim.base.dims import Tensor
from cpsat_pim.mapper.network.optimizer import OptimizationResult
from cpsat_pim.mapper.result import Status
from tests.report.results import UNMAPPED, solved_layer, solved_network


def test_frame_of_a_network_has_a_row_for_each_layer() -> None:
    """Names, counts and figures are those of the results; the sums over counts are the network's totals."""
    solved = solved_network()
    frame = solved.to_frame()
    assert frame["layer"].tolist() == ["a", "<b>"]
    assert frame["count"].tolist() == [1, 3]
    assert (frame["count"] * frame["cycles"]).sum() == solved.latency_cycles
    layer = solved.layers[0].solved
    for t in Tensor:
        assert frame[f"activations_{t.name}"][0] == layer.predicted.row_activations[t]
    assert frame["energy_nj"][0] * 1e6 == layer.predicted.energy_fj


def test_frame_of_an_unmapped_layer_says_its_status() -> None:
    """There are no figures without a mapping."""
    frame = solved_layer(**UNMAPPED).to_frame()
    assert list(frame.columns) == ["layer", "status", "gap"]
    assert frame["status"][0] == UNMAPPED["status"]


def test_json_text_is_the_plain_data() -> None:
    """Read back, the text is what `to_dict` returns; a layer's entry in a network is its own but for name and count."""
    solved = solved_network()
    assert json.loads(solved.to_json()) == json.loads(json.dumps(solved.to_dict()))
    (first, second), layer = solved.to_dict()["layers"], solved_layer()
    assert first == json.loads(layer.to_json())
    assert second == first | {"name": "<b>", "count": 3}


def test_repr_is_one_short_line() -> None:
    """A result in a prompt says what, where, and how far it is proven."""
    for text in (repr(solved_layer()), repr(solved_network())):
        assert "\n" not in text
        assert len(text) < 120
    assert "OPTIMAL" in repr(solved_layer())
    assert "2/2 proven" in repr(solved_network())


def test_notebooks_show_a_row_for_each_layer() -> None:
    """A heading and the rows; names are text, not markup."""
    text = solved_network()._repr_html_()
    assert text.count("<tr") == 3
    assert "&lt;b&gt;" in text
    result = OptimizationResult(
        mappings=(solved_layer(), solved_layer()), status=Status.OPTIMAL, objective_value=1, bound=1, seconds=1.0
    )
    assert result._repr_html_().count("<tr") == 3


def test_notebooks_show_the_loop_nest_of_a_layer() -> None:
    """One row and the loops; without a mapping only the row."""
    text = solved_layer()._repr_html_()
    assert text.count("<tr") == 2
    assert "for K in [0:4)" in text
    assert "<pre>" not in solved_layer(**UNMAPPED)._repr_html_()
