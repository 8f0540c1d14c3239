"""DCC's tiling drafts and its three pruning rules, and what each loses against the full space (DCC, section IV-B).

A draft gives every dimension set a number of channels and of cores, nothing else. Its time here is that of its best
mapping: all lane roles, all owners of the axes with these numbers of cores, all tilings, walked exactly. Nothing of
this takes part in a proof.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.compile import is_attacc_like
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.lowering.targets import broadcast_target
from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.search.bank_mode import LANES as BANK_LANES
from cpsat_pim.compiler.search.bank_mode import best_bank_mapping
from cpsat_pim.compiler.search.cuts import Cuts, CutSpace
from cpsat_pim.compiler.search.in_order import LANES as IN_ORDER_LANES
from cpsat_pim.compiler.search.in_order import best_in_order
from cpsat_pim.compiler.search.space import space_of
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.device import Device
from tables.commands.drafts import best_of_draft
from tables.commands.sweep import NONE

Ints = NDArray[np.int64]
AnyTarget = Target | BankTarget | InOrderTarget

#: The rules by the names that a user gives. Rule 3 compares the lengths of all channels of a draft; drafts with
#: other numbers of channels have other channels. "3-lengths" compares the lengths alone.
RULES = ("1", "2", "3", "3-lengths")


@frozen
class Draft:
    """Channels and cores of every class with more than one element, and the picoseconds of the best mapping."""

    groups: tuple[int, ...]
    cores: tuple[int, ...]
    time_ps: int


@frozen
class Pruned:
    """How many drafts a rule leaves, and the best of them."""

    rule: str
    drafts: int
    time_ps: int


def draft_target(device: Device) -> AnyTarget:
    """The compiler's view of a device.

    Raises:
        KernelMistake: the device is built in another way than those that the compiler knows.
    """
    if is_attacc_like(device):
        return target_of(device)
    return broadcast_target(device)


@frozen(eq=False)
class DraftSpace:
    """All drafts of a contraction: `groups` and `cores` int64[drafts, classes].

    `time_ps(number)`: picoseconds of the best mapping of a draft, `NONE` if the device can run none.
    """

    groups: Ints
    cores: Ints
    time_ps: Callable[[int], int]


def draft_space(contraction: Contraction, target: AnyTarget, channels: int) -> DraftSpace:
    """All numbers of channels and cores, in their order; none of them is evaluated yet."""
    find = _attacc_drafts if isinstance(target, Target) else _broadcast_drafts
    return find(contraction, target, channels)  # type: ignore[arg-type]


def drafts_of(contraction: Contraction, target: AnyTarget, channels: int) -> list[Draft]:
    """All drafts that the device can run, in the order of their numbers."""
    space = draft_space(contraction, target, channels)
    times = (space.time_ps(number) for number in range(len(space.groups)))
    found = zip(space.groups.tolist(), space.cores.tolist(), times, strict=True)
    return [Draft(tuple(groups), tuple(cores), time) for groups, cores, time in found if time < NONE]


def _attacc_drafts(contraction: Contraction, target: Target, channels: int) -> DraftSpace:
    """AttAcc: for every number of channels and cores the best owners, lanes and tiling. Splits that leave the same
    work to a core take the same ticks: one of them is walked."""
    space = space_of(contraction, target, channels)
    splits, owners_of, kinds = _ordered(np.array(space.splits), space.arrays.parts)
    known: dict[tuple[int, ...], int] = {}

    def time_ps(number: int) -> int:
        at, kind = divmod(number, len(kinds))
        split = int(splits[at])
        work = (kind, *(-(-space.arrays.chunks[split] // kinds[kind])).tolist())
        if work not in known:
            known[work] = best_of_draft(space.arrays, target.timing, split, owners_of[kind]).ticks
        ticks = known[work]
        return NONE if ticks >= NONE else ticks * space.arrays.tick_ps + int(space.arrays.extra[split])

    return _space(np.array(space.splits)[splits], kinds, time_ps)


def _broadcast_drafts(contraction: Contraction, target: BankTarget | InOrderTarget, channels: int) -> DraftSpace:
    """HBM-PIM, AiM, UPMEM: the same; drafts with the same cuts are searched once. Cores are accumulators, too."""
    best, lanes = (best_bank_mapping, BANK_LANES) if isinstance(target, BankTarget) else (best_in_order, IN_ORDER_LANES)
    stores = isinstance(target, BankTarget)
    space = CutSpace.of(contraction, target.axes, target.device.core.lanes, lanes, channels, stores=stores)
    splits, owners = space.splits, space.owners
    parts = np.stack([np.where(owners == n, target.axes, 1).prod(axis=1) for n in range(len(CLASSES))], axis=1)
    order, owners_of, kinds = _ordered(splits, parts)
    table = space.rows().reshape(len(lanes), len(splits), len(owners), -1)
    known: dict[bytes, int] = {}

    def time_ps(number: int) -> int:
        at, kind = divmod(number, len(kinds))
        split, some = int(order[at]), owners_of[kind]
        rows, first = np.unique(table[:, split, some].reshape(-1, table.shape[3]), axis=0, return_index=True)
        if rows.tobytes() not in known:
            lane, owner = np.divmod(first, len(some))
            once = np.ones(len(rows), np.int64)
            cuts = Cuts(rows, splits[once * split], owners[some[owner]], lane, lanes, once)
            answer = best(contraction, target, channels, cuts=cuts)  # type: ignore[arg-type]
            known[rows.tobytes()] = NONE if answer is None else answer.value
        return known[rows.tobytes()]

    return _space(splits[order], kinds, time_ps)


def _ordered(splits: Ints, parts: Ints) -> tuple[Ints, list[Ints], Ints]:
    """The splits in the order of their numbers; the owners of every kind of cores; the kinds, int64[kinds, classes]."""
    kinds, number = np.unique(parts, axis=0, return_inverse=True)
    owners_of = [np.flatnonzero(number.ravel() == kind) for kind in range(len(kinds))]
    return np.lexsort(splits.T[::-1]), owners_of, kinds


def _space(splits: Ints, kinds: Ints, time_ps: Callable[[int], int]) -> DraftSpace:
    """Every split with every kind of cores."""
    return DraftSpace(np.repeat(splits, len(kinds), axis=0), np.tile(kinds, (len(splits), 1)), time_ps)


def prune(drafts: Sequence[Draft], contraction: Contraction, target: AnyTarget, rules: Iterable[str]) -> list[Pruned]:
    """What every rule by itself and, last, all of them one after the other leave; first the drafts as they are."""
    keep: dict[str, Callable[[Sequence[Draft]], list[Draft]]] = {
        "1": list,  # one mapping function for every tensor dimension stands for all that are equal: none is made here
        "2": lambda left: _aligned(left, contraction, target),
        "3": lambda left: _first_of(left, lambda draft: (draft.groups, _lengths(draft, contraction))),
        "3-lengths": lambda left: _first_of(left, lambda draft: _lengths(draft, contraction)),
    }
    chosen = list(rules)
    results, left = [_summary("none", drafts)], list(drafts)
    for rule in chosen:
        results.append(_summary(rule, keep[rule](drafts)))
        left = keep[rule](left)
    return [*results, _summary("+".join(chosen), left)] if len(chosen) > 1 else results


def _aligned(drafts: Sequence[Draft], contraction: Contraction, target: AnyTarget) -> list[Draft]:
    """Rule 2: the elements a core of the lanes' dimension set are a multiple of the lanes; skipped if none is."""
    lanes, depth = target.device.core.lanes, len(CLASSES) - 1
    left = [draft for draft in drafts if _lengths(draft, contraction)[depth] % lanes == 0]
    return left or list(drafts)


