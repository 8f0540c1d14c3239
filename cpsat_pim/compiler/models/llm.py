"""Time of a generated token of a transformer, layer by layer on host or PIM (DCC, fig. 8).

The published systems follow AttAcc's model (attacc_simulator c600051, `src/system.py`): `gpu` runs everything on the
host, `base` attention on PIM, `full` also a part of the feed-forward and overlaps heads. `compiled-base` and
`compiled-full` take attention, QKV and projection with this package's best mappings, simulated with refresh, each
product where it is faster, and the feed-forward as `base` and `full` have it: the published model divides it by the
peak bandwidths, which no mapping reaches. `compiled` divides the outputs of every product over host and PIM by exact
times.
"""

from collections.abc import Mapping as Names
from functools import cache
from math import ceil

from attrs import evolve, frozen

from cpsat_pim.compiler.attention import Attention, AttentionMapping, best_attention, lower_attention
from cpsat_pim.compiler.host import A100_HBM3, Host, Product, move_seconds, product_seconds
from cpsat_pim.compiler.host.attacc_xpu import is_compute_bound
from cpsat_pim.compiler.language import shipped_kernel
from cpsat_pim.compiler.lowering import lower
from cpsat_pim.compiler.mapping import Mapping, contraction_of
from cpsat_pim.compiler.models.attacc_baseline import attacc_attention
from cpsat_pim.compiler.models.transformer import Transformer, fully_connected, pointwise_seconds
from cpsat_pim.compiler.search import best_mapping
from cpsat_pim.compiler.target import Target
from cpsat_pim.device.rules import rules_of
from tracesim.commands import Stream, simulate

SYSTEMS = ("gpu", "base", "compiled-base", "full", "compiled-full", "compiled")
GROUPS = ("attention", "qkv", "projection", "feed-forward", "other")
#: Where the softmax of a compiled attention is computed. On the host, scores leave the channels and probabilities
#: return, so that tokens may be split over channels.
SOFTMAX_PLACES = ("channel", "host")
#: Bytes of an element.
ELEMENT = 2
#: Step of the token counts that are evaluated: one more token for each core.
TOKEN_STEP = 16
#: Operations of a softmax element (`model.py`).
SOFTMAX_FLOPS = 5
#: Memory bandwidth of a stack, at which AttAcc's softmax units run (`config.py`).
STACK_BANDWIDTH = 670.4e9
#: PIM's share of the feed-forward: rank x bank group x bank / 2 times the host's bandwidth (`config.py`, BW_SCALE).
PIM_BANDWIDTH_SCALE = 16

#: Seconds by group of layers.
Parts = dict[str, float]


@frozen
class Request:
    """A batch of requests with so many given and generated tokens."""

    model: Transformer
    batch: int
    given: int
    generated: int


def generation_seconds(request: Request, system: str, target: Target, host: Host = A100_HBM3) -> Parts:
    """Seconds of all generated tokens but the first, by group of layers.

    Compiled systems compute the softmax of a whole request where that is faster: keys and values keep their places.
    """
    tokens = _Tokens(request.model, request.batch, target, host)
    modes = SOFTMAX_PLACES if system.startswith("compiled") else SOFTMAX_PLACES[:1]
    totals = [_added_up(tokens, request, system, mode) for mode in modes]
    return min(totals, key=lambda total: sum(total.values()))


def _added_up(tokens: "_Tokens", request: Request, system: str, softmax: str) -> Parts:
    total = dict.fromkeys(GROUPS, 0.0)
    steps = range(request.given + 1, request.given + request.generated)
    for length in steps:
        for group, seconds in tokens.parts(system, length, steps[-1], softmax).items():
            total[group] += seconds * request.model.blocks
    return total


