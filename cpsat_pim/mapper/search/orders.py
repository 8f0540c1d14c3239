"""The loop orders that a draft mapping leaves open, and which of them can matter."""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from cpsat_pim.base.dims import IRRELEVANT, ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapper.model.residency import Outside
from cpsat_pim.mapper.space.parameters import SearchParameters
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapping import Mapping
from tables.nest import MACS, Nest

#: The loops of each level, outermost first.
Order = tuple[tuple[Dim, ...], ...]


class InnermostClass(NamedTuple):
    """The class of loops that is innermost at a level (those irrelevant to the tensor `t`), and the `loops` of it that
    are contiguous there: innermost, with no other loop between them.

    Where the master problem leaves open which loops are contiguous (not `is_determined`), `loops` are all of the class.
    """

    t: Tensor
    loops: tuple[Dim, ...]
    is_determined: bool

    def is_innermost_in(self, order: tuple[Dim, ...]) -> bool:
        """Whether an order's innermost loop is of the class, or of groups."""
        return bool(order) and order[-1] in (*IRRELEVANT[self.t], Dim.G)

    def is_contiguous_in(self, order: tuple[Dim, ...]) -> bool:
        """Whether exactly these loops of the class are contiguous in an order, or that is left open."""
        run = itertools.takewhile(lambda d: d in IRRELEVANT[self.t], reversed(order))
        return not self.is_determined or set(run) == set(self.loops)


