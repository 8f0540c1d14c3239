"""Imported networks on one node, where their layers are all that is evaluated."""

from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan
from cpsat_pim.planner.simulation import to_records
from tests.planner.made_up import NODE


def on_one_node(network):
    """The records of a plan on one node: the layers are all that is evaluated."""
    graph, array = build_graph(network), NodeArray(rows=1, cols=1, node=NODE)
    layers = {
        task.name: LayerPlan(partition=Partition(region=array.whole), node_cycles=1, node_energy_fj=1)
        for task in graph.tasks
    }
    segments = tuple((RegionPlan(region=array.whole, layers=(task.name,)),) for task in graph.tasks)
    homes = dict.fromkeys(graph.stacks, Home(region=array.whole))
    return to_records(network, graph, Plan(network="n", array=array, segments=segments, layers=layers, homes=homes))
