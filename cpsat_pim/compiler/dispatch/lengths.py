"""The best attention of every length, with one table of cuts for all lengths.

`attention.best_attention` builds its space anew for every length. Here the owners and moves of all cuts are built once;
a length only changes how many elements a channel has. The ticks up to the softmax are those of the score alone, and the
context takes at least the lower bound of its cuts. What these two leave open, `pairs` closes.
"""

from collections.abc import Iterator

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.attention import SOFTMAX, Attention, AttentionMapping, head_rounds, softmax_command
from cpsat_pim.compiler.dispatch.pairs import by_bound, end_columns, mapping_at, pair_bounds
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.lowering.contraction import NOT_EMITTED, move_nodes, moves
from cpsat_pim.compiler.mapping import CLASSES, Contraction, Mapping
from cpsat_pim.compiler.mapping.contraction import BATCH, DEPTH, OUTPUTS
from cpsat_pim.compiler.search.space import SpaceOf, distinct_parts, space_of
from cpsat_pim.compiler.search.sweep import mapping_of
from cpsat_pim.compiler.target import Target
from tables.commands.candidates import best_pair, collect, least_mac_chain, least_of_others
from tables.commands.shared import reserve_addresses
from tables.commands.steps import Share, build_groups, build_steps, ceiling, place_batch
from tables.commands.sweep import NONE, Best, Space, sweep
from tables.commands.walk import ADDRESS, DRAINS, LOADS, SEGMENT, Moves, walk

Ints = NDArray[np.int64]

SCORE, CONTEXT = 0, 2


@frozen
class LengthOptimum:
    """The best mapping found for a length, its ticks, and ticks that no mapping of the space falls below."""

    tokens: int
    mapping: AttentionMapping
    ticks: int
    bound: int

    @property
    def status(self) -> str:
        """OPTIMAL: the bound is reached."""
        return "OPTIMAL" if self.ticks == self.bound else "FEASIBLE"


