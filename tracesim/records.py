"""What `simulate` is given and what it reports: plain arrays and ints."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Nest(NamedTuple):
    """A mapped layer as an explicit loop nest (sections 1 and 3). Dims in order R, S, P, Q, C, K, N, G = 0..7.

    `loops` int64[n, 3]: rows (level, dim, factor), temporal loops only, outermost first; levels 3 DRAM, 2 row
    buffer, 1 global buffer, 0 PE descend; a dim occurs at most once a level; factors of 1 may be omitted.
    `spatial` int64[3, 8]: factors on H, W and Internal, per dim.
    `stored` bool[3, 3]: [level 0..2][tensor I, W, O]. `stored[2][t]` says too that t is row-aligned in DRAM.
    `conv` int64[4]: stride_w, stride_h, dilation_w, dilation_h.
    `width_bytes` int64[4]: of an element of I, W, O and of a partial sum.
    `outside` int64[2, 3]: [level 0, 1][tensor]: so many of the level's rows in `loops`, outermost first, lie outside
    the tensor's tile there (its residency point); none in the even case. Only of a level that stores the tensor.
    """

    loops: Ints
    spatial: Ints
    stored: Flags
    conv: Ints
    width_bytes: Ints
    outside: Ints = np.zeros((2, 3), np.int64)


class Placement(NamedTuple):
    """How the tensors lie in DRAM (section 3, DRAM layout).

    `order` int64[3]: per tensor 0 or 1, the first or second axis order:
    I: NGCHW or NHWGC; W: GKCSR or SRCGK; O: NGKQP or NQPGK.
    `block_h`, `block_w`: elements of a block of a row-aligned I along H and W; else ignored.
    `part` int64[3]: tensors with equal numbers, from 0 to 2, share their banks, in rows of their own.
    `bank_counts` int64[3]: how many times `Device.banks` the tensor's part has.
    """

    order: Ints
    block_h: int
    block_w: int
    part: Ints = np.arange(3)
    bank_counts: Ints = np.ones(3, np.int64)


class Device(NamedTuple):
    """The machine's rules (sections 2, 5 and 6). Times in cycles of the one clock, energies in femtojoules.

    `timing` int64[8]: tRCD, tRP, tRAS, tRC, tRTP, tCCD_L, RL, BL.
    `access_fj` int64[4, 2]: [level][read, write] per element.
    `bandwidth` int64[3, 2, 2]: [level 0..2][read, write][numerator, denominator] in bytes per cycle; 0 = no limit.
    `ports` int64[3], `interconnect` int64[2]: limits that section 6 puts on a level's total, not on a link. The
    simulated pipeline has links only; these two and `bandwidth[0]` bound the latency from below.
    `double_buffered` bool[2]: of levels 0 and 1; the row buffer never is.
    `reduction_latency`: cycles from a step to its result, paid once.
    """

    row_bytes: int
    column_bytes: int
    banks: int
    open_page: bool
    timing: Ints
    access_fj: Ints
    activation_fj: int
    mac_fj: int
    multicast: bool
    spatial_reduction: bool
    bandwidth: Ints
    ports: Ints
    interconnect: Ints
    double_buffered: Flags
    shared_bus: bool
    reduction_latency: int


class Trace(NamedTuple):
    """What happened.

    `accesses` int64[4, 3, 2]: elements, [level][tensor I, W, O][read, write].
    `columns`, `activations` int64[3]: column accesses and row activations per tensor. `stream_cycles` int64[3]: DRAM
    time of each tensor's banks, with all tensors that share them. `dram_cycles`: of all banks together.
    `compute_cycles`, `latency_cycles`, `energy_fj`: of the layer.
    """

    accesses: Ints
    columns: Ints
    activations: Ints
    stream_cycles: Ints
    dram_cycles: int
    compute_cycles: int
    energy_fj: int
    latency_cycles: int


_NEST_SHAPES = {
    "loops": (None, 3),
    "spatial": (3, 8),
    "stored": (3, 3),
    "conv": (4,),
    "width_bytes": (4,),
    "outside": (2, 3),
}
_DEVICE_SHAPES = {
    "timing": (8,),
    "access_fj": (4, 2),
    "bandwidth": (3, 2, 2),
    "ports": (3,),
    "interconnect": (2,),
    "double_buffered": (2,),
}
_FLAG_FIELDS = {"stored", "double_buffered"}


def checked_nest(nest: Nest) -> Nest:
    """Return the nest with its arrays' types as the kernels want them; ValueError where it is not a nest."""
    nest = nest._replace(**_arrays("Nest", nest, _NEST_SHAPES))
    _require_positive("Nest.loops factor", nest.loops[:, 2])
    _require_positive("Nest.spatial", nest.spatial)
    _require_positive("Nest.conv", nest.conv)
    _require_positive("Nest.width_bytes", nest.width_bytes)
    levels, dims = nest.loops[:, 0], nest.loops[:, 1]
    if ((levels < 0) | (levels > 3)).any() or (np.diff(levels) > 0).any():
        raise ValueError(f"Nest.loops: levels must descend within 3..0 (got {levels.tolist()})")
    if ((dims < 0) | (dims > 7)).any():
        raise ValueError(f"Nest.loops: dims must be 0..7 (got {dims.tolist()})")
    if len(set((levels * 8 + dims).tolist())) != levels.size:
        raise ValueError(f"Nest.loops: a dim must occur at most once a level (got {nest.loops[:, :2].tolist()})")
    most = np.array([(levels == level).sum() * nest.stored[level] for level in range(2)])
    if (nest.outside < 0).any() or (nest.outside > most).any():
        raise ValueError(f"Nest.outside: must be 0 to {most.tolist()} (got {nest.outside.tolist()})")
    return nest


