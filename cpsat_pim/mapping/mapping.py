"""A mapping: one layer's loop factors, orders, placement, bypass and DRAM layout; it can draw its own nest.

for DRAM temporal loops          T3, order[3]
 for row-buffer temporal loops   T2, order[2]
  for global-buffer loops        T1, order[1]
   parallel H x W
    for PE temporal loops        T0, order[0]
     parallel Internal
      O[n,g,k,q,p] += I[n,g,c,..] * W[g,k,c,s,r]
"""

import math
from typing import Any

from attrs import field, frozen

from cpsat_pim.base.dims import BUFFERS, LAYOUT_ORDERS, ON_CHIP, Dim, Direction, Level, Tensor
from cpsat_pim.base.validate import as_table, as_tuple, is_integer

Factors = tuple[int, ...]
Stored = tuple[bool, bool, bool]
Outside = tuple[int, int, int]
Banks = tuple[int, int, int]
BankCounts = tuple[int, int, int]

#: Even residency: every tile covers all loops of its level.
EVEN: tuple[Outside, Outside] = ((0, 0, 0), (0, 0, 0))


#: Each tensor has banks of its own.
OWN_BANKS: Banks = (0, 1, 2)
#: All partitions of the tensors into parts that share a bank, by their text.
BANKS: dict[str, Banks] = {
    "I|W|O": OWN_BANKS,
    "IW|O": (0, 0, 1),
    "IO|W": (0, 1, 0),
    "I|WO": (0, 1, 1),
    "IWO": (0, 0, 0),
}
#: Each part has one bank.
ONE_BANK: BankCounts = (1, 1, 1)


def banks_text(banks: Banks) -> str:
    """Return the tensors by the bank that holds them: `IW|O`."""
    parts = ("".join(t.name for t in Tensor if banks[t] == part) for part in sorted(set(banks)))
    return "|".join(parts)


def part_banks(banks: Banks, counts: BankCounts) -> tuple[int, ...]:
    """Return the number of banks of each part, in the order of the parts."""
    return tuple(dict(zip(banks, counts, strict=True)).values())


def first_banks(banks: Banks, counts: BankCounts) -> tuple[int, ...]:
    """Return the number of the first bank of each tensor's part, if the banks of the parts follow each other."""
    return tuple(sum(part_banks(banks, counts)[:part]) for part in banks)


def is_bank_count(count: Any) -> bool:
    """Return whether a tensor may have so many banks: a power of two."""
    return is_integer(count) and count > 0 and count & (count - 1) == 0


