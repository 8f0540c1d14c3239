"""Small networks that read, add and reorder tensors in all ways that plans know, for tests of plans."""

from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import Pool, Resize, View
from cpsat_pim.workload.network import BETWEEN, Network, NetworkNode
from cpsat_pim.workload.reorders import Reorder


def layer(name, after, **fields):
    """A layer of a network."""
    node = {key: fields.pop(key) for key in ("weights", "sample_weights", *BETWEEN) if key in fields}
    return NetworkNode(name=name, after=after, workload=ConvWorkload(name=name, **fields), **node)


def made_of(*nodes):
    """A network of such layers."""
    return Network(name="n", layers=nodes)


THREE, FIVE = (View(pool=Pool(window=(size, size), pad=(size // 2, size // 2), size=(4, 6))) for size in (3, 5))
HALF = View(pool=Pool(window=(3, 2), stride=(2, 2), size=(2, 3)))


def reordered(**axes):
    """A view of elements along other axes."""
    return View(reorder=Reorder(**axes))


def resized(width, height, kind):
    """A view of other columns and rows."""
    return View(resize=Resize(size=(width, height), kind=kind))


#: Four windows of 2 x 3 pixels, which are rolled, with four channels each, and the pixels that they come from.
WINDOWS = reordered(C=[["H", 2, 2], ["W", 2, 3], ["C", 4, 1]], W=[["H", 2, 1], ["W", 3, 1]], roll=[-1, -1])
PIXELS = reordered(C=[["C", 4, 1]], H=[["C", 2, 8], ["W", 2, 3]], W=[["C", 2, 4], ["W", 3, 1]], roll_behind=[1, 1])

#: What the phases of a transposed convolution make, pixel by pixel.
UP = ("up0", "up1", "up2", "up3")
SHUFFLED = reordered(C=[["C", 4, 1]], H=[["H", 2, 1], ["C", 2, 8]], W=[["W", 3, 1], ["C", 2, 4]])

#: Pixels of 2 x 3 as channels, and channels as columns; and back.
TOKENS = reordered(N=[["N", 2, 1]], C=[["H", 2, 1], ["W", 3, 1]], W=[["C", 4, 1]])
BACK = reordered(N=[["N", 2, 1]], C=[["W", 4, 1]], H=[["C", 2, 3]], W=[["C", 3, 1]])

#: A product of two activations whose samples have a second operand each.
OWN = {"weights": False, "sample_weights": True}

NETWORKS = {
    "strided": made_of(
        layer("a", ["input"], P=5, Q=6, C=3, K=4, R=3, S=3, stride=(2, 1)),
        layer("b", ["a"], P=5, Q=6, C=4, K=6, R=3, S=3, psum_bytes=4),
    ),
    "grouped": made_of(layer("a", ["input"], P=4, Q=4, C=4, K=6, G=4, psum_bytes=4)),
    "pooled": made_of(
        layer("a", ["input"], P=8, Q=6, C=2, K=4, pool=Pool(window=(3, 3), stride=(2, 2), pad=(1, 1), size=(4, 3))),
        layer("b", ["a"], P=4, Q=3, C=4, K=2, input_pool=Pool(window=(3, 3), pad=(1, 1), size=(4, 3))),
    ),
    "residual": made_of(
        layer("a", ["input"], P=4, Q=4, C=2, K=4),
        layer("b", ["a"], P=4, Q=4, C=4, K=4, R=3, S=3),
        layer("side", ["a"], P=4, Q=4, C=4, K=4),
        layer("c", ["b", "side"], P=4, Q=4, C=4, K=2, join="add"),
    ),
    "gated": made_of(  # a gate with one element a channel is made of what it is multiplied onto, and finishes it
        layer("a", ["input"], P=4, Q=3, C=2, K=6),
        layer("squeeze", ["a"], C=6, K=2, input_pool=Pool(window=(4, 3), size=(1, 1))),
        layer("gate", ["squeeze"], C=2, K=6),
        layer("b", ["a", "gate"], P=4, Q=3, C=6, K=3, join="add"),
    ),
    "gated residual": made_of(  # two operands are spread, over positions and over channels; another layer finishes
        layer("a", ["input"], P=4, Q=3, C=2, K=6),
        layer("squeeze", ["a"], C=6, K=2, input_pool=Pool(window=(4, 3), size=(1, 1))),
        layer("gate", ["squeeze"], C=2, K=6),
        layer("map", ["a"], P=4, Q=3, C=6),
        layer("side", ["input"], P=4, Q=3, C=2, K=6),
        layer("b", ["a", "gate", "side", "map"], P=4, Q=3, C=6, K=3, join="add"),
        layer("c", ["side"], P=4, Q=3, C=6, K=2),
    ),
    "concat": made_of(
        layer("a", ["input"], P=4, Q=2, C=2, K=2),
        layer("b", ["input"], P=4, Q=2, C=2, K=4),
        layer("c", ["a", "b"], P=4, Q=2, C=6, K=2, join="concat"),
        layer("d", ["b", "a"], P=4, Q=2, C=6, K=2, join="concat"),
    ),
    "read alone first": made_of(  # those who concatenate decide the order of storage, not who reads a member alone
        layer("a", ["input"], P=4, C=2, K=5),
        layer("b", ["a"], P=4, C=5, K=3),
        layer("c", ["b", "a"], P=4, C=8, K=2, join="concat"),
    ),
    "tokens": made_of(  # a constant token in front of four that are made; the last layer reads it alone
        layer("a", ["input"], P=4, C=3, K=4),
        layer("b", ["a"], P=5, C=4, K=4, pad=(1, 0)),
        layer("c", ["a"], P=5, C=4, K=4, pad=(1, 0)),
        layer("d", ["b", "c"], P=5, C=2, K=5, G=2, weights=False),
        layer("e", ["d"], P=1, C=10, K=3),
    ),
    "pyramid": made_of(  # maps that others read are added, resized or pooled; one layer finishes a sum besides
        layer("a", ["input"], P=4, Q=6, C=2, K=3),
        layer("b", ["a"], P=2, Q=3, C=3, K=4, stride=(2, 2), psum_bytes=4),
        layer("c", ["a"], P=4, Q=6, C=3, K=4, psum_bytes=4, adds={"b": resized(4, 6, "linear")}),
        layer("d", ["c"], P=4, Q=6, C=4, K=4, R=3, S=3, adds={"b": resized(4, 6, "nearest")}),
        layer("e", ["b"], P=2, Q=3, C=4, K=4, adds={"c": HALF}),
        layer("f", ["c", "d"], P=4, Q=6, C=4, K=2, join="add"),
        layer("g", ["e"], P=2, Q=3, C=4, K=2),
    ),
    "many": made_of(  # four stacks of three sizes, some of their channels; maps are added besides
        layer("a", ["input"], P=4, Q=6, C=2, K=3),
        layer("b", ["a"], P=2, Q=3, C=3, K=4, stride=(2, 2)),
        layer("c", ["b"], P=1, Q=2, C=4, K=2, stride=(2, 2)),
        layer(
            "d",
            ["b", "input", "a", "c"],
            P=4,
            Q=6,
            C=8,
            K=4,
            R=3,
            S=3,
            psum_bytes=4,
            join="concat",
            channels=[(3, 6), (7, 11), (0, 1)],
            views={"b": resized(4, 6, "linear"), "c": resized(4, 6, "corners")},
            adds={"b": resized(4, 6, "nearest")},
        ),
        layer(
            "e", ["d", "b", "c"], P=2, Q=3, C=10, K=2, join="concat", views={"d": HALF, "c": resized(2, 3, "nearest")}
        ),
        layer("f", ["c"], P=1, Q=2, C=2, K=2, adds={"e": resized(1, 2, "linear"), "input": resized(1, 2, "corners")}),
    ),
    "partial residual": made_of(  # half of a map, and another map as it is, are added; the sums are side by side
        layer("a", ["input"], P=4, Q=6, C=2, K=8),
        layer("b", ["a"], P=4, Q=6, C=4, K=4, channels=[(4, 8)], adds={"a": View(channels=[(4, 8)])}),
        layer("c", ["b"], P=4, Q=6, C=4, K=4, R=3, psum_bytes=4, adds={"b": View(), "a": View(channels=[(1, 5)])}),
        layer("d", ["c", "b"], P=4, Q=6, C=8, K=2, join="concat"),
        layer("e", ["a", "c"], P=4, Q=6, C=8, K=2, join="concat", channels=[(8, 12), (0, 4)]),
    ),
    "summed by readers": made_of(  # halves, resized and pooled maps are added to what a layer reads, which others read
        layer("a", ["input"], P=4, Q=6, C=2, K=8),
        layer("b", ["a"], P=4, Q=6, C=4, K=4, R=3, channels=[(0, 4)]),
        layer("c", ["b"], P=4, Q=6, C=4, K=4, R=3, S=3, psum_bytes=4, input_adds={"a": View(channels=[(4, 8)])}),
        layer("d", ["c", "b"], P=4, Q=6, C=4, K=3, G=2, join="concat", input_adds={"a": View()}),
        layer("e", ["b"], P=2, Q=3, C=4, K=4, stride=(2, 2)),
        layer(
            "f",
            ["b"],
            P=4,
            Q=6,
            C=3,
            S=3,
            channels=[(1, 4)],
            input_adds={
                "e": View(resize=Resize(size=(4, 6), kind="linear"), channels=[(0, 3)]),
                "d": View(channels=[(2, 5)]),
            },
        ),
        layer(
            "g",
            ["e"],
            P=2,
            Q=3,
            C=4,
            K=4,
            input_pool=Pool(window=(3, 3), pad=(1, 1), size=(2, 3)),
            input_adds={"b": HALF},
        ),
        layer("h", ["g", "e"], P=2, Q=3, C=4, K=2, join="add", input_adds={"b": HALF}),
    ),
    "summed queries": made_of(  # positions are added to the queries, not to the values, as DETR has it
        layer("a", ["input"], P=5, C=2, K=4),
        layer("position", ["input"], P=5, C=2, K=4),
        layer("b", ["a", "a"], P=5, C=2, K=5, G=2, weights=False, input_adds={"position": View()}),
        layer("c", ["b", "a"], P=5, C=5, K=2, G=2, weights=False, psum_bytes=4),
    ),
    "reordered sums": made_of(  # tokens of pixels are channels of two layers, which add what lies in the other order
        layer("a", ["input"], P=3, Q=2, C=2, K=4, N=2),
        layer("b", ["a"], P=4, C=6, K=6, N=2, views={"a": TOKENS}, adds={"a": TOKENS}),
        layer("c", ["b"], P=3, Q=2, C=4, K=4, N=2, psum_bytes=4, views={"b": BACK}, adds={"b": BACK, "a": View()}),
        layer("d", ["c"], P=4, C=6, N=2, psum_bytes=4, views={"c": TOKENS}, input_adds={"b": View(), "a": TOKENS}),
        layer("e", ["a", "c"], P=3, Q=2, C=8, N=2, K=3, S=2, join="concat"),
    ),
    "pooled beside itself": made_of(  # spatial pyramid pooling: a map beside itself in windows of two sizes
        layer("a", ["input"], P=4, Q=6, C=2, K=3),
        layer("b", ["input"], P=4, Q=6, C=2, K=2),
        layer(
            "c",
            ["a", "b", "a", "a"],
            P=4,
            Q=6,
            C=9,
            K=2,
            S=3,
            psum_bytes=4,
            join="concat",
            channels=[(1, 3), (5, 10), (3, 5)],
            views={"a": (View(), THREE, FIVE)},
        ),
        layer("d", ["a", "b", "a"], P=4, Q=6, C=4, K=2, G=2, join="concat", views={"a": (THREE, FIVE), "b": THREE}),
    ),
    "pixels": made_of(  # keys and values of 2 x 3 pixels are read row by row
        layer("q", ["input"], P=4, Q=4, C=2, K=4, pad=(0, 0)),
        layer("kv", ["input"], P=3, Q=2, C=2, K=8, R=2, S=3),
        layer("a", ["q", "kv"], P=4, Q=4, C=2, K=6, G=2, weights=False, weight_channels=[(0, 4)]),
        layer("b", ["a", "kv"], P=4, Q=4, C=6, K=2, G=2, weights=False, weight_channels=[(4, 8)]),
        layer("c", ["b", "q"], P=4, Q=4, C=4, K=3, join="add"),
    ),
    "shared": made_of(  # three query heads for each of two keys and values, which lie in one product
        layer("q", ["input"], P=5, C=2, K=13),
        layer("kv", ["input"], P=5, C=2, K=8, psum_bytes=4),
        layer(
            "a",
            ["q", "kv"],
            P=5,
            C=2,
            K=5,
            N=3,
            G=2,
            weights=False,
            shared_heads=True,
            channels=[(1, 13)],
            weight_channels=[(0, 4)],
            weight_rows="K",
        ),
        layer(
            "b",
            ["a", "kv"],
            P=5,
            C=5,
            K=2,
            N=3,
            G=2,
            weights=False,
            shared_heads=True,
            weight_channels=[(4, 8)],
            psum_bytes=4,
        ),
        layer("c", ["b"], P=5, C=12, K=2),
    ),
    "fused": made_of(  # queries, keys and values of two heads are channels of one product, head by head
        layer("a", ["input"], P=6, C=2, K=12),
        layer(
            "b",
            ["a", "a"],
            P=6,
            C=2,
            K=6,
            G=2,
            weights=False,
            channels=[(0, 2), (6, 8)],
            weight_channels=[(2, 4), (8, 10)],
        ),
        layer("c", ["b", "a"], P=6, C=6, K=2, G=2, weights=False, weight_channels=[(4, 6), (10, 12)]),
        layer("d", ["c"], P=6, C=4, K=3),
    ),
    "slices": made_of(  # halves of a concatenation are read by themselves, one of them from the end to the beginning
        layer("a", ["input"], P=4, Q=2, C=2, K=4),
        layer("b", ["a"], P=4, Q=2, C=2, K=2, channels=[(2, 4)]),
        layer("c", ["a", "b"], P=4, Q=2, C=3, K=2, join="concat", channels=[(4, 6), (0, 1)]),
        layer("d", ["a", "b"], P=4, Q=2, C=2, K=3, G=2, join="concat", channels=[(1, 3), (5, 6), (0, 1)]),
    ),
    "beside": made_of(  # a tensor that is concatenated in one place is pooled beside another one, and read alone
        layer("a", ["input"], P=5, Q=6, C=2, K=3),
        layer("b", ["input"], P=5, Q=6, C=2, K=2),
        layer("c", ["a", "b"], P=2, Q=3, C=5, K=3, R=3, S=2, stride=(2, 2), pad=(0, 0), join="concat"),
        layer(
            "d", ["c", "a", "b"], P=2, Q=3, C=8, K=4, S=2, pad=(0, 1), join="concat", views=dict.fromkeys("ab", HALF)
        ),
        layer("e", ["a"], P=5, Q=6, C=3, K=1),
        layer("f", ["b", "c"], P=2, Q=3, C=2, K=1, G=2, join="concat", channels=[(1, 4), (0, 1)], views={"b": HALF}),
    ),
    "resized": made_of(  # up-sampled beside what is there, and shrunk alone
        layer("a", ["input"], P=6, Q=4, C=2, K=3, psum_bytes=4),
        layer("b", ["a"], P=3, Q=2, C=3, K=4, stride=(2, 2)),
        layer("c", ["b", "a"], P=6, Q=4, C=7, K=2, R=3, S=3, join="concat", views={"b": resized(6, 4, "linear")}),
        layer("d", ["b"], P=5, Q=5, C=4, K=2, R=2, views={"b": resized(5, 5, "corners")}),
        layer("gate", ["d"], C=2, K=2, input_pool=Pool(window=(5, 5), size=(1, 1))),
        layer("e", ["c"], P=4, Q=1, C=2, K=2, views={"c": resized(4, 1, "nearest")}),
        layer("g", ["d", "gate"], P=6, Q=3, C=2, K=2, join="add", views={"d": resized(6, 3, "linear")}),
        layer("f", ["b", "c"], P=3, Q=7, C=6, K=2, join="concat", views=dict.fromkeys("bc", resized(3, 7, "nearest"))),
    ),
    "samples": made_of(  # each of three samples has keys and values of its own, the last layer's in a cache
        layer("a", ["input"], P=4, C=2, K=8, N=3),
        layer("b", ["input"], P=4, C=2, K=8, N=3),
        layer("c", ["a", "b"], P=4, C=4, K=4, N=3, G=2, weight_rows="K", psum_bytes=4, **OWN),
        layer("d", ["c", "b"], P=4, C=4, K=4, N=3, G=2, weight_rows="C", **OWN),
        layer("e", ["d"], P=4, C=4, K=5, N=3, G=2, sample_weights=True),
    ),
    "phases": made_of(  # four phases of a transposed convolution, some channels of what it makes beside other tensors
        layer("skip", ["input"], P=6, Q=4, C=2, K=3),
        layer("small", ["input"], P=3, Q=2, C=2, K=3, stride=(2, 2)),
        *(layer(f"up{at}", ["small"], P=3, Q=2, C=3, K=4, R=2, S=2, pad=(1 - at % 2, 1 - at // 2)) for at in range(4)),
        layer(
            "c",
            ["skip", *UP, "small"],
            P=6,
            Q=4,
            C=9,
            K=2,
            R=3,
            S=3,
            join="concat",
            channels=[[19, 21], [3, 19], [0, 3]],
            views={**dict.fromkeys(UP, SHUFFLED), "small": resized(6, 4, "linear")},
        ),
    ),
    "crossed": made_of(  # attention of two heads between channels: the sums run over pixels; I and W are one tensor
        layer("a", ["input"], P=3, Q=2, C=2, K=12),
        layer(
            "b",
            ["a", "a"],
            P=2,
            C=6,
            K=2,
            G=2,
            weights=False,
            weight_rows="C",
            channels=[[0, 4]],
            weight_channels=[[4, 8]],
            views={"a": (reordered(C=[["C", 2, 2], ["H", 2, 1], ["W", 3, 1]], W=[["C", 2, 1]]), View())},
        ),
        layer("c", ["b", "a"], P=2, C=2, K=6, G=2, weights=False, weight_rows="K", weight_channels=[[8, 12]]),
    ),
    "windows": made_of(  # attention of two heads in windows, and its output pixel by pixel again
        layer("a", ["input"], P=6, Q=4, C=2, K=12),
        layer(
            "b",
            ["a", "a"],
            P=6,
            C=2,
            K=6,
            G=8,
            weights=False,
            weight_rows="K",
            channels=[[0, 4]],
            weight_channels=[[4, 8]],
            views={"a": WINDOWS},
        ),
        layer("c", ["b", "a"], P=6, C=6, K=2, G=8, weights=False, weight_channels=[[8, 12]], views={"a": WINDOWS}),
        layer("d", ["c"], P=6, Q=4, C=4, K=4, views={"c": PIXELS}),
        layer("e", ["a", "d"], P=6, Q=4, C=3, R=3, S=3, psum_bytes=4, join="concat", channels=[[14, 16], [3, 4]]),
    ),
    "grid": made_of(  # windows of pixels that lie 2 rows and 3 columns apart
        layer("a", ["input"], P=6, Q=4, C=2, K=3),
        layer(
            "b",
            ["a"],
            P=4,
            C=3,
            K=2,
            N=6,
            views={"a": reordered(N=[["H", 2, 1], ["W", 3, 1]], C=[["C", 3, 1]], W=[["H", 2, 2], ["W", 2, 3]])},
        ),
    ),
    "shuffle": made_of(  # channels become rows and columns, and these become channels
        layer("a", ["input"], P=3, Q=2, C=2, K=8),
        layer(
            "b",
            ["a"],
            P=6,
            Q=4,
            C=2,
            K=2,
            R=3,
            S=3,
            views={"a": reordered(C=[["C", 2, 4]], H=[["H", 2, 1], ["C", 2, 2]], W=[["W", 3, 1], ["C", 2, 1]])},
        ),
        layer(
            "c",
            ["b"],
            P=3,
            Q=2,
            C=8,
            K=2,
            views={"b": reordered(C=[["W", 2, 1], ["H", 2, 1], ["C", 2, 1]], H=[["H", 2, 2]], W=[["W", 3, 2]])},
        ),
    ),
    "mixer": made_of(  # tokens of pixels are channels, and channels tokens; two samples
        layer("a", ["input"], P=3, Q=2, C=2, K=4, N=2),
        layer(
            "b",
            ["a"],
            P=4,
            C=6,
            K=5,
            N=2,
            views={"a": reordered(N=[["N", 2, 1]], C=[["H", 2, 1], ["W", 3, 1]], W=[["C", 4, 1]])},
        ),
    ),
    "heads": made_of(
        layer("a", ["input"], P=6, C=2, K=8),
        layer("b", ["input"], P=6, C=2, K=8),
        layer("c", ["a", "b"], P=6, C=4, K=6, G=2, weights=False),
        layer("d", ["c", "b"], P=6, C=6, K=4, G=2, weights=False),
    ),
}
