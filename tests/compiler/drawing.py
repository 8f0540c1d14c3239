"""Draws kernels and mappings at random, for `scripts/check_compiled_streams.py` and for tests."""

from random import Random

from attrs import evolve

from cpsat_pim.compiler.attention import SCORE_BYTES, Attention, AttentionMapping
from cpsat_pim.compiler.language import Kernel, kernel_of_text, shipped_kernel
from cpsat_pim.compiler.lowering import bank_contraction, in_order
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.mapping import Contraction, Mapping
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping
from cpsat_pim.compiler.target import Target

#: Sizes, primes among them; batch elements and vectors are few.
EXTENTS = (1, 2, 3, 5, 7, 11, 16, 17, 31, 33, 64, 97, 128, 250, 257, 512)
FEW = EXTENTS[:6]
ELEMENTWISE = ("va", "mul", "relu")
ELEMENTWISE_POINTS = (1, 17, 97, 1000, 4097, 9001)
CONTRACTIONS = ("gemv", "gemm", "red", "context")


def shipped_contraction(draw: Random) -> Kernel:
    """A shipped kernel that is a contraction, with random sizes."""
    kernel = shipped_kernel(draw.choice(CONTRACTIONS))
    return kernel.bind({name: draw.choice(FEW if name == "B" else EXTENTS) for name in kernel.sizes})


def shipped_elementwise(draw: Random) -> Kernel:
    """A shipped elementwise kernel with random sizes."""
    kernel = shipped_kernel(draw.choice(ELEMENTWISE))
    return kernel.bind({"B": draw.randint(1, 7), "N": draw.choice(ELEMENTWISE_POINTS)})


def affine_contraction(draw: Random) -> Kernel:
    """A kernel with random affine indices: offsets, strides, and windows over two variables (halo).

    The loops are batch, vector, output, depth and window; the window is a second depth that is added to the output or
    to the depth in the matrix, or has an index of its own.
    """
    b, s, n, k, w = (
        draw.choice(sizes) for sizes in ((1, 2, 3), (1, 1, 2), (1, 3, 7, 17, 33), (1, 2, 5, 13, 37, 64), (1, 2, 3))
    )
    batch, output, depth = (_affine(draw, name, extent) for name, extent in (("b", b), ("n", n), ("k", k)))
    halo = draw.choice(("none", "output", "depth"))
    matrix = {"none": [batch, output, depth, ("w", w)], "output": [batch, _sum(output, w), depth],
              "depth": [batch, output, _sum(depth, w)]}[halo]  # fmt: skip
    inputs = [_affine(draw, "b", b), ("s", s), _affine(draw, "k", k), ("w", w)]
    text = f'''
@kernel
def drawn(m: "{_shape(matrix)}", x: "{_shape(inputs)}") -> "{b} {s} {n}":
    y = zeros({b}, {s}, {n})
    for b in range({b}):
        for s in range({s}):
            for n in range({n}):
                for k in range({k}):
                    for w in range({w}):
                        y[b, s, n] += m[{_indices(matrix)}] * x[{_indices(inputs)}]
    return y
'''
    return kernel_of_text(text, "drawn.py", "drawn").bind({})


_Index = tuple[str, int]


def _affine(draw: Random, name: str, extent: int) -> _Index:
    """An index of one variable, and the extent that it needs."""
    factor, offset = draw.choice((1, 1, 2, 3)), draw.choice((0, 0, 1, 2))
    return f"{factor} * {name} + {offset}", factor * (extent - 1) + offset + 1


def _sum(index: _Index, window: int) -> _Index:
    return f"{index[0]} + w", index[1] + window - 1


def _shape(indices: list[_Index]) -> str:
    return " ".join(str(extent) for _, extent in indices)


def _indices(indices: list[_Index]) -> str:
    return ", ".join(text for text, _ in indices)


# --- Mappings --------------------------------------------------------------------------------------------------------


def drawn_attention(draw: Random, target: Target) -> tuple[Attention, AttentionMapping, Target]:
    """An attention, a mapping of it, and the device with a buffer for the scores of one to three heads."""
    attention = Attention(draw.randint(1, 7), draw.choice(EXTENTS), draw.choice((16, 64, 97, 128)))
    buffer_bytes = SCORE_BYTES * attention.tokens * draw.randint(1, 3)
    device = evolve(target.device, group=evolve(target.device.group, buffer_bytes=buffer_bytes))
    parts = draw.randint(1, 3)
    score, context = (
        drawn_mapping(draw, product, target, (parts, 1, 1, 1)) for product in (attention.score, attention.context)
    )
    return attention, AttentionMapping(score, context), evolve(target, device=device)


def drawn_mapping(
    draw: Random, contraction: Contraction, target: Target, splits: tuple[int, ...] | None = None
) -> Mapping:
    """A mapping that AttAcc can run, with any splits or with given ones."""
    while True:
        mapping = Mapping(
            splits=splits or tuple(draw.choice((1, 1, 2, 3)) for _ in range(4)),
            owners=tuple(draw.randint(-1, 3) for _ in target.axes),
            is_tree=draw.random() < 0.5,
            output_tile=draw.choice((1, 2)),
            depth_tile=draw.choice((1, 2, 3, 4, 8, 16)),
            order=draw.choice(("output-stationary", "input-stationary")),
            overlaps_drains=draw.random() < 0.5,
            overlaps_loads=draw.random() < 0.5,
            hull=draw.choice(tuple(contraction.hulls())),
        )
        if mapping.problem(contraction.with_hull(mapping.hull), target) is None:
            return mapping


def drawn_broadcast(draw: Random, contraction: Contraction, target: BankTarget | InOrderTarget) -> BroadcastMapping:
    """A mapping that a device with broadcast inputs can run."""
    is_bank = isinstance(target, BankTarget)
    orders = ("output-stationary",) if is_bank else ("output-stationary", "input-stationary")
    problem = bank_contraction.problem if is_bank else in_order.problem
    while True:
        stores = is_bank and contraction.inputs is not None and draw.random() < 0.4
        classes = (-1, 2, 2) if contraction.inputs is not None else (-1, 0, 1, 2, 3)
        of_axes = [(-1, 0, 2, 3) if stores else classes] * (len(target.axes) - 1) + [classes]
        mapping = BroadcastMapping(
            splits=tuple(draw.choice((1, 1, 2, 3)) for _ in range(4)),
            owners=tuple(
                -1 if size == 1 else draw.choice(choices) for size, choices in zip(target.axes, of_axes, strict=True)
            ),
            lanes=draw.choice(("depth", "outputs")) if is_bank else "depth",
            depth_tile=draw.randint(1, target.device.core.inputs),
            keeps_inputs=is_bank and draw.random() < 0.3,
            stores_inputs=stores,
            order=draw.choice(orders),
            mode_bank=draw.randint(0, 1) if is_bank else 0,
            hull=draw.choice(tuple(contraction.hulls())),
        )
        if problem(mapping, contraction.with_hull(mapping.hull), target) is None:  # type: ignore[arg-type]
            return mapping


def drawn_elementwise(draw: Random) -> ElementwiseMapping:
    """Any mapping of an elementwise kernel."""
    flags = {name: draw.random() < 0.5 for name in ("both_banks", "shares_rows", "takes_turns")}
    return ElementwiseMapping(channels=draw.randint(1, 5), mode_bank=draw.randint(0, 1), **flags)
