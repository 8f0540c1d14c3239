"""Enumerate the declared search space of a tiny layer, or the part of a larger one that satisfies constraints.

What is legal is decided by the rules of `oracle`, which share no code with search, validator and `tables`.
"""

import itertools
from collections.abc import Iterator

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, ON_CHIP, Dim, Level, Tensor
from cpsat_pim.mapping import EVEN, Mapping
from cpsat_pim.mapping.constraints import FREE, Constraints, check_constraints
from cpsat_pim.study.fuzz.oracle import (
    Legality,
    bank_assignments,
    bank_counts,
    input_blocks,
    may_store,
    residency_points,
    spread_fits,
)
from cpsat_pim.workload import ConvWorkload


def every_mapping(layer: ConvWorkload, arch: PIMArchitecture, constraints: Constraints = FREE) -> Iterator[Mapping]:
    """Yield every legal mapping: factorizations, orders, stored sets, residency points, layouts, blocks, banks, and how
    many of them.
    """
    stores = [list(itertools.product(*(_storing(arch, constraints, m, t) for t in Tensor))) for m in BUFFERS]
    for factors in itertools.product(*(_factors(layer, constraints, d) for d in Dim)):
        rows = list(zip(*factors, strict=True))
        temporal, spatial = rows[: len(Level)], rows[len(Level) :]
        if not spread_fits(arch, tuple(spatial)):
            continue
        loops = [[d for d in Dim if temporal[m][d] > 1] for m in Level]
        orders = list(itertools.product(*(itertools.permutations(found) for found in loops)))
        for stored in itertools.product(*stores):
            draft = Mapping(temporal=temporal, spatial=spatial, order=orders[0], stored=stored)
            for h, w in input_blocks(layer, draft) if stored[Level.ROW_BUFFER][Tensor.I] else [(0, 0)]:
                draft = attrs.evolve(draft, block_h=h, block_w=w)
                found = _in_every_order(layer, arch, draft, orders, _banks(arch, constraints))
                yield from (mapping for mapping in found if not check_constraints(mapping, constraints))


def _banks(arch: PIMArchitecture, constraints: Constraints) -> list[tuple[tuple[int, int, int], tuple[int, ...]]]:
    """Return all assignments to banks, with the numbers of banks that the constraints leave open."""
    found = [(banks, counts) for banks in bank_assignments(arch) for counts in bank_counts(arch, banks)]
    return [(banks, counts) for banks, counts in found if constraints.bank_counts in (None, counts)]


def _in_every_order(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    draft: Mapping,
    orders: list[tuple[tuple[Dim, ...], ...]],
    assignments: list[tuple[tuple[int, int, int], tuple[int, ...]]],
) -> Iterator[Mapping]:
    """Yield the legal mappings of a draft, with every order, residency point, assignment to banks and layout."""
    for order in orders:
        for outside in _every_point(draft, order) if arch.uneven_residency else [EVEN]:
            for banks, counts in assignments:
                ordered = attrs.evolve(draft, order=order, outside=outside, banks=banks, bank_counts=counts)
                if Legality(layer, arch, ordered).is_legal():
                    for layout in itertools.product(range(2), repeat=len(Tensor)):
                        yield attrs.evolve(ordered, layout=layout)


def _every_point(draft: Mapping, order: tuple[tuple[Dim, ...], ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield all residency points: even, or any whose innermost outside loop changes the tile."""
    points = [residency_points(order[m], t) if draft.stored[m][t] else [0] for m in ON_CHIP for t in Tensor]
    for chosen in itertools.product(*points):
        yield chosen[: len(Tensor)], chosen[len(Tensor) :]


def _factors(layer: ConvWorkload, constraints: Constraints, d: Dim) -> list[tuple[int, ...]]:
    """Return all factorizations of a dim over levels and directions that the constraints allow."""
    fixed = [row[d] for row in (*constraints.temporal, *constraints.spatial)]
    return [
        factors
        for factors in _ordered_factors(layer.bounds[d], len(fixed))
        if all(wanted in (None, n) for wanted, n in zip(fixed, factors, strict=True))
    ]


def _storing(arch: PIMArchitecture, constraints: Constraints, level: Level, t: Tensor) -> list[bool]:
    """Return whether a level may store a tensor and may bypass it, as machine and constraints allow."""
    return [choice for choice in sorted(may_store(arch, level, t)) if constraints.stored[level][t] in (None, choice)]


def _ordered_factors(n: int, slots: int) -> list[tuple[int, ...]]:
    """Return all ways to write n as an ordered product."""
    if slots == 1:
        return [(n,)]
    firsts = (d for d in range(1, n + 1) if n % d == 0)
    return [(first, *rest) for first in firsts for rest in _ordered_factors(n // first, slots - 1)]