class _Tokens:
    """Times of one block's layers, of which most do not depend on the length."""

    def __init__(self, model: Transformer, batch: int, target: Target, host: Host) -> None:
        self.model, self.batch, self.target, self.host = model, batch, target, host
        self.other = pointwise_seconds(model, batch, host)
        self.moved = move_seconds(host, batch * 3 * model.hidden * ELEMENT) + move_seconds(
            host, batch * model.hidden * ELEMENT
        )
        self.host_products = self._products(lambda product: product_seconds(host, product))
        self.parts = cache(self._parts)
        self._pim_attention = cache(self._pim_attention_uncached)
        self._attacc_attention = cache(self._attacc_attention_uncached)

    def _products(self, seconds: object) -> Parts:
        result = {"qkv": 0.0, "projection": 0.0, "feed-forward": 0.0}
        for layer in fully_connected(self.model, self.batch):
            result[layer.group] += seconds(layer.product)  # type: ignore[operator]
        return result

    def _parts(self, system: str, length: int, last: int, softmax: str) -> Parts:
        """Seconds of one block at a length, by group."""
        if system == "gpu":
            return {**self.host_products, "attention": self._host_attention(length), "other": self.other}
        if system == "base":
            return self._attacc(length, is_full=False)
        if system == "full":
            return self._attacc(length, is_full=True)
        stepped, longest = (ceil(tokens / TOKEN_STEP) * TOKEN_STEP for tokens in (length, last))
        attention = self._pim_attention(stepped, longest, softmax)
        products = self._compiled_products(shares=system == "compiled")
        if system == "compiled-full":
            products["feed-forward"] = self._shared_feed_forward()
        if system == "compiled-base":
            products["feed-forward"] = self.host_products["feed-forward"]
        return {**products, "attention": attention, "other": self.other + self.moved / self.model.heads}

    # --- Host

    def _host_attention(self, length: int) -> float:
        heads, size = self.model.heads * self.batch, self.model.head_size
        score = Product(1, length, size, heads, is_weight=False)
        context = Product(1, size, length, heads, is_weight=False)
        return sum(product_seconds(self.host, work) for work in (score, context)) + self._host_softmax(heads, length)

    def _host_softmax(self, heads: int, length: int) -> float:
        """The longer of computing and of reading and writing the scores; a block a head."""
        occupancy = heads / (ceil(heads / self.host.cores) * self.host.cores)
        computing = SOFTMAX_FLOPS * length * heads / (self.host.flops * self.host.compute_efficiency * occupancy)
        moving = 2 * length * heads * ELEMENT / (self.host.memory_bandwidth * self.host.memory_efficiency * occupancy)
        return max(computing, moving)

    # --- AttAcc

    def _attacc(self, length: int, is_full: bool) -> Parts:
        """AttAcc's systems: moves, and in `full` also QKV and projection, hide behind the attention of other heads."""
        heads = self.model.heads * self.batch
        attention = self._attacc_attention(ceil(length / TOKEN_STEP) * TOKEN_STEP)
        softmax = (
            max(SOFTMAX_FLOPS, 2 * ELEMENT) * length * heads / (STACK_BANDWIDTH * self.target.device.system.stacks)
        )
        products, moved = dict(self.host_products), self.moved
        first, busy = 1 / self.model.heads, attention + softmax
        connected = products["qkv"] + products["projection"]
        if not is_full or busy > connected:
            moved = moved * first if busy > moved else moved - busy * (1 - first)
            if is_full:
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
        if is_full:
            products["feed-forward"] = self._shared_feed_forward()
        return {**products, "attention": attention, "other": self.other + moved}

    def _shared_feed_forward(self) -> float:
        """The feed-forward on host and PIM together, by their bandwidths or operations (`_ff_parallel`)."""
        total = 0.0
        for layer in fully_connected(self.model, self.batch):
            if layer.group == "feed-forward":
                gain = PIM_BANDWIDTH_SCALE / self.batch
                if is_compute_bound(self.host, layer.product):
                    gain = self.host.memory_bandwidth * PIM_BANDWIDTH_SCALE / self.host.flops
                total += product_seconds(self.host, layer.product) / (1 + gain)
        return total

    def _attacc_attention_uncached(self, length: int) -> float:
        """Simulated with refresh, as published; heads over the stacks first, then over a stack's channels."""
        system = self.target.device.system
        heads = ceil(ceil(self.model.heads * self.batch / system.stacks) / system.groups)
        stream = attacc_attention(heads, length, self.model.head_size, self.target)
        return simulate(rules_of(self.target.device), stream, refresh=True).finish * self._tick

    # --- Compiled

    def _pim_attention_uncached(self, length: int, last: int, softmax: str) -> float:
        """Every length with the mapping of the longest, so that keys and values never change their places."""
        heads, size = self.model.heads * self.batch, self.model.head_size
        if softmax == "channel":
            mapping = _attention_mapping(heads, last, size, self.target)
            return self._refreshed(lower_attention(Attention(heads, length, size), mapping, self.target)) * self._tick
        score, context, host = _product_mappings(heads, last, size, self.target)
        attention = Attention(heads, length, size)
        ticks = self._refreshed(lower(score, attention.score, self.target).stream)
        ticks += self._refreshed(lower(context, attention.context, self.target).stream)
        return ticks * self._tick + host * 1e-12 + self._host_softmax(heads, length)

    def _refreshed(self, stream: Stream) -> int:
        """Ticks of the simulator with refresh, as the published baselines have it."""
        return simulate(rules_of(self.target.device), stream, refresh=True).finish

    def _compiled_products(self, shares: bool) -> Parts:
        """Every product on host or PIM, whichever is faster, or on both."""
        result = {"qkv": 0.0, "projection": 0.0, "feed-forward": 0.0}
        for layer in fully_connected(self.model, self.batch):
            host, pim = product_seconds(self.host, layer.product), pim_seconds(layer.product, self.target)
            both = shared_seconds(layer.product, self.target, self.host) if shares else host
            result[layer.group] += min(host, pim, both)
        return result

    @property
    def _tick(self) -> float:
        return self.target.device.tick_ps * 1e-12


