"""The HBM-PIM halves of DCC's figures 7, 9 and 10, for `benchmark_compiler.py`.

The paper runs AttAcc's distribution on HBM-PIM: heads over the channels of a stack, outputs over 16 bank groups and the
depth over 4 banks of each. All blocks of a channel receive the same input, so that the depth cannot be divided over
them. The fixed distribution here is the nearest one that is legal: heads (or batch elements) over channels as there,
outputs over all bank groups, blocks and accumulators, 8 input columns a load, in the order of Samsung's kernels. A sum
has no inputs, so that its depth is divided over all of them. Vectors lie as Samsung's elementwise kernels lay them, a
batch element a channel. Times are ticks of the device, in which the host's writes and reads are commands.
"""

from functools import cache
from typing import Any

from cpsat_pim.compiler.broadcast import Lowered, best_of_kernel, lowered_of
from cpsat_pim.compiler.language import Kernel, shipped_kernel
from cpsat_pim.compiler.lowering.program import HOST_READS, HOST_WRITES, LOADS
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping
from cpsat_pim.device import read_device
from scripts.compiler_gains import Breakdown, Gain

DEVICE = read_device("hbm-pim-hbm3")
#: Channels of a stack; of all stacks.
ONE_STACK, ALL_STACKS = 16, 80
HEAD_SIZE = 128
#: Figure 7: bars of HBM-PIM and of HBM-PIM + DCC over the GPU; GEMV by (heads, outputs, batch), others by size, batch.
GEMV_BARS = [(heads, tokens, batch) for batch in (1, 4) for heads in (32, 64) for tokens in (512, 4096)]
VECTOR_BARS = [(size, batch) for batch in (1, 2, 4) for size in (1024, 2048, 4096)]
FIGURE_7 = {
    "GEMV": ((3.80, 5.92, 2.61, 4.33, 2.47, 4.25, 2.45, 4.22), (5.29, 7.68, 4.82, 5.55, 5.45, 5.47, 5.77, 5.42)),
    "RED": ((0.36, 0.71, 1.43) * 3, (0.84, 1.68, 3.35, 0.84, 1.68, 2.74, 0.84, 1.37, 2.01)),
    "VA": ((0.68, 1.36, 2.71) * 3, (1.34, 2.68, 5.36, 1.34, 2.68, 3.73, 1.34, 1.86, 2.71)),
    "RELU": ((0.94, 1.88, 3.76) * 3, (1.67, 3.35, 6.69, 1.67, 3.35, 5.17, 1.67, 2.58, 3.76)),
}
#: Figure 9, left: gains by batch 1, 2, 4, 8 (rows) and outputs 512 to 4096.
FIGURE_9 = ((1.39, 1.39, 1.25, 1.30), (1.85, 1.59, 1.36, 1.28), (2.20, 1.70, 1.35, 1.29), (2.36, 1.68, 1.35, 1.28))
#: Figure 10, left: gains at size 2048 of batch 1 and 4.
FIGURE_10 = {"GEMV": (1.25, 1.35), "VA": (1.98, 1.38), "RED": (2.34, 1.92), "RELU": (1.78, 1.37)}


def fixed_and_best(kernel: Kernel, fixed: Any, channels: int) -> tuple[Lowered, Lowered]:
    """A kernel under the fixed distribution, and under the best mapping on so many channels."""
    best = best_of_kernel(kernel, DEVICE, channels)
    return lowered_of(kernel, fixed, DEVICE), lowered_of(kernel, best.mapping, DEVICE)


def gemv(heads: int, outputs: int, channels: int) -> tuple[Lowered, Lowered]:
    """Scores of some heads over so many tokens."""
    kernel = shipped_kernel("gemv").bind({"B": heads, "N": outputs, "K": HEAD_SIZE})
    fixed = BroadcastMapping(splits=(min(heads, channels), 1, 1, 1), owners=(-1, 2, 2, 2), depth_tile=8)
    return fixed_and_best(kernel, fixed, channels)


def vectors(name: str, size: int, batch: int, channels: int) -> tuple[Lowered, Lowered]:
    """A sum of, or an elementwise kernel over, `batch` vectors."""
    kernel = shipped_kernel(name.lower()).bind({"B": batch, "N": size})
    fixed: Any = ElementwiseMapping(channels=batch, shares_rows=False)
    if name == "RED":
        fixed = BroadcastMapping(splits=(1, 1, batch, 1), owners=(-1, 3, 3, 3))
    return fixed_and_best(kernel, fixed, channels)


@cache
def measured(name: str, *sizes: int) -> tuple[tuple[Lowered, Lowered], tuple[Lowered, Lowered]]:
    """Fixed and best on one stack and on all stacks."""
    measure = gemv if name == "GEMV" else lambda *given: vectors(name, *given)
    return measure(*sizes, ONE_STACK), measure(*sizes, ALL_STACKS)


def fixed_ps(name: str, *sizes: int) -> int:
    """Picoseconds of the fixed distribution on one stack."""
    return measured(name, *sizes)[0][0].ticks * DEVICE.tick_ps


def gains(name: str, *sizes: int) -> tuple[float, float]:
    """Over the fixed distribution, on one stack and on all."""
    one, every = ((fixed.ticks / best.ticks) for fixed, best in measured(name, *sizes))
    return one, every


def gain(name: str, size: str, batch: int, dcc: float, *sizes: int) -> Gain:
    """A bar beside the paper's; `sizes` are those of `measured`."""
    fixed, best = measured(name, *sizes)[1]
    return Gain(name, size, batch, dcc, *gains(name, *sizes), _microseconds(fixed.ticks), _microseconds(best.ticks))


def figure_7() -> list[Gain]:
    """Gains over the fixed distribution, bar by bar."""
    found = []
    for name, (base, dcc) in FIGURE_7.items():
        bars = GEMV_BARS if name == "GEMV" else [(1, *bar) for bar in VECTOR_BARS]
        for (heads, size, batch), before, after in zip(bars, base, dcc, strict=True):
            sizes = (heads * batch, size) if name == "GEMV" else (size, batch)
            label = f"{heads}x{size}" if name == "GEMV" else str(size)
            found.append(gain(name, label, batch, after / before, *sizes))
    return found


def figure_9() -> list[Gain]:
    """Gains of GEMV with 32 heads by batch and outputs."""
    return [
        gain("GEMV", str(outputs), batch, dcc, 32 * batch, outputs)
        for batch, bars in zip((1, 2, 4, 8), FIGURE_9, strict=True)
        for outputs, dcc in zip((512, 1024, 2048, 4096), bars, strict=True)
    ]


def figure_10() -> list[Breakdown]:
    """Size 2048 (GEMV with 32 heads) on one stack: what the host writes, loads and reads, and the rest."""
    found = []
    for name, bars in FIGURE_10.items():
        for batch, dcc in zip((1, 4), bars, strict=True):
            sizes = (32 * batch, 2048) if name == "GEMV" else (2048, batch)
            fixed, best = measured(name, *sizes)[0]
            found.append(Breakdown(name, batch, dcc, _parts(fixed), _parts(best)))
    return found


def _parts(lowered: Lowered) -> tuple[float, float]:
    """Microseconds of commands to all blocks, and of what the host moves."""
    program = lowered.program
    moved = int(program.parts[[HOST_WRITES, LOADS, HOST_READS]].sum())
    return _microseconds(program.ticks - moved), _microseconds(moved)


def _microseconds(ticks: int) -> float:
    return ticks * DEVICE.tick_ps / 1e6
