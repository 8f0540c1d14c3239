"""Small networks that read, add and reorder tensors in all ways that plans know, for tests of plans."""

from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import Pool, Resize, View
from cpsat_pim.workload.network import BETWEEN, Network, NetworkNode
from cpsat_pim.workload.reorders import Reorder


def layer(name, after, sizes, **fields):
    """A layer of a network; `sizes`: its bounds, as `P4 Q6 C2 K3`."""
    fields |= {size[0]: int(size[1:]) for size in sizes.split()}
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
        layer("a", ["input"], "P5 Q6 C3 K4 R3 S3", stride=(2, 1)),
        layer("b", ["a"], "P5 Q6 C4 K6 R3 S3", psum_bytes=4),
    ),
    "grouped": made_of(layer("a", ["input"], "P4 Q4 C4 K6 G4", psum_bytes=4)),
    "pooled": made_of(
        layer("a", ["input"], "P8 Q6 C2 K4", pool=Pool(window=(3, 3), stride=(2, 2), pad=(1, 1), size=(4, 3))),
        layer("b", ["a"], "P4 Q3 C4 K2", input_pool=Pool(window=(3, 3), pad=(1, 1), size=(4, 3))),
    ),
    "residual": made_of(
        layer("a", ["input"], "P4 Q4 C2 K4"),
        layer("b", ["a"], "P4 Q4 C4 K4 R3 S3"),
        layer("side", ["a"], "P4 Q4 C4 K4"),
        layer("c", ["b", "side"], "P4 Q4 C4 K2", join="add"),
    ),
    "gated": made_of(  # a gate with one element a channel is made of what it is multiplied onto, and finishes it
        layer("a", ["input"], "P4 Q3 C2 K6"),
        layer("squeeze", ["a"], "C6 K2", input_pool=Pool(window=(4, 3), size=(1, 1))),
        layer("gate", ["squeeze"], "C2 K6"),
        layer("b", ["a", "gate"], "P4 Q3 C6 K3", join="add"),
    ),
    "gated residual": made_of(  # two operands are spread, over positions and over channels; another layer finishes
        layer("a", ["input"], "P4 Q3 C2 K6"),
        layer("squeeze", ["a"], "C6 K2", input_pool=Pool(window=(4, 3), size=(1, 1))),
        layer("gate", ["squeeze"], "C2 K6"),
        layer("map", ["a"], "P4 Q3 C6"),
        layer("side", ["input"], "P4 Q3 C2 K6"),
        layer("b", ["a", "gate", "side", "map"], "P4 Q3 C6 K3", join="add"),
        layer("c", ["side"], "P4 Q3 C6 K2"),
    ),
    "concat": made_of(
        layer("a", ["input"], "P4 Q2 C2 K2"),
        layer("b", ["input"], "P4 Q2 C2 K4"),
        layer("c", ["a", "b"], "P4 Q2 C6 K2", join="concat"),
        layer("d", ["b", "a"], "P4 Q2 C6 K2", join="concat"),
    ),
    "read alone first": made_of(  # those who concatenate decide the order of storage, not who reads a member alone
        layer("a", ["input"], "P4 C2 K5"),
        layer("b", ["a"], "P4 C5 K3"),
        layer("c", ["b", "a"], "P4 C8 K2", join="concat"),
    ),
    "tokens": made_of(  # a constant token in front of four that are made; the last layer reads it alone
        layer("a", ["input"], "P4 C3 K4"),
        layer("b", ["a"], "P5 C4 K4", pad=(1, 0)),
        layer("c", ["a"], "P5 C4 K4", pad=(1, 0)),
        layer("d", ["b", "c"], "P5 C2 K5 G2", weights=False),
        layer("e", ["d"], "P1 C10 K3"),
    ),
    "pyramid": made_of(  # maps that others read are added, resized or pooled; one layer finishes a sum besides
        layer("a", ["input"], "P4 Q6 C2 K3"),
        layer("b", ["a"], "P2 Q3 C3 K4", stride=(2, 2), psum_bytes=4),
        layer("c", ["a"], "P4 Q6 C3 K4", psum_bytes=4, adds={"b": resized(4, 6, "linear")}),
        layer("d", ["c"], "P4 Q6 C4 K4 R3 S3", adds={"b": resized(4, 6, "nearest")}),
        layer("e", ["b"], "P2 Q3 C4 K4", adds={"c": HALF}),
        layer("f", ["c", "d"], "P4 Q6 C4 K2", join="add"),
        layer("g", ["e"], "P2 Q3 C4 K2"),
    ),
    "many": made_of(  # four stacks of three sizes, some of their channels; maps are added besides
        layer("a", ["input"], "P4 Q6 C2 K3"),
        layer("b", ["a"], "P2 Q3 C3 K4", stride=(2, 2)),
        layer("c", ["b"], "P1 Q2 C4 K2", stride=(2, 2)),
        layer(
            "d",
            ["b", "input", "a", "c"],
            "P4 Q6 C8 K4 R3 S3",
            psum_bytes=4,
            join="concat",
            channels=[(3, 6), (7, 11), (0, 1)],
            views={"b": resized(4, 6, "linear"), "c": resized(4, 6, "corners")},
            adds={"b": resized(4, 6, "nearest")},
        ),
        layer("e", ["d", "b", "c"], "P2 Q3 C10 K2", join="concat", views={"d": HALF, "c": resized(2, 3, "nearest")}),
        layer("f", ["c"], "P1 Q2 C2 K2", adds={"e": resized(1, 2, "linear"), "input": resized(1, 2, "corners")}),
    ),
    "partial residual": made_of(  # half of a map, and another map as it is, are added; the sums are side by side
        layer("a", ["input"], "P4 Q6 C2 K8"),
        layer("b", ["a"], "P4 Q6 C4 K4", channels=[(4, 8)], adds={"a": View(channels=[(4, 8)])}),
        layer("c", ["b"], "P4 Q6 C4 K4 R3", psum_bytes=4, adds={"b": View(), "a": View(channels=[(1, 5)])}),
        layer("d", ["c", "b"], "P4 Q6 C8 K2", join="concat"),
        layer("e", ["a", "c"], "P4 Q6 C8 K2", join="concat", channels=[(8, 12), (0, 4)]),
    ),
    "summed by readers": made_of(  # halves, resized and pooled maps are added to what a layer reads, which others read
        layer("a", ["input"], "P4 Q6 C2 K8"),
        layer("b", ["a"], "P4 Q6 C4 K4 R3", channels=[(0, 4)]),
        layer("c", ["b"], "P4 Q6 C4 K4 R3 S3", psum_bytes=4, input_adds={"a": View(channels=[(4, 8)])}),
        layer("d", ["c", "b"], "P4 Q6 C4 K3 G2", join="concat", input_adds={"a": View()}),
        layer("e", ["b"], "P2 Q3 C4 K4", stride=(2, 2)),
        layer(
            "f",
            ["b"],
            "P4 Q6 C3 S3",
            channels=[(1, 4)],
            input_adds={
                "e": View(resize=Resize(size=(4, 6), kind="linear"), channels=[(0, 3)]),
                "d": View(channels=[(2, 5)]),
            },
        ),
        layer(
            "g", ["e"], "P2 Q3 C4 K4", input_pool=Pool(window=(3, 3), pad=(1, 1), size=(2, 3)), input_adds={"b": HALF}
        ),
        layer("h", ["g", "e"], "P2 Q3 C4 K2", join="add", input_adds={"b": HALF}),
    ),
    "summed queries": made_of(  # positions are added to the queries, not to the values, as DETR has it
        layer("a", ["input"], "P5 C2 K4"),
        layer("position", ["input"], "P5 C2 K4"),
        layer("b", ["a", "a"], "P5 C2 K5 G2", weights=False, input_adds={"position": View()}),
        layer("c", ["b", "a"], "P5 C5 K2 G2", weights=False, psum_bytes=4),
    ),
    "reordered sums": made_of(  # tokens of pixels are channels of two layers, which add what lies in the other order
        layer("a", ["input"], "P3 Q2 C2 K4 N2"),
        layer("b", ["a"], "P4 C6 K6 N2", views={"a": TOKENS}, adds={"a": TOKENS}),
        layer("c", ["b"], "P3 Q2 C4 K4 N2", psum_bytes=4, views={"b": BACK}, adds={"b": BACK, "a": View()}),
        layer("d", ["c"], "P4 C6 N2", psum_bytes=4, views={"c": TOKENS}, input_adds={"b": View(), "a": TOKENS}),
        layer("e", ["a", "c"], "P3 Q2 C8 N2 K3 S2", join="concat"),
    ),
    "pooled beside itself": made_of(  # spatial pyramid pooling: a map beside itself in windows of two sizes
        layer("a", ["input"], "P4 Q6 C2 K3"),
        layer("b", ["input"], "P4 Q6 C2 K2"),
        layer(
            "c",
            ["a", "b", "a", "a"],
            "P4 Q6 C9 K2 S3",
            psum_bytes=4,
            join="concat",
            channels=[(1, 3), (5, 10), (3, 5)],
            views={"a": (View(), THREE, FIVE)},
        ),
        layer("d", ["a", "b", "a"], "P4 Q6 C4 K2 G2", join="concat", views={"a": (THREE, FIVE), "b": THREE}),
    ),
    "pixels": made_of(  # keys and values of 2 x 3 pixels are read row by row
        layer("q", ["input"], "P4 Q4 C2 K4", pad=(0, 0)),
        layer("kv", ["input"], "P3 Q2 C2 K8 R2 S3"),
        layer("a", ["q", "kv"], "P4 Q4 C2 K6 G2", weights=False, weight_channels=[(0, 4)]),
        layer("b", ["a", "kv"], "P4 Q4 C6 K2 G2", weights=False, weight_channels=[(4, 8)]),
        layer("c", ["b", "q"], "P4 Q4 C4 K3", join="add"),
    ),
    "shared": made_of(  # three query heads for each of two keys and values, which lie in one product
        layer("q", ["input"], "P5 C2 K13"),
        layer("kv", ["input"], "P5 C2 K8", psum_bytes=4),
        layer(
            "a",
            ["q", "kv"],
            "P5 C2 K5 N3 G2",
            weights=False,
            shared_heads=True,
            channels=[(1, 13)],
            weight_channels=[(0, 4)],
            weight_rows="K",
        ),
        layer(
            "b", ["a", "kv"], "P5 C5 K2 N3 G2", weights=False, shared_heads=True, weight_channels=[(4, 8)], psum_bytes=4
        ),
        layer("c", ["b"], "P5 C12 K2"),
    ),
    "fused": made_of(  # queries, keys and values of two heads are channels of one product, head by head
        layer("a", ["input"], "P6 C2 K12"),
        layer(
            "b", ["a", "a"], "P6 C2 K6 G2", weights=False, channels=[(0, 2), (6, 8)], weight_channels=[(2, 4), (8, 10)]
        ),
        layer("c", ["b", "a"], "P6 C6 K2 G2", weights=False, weight_channels=[(4, 6), (10, 12)]),
        layer("d", ["c"], "P6 C4 K3"),
    ),
    "slices": made_of(  # halves of a concatenation are read by themselves, one of them from the end to the beginning
        layer("a", ["input"], "P4 Q2 C2 K4"),
        layer("b", ["a"], "P4 Q2 C2 K2", channels=[(2, 4)]),
        layer("c", ["a", "b"], "P4 Q2 C3 K2", join="concat", channels=[(4, 6), (0, 1)]),
        layer("d", ["a", "b"], "P4 Q2 C2 K3 G2", join="concat", channels=[(1, 3), (5, 6), (0, 1)]),
    ),
    "beside": made_of(  # a tensor that is concatenated in one place is pooled beside another one, and read alone
        layer("a", ["input"], "P5 Q6 C2 K3"),
        layer("b", ["input"], "P5 Q6 C2 K2"),
        layer("c", ["a", "b"], "P2 Q3 C5 K3 R3 S2", stride=(2, 2), pad=(0, 0), join="concat"),
        layer("d", ["c", "a", "b"], "P2 Q3 C8 K4 S2", pad=(0, 1), join="concat", views=dict.fromkeys("ab", HALF)),
        layer("e", ["a"], "P5 Q6 C3 K1"),
        layer("f", ["b", "c"], "P2 Q3 C2 K1 G2", join="concat", channels=[(1, 4), (0, 1)], views={"b": HALF}),
    ),
    "resized": made_of(  # up-sampled beside what is there, and shrunk alone
        layer("a", ["input"], "P6 Q4 C2 K3", psum_bytes=4),
        layer("b", ["a"], "P3 Q2 C3 K4", stride=(2, 2)),
        layer("c", ["b", "a"], "P6 Q4 C7 K2 R3 S3", join="concat", views={"b": resized(6, 4, "linear")}),
        layer("d", ["b"], "P5 Q5 C4 K2 R2", views={"b": resized(5, 5, "corners")}),
        layer("gate", ["d"], "C2 K2", input_pool=Pool(window=(5, 5), size=(1, 1))),
        layer("e", ["c"], "P4 Q1 C2 K2", views={"c": resized(4, 1, "nearest")}),
        layer("g", ["d", "gate"], "P6 Q3 C2 K2", join="add", views={"d": resized(6, 3, "linear")}),
        layer("f", ["b", "c"], "P3 Q7 C6 K2", join="concat", views=dict.fromkeys("bc", resized(3, 7, "nearest"))),
    ),
    "samples": made_of(  # each of three samples has keys and values of its own, the last layer's in a cache
        layer("a", ["input"], "P4 C2 K8 N3"),
        layer("b", ["input"], "P4 C2 K8 N3"),
        layer("c", ["a", "b"], "P4 C4 K4 N3 G2", weight_rows="K", psum_bytes=4, **OWN),
        layer("d", ["c", "b"], "P4 C4 K4 N3 G2", weight_rows="C", **OWN),
        layer("e", ["d"], "P4 C4 K5 N3 G2", sample_weights=True),
    ),
    "phases": made_of(  # four phases of a transposed convolution, some channels of what it makes beside other tensors
        layer("skip", ["input"], "P6 Q4 C2 K3"),
        layer("small", ["input"], "P3 Q2 C2 K3", stride=(2, 2)),
        *(layer(f"up{at}", ["small"], "P3 Q2 C3 K4 R2 S2", pad=(1 - at % 2, 1 - at // 2)) for at in range(4)),
        layer(
            "c",
            ["skip", *UP, "small"],
            "P6 Q4 C9 K2 R3 S3",
            join="concat",
            channels=[[19, 21], [3, 19], [0, 3]],
            views={**dict.fromkeys(UP, SHUFFLED), "small": resized(6, 4, "linear")},
        ),
    ),
    "crossed": made_of(  # attention of two heads between channels: the sums run over pixels; I and W are one tensor
        layer("a", ["input"], "P3 Q2 C2 K12"),
        layer(
            "b",
            ["a", "a"],
            "P2 C6 K2 G2",
            weights=False,
            weight_rows="C",
            channels=[[0, 4]],
            weight_channels=[[4, 8]],
            views={"a": (reordered(C=[["C", 2, 2], ["H", 2, 1], ["W", 3, 1]], W=[["C", 2, 1]]), View())},
        ),
        layer("c", ["b", "a"], "P2 C2 K6 G2", weights=False, weight_rows="K", weight_channels=[[8, 12]]),
    ),
    "windows": made_of(  # attention of two heads in windows, and its output pixel by pixel again
        layer("a", ["input"], "P6 Q4 C2 K12"),
        layer(
            "b",
            ["a", "a"],
            "P6 C2 K6 G8",
            weights=False,
            weight_rows="K",
            channels=[[0, 4]],
            weight_channels=[[4, 8]],
            views={"a": WINDOWS},
        ),
        layer("c", ["b", "a"], "P6 C6 K2 G8", weights=False, weight_channels=[[8, 12]], views={"a": WINDOWS}),
        layer("d", ["c"], "P6 Q4 C4 K4", views={"c": PIXELS}),
        layer("e", ["a", "d"], "P6 Q4 C3 R3 S3", psum_bytes=4, join="concat", channels=[[14, 16], [3, 4]]),
    ),
    "grid": made_of(  # windows of pixels that lie 2 rows and 3 columns apart
        layer("a", ["input"], "P6 Q4 C2 K3"),
        layer(
            "b",
            ["a"],
            "P4 C3 K2 N6",
            views={"a": reordered(N=[["H", 2, 1], ["W", 3, 1]], C=[["C", 3, 1]], W=[["H", 2, 2], ["W", 2, 3]])},
        ),
    ),
    "shuffle": made_of(  # channels become rows and columns, and these become channels
        layer("a", ["input"], "P3 Q2 C2 K8"),
        layer(
            "b",
            ["a"],
            "P6 Q4 C2 K2 R3 S3",
            views={"a": reordered(C=[["C", 2, 4]], H=[["H", 2, 1], ["C", 2, 2]], W=[["W", 3, 1], ["C", 2, 1]])},
        ),
        layer(
            "c",
            ["b"],
            "P3 Q2 C8 K2",
            views={"b": reordered(C=[["W", 2, 1], ["H", 2, 1], ["C", 2, 1]], H=[["H", 2, 2]], W=[["W", 3, 2]])},
        ),
    ),
    "mixer": made_of(  # tokens of pixels are channels, and channels tokens; two samples
        layer("a", ["input"], "P3 Q2 C2 K4 N2"),
        layer(
            "b",
            ["a"],
            "P4 C6 K5 N2",
            views={"a": reordered(N=[["N", 2, 1]], C=[["H", 2, 1], ["W", 3, 1]], W=[["C", 4, 1]])},
        ),
    ),
    "heads": made_of(
        layer("a", ["input"], "P6 C2 K8"),
        layer("b", ["input"], "P6 C2 K8"),
        layer("c", ["a", "b"], "P6 C4 K6 G2", weights=False),
        layer("d", ["c", "b"], "P6 C6 K4 G2", weights=False),
    ),
}
