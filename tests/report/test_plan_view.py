"""The data of a plan's page, by hand for two layers on 1 x 2 nodes, and the page as a file."""

import json
import re
from typing import Any

import pytest
from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan
from cpsat_pim.report.html import render_plan
from cpsat_pim.report.plan_view import CostedPlan, build_plan_view
from cpsat_pim.report.plans import format_cost, performance_data
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode

#: Flits of 8 bytes; an element has 1 byte.
ARRAY = NodeArray(rows=1, cols=2, node=PIMArchitecture(), flit_bytes=8)
NETWORK = Network(
    name="<n>",
    layers=[
        NetworkNode(name="a", after=["input"], workload=ConvWorkload(P=4, C=8, K=4)),
        NetworkNode(name="b", after=["a"], workload=ConvWorkload(P=4, C=4, K=2)),
    ],
)


def costed(**document: Any) -> CostedPlan:
    """Layer `a` is split by P as its input's home is, `b` by K, so that each node fetches the other half of `a`."""
    graph = build_graph(NETWORK)
    plan = Plan(
        network=graph.name,
        array=ARRAY,
        segments=[(RegionPlan(region=ARRAY.whole, layers=[name]),) for name in "ab"],
        layers={
            "a": LayerPlan(partition=Partition(region=ARRAY.whole, w=[("P", 2)]), node_cycles=10, node_energy_fj=20),
            "b": LayerPlan(partition=Partition(region=ARRAY.whole, w=[("K", 2)]), node_cycles=30, node_energy_fj=40),
        },
        homes={
            "input": Home(region=ARRAY.whole, w=[("W", 2)]),
            "a": Home(region=ARRAY.whole, w=[("W", 2)], layout="BHWC"),
            "b": Home(region=ARRAY.whole, w=[("C", 2)]),
        },
    )
    cost = evaluate_plan(graph, plan)
    return CostedPlan(network=NETWORK, graph=graph, plan=plan, cost=cost, document=document)


@pytest.fixture(scope="module")
def view() -> dict[str, Any]:
    """The view, through JSON text."""
    data: dict[str, Any] = json.loads(json.dumps(build_plan_view(costed())))
    return data


def test_steps_say_what_they_read_and_how_they_are_split(view: dict[str, Any]) -> None:
    """In the order of the plan, with the network's names."""
    shown = [(s["layer"], s["reads"], s["rows"], s["columns"], s["region"]) for s in view["steps"]]
    assert shown == [("a", ["input"], "", "P2", [0, 0, 1, 2]), ("b", ["a"], "", "K2", [0, 0, 1, 2])]


def test_rows_of_text_say_where_and_when_a_step_runs() -> None:
    """Region, splits, layouts and segment of both steps: each on the whole array in a segment of its own."""
    one = costed()
    rows = [line.split() for line in format_cost(one.plan, one.cost, one.graph).splitlines()[1:3]]
    assert [row[:9] for row in rows] == [
        ["a", "1x2", "at", "0,0", "-", "P2", "BCHW", ">", "BHWC"],
        ["b", "1x2", "at", "0,0", "-", "K2", "BHWC", ">", "BCHW"],
    ]
    assert [row[9] for row in rows] == ["0", "1"]


def test_loads_are_those_of_each_direction(view: dict[str, Any]) -> None:
    """Only `b` moves data: each node fetches the other's 2 columns x 4 channels, 8 bytes in one flit, over one link."""
    phases = {(s["layer"], p["name"]): p["loads"] for s in view["steps"] for p in s["phases"]}
    assert phases.pop(("b", "pull")) == [[1, 0, 0, 0], [0, 1, 0, 0]]
    assert set(map(str, phases.values())) == {"None"}


def test_cycles_are_split_without_a_rest(view: dict[str, Any]) -> None:
    """Node programs take 10 and 30; the parts of a step add up to its cycles, and all steps to the latency."""
    assert [step["parts"]["compute"] for step in view["steps"]] == [10, 30]
    assert all(sum(step["parts"].values()) == step["cycles"] for step in view["steps"])
    assert sum(step["cycles"] for step in view["steps"]) == view["totals"]["latency_cycles"]