def checked_placement(placement: Placement, needs_block: bool) -> Placement:
    """Return the placement with its arrays' types as the kernels want them; ValueError where it is none."""
    if needs_block:
        _require_positive("Placement.block_h, block_w", np.array([placement.block_h, placement.block_w]))
    arrays = _arrays("Placement", placement, {"order": (3,), "part": (3,), "bank_counts": (3,)})
    for name, most in (("order", 1), ("part", 2)):
        if ((arrays[name] < 0) | (arrays[name] > most)).any():
            raise ValueError(f"Placement.{name}: must be 0 to {most} (got {arrays[name].tolist()})")
    _require_positive("Placement.bank_counts", arrays["bank_counts"])
    part, counts = arrays["part"], arrays["bank_counts"]
    if ((part[:, None] == part) & (counts[:, None] != counts)).any():
        raise ValueError(f"Placement.bank_counts: must be equal in a part {part.tolist()} (got {counts.tolist()})")
    return placement._replace(**arrays, block_h=int(placement.block_h), block_w=int(placement.block_w))


def checked_device(device: Device) -> Device:
    """Return the device with its fields' types as the kernels want them; ValueError where it is none."""
    arrays = _arrays("Device", device, _DEVICE_SHAPES)
    rest: dict[str, Any] = {name: int(value) for name, value in device._asdict().items() if name not in arrays}
    for flag in ("open_page", "multicast", "spatial_reduction", "shared_bus"):
        rest[flag] = bool(rest[flag])
    device = device._replace(**arrays, **rest)
    for name in ("row_bytes", "column_bytes", "banks"):
        _require_positive(f"Device.{name}", np.array([rest[name]]))
    if device.row_bytes % device.column_bytes:
        raise ValueError(
            f"Device.row_bytes: must be whole columns of {device.column_bytes} bytes (got {device.row_bytes})"
        )
    if (device.bandwidth < 0).any() or (device.bandwidth[..., 1] < 1).any():
        raise ValueError(f"Device.bandwidth: must be n >= 0 over d >= 1 (got {device.bandwidth.tolist()})")
    return device


def _arrays(owner: str, record: NamedTuple, shapes: dict[str, Any]) -> dict[str, Any]:
    """Return the record's array fields, each of its shape and of int64 or bool."""
    arrays = {}
    for name, shape in shapes.items():
        kind: type[np.generic] = np.bool_ if name in _FLAG_FIELDS else np.int64
        array: NDArray[Any] = np.ascontiguousarray(getattr(record, name), dtype=kind)
        if array.ndim != len(shape) or any(
            want not in (None, have) for want, have in zip(shape, array.shape, strict=True)
        ):
            raise ValueError(f"{owner}.{name}: must have shape {shape} (got {array.shape})")
        arrays[name] = array
    return arrays


def _require_positive(name: str, values: Ints) -> None:
    if (values < 1).any():
        raise ValueError(f"{name}: must be positive (got {values.tolist()})")