class LengthSearch:
    """Attention of some heads on some channels, for any number of tokens up to the most that will be asked for.

    Raises:
        KernelMistake: the device has no softmax unit.
    """

    def __init__(self, heads: int, head_size: int, target: Target, channels: int | None = None) -> None:
        softmax_command(target)
        self.heads, self.head_size, self.target = heads, head_size, target
        self.parts = distinct_parts(heads, channels or target.channels)[::-1]
        example = Attention(heads, 2, head_size)
        self.contractions: dict[int, Contraction] = {SCORE: example.score, CONTEXT: example.context}
        self._spaces = {
            (segment, follows): space_of(contraction, target, splits=((1,) * len(CLASSES),), follows=follows)
            for segment, contraction in self.contractions.items()
            for follows in (False, True)
        }
        self._moves: dict[tuple[tuple[int, ...], tuple[int, ...]], Moves] = {}

    def best(self, tokens: int) -> LengthOptimum:
        """The best mapping for a number of tokens.

        Raises:
            KernelMistake: the heads of a channel fit neither banks nor buffer.
        """
        best: LengthOptimum | None = None
        bound = NONE
        for parts in self.parts:
            least = self.least_ticks(tokens, parts)
            if best is not None and least >= best.ticks:
                bound = min(bound, least)
                continue
            found = self._best_of_split(tokens, parts)
            if found is not None:
                bound = min(bound, found.bound)
                best = found if best is None or found.ticks < best.ticks else best
        if best is None:
            raise KernelMistake(f"attention: {tokens} tokens do not fit the channels of {self.target.device.name}")
        return LengthOptimum(tokens, best.mapping, best.ticks, min(bound, best.ticks))

    def ticks(self, tokens: int, mapping: AttentionMapping, reserved: int = 0) -> int:
        """The exact ticks of every channel; with `reserved`, elements lie where they lie for so many tokens."""
        return walk(self.target.timing, self.groups(tokens, mapping, reserved), self.moves_of(mapping), -1, NOT_EMITTED)

    def compute_ticks(self, tokens: int, mapping: AttentionMapping) -> int:
        """The ticks of MACs, their rows and softmax alone, as if moves took no time."""
        groups = self.groups(tokens, mapping)
        is_product = groups[:, SEGMENT] != SOFTMAX
        groups[np.ix_(is_product, [DRAINS, LOADS])] = 0
        return walk(self.target.timing, groups, self.moves_of(mapping), -1, NOT_EMITTED)

    def groups(self, tokens: int, mapping: AttentionMapping, reserved: int = 0) -> Ints:
        """int64[groups, 8]: the barrier groups of all rounds."""
        found, address, moves_of = [], 0, self.moves_of(mapping)
        parts = mapping.score.splits[BATCH]
        rounds = head_rounds(Attention(self.heads, max(tokens, reserved), self.head_size), self.target, parts)
        for heads in rounds:
            for segment, chosen in ((SCORE, mapping.score), (SOFTMAX, None), (CONTEXT, mapping.context)):
                if chosen is None:
                    group = np.zeros((1, SEGMENT + 1), np.int64)
                    group[0, DRAINS], group[0, SEGMENT] = heads, SOFTMAX
                    found.append(group)
                    continue
                share = self.share(segment, chosen, heads, tokens)
                capacity = self.share(segment, chosen, heads, max(tokens, reserved))
                columns = self.target.device.core.columns
                steps = build_steps(share, columns)
                if reserved:
                    reserve_addresses(share, steps, capacity, columns)
                steps[:, ADDRESS] += address
                address += place_batch(capacity, capacity.batches, columns)
                if reserved:  # keys and values begin in rows of their own, so that the bounds of both add up
                    address = ceiling(address, columns) * columns
                counts = int(moves_of.drain_moves[segment]), int(moves_of.load_moves[segment])
                group = build_groups(share, steps, *counts)
                group[:, SEGMENT] = segment
                found.append(group)
        return np.concatenate(found)

    def share(self, segment: int, mapping: Mapping, heads: int, tokens: int) -> Share:
        """What a core computes of so many heads a channel."""
        extents = self.extents(segment, heads, tokens)
        core = [ceiling(extent, parts) for extent, parts in zip(extents, mapping.parts(self.target), strict=True)]
        return mapping.share(self.contractions[segment], self.target)._replace(
            batches=core[0], shared=core[1], outputs=core[2], depth=core[3]
        )

    def extents(self, segment: int, heads: int, tokens: int) -> tuple[int, int, int, int]:
        """Elements of each class of a channel with so many heads."""
        if segment == SCORE:
            return heads, 1, tokens, self.head_size
        return heads, 1, self.head_size, tokens

    def space(self, segment: int, heads: int, tokens: int, follows: bool) -> SpaceOf:
        """The space of a product of so many heads a channel."""
        found = self._spaces[segment, follows]
        chunks = np.array([self.extents(segment, heads, tokens)])
        arrays: Space = found.arrays._replace(chunks=chunks, extra=np.zeros(1, np.int64))
        return SpaceOf(arrays, found.splits, found.owners)

    def least_ticks(self, tokens: int, parts: int) -> int:
        """Ticks of the MACs alone if no lane were idle."""
        elements = 2 * ceiling(self.heads, parts) * tokens * self.head_size
        cores = int(np.prod(self.target.axes))
        return ceiling(elements, self.target.device.core.lanes * cores) * self.target.timing.mac

    def bound_of_others(self, tokens: int, most: int) -> int:
        """Ticks that no mapping falls below that does not treat `tokens` to `most` tokens alike (`best_of_lengths`)."""
        least, timing = NONE, self.target.timing
        for parts in self.parts:
            rounds = head_rounds(Attention(self.heads, most, self.head_size), self.target, parts)
            if rounds != head_rounds(Attention(self.heads, tokens, self.head_size), self.target, parts):
                return 0
            if len(rounds) != 1:
                least = min(least, self.least_ticks(tokens, parts))
                continue
            heads = rounds[0]
            score, context = (self.space(s, heads, tokens, s == CONTEXT).arrays for s in (SCORE, CONTEXT))
            scores = [least_of_others(score, timing, 0, OUTPUTS, grain, 0) for grain in (GRAIN, 2**30)]
            contexts = [least_of_others(context, timing, 0, DEPTH, grain, 1) for grain in (GRAIN, 2**30)]
            least = min(least, scores[0] + heads + min(contexts), min(scores) + heads + contexts[0])
        return least

    def _best_of_split(self, tokens: int, parts: int) -> LengthOptimum | None:
        rounds = head_rounds(Attention(self.heads, tokens, self.head_size), self.target, parts)
        if not rounds:
            return None
        score, contexts, first, bound = None, [], 0, 0
        for heads in dict.fromkeys(rounds):
            spaces = [self.space(s, heads, tokens, follows) for s in (SCORE, CONTEXT) for follows in (False, True)]
            found = [sweep(space.arrays, self.target.timing, True) for space in spaces]
            if any(best.time_ps >= NONE for best in found):
                return None
            if score is None:
                score, first = mapping_of(spaces[0], found[0]), found[0].ticks
                contexts = [mapping_of(space, best) for space, best in zip(spaces[2:], found[2:], strict=True)]
                bound += first - self._least(found[1])
            bound += rounds.count(heads) * (self._least(found[1]) + heads + self._least(found[3]))
        split = (parts, *(1,) * (len(CLASSES) - 1))
        pairs = [_with_split(AttentionMapping(score, context), split) for context in contexts if score is not None]
        ticks = [self.ticks(tokens, pair) for pair in pairs]
        best = LengthOptimum(tokens, pairs[ticks.index(min(ticks))], min(ticks), bound)
        if len(rounds) == 1 and bound < best.ticks:
            return self._closed(best, rounds[0], split, first, self._least(found[3]))
        return best

    def _least(self, best: Best) -> int:
        """Ticks that no cut falls below by its bound, wherever in a row its matrix begins."""
        return ceiling(best.bound_ps, self.target.device.tick_ps)

    def _closed(
        self, best: LengthOptimum, heads: int, split: tuple[int, ...], least_score: int, least_context: int
    ) -> LengthOptimum:
        """The best pair of mappings of all heads of a channel at once, proven."""
        timing = self.target.timing
        spaces = self.space(SCORE, heads, best.tokens, False), self.space(CONTEXT, heads, best.tokens, True)
        chains = [least_mac_chain(space.arrays, timing, 0) for space in spaces]
        most = best.ticks - timing.mac
        scores = collect(spaces[0].arrays, timing, 0, best.ticks - heads - least_context, most - chains[1], 0)
        ends = end_columns(spaces[0], timing, scores)
        most_context = best.ticks - heads - least_score
        by_end = {
            end: collect(spaces[1].arrays, timing, 0, most_context, most - chains[0], end)
            for end in sorted(set(ends.tolist()))
        }
        contexts = np.concatenate(list(by_end.values())) if by_end else scores
        if not len(scores) or not len(contexts):
            return evolve(best, bound=best.ticks)
        offsets = np.concatenate([np.full(len(rows), end) for end, rows in by_end.items()])
        bounds = pair_bounds(spaces[1], timing, scores, ends, contexts, offsets, heads)
        between = np.zeros(SEGMENT + 1, np.int64)
        between[DRAINS], between[SEGMENT] = heads, SOFTMAX
        arrays = spaces[0].arrays, spaces[1].arrays
        path = self.target.nodes(np.full((1, len(self.target.axes)), -1, np.int64))[0]
        order = by_bound(bounds, best.ticks)
        found = best_pair(*arrays, timing, scores, contexts, order, between, path, best.ticks)
        if found.first < 0:
            return evolve(best, bound=best.ticks)
        pair = AttentionMapping(
            mapping_at(spaces[0], scores[found.first], split), mapping_at(spaces[1], contexts[found.second], split)
        )
        return LengthOptimum(best.tokens, pair, found.ticks, found.ticks)

    def moves_of(self, mapping: AttentionMapping) -> Moves:
        """The moves of score, softmax and context."""
        owners = mapping.score.owners, mapping.context.owners
        if owners not in self._moves:
            everywhere = np.full((1, len(self.target.axes)), -1, np.int64)
            score, context = (
                moves(chosen, self.contractions[segment], self.target)
                for segment, chosen in ((SCORE, mapping.score), (CONTEXT, mapping.context))
            )
            self._moves[owners] = move_nodes(self.target, (score, (everywhere, everywhere), context), (SOFTMAX,))
        return self._moves[owners]


def _with_split(mapping: AttentionMapping, split: tuple[int, ...]) -> AttentionMapping:
    return AttentionMapping(evolve(mapping.score, splits=split), evolve(mapping.context, splits=split))


#: Lengths of a block are solved together: a cut over a multiple of so many cores computes all of them alike.
GRAIN = 8


def best_of_lengths(search: LengthSearch, first: int, last: int) -> Iterator[LengthOptimum]:
    """The best mapping of every length from the first to the last.

    Lengths with the same number of tokens on a multiple of `GRAIN` cores take the same ticks on all cuts over such a
    multiple. If bounds exclude the other cuts at the shortest of these lengths, the optimum of the longest
    is the optimum of all.
    """
    begin = first
    while begin <= last:
        end = min(last, ceiling(begin, GRAIN) * GRAIN)
        longest = search.best(end)
        alike = longest.status == "OPTIMAL" and search.bound_of_others(begin, end) >= longest.ticks
        for tokens in range(begin, end):
            yield evolve(longest, tokens=tokens) if alike else search.best(tokens)
        yield longest
        begin = end + 1
