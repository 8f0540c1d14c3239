"""DCC's figures 6 to 10 beside ours as SVG files, for `benchmark_compiler.py`.

Bars of the paper are grey, ours in colour, on the same axis. The colours are those of the HTML pages. The drawing needs
the extra `plots`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cpsat_pim.base.extras import import_extra
from cpsat_pim.base.files import replacing_bytes
from cpsat_pim.compiler.models.block import GROUPS
from cpsat_pim.compiler.models.llm import SYSTEMS
from cpsat_pim.report.figures import COLOURS, drawing_style
from scripts.compiler_gains import Breakdown, Generated, Halves, by_kernel, geomeans

WIDTH_INCHES = 7.0
SMALL_POINTS = 6.5
#: The paper's bars, and ours on one stack and on all.
SERIES = (("DCC", "idle"), ("ours, 16 channels", "W"), ("ours, 80 channels", "accent"))
GROUP_COLOURS = dict(zip(GROUPS, ("accent", "W", "O", "GLOBAL_BUFFER", "DRAM"), strict=True))
PART_COLOURS = {"compute": "accent", "rearrangement": "W"}
PAPER = "the paper's total"
GAIN_AXIS = "gain (times faster)"


def write(number: int, shown: Halves | list[Generated], folder: Path) -> Path:
    """Draw a figure and return its path; equal figures give equal files."""
    path = folder / f"compiler-figure-{number}.svg"
    folder.mkdir(parents=True, exist_ok=True)
    with drawing_style(path.stem), replacing_bytes(path) as file:
        figure = DRAWINGS[number](shown)
        figure.suptitle(TITLES[number], x=0.01, ha="left", fontsize=10)
        figure.savefig(file, format="svg", metadata={"Date": None})
    return path


def panels(rows: int, columns: int, height: float) -> tuple[Any, Any]:
    """A figure on white paper and its axes, [rows, columns]."""
    figure = import_extra("matplotlib.figure", "plots").Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.06)
    return figure, figure.subplots(rows, columns, squeeze=False, sharey="row")


def finish(axes: Any, title: str, label: str) -> None:
    """Title and label of an axis of bars, and a line at 1, where the reference lies."""
    axes.set_title(title, loc="left", fontsize=8.5)
    axes.set_ylabel(label)
    axes.axhline(1, color=COLOURS["soft"], linewidth=0.8, linestyle="--", zorder=1)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", length=0)
    axes.spines[["top", "right"]].set_visible(False)


def name_value(axes: Any, x: float, height: float, text: str) -> None:
    """Write a value above a bar."""
    style: Any = {"rotation": 90, "ha": "center", "va": "bottom", "fontsize": SMALL_POINTS}
    style["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.3}  # else the line at 1 crosses it
    axes.annotate(text, (x, height), (0, 2), textcoords="offset points", **style)


def legend(figure: Any, axes: Any, columns: int) -> None:
    """One for all panels, below them."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False)


# --- Gains -----------------------------------------------------------------------------------------------------------


def draw_gain_groups(axes: Any, groups: Sequence[tuple[float, ...]], names: Sequence[str]) -> None:
    """The paper's bar and ours, side by side in each group."""
    width = 0.8 / len(SERIES)
    for number, (name, colour) in enumerate(SERIES):
        xs = [i + (number - 1) * width for i in range(len(groups))]
        heights = [group[number] for group in groups]
        axes.bar(xs, heights, width * 0.94, color=COLOURS[colour], label=name)
        for x, height in zip(xs, heights, strict=True):
            name_value(axes, x, height, f"{height:.2f}")
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.6, len(groups) - 0.4)


def kernels(halves: Halves) -> Any:
    """Figures 6 and 7: a panel a kernel."""
    ((_, gains),) = halves.items()
    found = by_kernel(gains)
    figure, axes = panels(len(found), 1, 1.75 * len(found) + 0.8)
    for (kernel, bars), axis in zip(found.items(), axes[:, 0], strict=True):
        groups = [*(bar.gains for bar in bars), geomeans(bars)]
        draw_gain_groups(axis, groups, [*(f"{bar.size}\nbatch {bar.batch}" for bar in bars), "geometric\nmean"])
        axis.axvline(len(bars) - 0.5, color=COLOURS["line"], linewidth=1)
        sizes = "heads x tokens" if "x" in bars[0].size else "elements"
        axis.set_ylim(0, _top(groups))
        finish(axis, f"{kernel}: {sizes}", GAIN_AXIS)
    legend(figure, axes[0, 0], len(SERIES))
    return figure


def outputs(halves: Halves) -> Any:
    """Figure 9: a column a device, a row a batch."""
    batches = sorted({bar.batch for bars in halves.values() for bar in bars})
    figure, axes = panels(len(batches), len(halves), 1.6 * len(batches) + 0.8)
    for column, (device, bars) in enumerate(halves.items()):
        for batch, axis in zip(batches, axes[:, column], strict=True):
            shown = [bar for bar in bars if bar.batch == batch]
            draw_gain_groups(axis, [bar.gains for bar in shown], [bar.size for bar in shown])
            finish(axis, f"{device}, batch {batch}", GAIN_AXIS if column == 0 else "")
    for line in axes:  # both devices on one scale
        line[0].set_ylim(0, _top([(bar.get_height(),) for axis in line for bar in axis.patches]))
    for axis in axes[-1]:
        axis.set_xlabel("outputs")
    legend(figure, axes[0, 0], len(SERIES))
    return figure


