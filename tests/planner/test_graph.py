"""Stacks, sums and sizes of networks, by hand from their definitions."""

import pytest

from cpsat_pim.planner.alike import content_of
from cpsat_pim.planner.graph import build_graph
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import Pool, Resize, View
from cpsat_pim.workload.network import Network, NetworkNode, network_names, read_network
from cpsat_pim.workload.reorders import Reorder

FOUR = Resize(size=(4, 1))
FOURFOLD = View(resize=FOUR)
EVEN_ODD = View(reorder=Reorder(W=[["C", 2, 1]]))


def network(*nodes):
    """A network of such layers."""
    return Network(name="n", layers=nodes)


def node(name, after, **fields):
    """A layer; keys that are no bounds are the network's."""
    keys = ("join", "pool", "input_pool", "weights", "count", "pad", "weight_rows", "views", "adds", "input_adds")
    own = {key: fields.pop(key) for key in keys if key in fields}
    return NetworkNode(name=name, after=after, workload=ConvWorkload(name=name, **fields), **own)


#: Networks whose equal blocks are one block with a count, which `written_out` (test_repeats.py) takes apart.
COUNTED = [name for name in network_names() if any(node.count > 1 for node in read_network(name).layers)]


@pytest.mark.parametrize("name", COUNTED)
def test_networks_with_counts_are_refused(name):
    """A line says which layer, and what to do."""
    with pytest.raises(ValueError, match=rf"{name}: query: count must be 1 in a plan .*; write the layers one by one"):
        build_graph(read_network(name))


@pytest.mark.parametrize("name", [name for name in network_names() if name not in COUNTED])
def test_tensors_of_packaged_networks_fit_together(name):
    """Every one has a graph: no join, pool or size is missing."""
    assert len(build_graph(read_network(name)).tasks) == len(read_network(name).layers)


def test_residual_stage_has_one_home():
    """ResNet-50: the four blocks' ends of a stage and its projection are added, so they lie alike; stages do not."""
    graph = build_graph(read_network("resnet50"))
    stage = ["layer1.0.conv3", "layer1.0.downsample", "layer1.1.conv3", "layer1.2.conv3"]
    assert {graph.home_of[name] for name in stage} == {"layer1.0.conv3"}
    assert graph.home_of["layer2.0.conv3"] != "layer1.0.conv3"
    # The projection comes after the convolution that names the sum, so it finishes it.
    assert [one.first for one in graph.task("layer1.0.downsample").finishes] == ["layer1.0.conv3"]


def test_what_is_read_besides_the_first_stack_has_one_home():
    """Maps of 8, 4 and 2 columns side by side with one of 16: a home of the three may have two parts along W."""
    wide = View(resize=Resize(size=(16, 1)))
    graph = build_graph(
        network(
            *(node(name, ["input"], P=size, K=2) for name, size in (("a", 16), ("b", 8), ("c", 4), ("d", 2))),
            node("e", list("abcd"), P=16, C=8, join="concat", views=dict.fromkeys("bcd", wide)),
        )
    )
    assert [graph.home_of[name] for name in "abcd"] == ["a", "b", "b", "b"]
    assert graph.home_shape("b") == (1, 2, 1, 2)
    assert [(one.stack, one.spans[0].first) for one in graph.task("e").readings] == [
        ("a", 0),
        ("b", 2),
        ("c", 4),
        ("d", 6),
    ]


def test_layers_that_write_to_homes_of_other_sizes_are_not_alike():
    """Equal layers, of which one shares its home with a smaller map: parts of it are no more than that has elements."""
    seen = {"b": View(pool=Pool(window=(3, 1), pad=(1, 0), size=(4, 1))), "c": View(resize=Resize(size=(4, 1)))}
    graph = build_graph(
        network(
            *(node(name, ["input"], P=4, K=2) for name in "ab"),
            node("c", ["input"], R=4, K=2),
            node("d", list("abc"), P=4, C=6, join="concat", views=seen),
        )
    )
    assert graph.home_shape("a")[3] == 4 > graph.home_shape("b")[3] == 1
    assert content_of(graph, graph.task("a")) != content_of(graph, graph.task("b"))


