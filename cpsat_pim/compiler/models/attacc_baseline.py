"""AttAcc's own distribution of attention as a command stream.

Source: attacc_simulator c600051, `pim_ramulator_src/trace_gen/gen_trace_attacc_bank.py`.

A head a channel; tokens over pseudo-channels, ranks and bank groups, the head dimension over banks. Two heads of a
channel alternate: moves and softmax of one run beside the MACs of the other. The baseline of published comparisons.
"""

from collections.abc import Iterator
from math import ceil

import numpy as np
from attrs import frozen

from cpsat_pim.compiler.target import Target
from tracesim.commands import Stream

#: Cores that tokens and the head dimension are cut over: pseudo-channels x ranks x bank groups, and banks.
TOKEN_CORES, DEPTH_CORES = 16, 4
RANKS, BANK_GROUPS, BANKS, LANES = 2, 4, 4, 16
#: Outputs of a core that one accumulator holds.
STRIDE = 16
#: Rows that a head's keys are apart, at 4096 tokens; values lie 2^23 bytes behind the keys.
HEAD_ROWS, VALUE_ROW = 8, 8192

#: (command, rank, bank group, bank, row, column).
Command = tuple[str, int, int, int, int, int]


@frozen
class Head:
    """The commands of one head, in the lists that the generator interleaves."""

    load_score: list[Command]
    score: list[list[Command]]
    drain_score: list[list[Command]]
    softmax: list[Command]
    load_context: list[Command]
    context: list[list[Command]]
    drain_context: list[list[Command]]


def head_commands(number: int, tokens: int, head_size: int) -> Head:
    """The lists of a channel's `number`-th head."""
    columns, rows = ceil(head_size / DEPTH_CORES / LANES), ceil(tokens / TOKEN_CORES)
    key, value = number * HEAD_ROWS, number * HEAD_ROWS + VALUE_ROW
    groups = [(rank, group) for group in range(BANK_GROUPS) for rank in range(RANKS)]
    return Head(
        load_score=[("WRGB", 0, 0, bank, 0, 0) for bank in range(BANKS) for _ in range(columns)],
        score=[[_mac(key, n * columns + k) for k in range(columns)] for n in range(rows)],
        drain_score=[[("MVSB", rank, group, 0, 0, 0) for rank, group in groups] for _ in range(ceil(rows / STRIDE))],
        softmax=[("SFM", 0, 0, 0, 0, 0)],
        load_context=[
            ("MVGB", rank, group, 0, 0, 0)
            for rank in range(RANKS)
            for group in range(BANK_GROUPS)
            for _ in range(ceil(tokens / (TOKEN_CORES * LANES)))
        ],
        context=[[_mac(value, n * rows + k) for k in range(rows)] for n in range(columns)],
        drain_context=[
            [("MVSB", rank, 0, bank, 0, 0) for bank in range(BANKS) for rank in range(RANKS)] for _ in range(columns)
        ],
    )


def _mac(row: int, column: int) -> Command:
    return "MACAB", 0, 0, 0, row + column // 32, column % 32


def attacc_attention(heads: int, tokens: int, head_size: int, target: Target) -> Stream:
    """The stream of a channel that computes so many heads one after another, in pairs."""
    lists = [head_commands(number, tokens, head_size) for number in range(heads)]
    groups: list[list[Command]] = [[]]
    for first in range(0, heads - 1, 2):
        _add(groups, _pair(lists[first], lists[first + 1], first == 0))
    if heads % 2:
        _add(groups, _single(lists[-1]))
    return _stream([group for group in groups if group is not None], target)


def _add(groups: list[list[Command]], parts: Iterator[list[Command] | None]) -> None:
    """Append commands; None is a barrier."""
    for part in parts:
        if part is None:
            groups.append([])
        else:
            groups[-1].extend(part)


def _tiled(
    macs: list[list[Command]], drains: list[list[Command]], stride: int, beside: list[list[Command]]
) -> Iterator[list[Command] | None]:
    """Tiles of MACs; the drains of a tile and a part of other moves run beside the next; a barrier behind each tile."""
    count = len(drains)
    for tile in range(count + 1):
        if tile < count:
            yield from macs[tile * stride : (tile + 1) * stride]
        if tile > 0:
            yield drains[tile - 1]
        yield beside[tile] if tile < len(beside) else []
        if tile < count:
            yield None


def _pair(one: Head, other: Head, is_first: bool) -> Iterator[list[Command] | None]:
    yield one.load_score
    if is_first:  # the generator's dummy MAC, which opens the row
        yield one.score[0][:1]
    yield None
    tiles = len(one.drain_score)
    yield from _tiled(one.score, one.drain_score, STRIDE, _spread(other.load_score, tiles, 0))
    moves = _spread(one.load_context, tiles, tiles // 2)
    moves[0] = one.softmax + moves[0]
    yield from _tiled(other.score, other.drain_score, STRIDE, moves)
    tiles = len(one.context)
    moves = _spread(other.load_context, tiles, tiles // 2)
    moves[0] = other.softmax + moves[0]
    yield from _tiled(one.context, one.drain_context, 1, moves)
    yield from _tiled(one.context, one.drain_context, 1, [])  # the generator repeats the first head's rows


def _single(head: Head) -> Iterator[list[Command] | None]:
    yield head.load_score
    yield None
    yield from _tiled(head.score, head.drain_score, STRIDE, [])
    yield head.softmax
    yield head.load_context
    yield None
    yield from _tiled(head.context, head.drain_context, 1, [])


def _spread(moves: list[Command], tiles: int, first: int) -> list[list[Command]]:
    """Moves in equal parts over the tiles from the first on; the remainder is dropped, as there."""
    parts = ceil(tiles / 2) if first else tiles
    stride = int(len(moves) / parts)
    result: list[list[Command]] = [[] for _ in range(tiles)]
    for tile in range(first, tiles):
        result[tile] = moves[(tile - first) * stride : (tile - first + 1) * stride]
    return result


def _stream(groups: list[list[Command]], target: Target) -> Stream:
    commands = [(number, command) for number, group in enumerate(groups) for command in group]
    kinds = {name: target.device.command(name) for name in ("WRGB", "MVSB", "MVGB", "SFM", "MACAB")}
    size = len(commands)
    coords = np.zeros((size, len(target.axes) + 1), np.int64)
    coords[:, 1:4] = [command[1:4] for _, command in commands]
    work = np.zeros((size, 6), np.int64)
    row, column = (np.array([command[at] for _, command in commands]) for at in (4, 5))
    kind = np.array([kinds[command[0]] for _, command in commands])
    return Stream(kind, coords, row, column, np.array([number for number, _ in commands]), work)