def _top(groups: Sequence[tuple[float, ...]]) -> float:
    """Where an axis ends: above the values of the highest bar."""
    return 1.3 * max(max(group) for group in groups)


# --- Shares ----------------------------------------------------------------------------------------------------------


def draw_stack(axes: Any, x: float, width: float, parts: dict[str, float], colours: dict[str, str]) -> None:
    """Parts of a time on top of each other."""
    bottom = 0.0
    for name, part in parts.items():
        axes.bar(x, part, width, bottom=bottom, color=COLOURS[colours[name]], label=name)
        bottom += part


def draw_paper(axes: Any, x: float, width: float, gain: float) -> None:
    """The paper's time; of its parts it gives no numbers."""
    axes.bar(x, 1 / gain, width, color=COLOURS["idle"], label=PAPER)
    name_value(axes, x, 1 / gain, f"{gain:.2f}")


def shares(halves: Halves) -> Any:
    """Figure 10: a panel a device; times over that of the fixed distribution."""
    figure, axes = panels(len(halves), 1, 2.5 * len(halves) + 0.6)
    for (device, pairs), axis in zip(halves.items(), axes[:, 0], strict=True):
        for i, pair in enumerate(pairs):
            draw_pair(axis, i, pair)
        axis.set_xticks(range(len(pairs)), [f"{pair.kernel}\nbatch {pair.batch}" for pair in pairs])
        axis.set_ylim(0, 1.25)
        finish(axis, device, "time, fixed distribution = 1")
    _legend_of_stacks(figure, axes[0, 0])
    return figure


def draw_pair(axes: Any, x: float, pair: Breakdown) -> None:
    """The fixed distribution, DCC's time over its own, and ours."""
    width, whole = 0.25, sum(pair.fixed_us)
    for at, parts in ((x - width, pair.fixed_us), (x + width, pair.best_us)):
        named = zip(PART_COLOURS, (part / whole for part in parts), strict=True)
        draw_stack(axes, at, 0.94 * width, dict(named), PART_COLOURS)
    draw_paper(axes, x, 0.94 * width, pair.dcc)
    name_value(axes, x + width, 1 / pair.ours, f"{pair.ours:.2f}")


def generation(cases: Sequence[Generated]) -> Any:
    """Figure 8: a panel a model and batch; times over that of the host alone."""
    held: dict[tuple[str, int], list[Generated]] = {}
    for case in cases:
        held.setdefault((case.model, case.batch), []).append(case)
    figure, axes = panels(len(held), 1, 2.3 * len(held) + 1.3)
    for ((model, batch), of_panel), axis in zip(held.items(), axes[:, 0], strict=True):
        marks: dict[float, str] = {}
        for i, case in enumerate(of_panel):
            first = i * (len(SYSTEMS) + 0.5)
            marks |= draw_case(axis, first, case)
            axis.text(first - 0.45, 1.36, f"{case.tokens} given/generated tokens", fontsize=7.5)
        axis.set_xticks(list(marks), list(marks.values()), rotation=90, fontsize=7)
        axis.set(ylim=(0, 1.5), xlim=(-0.7, max(marks) + 0.7))
        finish(axis, f"{model}, batch {batch}", "time, host alone = 1")
    _legend_of_stacks(figure, axes[0, 0])
    return figure


def draw_case(axes: Any, first: float, case: Generated) -> dict[float, str]:
    """The systems of a case, the paper's total on the left of ours; return their names by position."""
    whole = sum(case.times["gpu"].values())
    for i, (system, parts) in enumerate(case.times.items()):
        dcc = case.dcc.get(system)
        width = 0.48 if dcc is None else 0.44
        x = first + i + (0.24 if dcc else 0)
        draw_stack(axes, x, width, {group: parts[group] / whole for group in GROUPS}, GROUP_COLOURS)
        if dcc is not None:
            draw_paper(axes, x - 0.48, width, dcc)
        if system != "gpu":
            name_value(axes, x, 1 / case.gains[system], f"{case.gains[system]:.2f}")
    return {first + i: "host alone" if system == "gpu" else system for i, system in enumerate(case.times)}


def _legend_of_stacks(figure: Any, axes: Any) -> None:
    """Each name once."""
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(handles), frameon=False)


DRAWINGS = {6: kernels, 7: kernels, 8: generation, 9: outputs, 10: shares}
GAIN = "gain over the fixed distribution (DCC: over its own)"
TITLES = {
    6: f"DCC's figure 6 (AttAcc): {GAIN}",
    7: f"DCC's figure 7 (HBM-PIM): {GAIN}",
    8: "DCC's figure 8: time of generated tokens by layers; above a bar its gain over the host alone",
    9: f"DCC's figure 9, GEMV, 32 heads: {GAIN}",
    10: "DCC's figure 10, size 2048, 16 channels: the fixed distribution, the paper's, ours; with gains",
}