def test_inception_block_is_one_stack():
    """GoogLeNet 3a: 64 + 128 + 32 + 32 channels one behind the other; whoever reads it reads all 256."""
    graph = build_graph(read_network("googlenet"))
    stack = graph.stacks["inception3a.1x1"]
    assert (stack.offsets, stack.shape) == ((0, 64, 192, 224), (1, 256, 28, 28))
    assert graph.task("inception3b.1x1").reads.channels == ((0, 256),)
    assert graph.task("inception3a.5x5").offset == 192


@pytest.mark.parametrize(
    ("name", "layer", "pad"),
    [
        ("resnet50", "conv1", (3, 3)),  # 229 columns of 224: 5 zeros, 3 in front (torchvision: 3)
        ("resnet50", "layer2.0.conv2", (1, 1)),  # 57 of 56: one in front
        ("alexnet", "conv2", (2, 2)),  # 31 of 27
        ("alexnet", "fc6", (0, 0)),  # 6 of 6
    ],
)
def test_padding_that_is_not_said_is_what_is_missing(name, layer, pad):
    """Half of it in front, rounded up."""
    assert build_graph(read_network(name)).task(layer).pad == pad


def test_heads_of_a_product_lie_along_channels():
    """BERT: keys are C channels a head with tokens as K; values K channels a head with tokens as C."""
    graph = build_graph(read_network("bert-base"))
    assert graph.task("layer0.scores").weight_rows == "K"
    assert graph.task("layer0.context").weight_rows == "C"


