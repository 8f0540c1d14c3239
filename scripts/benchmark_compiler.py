"""The figures of DCC (arXiv 2511.15503) recomputed, beside the paper's, as Markdown tables.

    python scripts/benchmark_compiler.py --figure 6 7 9 10 [--draw docs]
    python scripts/benchmark_compiler.py --figure 8 [--models gpt3-13b] [--batches 1] [--draw docs]
    python scripts/benchmark_compiler.py --table 2 [--device NAME --kernels GEMV --every 8 --rounds 5000 --samples 50]

Figures 6, 9 and 10 compare gains over AttAcc's fixed distribution on as many channels: the paper's GPU baseline is not
given. The fixed distribution splits heads over the channels of one stack (16) or of all (80), outputs over 16 bank
groups and the depth over 4 banks (paper, section V). Figure 7 and the left halves of 9 and 10 are HBM-PIM's
(`hbm_pim_figures.py`). `--draw` also writes each figure as an SVG file, `compiler-figure-6.svg` and so on, which needs
the extra `plots`.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from math import ceil
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from cpsat_pim.base.extras import MissingExtra, import_extra
from cpsat_pim.compiler.dispatch.lengths import LengthSearch
from cpsat_pim.compiler.host import A100_HBM3
from cpsat_pim.compiler.language import shipped_kernel
from cpsat_pim.compiler.lowering import predicted_ticks
from cpsat_pim.compiler.lowering.contraction import compute_ticks
from cpsat_pim.compiler.mapping import Contraction, Mapping, contraction_of
from cpsat_pim.compiler.models.attacc_baseline import attacc_attention
from cpsat_pim.compiler.models.block import Request
from cpsat_pim.compiler.models.llm import SYSTEMS, Generation
from cpsat_pim.compiler.models.transformer import read_transformer
from cpsat_pim.compiler.predictor import Protocol
from cpsat_pim.compiler.search import best_mapping
from cpsat_pim.compiler.search.space import output_ps
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.device import read_device
from cpsat_pim.report.figures import check_drawing
from scripts import compiler_pictures, draft_predictor, hbm_pim_figures
from scripts.compiler_gains import (
    PAPER_SYSTEMS,
    Breakdown,
    Gain,
    Generated,
    Halves,
    Parts,
    breakdown_table,
    gains_table,
    generation_head,
    generation_row,
    header,
    outputs_table,
    row,
)
from tracesim.commands import Stream, simulate

#: Channels of a stack, over which the fixed distribution splits heads; channels of all stacks.
ONE_STACK, ALL_STACKS = 16, 80
HEAD_SIZE = 128
#: Figure 6: (heads, tokens, batch) and the paper's bars of AttAcc and of AttAcc + DCC.
BARS = [(heads, tokens, batch) for batch in (1, 4) for heads in (32, 64) for tokens in (512, 4096)]
FIGURE_6 = {
    "ATTN": (
        (8.71, 12.51, 6.73, 9.42, 6.30, 9.37, 6.22, 9.38),
        (11.35, 13.17, 9.65, 9.98, 9.61, 10.14, 9.79, 9.95),
    ),
    "GEMV": ((5.86, 9.37, 4.51, 7.09, 4.33, 7.02, 4.26, 7.04), (7.50, 9.79, 6.82, 7.59, 6.98, 7.71, 7.36, 7.77)),
}
RED_BARS = [(size, batch) for batch in (1, 4) for size in (1024, 2048, 4096)]
FIGURE_6_RED = ((0.59, 1.19, 2.37, 0.59, 1.19, 2.37), (0.99, 1.97, 3.94, 0.99, 1.66, 2.53))
#: Figure 8: gains over the GPU of base, base + DCC, full, full + DCC; by model, batch, given and generated tokens.
FIGURE_8 = {
    ("gpt3-13b", 1, 128, 2048): (1.09, 1.47, 2.56, 6.54),
    ("gpt3-13b", 1, 2048, 128): (1.16, 1.56, 2.74, 7.00),
    ("gpt3-13b", 1, 2048, 2048): (1.23, 1.66, 2.92, 7.45),
    ("llama-33b", 1, 128, 2048): (1.05, 1.42, 2.59, 7.11),
    ("llama-33b", 1, 2048, 128): (1.09, 1.47, 2.70, 7.41),
    ("llama-33b", 1, 2048, 2048): (1.13, 1.53, 2.82, 7.71),
    ("gpt3-13b", 4, 128, 2048): (1.16, 1.34, 2.30, 3.11),
    ("gpt3-13b", 4, 2048, 128): (1.30, 1.50, 2.60, 3.51),
    ("gpt3-13b", 4, 2048, 2048): (1.43, 1.65, 2.89, 3.90),
    ("llama-33b", 4, 128, 2048): (1.09, 1.21, 2.30, 2.92),
    ("llama-33b", 4, 2048, 128): (1.16, 1.29, 2.47, 3.14),
    ("llama-33b", 4, 2048, 2048): (1.24, 1.37, 2.65, 3.36),
}
#: Figure 9, right: gains of DCC over AttAcc; rows batch 1, 2, 4, 8, columns outputs 512, 1024, 2048, 4096.
FIGURE_9 = ((1.28, 1.17, 1.09, 1.04), (1.51, 1.25, 1.14, 1.07), (1.61, 1.32, 1.16, 1.10), (1.73, 1.38, 1.19, 1.10))
#: Figure 10: gains at size 2048 of batch 1 and 4.
FIGURE_10 = {"GEMV": (1.09, 1.16), "RED": (1.66, 1.40), "ATTN": (1.10, 1.16)}


def bound(kernel: str, **sizes: int) -> Contraction:
    """The contraction of a shipped kernel."""
    given = shipped_kernel(kernel).bind(sizes)
    return contraction_of(given, given.statements[0])


#: Picoseconds on one stack and on all stacks.
Pair = tuple[int, int]


@cache
def gemv_times(heads: int, outputs: int, target: Target) -> tuple[Pair, Pair]:
    """Of the fixed distribution, and of the optimum."""
    contraction = bound("gemv", B=heads, N=outputs, K=HEAD_SIZE)
    fixed = [time_of(fixed_gemv(heads, channels), contraction, target) for channels in (ONE_STACK, ALL_STACKS)]
    return (fixed[0], fixed[1]), best_times(contraction, target)


def best_times(contraction: Contraction, target: Target) -> Pair:
    """Of the optimum."""
    best = [best_mapping(contraction, target, channels, counts=False) for channels in (ONE_STACK, ALL_STACKS)]
    one, every = (found.time_ps for found in best if found is not None)
    return one, every


def fixed_gemv(heads: int, channels: int) -> Mapping:
    """AttAcc's distribution of a score: two input columns, drains beside the MACs of the next outputs."""
    return Mapping(
        splits=(min(heads, channels), 1, 1, 1), owners=(2, 2, 2, 3), is_tree=True, depth_tile=2, overlaps_drains=True
    )


