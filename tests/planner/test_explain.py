"""What is said of a plan, by hand for two layers on 1 x 2 nodes."""

import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.evaluate import evaluate_plan
from cpsat_pim.planner.explain import explain_plan
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan
from cpsat_pim.planner.space import Space
from cpsat_pim.report.plan_explanation import explanation_document, format_explanation
from cpsat_pim.report.plan_timeline import build_plan_timeline, spans_of
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode

ARRAY = NodeArray(rows=1, cols=2, node=PIMArchitecture(), flit_bytes=8)
GRAPH = build_graph(
    Network(
        name="n",
        layers=[
            NetworkNode(name="a", after=["input"], workload=ConvWorkload(P=4, C=8, K=4)),
            NetworkNode(name="b", after=["a"], workload=ConvWorkload(P=4, C=4, K=2)),
        ],
    )
)


def plan_of(replicas=None):
    """`a` is split by P as its input's home is, `b` by K, so that each node fetches the other half of `a`."""
    whole = ARRAY.whole
    split = {
        "a": Partition(region=whole, w=[("P", 2)], weight_replicas=replicas),
        "b": Partition(region=whole, w=[("K", 2)]),
    }
    return Plan(
        network="n",
        array=ARRAY,
        segments=[(RegionPlan(region=whole, layers=[name]),) for name in "ab"],
        layers={name: LayerPlan(partition=split[name], node_cycles=10) for name in "ab"},
        homes={
            "input": Home(region=whole, w=[("W", 2)]),
            "a": Home(region=whole, w=[("W", 2)]),
            "b": Home(region=whole, w=[("C", 2)]),
        },
    )


def explained(plan):
    """The plan's cost and what is said of it."""
    cost = evaluate_plan(GRAPH, plan)
    return cost, explain_plan(GRAPH, plan, cost, Space(dims=1))


def test_only_what_moves_is_named():
    """Only `a` moves, only to its reader; both nodes want all of it, so no home spares it."""
    cost, found = explained(plan_of())
    pull = next(phase for phase in cost.steps[1].phases if phase.name == "pull")
    (only,) = found.movements
    assert (only.tensor, only.push_cycles, only.pull_cycles) == ("a", 0, pull.cycles)
    assert 0 < only.least_cycles <= only.cycles
    assert (found.link.layer, found.link.phase, found.link.flits) == ("b", "pull", 1)
    assert {found.link.source, found.link.target} == {0, 1}


def test_time_is_shared_out_without_a_rest():
    """Node programs take 10 cycles each; the rest of the latency is network or DRAM."""
    cost, found = explained(plan_of())
    assert found.time.node == 20
    assert found.time.node + found.time.network + found.time.dram == cost.latency_cycles


def test_capacity_has_a_price_where_a_replica_may_go_or_come():
    """`a` has 32 bytes of weights on both nodes, or 16 on each; exchanging halves is what 16 bytes are worth."""
    _, full = explained(plan_of())
    cost, halved = explained(plan_of(replicas=1))
    weights = cost.steps[0].phases[0].cycles
    assert weights > 0
    assert (full.capacity.gain, full.capacity.gain_layer, full.capacity.loss_layer) == (0, "", "a")
    assert full.capacity.loss == pytest.approx(weights * 2**20 / 16)
    assert (halved.capacity.gain_layer, halved.capacity.loss) == ("a", None)
    assert halved.capacity.gain == pytest.approx(weights * 2**20 / 16)


def test_text_and_document_say_the_same():
    """The figures of the document are in the text."""
    cost, found = explained(plan_of(replicas=1))
    text, document = format_explanation(found, cost), explanation_document(found)
    assert "a MiB more on a node would save" in text
    assert f"a: {document['movements'][0]['push_cycles'] + document['movements'][0]['pull_cycles']} cycles" in text
    assert "forced by the partitions around it" in text


def test_spans_fill_the_latency():
    """Without regions side by side, each phase begins where the one before ends."""
    cost = evaluate_plan(GRAPH, plan_of(replicas=1))
    spans = spans_of(plan_of(replicas=1), cost)
    assert [span.start for span in spans[1:]] == [span.end for span in spans[:-1]]
    assert (spans[0].start, spans[-1].end) == (0, cost.latency_cycles)


def test_trace_has_a_track_a_node():
    """Steps and phases on both nodes, phases within their steps; counters beside them."""
    plan = plan_of()
    events = build_plan_timeline(plan, evaluate_plan(GRAPH, plan))["traceEvents"]
    assert {e["tid"] for e in events if e["ph"] == "X"} == {0, 1}
    steps = [e for e in events if e["ph"] == "X" and "cycles" in e["args"]]
    assert [e["name"] for e in steps if e["tid"] == 1] == ["a", "b"]
    phases = [e for e in events if e["ph"] == "X" and "cycles" not in e["args"]]
    for phase in phases:
        inside = [s for s in steps if s["tid"] == phase["tid"] and s["ts"] <= phase["ts"]
                  and phase["ts"] + phase["dur"] <= s["ts"] + s["dur"]]  # fmt: skip
        assert len(inside) == 1
    assert {e["name"] for e in events if e["ph"] == "C"} == {"flits on the busiest link", "bytes on the fullest node"}


def test_tours_could_save_what_a_link_takes_beyond_dram_and_ports():
    """On two nodes a link carries what a port receives: only the hop is left to save, unless DRAM takes longer."""
    cost, found = explained(plan_of(replicas=1))
    toured = [phase for step in cost.steps for phase in step.phases if phase.name in ("weights", "pull", "reduce")]
    assert found.tours.cycles == sum(phase.cycles for phase in toured)
    assert found.tours.most_saved == sum(
        max(0, p.network_cycles - max(p.dram_cycles, p.max_link_flits)) for p in toured
    )
