"""Decoder-only transformers: the products and pointwise layers of one generated token."""

from pathlib import Path

from attrs import field, frozen

from cpsat_pim.base.reading import FileKind, record_of
from cpsat_pim.base.validate import boolean, positive, text
from cpsat_pim.compiler.host import Host, Product, activation_seconds, norm_seconds


@frozen(kw_only=True)
class Transformer:
    """`blocks` equal decoder blocks; a gated feed-forward has three matrices (SwiGLU), else two (GELU)."""

    name: str = field(validator=text)
    blocks: int = field(validator=positive)
    hidden: int = field(validator=positive)
    heads: int = field(validator=positive)
    feed_forward: int = field(validator=positive)
    is_gated: bool = field(validator=boolean)

    def __attrs_post_init__(self) -> None:
        if self.hidden % self.heads:
            raise ValueError(f"Transformer.hidden: must be a multiple of heads {self.heads} (got {self.hidden})")

    @property
    def head_size(self) -> int:
        """Elements of a head's key and value."""
        return self.hidden // self.heads


#: Files of models: YAML with the fields of `Transformer`.
TRANSFORMERS = FileKind(
    kind="transformer", record=record_of(Transformer), package="cpsat_pim.compiler.models", folder="presets"
)


def read_transformer(name_or_path: str | Path, directory: Path | None = None) -> Transformer:
    """Return a model by its name, or from a file that ends in .yaml or .yml, relative to a directory.

    Raises:
        ValueError: no such name, an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`.
    """
    model: Transformer = TRANSFORMERS.read(name_or_path, directory)
    return model


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
