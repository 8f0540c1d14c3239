"""A layer: seven loop bounds and a group dim, strides, dilations and element widths (Eq. 1-3)."""

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from attrs import field, frozen

from cpsat_pim.base.dims import RELEVANT, Dim, Tensor
from cpsat_pim.base.reading import Value, table_of
from cpsat_pim.base.units import measured_in
from cpsat_pim.base.validate import (
    LIMIT,
    Rule,
    as_pair,
    as_tuple,
    is_integer,
    not_negative,
    pair_of_positive,
    positive,
    text,
    whole_bits,
)

_BYTES = measured_in("B")


def _by_dim(value: Any) -> Any:
    """Convert a dict by dim to a tuple with a number per dim, 0 for absent ones."""
    return tuple(value.get(d, 0) for d in Dim) if isinstance(value, Mapping) else as_tuple(value)


def _as_width(value: Any) -> Any:
    """Convert a width to an integer, or to a fraction of a byte if it is none."""
    if not whole_bits.holds(value) or is_integer(value):
        return value
    width = Fraction(value)
    return width.numerator if width.denominator == 1 else width


def width_text(width: int | Fraction) -> str:
    """Format a width: `2 B`, `4 bit`."""
    return f"{width} B" if is_integer(width) else f"{8 * width} bit"


