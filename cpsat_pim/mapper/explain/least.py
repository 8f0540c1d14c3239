"""Decide by the smallest mappings of a layer whether any mapping is legal.

Loops run as far out as constraints allow, so that every tile is as small as it can be; of the reductions and the other
loops the former run inside, so that partial sums stay. A rule of the validator that such a mapping breaks is broken by
every mapping that stores the same: more elements in a tile, PEs or lanes do not mend it, and no blocks fill a DRAM row
better than those of one element. That does not hold, and the verdict is open, where

- all loops of a dim are fixed, so that the rest of its bound goes to PEs and lanes, one way or another;
- only the width of partial sums in DRAM is too much, which another order or larger tiles may save;
- only the DRAM is too small, for rows that blocks of several elements leave partly empty, and larger ones may fill;
- a dataflow class is wanted, which these mappings do not have.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence

from attrs import evolve, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, ON_CHIP, RELEVANT, Dim, Direction, Level, Tensor
from cpsat_pim.base.validate import LIMIT
from cpsat_pim.mapper.explain.limits import Problem
from cpsat_pim.mapper.space.banks import searched_banks
from cpsat_pim.mapping import ONE_BANK, OWN_BANKS, Mapping, Stored
from cpsat_pim.mapping.check import REDUCTIONS, check_fits, check_mapping, used_bytes
from cpsat_pim.mapping.constraints import Constraints, check_constraints, check_constraints_fit
from cpsat_pim.workload import ConvWorkload

#: The seven places of a dim's factors, by table and row, in the order in which the rest of its bound is put there.
_PLACES = (*(("temporal", row) for row in reversed(Level)), *(("spatial", row) for row in Direction))
#: The number of places above the PEs: their loops make no tile larger than it has to be.
_OUTER = 3
_EVERYTHING: tuple[Stored, ...] = ((True, True, True),) * len(BUFFERS)
#: Why there is no mapping if there is not even a stored set.
CONTRADICTION = "a level must store a tensor that it cannot store"


@frozen(kw_only=True)
class Verdict:
    """Whether a problem has a mapping, None if that is not known; a mapping, or the reasons that there is none."""

    feasible: bool | None
    mapping: Mapping | None = None
    reasons: tuple[str, ...] = ()


@frozen(kw_only=True)
class _Draft:
    """The factors of the smallest mappings; `is_least`: no other factors give smaller tiles."""

    temporal: list[list[int]]
    spatial: list[list[int]]
    is_least: bool


def decide_least(problem: Problem) -> Verdict:
    """Decide by its smallest mappings whether a problem has a mapping, whatever its budget."""
    reasons = _unmapped(problem)
    if reasons:
        return Verdict(feasible=False, reasons=tuple(reasons))
    draft = _draft(problem.layer, problem.constraints)
    if draft is None:
        return Verdict(feasible=False, reasons=("the fixed factors of a dim leave no room for the rest of its bound",))
    is_open = not draft.is_least or _may_leave_loops_out(problem, draft)
    reasons = _misplaced(problem, draft)
    if reasons and draft.is_least:
        return Verdict(feasible=False, reasons=tuple(reasons))
    reasons = [CONTRADICTION] * len(Dim)
    for mapping in _mappings(problem, draft):
        broken = check_mapping(problem.layer, problem.arch, mapping)
        unkept = check_constraints(mapping, problem.constraints)
        if not broken and not unkept:
            return Verdict(feasible=True, mapping=mapping)
        is_open |= not broken or _may_be_healed(problem, mapping)
        reasons = min(reasons, broken or reasons, key=len)
    return Verdict(feasible=None) if is_open else Verdict(feasible=False, reasons=tuple(dict.fromkeys(reasons)))


def _unmapped(problem: Problem) -> list[str]:
    """Return the reasons without a mapping that the layer alone gives."""
    width = [line for line in check_fits(problem.layer, problem.arch) if line.startswith("DramTimings")]
    return check_constraints_fit(problem.layer, problem.constraints) or width or _too_few_banks(problem)


def _too_few_banks(problem: Problem) -> list[str]:
    """Return why the node does not have the banks that constraints ask for: the rules of banks for any mapping."""
    constraints, ones = problem.constraints, (1,) * len(Dim)
    if searched_banks(problem.arch, constraints):
        return []
    mapping = Mapping(
        temporal=(ones, ones, ones, problem.layer.bounds),
        spatial=(ones,) * len(Direction),
        order=((), (), (), _order(problem.layer.bounds, ())),
        stored=((False,) * len(Tensor),) * len(BUFFERS),
        banks=constraints.banks or OWN_BANKS,
        bank_counts=constraints.bank_counts or ONE_BANK,
    )
    return [line for line in check_mapping(problem.layer, problem.arch, mapping) if line.startswith("bank")]


def _may_leave_loops_out(problem: Problem, draft: _Draft) -> bool:
    """Whether tiles can be smaller than the loops of their level."""
    return problem.arch.uneven_residency and any(n > 1 for m in ON_CHIP for n in draft.temporal[m])


def _may_be_healed(problem: Problem, mapping: Mapping) -> bool:
    """Whether a broken mapping might be legal with other orders or larger tiles.

    It might if it is legal with outputs as narrow as in DRAM, except on chip, where they are partial sums in any case,
    and with blocks of several elements that leave no part of a row empty.
    """
    layer, arch = problem.layer, problem.arch
    narrow = evolve(layer, psum_bytes=layer.output_bytes)
    used = used_bytes(layer, arch, mapping)
    fits_chip = all(arch.fits(m, used[m]) for m in ON_CHIP)
    packed = sum(layer.elements(t) * layer.width_bytes[t] for t in Tensor)
    if not fits_chip or packed > arch.usable_bytes(Level.DRAM):
        return False
    extents, aligned = mapping.extents(Level.ROW_BUFFER), mapping.stored[Level.ROW_BUFFER]
    has_blocks = any(aligned[t] and any(extents[d] > 1 for d in RELEVANT[t]) for t in Tensor)
    return not check_mapping(narrow, _roomy(arch, [Level.DRAM]) if has_blocks else arch, mapping)


# --- The mappings ----------------------------------------------------------------------------------------------------


def _draft(layer: ConvWorkload, constraints: Constraints) -> _Draft | None:
    """Return the fixed factors, 1 where there are none, and the rest of each dim at its outermost free place."""
    tables = {name: [[n or 1 for n in row] for row in getattr(constraints, name)] for name in ("temporal", "spatial")}
    is_least = True
    for dim in Dim:
        fixed = math.prod(row[dim] for rows in tables.values() for row in rows)
        rest = layer.bounds[dim] // fixed
        if rest == 1:
            continue
        free = [i for i, (name, row) in enumerate(_PLACES) if getattr(constraints, name)[row][dim] is None]
        if not free:
            return None
        name, row = _PLACES[free[0]]
        tables[name][row][dim] = rest
        is_least &= free[0] < _OUTER
    return _Draft(temporal=tables["temporal"], spatial=tables["spatial"], is_least=is_least)


def _mapping(problem: Problem, draft: _Draft, stored: Sequence[Stored]) -> Mapping:
    """Return the smallest mapping with a stored set."""
    side = int(stored[Level.ROW_BUFFER][Tensor.I])
    return Mapping(
        temporal=draft.temporal,
        spatial=draft.spatial,
        order=[_order(row, problem.constraints.order[m]) for m, row in enumerate(draft.temporal)],
        stored=stored,
        layout=tuple(index or 0 for index in problem.constraints.layout),
        block_h=side,
        block_w=side,
    )


def _misplaced(problem: Problem, draft: _Draft) -> list[str]:
    """Return the rules that are broken even if every level has room for everything: of PEs and lanes."""
    roomy = _roomy(problem.arch, list(Level))
    levels = tuple(evolve(level, stores=(True, True, True), bypass_defined=False) for level in roomy.hierarchy)
    return check_mapping(problem.layer, evolve(roomy, hierarchy=levels), _mapping(problem, draft, _EVERYTHING))


def _roomy(arch: PIMArchitecture, levels: Collection[Level]) -> PIMArchitecture:
    """Return the machine with more room in some levels than any mapping takes."""
    hierarchy = (
        evolve(memory, entries=(LIMIT - 1) // memory.word_bytes) if level in levels else memory
        for level, memory in zip(Level, arch.hierarchy, strict=True)
    )
    return evolve(arch, hierarchy=tuple(hierarchy))


def _mappings(problem: Problem, draft: _Draft) -> Iterator[Mapping]:
    """Yield a mapping for each assignment to banks and each stored set that is allowed and of which each level by
    itself has room for its tiles.
    """
    sizes = _tile_sizes(problem, _mapping(problem, draft, _EVERYTHING))
    sets = itertools.product(*(_stored_sets(problem, level, sizes[level]) for level in BUFFERS))
    assignments = searched_banks(problem.arch, problem.constraints)
    for stored in sorted(sets, key=lambda stored: sum(stored[Level.ROW_BUFFER])):  # row-aligned tensors take more DRAM
        for banks, counts in assignments:
            yield evolve(_mapping(problem, draft, stored), banks=banks, bank_counts=counts)


def _tile_sizes(problem: Problem, whole: Mapping) -> list[dict[Tensor, int]]:
    """Return the bytes of the tiles of a mapping that stores all everywhere, in the row buffer without partial sums."""
    layer = problem.layer
    narrow = evolve(layer, psum_bytes=layer.output_bytes)
    return [used_bytes(narrow if m is Level.ROW_BUFFER else layer, problem.arch, whole)[m] for m in BUFFERS]


def _stored_sets(problem: Problem, level: Level, sizes: dict[Tensor, int]) -> list[Stored]:
    """Return the sets of tensors for which a level has room; if there are none, the first set that it may store."""
    fixed = problem.constraints.stored[level]
    choices = [
        [choice for choice in problem.arch.storing_choices(level, t) if fixed[t] in (None, choice)] for t in Tensor
    ]
    allowed: list[Stored] = [*itertools.product(*choices)]  # type: ignore[list-item]
    return [s for s in allowed if problem.arch.fits(level, {t: sizes[t] for t in Tensor if s[t]})] or allowed[:1]


def _order(factors: Sequence[int], wanted: tuple[Dim, ...]) -> list[Dim]:
    """Return the loops of a level, reductions inside as far as the wanted order allows."""
    loops = [dim for dim in Dim if factors[dim] > 1]
    loops.sort(key=lambda dim: dim in REDUCTIONS)
    named = iter([dim for dim in wanted if dim in loops])
    return [next(named) if dim in wanted else dim for dim in loops]
