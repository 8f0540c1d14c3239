"""Drafts: mappings in a form in which any part can be drawn or changed without regard to the others."""

import attrs
from attrs import field, frozen

from cpsat_pim.dims import Dim, Level, Tensor
from cpsat_pim.mapping import Factors, Mapping, Stored
from cpsat_pim.model.orders import input_blocks
from cpsat_pim.validate import as_table, as_tuple
from cpsat_pim.workload import ConvWorkload

#: Where a loop may run: rows of a draft's factors. First the temporal loops of the levels, then the array's directions.
PLACES = PE, GLOBAL_BUFFER, ROW_BUFFER, DRAM, H, W, LANES = range(7)

#: The largest input block.
LAST = 1 - 2**-20

Order = tuple[tuple[Dim, ...], ...]


@frozen(kw_only=True)
class Draft:
    """A mapping of which no part depends on another.

    `factors[place][dim]`; `order[m]` has all dims, outermost first, with a loop there or not; `block` says which of the
    possible input blocks is meant, from 0, the smallest, to below 1, the largest.
    """

    factors: tuple[Factors, ...] = field(converter=as_table)
    order: Order = field(converter=as_table)
    stored: tuple[Stored, Stored, Stored] = field(converter=as_table)
    layout: tuple[int, int, int] = field(default=(0, 0, 0), converter=as_tuple)
    block: float = LAST

    @classmethod
    def of(cls, mapping: Mapping, layer: ConvWorkload) -> "Draft":
        """The draft of a mapping, whose input block must be one of the declared space."""
        block = LAST
        if mapping.stored[Level.ROW_BUFFER][Tensor.I]:
            blocks = input_blocks(layer, mapping)
            block = (blocks.index((mapping.block_h, mapping.block_w)) + 0.5) / len(blocks)
        return cls(
            factors=(*mapping.temporal, *mapping.spatial),
            order=[(*order, *(d for d in Dim if d not in order)) for order in mapping.order],
            stored=mapping.stored,
            layout=mapping.layout,
            block=block,
        )

    def to_mapping(self, layer: ConvWorkload) -> Mapping:
        """The mapping, legal or not."""
        mapping = Mapping(
            temporal=self.factors[:H],
            spatial=self.factors[H:],
            order=[[d for d in self.order[m] if self.factors[m][d] > 1] for m in Level],
            stored=self.stored,
            layout=self.layout,
        )
        if not self.stored[Level.ROW_BUFFER][Tensor.I]:
            return mapping
        blocks = input_blocks(layer, mapping)
        block_h, block_w = blocks[int(self.block * len(blocks))]
        return attrs.evolve(mapping, block_h=block_h, block_w=block_w)

    def moved(self, dim: int, prime: int, source: int, target: int) -> "Draft":
        """A prime factor of a dim in another place."""
        rows = [list(row) for row in self.factors]
        rows[source][dim] //= prime
        rows[target][dim] *= prime
        return attrs.evolve(self, factors=rows)


def primes_of(n: int) -> list[int]:
    """The prime factors of a number, each as often as it divides it."""
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found + [n] * (n > 1)
