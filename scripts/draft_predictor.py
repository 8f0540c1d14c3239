"""DCC's table II: how often its predictor takes the best draft, beside the exact planner."""

import time
from collections.abc import Callable, Collection, Iterator
from itertools import islice, product
from typing import Any

import numpy as np

from cpsat_pim.compiler.attention import Attention, AttentionMapping, attention_ticks
from cpsat_pim.compiler.broadcast import best_of_kernel
from cpsat_pim.compiler.dispatch.lengths import LengthSearch
from cpsat_pim.compiler.drafts import DraftSpace, draft_space, draft_target
from cpsat_pim.compiler.language import Kernel, shipped_kernel
from cpsat_pim.compiler.lowering.bank_elementwise import BankElementwise
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.compiler.mapping.contraction import BATCH, DEPTH, OUTPUTS
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping, elementwise_of
from cpsat_pim.compiler.predictor import Protocol, Sized, chosen_times
from cpsat_pim.compiler.search import best_mapping, space_of
from cpsat_pim.compiler.search.space import distinct_parts
from cpsat_pim.compiler.search.sweep import mapping_of
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.device import read_device
from tables.commands.drafts import best_of_draft
from tables.commands.sweep import NONE, Best
from tables.commands.window import NOT_EXACT

ATTACC, HBM_PIM = "attacc", "hbm-pim-hbm3"
HEAD_SIZE = 128
#: Channels of a stack, over which vectors and heads are distributed in the paper.
CHANNELS = 16
#: Tokens from a size of GEMV to the next: 16 channels of HBM-PIM hold 512 MiB of matrices, 38 x 104 tokens at most.
GEMV_STEPS = {ATTACC: 128, HBM_PIM: 104}
#: Sizes: heads, batch and tokens; the paper gives their numbers only.
GEMVS = {
    device: list(product((32, 64), (1, 2, 4, 8), range(step, 38 * step + 1, step)))
    for device, step in GEMV_STEPS.items()
}
ATTENTIONS = list(product((32, 40, 52, 64), (1, 2), range(120, 34 * 120 + 1, 120)))
VECTORS = list(product((1, 2, 4), range(256, 56 * 256 + 1, 256)))[:167]
KERNELS = ("ATTN", "GEMV", "RED", "VA", "RELU")
#: Table II: device, kernel, cases, cases in which the predictor takes the best draft, and its performance otherwise.
TABLE_2 = (
    (ATTACC, "ATTN", 272, 203, 97.04),
    (ATTACC, "GEMV", 304, 290, 97.01),
    (ATTACC, "RED", 167, 155, 94.01),
    (HBM_PIM, "GEMV", 304, 265, 95.84),
    (HBM_PIM, "RED", 167, 154, 96.43),
    (HBM_PIM, "VA", 167, 158, 94.94),
    (HBM_PIM, "RELU", 167, 157, 94.48),
)


def bound(name: str, *size: int) -> Kernel:
    """A kernel of table II; of GEMV and ATTN heads, batch and tokens, else batch and elements."""
    if name in ("GEMV", "ATTN"):
        heads, batch, tokens = size
        kernel = shipped_kernel("gemv" if name == "GEMV" else "attention")
        return kernel.bind({"B": heads * batch, "N": tokens, "K": HEAD_SIZE})
    batch, elements = size
    return shipped_kernel(name.lower()).bind({"B": batch, "N": elements})


def sized(device_name: str, name: str, size: tuple[int, ...]) -> Sized:
    """A size with its drafts and its optimum."""
    device, kernel = read_device(device_name), bound(name, *size)
    if name == "ATTN":
        return sized_attention(size[0] * size[1], size[2], target_of(device))
    if name in ("VA", "RELU"):
        best = best_of_kernel(kernel, device, CHANNELS).value
        return Sized((size[0] * size[1], 1), elementwise_drafts(kernel, BankTarget(device)), best)
    contraction, target = contraction_of(kernel, kernel.statements[0]), draft_target(device)
    if isinstance(target, Target):
        found = best_mapping(contraction, target, CHANNELS, counts=False)
        assert found is not None
        best = found.time_ps
    else:
        best = best_of_kernel(kernel, device, CHANNELS).value
    return Sized(contraction.extents, draft_space(contraction, target, CHANNELS), best)


