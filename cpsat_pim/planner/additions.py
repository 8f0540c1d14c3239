"""What making a sum takes where it lies (docs/array.md, section 5)."""

import math
from collections.abc import Sequence

from attrs import frozen

from cpsat_pim.planner.home_tables import operands_table
from cpsat_pim.planner.partition import Home
from cpsat_pim.planner.phases import Rates, Work
from cpsat_pim.planner.sums import Extent, Sum
from cpsat_pim.planner.tensors import Graph, LayerTask
from tables.array.push import join


@frozen(kw_only=True)
class Addition:
    """The tensors whose home boxes the nodes read and write, and how often elements are added."""

    read: tuple[Extent, ...] = ()
    written: tuple[Extent, ...] = ()
    additions: int = 0


#: Of a layer that finishes no sum.
NOTHING = Addition()


def addition_of(graph: Graph, task: LayerTask, sums: Sequence[Sum]) -> Addition:
    """Return what a layer's push adds if it finishes these sums (one, or none).

    What it has computed is added as it is written. If that is spread over the sum, the sum itself is written besides.
    """
    if not sums:
        return NOTHING
    (one,) = sums
    own = graph.stacks[task.writes]
    others = [name for name in one.operands if name != task.name]
    return Addition(
        read=_extents(graph, others),
        written=_extents(graph, one.operands[:1]) if own.spread else (),
        additions=_additions(graph, one),
    )


def addition_at_end(graph: Graph, one: Sum) -> Addition:
    """Return what making a sum at the end of a segment takes: all operands are read, and the first is written."""
    return Addition(
        read=_extents(graph, one.operands),
        written=_extents(graph, one.operands[:1]),
        additions=_additions(graph, one),
    )


def add_operands(work: Work, rates: Rates, added: Addition, home: Home, width: int) -> None:
    """Add to a phase what the nodes of a home read, write and add; `width`: bytes of an element."""
    read, written = (operands_table(rates.array.cols, some, (home,)) for some in (added.read, added.written))
    join(rates.grid, read, written, 0, width, added.additions, work.dram, work.totals)


def _extents(graph: Graph, names: Sequence[str]) -> tuple[Extent, ...]:
    return tuple(graph.stacks[graph.stack_of[name]].extent for name in names)


def _additions(graph: Graph, one: Sum) -> int:
    """Return how many elements are added: those of every operand but one, spread over the first."""
    return math.prod(graph.stacks[graph.stack_of[one.first]].shape) * (len(one.operands) - 1)
