"""The figures of DCC (arXiv 2511.15503) recomputed, beside the paper's, as Markdown tables.

    python scripts/benchmark_compiler.py --figure 6 7 9 10
    python scripts/benchmark_compiler.py --figure 8 [--models gpt3-13b] [--batches 1]
    python scripts/benchmark_compiler.py --table 2 [--device NAME --kernels GEMV --every 8 --rounds 5000 --samples 50]

Figures 6, 9 and 10 compare gains over AttAcc's fixed distribution on as many channels: the paper's GPU baseline is not
given. The fixed distribution splits heads over the channels of one stack (16) or of all (80), outputs over 16 bank
groups and the depth over 4 banks (paper, section V). Figure 7 and the left halves of 9 and 10 are HBM-PIM's
(`hbm_pim_figures.py`).
"""

import argparse
import sys
import time
from collections.abc import Iterator
from functools import cache
from math import ceil, prod
from pathlib import Path

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
from cpsat_pim.compiler.models.llm import SYSTEMS, Generation, speedups
from cpsat_pim.compiler.models.transformer import read_transformer
from cpsat_pim.compiler.predictor import Protocol
from cpsat_pim.compiler.search import best_mapping
from cpsat_pim.compiler.search.space import output_ps
from cpsat_pim.compiler.target import Target, target_of
from cpsat_pim.device import read_device
from scripts import draft_predictor, hbm_pim_figures
from tracesim.commands import simulate

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
    fixed = time_of(Mapping(splits=(1, 1, batch, 1), owners=(3, 3, 3, 3), is_tree=True), contraction, target)
    return (fixed, fixed), best_times(contraction, target)


def row(*cells: object) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"


def header(*cells: str) -> str:
    """The head of a Markdown table."""
    return row(*cells) + "\n" + "|" + "---|" * len(cells)


def geomean(values: list[float]) -> float:
    """The geometric mean."""
    return float(prod(values) ** (1 / len(values)))


def gains(fixed: Pair, best: Pair) -> tuple[float, float]:
    """Over the fixed distribution, on one stack and on all."""
    return fixed[0] / best[0], fixed[1] / best[1]


def figure_6(target: Target) -> Iterator[str]:
    """Gains over the fixed distribution, bar by bar."""
    yield header("kernel", "size", "batch", "DCC", "ours, 16 channels", "ours, 80 channels", "fixed us", "best us")
    for kernel, measure in (("ATTN", attention_times), ("GEMV", gemv_times)):
        rows = []
        for (heads, tokens, batch), base, dcc in zip(BARS, *FIGURE_6[kernel], strict=True):
            fixed, best = measure(heads * batch, tokens, target)
            rows.append((dcc / base, *gains(fixed, best)))
            yield row(kernel, f"{heads}x{tokens}", batch, *rows[-1], fixed[1] / 1e6, best[1] / 1e6)
        yield row(kernel, "geomean", "", *(geomean(list(column)) for column in zip(*rows, strict=True)), "", "")
    for (size, batch), base, dcc in zip(RED_BARS, *FIGURE_6_RED, strict=True):
        fixed, best = red_times(size, batch, target)
        yield row("RED", size, batch, dcc / base, *gains(fixed, best), fixed[1] / 1e6, best[1] / 1e6)


def figure_9(target: Target) -> Iterator[str]:
    """Gains of GEMV with 32 heads by batch and outputs."""
    yield header("batch", "outputs", "DCC", "ours, 16 channels", "ours, 80 channels")
    for batch, bars in zip((1, 2, 4, 8), FIGURE_9, strict=True):
        for outputs, dcc in zip((512, 1024, 2048, 4096), bars, strict=True):
            yield row(batch, outputs, dcc, *gains(*gemv_times(32 * batch, outputs, target)))