def _is_row(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == len(Dim) and all(is_integer(v) and v >= 0 for v in value)


def plain_width(width: int | Fraction) -> int | float:
    """Return a width as JSON has it."""
    return width if isinstance(width, int) else float(width)


_ROW = Rule("must be an integer of at least 0 for each dim", _is_row)


@frozen(kw_only=True)
class ConvWorkload:
    """A (grouped, strided, dilated) convolution or, with P=Q=R=S=1 or rows in N or P, a matrix product.

    R, P run along the input width and S, Q along its height; `stride` and `dilation` are (width, height). C and K count
    the channels of one of G groups. Widths are bytes per element; `psum_bytes` is the width of a partial sum. Elements
    of 4 bits have `Fraction(1, 2)`; what counts in integers scales layer and machine first (`in_whole_units`). `zeros`
    is the part of each bound that is padding, which is stored, moved and multiplied like the rest (docs/model.md,
    section 1).

    Raises:
        ValueError: a bound, stride or dilation is not a positive integer, a width is not of whole bits, a bound is all
            padding, or the layer has 2^62 MACs or a tensor of 2^62 bytes.
    """

    name: str = field(default="layer", validator=text)
    R: int = field(default=1, validator=positive)
    S: int = field(default=1, validator=positive)
    P: int = field(default=1, validator=positive)
    Q: int = field(default=1, validator=positive)
    C: int = field(default=1, validator=positive)
    K: int = field(default=1, validator=positive)
    N: int = field(default=1, validator=positive)
    G: int = field(default=1, validator=positive)
    stride: tuple[int, int] = field(default=(1, 1), converter=as_pair, validator=pair_of_positive)
    dilation: tuple[int, int] = field(default=(1, 1), converter=as_pair, validator=pair_of_positive)
    input_bytes: int = field(default=1, converter=_as_width, validator=whole_bits, metadata=_BYTES)
    weight_bytes: int = field(default=1, converter=_as_width, validator=whole_bits, metadata=_BYTES)
    output_bytes: int = field(default=1, converter=_as_width, validator=whole_bits, metadata=_BYTES)
    psum_bytes: int = field(default=1, converter=_as_width, validator=whole_bits, metadata=_BYTES)
    zeros: tuple[int, ...] = field(
        default=(0,) * len(Dim),
        converter=_by_dim,
        validator=_ROW,
        metadata={"kind": table_of(Dim, Value(not_negative))},
    )

    def __attrs_post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ValueError("\n".join(problems))

    def _problems(self) -> Iterator[str]:
        if self.macs >= LIMIT:
            yield f"ConvWorkload: the product of the bounds must stay below 2^62 (got {self.macs})"
        for tensor, width in zip(Tensor, (self.input_bytes, self.weight_bytes, self.psum_bytes), strict=True):
            size = self.elements(tensor) * width
            if size >= LIMIT > self.macs:
                yield f"ConvWorkload: the bytes of {tensor.name} must stay below 2^62 (got {size})"
        if self.psum_bytes < self.output_bytes:
            least = f"must be at least output_bytes ({self.output_bytes})"
            yield f"ConvWorkload.psum_bytes: {least} (got {self.psum_bytes})"
        for d in Dim:
            if self.zeros[d] >= self.bounds[d]:
                yield f"ConvWorkload.zeros.{d.name}: must be below the bound {self.bounds[d]} (got {self.zeros[d]})"

    @property
    def bounds(self) -> tuple[int, ...]:
        """Bounds in the order of `Dim`."""
        return (self.R, self.S, self.P, self.Q, self.C, self.K, self.N, self.G)

    @property
    def stepped_dims(self) -> tuple[Dim, ...]:
        """Dims along the axes of I that have a stride or dilation."""
        axes = zip(self.stride, self.dilation, ((Dim.P, Dim.R), (Dim.Q, Dim.S)), strict=True)
        return tuple(d for stride, dilation, dims in axes if stride > 1 or dilation > 1 for d in dims)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the layer, including those of its padding."""
        return math.prod(self.bounds)

    @property
    def useful_macs(self) -> int:
        """Multiply-accumulates without those of the padding."""
        return math.prod(n - zeros for n, zeros in zip(self.bounds, self.zeros, strict=True))

    @property
    def input_width(self) -> int:
        """Width of I, including padding (Eq. 2)."""
        return self.stride[0] * (self.P - 1) + self.dilation[0] * (self.R - 1) + 1

    @property
    def input_height(self) -> int:
        """Height of I, including padding (Eq. 3)."""
        return self.stride[1] * (self.Q - 1) + self.dilation[1] * (self.S - 1) + 1

    def elements(self, tensor: Tensor) -> int:
        """Return the elements of a tensor; I includes its padding."""
        if tensor is Tensor.I:
            return self.N * self.G * self.C * self.input_height * self.input_width
        return math.prod(self.bounds[d] for d in RELEVANT[tensor])

    @property
    def used_inputs(self) -> int:
        """Elements of I that some MAC uses: fewer than all where a stride exceeds the filter."""
        along = zip((self.P, self.Q), (self.R, self.S), self.stride, self.dilation, strict=True)
        return self.N * self.G * self.C * math.prod(_used(*axis) for axis in along)

    @property
    def width_bytes(self) -> tuple[int, int, int, int]:
        """Bytes per element of I, W, O and of a partial sum."""
        return (self.input_bytes, self.weight_bytes, self.output_bytes, self.psum_bytes)

    @property
    def shape(self) -> dict[str, object]:
        """Everything that affects the mapper: all fields but the name."""
        return {
            **{d.name: self.bounds[d] for d in Dim},
            "stride": list(self.stride),
            "dilation": list(self.dilation),
            "input_bytes": plain_width(self.input_bytes),
            "weight_bytes": plain_width(self.weight_bytes),
            "output_bytes": plain_width(self.output_bytes),
            "psum_bytes": plain_width(self.psum_bytes),
        } | ({"zeros": {d.name: self.zeros[d] for d in Dim if self.zeros[d]}} if any(self.zeros) else {})

    @property
    def shape_key(self) -> str:
        """The shape as text; layers of equal shape have equal keys."""
        return repr(self.shape)


def _used(outputs: int, filters: int, stride: int, dilation: int) -> int:
    """Return how many positions `stride * p + dilation * r` there are."""
    step = math.lcm(stride, dilation)  # positions of p and of p + step / stride meet
    if step // dilation >= filters or step // stride >= outputs:
        return outputs * filters
    return outputs * filters - (outputs - step // stride) * (filters - step // dilation)
