"""Attention on devices whose channels have a softmax unit (AttAcc): score, softmax and context as one command stream.

The heads are split over the channels. A channel computes the scores of its heads, lets its softmax unit turn them into
probabilities, and computes their contexts. Scores never leave the channel, so that neither the tokens nor the head
dimension are split over channels.
"""

from functools import cached_property

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.language import Kernel, KernelMistake, shipped_kernel
from cpsat_pim.compiler.lowering.contraction import NOT_EMITTED, Emitter, empty_stream, move_nodes, moves
from cpsat_pim.compiler.mapping import CLASSES, Contraction, Mapping, contraction_of
from cpsat_pim.compiler.mapping.contraction import BATCH
from cpsat_pim.compiler.search.space import distinct_parts, space_of
from cpsat_pim.compiler.search.sweep import mapping_of
from cpsat_pim.compiler.target import Target
from tables.commands.steps import build_groups, build_steps, ceiling, place_batch
from tables.commands.sweep import NONE, count_mappings, sweep
from tables.commands.walk import ADDRESS, DRAINS, LOADS, MACS, SEGMENT, walk
from tracesim.commands import Stream

Ints = NDArray[np.int64]

SCORE, SOFTMAX, CONTEXT = range(3)


@frozen(slots=False)
class Attention:
    """One token's attention of some heads over cached tokens."""

    heads: int
    tokens: int
    head_size: int

    @cached_property
    def score(self) -> Contraction:
        """Scores of all heads: keys times query."""
        return _contraction("gemv", B=self.heads, N=self.tokens, K=self.head_size)

    @cached_property
    def context(self) -> Contraction:
        """Contexts of all heads: probabilities times values."""
        return _contraction("context", B=self.heads, N=self.tokens, K=self.head_size)


@frozen
class AttentionMapping:
    """The mappings of both products; they split the heads alike."""

    score: Mapping
    context: Mapping


@frozen
class AttentionOptimum:
    """The best mapping found, its ticks, and a bound that no mapping of the space falls below."""

    mapping: AttentionMapping
    ticks: int
    bound: int
    mappings: int


@frozen(eq=False)
class AttentionStream:
    """Barrier groups of attention on one channel, the emitter of each (-1: softmax), and the moves of its segments."""

    groups: Ints
    owners: Ints
    segments: tuple[tuple[Ints, Ints], ...]
    emitters: list[Emitter]


def best_attention(attention: Attention, target: Target, channels: int | None = None) -> AttentionOptimum:
    """The best mapping of every split of the heads: the best score, and the best context behind it.

    The ticks up to the last softmax are exact and do not depend on the context. Behind them the context takes at
    least the least lower bound of its cuts, which assumes that its first row is already open.

    Raises:
        KernelMistake: the device has no softmax unit, or the heads of a channel fit neither banks nor buffer.
    """
    softmax_command(target)
    best: AttentionOptimum | None = None
    bound, mappings = NONE, 0
    for parts in reversed(distinct_parts(attention.heads, channels or target.channels)):
        least = least_mac_ticks(attention, target, parts)
        if best is not None and least >= best.ticks:
            bound = min(bound, least)
            continue
        found = _best_of_split(attention, target, parts)
        if found is not None:
            bound, mappings = min(bound, found.bound), mappings + found.mappings
            best = found if best is None or found.ticks < best.ticks else best
    if best is None:
        raise KernelMistake(f"attention: its heads do not fit the channels of {target.device.name}")
    return AttentionOptimum(best.mapping, best.ticks, bound, mappings)


def least_mac_ticks(attention: Attention, target: Target, parts: int) -> int:
    """Ticks of the MACs alone if no lane were idle: a lower bound for heads split over `parts` channels."""
    elements = 2 * ceiling(attention.heads, parts) * attention.tokens * attention.head_size
    return ceiling(elements, target.device.core.lanes * int(np.prod(target.axes))) * target.timing.mac


def _best_of_split(attention: Attention, target: Target, parts: int) -> AttentionOptimum | None:
    rounds = head_rounds(attention, target, parts)
    if not rounds:
        return None
    split = ((parts, *(1,) * (len(CLASSES) - 1)),)
    bounds = {
        heads: _Bounds(Attention(heads * parts, attention.tokens, attention.head_size), target, split)
        for heads in rounds
    }
    most = bounds[rounds[0]]
    if not most.is_possible:
        return None
    pairs = [AttentionMapping(most.score, context) for context in most.contexts]
    ticks = [attention_ticks(attention, pair, target) for pair in pairs]
    bound = most.first_ticks + sum(bounds[heads].score_bound for heads in rounds[1:])
    bound += sum(heads + bounds[heads].context_bound for heads in rounds)
    return AttentionOptimum(pairs[ticks.index(min(ticks))], min(ticks), bound, most.mappings)


class _Bounds:
    """The best mappings of the products of some heads a channel, and the least ticks of those that follow others."""

    def __init__(self, attention: Attention, target: Target, splits: tuple[tuple[int, ...], ...]) -> None:
        tick = target.device.tick_ps
        spaces = [
            space_of(contraction, target, splits=splits, follows=follows)
            for contraction in (attention.score, attention.context)
            for follows in (False, True)
        ]
        best = [sweep(space.arrays, target.timing, True) for space in spaces]
        self.is_possible = all(found.time_ps < NONE for found in best)
        if self.is_possible:
            self.score, self.first_ticks = mapping_of(spaces[0], best[0]), best[0].ticks
            self.contexts = [mapping_of(space, found) for space, found in zip(spaces[2:], best[2:], strict=True)]
            host = [int(space.arrays.extra[0]) for space in spaces]
            self.score_bound = ceiling(best[1].bound_ps - host[1], tick)
            self.context_bound = ceiling(best[3].bound_ps - host[3], tick)
            counts = [count_mappings(spaces[at].arrays, target.timing) for at in (0, 2)]
            self.mappings = counts[0] * counts[1]


