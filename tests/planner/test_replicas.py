"""Replicas of weights, which the place of the weights decides."""

from cpsat_pim.mapper.result import Objective
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.phases import rates_of
from cpsat_pim.planner.replicas import ReplicaTable
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.weighing import Price, Replication, Weighing
from cpsat_pim.workload.network import Network
from tests.planner.made_up import NETWORKS, NODE


def test_partitions_of_a_layer_without_weights_share_one_replication(monkeypatch):
    """No step is built for the second partition: none holds or exchanges weights, so at any price none costs."""
    graph = build_graph(Network(name="n", layers=NETWORKS["product"]))
    array = NodeArray(rows=2, cols=2, node=NODE)
    (task,) = (task for task in graph.tasks if not task.has_weights)
    rates = rates_of(array)
    weighing = Weighing(objective=Objective.named("latency"), rates=rates)
    table = ReplicaTable(graph=graph, task=task, rates=rates, weighing=weighing)
    first, *others = Space(dims=1).partitions(task, array.whole)
    assert table.all(first) == (Replication(replicas=1, cost=0, tie=0, node_bytes=0),)
    monkeypatch.setattr("cpsat_pim.planner.replicas.Step", None)
    assert not table.priced(others, Price(scale=1, per_byte=10**6)).any()
