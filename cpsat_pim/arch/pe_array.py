"""The PE array and its compute units (listing 3)."""

from typing import Any

from attrs import field, frozen

from cpsat_pim.base.dims import IRRELEVANT, Dim, Tensor
from cpsat_pim.base.units import measured_in
from cpsat_pim.base.validate import (
    boolean,
    is_a,
    is_integer,
    not_negative,
    not_negative_real,
    one_of,
    positive,
    positive_real_or_none,
)

#: The dims that each type of unit can spread over its lanes: a scalar none; a reduction tree only dims that it adds up.
LANE_DIMS: dict[str, tuple[Dim, ...]] = {
    "scalar": (),
    "simd": tuple(Dim),
    "tensor_core": tuple(Dim),
    "reduction_tree": IRRELEVANT[Tensor.O],
    "systolic": tuple(Dim),
}


@frozen
class PhyDim2:
    """Physical shape: h rows by w columns."""

    h: int = field(validator=positive)
    w: int = field(validator=positive)


def _to_dim(value: Any) -> Any:
    """Return the number of a dim that is given by its letter; other values are unchanged."""
    return int(Dim[value]) if isinstance(value, str) and value in Dim.__members__ else value


@frozen(kw_only=True)
class ComputeUnit:
    """The compute unit of one PE (listing 3).

    Each of `num_macs` lanes does one MAC per cycle; `mac_energy` is nJ per MAC; `reduction_latency` (cycles) is paid
    once per layer. `internal_dim`, if given (by letter or number), is the only dim that may be spread over the lanes.

    Raises:
        ValueError: unknown type, a scalar with several lanes, or a figure out of range.
    """

    unit_type: str = field(default="scalar", validator=one_of(*LANE_DIMS))
    num_macs: int = field(default=1, validator=positive)
    mac_energy: float = field(default=0.56e-3, validator=not_negative_real, metadata=measured_in("nJ"))
    reduction_latency: int = field(default=0, validator=not_negative, metadata=measured_in("cycle"))
    internal_dim: int | None = field(default=None, converter=_to_dim)

    def __attrs_post_init__(self) -> None:
        if self.unit_type == "scalar" and self.num_macs != 1:
            raise ValueError(f"ComputeUnit.num_macs: a scalar unit has 1 (got {self.num_macs})")
        allowed = LANE_DIMS[self.unit_type]
        if self.internal_dim is not None and not (is_integer(self.internal_dim) and self.internal_dim in allowed):
            raise ValueError(
                f"ComputeUnit.internal_dim: a {self.unit_type} unit spreads "
                f"{'/'.join(d.name for d in allowed) or 'nothing'} (got {self.internal_dim!r})"
            )

    @property
    def lane_dims(self) -> tuple[Dim, ...]:
        """The dims that may have an Internal factor."""
        return LANE_DIMS[self.unit_type] if self.internal_dim is None else (Dim(self.internal_dim),)


@frozen(kw_only=True)
class PEArray:
    """An array of H x W processing elements.

    `interconnect_bandwidth`: bytes per cycle between the array and the levels outside it; None means no limit.
    `exclusive_spatial`: a dim may use at most one of H, W, Internal (Eq. 13); False allows a dim to be split over them.
    """

    array_shape: PhyDim2 = field(validator=is_a(PhyDim2))
    compute_unit: ComputeUnit = field(factory=ComputeUnit, validator=is_a(ComputeUnit))
    interconnect_bandwidth: float | None = field(
        default=None, validator=positive_real_or_none, metadata=measured_in("B/cycle")
    )
    exclusive_spatial: bool = field(default=True, validator=boolean)

    @property
    def macs_per_cycle(self) -> int:
        """Peak MACs per cycle."""
        return self.array_shape.h * self.array_shape.w * self.compute_unit.num_macs
