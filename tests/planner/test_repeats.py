"""Blocks that run several times, written out by hand; and second operands that are cached."""

import pytest

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.repeats import written_out
from cpsat_pim.planner.search import solve_plan
from cpsat_pim.planner.space import Space
from cpsat_pim.report.plans import format_cost
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import View
from cpsat_pim.workload.network import Network, NetworkNode, network_names, read_network
from tests.planner.made_up import NODE, MadeUpCosts, without_mapping


def node(name, after, **fields):
    """A layer; keys that are no bounds are the network's."""
    keys = ("join", "pad", "weights", "count", "weight_rows", "adds", "input_adds")
    own = {key: fields.pop(key) for key in keys if key in fields}
    return NetworkNode(name=name, after=after, workload=ConvWorkload(name=name, **fields), **own)


def network(*nodes):
    """A network of such layers."""
    return Network(name="n", layers=nodes)


def after(found):
    """What each layer comes after."""
    return {one.name: one.after for one in found.layers}


def test_each_run_of_a_block_reads_the_output_of_the_run_before():
    """Two runs of two layers between a first and a last one; the last reads the second run's output."""
    found = written_out(
        network(
            node("first", ["input"]),
            node("a", ["first"], count=2),
            node("b", ["a"], count=2),
            node("last", ["b"]),
        )
    )
    assert after(found) == {
        "first": ("input",),
        "a.0": ("first",),
        "b.0": ("a.0",),
        "a.1": ("b.0",),
        "b.1": ("a.1",),
        "last": ("b.1",),
    }
    assert all(one.count == 1 for one in found.layers)


def test_what_a_block_adds_is_that_of_the_run_before():
    """A block that adds what it reads to what it makes, and to what it reads in its second layer."""
    found = written_out(
        network(
            node("first", ["input"]),
            node("a", ["first"], count=2),
            node("b", ["a"], count=2, input_adds={"first": View()}, adds={"first": View(), "a": View()}),
        )
    )
    runs = {one.name: one for one in found.layers}
    assert list(runs["b.0"].input_adds) == ["first"]
    assert list(runs["b.1"].input_adds) == ["b.0"]
    assert list(runs["b.1"].adds) == ["b.0", "a.1"]


def test_output_of_a_block_is_what_others_read():
    """The layer behind reads the first layer of the block, so the second run reads that too."""
    found = written_out(
        network(node("a", ["input"], count=2), node("b", ["a"], count=2), node("last", ["a"])),
    )
    assert after(found)["a.1"] == ("a.0",)
    assert after(found)["last"] == ("a.1",)


def test_output_of_the_last_block_is_its_last_layer():
    """Nobody reads it."""
    found = written_out(network(node("a", ["input"], count=3), node("b", ["a"], count=3)))
    assert after(found)["a.2"] == ("b.1",)


def test_network_without_counts_stays_as_it_is():
    """Names and all."""
    one = network(node("a", ["input"]), node("b", ["a"]))
    assert written_out(one) == one


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("x", ["input"]), node("a", ["input"], count=2), node("b", ["a", "x"], count=2, join="add")],
            "n: a: count: runs of a block must read one tensor of other layers (got input, x)",
        ),
        (
            [node("a", ["input"], count=2), node("b", ["a"], count=2), node("c", ["a", "b"], join="add")],
            "n: a: count: other layers must read one tensor of a block (got a, b)",
        ),
    ],
)
def test_blocks_whose_runs_are_not_clear_are_refused(nodes, message):
    """A line says which tensors are in question."""
    with pytest.raises(ValueError, match=r".") as caught:
        written_out(network(*nodes))
    assert str(caught.value) == message


def products(rows, made):
    """A product of two activations that takes so many rows of a second operand with so many rows made."""
    return network(
        node("q", ["input"], C=4, K=4),
        node("k", ["input"], P=made, C=4, K=4) if made > 1 else node("k", ["input"], C=4, K=4),
        node("s", ["q", "k"], C=2, K=rows, G=2, weights=False, weight_rows="K"),
    )


def test_cached_operand_is_planned_like_weights():
    """Of 8 keys one is made: the other 7 are in DRAM already. With all 8 made there is no cache."""
    cached, made = (written_out(products(8, count)).layers[2] for count in (1, 8))
    assert (cached.weights, cached.after) == (True, ("q",))
    assert (made.weights, made.after) == (False, ("q", "k"))


