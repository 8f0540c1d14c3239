"""Tables of pulls and pushes for many homes against the phases of single homes."""

import numpy as np
import pytest

from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.measures import measured_pulls, measured_pushes
from cpsat_pim.planner.phases import rates_of
from cpsat_pim.planner.space import Space
from cpsat_pim.planner.step import Step
from cpsat_pim.workload.network import Network
from tables.array.table import ACTS, DRAM, HOPS, NETWORK, READS, WRITES
from tests.planner.made_up import NETWORKS, NODE

#: Measures beside the figures of a phase that they are.
FIGURES = {
    NETWORK: "network_cycles",
    DRAM: "dram_cycles",
    HOPS: "flit_hops",
    READS: "columns_read",
    WRITES: "columns_written",
    ACTS: "activations",
}


def figures(phase):
    """A phase's figures in the order of measures."""
    return [getattr(phase, name) for name in FIGURES.values()]


@pytest.mark.parametrize("interconnect", ["mesh", "host"])
@pytest.mark.parametrize("name", ["chain", "product", "beside", "pyramid", "summed by readers", "many", "shared"])
def test_homes_on_the_array_and_on_its_first_column_cost_what_single_phases_do(name, interconnect):
    """A table over homes of two regions has what each of them costs by itself, also of a second stack."""
    graph = build_graph(Network(name="n", layers=NETWORKS[name]))
    array = NodeArray(rows=2, cols=2, node=NODE, flit_bytes=2, interconnect=interconnect)
    space = Space(dims=1, layouts=("BCHW",), home_columns=True)
    task = graph.tasks[-1]
    second = task.read_stacks[1:2]
    reads, *reads_weights, writes = (
        space.homes(graph.stacks[stack].shape, array.whole) for stack in (task.reads.stack, *second, task.writes)
    )
    assert {home.region.w for home in reads} == {1, 2}
    for partition in list(space.partitions(task, array.whole))[:4]:
        step = Step(graph=graph, task=task, partition=partition, rates=rates_of(array))
        pulls = measured_pulls(step, reads, reads_weights[0] if second else [])[..., list(FIGURES)]
        pushes = measured_pushes(step, writes)[..., list(FIGURES)]
        others = reads_weights[0] if second else [None]
        assert np.array_equal(pulls, [[figures(step.pull(home, other)) for other in others] for home in reads])
        assert np.array_equal(pushes, [figures(step.push(home)) for home in writes])
