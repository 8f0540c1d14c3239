"""What the scripts of DCC's figures compute, bar by bar, and its Markdown tables."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from attrs import frozen

from cpsat_pim.compiler.models.llm import speedups

#: Microseconds of compute and of rearrangement.
Parts = tuple[float, float]
#: The systems of figure 8 whose gains the paper gives: base, base + DCC, full, full + DCC.
PAPER_SYSTEMS = ("base", "compiled-base", "full", "compiled-full")


@frozen
class Gain:
    """A bar of figure 6, 7 or 9: gains over the fixed distribution of DCC, and of the optimum on one stack (16
    channels) and on all (80); microseconds of the fixed distribution and of the optimum on all."""

    kernel: str
    size: str
    batch: int
    dcc: float
    one_stack: float
    all_stacks: float
    fixed_us: float
    best_us: float

    @property
    def gains(self) -> tuple[float, float, float]:
        """DCC, ours on one stack, ours on all stacks."""
        return self.dcc, self.one_stack, self.all_stacks


@frozen
class Breakdown:
    """A pair of bars of figure 10: DCC's gain; the parts of the fixed distribution and of the optimum on one stack."""

    kernel: str
    batch: int
    dcc: float
    fixed_us: Parts
    best_us: Parts

    @property
    def ours(self) -> float:
        """The gain of the optimum over the fixed distribution."""
        return sum(self.fixed_us) / sum(self.best_us)


@frozen
class Generated:
    """A case of figure 8: the paper's gains over the host alone, seconds by system and group of layers, and seconds
    that this took to compute. `tokens`: given/generated."""

    model: str
    batch: int
    tokens: str
    dcc: dict[str, float]
    times: dict[str, dict[str, float]]
    computed_s: float

    @property
    def gains(self) -> dict[str, float]:
        """Of each system over the host alone."""
        return speedups(self.times)


#: Bars of figure 6, 7, 9 or 10 by device.
Halves = dict[str, list[Any]]


def row(*cells: object) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"


def header(*cells: str) -> str:
    """The head of a Markdown table."""
    return row(*cells) + "\n" + "|" + "---|" * len(cells)


def by_kernel(gains: Sequence[Gain]) -> dict[str, list[Gain]]:
    """The bars of each kernel."""
    found = defaultdict(list)
    for gain in gains:
        found[gain.kernel].append(gain)
    return found


def geomeans(gains: Sequence[Gain]) -> tuple[float, ...]:
    """The geometric mean of DCC's gains, of ours on one stack and of ours on all."""
    return tuple(
        float(prod(column) ** (1 / len(gains))) for column in zip(*(gain.gains for gain in gains), strict=True)
    )


def gains_table(gains: Sequence[Gain]) -> Iterator[str]:
    """Figures 6 and 7."""
    yield header("kernel", "size", "batch", "DCC", "ours, 16 channels", "ours, 80 channels", "fixed us", "best us")
    for kernel, bars in by_kernel(gains).items():
        for bar in bars:
            yield row(kernel, bar.size, bar.batch, *bar.gains, bar.fixed_us, bar.best_us)
        yield row(kernel, "geomean", "", *geomeans(bars), "", "")


def outputs_table(gains: Sequence[Gain]) -> Iterator[str]:
    """A half of figure 9."""
    yield header("batch", "outputs", "DCC", "ours, 16 channels", "ours, 80 channels")
    for bar in gains:
        yield row(bar.batch, bar.size, *bar.gains)


def breakdown_table(breakdowns: Sequence[Breakdown]) -> Iterator[str]:
    """A half of figure 10."""
    yield header("kernel", "batch", "DCC", "ours", "fixed: compute", "rearrangement", "best: compute", "rearrangement")
    for pair in breakdowns:
        parts = (f"{part:.3f}" for part in (*pair.fixed_us, *pair.best_us))
        yield row(pair.kernel, pair.batch, pair.dcc, pair.ours, *parts)


def generation_head() -> str:
    """The head of figure 8's table."""
    names = [f"{name} (paper)" for name in PAPER_SYSTEMS]
    return header("model", "batch", "in/out", *names, "compiled-piped", "compiled", "s to compute")


def generation_row(case: Generated) -> str:
    """A case of figure 8."""
    gains = case.gains
    cells = [f"{gains[name]:.3f} ({case.dcc[name]:.2f})" for name in PAPER_SYSTEMS]
    cells += [f"{gains[name]:.3f}" for name in ("compiled-piped", "compiled")]
    return row(case.model, case.batch, case.tokens, *cells, f"{case.computed_s:.0f}")
