"""AttAcc's published systems (attacc_simulator c600051, `src/system.py`): the baselines of DCC, fig. 8.

`base`: attention on PIM. `full`: also a part of the feed-forward, and the attention of some heads beside QKV,
projection and moves of others.
"""

from functools import cache
from math import ceil

from cpsat_pim.compiler.host import Product, product_seconds
from cpsat_pim.compiler.host.attacc_xpu import is_compute_bound
from cpsat_pim.compiler.models.attacc_baseline import attacc_attention
from cpsat_pim.compiler.models.block import ELEMENT, SOFTMAX_FLOPS, Block, Parts, stepped
from cpsat_pim.compiler.target import Target
from tracesim.commands import simulate

#: Memory bandwidth of a stack, at which AttAcc's softmax units run (`config.py`).
STACK_BANDWIDTH = 670.4e9
#: PIM's share of the feed-forward: rank x bank group x bank / 2 times the host's bandwidth (`config.py`, BW_SCALE).
PIM_BANDWIDTH_SCALE = 16


def gpu(block: Block, length: int) -> Parts:
    """Everything on the host."""
    return {**block.host_products, "attention": block.host_attention(length), "other": block.pointwise}


def base(block: Block, length: int) -> Parts:
    """Attention on PIM; its moves hide behind the attention of other heads."""
    attention, busy = _attention(block, length)
    return {**block.host_products, "attention": attention, "other": block.pointwise + _moved_beside(block, busy)}


def full(block: Block, length: int) -> Parts:
    """Attention and a part of the feed-forward on PIM; QKV and projection run beside the attention of other heads."""
    attention, busy = _attention(block, length)
    products = {**block.host_products, "feed-forward": shared_feed_forward(block)}
    return overlapped(block, products, attention, busy)


def overlapped(block: Block, products: Parts, attention: float, busy: float) -> Parts:
    """The published overlap of heads (`_pipeline`): QKV, projection and moves hide behind the attention of other heads,
    or the attention behind QKV and projection.
    """
    products, moved, first = dict(products), block.moved, 1 / block.model.heads
    connected = products["qkv"] + products["projection"]
    if busy > connected:
        moved = _moved_beside(block, busy)
        products["qkv"] *= first
        products["projection"] *= first
    elif connected > moved:
        moved *= first
        products["qkv"] -= busy * (1 - first) * 3 / 4
        products["projection"] -= busy * (1 - first) / 4
    else:
        moved -= busy * (1 - first)
        products["qkv"] *= first
        products["projection"] *= first
    return {**products, "attention": attention, "other": block.pointwise + moved}


def shared_feed_forward(block: Block) -> float:
    """The feed-forward on host and PIM together, by their bandwidths or operations (`_ff_parallel`)."""

    def seconds(product: Product) -> float:
        gain = PIM_BANDWIDTH_SCALE / block.batch
        if is_compute_bound(block.host, product):
            gain = block.host.memory_bandwidth * PIM_BANDWIDTH_SCALE / block.host.flops
        return product_seconds(block.host, product) / (1 + gain)

    return block.products(seconds)["feed-forward"]


def _attention(block: Block, length: int) -> tuple[float, float]:
    """Seconds of the attention, and those with its softmax, behind which others hide."""
    system = block.target.device.system
    heads = ceil(ceil(block.heads / system.stacks) / system.groups)
    attention = _refreshed_ticks(heads, stepped(length), block.model.head_size, block.target)
    softmax = max(SOFTMAX_FLOPS, 2 * ELEMENT) * length * block.heads / (STACK_BANDWIDTH * system.stacks)
    seconds = attention * block.target.device.tick_ps * 1e-12
    return seconds, seconds + softmax


def _moved_beside(block: Block, busy: float) -> float:
    """Seconds of moves that the attention of other heads does not hide."""
    first = 1 / block.model.heads
    return block.moved * first if busy > block.moved else block.moved - busy * (1 - first)


@cache
def _refreshed_ticks(heads: int, length: int, head_size: int, target: Target) -> int:
    """Simulated with refresh, as published; heads over the stacks first, then over a stack's channels."""
    return simulate(target.rules, attacc_attention(heads, length, head_size, target), refresh=True).finish
