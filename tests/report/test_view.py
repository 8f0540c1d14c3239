"""The data of the page, computed by hand for one small layer, and the messages for files that are not results."""

from typing import Any

import pytest

from cpsat_pim.report.view import build_view
from tests.report.results import ARCH, LAYER, UNMAPPED, document, shared_bank_document


@pytest.fixture(scope="module")
def view() -> dict[str, Any]:
    """The view of the two layers."""
    return build_view(document(), "some/where.json")


def test_equal_layers_share_their_details(view: dict[str, Any]) -> None:
    """Two rows, one detail; the file goes by its name."""
    rows = [(layer["name"], layer["count"], layer["detail"]) for layer in view["layers"]]
    assert rows == [("a", 1, 0), ("<b>", 3, 0)]
    assert len(view["details"]) == 1
    assert (view["source"], view["arch"]) == ("where.json", "default")


def test_parts_of_cycles_and_energy_add_up_to_what_the_file_says(view: dict[str, Any]) -> None:
    """12 steps, of which 192 MACs would fill 1024 lanes for 3/16; the rest of the latency waits for one thing."""
    detail, figures = view["details"][0], document()["layers"][0]["predicted"]
    assert detail["cycles"]["macs"] == 192 / 1024
    assert detail["cycles"]["macs"] + detail["cycles"]["idle"] == 12
    assert sum(detail["cycles"].values()) == figures["latency_cycles"]
    assert detail["bound"] in detail["cycles"]
    assert sum(detail["energies"].values()) == figures["energy_fj"]
    assert detail["energies"]["MAC"] == 192 * 560  # 0.56 pJ a MAC
    assert detail["energies"]["activation"] == sum(figures["row_activations"].values()) * 828_000  # 828 pJ a row


def test_terms_reach_the_latency_with_the_constant(view: dict[str, Any]) -> None:
    """The largest term and the machine's 6 cycles of access latency."""
    detail = view["details"][0]
    assert max(detail["terms"].values()) + 6 == detail["latency"]
    assert detail["terms"][detail["bound"]] == max(detail["terms"].values())


def test_nest_shows_loops_tiles_and_what_they_cut(view: dict[str, Any]) -> None:
    """I: 6 x 4 whole in the global buffer; the PEs keep 6 weights and one partial sum of 4 bytes."""
    places = {place["title"]: place for place in view["details"][0]["places"]}
    assert [*places] == ["LocalDRAM", "RowBuffer", "GlobalBuffer", "PE array", "PELocalBuffer", "MAC lanes"]
    assert places["GlobalBuffer"]["loops"] == [("K", 4, "")]
    assert places["GlobalBuffer"]["held"] == {"I": {"elems": 24, "bytes": 24}}
    assert places["GlobalBuffer"]["cuts"] == {"I": [1, 1], "W": [1, 4], "O": [1, 4]}
    assert places["PE array"]["loops"] == [("P", 4, "H"), ("K", 2, "W")]
    assert places["PE array"]["cuts"] == {"I": [4, 1], "W": [1, 2], "O": [4, 2]}
    assert places["PELocalBuffer"]["held"] == {"W": {"elems": 6, "bytes": 6}, "O": {"elems": 1, "bytes": 4}}
    assert (places["PELocalBuffer"]["usable"], places["PELocalBuffer"]["capacity"]) == (256, 512)
    assert places["PELocalBuffer"]["bypass"] == ["I"]
    assert places["MAC lanes"]["loops"] == [("C", 2, "INTERNAL")]
    assert places["LocalDRAM"]["held"]["O"] == {"elems": 32, "bytes": 32}  # finished outputs are a byte


def test_array_and_factors_are_those_of_the_mapping(view: dict[str, Any]) -> None:
    """4 of 16 rows, 2 of 16 columns, 2 of 4 lanes: 16 of 1024 MACs."""
    detail = view["details"][0]
    assert detail["array"] == {"rows": 16, "columns": 16, "lanes": 4, "H": 4, "W": 2, "INTERNAL": 2}
    assert detail["utilisation"] == 16 / 1024
    assert detail["dims"] == {"P": [1, 1, 1, 4, 1, 1], "C": [1, 1, 1, 1, 3, 2], "K": [1, 1, 4, 2, 1, 1]}