def head_rounds(attention: Attention, target: Target, parts: int) -> list[int]:
    """The heads that a channel computes at a time: as many as its buffer holds the scores of."""
    heads = ceiling(attention.heads, parts)
    most = min(heads, target.device.group.buffer_bytes // (attention.tokens * SCORE_BYTES))
    if most == 0:
        return []
    return [most] * (heads // most) + ([heads % most] if heads % most else [])


#: Bytes of a score in a channel's buffer; accumulated in 32 bits.
SCORE_BYTES = 4


def softmax_command(target: Target) -> int:
    """The command of the channel's softmax unit.

    Raises:
        KernelMistake: there is none.
    """
    if "softmax" not in target.device.group.units:
        raise KernelMistake(f"{target.device.name}: its channels have no softmax unit")
    return target.device.command("SFM")


def build_attention(attention: Attention, mapping: AttentionMapping, target: Target) -> AttentionStream:
    """The barrier groups: for every round those of the score, one softmax a head, those of the context.

    Values lie behind the keys of their round.
    """
    parts, address = mapping.score.splits[BATCH], 0
    groups, owners, emitters = [], [], []
    softmax = np.zeros((1, SEGMENT + 1), np.int64)
    for heads in head_rounds(attention, target, parts):
        part = Attention(heads * parts, attention.tokens, attention.head_size)
        for segment, contraction, chosen in (
            (SCORE, part.score, mapping.score),
            (SOFTMAX, None, None),
            (CONTEXT, part.context, mapping.context),
        ):
            softmax[0, DRAINS], softmax[0, SEGMENT] = heads, SOFTMAX
            added = softmax.copy()
            if contraction is not None and chosen is not None:
                load = target.load if segment == SCORE else target.reload
                emitter, address = _emitter(contraction, chosen, target, address, load)
                added = emitter.groups
                added[:, SEGMENT] = segment
                emitters.append(emitter)
            owners += [len(emitters) - 1 if segment != SOFTMAX else -1] * len(added)
            groups.append(added)
    everywhere = np.full((1, len(target.axes)), -1, np.int64)
    score, context = (
        moves(*pair, target) for pair in ((mapping.score, attention.score), (mapping.context, attention.context))
    )
    return AttentionStream(
        np.concatenate(groups), np.array(owners), (score, (everywhere, everywhere), context), emitters
    )


def _emitter(
    contraction: Contraction, mapping: Mapping, target: Target, address: int, load: int
) -> tuple[Emitter, int]:
    """The emitter of a product whose matrix lies from a bank column on, and the column behind it."""
    share, columns = mapping.share(contraction, target), target.device.core.columns
    steps = build_steps(share, columns)
    steps[:, ADDRESS] += address
    loads, drains = moves(mapping, contraction, target)
    groups = build_groups(share, steps, len(drains), len(loads))
    return Emitter(mapping, target, share, steps, groups, 0, load), address + place_batch(share, share.batches, columns)


def attention_ticks(attention: Attention, mapping: AttentionMapping, target: Target) -> int:
    """The exact ticks of attention on every channel, without refresh."""
    built = build_attention(attention, mapping, target)
    return walk(target.timing, built.groups, move_nodes(target, built.segments, (SOFTMAX,)), -1, NOT_EMITTED)


def count_attention_commands(attention: Attention, mapping: AttentionMapping, target: Target) -> int:
    """How many commands a channel gets."""
    return _count_commands(build_attention(attention, mapping, target))


def _count_commands(built: AttentionStream) -> int:
    groups, sides = built.groups, zip(*built.segments, strict=True)
    loads, drains = (np.array([len(moved) for moved in side])[groups[:, SEGMENT]] for side in sides)
    return int((groups[:, MACS] + groups[:, LOADS] * loads + groups[:, DRAINS] * drains).sum())


def lower_attention(attention: Attention, mapping: AttentionMapping, target: Target) -> Stream:
    """The commands of one channel; the softmax unit and what lies between the products are not given numbers."""
    built = build_attention(attention, mapping, target)
    table = move_nodes(target, built.segments, (SOFTMAX,))
    groups = built.groups
    emitted = np.zeros((_count_commands(built), 4), np.int64)
    walk(target.timing, groups, table, -1, emitted)
    stream = empty_stream(len(emitted), len(target.axes))
    stream.group[:] = emitted[:, 2]
    segment, owner = groups[emitted[:, 2], SEGMENT], built.owners[emitted[:, 2]]
    for number, emitter in enumerate(built.emitters):
        where = owner == number
        first = int(np.flatnonzero(built.owners == number)[0])
        part = emitter.stream(emitted[where] - np.array([0, 0, first, 0]), *built.segments[groups[first, SEGMENT]])
        for name, values in part._asdict().items():
            if name != "group":
                getattr(stream, name)[where] = values
    stream.kind[segment == SOFTMAX] = softmax_command(target)
    stream.coords[segment == SOFTMAX, :-1] = -1
    return stream


def attention_of(kernel: Kernel) -> Attention | None:
    """The attention that a bound kernel is, or None."""
    if kernel.name != "attention" or kernel.calls != ("gemv", "softmax", "context"):
        return None
    heads, tokens, head_size = kernel.tensor("keys").extents
    return Attention(heads, tokens, head_size)


def _contraction(name: str, **sizes: int) -> Contraction:
    kernel = shipped_kernel(name).bind(sizes)
    return contraction_of(kernel, kernel.statements[0])
