"""What a step moves, against the page walked element by element."""

from itertools import product

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.planner.additions import addition_of
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.boxes import home_boxes, volumes
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.movement import least_of, most_at_home
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.phases import rates_of
from cpsat_pim.planner.space import Space, sides
from cpsat_pim.planner.step import Step
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import InputSize
from cpsat_pim.workload.network import Network, NetworkNode
from tests.planner import naive
from tests.planner.made_up import NETWORKS

#: 32-byte columns and 1-KiB rows; flits of 3 bytes, so that messages round up.
NODE = PIMArchitecture()


def as_region(region: Region):
    """The region as the naive walk takes it."""
    return (region.y, region.x, region.h, region.w)


@st.composite
def cases(draw):
    """A small convolution, an array, a partition and two homes, in regions that need not be the same."""
    rows, cols = draw(st.sampled_from([(1, 2), (2, 2), (2, 4), (3, 2)]))
    bound = st.integers(1, 5)
    stride = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    shape = {dim: draw(bound) for dim in "PQCKN"} | {"R": draw(st.integers(1, 3)), "S": draw(st.integers(1, 3))}
    widths = draw(st.sampled_from([(1, 1), (2, 4)]))
    layer = ConvWorkload(
        **shape, stride=stride, input_bytes=widths[0], output_bytes=widths[0], weight_bytes=2, psum_bytes=widths[1]
    )
    pad = (draw(st.integers(0, layer.R - 1)), draw(st.integers(0, layer.S - 1)))
    size = InputSize(
        N=layer.N, C=layer.C, H=max(1, layer.input_height - 2 * pad[1]), W=max(1, layer.input_width - 2 * pad[0])
    )
    node = NetworkNode(name="a", workload=layer, after=["input"], pad=pad)
    array = NodeArray(rows=rows, cols=cols, node=NODE, flit_bytes=3)

    def region():
        y, x = draw(st.integers(0, rows - 1)), draw(st.integers(0, cols - 1))
        return Region(y, x, draw(st.integers(1, rows - y)), draw(st.integers(1, cols - x)))

    def split(size_, dims):
        return draw(st.sampled_from(list(sides(size_, dict.fromkeys(dims, 8), 2)) or [()]))

    at = region()
    dims = ("N", "P", "Q", "K", "C")
    partition = Partition(region=at, h=split(at.h, dims), w=split(at.w, dims))
    homes = []
    for _ in range(2):
        where = region()
        layout = draw(st.sampled_from(["BCHW", "BHWC"]))
        homes.append(Home(region=where, h=split(where.h, "NCHW"), w=split(where.w, "NCHW"), layout=layout))
    return Network(name="n", layers=[node], input=size), array, partition, homes


def figures(phase, array):
    """What both sides count."""
    return {
        "bytes": phase.bytes,
        "flits": phase.flits,
        "flit_hops": phase.flit_hops,
        "reads": sum(phase.reads.values()),
        "writes": sum(phase.writes.values()),
        "activations": sum(phase.rows.values()),
        "max_link_flits": max(phase.links.values(), default=0),
        "ports": sorted(list(phase.inject.values()) + list(phase.eject.values())),
        "fullest": max(
            (
                (phase.reads[n] + phase.writes[n]) * array.node.dram_timings.tCCD_L
                + phase.rows[n] * (array.node.dram_timings.tRP + array.node.dram_timings.tRCDRD)
                for n in range(array.nodes)
            ),
            default=0,
        ),
    }


def predicted(cost):
    """The same of a predicted phase."""
    ports = sorted(int(flits) for flits in cost.loads[:, 4:].reshape(-1) if flits)
    return {
        "bytes": cost.bytes,
        "flits": cost.flits,
        "flit_hops": cost.flit_hops,
        "reads": cost.columns_read,
        "writes": cost.columns_written,
        "activations": cost.activations,
        "max_link_flits": cost.max_link_flits,
        "ports": ports,
        "fullest": cost.dram_cycles,
    }


@settings(deadline=None, max_examples=150)
@given(case=cases())
def test_pull_moves_what_the_page_says(case):
    """Bytes, flits a link and port, hops, columns and activations of every input box."""
    network, array, partition, (home, _) = case
    graph = build_graph(network)
    (task,) = graph.tasks
    step = Step(graph=graph, task=task, partition=partition, rates=rates_of(array))
    phase = naive.Phase(array.cols, array.flit_bytes, NODE.column_bytes, NODE.row_bytes)
    split = (as_region(partition.region), partition.h, partition.w)
    naive.pull(
        phase,
        task.workload,
        task.pad,
        split,
        graph.stacks["input"].shape,
        (as_region(home.region), home.h, home.w),
        home.layout == "BHWC",
        task.workload.input_bytes,
        array.cols,
    )
    assert predicted(step.pull(home)) == figures(phase, array)


@settings(deadline=None, max_examples=150)
@given(case=cases())
def test_reduce_and_push_move_what_the_page_says(case):
    """The same of partial sums, and of outputs on their way home."""
    network, array, partition, (_, home) = case
    graph = build_graph(network)
    (task,) = graph.tasks
    step = Step(graph=graph, task=task, partition=partition, rates=rates_of(array))
    last = home.layout == "BHWC"
    split = (as_region(partition.region), partition.h, partition.w)
    reducing, pushing = (naive.Phase(array.cols, 3, NODE.column_bytes, NODE.row_bytes) for _ in range(2))
    held = naive.reduced(reducing, task.workload, split, last, array.cols)
    where = (as_region(home.region), home.h, home.w)
    width = task.workload.output_bytes
    naive.push(pushing, held, graph.stacks["a"].shape, where, last, width, array.cols)
    assert predicted(step.reduce(home.layout)) == figures(reducing, array)
    assert predicted(step.push(home)) == figures(pushing, array)


