"""One decoder block during generation: what the host computes, and what it moves."""

from collections.abc import Callable
from functools import cached_property
from math import ceil

from attrs import field, frozen

from cpsat_pim.base.validate import positive
from cpsat_pim.compiler.host import Host, Product, move_seconds, product_seconds
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.models.transformer import Transformer, fully_connected, pointwise_seconds
from cpsat_pim.compiler.target import Target

GROUPS = ("attention", "qkv", "projection", "feed-forward", "other")
#: The groups that are products with weights.
PRODUCTS = GROUPS[1:4]
#: Bytes of an element.
ELEMENT = 2
#: Step of the token counts that are evaluated: one more token for each core.
TOKEN_STEP = 16
#: Operations of a softmax element (attacc_simulator c600051, `model.py`).
SOFTMAX_FLOPS = 5

#: Seconds by group of layers.
Parts = dict[str, float]


@frozen
class Request:
    """A batch of requests with so many given and generated tokens."""

    model: Transformer
    batch: int = field(validator=positive)
    given: int = field(validator=positive)
    generated: int = field(validator=positive)

    @property
    def lengths(self) -> range:
        """The tokens that each generated token but the first attends to."""
        return range(self.given + 1, self.given + self.generated)


def check_fits(request: Request, target: Target) -> None:
    """Refuse requests whose keys and values the device cannot hold.

    Raises:
        KernelMistake: they do not fit.
    """
    model, device = request.model, target.device
    kept = 2 * request.batch * model.hidden * request.lengths[-1] * ELEMENT * model.blocks
    most = target.channels * device.cores * target.columns * device.core.column_bytes
    if kept > most:
        gib = f"{kept / 2**30:.0f} GiB, there are {most / 2**30:.0f}"
        raise KernelMistake(f"{model.name}: keys and values of {request.lengths[-1]} tokens need {gib}")


def stepped(tokens: int) -> int:
    """The token count that is evaluated for a length: the next one with as many tokens on every core."""
    return ceil(tokens / TOKEN_STEP) * TOKEN_STEP


@frozen(slots=False)
class HostBlock:
    """A block of a model for a batch on a host."""

    model: Transformer
    batch: int
    host: Host

    @property
    def heads(self) -> int:
        """Heads of all requests."""
        return self.model.heads * self.batch

    @cached_property
    def pointwise(self) -> float:
        """Seconds of activation and normalisations."""
        return pointwise_seconds(self.model, self.batch, self.host)

    @cached_property
    def moved(self) -> float:
        """Seconds in which query, key, value and the result of the attention pass the link."""
        bytes_in, bytes_out = (self.batch * count * self.model.hidden * ELEMENT for count in (3, 1))
        return move_seconds(self.host, bytes_in) + move_seconds(self.host, bytes_out)

    @cached_property
    def host_products(self) -> Parts:
        """Seconds of the products with weights on the host alone."""
        return self.products(lambda product: product_seconds(self.host, product))

    def products(self, seconds: Callable[[Product], float]) -> Parts:
        """Seconds of the products with weights by group, by a function of one product."""
        result = dict.fromkeys(PRODUCTS, 0.0)
        for layer in fully_connected(self.model, self.batch):
            result[layer.group] += seconds(layer.product)
        return result

    def host_attention(self, length: int) -> float:
        """Seconds of the attention on the host."""
        score = Product(1, length, self.model.head_size, self.heads, is_weight=False)
        context = Product(1, self.model.head_size, length, self.heads, is_weight=False)
        return sum(product_seconds(self.host, work) for work in (score, context)) + self.host_softmax(length)

    def host_softmax(self, length: int) -> float:
        """The longer of computing and of reading and writing the scores; a block of the host's cores a head."""
        host, heads = self.host, self.heads
        occupancy = heads / (ceil(heads / host.cores) * host.cores)
        computing = SOFTMAX_FLOPS * length * heads / (host.flops * host.compute_efficiency * occupancy)
        moving = 2 * length * heads * ELEMENT / (host.memory_bandwidth * host.memory_efficiency * occupancy)
        return max(computing, moving)


@frozen(slots=False)
class Block(HostBlock):
    """The same with PIM devices as the host's memory."""

    target: Target