def time_of(mapping: Mapping, contraction: Contraction, target: Target) -> int:
    """Picoseconds of device and host."""
    ticks = predicted_ticks(mapping, contraction, target)
    return ticks * target.device.tick_ps + output_ps(contraction, target, A100_HBM3, mapping.splits)


@cache
def attention_times(heads: int, tokens: int, target: Target) -> tuple[Pair, Pair]:
    """Of AttAcc's own stream, and of the optimum; without refresh and without the host."""
    tick = target.device.tick_ps
    streams = [
        attacc_attention(ceil(heads / channels), tokens, HEAD_SIZE, target) for channels in (ONE_STACK, ALL_STACKS)
    ]
    fixed = [simulate(target.rules, stream).finish * tick for stream in streams]
    best = [LengthSearch(heads, HEAD_SIZE, target, channels).best(tokens) for channels in (ONE_STACK, ALL_STACKS)]
    return (fixed[0], fixed[1]), (best[0].ticks * tick, best[1].ticks * tick)


@cache
def red_times(size: int, batch: int, target: Target) -> tuple[Pair, Pair]:
    """With a batch element a channel and its sum over all cores, and of the optimum."""
    contraction = bound("red", B=batch, N=size)
    fixed = time_of(fixed_red(batch), contraction, target)
    return (fixed, fixed), best_times(contraction, target)


def fixed_red(batch: int) -> Mapping:
    """A batch element a channel, its sum over all cores."""
    return Mapping(splits=(1, 1, batch, 1), owners=(3, 3, 3, 3), is_tree=True)


def gains(fixed: Pair, best: Pair) -> tuple[float, float]:
    """Over the fixed distribution, on one stack and on all."""
    return fixed[0] / best[0], fixed[1] / best[1]


def gain(kernel: str, size: str, batch: int, dcc: float, times: tuple[Pair, Pair]) -> Gain:
    """A bar beside the paper's."""
    fixed, best = times
    return Gain(kernel, size, batch, dcc, *gains(fixed, best), fixed[1] / 1e6, best[1] / 1e6)


