"""Charts for papers: drawn by matplotlib, saved as PDF or SVG, in the colours of the HTML pages."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from cpsat_pim.base.extras import import_extra
from cpsat_pim.base.files import file_stem, replacing_bytes
from cpsat_pim.report.format import visible

#: The colours of `page/page.css` in the light theme, by their names there.
COLOURS = {
    "ink": "#16202c", "soft": "#5b6878", "line": "#dfe3e9", "grid": "#e9ecf0", "accent": "#2f6bd8",
    "I": "#3f74d9", "W": "#e59a13", "O": "#2f9e63", "macs": "#17857a", "idle": "#c3cad3", "compute": "#8b95a5",
    "bus": "#d9587a", "pipeline": "#98a32b", "buffer": "#7d5bd0", "PE": "#7cc4ba", "GLOBAL_BUFFER": "#7d5bd0",
    "ROW_BUFFER": "#c3a6f0", "DRAM": "#d9587a", "activation": "#8c2f4d", "latency": "#2f6bd8", "energy": "#c2570c",
}  # fmt: skip
#: Names of the colours of machines or objectives side by side, in turn.
SERIES = ("accent", "W", "O", "GLOBAL_BUFFER", "DRAM", "macs", "energy", "compute", "activation", "ROW_BUFFER")
_FONT_POINTS, _WIDTH_INCHES = 8, 7.0
#: More bars have no names.
_MOST_NAMED = 80
#: So many characters of a legend fit beside each other; 5 of an entry are its mark and the gap.
_LEGEND_CHARACTERS = 92
#: An axis is logarithmic where the largest value is more than so many times the least.
_LOGARITHMIC_FROM = 5
#: Of a bar more than so many times as long as another one, the other one cannot be seen.
INVISIBLE_FROM = 100
#: So many characters of names fit beside each other under the columns of a heat map; else they are written askew.
_NAMES_ABREAST = 70
#: The shades of a heat map are logarithmic where a ratio is larger than this.
_LOGARITHMIC_SHADES_FROM = 10
#: The scale of a heat map of ratios reaches at least so far, so that equal figures look equal.
_LEAST_SCALE = 1.1


@frozen
class Series:
    """Values of one component or machine, a value or None for each category. `bounds`: lower bounds of the values, if
    there are any; a line goes from the bound of an unproven value to it.
    """

    name: str
    colour: str
    values: tuple[float | None, ...]
    bounds: tuple[float, ...] = ()


@frozen(kw_only=True)
class Chart:
    """A chart: its file name, title, axis, and what it shows. `kind`: `stacked` or `grouped` bars over `categories`,
    `heat` of series (rows) by categories (columns), or `front`, `points` or `steps`, where a series' values are x, y,
    x, y, .... `open_marks`: what is not proven, by series and position. `bands`: areas behind steps, whose values are
    x, low, high, .... `mark`: an x at which a line stands. `end`: where the axis of bars ends, if not
    behind the longest.
    """

    name: str
    title: str
    kind: str
    axis: str
    categories: tuple[str, ...]
    series: tuple[Series, ...]
    x_axis: str = ""
    open_marks: frozenset[tuple[str, int]] = frozenset()
    bands: tuple[Series, ...] = ()
    mark: float | None = None
    has_log_y: bool = False
    end: float | None = None


def check_drawing() -> None:
    """Check that the plotting library is installed.

    Raises:
        MissingExtra: it is not.
    """
    import_extra("matplotlib", "plots")


def write_pdf(charts: Sequence[Chart], path: str | Path) -> None:
    """Write a PDF with a page per chart.

    Raises:
        MissingExtra: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    pages = import_extra("matplotlib.backends.backend_pdf", "plots").PdfPages
    # Fonts are written where the file is closed, so the style is left after that.
    with replacing_bytes(path) as file, drawing_style("pdf"), pages(file, metadata={"CreationDate": None}) as pdf:
        for chart in charts:
            pdf.savefig(_drawn(chart))


def write_svgs(charts: Sequence[Chart], folder: str | Path) -> list[Path]:
    """Write an SVG file per chart and return the paths.

    Raises:
        MissingExtra: matplotlib is not installed.
        OSError: a file cannot be written.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder) / f"{file_stem(chart.name)}.svg" for chart in charts]
    for chart, path in zip(charts, paths, strict=True):
        with replacing_bytes(path) as file:
            file.write(_svg(chart).encode())
    return paths


def inline_svg(chart: Chart) -> str:
    """Return a chart as an SVG element for a page; its colours are those of the page's theme."""
    text = _svg(chart)
    text = text[text.index("<svg") :]
    names = {value: name for name, value in reversed(COLOURS.items())}
    return re.sub(r"#[0-9a-f]{6}", lambda m: f"var(--{names[m[0]]})" if m[0] in names else m[0], text)


def _svg(chart: Chart) -> str:
    buffer = io.BytesIO()
    with drawing_style(chart.name):
        _drawn(chart).savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue().decode()


