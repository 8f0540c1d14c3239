"""Products whose positions are counted otherwise than those of what they read."""

from cpsat_pim.planner.graph import build_graph
from cpsat_pim.planner.repeats import written_out
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import InputSize, Pool
from cpsat_pim.workload.network import Network, NetworkNode
from cpsat_pim.workload.positions import with_positions


def node(name, *after, **fields):
    """A layer; keys that are no bounds are the network's."""
    keys = ("join", "input_pool", "weights", "weight_channels", "weight_rows")
    own = {key: fields.pop(key) for key in keys if key in fields}
    return NetworkNode(name=name, after=after, workload=ConvWorkload(name=name, **fields), **own)


def positions(network):
    """Samples, rows and columns of each layer."""
    return {one.name: (one.workload.N, one.workload.Q, one.workload.P) for one in network.layers}


def test_rows_that_are_counted_as_samples_are_rows():
    """A linear layer on channels that lie last has 4 samples of 5 columns, which are 4 rows; so has its mean."""
    network = Network(
        name="n",
        layers=[
            node("conv", "input", R=3, S=3, P=5, Q=4, C=2, K=3),
            node("wide", "conv", N=4, P=5, C=3, K=6),
            node("narrow", "wide", N=4, P=5, C=6, K=3),
            node("next", "narrow", R=3, S=3, P=5, Q=4, C=3, K=3),
            node("last", "next", P=20, C=3, K=2),
            node("head", "last", C=2, K=7, input_pool=Pool(window=(20, 1), size=(1, 1))),
        ],
    )
    found = with_positions(network)
    assert positions(found) == {
        **dict.fromkeys(("conv", "wide", "narrow", "next"), (1, 4, 5)),
        "last": (1, 1, 20),
        "head": (1, 1, 1),
    }
    assert found.total_macs == network.total_macs


def test_tokens_that_are_counted_as_samples_are_a_row_with_those_in_front():
    """Attention with the sequence first counts 4 patches and a constant token as 5 samples: a row of 5, of which the
    first is a patch of zeros.
    """
    network = Network(
        name="n",
        input=InputSize(C=3, H=4, W=4),
        layers=[
            node("patch", "input", R=2, S=2, P=2, Q=2, C=3, K=8, stride=(2, 2)),
            node("qkv", "patch", N=5, C=8, K=8),
            node("out", "qkv", N=5, C=8, K=8),
        ],
    )
    found = written_out(network)
    assert positions(found) == dict.fromkeys(("patch", "qkv", "out"), (1, 1, 5))
    graph = build_graph(found)
    assert graph.task("patch").pad == (1, 0)
    assert graph.stacks["input"].shape == (1, 12, 1, 4)
    assert graph.stacks["patch"].shape == (1, 8, 1, 5)


def test_pixels_as_tokens_are_counted_as_pixels():
    """Queries of 4 x 6 pixels, keys and values of 2 x 3 of them: all products have the positions of what they read, and
    so fit into the residual sum.
    """
    network = Network(
        name="n",
        input=InputSize(C=2, H=4, W=6),
        layers=[
            node("stem", "input", R=3, S=3, P=6, Q=4, C=2, K=4),
            node("q", "stem", P=24, C=4, K=4),
            node("fewer", "stem", R=2, S=2, P=3, Q=2, C=4, K=4, stride=(2, 2)),
            node("kv", "fewer", P=6, C=4, K=8),
            node("scores", "q", "kv", P=24, C=4, K=6, weights=False, weight_channels=[(0, 4)]),
            node("context", "scores", "kv", P=24, C=6, K=4, weights=False, weight_channels=[(4, 8)]),
            node("out", "context", P=24, C=4, K=4),
            node("next", "out", "stem", P=24, C=4, K=5, join="add"),
        ],
    )
    found = written_out(network)
    few = ("fewer", "kv")
    assert positions(found) == {one.name: (1, 2, 3) if one.name in few else (1, 4, 6) for one in network.layers}
    assert found.total_macs == network.total_macs
    graph = build_graph(found)
    assert graph.task("scores").weight_rows == "K"
    assert graph.task("context").weight_rows == "C"


def test_samples_of_attention_that_are_counted_as_groups_are_samples():
    """Two sequences of three heads: six groups with keys of their own are two samples of three groups."""
    network = Network(
        name="n",
        input=InputSize(N=2, C=12, W=4),
        layers=[
            node("query", "input", N=2, P=4, C=12, K=12),
            node("key", "input", N=2, P=4, C=12, K=12),
            node("scores", "query", "key", P=4, C=4, K=4, G=6, weights=False, weight_rows="K"),
            node("out", "scores", N=2, P=4, C=12, K=5),
        ],
    )
    counted = with_positions(network)
    assert positions(counted)["scores"] == (2, 1, 4)
    task = build_graph(counted).task("scores")
    assert (task.workload.G, task.has_sample_weights, task.weight_dims) == (3, True, ("N", "K", "C", "G"))


def test_cached_keys_of_several_samples_stay_with_each():
    """Keys of seven tokens, of which the layer behind makes one: each of two samples has its own on all its nodes."""
    network = Network(
        name="n",
        input=InputSize(N=2, C=12, W=1),
        layers=[
            node("query", "input", N=2, C=12, K=12),
            node("key", "input", N=2, C=12, K=12),
            node("scores", "query", "key", C=4, K=7, G=6, weights=False),
        ],
    )
    task = build_graph(written_out(network)).task("scores")
    assert (task.workload.N, task.workload.G, task.has_weights, task.has_sample_weights) == (2, 3, True, True)
    assert task.replica_counts(4) == (4,)
