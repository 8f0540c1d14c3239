"""Decoder-only transformers: the products and pointwise layers of one generated token."""

from attrs import field, frozen

from cpsat_pim.base.validate import boolean, positive
from cpsat_pim.compiler.host import Host, Product, activation_seconds, norm_seconds


@frozen(kw_only=True)
class Transformer:
    """`blocks` equal decoder blocks; a gated feed-forward has three matrices (SwiGLU), else two (GELU)."""

    name: str
    blocks: int = field(validator=positive)
    hidden: int = field(validator=positive)
    heads: int = field(validator=positive)
    feed_forward: int = field(validator=positive)
    is_gated: bool = field(validator=boolean)

    @property
    def head_size(self) -> int:
        """Elements of a head's key and value."""
        return self.hidden // self.heads


#: Brown et al. 2020, table 2.1 (GPT-3 13B: 40 layers, width 5140 there, 5120 in AttAcc's `config.py` and every user).
GPT3_13B = Transformer(name="gpt3-13b", blocks=40, hidden=5120, heads=40, feed_forward=20480, is_gated=False)
#: Touvron et al. 2023, table 2 (LLaMA 33B: 60 layers, width 6656, 52 heads); feed-forward of its published weights.
LLAMA_33B = Transformer(name="llama-33b", blocks=60, hidden=6656, heads=52, feed_forward=17920, is_gated=True)

MODELS = {model.name: model for model in (GPT3_13B, LLAMA_33B)}


@frozen
class Layer:
    """One layer of a block; `group` is the part of the breakdown that it belongs to."""

    name: str
    group: str
    product: Product


def fully_connected(model: Transformer, batch: int) -> tuple[Layer, ...]:
    """The weight products of one token for every request of a batch."""
    hidden, wide = model.hidden, model.feed_forward
    layers = [
        Layer("qkv", "qkv", Product(batch, 3 * hidden, hidden)),
        Layer("proj", "projection", Product(batch, hidden, hidden)),
        Layer("ff1", "feed-forward", Product(batch, wide, hidden)),
        Layer(
            "ff2",
            "feed-forward",
            Product(batch, wide if model.is_gated else hidden, hidden if model.is_gated else wide),
        ),
    ]
    if model.is_gated:
        layers.append(Layer("ff3", "feed-forward", Product(batch, hidden, wide)))
    return tuple(layers)


def pointwise_seconds(model: Transformer, batch: int, host: Host) -> float:
    """Activation and both normalisations of a block, which always run on the host."""
    active = activation_seconds(host, batch * model.feed_forward, operands=3 if model.is_gated else 2)
    return active + 2 * norm_seconds(host, batch * model.hidden)