def figure_10(target: Target) -> Iterator[str]:
    """Compute and rearrangement at size 2048 with 32 heads, fixed and best on one stack; microseconds."""
    yield header("kernel", "batch", "DCC", "ours", "fixed: compute", "rearrangement", "best: compute", "rearrangement")
    for batch, dcc in zip((1, 4), FIGURE_10["GEMV"], strict=True):
        contraction = bound("gemv", B=32 * batch, N=2048, K=HEAD_SIZE)
        best = best_mapping(contraction, target, ONE_STACK, counts=False)
        if best is not None:
            fixed = fixed_gemv(32 * batch, ONE_STACK)
            parts = [*_parts(fixed, contraction, target), *_parts(best.mapping, contraction, target)]
            yield row("GEMV", batch, dcc, sum(parts[:2]) / sum(parts[2:]), *(f"{part:.3f}" for part in parts))
    for batch, dcc in zip((1, 4), FIGURE_10["RED"], strict=True):
        yield row("RED", batch, dcc, gains(*red_times(2048, batch, target))[0], "", "", "", "")
    for batch, dcc in zip((1, 4), FIGURE_10["ATTN"], strict=True):
        yield row("ATTN", batch, dcc, gains(*attention_times(32 * batch, 2048, target))[0], "", "", "", "")


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


def _parts(mapping: Mapping, contraction: Contraction, target: Target) -> tuple[float, float]:
    """Microseconds of MACs and rows alone, and of the rest."""
    compute = compute_ticks(mapping, contraction, target) * target.device.tick_ps
    return compute / 1e6, (time_of(mapping, contraction, target) - compute) / 1e6


def figure_8(target: Target, models: list[str], batches: list[int]) -> Iterator[str]:
    """Gains over the host alone of the published systems and of ours."""
    names = ("base", "compiled-base", "full", "compiled-full")
    paper_names = [f"{name} (paper)" for name in names]
    yield header("model", "batch", "in/out", *paper_names, "compiled-piped", "compiled", "s to compute")
    for (model, batch, given, generated), paper in FIGURE_8.items():
        if model in models and batch in batches:
            begun = time.monotonic()
            generation = Generation(Request(read_transformer(model), batch, given, generated), target)
            gained = speedups({system: generation.seconds(system) for system in SYSTEMS})
            cells = [f"{gained[name]:.3f} ({value:.2f})" for name, value in zip(names, paper, strict=True)]
            cells += [f"{gained[name]:.3f}" for name in ("compiled-piped", "compiled")]
            seconds = f"{time.monotonic() - begun:.0f}"
            yield row(model, batch, f"{given}/{generated}", *cells, seconds)


def _print_table_2(protocol: Protocol, every: int, kernels: list[str], device: str | None) -> None:
    """Print the table, of one device or of all, or the line that says which extra is missing."""
    try:
        import_extra("xgboost", "tune")
    except MissingExtra as error:
        sys.exit(str(error))
    for line in draft_predictor.table_2(protocol, every, kernels, device, row, header):
        print(line, flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--figure", type=int, nargs="+", choices=(6, 7, 8, 9, 10))
    wanted.add_argument("--table", type=int, choices=(2,))
    parser.add_argument("--every", type=int, default=1, help="table 2: each so-manieth size of a kernel")
    parser.add_argument("--kernels", nargs="+", choices=draft_predictor.KERNELS, default=draft_predictor.KERNELS)
    parser.add_argument("--rounds", type=int, default=5000, help="table 2: trees of the predictor")
    parser.add_argument("--samples", type=int, default=50, help="table 2: drafts of a size that it learns from")
    parser.add_argument("--device", help="attacc if absent; table 2: all of the table")
    parser.add_argument("--models", nargs="+", default=["gpt3-13b", "llama-33b"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4])
    args = parser.parse_args()
    if args.table:
        _print_table_2(Protocol(rounds=args.rounds, samples=args.samples), args.every, args.kernels, args.device)
        return
    device = args.device or "attacc"
    target = target_of(read_device(device))
    for number in args.figure:
        if number != 7:
            print(f"\nFigure {number}, {device}\n")
        tables = figure_8(target, args.models, args.batches) if number == 8 else iter(())
        if number in (6, 9, 10):
            tables = {6: figure_6, 9: figure_9, 10: figure_10}[number](target)
        for line in tables:
            print(line, flush=True)
        if number in (7, 9, 10):
            print(f"\nFigure {number}, {hbm_pim_figures.DEVICE.name}\n")
            left = {7: hbm_pim_figures.figure_7, 9: hbm_pim_figures.figure_9, 10: hbm_pim_figures.figure_10}[number]
            for line in left(row, header):
                print(line, flush=True)
        if number == 7:
            print("\nThe fixed distribution on HBM-PIM over that on AttAcc\n")
            for line in bases(target):
                print(line, flush=True)


if __name__ == "__main__":
    main()
