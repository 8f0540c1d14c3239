"""One layout of keys and values for all lengths, so that nothing moves when a token is added.

The layout reserves the columns of the longest length (`tables.commands.shared`). Scores and contexts choose their
layouts apart: the ticks up to the softmax are those of the score alone, and the context takes at least what it takes if
its first row is already open. The sum of both least totals is a bound for every pair of layouts.
"""

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.attention import Attention, AttentionMapping, head_rounds
from cpsat_pim.compiler.dispatch.lengths import CONTEXT, SCORE, LengthSearch
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.mapping import CLASSES, Mapping
from cpsat_pim.compiler.search.sweep import mapping_of
from cpsat_pim.compiler.target import Target
from tables.commands.shared import BestLayout, Uses, sweep_layouts
from tables.commands.steps import ceiling
from tables.commands.sweep import NONE

Ints = NDArray[np.int64]


@frozen(eq=False)
class SharedLayout:
    """The layout, the mapping of every length (they differ in what overlaps), their ticks, and a bound of the sum."""

    mappings: tuple[AttentionMapping, ...]
    ticks: Ints
    bound: int

    @property
    def status(self) -> str:
        """OPTIMAL: the bound is reached."""
        return "OPTIMAL" if int(self.ticks.sum()) == self.bound else "FEASIBLE"


def best_layout(search: LengthSearch, lengths: range) -> SharedLayout:
    """The layout with the least sum of ticks over all lengths, among those whose channels compute the scores of all
    their heads at once.

    Raises:
        KernelMistake: there is none.
    """
    longest, best, bound = lengths[-1], None, NONE
    for parts in search.parts:
        heads = ceiling(search.heads, parts)
        least = sum(search.least_ticks(tokens, parts) for tokens in lengths)
        if best is not None and least >= int(best.ticks.sum()):
            bound = min(bound, least)
            continue
        if head_rounds(Attention(search.heads, longest, search.head_size), search.target, parts) != [heads]:
            continue
        found = _of_split(search, lengths, parts, heads)
        if found is not None:
            bound = min(bound, found.bound)
            if best is None or found.ticks.sum() < best.ticks.sum():
                best = found
    if best is None:
        raise KernelMistake(f"attention: {longest} tokens do not fit the channels of {search.target.device.name}")
    return evolve(best, bound=min(bound, int(best.ticks.sum())))


def _of_split(search: LengthSearch, lengths: range, parts: int, heads: int) -> SharedLayout | None:
    split = (parts, *(1,) * (len(CLASSES) - 1))
    found = []
    for segment in (SCORE, CONTEXT):
        space = search.space(segment, heads, lengths[-1], segment == CONTEXT)
        uses = _uses(search, segment, lengths, heads)
        chosen = np.zeros((len(lengths), 3), np.int64)
        best = sweep_layouts(space.arrays, search.target.timing, uses, chosen)
        if best.total_ps >= NONE:
            return None
        found.append((evolve(mapping_of(space, best), splits=split), best, chosen[::-1]))
    (score, best_score, scores), (context, best_context, contexts) = found
    mappings = tuple(
        AttentionMapping(_overlapping(score, one), _overlapping(context, other))
        for one, other in zip(scores, contexts, strict=True)
    )
    ticks = [search.ticks(tokens, m, lengths[-1]) for tokens, m in zip(lengths, mappings, strict=True)]
    return SharedLayout(
        mappings, np.array(ticks), _bound(best_score, best_context, search.target, heads * len(lengths))
    )


def _uses(search: LengthSearch, segment: int, lengths: range, heads: int) -> Uses:
    """Every length once, the longest first."""
    chunks = np.array([[search.extents(segment, heads, tokens)] for tokens in reversed(lengths)])
    size, zeros = len(lengths), np.zeros((len(lengths), 1), np.int64)
    return Uses(chunks, zeros, np.zeros(size, np.int64), np.ones(size, np.int64), 1)


def _overlapping(mapping: Mapping, chosen: Ints) -> Mapping:
    return evolve(mapping, overlaps_drains=bool(chosen[1]), overlaps_loads=bool(chosen[2]))


def _bound(score: BestLayout, context: BestLayout, target: Target, softmaxes: int) -> int:
    return (score.total_ps + context.total_ps) // target.device.tick_ps + softmaxes