@pytest.mark.parametrize("name", [name for name in network_names() if "llama" in name or "gpt" in name])
@pytest.mark.parametrize("parameters", [{"prompt": 16}, {"prompt": 128}, {"prompt": 1, "kv": 100}])
def test_language_models_have_plans(name, parameters):
    """All blocks are there and tensors fit together; weights and, behind cached tokens, the cache are resident."""
    network = read_network(name, parameters=parameters)
    graph = build_graph(written_out(network))
    assert len(graph.tasks) == sum(one.count for one in network.layers)
    weights = sum(task.workload.G * task.workload.C * task.workload.K for task in graph.tasks if task.has_weights)
    scores = next(one for one in network.layers if one.name == "scores")
    cached = 2 * scores.count * scores.workload.G * scores.workload.C * scores.workload.K if "kv" in parameters else 0
    assert weights == network.total_weights + cached


def patches(**fields):
    """Patches of 2 x 3 pixels that two runs of a block read as six tokens and a constant one."""
    return network(
        node("patches", ["input"], R=2, S=3, P=3, Q=2, C=2, K=4, stride=(2, 3), **fields),
        node("a", ["patches"], P=7, C=4, K=4, pad=(1, 0), count=2),
    )


def test_patches_read_as_tokens_are_a_product():
    """As many multiplications and weights; the constant token is in front of what the first run reads, only there."""
    given = patches()
    found = written_out(given)
    row = found.layers[0].workload
    assert (row.P, row.Q, row.C, row.K, row.R, row.S, tuple(row.stride)) == (6, 1, 12, 4, 1, 1, (1, 1))
    assert [one.pad for one in found.layers] == [None, (1, 0), None]
    assert (found.total_macs, found.total_weights) == (given.total_macs, given.total_weights)
    graph = build_graph(found)
    assert [graph.stacks[task.reads.stack].shape[3] for task in graph.tasks] == [6, 6, 7]
    assert [task.pad for task in graph.tasks] == [(0, 0), (1, 0), (0, 0)]


def test_filters_that_overlap_or_images_stay_as_they_are():
    """A filter that does not tile its input is no patch, and what is read as an image is none."""
    overlapping = network(node("patches", ["input"], R=3, S=3, P=3, Q=2, C=2, K=4, stride=(2, 3)))
    image = network(
        node("patches", ["input"], R=2, S=3, P=3, Q=2, C=2, K=4, stride=(2, 3)),
        node("a", ["patches"], P=3, Q=2, C=4, K=4),
    )
    for one in (overlapping, image):
        assert written_out(one).layers[0].workload == one.layers[0].workload


def test_more_constant_tokens_than_are_given_are_refused():
    """Of eight tokens six are made and one is a constant: where the last comes from nobody says."""
    short = network(*patches().layers[:1], node("a", ["patches"], P=8, C=4, K=4, pad=(1, 0)))
    with pytest.raises(ValueError, match=r"a: takes 8 columns \(got 6\): must be padded, pooled or resized to fit"):
        build_graph(written_out(short))


def test_vit_has_a_plan():
    """All 24 blocks: tensors fit together, and no multiplication is lost."""
    network = read_network("vit-l")
    graph = build_graph(written_out(network))
    assert len(graph.tasks) == 1 + 24 * 8 + 1
    assert sum(task.workload.macs for task in graph.tasks) == network.total_macs


def test_equal_runs_are_one_row(monkeypatch):
    """Two equal runs of one layer take half of the time each: one row says both, with their share together."""
    monkeypatch.setattr("cpsat_pim.planner.instance.LayerPlan", without_mapping)
    graph = build_graph(written_out(network(node("a", ["input"], C=2, K=2, count=2))))
    kind, array = Objective.named("latency"), NodeArray(rows=1, cols=1, node=NODE)
    solved = solve_plan(graph, array, Space(dims=1, layouts=("BCHW",), is_tied=False), kind, MadeUpCosts(kind))
    text = format_cost(solved.plan, solved.cost, graph)
    row = next(line for line in text.splitlines() if line.startswith("a.0"))
    assert row.startswith("a.0-1 ")
    assert "100.0 %" in row
    assert len(solved.cost.steps) == 2


def test_steps_that_do_not_read_what_the_step_before_makes_are_refused():
    """Each of four steps reads 6 channels, the step before makes 3."""
    layer = ConvWorkload(name="up", P=4, C=6, K=3)
    network = Network(name="n", layers=[NetworkNode(name="up", count=4, after=["input"], workload=layer)])
    with pytest.raises(
        ValueError, match=r"n: up: count: must read 6 channels in each run \(got 3 of up in the run before"
    ):
        written_out(network)
