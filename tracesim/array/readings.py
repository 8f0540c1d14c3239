"""What layers read of stacks: which channels, in which order (docs/array.md, section 2)."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tracesim.array.areas import Range
from tracesim.array.records import Ints, Reorder, View

Shape = tuple[int, int, int, int]


class Member(NamedTuple):
    """Where a tensor lies in its stack: the stack's first member, and the first channel in the stack."""

    stack: int
    channel: int


class Reading(NamedTuple):
    """What a layer reads of one stack as one operand, or as a part of I: channels, in the reader's order.

    `tensors`: those it lists. `spans`: (first channel in the stack, channels); `firsts`: the first one in the reader's.
    `view`: how they are pooled, resized or reordered; the reader's channels are then those that it sees, from the first
    of `firsts` on. `is_added`: to the channels of I that are read otherwise.
    """

    tensors: tuple[int, ...]
    stack: int
    spans: tuple[tuple[int, int], ...]
    firsts: tuple[int, ...]
    view: View = None
    is_added: bool = False


class Piece(NamedTuple):
    """Channels [low, high) of a tensor, which are the reader's from `first` on; `place`: among those that it lists."""

    place: int
    tensor: int
    low: int
    high: int
    first: int


def taken_of(tensors: tuple[int, ...], shapes: tuple[Shape, ...], taken: tuple[Range, ...] | None) -> list[Piece]:
    """Return what a reader takes of tensors that are side by side; None: all."""
    counts = [shapes[tensor][1] for tensor in tensors]
    pieces: list[Piece] = []
    read = 0
    for wanted in taken if taken is not None else ((0, sum(counts)),):
        begin = 0
        for place, (tensor, count) in enumerate(zip(tensors, counts, strict=True)):
            low, high = max(wanted[0], begin), min(wanted[1], begin + count)
            if low < high:
                pieces.append(Piece(place, tensor, low - begin, high - begin, read))
                read += high - low
            begin += count
    return pieces


def as_seen(pieces: list[Piece], alike: Sequence[tuple[int, ...]], views: Sequence[View]) -> list[Piece]:
    """Return pieces with their first channels as the reader counts them: of tensors that are reordered together
    (`alike`: their places) all that it sees, one behind the other; ValueError where others stand between them.
    """
    together = {place: places for places in alike for place in places}
    found: list[Piece] = []
    read = 0
    for _, own in itertools.groupby(pieces, lambda piece: together[piece.place]):
        taken = list(own)
        first, view = taken[0].first, views[taken[0].place]
        if isinstance(view, Reorder) and any(piece.place in together[taken[0].place] for piece in found):
            raise ValueError("tensors that are reordered together must stand side by side")
        found += [piece._replace(first=read + piece.first - first) for piece in taken]
        read += view.shape[1] if isinstance(view, Reorder) else sum(piece.high - piece.low for piece in taken)
    return found


def reading_of(tensors: tuple[int, ...], pieces: list[Piece], members: tuple[Member, ...], view: View) -> Reading:
    """Return what a layer reads of tensors of one stack; ValueError where these pieces of them are none."""
    if not pieces:
        raise ValueError(f"a layer takes no channels of tensors {tensors}")
    read = tuple(tensor for tensor in tensors if any(piece.tensor == tensor for piece in pieces))
    spans = tuple((members[piece.tensor].channel + piece.low, piece.high - piece.low) for piece in pieces)
    return Reading(read, members[tensors[0]].stack, spans, tuple(piece.first for piece in pieces), view)


def reader_channels(reading: Reading) -> Ints:
    """Return int64[C]: the stack's channel of each channel that the reader counts."""
    return np.concatenate([np.arange(start, start + count) for start, count in reading.spans])


def seen_channels(reading: Reading) -> Range:
    """Return which of the reader's channels those are that it sees of a reordered tensor."""
    assert isinstance(reading.view, Reorder)  # the caller has looked
    return reading.firsts[0], reading.firsts[0] + reading.view.shape[1]


def stack_channels(reading: Reading, channels: Range) -> list[Range]:
    """Return what a range of the reader's channels is of the stack, in ranges."""
    found = []
    for (start, count), first in zip(reading.spans, reading.firsts, strict=True):
        low, high = max(channels[0], first), min(channels[1], first + count)
        if low < high:
            found.append((start + low - first, start + high - first))
    return found
