"""Constructive mappers: the four classic dataflows (section 7.1), and the largest tiles that fit.

All start from a plain mapping and greedily move prime factors of the DRAM's loops inwards while the mapping stays
legal: first over the array, then into the tiles of the levels, inner to outer. Of several legal moves they take the one
with the most MACs per byte of the resulting tile. What remains open (the tensors in the global buffer, the layouts) is
chosen by exact cost.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import attrs
from attrs import frozen

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapping import Mapping, Stored
from cpsat_pim.mapping.check import box_elems
from cpsat_pim.study.baselines.draft import GLOBAL_BUFFER, LANES, PE, ROW_BUFFER, Draft, H, W
from cpsat_pim.study.baselines.problem import Problem, Scored
from cpsat_pim.study.baselines.space import StoredSets, order_for
from tables.factors import primes_of

_EVERYTHING: Stored = (True, True, True)
_NOTHING: Stored = (False, False, False)
_POSITIONS = (Dim.P, Dim.Q, Dim.N)
_REST = tuple(Dim)


@frozen(kw_only=True)
class Dataflow:
    """A dataflow: the dims to spread over rows, columns and lanes, in order of preference, each as far as it fits.

    `keeps`: the tensors that PEs store. `stays`: the tensors of which one should be replaced least often.
    """

    rows: Sequence[Dim]
    columns: Sequence[Dim]
    lanes: Sequence[Dim]
    keeps: Stored
    stays: Sequence[Tensor]


# As in Timeloop's and Eyeriss' terms: NVDLA's array is weight-stationary, C x K; ShiDianNao's output-stationary, Q x P;
# Eyeriss has filter rows over one direction. The dims behind the first ones fill what these leave idle.
WEIGHT_STATIONARY = Dataflow(
    rows=(Dim.C, Dim.R, Dim.S, *_POSITIONS),
    columns=(Dim.K, Dim.G, *_POSITIONS),
    lanes=_REST,
    keeps=(False, True, True),
    stays=(Tensor.W,),
)
OUTPUT_STATIONARY = Dataflow(
    rows=(Dim.Q, Dim.N, Dim.K, Dim.G),
    columns=(Dim.P, Dim.N, Dim.K, Dim.G),
    lanes=_REST,
    keeps=(False, False, True),
    stays=(Tensor.O,),
)
INPUT_STATIONARY = Dataflow(
    rows=(Dim.C, Dim.G, *_POSITIONS),
    columns=(Dim.K,),
    lanes=_REST,
    keeps=(True, False, False),
    stays=(Tensor.I,),
)
ROW_STATIONARY = Dataflow(
    rows=(Dim.S, Dim.R, Dim.C, *_POSITIONS),
    columns=(Dim.K, Dim.G, *_POSITIONS),
    lanes=_REST,
    keeps=_EVERYTHING,
    stays=tuple(Tensor),
)


def map_by_dataflow(problem: Problem, flow: Dataflow) -> Scored | None:
    """Return the cheapest of the few mappings that a dataflow allows."""
    if problem.space.is_empty:
        return None
    drafts: list[Draft] = []
    for stored in _stored_sets(problem, flow.keeps, flow.stays):
        draft = problem.space.plain(stored)
        for place, dims in ((H, flow.rows), (W, flow.columns), (LANES, flow.lanes)):
            for d in dims:
                draft = _grow(problem, draft, place, (d,))
        drafts += _orders(_grow_tiles(problem, draft), flow.stays)
    return problem.best(_layouts(problem, drafts))


def map_by_largest_tiles(problem: Problem) -> Scored | None:
    """Store every tensor wherever allowed, then fill lanes, rows, columns and buffers in this order."""
    if problem.space.is_empty:
        return None
    drafts: list[Draft] = []
    for stored in _stored_sets(problem, _EVERYTHING, ()):
        draft = problem.space.plain(stored)
        for place in (LANES, H, W):
            draft = _grow(problem, draft, place, _REST)
        drafts += _orders(_grow_tiles(problem, draft), tuple(Tensor))
    return problem.best(_layouts(problem, drafts))


# --- What is left open -----------------------------------------------------------------------------------------------


def _stored_sets(problem: Problem, keeps: Stored, stays: Sequence[Tensor]) -> list[StoredSets]:
    """Return the stored sets to try, or the nearest that the machine allows: all tensors in the global buffer, and all
    but those that stay in the PEs.
    """
    buffers: list[Stored] = [_EVERYTHING]
    if len(stays) == 1:
        buffers.append(tuple(t not in stays for t in Tensor))  # type: ignore[arg-type]
    return list(dict.fromkeys(problem.space.nearest((keeps, buffer, _NOTHING)) for buffer in buffers))


def _orders(draft: Draft, stays: Sequence[Tensor]) -> list[Draft]:
    """Return the draft with each loop order that keeps one of these tensors stationary at all levels."""
    return [attrs.evolve(draft, order=order_for(t)) for t in stays]


def _layouts(problem: Problem, drafts: Sequence[Draft]) -> Iterator[Mapping]:
    """Yield the legal mappings of these drafts, with every choice of axis orders."""
    for draft, layout in itertools.product(drafts, itertools.product(range(2), repeat=3)):
        found = attrs.evolve(draft, layout=layout)
        if problem.space.is_legal(found):
            yield found.to_mapping(problem.layer)


# --- Growing ---------------------------------------------------------------------------------------------------------


def _grow_tiles(problem: Problem, draft: Draft) -> Draft:
    """Grow the tile of every level that stores something, inner to outer, as far as its capacity allows."""
    for place in (PE, GLOBAL_BUFFER, ROW_BUFFER):
        if any(draft.stored[place]):
            draft = _grow(problem, draft, place, _REST)
    return draft


def _grow(problem: Problem, draft: Draft, place: int, dims: Sequence[Dim]) -> Draft:
    """Move primes of dims from the DRAM's loops to a place until no further move is legal."""
    while True:
        grown = [
            draft.moved(d, prime, Level.DRAM, place)
            for d in dims
            for prime in set(primes_of(draft.factors[Level.DRAM][d]))
        ]
        legal = [found for found in grown if problem.space.is_legal(found)]
        if not legal:
            return draft
        draft = min(legal, key=lambda found: _bytes_a_mac(problem, found, place))


def _bytes_a_mac(problem: Problem, draft: Draft, place: int) -> float:
    """Return the bytes of the three tensors' tiles per MAC of the tile; for rows and columns, of the whole array's
    tile.
    """
    level = {LANES: Level.PE, H: Level.GLOBAL_BUFFER, W: Level.GLOBAL_BUFFER}.get(place, place)
    extents = draft.to_mapping(problem.layer).extents(Level(level))
    widths = (problem.layer.input_bytes, problem.layer.weight_bytes, problem.layer.psum_bytes)
    return sum(box_elems(problem.layer, extents, t) * widths[t] for t in Tensor) / math.prod(extents)