def _first_of(drafts: Sequence[Draft], key: Callable[[Draft], Hashable]) -> list[Draft]:
    """Rule 3: of drafts with the same lengths only the first."""
    found: dict[Hashable, Draft] = {}
    for draft in drafts:
        found.setdefault(key(draft), draft)
    return list(found.values())


def _lengths(draft: Draft, contraction: Contraction) -> tuple[int, ...]:
    """Elements a core of every class, rounded as the paper does: halves to the even neighbour."""
    return tuple(
        round(extent / (groups * cores))
        for extent, groups, cores in zip(contraction.extents, draft.groups, draft.cores, strict=True)
    )


def _summary(rule: str, drafts: Sequence[Draft]) -> Pruned:
    return Pruned(rule, len(drafts), int(np.min([draft.time_ps for draft in drafts])))


def format_pruned(results: Sequence[Pruned]) -> str:
    """A line a rule: drafts left, best time, loss against all drafts."""
    best = results[0].time_ps
    lines = [f"{'rules':12} {'drafts':>8} {'best':>12} {'loss':>8}"]
    for result in results:
        loss = 100 * (result.time_ps - best) / best
        lines.append(f"{result.rule:12} {result.drafts:8,} {result.time_ps / 1e6:9.3f} us {loss:6.2f} %")
    return "\n".join(lines)
