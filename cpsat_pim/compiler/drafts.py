"""DCC's tiling drafts and its three pruning rules, and what each loses against the full space (DCC, section IV-B).

A draft gives every dimension set a number of channels and of cores, nothing else. Its time here is that of its best
mapping: all lane roles, all owners of the axes with these numbers of cores, all tilings, walked exactly. Nothing of
this takes part in a proof.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np
from attrs import frozen

from cpsat_pim.compiler.broadcast import has_bank_mode
from cpsat_pim.compiler.compile import is_attacc_like
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order import InOrderTarget
from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.search.bank_mode import LANES as BANK_LANES
from cpsat_pim.compiler.search.bank_mode import best_bank_mapping
from cpsat_pim.compiler.search.broadcast import Cuts, cuts_of, every_cut
from cpsat_pim.compiler.search.in_order import LANES as IN_ORDER_LANES
from cpsat_pim.compiler.search.in_order import best_in_order
from cpsat_pim.compiler.search.space import SpaceOf, space_of
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.device import Device
from tables.commands.sweep import NONE, best_tiling, is_legal, share_of

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
    return BankTarget(device) if has_bank_mode(device) else InOrderTarget(device)


def drafts_of(contraction: Contraction, target: AnyTarget, channels: int) -> list[Draft]:
    """All drafts that the device can run, in the order of their numbers."""
    found = (
        _drafts(contraction, target, channels)
        if isinstance(target, Target)
        else _broadcast_drafts(contraction, target, channels)
    )
    return sorted(found, key=lambda draft: (draft.groups, draft.cores))


def _drafts(contraction: Contraction, target: Target, channels: int) -> list[Draft]:
    """AttAcc: for every number of channels and cores the best owners, lanes and tiling."""
    space = space_of(contraction, target, channels)
    by_cores: dict[tuple[int, ...], list[int]] = {}
    for owner, parts in enumerate(space.arrays.parts.tolist()):
        by_cores.setdefault(tuple(parts), []).append(owner)
    found = []
    for split, groups in enumerate(space.splits):
        for cores, owners in by_cores.items():
            ticks = min(_ticks(space, target, split, owner, lanes) for owner in owners for lanes in (0, 1))
            if ticks < NONE:
                found.append(Draft(groups, cores, ticks * space.arrays.tick_ps + int(space.arrays.extra[split])))
    return found


def _broadcast_drafts(contraction: Contraction, target: BankTarget | InOrderTarget, channels: int) -> list[Draft]:
    """HBM-PIM, AiM, UPMEM: the same; cuts that are alike are searched once. Cores are accumulators, too."""
    best, kinds = (best_bank_mapping, BANK_LANES) if isinstance(target, BankTarget) else (best_in_order, IN_ORDER_LANES)
    every, splits, owners = every_cut(contraction, target.axes, target.device.core.lanes, kinds, channels)
    cuts, values = cuts_of(contraction, target.axes, target.device.core.lanes, kinds, channels), {}
    for row, mapping in zip(cuts.table, cuts.mappings, strict=True):
        one = Cuts(row[None], (mapping,), np.ones(1, np.int64))
        answer = best(contraction, target, channels, cuts=one)  # type: ignore[arg-type]
        values[tuple(row.tolist())] = NONE if answer is None else answer.value
    parts = np.stack([np.where(owners == n, target.axes, 1).prod(axis=1) for n in range(len(CLASSES))], axis=1)
    least: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    for at, row in enumerate(every.tolist()):
        split, owner = divmod(at % (len(splits) * len(owners)), len(owners))
        key = tuple(splits[split].tolist()), tuple(parts[owner].tolist())
        least[key] = min(least.get(key, NONE), values[tuple(row)])
    return [Draft(groups, cores, value) for (groups, cores), value in least.items() if value < NONE]


def _ticks(space: SpaceOf, target: Target, split: int, owner: int, is_tree: int) -> int:
    share = share_of(space.arrays, split, owner, is_tree)
    if not is_legal(space.arrays, target.timing, share):
        return NONE
    return int(best_tiling(space.arrays, target.timing, share, owner)[0])


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