def drawing_style(name: str) -> Any:
    """Return the context in which a chart is drawn and saved; equal charts give equal files."""
    style = {
        "font.size": _FONT_POINTS, "svg.fonttype": "none", "svg.hashsalt": name, "pdf.fonttype": 42,
        "font.family": "sans-serif", "axes.edgecolor": COLOURS["soft"], "text.color": COLOURS["ink"],
        "axes.labelcolor": COLOURS["ink"], "xtick.color": COLOURS["soft"], "ytick.color": COLOURS["soft"],
        "xtick.labelcolor": COLOURS["ink"], "ytick.labelcolor": COLOURS["ink"], "grid.color": COLOURS["grid"],
    }  # fmt: skip
    return import_extra("matplotlib", "plots").rc_context(style)


# --- Drawing ---------------------------------------------------------------------------------------------------------


def _drawn(chart: Chart) -> Any:
    """Return the matplotlib figure of a chart."""
    figure = import_extra("matplotlib.figure", "plots").Figure(
        figsize=(_WIDTH_INCHES, _height(chart)), layout="constrained"
    )
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    axes.set_title(_literal(chart.title), loc="left", fontsize=_FONT_POINTS + 1, wrap=chart.kind == "heat")
    _KINDS[chart.kind](axes, chart)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def _height(chart: Chart) -> float:
    bars = len(chart.categories) * (len(chart.series) * 0.6 + 0.6 if chart.kind == "grouped" else 1)
    if chart.kind in ("front", "points", "steps"):
        return 3.6
    if chart.kind == "heat":
        return 1.2 + 0.2 * (len(chart.series) + 4)
    return 1.2 + 0.16 * _legend_rows(chart) + 0.2 * min(bars, 2 * _MOST_NAMED)


