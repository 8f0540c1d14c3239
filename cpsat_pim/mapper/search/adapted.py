"""Mappings of other layers, fitted to the bounds of a layer (heuristic): alike layers have alike good mappings.

Of each factor the largest divisor of what is left of the bound is kept, from the innermost level to the outermost one;
the DRAM's loops take what remains.
"""

from collections.abc import Iterable, Iterator

import attrs

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, Dim, Direction, Level
from cpsat_pim.mapper.space.banks import searched_banks
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints, check_constraints
from cpsat_pim.mapping.mapping import EVEN
from cpsat_pim.workload import ConvWorkload
from tables.factors import divisors

#: Rows and columns, of outputs and filters, in each other's place.
_TRANSPOSED = {Dim.P: Dim.Q, Dim.Q: Dim.P, Dim.R: Dim.S, Dim.S: Dim.R}


def adapted_mappings(
    mappings: Iterable[Mapping], layer: ConvWorkload, arch: PIMArchitecture, constraints: Constraints
) -> Iterator[Mapping]:
    """Yield the legal ones of other layers' mappings, fitted to a layer, as they are and transposed, without repeats.

    They keep the constraints, and have the layouts that these say.
    """
    banks, yielded = set(searched_banks(arch, constraints)), set()
    for mapping in mappings:
        for dims in (dict(zip(Dim, Dim, strict=True)), {d: _TRANSPOSED.get(d, d) for d in Dim}):
            fitted = _fitted(mapping, layer, dims, constraints)
            if fitted in yielded or (fitted.banks, fitted.bank_counts) not in banks:
                continue
            yielded.add(fitted)
            if not check_mapping(layer, arch, fitted) and not check_constraints(fitted, constraints):
                yield fitted


def _fitted(mapping: Mapping, layer: ConvWorkload, dims: dict[Dim, Dim], constraints: Constraints) -> Mapping:
    """Return a mapping fitted to a layer, whose dims take the factors of `dims`."""
    spatial = {s: [1] * len(Dim) for s in Direction}
    temporal = {m: [1] * len(Dim) for m in Level}
    for d in Dim:
        left = layer.bounds[d]
        for row, factors in _inner_to_outer(mapping, spatial, temporal):
            row[d] = max(n for n in divisors(left) if n <= factors[dims[d]])
            left //= row[d]
        temporal[Level.DRAM][d] = left
    return attrs.evolve(
        mapping,
        temporal=list(temporal.values()),
        spatial=list(spatial.values()),
        order=[_ordered([dims[d] for d in mapping.order[m]], temporal[m]) for m in Level],
        layout=[old if given is None else given for old, given in zip(mapping.layout, constraints.layout, strict=True)],
        outside=EVEN,
    )


def _inner_to_outer(
    mapping: Mapping, spatial: dict[Direction, list[int]], temporal: dict[Level, list[int]]
) -> Iterator[tuple[list[int], tuple[int, ...]]]:
    """Yield new and old factors of the array and of the buffers."""
    yield from ((spatial[s], mapping.spatial[s]) for s in reversed(Direction))
    yield from ((temporal[m], mapping.temporal[m]) for m in BUFFERS)


def _ordered(loops: list[Dim], factors: list[int]) -> list[Dim]:
    """Return the loops of a level in the order of some loops; those that these lack come outside."""
    return [d for d in Dim if factors[d] > 1 and d not in loops] + [d for d in loops if factors[d] > 1]
