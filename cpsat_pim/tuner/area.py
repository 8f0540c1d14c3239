"""The area of a machine's logic: buffers from a table, PEs, and what the user adds for routers and controllers."""

import math
from bisect import bisect_left
from collections.abc import Callable

from attrs import field, frozen

from cpsat_pim.base.dims import Tensor
from cpsat_pim.base.reading import Listing, Value
from cpsat_pim.base.validate import Rule, as_tuple, not_negative_real, positive_real_or_none

#: mm2 of an SRAM of so many KiB at 28 nm: CACTI 7, one port, one bank.
SRAM_28NM: tuple[tuple[float, float], ...] = (
    (1, 0.00205), (2, 0.00321), (4, 0.00552), (8, 0.01010), (16, 0.01924), (32, 0.03772), (64, 0.0719),
    (144, 0.1545), (256, 0.2708), (512, 0.5696), (1024, 1.086), (2048, 2.145),
)  # fmt: skip
#: um2 of a PE with a 16-bit multiplier, a 32-bit adder and its registers at 28 nm. Uncertain by a factor of two.
PE_UM2 = 906.0

#: Entries of one buffer for all tensors, and of separate ones.
_SHARED = "hierarchy.GLOBAL_BUFFER.entries"
_SEPARATE = tuple(f"{_SHARED}.{tensor.name}" for tensor in Tensor)
_PAIR = Rule(
    "must be [KiB, mm2]",
    lambda v: isinstance(v, tuple) and len(v) == 2 and all(not_negative_real.holds(x) for x in v),
    {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 2, "maxItems": 2},
)


def _as_pairs(value: object) -> object:
    return tuple(map(as_tuple, value)) if isinstance(value, list | tuple) else value


@frozen(kw_only=True)
class AreaModel:
    """mm2 of an array of nodes. `limit_mm2`: the most that the logic may take, None if it is not limited.

    `sram`: (KiB, mm2) of buffers, between which area is linear; smaller and larger ones are proportional to the first
    and the last. `pe_um2` of a PE with its registers. `router_mm2`, `controller_mm2` of a node.

    Raises:
        ValueError: a figure is negative, or the table does not increase.
    """

    limit_mm2: float | None = field(default=None, validator=positive_real_or_none)
    pe_um2: float = field(default=PE_UM2, validator=not_negative_real)
    router_mm2: float = field(default=0.0, validator=not_negative_real)
    controller_mm2: float = field(default=0.0, validator=not_negative_real)
    sram: tuple[tuple[float, float], ...] = field(
        default=SRAM_28NM, converter=_as_pairs, metadata={"kind": Listing(Value(_PAIR), "a list of [KiB, mm2]")}
    )

    def __attrs_post_init__(self) -> None:
        increases = all(a[0] < b[0] and a[1] <= b[1] for a, b in zip(self.sram, self.sram[1:], strict=False))
        if not (self.sram and increases and self.sram[0][0] > 0 and self.sram[0][1] >= 0):
            raise ValueError("AreaModel.sram: must be pairs of KiB and mm2, both increasing")

    def sram_mm2(self, size_bytes: float) -> float:
        """Return the area of a buffer."""
        kib = size_bytes / 1024
        at = bisect_left(self.sram, (kib,))
        if at == 0:
            return self.sram[0][1] * kib / self.sram[0][0]
        if at == len(self.sram):
            return self.sram[-1][1] * kib / self.sram[-1][0]
        (x0, y0), (x1, y1) = self.sram[at - 1], self.sram[at]
        return y0 + (y1 - y0) * (kib - x0) / (x1 - x0)

    def most_pes(self, nodes: int, number: Callable[[str], float | None]) -> float:
        """Return how many PEs a node has room for beside its buffers; infinite without a limit."""
        lanes = number("pe_array.compute_unit.num_macs") or 1
        if self.limit_mm2 is None or self.pe_um2 == 0:
            return math.inf
        return max(0.0, self.limit_mm2 * (1 + 1e-9) / nodes - self._rest_mm2(number)) / (lanes * self.pe_um2 * 1e-6)

    def _rest_mm2(self, number: Callable[[str], float | None]) -> float:
        """Return the area of a node without its PEs."""
        word = number("hierarchy.GLOBAL_BUFFER.word_bytes") or 1
        own = [number(path) for path in _SEPARATE]
        sizes = [size * word for size in (own if own[0] is not None else [number(_SHARED)]) if size]
        return sum(map(self.sram_mm2, sizes)) + self.router_mm2 + self.controller_mm2

    def array_mm2(self, nodes: int, number: Callable[[str], float | None]) -> float:
        """Return the area of a machine's nodes; `number` gives its numbers by path."""
        pes = (number("pe_array.array_shape.h") or 0) * (number("pe_array.array_shape.w") or 0)
        lanes = number("pe_array.compute_unit.num_macs") or 1
        return nodes * (pes * lanes * self.pe_um2 * 1e-6 + self._rest_mm2(number))

    def fits(self, area_mm2: float) -> bool:
        """Return whether an area is within the limit."""
        return self.limit_mm2 is None or area_mm2 <= self.limit_mm2 * (1 + 1e-12)
