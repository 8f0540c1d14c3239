"""Where the attention of a batch runs, summed over all lengths of a request with one layout of keys and values."""

from collections.abc import Iterator
from math import prod

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.attention import Attention, AttentionMapping
from cpsat_pim.compiler.coupling.options import bank_bytes
from cpsat_pim.compiler.dispatch.layout import best_layout
from cpsat_pim.compiler.dispatch.lengths import CONTEXT, SCORE, LengthSearch
from cpsat_pim.compiler.host import Product
from cpsat_pim.compiler.host.energy import link_fj, product_fj
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.mapping import Mapping
from cpsat_pim.compiler.models.block import ELEMENT, Block
from cpsat_pim.compiler.search.objective import energies_of, energy_fj, output_fj, states_energies
from cpsat_pim.compiler.search.space import output_ps, space_of
from cpsat_pim.compiler.search.sweep import mapping_of
from cpsat_pim.compiler.target import Target
from tables.commands.objectives import count_rows
from tables.commands.shared import Uses, sweep_layouts
from tables.commands.steps import ceiling
from tables.commands.sweep import NONE
from tables.commands.walk import DRAINS, LOADS, MACS, SEGMENT

Ints = NDArray[np.int64]


@frozen(kw_only=True)
class AttentionOption:
    """One way to compute the attention of a batch: picoseconds of all lengths of one block, and what none of this kind
    falls below; femtojoules; the bytes that keys and values of one block take; the mappings of the longest length.
    """

    batch: int
    place: str
    time_ps: int
    bound_ps: int
    energy_fj: int
    stored_bytes: int
    mappings: tuple[Mapping, ...] = ()
    #: Whether the energy is a lower bound: of dense layouts, which open no more rows than those with reserved columns.
    is_energy_bound: bool = False


def attention_options(block: Block, lengths: range) -> Iterator[AttentionOption]:
    """On the host; on PIM with the softmax in the channels; on PIM with the softmax on the host. On PIM, query, key,
    value and result pass the link, and each new key and value is written.
    """
    yield _on_host(block, lengths)
    moved = round(len(lengths) * (block.moved + _append_seconds(block)) * 1e12)
    linked = len(lengths) * link_fj(4 * block.batch * block.model.hidden * ELEMENT)
    for option in (_in_channels(block, lengths, moved, linked), _with_host_softmax(block, lengths, moved, linked)):
        if option is not None:
            yield option


def _append_seconds(block: Block) -> float:
    """Seconds in which the host writes a token's keys and values."""
    moved = 2 * block.batch * block.model.hidden * ELEMENT
    return moved / (block.host.memory_bandwidth * block.host.memory_efficiency)


def kept_bytes(block: Block, tokens: int) -> int:
    """Bytes of keys and values of one block."""
    return 2 * block.batch * block.model.hidden * tokens * ELEMENT


def _on_host(block: Block, lengths: range) -> AttentionOption:
    time = round(sum(block.host_attention(tokens) for tokens in lengths) * 1e12)
    size, heads = block.model.head_size, block.heads
    energy = sum(
        product_fj(block.host, Product(1, n, k, heads, is_weight=False))
        for tokens in lengths
        for n, k in ((tokens, size), (size, tokens))
    )
    kept = kept_bytes(block, lengths[-1])
    return AttentionOption(
        batch=block.batch, place="host", time_ps=time, bound_ps=time, energy_fj=energy, stored_bytes=kept
    )


def _in_channels(block: Block, lengths: range, moved: int, linked: int) -> AttentionOption | None:
    try:
        search = LengthSearch(block.heads, block.model.head_size, block.target)
        found = best_layout(search, lengths)
    except KernelMistake:
        return None
    longest = found.mappings[-1]
    parts, tick = longest.score.splits[0], block.target.device.tick_ps
    heads = ceiling(block.heads, parts)
    attention = Attention(block.heads, lengths[-1], block.model.head_size)
    host = output_ps(attention.context, block.target, block.host, (1, 1, 1, 1)) * len(lengths)
    energy = 0
    if states_energies(block.target):
        energy = sum(
            parts * _groups_fj(search, search.groups(tokens, mapping, lengths[-1]), mapping, block.target)
            for tokens, mapping in zip(lengths, found.mappings, strict=True)
        )
        energy += len(lengths) * output_fj(attention.context, block.target, (1, 1, 1, 1))
    return AttentionOption(
        batch=block.batch,
        place="PIM, softmax in the channels",
        time_ps=int(found.ticks.sum()) * tick + host + moved,
        bound_ps=found.bound * tick + host + moved,
        energy_fj=energy + linked,
        stored_bytes=sum(
            bank_bytes(search.share(segment, mapping, heads, lengths[-1]), parts, block.target)
            for segment, mapping in ((SCORE, longest.score), (CONTEXT, longest.context))
        ),
        mappings=(longest.score, longest.context),
    )


