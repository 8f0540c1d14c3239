"""A sweep's results as one HTML page: the charts, and a table with a row per network."""

import html
from collections.abc import Callable, Sequence
from typing import Any

from cpsat_pim.report.figures import inline_svg
from cpsat_pim.report.format import EMPTY, format_energy, format_gap, format_si, format_tops
from cpsat_pim.report.plain_page import plain_page
from cpsat_pim.study.sweep.charts import clockless, network_text, setting_text, sweep_charts, varied_options

Row = dict[str, Any]

_STYLE = """section svg { width: 100%; height: auto; max-height: 900px; }
thead th { padding: 6px 7px; }
"""


def _number(key: str, show: Callable[[Any], str]) -> Callable[[Row], str]:
    return lambda row: EMPTY if row[key] is None else show(row[key]).replace(" u", " µ")


_COLUMNS: tuple[tuple[str, str, Callable[[Row], str]], ...] = (
    ("network", "left", lambda row: _named(row)),
    ("layers", "", _number("layers", lambda n: f"{n:,}")),
    ("machine, settings", "left", lambda row: str(row["setting"])),
    ("objective", "left", lambda row: str(row["objective"])),
    ("cycles", "", _number("latency_cycles", lambda n: f"{n:,}")),
    ("time", "", _number("latency_s", lambda s: format_si(s, "s"))),
    ("energy", "", _number("energy_fj", format_energy)),
    ("power", "", _number("power_w", lambda w: format_si(w, "W"))),
    ("throughput", "", _number("tops", format_tops)),
    ("TOPS/W", "", _number("tops_per_w", lambda value: f"{value:.3g}")),
    ("activations", "", _number("activations", lambda n: f"{n:,}")),
    ("proven", "", lambda row: f"{row['proven']} of {row['layers']}"),
    ("worst gap", "", lambda row: format_gap(row["worst_gap"])),
    ("no mapping", "left", lambda row: _unmapped_text(row)),
)


def render_sweep(rows: Sequence[Row]) -> str:
    """Render the page of a store's networks (`export.network_rows`).

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    title = ", ".join(dict.fromkeys(str(row["plan"]) for row in rows)) or "nothing"
    charts = [f"<section>{inline_svg(chart)}</section>" for chart in sweep_charts(rows)]
    summary = f"{len(rows)} points; figures of one node of each machine; a MAC is two operations"
    summary += f"; {note}" if (note := clock_note(rows)) else ""
    return plain_page(title, summary, "\n".join([*charts, _table(rows)]), _STYLE)


def clock_note(rows: Sequence[Row]) -> str:
    """Return why latencies are not drawn, nothing if they are."""
    plans = dict.fromkeys(row["plan"] for row in rows)
    missing = [arch for plan in plans for arch in clockless([row for row in rows if row["plan"] == plan])]
    names = ", ".join(dict.fromkeys(missing))
    return f"latencies are not compared: no clock is stated for {names}, but for others" if missing else ""


def _table(rows: Sequence[Row]) -> str:
    options = varied_options(rows)
    rows = [row | {"setting": setting_text(row, options)} for row in rows]
    heads = "".join(f'<th class="{side}" scope="col">{html.escape(title)}</th>' for title, side, _ in _COLUMNS)
    lines = ["".join(f'<td class="{side}">{html.escape(show(row))}</td>' for _, side, show in _COLUMNS) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return f'<section><div class="scroll">{table}</div></section>'


def _named(row: Row) -> str:
    """Name the network, and the layers that its point chose of it; how many they are is a column."""
    return str(row["network"]) if row.get("only_layers") is None else network_text(row)


def _unmapped_text(row: Row) -> str:
    """State how many layers have no mapping, and whether that is proven."""
    left = row["layers"] - row["mapped"] - row["infeasible"] - row["unknown"]
    parts = [
        f"{row['infeasible']} proven to have none" if row["infeasible"] else "",
        f"{row['unknown']} not found in time" if row["unknown"] else "",
        f"{left} not solved" if left else "",
    ]
    return ", ".join(filter(None, parts)) or "0"