class LoopOrders:
    """The orders of a draft's loops that its restriction allows, with its loops `outside` tiles before the others.

    `innermost`: the innermost class by level. `double_buffered`: by on-chip level, whether it loads ahead.
    """

    def __init__(
        self,
        restriction: Restriction,
        draft: Mapping,
        outside: Outside,
        innermost: dict[int, InnermostClass],
        nest: Nest,
        double_buffered: Sequence[bool],
        parameters: SearchParameters,
    ) -> None:
        self._restriction, self._draft, self._outside, self._innermost = restriction, draft, outside, innermost
        self._nest, self._double_buffered, self._parameters = nest, double_buffered, parameters
        self._has_dataflow = restriction.constraints.dataflow is not None

    # --- Orders ------------------------------------------------------------------------------------------------------

    def sorted(self) -> Iterator[Order]:
        """Yield orders that keep each level's innermost class contiguous: they fetch least.

        At most `orders_evaluated`.
        """
        choices = [self._sorted_level(m) for m in reversed(Level)]
        some = itertools.islice(itertools.product(*choices), self._parameters.orders_evaluated)
        return (order[::-1] for order in some)

    def of_levels(self, levels: Sequence[Level], is_contiguous: bool = False) -> list[Order] | None:
        """Return all orders of some levels with the draft's innermost classes, the other levels as drafted.

        `is_contiguous`: only those with the same loops of the innermost class contiguous. None if there are more than
        `orders_per_cut`, or than `orders_per_cut_drawn` where streams that the MACs draw are counted in a shared bank.
        """
        parameters, is_shared = self._parameters, self._restriction.is_shared
        is_drawn = Level.PE in levels and any(is_shared(t) and self._consumer(t) == MACS for t in Tensor)
        most = parameters.orders_per_cut_drawn if is_drawn else parameters.orders_per_cut
        return None if self.count(levels) > most else list(self.each_of_levels(levels, is_contiguous))

    def each_of_levels(self, levels: Sequence[Level], is_contiguous: bool = False) -> Iterator[Order]:
        """Yield the same orders, however many there are."""
        loops = self._draft.order
        choices = [self._with_innermost(m, is_contiguous) if m in levels else [loops[m]] for m in Level]
        return itertools.product(*choices)

    def count(self, levels: Sequence[Level]) -> int:
        """Return how many orders of some levels there are."""
        return math.prod(self._restriction.count_orders(m, block) for m in levels for block in self._blocks(m))

    def can_be_contiguous(self, level: Level, dims: Collection[Dim]) -> bool:
        """Whether an order has all of a level's loops of some dims innermost."""
        halves = [self._restriction.split_innermost(level, block, dims) for block in self._blocks(level)]
        is_held = any(d in dims for outside, _ in halves for d in outside)
        is_inside = [d in dims for outside, inside in halves for d in (*outside, *inside)]
        return not is_held and is_inside == sorted(is_inside)

    def _sorted_level(self, level: Level) -> list[tuple[Dim, ...]]:
        loops = self._draft.order[level]
        if not loops or (level < min(self.levels_outside(t)[0] for t in Tensor) and not self._has_dataflow):
            return [loops]
        innermost = self._innermost[level].loops if level in self._innermost else ()
        sets = [
            loops
            for block in self._blocks(level)
            for loops in self._restriction.split_innermost(level, block, innermost)
        ]
        return self._concatenated(level, sets)

    def _blocks(self, level: Level) -> list[list[Dim]]:
        """Return a level's loops in sets that follow each other: by how many tiles they lie outside of, most first."""
        loops = self._draft.order[level]
        if level not in ON_CHIP:
            return [list(loops)]
        depth = {d: sum(d in outside for outside in self._outside[level]) for d in loops}
        return [[d for d in loops if depth[d] == n] for n in sorted(set(depth.values()), reverse=True)]

    def _concatenated(self, level: Level, sets: Sequence[Sequence[Dim]]) -> list[tuple[Dim, ...]]:
        """Return all orders of a level in which some sets of loops follow each other."""
        orders = itertools.product(*(list(self._restriction.orders(level, loops)) for loops in sets))
        return [tuple(itertools.chain(*order)) for order in orders]

    def _with_innermost(self, level: Level, is_contiguous: bool) -> list[tuple[Dim, ...]]:
        """Return all orders of a level with the draft's innermost class."""
        orders, innermost = self._concatenated(level, self._blocks(level)), self._innermost.get(level)
        if innermost is None or not set(IRRELEVANT[innermost.t]) & set(orders[0]):
            return orders
        orders = [order for order in orders if innermost.is_innermost_in(order)] or orders
        return [order for order in orders if innermost.is_contiguous_in(order)] or orders if is_contiguous else orders

    # --- Levels ------------------------------------------------------------------------------------------------------

    @property
    def levels_that_matter(self) -> list[Level]:
        """Levels whose order can change a cost.

        The order of the PEs' loops does only where tiles in the PEs are uneven, where the MACs draw from the DRAM,
        or where a dataflow class is asked for.
        """
        is_pe_order_seen = any(self._outside[Level.PE]) or any(self._consumer(t) == MACS for t in Tensor)
        matters = self._has_dataflow or is_pe_order_seen
        return [m for m in Level if m > Level.PE or matters]

    def levels_outside(self, t: Tensor) -> list[Level]:
        """Levels with loops outside the tiles that t's first consumer takes: its DRAM stream depends on no others.

        Where tensors share a bank, the scans of one interrupt those of the others, so the levels are those of all: but
        for one that the MACs draw, as that interrupts any other tensor in each step.
        """
        return max((self._levels_from(self._consumer(u), u) for u in self.deciding(t)), key=len)

    def deciding(self, t: Tensor) -> list[Tensor]:
        """Return the tensors whose loops decide t's stream: of its bank, but t alone if the MACs draw another one."""
        part = self._restriction.part(t)
        return [t] if any(self._consumer(u) == MACS for u in part if u is not t) else part

    def levels_pacing(self, t: Tensor) -> list[Level]:
        """Levels whose loops decide t's stream and for how long its tiles are in use."""
        consumer, *inner = self._nest.consumers(t)
        is_double = (*self._double_buffered, False)
        if consumer != MACS and not is_double[consumer] and inner[0] != MACS:
            consumer = inner[0]  # a level with one slot is paced by what is taken from it
        return max(self._levels_from(consumer, t), self.levels_outside(t), key=len)

    def _levels_from(self, consumer: int, t: Tensor) -> list[Level]:
        """Return the levels with loops outside a consumer's tiles."""
        is_uneven = consumer in ON_CHIP and bool(self._outside[consumer][t])
        return [m for m in Level if m > consumer - is_uneven]

    def _consumer(self, t: Tensor) -> int:
        return self._nest.consumers(t)[0]
