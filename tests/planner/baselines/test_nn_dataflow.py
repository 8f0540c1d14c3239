"""Schedules in the form in which nn_dataflow prints them, small ones by hand."""

import copy

import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.planner.array import NodeArray
from cpsat_pim.planner.baselines.nn_dataflow import is_foreign, read_schedule
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import Pool
from cpsat_pim.workload.network import Network, NetworkNode

ARRAY = NodeArray(rows=2, cols=4, node=PIMArchitecture())
POOL = Pool(window=(2, 2), stride=(2, 2), size=(4, 4))
GRAPH = build_graph(
    Network(
        name="n",
        layers=[
            NetworkNode(name="a", after=["input"], workload=ConvWorkload(P=8, Q=8, C=4, K=8), pool=POOL),
            NetworkNode(name="b", after=["a"], workload=ConvWorkload(P=4, Q=4, C=8, K=8)),
            NetworkNode(name="c", after=["b", "a"], workload=ConvWorkload(P=4, Q=4, C=8, K=2), join="add"),
        ],
    )
)


def entry(ops, part, output):
    """[scheme, layout of the output, place in the sequence]; of a scheme what is read."""
    region = [[2, 4], [0, 0], [1, 1], 1, 2, 4]
    return [{"ops": float(ops), "num_nodes": 8, "part": part}, [[], [region], [output]], [0, 0, 0]]


#: Splits by output channels, positions, batch, input channels (rows, columns of nodes); order from the outermost.
BY_POSITIONS = [[2, 3, 0, 1], [[1, 1], [2, 4], [1, 1], [1, 1]]]
MIXED = [[2, 0, 3, 1], [[1, 2], [2, 2], [1, 1], [1, 1]]]
BY_INPUTS = [[2, 1, 0, 3], [[1, 2], [1, 1], [1, 1], [2, 2]]]
AS_BATCH = [[2, 1, 0, 3], [[1, 2], [1, 1], [2, 2], [1, 1]]]
SCHEDULE = {
    "resource": {"proc_region": [[2, 4], [0, 0], [1, 1], 0, 2, 4]},
    "total_time": 1000,
    "total_cost": 5.5,
    "input_layout": [[], [], [BY_POSITIONS]],
    "schedules": {
        "first": entry(8 * 8 * 4 * 8, BY_POSITIONS, BY_POSITIONS),
        "pool": entry(4 * 4 * 8 * 4, MIXED, MIXED),
        "second": entry(4 * 4 * 8 * 8, MIXED, BY_POSITIONS),
        "sum": entry(4 * 4 * 8 * 2, BY_POSITIONS, BY_POSITIONS),
        "third": entry(4 * 4 * 8 * 2, BY_INPUTS, AS_BATCH),
    },
}


def test_partitions_and_homes_are_those_of_the_schedule():
    """Digits from the outermost; the pooled output lies as the pooling layer leaves it; sums share that home."""
    schedule = copy.deepcopy(SCHEDULE)
    schedule["schedules"]["sum"] = entry(999, BY_POSITIONS, BY_POSITIONS)
    found = read_schedule(schedule, GRAPH, ARRAY, "BHWC")
    assert (found.partitions["a"].h, found.partitions["a"].w) == ((("Q", 2),), (("P", 4),))
    assert (found.partitions["b"].h, found.partitions["b"].w) == ((("Q", 2),), (("K", 2), ("P", 2)))
    assert (found.partitions["c"].h, found.partitions["c"].w) == ((("C", 2),), (("K", 2), ("C", 2)))
    assert (found.homes["a"].h, found.homes["a"].w) == ((("H", 2),), (("C", 2), ("W", 2)))
    assert found.homes["b"] == found.homes["a"]
    assert (found.homes["c"].h, found.homes["c"].w) == ((("N", 2),), (("N", 2), ("C", 2)))
    assert found.homes["input"].layout == "BHWC"
    assert (found.time, found.cost) == (1000, 5.5)


def test_only_such_files_are_taken_for_schedules():
    """A plan has other keys."""
    assert is_foreign(SCHEDULE)
    assert not is_foreign({"version": 1, "network": "n", "layers": {}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["resource"]["proc_region"].__setitem__(0, [4, 4]), "must be 2 x 4 nodes (got 4 x 4)"),
        (
            lambda s: s["schedules"]["second"][0].update(ops=7.0),
            "must be of n: b with 1024 multiplications (got no more",
        ),
        (lambda s: s["schedules"]["first"][0].update(num_nodes=4), "schedules.first: runs on 4 nodes: pipelines"),
        (lambda s: s["schedules"]["first"][0].pop("part"), "is not as nn_dataflow writes it (KeyError: 'part')"),
    ],
)
def test_what_does_not_fit_is_told(change, message):
    """Another array, another network, a pipeline, a missing key."""
    schedule = copy.deepcopy(SCHEDULE)
    change(schedule)
    with pytest.raises(ValueError, match=r"schedules|resource") as caught:
        read_schedule(schedule, GRAPH, ARRAY, "BCHW")
    assert message in str(caught.value)