def test_activation_maps_hold_every_activation(view: dict[str, Any]) -> None:
    """All three tensors lie in their first row, which is opened once; each has a bank and so a map of its own."""
    figures = document()["layers"][0]["predicted"]["row_activations"]
    for tensor, drawn in zip("IWO", view["details"][0]["maps"], strict=True):
        assert [one["tensor"] for one in drawn["tensors"]] == [tensor]
        assert drawn["tensors"][0]["activations"] == figures[tensor] == 1
        assert (drawn["tensors"][0]["first_row"], drawn["tensors"][0]["end_row"]) == (0, 1)
        assert drawn["tensors"][0]["cells"] == [0, 0, 1]


def test_tensors_of_a_shared_bank_are_in_one_map() -> None:
    """I, W and O take a row each, in that order. Every activation has its own place in the bank's order.

    The global buffer stores the whole I; the PEs store W and O, whose tiles change with K of the global buffer, three
    times. Scans: I, W0; W1, O0; W2, O1; W3, O2; and O3 at the end. W1 finds the row open that W0 opened, and O3 that of
    O2. The other scans alternate between the two rows, so each opens its row.
    """
    (drawn,) = build_view(shared_bank_document(), "x.json")["details"][0]["maps"]
    assert [one["tensor"] for one in drawn["tensors"]] == ["I", "W", "O"]
    assert [(one["first_row"], one["end_row"]) for one in drawn["tensors"]] == [(0, 1), (1, 2), (2, 3)]
    assert [one["cells"] for one in drawn["tensors"]] == [
        [0, 0, 1],
        [x for order in (1, 3, 5) for x in (order, 1, 1)],
        [x for order in (2, 4, 6) for x in (order, 2, 1)],
    ]


def test_layer_that_was_not_simulated_is_not_simulated_for_its_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation that had not enough time in the solve has none in the page, either, and no figure of it is shown."""
    monkeypatch.setattr("cpsat_pim.report.view.record", None)
    data = document(simulated=None)
    data["layers"][0]["simulated"] = None
    (detail,) = build_view(data, "x.json")["details"]
    assert detail["simulated"] is None
    assert detail["maps"] is None


def test_charts_need_no_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the maps nothing of a view is simulated."""
    monkeypatch.setattr("cpsat_pim.report.view.record", None)
    (detail,) = build_view(document(), "x.json", has_maps=False)["details"]
    assert detail["maps"] is None


def test_layer_without_a_mapping_has_no_detail() -> None:
    """Its status is all there is."""
    view = build_view(document(**UNMAPPED), "x.json")
    assert [layer["detail"] for layer in view["layers"]] == [0, None]
    assert view["layers"][1]["status"] == "UNKNOWN"


def test_optional_keys_reach_the_page() -> None:
    """`progress` of a layer and `pareto` of a result; both may be absent."""
    data = document()
    fronts = [{"name": "f", "x": "latency_cycles", "y": "energy_fj", "points": [{"x": 1, "y": 2}]}]
    data["layers"][0]["progress"] = [[0.5, None, 3], [1.0, 9, 3]]
    view = build_view(data | {"pareto": fronts}, "x.json")
    assert view["layers"][0]["progress"] == ((0.5, None, 3), (1, 9, 3))
    assert view["layers"][1]["progress"] == ()
    assert view["pareto"][0]["points"] == [{"x": 1, "y": 2, "label": None, "status": None}]


def test_predictions_of_another_version_are_told_apart() -> None:
    """What the file holds is compared with what is predicted now."""
    data = document()
    data["layers"][0]["predicted"]["energy_fj"] += 1
    assert [view["stale"] for view in build_view(data, "x.json")["details"]] == [True]
    assert [view["stale"] for view in build_view(document(), "x.json")["details"]] == [False]


#: With what pages need of a front.
FRONT = {"name": "f", "x": "x", "y": "y", "points": [{"x": 1, "y": 1}]}