@cache
def pim_seconds(product: Product, target: Target) -> float:
    """A weight product on PIM with its best mapping, simulated with refresh."""
    kernel = shipped_kernel("gemm").bind({"B": product.m, "N": product.n, "K": product.k})
    contraction = contraction_of(kernel, kernel.statements[0])
    best = best_mapping(contraction, target, counts=False)
    if best is None:
        return float("inf")
    ticks = simulate(rules_of(target.device), lower(best.mapping, contraction, target).stream, refresh=True).finish
    return (ticks * target.device.tick_ps + best.host_ps) * 1e-12


@cache
def shared_seconds(product: Product, target: Target, host: Host) -> float:
    """The least time if some sixteenths of the outputs are computed on PIM and the others at the same time on the
    host."""
    least = float("inf")
    for sixteenths in range(1, 16):
        columns = product.n * sixteenths // 16
        pim = pim_seconds(evolve(product, n=columns), target)
        least = min(least, max(pim, product_seconds(host, evolve(product, n=product.n - columns))))
    return least


@cache
def _product_mappings(heads: int, tokens: int, head_size: int, target: Target) -> tuple[Mapping, Mapping, int]:
    """The best mappings of scores and contexts as two kernels, and the host's picoseconds to read both results."""
    attention = Attention(heads, tokens, head_size)
    score, context = (
        best_mapping(contraction, target, counts=False) for contraction in (attention.score, attention.context)
    )
    if score is None or context is None:
        raise ValueError(f"attention: {heads} heads of {tokens} tokens do not fit the banks of {target.device.name}")
    return score.mapping, context.mapping, score.host_ps + context.host_ps


@cache
def _attention_mapping(heads: int, tokens: int, head_size: int, target: Target) -> AttentionMapping:
    return best_attention(Attention(heads, tokens, head_size), target).mapping


def speedups(request: Request, target: Target, host: Host = A100_HBM3) -> Names[str, float]:
    """How much faster each system generates than the host alone."""
    seconds = {system: sum(generation_seconds(request, system, target, host).values()) for system in SYSTEMS}
    return {system: seconds["gpu"] / value for system, value in seconds.items()}