def _groups_fj(search: LengthSearch, groups: Ints, mapping: AttentionMapping, target: Target) -> int:
    """Femtojoules of one channel: the context loads its inputs from the channel's own buffer."""
    energies, table = energies_of(target), search.moves_of(mapping)
    reload = target.device.commands[target.reload].energy_fj or 0
    total = int(groups[:, MACS].sum()) * energies.mac + count_rows(groups, target.device.core.columns) * energies.row
    for segment, load in ((SCORE, energies.load), (CONTEXT, reload)):
        own = groups[groups[:, SEGMENT] == segment]
        total += int(own[:, DRAINS].sum() * table.drain_moves[segment]) * energies.drain
        total += int(own[:, LOADS].sum() * table.load_moves[segment]) * load
    return total


def _with_host_softmax(block: Block, lengths: range, moved: int, linked: int) -> AttentionOption | None:
    """Scores and contexts as two kernels, each with the layout of least sum; tokens may be split over channels."""
    total, energy, rows, mappings = moved, linked, 0, []
    for segment in (SCORE, CONTEXT):
        found = _separate_layout(block, segment, lengths)
        if found is None:
            return None
        time, mapping, stored = found
        total, rows = total + time, rows + stored
        mappings.append(mapping)
    total += round(sum(block.host_softmax(tokens) for tokens in lengths) * 1e12)
    return AttentionOption(
        batch=block.batch,
        place="PIM, softmax on the host",
        time_ps=total,
        bound_ps=total,
        energy_fj=energy + sum(_separate_fj(block, at, mapping, lengths) for at, mapping in enumerate(mappings)),
        stored_bytes=rows,
        mappings=tuple(mappings),
        is_energy_bound=True,
    )


def _separate_layout(block: Block, segment: int, lengths: range) -> tuple[int, Mapping, int] | None:
    """Picoseconds of all lengths, the mapping of the longest, and the bytes in the banks."""
    target, longest = block.target, Attention(block.heads, lengths[-1], block.model.head_size)
    contraction = longest.score if segment == SCORE else longest.context
    space = space_of(contraction, target)
    grows = 2 if segment == SCORE else 3
    extents = np.array([contraction.extents] * len(lengths))
    extents[:, grows] = list(reversed(lengths))
    splits = np.array(space.splits)
    chunks = -(-extents[:, None, :] // splits[None])
    results = extents[:, 0] * extents[:, 2]
    full = output_ps(contraction, target, block.host, (1, 1, 1, 1))
    extra = -(-(results[:, None] * full * splits[None, :, 3]) // results[0])
    size = len(lengths)
    chosen = np.zeros((size, 3), np.int64)
    uses = Uses(chunks, extra, np.zeros(size, np.int64), np.ones(size, np.int64), 1)
    best = sweep_layouts(space.arrays, target.timing, uses, chosen)
    if best.total_ps >= NONE:
        return None
    mapping = mapping_of(space, best)
    stored = bank_bytes(mapping.share(contraction, target), prod(mapping.splits), target)
    return best.total_ps, mapping, stored


def _separate_fj(block: Block, which: int, mapping: Mapping, lengths: range) -> int:
    """Femtojoules of one of the two kernels, of every length in a dense layout."""
    if not states_energies(block.target):
        return 0
    total = 0
    for tokens in lengths:
        attention = Attention(block.heads, tokens, block.model.head_size)
        total += energy_fj(mapping, attention.context if which else attention.score, block.target)
    return total