@settings(deadline=None, max_examples=150)
@given(case=cases(), interconnect=st.sampled_from(["mesh", "host"]))
def test_no_exchange_takes_less_than_its_bound(case, interconnect):
    """What is known before homes are looked at bounds every one of them, on a mesh and over a host."""
    network, array, partition, homes = case
    graph, array = build_graph(network), evolve(array, interconnect=interconnect)
    (task,) = graph.tasks
    step = Step(graph=graph, task=task, partition=partition, rates=rates_of(array))
    read, written = homes
    at_home = most_at_home(graph.stacks["input"], [read]), 0, most_at_home(graph.stacks["a"], [written])
    phases = step.pull(read), step.reduce(written.layout), step.push(written)
    least = least_of(graph, task, partition, step.rates, at_home)
    assert least.cycles <= sum(phase.cycles for phase in phases)
    placed = {"input": read, "a": written}
    home_bytes = sum(
        int(volumes(home_boxes(graph.stacks[name].shape, home))[0]) * graph.stacks[name].element_bytes
        for name, home in placed.items()
        if home.region.y == home.region.x == 0
    )
    staged = step.staging(phases[0], step.weights(), phases[2])[0] + step.weight_chunks()[0]
    if partition.region.y == partition.region.x == 0:
        assert least.node_bytes <= staged + home_bytes


@pytest.mark.parametrize(
    ("replicas", "chunk", "flits"),
    [
        # 8 weights of 2 bytes on 4 nodes that share them. Four replicas: each holds 16 bytes, nothing moves. Two: pairs
        # hold 8 bytes each; each sends its half once, ceil(8 / 3) = 3 flits, 4 messages. One: quarters of 4 bytes, 2
        # flits, 4 tours of 3 edges.
        (4, 16, 0),
        (2, 8, 12),
        (1, 4, 24),
    ],
)
def test_weights_are_gathered_by_groups(replicas, chunk, flits):
    """Each member of a group holds its part, and all-gather completes it."""
    layer = ConvWorkload(P=4, C=4, K=2, weight_bytes=2)
    network = Network(name="n", layers=[NetworkNode(name="a", workload=layer, after=["input"])])
    array = NodeArray(rows=2, cols=2, node=NODE, flit_bytes=3)
    graph = build_graph(network)
    partition = Partition(region=array.whole, h=[("P", 2)], w=[("P", 2)], weight_replicas=replicas)
    step = Step(graph=graph, task=graph.tasks[0], partition=partition, rates=rates_of(array))
    assert step.weight_chunks().tolist() == [chunk] * 4
    assert step.weights().flits == flits


@pytest.mark.parametrize("interconnect", ["mesh", "host"])
def test_bound_holds_for_two_inputs_at_all_homes(interconnect):
    """A layer that reads an activation in place of weights: all partitions on 2x2 nodes, all homes."""
    graph = build_graph(Network(name="n", layers=NETWORKS["product"]))
    array = NodeArray(rows=2, cols=2, node=NODE, flit_bytes=2, interconnect=interconnect)
    task, space = graph.task("c"), Space(layouts=("BCHW",), home_columns=True)
    stacks = [graph.stacks[name] for name in (task.reads.stack, task.reads_weights.stack, task.writes)]
    homes = [space.homes(stack.shape, array.whole) for stack in stacks]
    at_home = tuple(most_at_home(stack, some) for stack, some in zip(stacks, homes, strict=True))
    for partition in space.partitions(task, array.whole):
        step = Step(graph=graph, task=task, partition=partition, rates=rates_of(array))
        pull = min(step.pull(read, second).cycles for read, second in product(*homes[:2]))
        rest = min(step.reduce(home.layout).cycles + step.push(home).cycles for home in homes[2])
        assert least_of(graph, task, partition, step.rates, at_home).cycles <= pull + rest


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("interconnect", ["mesh", "host"])
def test_bound_holds_around_a_gate_at_all_homes(interconnect, name):
    """What makes a gate, and what it is multiplied onto: nodes of its home have more of a gate than a part."""
    graph = build_graph(Network(name="n", layers=NETWORKS["gated"]))
    array = NodeArray(rows=2, cols=2, node=NODE, flit_bytes=2, interconnect=interconnect)
    task, space = graph.task(name), Space(layouts=("BCHW",), home_columns=True)
    stacks = [graph.stacks[task.reads.stack], graph.stacks[task.writes]]
    homes = [space.homes(graph.stacks[graph.home_of[stack.name]].shape, array.whole) for stack in stacks]
    read, written = (most_at_home(stack, some) for stack, some in zip(stacks, homes, strict=True))
    where = space.region_of(task, array.whole)
    added = addition_of(graph, task, task.finishes)
    for partition in space.partitions(task, where):
        step = Step(graph=graph, task=task, partition=partition, rates=rates_of(array))
        pull = min(step.pull(home).cycles for home in homes[0])
        rest = min(step.reduce(home.layout).cycles + step.push(home, added).cycles for home in homes[1])
        assert least_of(graph, task, partition, step.rates, (read, 0, written)).cycles <= pull + rest