def _legend_columns(chart: Chart) -> int:
    """Return how many entries of the legend lie side by side."""
    longest = max(len(series.name) for series in chart.series)
    return min(len(chart.series), max(1, _LEGEND_CHARACTERS // (5 + longest)))


def _legend_rows(chart: Chart) -> int:
    return -(-len(chart.series) // _legend_columns(chart))


def _literal(text: str) -> str:
    """Return a text that matplotlib does not read as mathematics, with control characters as escapes."""
    return visible(text).replace("$", r"\$")


def _names(axis: Any, names: Sequence[str], shift: float = 0, **style: Any) -> None:
    """Set the names of the categories, or none if they are too many."""
    if len(names) > _MOST_NAMED:
        axis.set_ticks([])
    else:
        axis.set_ticks([i + shift for i in range(len(names))], list(map(_literal, names)), **style)


def _stacked(axes: Any, chart: Chart) -> None:
    """Draw lying bars, the first category on top."""
    left = [0.0] * len(chart.categories)
    for series in chart.series:
        values = [value or 0.0 for value in series.values]
        axes.barh(range(len(values)), values, left=left, color=series.colour, label=_literal(series.name), height=0.72)
        left = [a + b for a, b in zip(left, values, strict=True)]
    _finish_bars(axes, chart)


def _grouped(axes: Any, chart: Chart) -> None:
    """Draw a lying bar per series in each category; a missing value has none, an unproven one is pale."""
    height = 0.8 / len(chart.series)
    for number, series in enumerate(chart.series):
        axes.barh([0], [0], color=series.colour, label=_literal(series.name))  # for the legend, never pale
        for i, value in enumerate(series.values):
            is_open = (series.name, i) in chart.open_marks
            y = i + (number - (len(chart.series) - 1) / 2) * height
            axes.barh(y, value or 0.0, height=0.92 * height, color=series.colour, alpha=0.45 if is_open else 1)
            if value and is_open and series.bounds:
                axes.plot(
                    [series.bounds[i], value], [y, y], color=COLOURS["ink"], linewidth=0.8, marker="|", markersize=4
                )
    _finish_bars(axes, chart)
    _scale_bars(axes, [value for series in chart.series for value in (*series.values, *series.bounds) if value])


def _scale_bars(axes: Any, values: Sequence[float]) -> None:
    """Make the axis of bars logarithmic if the shortest ones could not be seen else."""
    if values and max(values) > INVISIBLE_FROM * min(values):
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 2, 1.3 * max(values))
        axes.set_xlabel(f"{axes.get_xlabel()} (logarithmic)")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _finish_bars(axes: Any, chart: Chart) -> None:
    _names(axes.yaxis, chart.categories)
    axes.set_ylim(len(chart.categories) - 0.5, -0.5)
    if chart.end is not None:
        axes.set_xlim(0, 1.03 * chart.end)
    axes.set_xlabel(_literal(chart.axis))
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.legend(ncols=_legend_columns(chart), loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
    axes.set_title(axes.get_title(loc="left"), loc="left", pad=10 + 12 * _legend_rows(chart))


def _heat(axes: Any, chart: Chart) -> None:
    """Draw a cell per series (row) and category (column), with its value relative to the least of its column."""
    columns = [[s.values[i] or 0.0 for s in chart.series] for i in range(len(chart.categories))]
    least = [min((value for value in column if value), default=None) for column in columns]
    cells = [
        [value / low if value and low else float("nan") for value, low in zip(series.values, least, strict=True)]
        for series in chart.series
    ]
    most = max([_LEAST_SCALE, *(cell for row in cells for cell in row if cell == cell)])
    scale = "log" if most > _LOGARITHMIC_SHADES_FROM else "linear"
    image = axes.pcolormesh(cells, cmap="YlOrRd", norm=scale, clim=(1, most), edgecolors=COLOURS["grid"], linewidth=1)
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            if cell == cell and len(row) <= 16:
                text = f"{cell:.3g}" if cell < 1000 else f"{cell:,.0f}"
                axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", color=_legible(image.to_rgba(cell)))
    fits = max(map(len, chart.categories)) * len(chart.categories) <= _NAMES_ABREAST
    _names(axes.xaxis, chart.categories, shift=0.5, **({} if fits else {"rotation": 30, "ha": "right"}))
    _names(axes.yaxis, [series.name for series in chart.series], shift=0.5)
    axes.invert_yaxis()
    bar = axes.figure.colorbar(image, ax=axes, label=_literal(chart.axis), shrink=0.9)
    bar.formatter, bar.minorformatter = (lambda value, _: f"{value:,.4g}"), ""
    bar.solids.set_rasterized(False)
    bar.solids.set_edgecolor("face")  # else the page shows between the colours


def _legible(shade: Sequence[float]) -> str:
    """Return black or white, whichever stands out more from a colour (contrast by WCAG 2)."""
    red, green, blue = (((part + 0.055) / 1.055) ** 2.4 if part > 0.04045 else part / 12.92 for part in shade[:3])
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "black"


def _front(axes: Any, chart: Chart) -> None:
    """Draw the points of each series, open ones unproven, and a staircase through those that none of it dominates."""
    for series in chart.series:
        axes.scatter([], [], s=18, color=series.colour, label=_literal(series.name))  # for the legend, never open
        values = [value or 0.0 for value in series.values]
        points = list(zip(values[::2], values[1::2], strict=True))
        faces = ["none" if (series.name, i) in chart.open_marks else series.colour for i in range(len(points))]
        axes.scatter(*zip(*points, strict=True), s=18, facecolors=faces, edgecolors=series.colour, zorder=3)
        points.sort()
        best = [(x, y) for i, (x, y) in enumerate(points) if all(y < other for _, other in points[:i])]
        axes.step(*zip(*best, strict=True), where="post", color=series.colour, linewidth=1)
    values = [value or 0.0 for series in chart.series for value in series.values]
    _scale(axes, "x", values[::2])
    _scale(axes, "y", values[1::2])
    axes.set_xlabel(_literal(chart.x_axis))
    axes.set_ylabel(_literal(chart.axis))
    axes.grid()
    axes.legend(frameon=False)


def _scale(axes: Any, name: str, values: Sequence[float]) -> None:
    """Make an axis logarithmic if its values differ much, with plain numbers as labels in any case."""
    if min(values) > 0 and max(values) > _LOGARITHMIC_FROM * min(values):
        getattr(axes, f"set_{name}scale")("log")
        axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        if max(values) < 100 * min(values):  # else there are enough powers of ten
            axis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
        else:
            axis.set_minor_formatter(lambda value, _: "")


def _points(axes: Any, chart: Chart) -> None:
    """Draw the points of each series, and a line at the mark."""
    for series in chart.series:
        points = zip(series.values[::2], series.values[1::2], strict=True)
        axes.scatter(*zip(*points, strict=True), s=14, color=series.colour, label=_literal(series.name))
    if chart.mark is not None:
        axes.axvline(chart.mark, color=COLOURS["soft"], linewidth=1, linestyle="--")
    _finish_plot(axes, chart)


def _steps(axes: Any, chart: Chart) -> None:
    """Draw each series as a staircase that keeps a value until the next one, over its band."""
    for band in chart.bands:
        columns = (band.values[::3], band.values[1::3], band.values[2::3])
        axes.fill_between(*columns, step="post", color=band.colour, alpha=0.18, linewidth=0)
    for series in chart.series:
        label = _literal(series.name)
        axes.step(
            series.values[::2], series.values[1::2], where="post", color=series.colour, label=label, linewidth=1.4
        )
    axes.xaxis.get_major_locator().set_params(integer=True)
    _finish_plot(axes, chart)


def _finish_plot(axes: Any, chart: Chart) -> None:
    if chart.has_log_y:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < 10 * low:  # powers of ten with factors are hard to read where there is none without
            axes.yaxis.set_minor_formatter("{x:g}")
            axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(_literal(chart.x_axis))
    axes.set_ylabel(_literal(chart.axis))
    axes.grid()
    axes.legend(frameon=False)


_KINDS = {
    "stacked": _stacked,
    "grouped": _grouped,
    "heat": _heat,
    "front": _front,
    "points": _points,
    "steps": _steps,
}
