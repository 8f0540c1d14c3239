"""Hybrid Cost Model for Input Row Activation (HCM): the share of tiles that cross a row, and the cost of such tiles.

Sizes, offsets and rows have one unit: elements in HCM's table 1, bytes in `hybrid_cost_model_activations`.
"""

import math

from tables.counts.stream import stream_loops
from tables.estimators.loops import AXIS_OF, extent_of, input_pitches, input_step
from tables.jit import njit
from tables.nest import AXES, DRAM, IRRELEVANT, C, G, I, N, Nest, P, Q, axis_set


@njit
def open_line(start: int, length: int, active_row: int, row: int) -> int:
    """Return the activations of `length` consecutive units from `start`, with `active_row` open."""
    first = start // row
    return (start + length - 1) // row - first + (1 if first != active_row else 0)


@njit
def micro_trace(tile_h: int, tile_w: int, w_total: int, offset: int, row: int) -> int:
    """Return the activations of one tile that is read line by line, no row open at first (HCM algorithm 1).

    A line is counted at once: its addresses rise by one, so it opens its first row unless that is open, then one row
    per row boundary. BaseAddr is 0, as a tensor starts at the first byte of a row. The algorithm is meant to find "A,
    B, A, B", but no row is activated twice: with tile_w <= w_total addresses only rise, so it counts the touched rows.
    """
    active, activations = -1, 0
    for h in range(tile_h):
        start = offset + h * w_total
        activations += open_line(start, tile_w, active, row)
        active = (start + tile_w - 1) // row
    return activations


def linear_width(tile_h: int, tile_w: int, w_total: int) -> int:
    """Return W_tile of HCM Eq. 4: the tile's extent in linear memory.

    HCM does not say that W_tile is not tile_w. With tile_w = 3 no multiple of g = 32 lies in Z = [1022, 1023], and
    table 1's second line would be 1.0000 instead of 1.4375; with (3-1)*224 + 3 = 451 it comes out.
    """
    return (tile_h - 1) * w_total + tile_w


def danger_zone(width: int, row: int) -> range:
    """Return the offsets in a row from which `width` units cross its end (HCM Eq. 4).

    Negative offsets are cut off: a tile longer than a row crosses from every offset. With them table 1's last line
    would have Z = [-326, 1023] with 21 multiples of 64, and a probability of 21/16.
    """
    return range(max(0, row - width + 1), row)


def crossing_offsets(width: int, step: int, row: int) -> range:
    """Return O_cross of HCM Eq. 3: the multiples of g = gcd(S, P) in the danger zone.

    HCM only says "sampled from the crossing region". Offsets that no tile has are excluded. With all of Z table 1's
    last line would be (698*2 + 326*3) / 1024 = 2.3184 instead of 2.3125.
    """
    g = math.gcd(step, row)
    zone = danger_zone(width, row)
    return range(-(-zone.start // g) * g, row, g)


def crossing_probability(width: int, step: int, row: int) -> float:
    """Return the share of the offsets i*S mod P in the danger zone (HCM Eq. 5).

    Exact for whole periods of P/g tiles, the first at offset 0; else an estimate. A step of 0 (one tile) has g = P.
    """
    return len(crossing_offsets(width, step, row)) * math.gcd(step, row) / row


def hybrid_activations(tiles: int, tile_h: int, tile_w: int, w_total: int, step: int, row: int) -> float:
    """Return the activations of `tiles` tiles whose offsets advance by `step` (HCM Eq. 1-3, 6, 7).

    `step` for a walk down the map is stride * w_total. The stride alone has g = 1 or 2, and table 1's first line
    would be 3.0020; w_total alone gives the same table, but is not where the next tile of a strided walk is. Rows
    never stay open from one tile to the next (algorithm 1 starts afresh).
    """
    width = linear_width(tile_h, tile_w, w_total)
    offsets = crossing_offsets(width, step, row)
    crossing = tiles * crossing_probability(width, step, row)  # Eq. (6)
    safe = tiles - crossing  # Eq. (7)
    total = safe * micro_trace(tile_h, tile_w, w_total, 0, row)  # Eq. (2)
    if offsets:
        costs = [micro_trace(tile_h, tile_w, w_total, o, row) for o in offsets]
        total += crossing * sum(costs) / len(costs)  # Eq. (3)
    return total  # Eq. (1)


def hybrid_cost_model_activations(nest: Nest, row_bytes: int) -> float:
    """Return HCM's estimate for I's stream: fetches times planes times the hybrid cost of a tile's plane.

    HCM has one map of W_total columns and one step; a nest has more, so:

    - N_total: every fetch from DRAM (the loops that `stream_loops` leaves) of every plane of the tile; planes are (n,
      g, c) in NGCHW, n in NHWGC. The cold start of algorithm 1 then holds for planes too: small planes in one row are
      counted once each.
    - NHWGC: a pixel is G*C elements wide and the tile's line reaches from its first to its last element. Channels of
      other groups or tiles in between count as read; they only add rows if a pixel is longer than a row.
    - S: the offsets are sums of multiples of all loops' and planes' steps, so S is their gcd, for which Eq. 5 visits
      the same offsets. All are taken as equally likely, which Eq. 5 also assumes.
    - Gaps of an array tile or step set along W and H count as read.
    - HCM knows the packed layout only; a row-aligned I is estimated as if it were packed.
    """
    consumer = nest.consumers(I)[0]
    pitches = input_pitches(nest)
    sets = {axis: axis_set(nest, I, consumer, axis) for axis in AXES[I][0]}
    in_line = (P, G, C) if nest.layout[I] == 1 else (P,)
    over_planes = (N,) if nest.layout[I] == 1 else (N, G, C)
    w_bytes = nest.width(I, DRAM) + sum((extent_of(sets[a]) - 1) * pitches[a] for a in in_line)
    tiles, step = 1, 0
    for axis in over_planes:
        tiles *= len(sets[axis])
        step = math.gcd(step, pitches[axis] if len(sets[axis]) > 1 else 0)
    for d, _, factor, inside in stream_loops(nest, I, consumer):
        tiles *= factor
        if d not in IRRELEVANT[I]:
            step = math.gcd(step, input_step(nest, d, inside) * pitches[AXIS_OF.get(d, d)])
    return hybrid_activations(tiles, extent_of(sets[Q]), w_bytes, pitches[Q], step, row_bytes)
