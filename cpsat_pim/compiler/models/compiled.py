"""Products and attention of a block with this package's best mappings, simulated with refresh as the baselines are."""

from functools import cache

from attrs import evolve

from cpsat_pim.compiler.attention import Attention, AttentionMapping, best_attention, lower_attention
from cpsat_pim.compiler.host import Host, Product, product_seconds
from cpsat_pim.compiler.language import KernelMistake, shipped_kernel
from cpsat_pim.compiler.lowering import lower, predicted_ticks
from cpsat_pim.compiler.mapping import Contraction, Mapping, contraction_of
from cpsat_pim.compiler.models.block import Block, Parts, stepped
from cpsat_pim.compiler.search import best_mapping
from cpsat_pim.compiler.target import Target
from tracesim.commands import Stream, simulate

#: Parts of the outputs that may run on PIM while the others run on the host.
SHARES = 16


def weight_contraction(product: Product) -> Contraction:
    """The contraction that a product with a weight is: the vectors of a batch meet one matrix."""
    kernel = shipped_kernel("gemm").bind({"B": product.m, "N": product.n, "K": product.k})
    return contraction_of(kernel, kernel.statements[0])


@cache
def pim_seconds(product: Product, target: Target) -> float:
    """A weight product on PIM with its best mapping."""
    contraction = weight_contraction(product)
    best = best_mapping(contraction, target, counts=False)
    if best is None:
        return float("inf")
    ticks = refreshed_ticks(lower(best.mapping, contraction, target).stream, target)
    return (ticks * target.device.tick_ps + best.host_ps) * 1e-12


@cache
def pim_bound_seconds(product: Product, target: Target) -> float:
    """The same without refresh: a lower bound that needs no simulation."""
    best = best_mapping(weight_contraction(product), target, counts=False)
    return float("inf") if best is None else best.time_ps * 1e-12


@cache
def shared_seconds(product: Product, target: Target, host: Host) -> float:
    """The least time if some sixteenths of the outputs are computed on PIM and the others at the same time on the
    host.
    """
    least, parts = float("inf"), range(1, SHARES)
    for columns in sorted((product.n * part // SHARES for part in parts), key=lambda n: _host_part(product, n, host)):
        rest = _host_part(product, columns, host)
        part = evolve(product, n=columns)
        if rest < least and pim_bound_seconds(part, target) < least:
            least = min(least, max(pim_seconds(part, target), rest))
    return least


def _host_part(product: Product, columns: int, host: Host) -> float:
    """Seconds of the host for the outputs that PIM does not compute."""
    return product_seconds(host, evolve(product, n=product.n - columns))


def compiled_products(block: Block, shares: bool) -> Parts:
    """Every product on host or PIM, whichever is faster; with `shares` also on both."""

    def seconds(product: Product) -> float:
        host, pim = product_seconds(block.host, product), pim_seconds(product, block.target)
        return min(host, pim, shared_seconds(product, block.target, block.host) if shares else host)

    return block.products(seconds)


def channel_seconds(block: Block, length: int, longest: int) -> float:
    """The attention with the softmax in the channels, with the mapping of the longest length.

    So keys and values never change their places. Infinite if a channel cannot run it.
    """
    heads, size, target = block.heads, block.model.head_size, block.target
    mapping = _channel_mapping(heads, stepped(longest), size, target)
    if mapping is None:
        return float("inf")
    return _seconds(_channel_ticks(Attention(heads, stepped(length), size), mapping, target), target)


def host_softmax_seconds(block: Block, length: int, longest: int, is_bound: bool = False) -> float:
    """The attention with the softmax on the host: scores leave the channels and probabilities return, so that tokens
    may be split over channels. With `is_bound` without refresh, a lower bound that needs no simulation.
    """
    heads, size, target = block.heads, block.model.head_size, block.target
    found = _product_mappings(heads, stepped(longest), size, target)
    if found is None:
        return float("inf")
    ticks = _two_products_ticks(Attention(heads, stepped(length), size), stepped(longest), target, is_bound)
    return _seconds(ticks, target) + found[2] * 1e-12 + block.host_softmax(length)


def refreshed_ticks(stream: Stream, target: Target) -> int:
    """Ticks of the simulator with refresh."""
    return simulate(target.rules, stream, refresh=True).finish


@cache
def _two_products_ticks(attention: Attention, longest: int, target: Target, is_bound: bool) -> int:
    """Ticks of scores and contexts as two kernels, with the mappings of the longest length."""
    found = _product_mappings(attention.heads, longest, attention.head_size, target)
    total = 0
    for mapping, contraction in zip(found[:2] if found else (), (attention.score, attention.context), strict=False):
        if is_bound:
            total += predicted_ticks(mapping, contraction, target)
        else:
            total += refreshed_ticks(lower(mapping, contraction, target).stream, target)
    return total


@cache
def _channel_ticks(attention: Attention, mapping: AttentionMapping, target: Target) -> int:
    return refreshed_ticks(lower_attention(attention, mapping, target), target)


@cache
def _channel_mapping(heads: int, tokens: int, head_size: int, target: Target) -> AttentionMapping | None:
    """The best mapping of an attention, or None if the channels cannot run it."""
    try:
        return best_attention(Attention(heads, tokens, head_size), target).mapping
    except KernelMistake:
        return None


@cache
def _product_mappings(heads: int, tokens: int, head_size: int, target: Target) -> tuple[Mapping, Mapping, int] | None:
    """The best mappings of scores and contexts as two kernels, and the host's picoseconds to read both results."""
    attention = Attention(heads, tokens, head_size)
    score, context = (
        best_mapping(contraction, target, counts=False) for contraction in (attention.score, attention.context)
    )
    if score is None or context is None:
        return None
    return score.mapping, context.mapping, score.host_ps + context.host_ps


def _seconds(ticks: int, target: Target) -> float:
    return ticks * target.device.tick_ps * 1e-12