def figure_6(target: Target) -> list[Gain]:
    """Gains over the fixed distribution, bar by bar."""
    found = []
    for kernel, measure in (("ATTN", attention_times), ("GEMV", gemv_times)):
        for (heads, tokens, batch), base, dcc in zip(BARS, *FIGURE_6[kernel], strict=True):
            found.append(gain(kernel, f"{heads}x{tokens}", batch, dcc / base, measure(heads * batch, tokens, target)))
    for (size, batch), base, dcc in zip(RED_BARS, *FIGURE_6_RED, strict=True):
        found.append(gain("RED", str(size), batch, dcc / base, red_times(size, batch, target)))
    return found


def figure_9(target: Target) -> list[Gain]:
    """Gains of GEMV with 32 heads by batch and outputs."""
    return [
        gain("GEMV", str(outputs), batch, dcc, gemv_times(32 * batch, outputs, target))
        for batch, bars in zip((1, 2, 4, 8), FIGURE_9, strict=True)
        for outputs, dcc in zip((512, 1024, 2048, 4096), bars, strict=True)
    ]


def figure_10(target: Target) -> list[Breakdown]:
    """Compute and rearrangement at size 2048 (with 32 heads), fixed and best on one stack."""
    parts_of = {"GEMV": gemv_parts, "RED": red_parts, "ATTN": attention_parts}
    return [
        Breakdown(kernel, batch, dcc, *parts_of[kernel](batch, target))
        for kernel, bars in FIGURE_10.items()
        for batch, dcc in zip((1, 4), bars, strict=True)
    ]


def gemv_parts(batch: int, target: Target) -> tuple[Parts, Parts]:
    """Of the fixed distribution, and of the optimum."""
    contraction = bound("gemv", B=32 * batch, N=2048, K=HEAD_SIZE)
    return _parts(fixed_gemv(32 * batch, ONE_STACK), contraction, target), _best_parts(contraction, target)


def red_parts(batch: int, target: Target) -> tuple[Parts, Parts]:
    """Of the fixed distribution, and of the optimum."""
    contraction = bound("red", B=batch, N=2048)
    return _parts(fixed_red(batch), contraction, target), _best_parts(contraction, target)


def attention_parts(batch: int, target: Target) -> tuple[Parts, Parts]:
    """Of AttAcc's own stream, and of the optimum: MACs, their rows and softmax alone, and the rest."""
    fixed, best = (pair[0] for pair in attention_times(32 * batch, 2048, target))
    stream = attacc_attention(ceil(32 * batch / ONE_STACK), 2048, HEAD_SIZE, target)
    stays = np.isin(stream.kind, [target.device.command(name) for name in ("MACAB", "SFM")])
    alone = simulate(target.rules, Stream(*(column[stays] for column in stream))).finish
    search = LengthSearch(32 * batch, HEAD_SIZE, target, ONE_STACK)
    compute = search.compute_ticks(2048, search.best(2048).mapping)
    found = [(ticks * target.device.tick_ps, total) for ticks, total in ((alone, fixed), (compute, best))]
    (one, other) = ((part / 1e6, (total - part) / 1e6) for part, total in found)
    return one, other


def bases(target: Target) -> Iterator[str]:
    """How many times longer the fixed distribution takes on HBM-PIM than on AttAcc, in the paper's bars of figures 6
    and 7, from which the GPU cancels out, and here."""
    yield header("kernel", "size", "batch", "paper", "ours, 16 channels")
    for (heads, tokens, batch), attacc, hbm in zip(
        BARS, FIGURE_6["GEMV"][0], hbm_pim_figures.FIGURE_7["GEMV"][0], strict=True
    ):
        kernel = bound("gemv", B=heads * batch, N=tokens, K=HEAD_SIZE)
        ours = time_of(fixed_gemv(heads * batch, ONE_STACK), kernel, target)
        other = hbm_pim_figures.fixed_ps("GEMV", heads * batch, tokens)
        yield row("GEMV", f"{heads}x{tokens}", batch, attacc / hbm, other / ours)
    vectors = dict(zip(hbm_pim_figures.VECTOR_BARS, hbm_pim_figures.FIGURE_7["RED"][0], strict=True))
    for (size, batch), attacc in zip(RED_BARS, FIGURE_6_RED[0], strict=True):
        ours = red_times(size, batch, target)[0][0]
        other = hbm_pim_figures.fixed_ps("RED", size, batch)
        yield row("RED", size, batch, attacc / vectors[size, batch], other / ours)