def test_energies_add_up_to_the_total(view: dict[str, Any]) -> None:
    """Two nodes at 20 and 40 fJ; without sums at the ends of segments the steps have all of the energy."""
    assert [step["energies"]["compute"] for step in view["steps"]] == [40, 80]
    assert sum(sum(step["energies"].values()) for step in view["steps"]) == view["totals"]["energy_fj"]


def test_homes_are_those_of_the_plan(view: dict[str, Any]) -> None:
    """The input has 8 channels of 1 x 4 elements; nobody reads `b`."""
    shown = [(h["members"], h["shape"], h["bytes"], h["columns"], h["layout"], h["readers"]) for h in view["homes"]]
    assert shown == [
        (["input"], [1, 8, 1, 4], 32, "W2", "BCHW", ["a"]),
        (["a"], [1, 4, 1, 4], 16, "W2", "BHWC", ["b"]),
        (["b"], [1, 2, 1, 4], 8, "C2", "BCHW", []),
    ]


def test_search_is_shown_only_if_there_was_one(view: dict[str, Any]) -> None:
    """A replayed plan has no status; a solved one has the bound of its document."""
    solved = {"status": "OPTIMAL", "objective_kind": "latency", "objective": 9, "bound": 9, "gap": 0.0, "seconds": 1.5}
    assert view["solved"] is None
    assert build_plan_view(costed(**solved, statistics={}))["solved"] == solved


def test_page_of_a_plan_names_no_file_but_itself() -> None:
    """Nothing is loaded by an address, and a network named like a tag stays text."""
    pytest.importorskip("plotly", reason="the report's plotting library is not installed")
    page = re.sub(r'(?s)<script type="text/plain".*?</script>', "", render_plan(costed()))
    assert "<title>&lt;n&gt; on 1 x 2 nodes of default</title>" in page
    assert set(re.findall(r"https?://[^\s\"'<)]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe)\b|\bsrc=|\bfetch\(|@import|\burl\(|<n>", page)
    assert "default-src 'none'" in page


def test_rings_are_those_of_sets_with_several_nodes(view: dict[str, Any]) -> None:
    """Both nodes of `b` want all of `a`; each has all weights that it uses, so these pass along no ring."""
    assert [step["rings"] for step in view["steps"]] == [{}, {"pull": [[0, 1]]}]


def test_spans_are_the_phases_in_time(view: dict[str, Any]) -> None:
    """`a` moves nothing, so it is its node program; `b` fetches first. Spans end with the latency."""
    spans = view["spans"]
    assert [(step, name) for step, name, _, _ in spans] == [(0, "compute"), (1, "pull"), (1, "compute")]
    assert spans[0][2:] == [0, 10]
    assert spans[-1][3] == view["totals"]["latency_cycles"]


def test_performance_of_a_plan_is_that_of_all_nodes() -> None:
    """Layer a has 4 x 8 x 4 MACs, b 4 x 4 x 2: 320 operations. At 1 MHz a cycle is 1 us; each of 2 nodes draws 1 mW."""
    timed = costed()
    node = evolve(ARRAY.node, clock=1_000_000, static_power=0.001)
    plan, cost = evolve(timed.plan, array=evolve(ARRAY, node=node)), timed.cost
    seconds, joules = cost.latency_cycles * 1e-6, cost.energy_fj * 1e-15
    text, figures = format_cost(plan, cost, timed.graph), performance_data(timed.graph, plan, cost)["performance"]
    assert figures["latency_s"] == pytest.approx(seconds)
    assert figures["static_energy_j"] == pytest.approx(0.002 * seconds)
    assert figures["tops"] == pytest.approx(320e-12 / seconds)
    assert figures["tops_per_w"] == pytest.approx(320e-12 / (joules + 0.002 * seconds))
    assert "at 1.000 MHz: " in text
    assert "with 2.000 mW of static power" in text
    assert "a run is of" not in text
    assert "; a run is of 3 samples" in format_cost(evolve(plan, batch=3), cost, timed.graph)


def test_plan_without_a_clock_has_no_performance() -> None:
    """Cycles are all that is known."""
    given = costed()
    assert performance_data(given.graph, given.plan, given.cost) == {}
    assert "runs/s" not in format_cost(given.plan, given.cost, given.graph)