@pytest.mark.parametrize("batch", [1, 3])
def test_each_sample_of_a_batch_has_a_second_operand_of_its_own(batch):
    """Scores of two heads, for one sample or three: W depends on the sample only where there are several."""
    layers = [
        node("a", ["input"], P=5, C=4, K=4),
        node("b", ["input"], P=5, C=4, K=4),
        node("c", ["a", "b"], P=5, C=2, K=5, G=2, weights=False),
    ]
    graph = build_graph(Network(name="n", layers=layers), batch)
    task = graph.task("c")
    assert (task.workload.N, task.workload.G, task.has_sample_weights) == (batch, 2, batch > 1)
    assert graph.stacks["c"].shape == (batch, 10, 1, 5)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("a", ["input"], K=2), node("b", ["a"], C=3)], "n: b: must read 3 channels (got 2 of a)"),
        (
            [node("a", ["input"], P=4, Q=2), node("b", ["a"], P=2, Q=2)],
            "n: b: takes 2 columns (got 4): must be padded, pooled or resized to fit (pad, pool, input_pool, views)",
        ),
        (
            [node("a", ["input"], P=4, Q=2), node("b", ["a"], P=8, Q=2)],
            "n: b: takes 8 columns (got 4): must be padded, pooled or resized to fit (pad, pool, input_pool, views)",
        ),
        (
            [node("a", ["input"], P=4), node("b", ["input"], P=2), node("c", ["a", "b"], P=4, C=2, join="concat")],
            "n: c: after: must have one size (got (1, 1, 2), (1, 1, 4))",
        ),
        (
            [node("a", ["input"], P=2), node("b", ["a"], P=4, views={"input": View(resize=FOUR)})],
            "n: b: views: must be of tensors that are its input, without an input_pool",
        ),
        (
            [
                *(node(name, ["input"], P=size) for name, size in (("a", 2), ("b", 4))),
                node("c", ["a", "b"], P=4, join="add"),
            ],
            "n: c: after: must have one size (got (1, 1, 1, 2), (1, 1, 1, 4)); no operand of a sum may be resized by "
            "itself",
        ),
        (
            [node("a", ["input"], count=2)],
            "n: a: count must be 1 in a plan (got 2): what each run reads is not known, as of recurrences;"
            " write the layers one by one",
        ),
        (
            [node("a", ["input"]), node("b", ["input", "a"], C=2)],
            "n: b: join: must be concat or add, as it comes after 2 layers",
        ),
        (  # in a file, N of a product shares W: samples that have their own are groups
            [
                node("a", ["input"], P=3, N=2),
                node("b", ["input"], P=3, N=2),
                node("c", ["a", "b"], P=3, K=3, N=2, weights=False),
            ],
            "n: c: a product of two activations must have R = S = N = 1, or N heads (shared_heads)",
        ),
        (
            [node("a", ["input"], P=2), node("b", ["input"], P=2), node("c", ["a", "b"], P=2, weights=False)],
            "n: c: weight_rows: must be K or C (neither K nor C fits 1 channels of 1 x 2)",
        ),
        (
            [node("a", ["input"]), node("b", ["a"]), node("c", ["a"]), node("d", ["a", "c"], join="add")],
            "n: b: reads a before its sum is finished by c",
        ),
        (
            [node("a", ["input"], P=4, Q=4, K=2), node("b", ["a"], P=2, Q=2, C=8)],
            "n: b: takes a of 4 x 4 as 8 channels of 2 x 2: must state which of its elements these are"
            " (views, reorder)",
        ),
        (
            [node("a", ["input"]), node("b", ["input"], P=4, adds={"a": View(resize=Resize(size=(2, 1)))})],
            "n: b: adds: a must be seen as (1, 1, 1, 4) (got (1, 1, 1, 2))",
        ),
        (
            [
                node("a", ["input"]),
                node("b", ["input"], P=8, adds={"a": FOURFOLD}, pool=Pool(window=(2, 1), stride=(2, 1), size=(4, 1))),
            ],
            "n: b: adds: must be of a layer that does not pool its output",
        ),
        (
            [node("a", ["input"], P=4), node("b", ["a", "a"], P=4, C=2, join="concat")],
            "n: b: after: must not have a twice in one view",
        ),
        (
            [node("a", ["input"]), node("b", ["a", "a"], P=4, C=2, join="concat", views={"a": (FOURFOLD,)})],
            "n: b: views: a: must be 2, one each time (got 1)",
        ),
        (
            [node("a", ["input"], K=4), node("b", ["input"], K=2, adds={"a": View(channels=[(0, 1), (2, 3)])})],
            "n: b: adds: a must have one range of its channels",
        ),
        (
            [node("a", ["input"], K=4), node("b", ["a"], C=4, K=2, adds={"a": View(channels=[(0, 3)])})],
            "n: b: adds: a must be seen as (1, 2, 1, 1) (got (1, 3, 1, 1))",
        ),
        (
            [node("a", ["input"], P=2), node("b", ["a"], P=2, input_adds={"input": FOURFOLD})],
            "n: b: input_adds: input must be seen as (1, 1, 1, 2) (got (1, 1, 1, 4))",
        ),
        (
            [
                node("a", ["input"], P=4),
                node("b", ["a"], P=4, input_adds={"a": View(reorder=Reorder(W=[["W", 4, 2]]))}),
            ],
            "n: b: input_adds: a: reorder: must have each element of (1, 1, 1, 4) once",
        ),
        (
            [
                node("a", ["input"]),
                node("b", ["input"]),
                node("c", ["input"], P=2),
                node("d", ["a", "c", "b"], P=2, C=2, join="concat", views=dict.fromkeys("ab", EVEN_ODD)),
            ],
            "n: d: after: must have tensors side by side that are reordered together (views)",
        ),
        (
            [
                node("a", ["input"]),
                node("b", ["input"], input_adds={"a": View()}),
                node("c", ["input"]),
                node("d", ["a", "c"], join="add"),
            ],
            "n: b: reads a before its sum is finished by c",
        ),
        (
            [node("a", ["input"], K=4), node("b", ["a"], C=2, views={"a": View(channels=[(0, 2)])})],
            "n: b: views: must not have channels, which are those of the layer",
        ),
        (
            [
                node("a", ["input"]),
                node("b", ["a"], P=4, adds={"a": FOURFOLD}, pad=(3, 0)),
                node("c", ["input"]),
                node("d", ["a", "c"], join="add"),
            ],
            "n: b: reads a before its sum is finished by c",
        ),
    ],
)
def test_what_does_not_fit_is_told_in_a_line(nodes, message):
    """The layer and what was expected."""
    with pytest.raises(ValueError, match=r".") as caught:
        build_graph(network(*nodes))
    assert message in str(caught.value).splitlines()


def test_pooled_output_has_the_size_that_is_said():
    """A 3x3 window of stride 2 over 5 columns and rows, two of each."""
    pool = Pool(window=(3, 3), stride=(2, 2), size=(2, 2))
    graph = build_graph(network(node("a", ["input"], P=5, Q=5, pool=pool), node("b", ["a"], P=2, Q=2)))
    assert graph.stacks["a"].shape == (1, 1, 2, 2)
