"""Energy of an on-chip choice as a linear expression, and its lower bound per spatial mapping.

A *stored set* says which of PE, global buffer and row buffer store a tensor. The accesses of a tensor are linear in a
few *quantities* of the mapping, with coefficients that depend on the stored set alone. A spatial mapping and a stored
set fix the quantities at the MACs; refetches can only add to them. So for each way to spread dims over H, W and lanes,
and for each stored set, the energy without any refetch is a lower bound.
"""

import itertools
import math
from collections import defaultdict
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from tables.factors import divisors
from tables.nest import (
    DRAM,
    FILTER_OF,
    GLOBAL_BUFFER,
    IRRELEVANT,
    MACS,
    PE,
    ROW_BUFFER,
    C,
    G,
    I,
    Ints,
    K,
    LayerShape,
    N,
    O,
    P,
    W,
    span,
)

Stored = tuple[bool, bool, bool]
#: A linear expression: the coefficient of each quantity.
Terms = dict[str, int]
READ, WRITE = 0, 1


class Array(NamedTuple):
    """The PE array: PEs along both directions, a PE's lanes and their dims, whether a dim uses one direction only."""

    height: int
    width: int
    lanes: int
    lane_dims: tuple[int, ...]
    is_exclusive: bool


class Sharing(NamedTuple):
    """What the array shares: reads of one operand (`multicast`), writes of one output (`spatial_reduction`)."""

    multicast: bool
    spatial_reduction: bool


class Energies(NamedTuple):
    """fJ per element [level][read, write], and what the array shares."""

    access_fj: tuple[tuple[int, int], ...]
    sharing: Sharing


def access_terms(t: int, stored: Stored, array: Sharing) -> dict[tuple[int, int], Terms]:
    """Return the accesses of t per (level, direction), as linear expressions in its quantities.

    `stored`: whether PE, global buffer, row buffer store t. The counts are those of `tables.counts.accesses`. The
    quantities are numbers of elements over the layer:

    - `moved2`, `moved1`, `moved0`: moved into the row buffer, the global buffer, the array;
    - `fills`: written into PEs; `uses`: used by the steps' MACs, shared ones once; `macs`: MACs;
    - of outputs `held`: partial sums that leave PEs; `holders`: the same for one visit of each tile; `sums`: additions
      in PEs; `one`: elements of O.
    """
    terms: dict[tuple[int, int], Terms] = defaultdict(lambda: defaultdict(int))
    for parent, child in links(stored):
        for level, way, quantity, count in link_terms(t, parent, child, array):
            terms[level, way][quantity] += count
    return {key: {q: c for q, c in found.items() if c} for key, found in terms.items()}


def links(stored: Stored) -> list[tuple[int, int]]:
    """Return the links (parent, child) over which a tensor moves, outermost first."""
    chain = [DRAM, *(m for m in (ROW_BUFFER, GLOBAL_BUFFER, PE) if stored[m]), MACS]
    return list(itertools.pairwise(chain))


def link_terms(t: int, parent: int, child: int, array: Sharing) -> list[tuple[int, int, str, int]]:
    """Return the accesses that one link causes: (level, direction, quantity, coefficient)."""
    if t != O:
        if child == MACS:
            return [(parent, READ, "macs" if parent == PE or not array.multicast else "uses", 1)]
        if child == PE:
            return [(parent, READ, "moved0" if array.multicast else "fills", 1), (PE, WRITE, "fills", 1)]
        return [(parent, READ, f"moved{child}", 1), (child, WRITE, f"moved{child}", 1)]
    if child == MACS:
        return _partial_sum_terms(parent, array.spatial_reduction)
    out, first = (f"moved{child}", "one") if child != PE or array.spatial_reduction else ("held", "holders")
    return [
        (child, READ, "held" if child == PE else out, 1),
        (parent, WRITE, out, 1),
        *((level, way, quantity, sign) for level, way in ((parent, READ), (child, WRITE))
          for quantity, sign in ((out, 1), (first, -1))),
    ]  # fmt: skip


def _partial_sum_terms(parent: int, reduced: bool) -> list[tuple[int, int, str, int]]:
    """Return the reads and writes of partial sums by the MACs. A sum that starts afresh is not read."""
    if parent != PE:
        quantity = "uses" if reduced else "macs"
        return [(parent, WRITE, quantity, 1), (parent, READ, quantity, 1), (parent, READ, "one", -1)]
    if not reduced:
        return [(PE, WRITE, "macs", 1), (PE, READ, "macs", 1), (PE, READ, "holders", -1)]
    afresh = (("held", -1), ("moved0", 1), ("one", -1))  # visits * (holders - 1) + 1
    return [(PE, WRITE, "sums", 1), (PE, READ, "sums", 1), *((PE, READ, q, c) for q, c in afresh)]


