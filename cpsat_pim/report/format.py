"""Figures as text: energies, times, powers, rates, gaps, layouts, machines."""

from typing import Any

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import LAYOUT_ORDERS, Level, Tensor
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.evaluate.performance import Performance
from cpsat_pim.mapper.result import Status
from cpsat_pim.mapping import Mapping

#: What a figure that does not exist is shown as.
EMPTY = "-"
_PREFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9))


def visible(text: str) -> str:
    """Return a line with control characters as escapes: a name from a file must not command the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def format_energy(energy_fj: int) -> str:
    """Format an energy with four digits in nJ, uJ or mJ."""
    for unit, size in (("mJ", FJ_PER_NJ * 10**6), ("uJ", FJ_PER_NJ * 10**3), ("nJ", FJ_PER_NJ)):
        if energy_fj >= size or unit == "nJ":
            break
    value = energy_fj / size
    digits = max(0, 3 - len(str(int(value))) + 1)
    return f"{value:.{digits}f} {unit}"


def format_edp(product: int) -> str:
    """Format latency x energy with four digits, in cycles x nJ."""
    return f"{product / FJ_PER_NJ:.4g}"


def format_objective(kind: str, value: int | float) -> str:
    """Format an objective's value in a readable unit."""
    if kind == "energy":
        return format_energy(int(value))
    return format_edp(int(value)) if kind == "edp" else f"{value:,.0f}"


def format_gap(gap: float | None) -> str:
    """Format a gap in percent; a proven optimum is "0"."""
    if gap is None:
        return EMPTY
    return "0" if gap == 0 else f"{gap:.3%}" if gap >= 0.00001 else "<0.001%"


def format_layouts(mapping: Mapping) -> list[str]:
    """Return the DRAM axis orders of I, W and O; brackets mark row-aligned layouts."""
    orders = [LAYOUT_ORDERS[t][mapping.layout[t]] for t in Tensor]
    aligned = mapping.stored[Level.ROW_BUFFER]
    return [f"[{order}]" if aligned[t] else order for t, order in zip(Tensor, orders, strict=True)]


def format_si(value: float, unit: str) -> str:
    """Format a positive figure with four digits and a prefix: 0.00123 s is 1.230 ms."""
    value = float(f"{value:.4g}")  # before the prefix is chosen: 999.96 m is 1.000
    prefix, size = next(((p, size) for p, size in _PREFIXES if value >= size), _PREFIXES[-1])
    scaled = round(value / size, 6)
    digits = max(0, 4 - len(str(int(scaled))))
    return f"{scaled:.{digits}f} {prefix}{unit}"


def format_tops(tops: float) -> str:
    """Format 10^12 operations per second."""
    return format_si(tops * 1e12, "OPS")


def format_efficiency(tops_per_w: float | None) -> str:
    """Format 10^12 operations per joule."""
    return EMPTY if tops_per_w is None else f"{tops_per_w:.4g} TOPS/W"


def format_performance(performance: Performance, runs: float | None = None) -> str:
    """State time, throughput, power and efficiency in one line, and how often a second the work runs, if it is whole.

    Args:
        performance: of the work.
        runs: runs a second.
    """
    static = performance.static_power_w
    included = f"with {format_si(static, 'W')} of static power" if static else "without static power"
    figures = [
        format_si(performance.seconds, "s"),
        *([f"{float(f'{runs:.4g}'):,.12g} runs/s"] if runs is not None else []),
        format_tops(performance.tops),
        f"{format_si(performance.power_w, 'W')} {included}",
        format_efficiency(performance.tops_per_w),
    ]
    return f"{', '.join(figures)}; a MAC is two operations"


def format_machine(arch: PIMArchitecture) -> str:
    """Name a machine, and say of one with several nodes that a mapping uses one of them."""
    return arch.name if arch.nodes == 1 else f"one of {arch.nodes:,} nodes of {arch.name}"


def format_choice(shared: dict[str, Any]) -> str:
    """Describe a shared choice, given as plain data, and how far its optimality is proven."""
    choice = shared["choice"]
    if choice is None:
        return (
            "Infeasible: no shared choice has a mapping of every layer."
            if shared["status"] == Status.INFEASIBLE
            else "No shared choice was found."
        )
    stored = [f"{level} {_names(row)}" for level, row in choice.get("stored", {}).items()]
    orders = [f"{tensor} {order}" for tensor, order in choice.get("layout", {}).items()]
    proof = "proven" if shared["gap"] == 0 else f"gap {format_gap(shared['gap'])}"
    return f"Shared by all layers: {', '.join([*stored, *orders])}; minimum over all choices: {proof}."


def _names(row: dict[str, bool]) -> str:
    """Name the tensors that a level stores."""
    return f"stores {' '.join(t for t in row if row[t]) or 'nothing'}"


def format_bytes(size: int) -> str:
    """Format a size in B, KiB, MiB or GiB, with one decimal if it is not whole."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{size // scale} {unit}" if size % scale == 0 else f"{size / scale:.1f} {unit}"
    return f"{size} B"