def _best_parts(contraction: Contraction, target: Target) -> Parts:
    """Of the optimum on one stack."""
    best = best_mapping(contraction, target, ONE_STACK, counts=False)
    assert best is not None, "a kernel of figure 10 fits one stack"
    return _parts(best.mapping, contraction, target)


def _parts(mapping: Mapping, contraction: Contraction, target: Target) -> Parts:
    """Microseconds of MACs and rows alone, and of the rest."""
    compute = compute_ticks(mapping, contraction, target) * target.device.tick_ps
    return compute / 1e6, (time_of(mapping, contraction, target) - compute) / 1e6


def figure_8(target: Target, models: list[str], batches: list[int]) -> Iterator[Generated]:
    """Seconds of the published systems and of ours, case by case."""
    for (model, batch, given, generated), paper in FIGURE_8.items():
        if model in models and batch in batches:
            begun = time.monotonic()
            generation = Generation(Request(read_transformer(model), batch, given, generated), target)
            times = {system: generation.seconds(system) for system in SYSTEMS}
            dcc = dict(zip(PAPER_SYSTEMS, paper, strict=True))
            yield Generated(model, batch, f"{given}/{generated}", dcc, times, time.monotonic() - begun)


def _print_table_2(protocol: Protocol, every: int, kernels: list[str], device: str | None) -> None:
    """Print the table, of one device or of all, or the line that says which extra is missing."""
    try:
        import_extra("xgboost", "tune")
    except MissingExtra as error:
        sys.exit(str(error))
    for line in draft_predictor.table_2(protocol, every, kernels, device, row, header):
        print(line, flush=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print each as soon as it is there."""
    for line in lines:
        print(line, flush=True)


def halves_of(number: int, target: Target) -> Halves:
    """The bars of figure 6, 7, 9 or 10 by device, in the paper's order."""
    ours = {6: figure_6, 9: figure_9, 10: figure_10}
    others = {7: hbm_pim_figures.figure_7, 9: hbm_pim_figures.figure_9, 10: hbm_pim_figures.figure_10}
    found: Halves = {hbm_pim_figures.DEVICE.name: others[number]()} if number in others else {}
    return found | ({target.device.name: ours[number](target)} if number in ours else {})


def print_halves(number: int, target: Target, halves: Halves) -> None:
    """Print the tables of figure 6, 7, 9 or 10."""
    table = {6: gains_table, 7: gains_table, 9: outputs_table, 10: breakdown_table}[number]
    for device, bars in halves.items():
        print_lines((f"\nFigure {number}, {device}\n", *table(bars)))
    if number == 7:
        print_lines(("\nThe fixed distribution on HBM-PIM over that on AttAcc\n", *bases(target)))


def printed_generation(target: Target, models: list[str], batches: list[int]) -> list[Generated]:
    """The cases of figure 8, each printed as soon as it is computed."""
    print_lines((f"\nFigure 8, {target.device.name}\n", generation_head()))
    cases = []
    for case in figure_8(target, models, batches):
        print(generation_row(case), flush=True)
        cases.append(case)
    return cases


def main() -> None:
    """Print the tables, and draw the figures."""
    args = parsed()
    if args.table:
        _print_table_2(Protocol(rounds=args.rounds, samples=args.samples), args.every, args.kernels, args.device)
        return
    if args.draw:
        try:
            check_drawing()
        except MissingExtra as error:
            sys.exit(str(error))
    target = target_of(read_device(args.device or "attacc"))
    for number in args.figure:
        if number == 8:
            shown: Halves | list[Generated] = printed_generation(target, args.models, args.batches)
        else:
            shown = halves_of(number, target)
            print_halves(number, target, shown)
        if args.draw:
            compiler_pictures.write(number, shown, args.draw)


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--figure", type=int, nargs="+", choices=(6, 7, 8, 9, 10))
    wanted.add_argument("--table", type=int, choices=(2,))
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="write the figures as SVG files, too")
    parser.add_argument("--every", type=int, default=1, help="table 2: each so-manieth size of a kernel")
    parser.add_argument("--kernels", nargs="+", choices=draft_predictor.KERNELS, default=draft_predictor.KERNELS)
    parser.add_argument("--rounds", type=int, default=5000, help="table 2: trees of the predictor")
    parser.add_argument("--samples", type=int, default=50, help="table 2: drafts of a size that it learns from")
    parser.add_argument("--device", help="attacc if absent; table 2: all of the table")
    parser.add_argument("--models", nargs="+", default=["gpt3-13b", "llama-33b"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4])
    args = parser.parse_args()
    if args.table and args.draw:
        parser.error("--draw draws figures, not tables")
    return args


if __name__ == "__main__":
    main()
