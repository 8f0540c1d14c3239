"""Shrink a disagreement: fewer loops, smaller bounds, a simpler machine, a simpler mapping."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import attrs

from cpsat_pim.arch import PEArray, PhyDim2, PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, Dim, Level, Tensor
from cpsat_pim.mapping import ONE_BANK, OWN_BANKS
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.study.baselines.draft import DRAM, EVEN_POINTS, PLACES, Draft
from cpsat_pim.study.fuzz.compare import Case, Finding
from cpsat_pim.workload import ConvWorkload
from tables.factors import primes_of

#: The plain machine that others are simplified towards: one PE with one MAC, nothing limited, nothing shared.
PLAIN = attrs.evolve(
    PIMArchitecture(),
    name="fuzz",
    pe_array=PEArray(array_shape=PhyDim2(1, 1)),
    hierarchy=tuple(
        attrs.evolve(
            level,
            name=level.name,
            latency=0.0,
            access_cost=0.0,
            write_cost=None,
            read_bandwidth_limit=None,
            write_bandwidth_limit=None,
            double_buffered=False,
        )
        for level in PIMArchitecture().hierarchy
    ),
)
#: The plain padding: none.
NO_ZEROS = (0,) * len(Dim)

Compare = Callable[[Case], Finding | None]


def shrink(case: Case, finding: Finding, compare: Compare, is_over: Callable[[], bool]) -> tuple[Case, Finding]:
    """Replace the case by any simpler one that still disagrees, until no simpler case does or time is over."""
    is_simpler = True
    while is_simpler:
        is_simpler, at = False, 0
        candidates = list(simpler_cases(case))
        while at < len(candidates) and not is_over():
            found = compare(candidates[at])
            if found is None:
                at += 1
            else:  # The remaining candidates differ from those of the simpler case by at most this step.
                case, finding, is_simpler = candidates[at], found, True
                candidates = list(simpler_cases(case))
    return case, finding


def simpler_cases(case: Case) -> Iterator[Case]:
    """Yield all cases that are simpler in one respect, largest steps first; mappings stay legal."""
    steps = (_own_banks, _smaller, _plainer_layers, _plainer_machines, _plainer_mappings)
    for simpler in (found for step in steps for found in step(case)):
        is_legal = simpler.mapping is None or not check_mapping(simpler.layer, simpler.arch, simpler.mapping)
        if is_legal and simpler != case:
            yield simpler


def _own_banks(case: Case) -> Iterator[Case]:
    """Yield the case in which each tensor has a bank of its own, if the node's banks are numbered, or one that is not
    chosen.
    """
    if case.arch.node_banks is not None:
        mapping = case.mapping and attrs.evolve(case.mapping, banks=OWN_BANKS, bank_counts=ONE_BANK)
        arch = attrs.evolve(case.arch, node_banks=None)
        yield attrs.evolve(case, arch=arch, mapping=mapping, bank_counts=ONE_BANK)
    yield attrs.evolve(case, bank_counts=ONE_BANK)


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases without a dim, or without a prime of a bound."""
    for d in Dim:
        bound = case.layer.bounds[d]
        for part in sorted({bound, *primes_of(bound)} - {1}, reverse=True):
            smaller: dict[str, Any] = {d.name: bound // part}
            layer = attrs.evolve(case.layer, zeros=NO_ZEROS, **smaller)
            for draft in _without(case, d, None if part == bound else part):
                yield _case(case, layer, draft)


def _without(case: Case, d: Dim, prime: int | None) -> Iterator[Draft | None]:
    """Yield the mapping's drafts without a prime of a dim in one of its places, or None for the dim removed; nothing
    without a mapping.
    """
    draft = _draft(case)
    if draft is None:
        yield None
        return
    for place in PLACES if prime else PLACES[:1]:
        rows = [list(row) for row in draft.factors]
        if prime is None:
            for row in rows:
                row[d] = 1
        elif rows[place][d] % prime:
            continue
        else:
            rows[place][d] //= prime
        yield attrs.evolve(draft, factors=rows)


def _plainer_layers(case: Case) -> Iterator[Case]:
    """Yield cases without stride, without dilation, without padding, with one-byte elements."""
    widths: dict[str, Any] = dict.fromkeys(("input_bytes", "weight_bytes", "output_bytes", "psum_bytes"), 1)
    plain = attrs.evolve(case.layer, stride=(1, 1), dilation=(1, 1), zeros=NO_ZEROS, **widths)
    return (_case(case, layer, _draft(case)) for layer in _toward(case.layer, plain))


def _plainer_machines(case: Case) -> Iterator[Case]:
    """Yield cases in which one figure or part of the machine is replaced by that of the plain machine."""
    return (attrs.evolve(case, arch=arch) for arch in _toward(case.arch, PLAIN))


def _plainer_mappings(case: Case) -> Iterator[Case]:
    """Yield mappings with a loop moved to the DRAM, dims in order, a tensor not stored, the first layout, the smallest
    block, or even tiles.
    """
    draft = _draft(case)
    if draft is None:
        return
    for place, d in itertools.product(PLACES, Dim):
        if place != DRAM and draft.factors[place][d] > 1:
            yield _case(case, case.layer, draft.moved(d, draft.factors[place][d], place, DRAM))
    in_order = attrs.evolve(draft, order=[tuple(Dim)] * len(Level), layout=(0, 0, 0), block=0.0, points=EVEN_POINTS)
    for plainer in _toward(draft, attrs.evolve(in_order, stored=[[False] * len(Tensor)] * len(BUFFERS))):
        yield _case(case, case.layer, plainer)


def _draft(case: Case) -> Draft | None:
    return Draft.of(case.mapping, case.layer) if case.mapping else None


def _case(case: Case, layer: ConvWorkload, draft: Draft | None) -> Case:
    return attrs.evolve(case, layer=layer, mapping=draft.to_mapping(layer) if draft else None)


def _toward(value: Any, plain: Any) -> Iterator[Any]:
    """Yield the value with one part, or all of it, as in the plain value; combinations that are invalid are skipped."""
    if value == plain:
        return
    yield plain
    with suppress(ValueError):  # the parts of the two do not correspond
        for key, part, plain_part in _parts(value, plain):
            for plainer in _toward(part, plain_part):
                with suppress(ValueError):
                    yield _with_part(value, key, plainer)


def _parts(value: Any, plain: Any) -> list[tuple[Any, Any, Any]]:
    """Return the parts of a value: key, part, and the plain value's part."""
    if attrs.has(type(value)) and type(plain) is type(value):
        names = [field.name for field in attrs.fields(type(value))]
        return [(name, getattr(value, name), getattr(plain, name)) for name in names]
    if isinstance(value, tuple):
        return [(i, *pair) for i, pair in enumerate(zip(value, plain, strict=True))]
    return []


def _with_part(value: Any, key: Any, part: Any) -> Any:
    """Return the value with one part replaced."""
    if isinstance(value, tuple):
        return (*value[:key], part, *value[key + 1 :])
    return attrs.evolve(value, **{key: part})
