"""Serial pieces and branches of networks, read off their pictures."""

import pytest

from cpsat_pim.planner.baselines.segments import segments_of
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, NetworkNode, read_network


def layer(name, *after, **fields):
    """A 1x1 convolution."""
    keys = {key: fields.pop(key) for key in ("join", "weights") if key in fields}
    return NetworkNode(name=name, after=after, workload=ConvWorkload(name=name, P=4, **fields), **keys)


RESIDUAL = [
    layer("a", "input", C=2, K=2),
    layer("b", "a", C=2, K=2),
    layer("c", "b", C=2, K=2),
    layer("side", "a", C=2, K=2),
    layer("d", "c", "side", C=2, join="add"),
]
CONCAT = [
    layer("a", "input", C=2, K=2),
    layer("one", "a", C=2, K=2),
    layer("two", "a", C=2, K=2),
    layer("three", "two", C=2, K=2),
    layer("end", "one", "three", C=4, join="concat"),
]
IDENTITY = [
    layer("a", "input", C=2, K=2),
    layer("b", "a", C=2, K=2),
    layer("c", "b", "a", C=2, K=2, join="add"),
]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (RESIDUAL, [(("a",),), (("b", "c"), ("side",)), (("d",),)]),
        (CONCAT, [(("a",),), (("one",), ("two", "three")), (("end",),)]),
        (IDENTITY, [(("a",),), (("b",),), (("c",),)]),
    ],
)
def test_pieces_are_those_of_the_picture(layers, expected):
    """A piece ends where everything behind it needs everything in it; its branches share no dependence."""
    assert segments_of(build_graph(Network(name="n", layers=layers))) == expected


def test_inception_has_four_branches():
    """Nine inceptions of four branches: 1x1; 3x3 and 5x5 behind a reduction each; pooling (Szegedy et al., table 1)."""
    pieces = segments_of(build_graph(read_network("googlenet")))
    assert [len(piece) for piece in pieces] == [1, 1, 1, *[4] * 9, 1]
    assert [len(branch) for branch in pieces[3]] == [1, 2, 2, 1]


def test_layers_of_pieces_are_all_layers():
    """No layer is lost or moved, on any shipped network."""
    for name in ("resnet50", "googlenet", "bert-base", "mobilenetv2"):
        graph = build_graph(read_network(name))
        pieces = segments_of(graph)
        names = [layer for piece in pieces for branch in piece for layer in branch]
        assert sorted(names) == sorted(task.name for task in graph.tasks)