def without(*path: str | int) -> dict[str, Any]:
    """The document without an entry."""
    data = document()
    del place_of(data, path)[path[-1]]
    return data


def changed(value: Any, *path: str | int) -> dict[str, Any]:
    """The document with another value of an entry."""
    data = document()
    place_of(data, path)[path[-1]] = value
    return data


def place_of(data: Any, path: tuple[str | int, ...]) -> Any:
    """What holds an entry."""
    for key in path[:-1]:
        data = data[key]
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (without("totals", "macs"), "totals.macs: is missing"),
        (without("layers", 0, "count"), "layers[a].count: is missing"),
        (without("layers", 0, "mapping", "temporal"), "layers[a].mapping.temporal: is missing"),
        (changed("many", "layers", 0, "count"), 'layers[a].count: must be a positive integer (got "many")'),
        (
            changed(1e999, "layers", 0, "gap"),
            "layers[a].gap: must be a finite number of at least 0, or nothing (got .inf)",
        ),
        (changed(10**400, "layers", 0, "solve_seconds"), "layers[a].solve_seconds: must be a number below 2^62, of at"),
        (changed([[1, 2]], "layers", 0, "progress"), "layers[a].progress: must be a list of [seconds, best, bound]"),
        (changed([1], "layers", 0, "simulated"), "layers[a].simulated: must be an object or null (got [1])"),
        (changed("DONE", "layers", 0, "status"), "layers[a].status: must be one of OPTIMAL, FEASIBLE, INFEASIBLE, UN"),
        (changed({}, "layers", 0, "shape"), "a: P: factors"),
        (changed(None, "layers", 0), "layers[0]: must be a mapping of fields (got null)"),
        (changed(None, "layers"), "layers: must be a list of layers (got null)"),
        (changed({"kind": "speed", "alpha": 1, "beta": 1}, "objective"), "objective.kind: must be one of latency,"),
        (changed([{"name": "f", "x": "x", "points": [{"x": 1, "y": 1}]}], "pareto"), "pareto[f].y: is missing"),
        (changed([{**FRONT, "z": "z"}], "pareto"), "pareto[f].points[0].z: is missing"),
        (changed([{**FRONT, "points": [{"x": 1, "y": 1, "z": 1}]}], "pareto"), "pareto[f].points[0].z: is of no axis"),
        (changed(2, "schema"), "schema: must be 1 (got 2)"),
    ],
)
def test_file_with_a_mistake_is_refused_in_a_line(data: dict[str, Any], message: str) -> None:
    """The file and the entry."""
    with pytest.raises(ValueError, match=r".") as caught:
        build_view(data, "x.json")
    assert str(caught.value).startswith(f"x.json: {message}")
    assert "\n" not in str(caught.value)


def test_all_mistakes_of_a_file_are_told_at_once() -> None:
    """Each with its path; what is not known is passed over."""
    data = document() | {"later": 1}
    data["layers"][0]["count"], data["layers"][1]["gap"], data["layers"][1]["note"] = 0, -1, "x"
    with pytest.raises(ValueError, match=r".") as caught:
        build_view(data, "x.json")
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == ["layers[a].count", "layers[<b>].gap"]


def test_illegal_mapping_is_refused() -> None:
    """Twice as many loops as the layer has."""
    data = document()
    data["layers"][0]["mapping"]["temporal"]["GLOBAL_BUFFER"]["K"] *= 2
    with pytest.raises(ValueError, match=r"x\.json: a: K: .*") as caught:
        build_view(data, "x.json")
    assert "16" in str(caught.value)
    assert LAYER.K == 8
    assert ARCH.name == "default"


def test_view_and_document_say_how_many_nodes_there_are() -> None:
    """2 x 3 nodes: the page names one of 6, the totals count them; results of one node do not mention nodes."""
    data = document()
    assert data["totals"]["nodes"] == 1
    assert build_view(data, "one.json")["arch"] == "default"
    data["arch"] |= {"vault_count": 2, "pu_count": 3}
    assert build_view(data, "one.json")["arch"] == "one of 6 nodes of default"