def elementwise_drafts(kernel: Kernel, target: BankTarget) -> DraftSpace:
    """Channels, and banks of a channel that hold elements: the rest of a mapping is free."""
    elementwise, tick = elementwise_of(kernel.statements[0]), target.device.tick_ps
    assert elementwise is not None
    cores = len(target.cores)
    rows = list(product(distinct_parts(elementwise.points, CHANNELS), (False, True)))

    def time_ps(number: int) -> int:
        channels, both = rows[number]
        mappings = (
            ElementwiseMapping(channels=channels, both_banks=both, shares_rows=a, takes_turns=b, mode_bank=c)
            for a, b, c in product((False, True), (False, True), (0, 1))
        )
        lowered = [BankElementwise(elementwise, mapping, target) for mapping in mappings]
        ticks = [one.ticks for one in lowered if not one.problem]
        return min((tick * taken for taken in ticks if taken != NOT_EXACT), default=NONE)

    groups = np.array([(channels, 1) for channels, _ in rows])
    return DraftSpace(groups, np.array([(cores * (1 + both), 1) for _, both in rows]), time_ps)


def sized_attention(heads: int, tokens: int, target: Target) -> Sized:
    """Heads over all channels, and cores over heads, tokens and elements of a head, in both products alike.

    A draft takes its best score and its best context behind that; the optimum is that of all pairs.
    """
    attention = Attention(heads, tokens, HEAD_SIZE)
    splits = tuple((parts, 1, 1, 1) for parts in distinct_parts(heads, target.channels))
    score = space_of(attention.score, target, splits=splits)
    context = space_of(attention.context, target, splits=splits, follows=True)
    owners: list[dict[tuple[int, ...], list[int]]] = [{}, {}]
    for side, space in enumerate((score, context)):
        for number, parts in enumerate(space.arrays.parts.tolist()):
            key = (parts[BATCH], *((parts[OUTPUTS], parts[DEPTH])[:: 1 - 2 * side]))
            owners[side].setdefault(key, []).append(number)
    kinds = sorted(set(owners[0]) & set(owners[1]))
    tick = target.device.tick_ps

    def time_ps(number: int) -> int:
        split, kind = divmod(number, len(kinds))
        mappings = []
        for space, of_kind in zip((score, context), owners, strict=True):
            found = best_of_draft(space.arrays, target.timing, split, np.array(of_kind[kinds[kind]]))
            if found.ticks >= NONE:
                return NONE
            mappings.append(mapping_of(space, Best(0, 0, found.ticks, split, found.owner, found.share, 0)))
        return attention_ticks(attention, AttentionMapping(*mappings), target) * tick

    groups = np.repeat(np.array(splits)[:, :3], len(kinds), axis=0)
    best = LengthSearch(heads, HEAD_SIZE, target).best(tokens)
    assert best.status == "OPTIMAL"
    drafts = DraftSpace(groups, np.tile(np.array(kinds), (len(splits), 1)), time_ps)
    return Sized((heads, tokens, HEAD_SIZE), drafts, best.ticks * tick)


def table_2(
    protocol: Protocol,
    every: int,
    kernels: Collection[str],
    only: str | None,
    row: Callable[..., str],
    header: Callable[..., str],
) -> Iterator[str]:
    """The paper's figures and ours, of `only` one device if that is given; of every kernel each `every`-th size."""
    names = ("device", "kernel", "paper: cases", "best", "otherwise %", "cases", "drafts", "XGBoost: best")
    yield header(*names, "otherwise %", "s", "exact planner: best", "s")
    for device, name, cases, hits, otherwise in (
        line for line in TABLE_2 if line[1] in kernels and only in (None, line[0])
    ):
        given: list[Any] = {"ATTN": ATTENTIONS, "GEMV": GEMVS[device]}.get(name, VECTORS)
        assert len(given) == cases
        begun = time.process_time()
        sizes = [sized(device, name, size) for size in islice(given, 0, None, every)]
        planned = time.process_time()
        times = chosen_times(sizes, protocol)
        learnt = time.process_time()
        ratios = [one.best_ps / taken for one, taken in zip(sizes, times, strict=True)]
        missed = [ratio for ratio in ratios if ratio < 1]
        assert max(ratios) <= 1  # no draft that was timed beats the optimum
        lost = 100 * float(np.exp(np.mean(np.log(missed)))) if missed else 100.0
        drafts = sum(len(one.drafts.groups) for one in sizes)
        counts = (len(sizes), drafts, len(sizes) - len(missed), lost, f"{learnt - planned:.1f}")
        yield row(device, name, cases, hits, otherwise, *counts, len(sizes), f"{planned - begun:.1f}")
