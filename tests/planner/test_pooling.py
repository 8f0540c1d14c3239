"""Pooling on the way home and on the way in, counted by hand."""

import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.planner.additions import addition_of
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.phases import rates_of
from cpsat_pim.planner.step import Step
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import Pool
from cpsat_pim.workload.network import Network, NetworkNode

ARRAY = NodeArray(rows=1, cols=2, node=PIMArchitecture(), flit_bytes=1)
SPLIT = Partition(region=ARRAY.whole, w=[("P", 2)])
FIRST_NODE = Home(region=Region(0, 0, 1, 1))


def step(**node):
    """Four columns on two nodes, two each."""
    layer = ConvWorkload(P=node.pop("P", 4))
    graph = build_graph(Network(name="n", layers=[NetworkNode(name="a", after=["input"], workload=layer, **node)]))
    return Step(graph=graph, task=graph.tasks[0], partition=SPLIT, rates=rates_of(ARRAY))


@pytest.mark.parametrize(
    ("window", "stride", "sent"),
    [
        # Windows 01 and 23: each node has one whole. Node 1 sends its pooled element to node 0.
        (2, 2, 1),
        # Windows 012 and 123 straddle: node 1 has part of both, and sends what it has of both.
        (3, 1, 2),
    ],
)
def test_outputs_are_pooled_before_they_are_sent(window, stride, sent):
    """Both nodes read what they hold; node 0 writes its own part, reads and writes what arrives: a column each."""
    pool = Pool(window=(window, 1), stride=(stride, 1), size=(2, 1))
    cost = step(pool=pool).push(FIRST_NODE)
    assert (cost.flits, cost.bytes) == (sent, sent)
    assert (cost.columns_read, cost.columns_written) == (2 + 1, 1 + 1)
    assert cost.additions == 4  # every element that is pooled


def test_inputs_are_pooled_where_they_are_read():
    """Two outputs a node over pooled pairs: node 1 fetches columns 4 to 7, both nodes read four and write two."""
    pool = Pool(window=(2, 1), stride=(2, 1), size=(4, 1))
    network = Network(
        name="n",
        layers=[
            NetworkNode(name="a", after=["input"], workload=ConvWorkload(P=8)),
            NetworkNode(name="b", after=["a"], workload=ConvWorkload(P=4), input_pool=pool),
        ],
    )
    graph = build_graph(network)
    cost = Step(graph=graph, task=graph.tasks[1], partition=SPLIT, rates=rates_of(ARRAY)).pull(FIRST_NODE)
    assert (cost.flits, cost.bytes) == (4, 4)
    # Node 0 reads the 4 that it sends, node 1 writes them; then both read their raw box and write the pooled one.
    assert (cost.columns_read, cost.columns_written) == (1 + 2, 1 + 2)
    assert cost.additions == 8


def test_sum_is_made_at_home():
    """An operand more is read at home, once: 4 bytes, one column; 4 additions."""
    network = Network(
        name="n",
        layers=[
            NetworkNode(name="a", after=["input"], workload=ConvWorkload(P=4)),
            NetworkNode(name="b", after=["a"], workload=ConvWorkload(P=4)),
            NetworkNode(name="c", after=["b", "a"], workload=ConvWorkload(P=4), join="add"),
        ],
    )
    graph = build_graph(network)
    made = Step(graph=graph, task=graph.task("b"), partition=SPLIT, rates=rates_of(ARRAY))
    added = addition_of(graph, graph.task("b"), graph.task("b").finishes)
    plain, summed = made.push(FIRST_NODE), made.push(FIRST_NODE, added)
    assert graph.task("b").finishes[0].operands == ("b", "a")
    assert (summed.columns_read - plain.columns_read, summed.additions - plain.additions) == (1, 4)