@frozen(kw_only=True)
class Mapping:
    """A mapping of one layer; `check` decides whether it is legal on a machine.

    `temporal[m][d]`, m = PE..DRAM, and `spatial[s][d]`, s = H, W, Internal, are factors. `order[m]` lists the dims
    whose factor at level m is above 1, outermost first. `stored[m][t]`, m = PE..row buffer (Eq. 6; at the row buffer:
    row-aligned, Eq. 7). `layout[t]` indexes `LAYOUT_ORDERS`. `block_h`, `block_w` are the block of a row-aligned input
    (Eq. 8, 9), else 0. `outside[m][t]`, m = PE and global buffer, is the residency point: the number of loops of
    `order[m]`, outermost first, that lie outside the level's tile of t; 0 is even residency. `banks[t]`, one of
    `BANKS`, numbers the parts of tensors that share a bank of the node. `bank_counts[t]` is the number of banks that
    t's part has, a power of two; row r of a tensor lies in bank r mod this number.
    """

    temporal: tuple[Factors, Factors, Factors, Factors] = field(converter=as_table)
    spatial: tuple[Factors, Factors, Factors] = field(converter=as_table)
    order: tuple[tuple[Dim, ...], ...] = field(converter=as_table)
    stored: tuple[Stored, Stored, Stored] = field(converter=as_table)
    layout: tuple[int, int, int] = field(default=(0, 0, 0), converter=as_tuple)
    block_h: int = 0
    block_w: int = 0
    outside: tuple[Outside, Outside] = field(default=EVEN, converter=as_table)
    banks: Banks = field(default=OWN_BANKS, converter=as_tuple)
    bank_counts: BankCounts = field(default=ONE_BANK, converter=as_tuple)

    def extents(self, level: Level) -> Factors:
        """Return the tile extents e0, e1, e2, or the bounds at DRAM (Eq. 22 per dim)."""
        return tuple(
            math.prod(self.temporal[m][d] for m in range(level + 1))
            * self.spatial[Direction.INTERNAL][d]
            * (self.array_factor(d) if level > Level.PE else 1)
            for d in Dim
        )

    def covered(self, level: Level, tensor: Tensor) -> tuple[Dim, ...]:
        """Return the loops of a level that its tile of a tensor covers, outermost first."""
        return self.order[level][self.outside[level][tensor] if level in ON_CHIP else 0 :]

    def tile(self, level: Level, tensor: Tensor) -> Factors:
        """Return the extents of a tensor's tile at a level: the level's extents without its loops outside the residency
        point.
        """
        outside = set(self.order[level]) - set(self.covered(level, tensor))
        factors = self.temporal[level]
        return tuple(n // factors[d] if d in outside else n for d, n in zip(Dim, self.extents(level), strict=True))

    @property
    def is_uneven(self) -> bool:
        """Whether some tile covers only part of its level's loops."""
        return self.outside != EVEN

    def array_factor(self, dim: int) -> int:
        """Return the number of PEs along a dim."""
        return self.spatial[Direction.H][dim] * self.spatial[Direction.W][dim]

    @property
    def used_pes(self) -> int:
        """Number of PEs that the mapping uses."""
        return math.prod(self.array_factor(d) for d in Dim)

    @property
    def parallel_macs(self) -> int:
        """MACs per cycle (Eq. 35-37)."""
        return self.used_pes * math.prod(self.spatial[Direction.INTERNAL])

    @property
    def compute_steps(self) -> int:
        """Compute cycles, with one MAC per lane and cycle (Eq. 34)."""
        return math.prod(math.prod(factors) for factors in self.temporal)

    @property
    def part_banks(self) -> tuple[int, ...]:
        """The number of banks of each part, in the order of the parts."""
        return part_banks(self.banks, self.bank_counts)

    def innermost(self, tensor: Tensor) -> Level:
        """Return the innermost level that stores the tensor."""
        return next((m for m in BUFFERS if self.stored[m][tensor]), Level.DRAM)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data, as `simulate` reads it."""
        return {
            "temporal": {
                m.name: {d.name: self.temporal[m][d] for d in Dim if self.temporal[m][d] > 1} for m in reversed(Level)
            },
            "spatial": {s.name: {d.name: self.spatial[s][d] for d in Dim if self.spatial[s][d] > 1} for s in Direction},
            "order": {m.name: "".join(d.name for d in self.order[m]) for m in reversed(Level)},
            "stored": {m.name: "".join(t.name for t in Tensor if self.stored[m][t]) for m in reversed(BUFFERS)},
            "layout": {
                t.name: {
                    "mode": "row_aligned" if self.stored[Level.ROW_BUFFER][t] else "sequential",
                    "order": LAYOUT_ORDERS[t][self.layout[t]],
                }
                for t in Tensor
            },
            "input_block": {"h": self.block_h, "w": self.block_w} if self.stored[Level.ROW_BUFFER][Tensor.I] else None,
        } | self._exceptions()

    def _exceptions(self) -> dict[str, Any]:
        """Return what is not as in most mappings: uneven residency, shared banks, several banks a part."""
        resident = {"resident": self._resident()} if self.is_uneven else {}
        shared = {"banks": banks_text(self.banks)} if self.banks != OWN_BANKS else {}
        counts = {"bank_counts": list(self.bank_counts)} if self.bank_counts != ONE_BANK else {}
        return resident | shared | counts

    def _resident(self) -> dict[str, dict[str, str]]:
        """Return the loops that uneven tiles cover."""
        uneven = {m: [t for t in Tensor if self.outside[m][t]] for m in reversed(ON_CHIP)}
        return {
            m.name: {t.name: "".join(d.name for d in self.covered(m, t)) for t in tensors}
            for m, tensors in uneven.items()
            if tensors
        }
