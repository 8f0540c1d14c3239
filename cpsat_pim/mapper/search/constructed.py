"""A mapping that is built without a search, for layers whose time ends without any.

Loops start at the DRAM, outputs outside reductions, so that no partial sum returns. Lanes, rows and columns take what
they can of each dim; then the buffers take loops from the DRAM, one prime at a time, as long as the mapping is legal.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import prod

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, Dim, Direction, Level, Tensor
from cpsat_pim.mapper.space.banks import searched_banks
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints, check_constraints
from cpsat_pim.workload import ConvWorkload
from tables.factors import primes_of

#: Outputs outside, reductions inside.
_ORDER = (Dim.N, Dim.G, Dim.K, Dim.Q, Dim.P, Dim.C, Dim.S, Dim.R)
#: Which dims the array takes first: operands and outputs of matrix products, then the others.
_SPREAD = (Dim.C, Dim.K, Dim.P, Dim.Q, Dim.N, Dim.G, Dim.S, Dim.R)
#: Which loops the buffers take first: filters, so that windows overlap in them, then reductions, so that sums are
#: finished there, or outputs that share their inputs.
_KEPT = (
    (Dim.R, Dim.S, Dim.C, Dim.P, Dim.Q, Dim.K, Dim.N, Dim.G),
    (Dim.R, Dim.S, Dim.K, Dim.C, Dim.P, Dim.Q, Dim.N, Dim.G),
)
#: Levels that take loops, innermost last: the row buffer only holds what must be row-aligned.
_TAKERS = (Level.GLOBAL_BUFFER, Level.PE)


def constructed_mappings(layer: ConvWorkload, arch: PIMArchitecture, constraints: Constraints) -> Iterator[Mapping]:
    """Yield legal mappings that keep the constraints, without repeats: at most two for each of a few choices of stored
    tensors.
    """

    def is_allowed(mapping: Mapping) -> bool:
        return not check_mapping(layer, arch, mapping) and not check_constraints(mapping, constraints)

    yielded, directions = set(), _directions(arch)
    for start, kept in product(_starts(layer, arch, constraints), _KEPT):
        grown = _grown(start, directions, kept, is_allowed)
        if grown not in yielded and is_allowed(grown):
            yielded.add(grown)
            yield grown


def _starts(layer: ConvWorkload, arch: PIMArchitecture, constraints: Constraints) -> Iterator[Mapping]:
    """Yield mappings with all loops at the DRAM: for each choice of stored tensors that the banks allow."""
    ones = ((1,) * len(Dim),) * len(Level)
    for stored, (banks, counts) in product(_stored_sets(arch), searched_banks(arch, constraints)):
        if any(stored[Level.ROW_BUFFER][t] and banks.count(banks[t]) > 1 for t in Tensor):
            continue  # No open row is shared.
        is_aligned = stored[Level.ROW_BUFFER][Tensor.I]
        yield Mapping(
            temporal=(*ones[:3], layer.bounds),
            spatial=ones[:3],
            order=((), (), (), tuple(d for d in _ORDER if layer.bounds[d] > 1)),
            stored=stored,
            block_h=int(is_aligned),
            block_w=int(is_aligned),
            banks=banks,
            bank_counts=counts,
            layout=tuple(given or 0 for given in constraints.layout),
        )


def _stored_sets(arch: PIMArchitecture) -> list[tuple[tuple[bool, bool, bool], ...]]:
    """Return choices of stored tensors: everything on chip, nothing that may pass, all but one level, everything, all
    on chip and only I in the row buffer, without repeats; the row buffer stores what it must.
    """
    least = [[min(arch.storing_choices(m, t)) for t in Tensor] for m in BUFFERS]
    most = [[max(arch.storing_choices(m, t)) for t in Tensor] for m in BUFFERS]
    choices = [
        tuple(tuple((most if m in levels else least)[m]) for m in BUFFERS)
        for levels in ((Level.PE, Level.GLOBAL_BUFFER), (Level.GLOBAL_BUFFER,), (Level.PE,), (), tuple(BUFFERS))
    ]
    # Strided windows of a machine without a global buffer: a PE takes them from blocks in the row buffer only.
    blocks = (most[Level.ROW_BUFFER][Tensor.I], *least[Level.ROW_BUFFER][Tensor.W :])
    choices.append((*choices[0][: Level.ROW_BUFFER], blocks))
    return list(dict.fromkeys(choices))  # type: ignore[arg-type]


def _grown(
    mapping: Mapping,
    directions: dict[Direction, int],
    kept: tuple[Dim, ...],
    is_allowed: Callable[[Mapping], bool],
) -> Mapping:
    """Return the mapping after moves that keep it allowed: primes of DRAM loops to directions of the array, then to the
    buffers that store anything.

    Where it is not allowed, filters lie in a buffer first.
    """
    takers = [level for level in _TAKERS if any(mapping.stored[level])]
    if takers and not is_allowed(mapping):
        for d in (Dim.R, Dim.S):
            mapping = _taken(d, takers[0], mapping, mapping.temporal[Level.DRAM][d])
    for direction, size in directions.items():
        mapping = _filled(mapping, direction, size, is_allowed)
    for level, d in product(takers, kept):
        mapping = _moved_far(mapping, d, is_allowed, partial(_taken, d, level))
    return mapping


def _filled(mapping: Mapping, direction: Direction, size: int, is_allowed: Callable[[Mapping], bool]) -> Mapping:
    """Return the mapping with a direction of the array filled: by the dims in turn, and if these leave a part of it
    idle, first by the dim that fills most of it alone.
    """

    def filled_by(dims: Sequence[Dim]) -> Mapping:
        filled = mapping
        for d in dims:
            filled = _moved_far(filled, d, is_allowed, partial(_spread, d, direction))
        return filled

    def used(filled: Mapping) -> int:
        return prod(filled.spatial[direction])

    filled = filled_by(_SPREAD)
    if used(filled) < size:
        most = max(_SPREAD, key=lambda d: used(filled_by([d])))
        filled = max(filled, filled_by([most, *_SPREAD]), key=used)
    return filled


def _moved_far(
    mapping: Mapping, d: Dim, is_allowed: Callable[[Mapping], bool], move: Callable[[Mapping, int], Mapping]
) -> Mapping:
    """Return the mapping with as much of a DRAM loop moved as is allowed, prime by prime."""
    refused = 0
    for prime in primes_of(mapping.temporal[Level.DRAM][d]):
        if prime != refused:
            moved = move(mapping, prime)
            if is_allowed(moved):
                mapping = moved
            else:
                refused = prime
    return mapping


def _directions(arch: PIMArchitecture) -> dict[Direction, int]:
    """Return the directions along which the array has more than one element, lanes first, and how many."""
    array = arch.pe_array
    sizes = {
        Direction.INTERNAL: array.compute_unit.num_macs,
        Direction.H: array.array_shape.h,
        Direction.W: array.array_shape.w,
    }
    return {direction: size for direction, size in sizes.items() if size > 1}


def _spread(d: Dim, direction: Direction, mapping: Mapping, factor: int) -> Mapping:
    """Return the mapping with a factor of a DRAM loop spread over a direction of the array."""
    spatial = [list(row) for row in mapping.spatial]
    spatial[direction][d] *= factor
    return attrs.evolve(_shortened(mapping, d, factor), spatial=spatial)


def _taken(d: Dim, level: Level, mapping: Mapping, factor: int) -> Mapping:
    """Return the mapping with a factor of a DRAM loop at a buffer."""
    mapping = _shortened(mapping, d, factor)
    temporal = [list(row) for row in mapping.temporal]
    temporal[level][d] *= factor
    return _ordered(attrs.evolve(mapping, temporal=temporal))


def _shortened(mapping: Mapping, d: Dim, factor: int) -> Mapping:
    """Return the mapping with fewer iterations at the DRAM."""
    temporal = [list(row) for row in mapping.temporal]
    temporal[Level.DRAM][d] //= factor
    return _ordered(attrs.evolve(mapping, temporal=temporal))


def _ordered(mapping: Mapping) -> Mapping:
    """Return the mapping with the loops of every level in the order of `_ORDER`."""
    return attrs.evolve(mapping, order=[[d for d in _ORDER if mapping.temporal[m][d] > 1] for m in Level])