def energy_terms(t: int, stored: Stored, energies: Energies) -> Terms:
    """Return the energy of a tensor's accesses in fJ, linear in the quantities of `access_terms` (Eq. 43)."""
    total: Terms = defaultdict(int)
    for (level, way), terms in access_terms(t, stored, energies.sharing).items():
        for quantity, count in terms.items():
            total[quantity] += count * energies.access_fj[level][way]
    return {quantity: c for quantity, c in total.items() if c}


def crossing_terms(t: int, stored: Stored, array: Sharing) -> Terms:
    """Return the elements of t that cross into and out of the array, linear in its quantities."""
    consumer = PE if stored[PE] else MACS
    parent = next((m for m in (1, 2) if stored[m]), DRAM)
    total: Terms = defaultdict(int)
    for level, _, quantity, count in link_terms(t, parent, consumer, array):
        if level == parent:
            total[quantity] += count
    return {quantity: c for quantity, c in total.items() if c}


def input_tiles_span(shape: LayerShape, axis: int, e_outputs: int, e_filters: int) -> int:
    """Return the sum of the spans of I's tiles along an axis, halos included."""
    side = 0 if axis == P else 1
    filters = FILTER_OF[axis]
    tiles = (shape.bounds[axis] // e_outputs) * (shape.bounds[filters] // e_filters)
    return tiles * span(e_outputs, e_filters, shape.stride[side], shape.dilation[side])


@cache
def array_tiles_span(
    shape: LayerShape, axis: int, held_p: int, e0_p: int, pes_p: int, held_r: int, e0_r: int, pes_r: int
) -> int:
    """Return the positions along an axis that array tiles cover, summed over all array tiles.

    Along the output dim (p) and the filter dim (r): `held` indices of a PE's tile, the PEs `e0` apart, `pes` of them.
    """
    side = 0 if axis == P else 1
    stride, dilation = shape.stride[side], shape.dilation[side]
    starts = np.add.outer(stride * e0_p * np.arange(pes_p), dilation * e0_r * np.arange(pes_r)).ravel()
    covered = np.unique(np.add.outer(starts, np.arange(span(held_p, held_r, stride, dilation)))).size
    tiles = (shape.bounds[axis] // (held_p * pes_p)) * (shape.bounds[FILTER_OF[axis]] // (held_r * pes_r))
    return tiles * int(covered)


@cache
def step_points(
    shape: LayerShape, axis: int, lanes_p: int, e0_p: int, pes_p: int, lanes_r: int, e0_r: int, pes_r: int
) -> int:
    """Return the distinct positions along an axis that a step uses, summed over all steps.

    Along the output dim (p) and the filter dim (r): `lanes` of a PE, the PEs `e0` apart, `pes` of them.
    """
    side = 0 if axis == P else 1
    stride, dilation = shape.stride[side], shape.dilation[side]
    starts = np.add.outer(stride * e0_p * np.arange(pes_p), dilation * e0_r * np.arange(pes_r)).ravel()
    inside = np.add.outer(stride * np.arange(lanes_p), dilation * np.arange(lanes_r)).ravel()
    steps = (shape.bounds[axis] // (lanes_p * pes_p)) * (shape.bounds[FILTER_OF[axis]] // (lanes_r * pes_r))
    return steps * int(np.unique(np.add.outer(starts, inside)).size)


@lru_cache(maxsize=8)
def spatial_vectors(shape: LayerShape, array: Array) -> Ints:
    """Return all spatial mappings that fit the array: int[n, 16], PEs per dim, then lanes per dim; read-only."""
    dims = [d for d in range(8) if shape.bounds[d] > 1]
    found: set[tuple[int, ...]] = set()

    def extend(i: int, height: int, width: int, lanes: int, vector: tuple[int, ...]) -> None:
        if i == len(dims):
            found.add(vector)
            return
        d = dims[i]
        for h in divisors(shape.bounds[d]):
            if h > height:
                break
            for w in divisors(shape.bounds[d] // h):
                if w > width or (array.is_exclusive and h > 1 and w > 1):
                    break
                for n in divisors(shape.bounds[d] // (h * w)) if d in array.lane_dims else (1,):
                    if n > lanes or (array.is_exclusive and n > 1 and h * w > 1):
                        break
                    grown = list(vector)
                    grown[d], grown[8 + d] = h * w, n
                    extend(i + 1, height // h, width // w, lanes // n, tuple(grown))

    extend(0, array.height, array.width, array.lanes, (1,) * 16)
    vectors = np.array(sorted(found), np.int64)
    vectors.flags.writeable = False
    return vectors


def place_on_array(pes: tuple[int, ...], array: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a split of the PEs per dim over the array's height and width; `pes` is from `spatial_vectors`.

    Raises:
        ValueError: no split fits the array.
    """
    splits = [[(h, n // h) for h in divisors(n) if not (array.is_exclusive and 1 < h < n)] for n in pes]
    for split in itertools.product(*splits):
        height, width = zip(*split, strict=True)
        if math.prod(height) <= array.height and math.prod(width) <= array.width:
            return height, width
    raise ValueError(f"no split of {pes} PEs fits {array.height} x {array.width}")


def needed_elements(shape: LayerShape, t: int) -> int:
    """Return the elements of a tensor that MACs use: of I not those that the stride skips."""
    outside = math.prod(shape.bounds[d] for d in range(8) if d not in IRRELEVANT[t])
    if t != I:
        return outside
    rest = math.prod(shape.bounds[d] for d in (C, N, G))
    return rest * math.prod(
        step_points(shape, a, shape.bounds[a], shape.bounds[a], 1, shape.bounds[f], shape.bounds[f], 1)
        for a, f in FILTER_OF.items()
    )


def min_quantities(shape: LayerShape, t: int, vectors: Ints) -> dict[str, Ints]:
    """Return a lower bound int[n] on each quantity of a tensor per spatial mapping int[n, 16].

    No tile is fetched twice, and PEs lie as far apart as makes the positions of I fewest.
    """
    bounds = np.array(shape.bounds)
    macs = int(np.prod(bounds))
    pes, lanes = vectors[:, :8], vectors[:, 8:]
    own = list(IRRELEVANT[t])
    ones = np.ones(len(vectors), np.int64)
    if t == I:
        rest = int(bounds[[C, N, G]].prod())
        least = needed_elements(shape, I)
        points = [
            _min_points_of(shape, a, np.column_stack([lanes[:, a], pes[:, a], lanes[:, f], pes[:, f]]))
            for a, f in FILTER_OF.items()
        ]
        uses = rest * points[0] * points[1] * (bounds[K] // (pes[:, K] * lanes[:, K]))
        return {"moved2": least * ones, "moved1": least * ones, "moved0": least * ones, "fills": least * pes[:, K],
                "uses": uses, "macs": macs * ones}  # fmt: skip
    elements = macs // int(bounds[own].prod())
    held = pes[:, own].prod(axis=1)
    repeats = bounds[own].prod() // (held * lanes[:, own].prod(axis=1))
    quantities = {f"moved{c}": elements * ones for c in range(3)}
    quantities |= {"uses": elements * repeats, "macs": macs * ones}
    if t == W:
        return quantities | {"fills": elements * held}
    return quantities | {
        "held": elements * held, "sums": elements * repeats * held, "holders": elements * held, "one": elements * ones
    }  # fmt: skip


def _min_points_of(shape: LayerShape, axis: int, rows: Ints) -> Ints:
    """Return `_min_points` of each row of its arguments; few rows differ."""
    number = np.ravel_multi_index(tuple(rows.T), tuple(rows.max(axis=0, initial=0) + 1))
    _, one, which = np.unique(number, return_index=True, return_inverse=True)
    return np.array([_min_points(shape, axis, *row) for row in rows[one].tolist()], np.int64)[which]


@cache
def _min_points(shape: LayerShape, axis: int, lanes_p: int, pes_p: int, lanes_r: int, pes_r: int) -> int:
    """Return the fewest positions that all steps use along an axis, over all distances between PEs."""
    bound_p, bound_r = shape.bounds[axis], shape.bounds[FILTER_OF[axis]]
    steps_p = [lanes_p * k for k in divisors(bound_p // (pes_p * lanes_p))] if pes_p > 1 else [lanes_p]
    steps_r = [lanes_r * k for k in divisors(bound_r // (pes_r * lanes_r))] if pes_r > 1 else [lanes_r]
    return min(step_points(shape, axis, lanes_p, e_p, pes_p, lanes_r, e_r, pes_r) for e_p in steps_p for e_r in steps_r)


def min_energy(shape: LayerShape, t: int, stored: Stored, energies: Energies, vectors: Ints) -> Ints:
    """Return int[n]: a lower bound on the energy (fJ) of a tensor's accesses per spatial mapping int[n, 16]."""
    return energy_of(t, stored, energies, min_quantities(shape, t, vectors))


def energy_of(t: int, stored: Stored, energies: Energies, quantities: dict[str, Ints]) -> Ints:
    """Return int[n]: the energy (fJ) of a tensor's accesses from its quantities, int[n] each."""
    total = np.zeros(len(quantities["macs"]), np.int64)
    for quantity, coefficient in energy_terms(t, stored, energies).items():
        total += coefficient * quantities[quantity]
    return total
