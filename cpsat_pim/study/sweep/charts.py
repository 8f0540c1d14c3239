"""The charts of a sweep: bars and heat maps of its points' latencies and energies, and latency against energy."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cpsat_pim.report.charts import Unit, energy_unit, front_chart, time_unit
from cpsat_pim.report.figures import COLOURS, SERIES, Chart, Series

Row = dict[str, Any]

#: Columns of a row per network that are no settings of its point.
_FIGURES = {
    "plan", "point", "network", "arch", "nodes", "objective", "alpha", "beta", "time_limit", "seed", "layers",
    "only_layers", "mapped", "proven", "infeasible", "unknown", "latency_cycles", "energy_fj", "activations",
    "worst_gap", "macs", "clock_hz", "latency_s", "energy_j", "static_energy_j", "power_w", "tops", "tops_per_w",
    "runs_per_second",
}  # fmt: skip
#: Options that every row states: they are settings where they vary.
_OPTIONS = ("alpha", "beta", "time_limit", "seed")
#: The charts of one objective have at most so many machines or settings side by side.
_MOST_SERIES = len(SERIES)
#: The names of chosen layers are cut behind so many characters, as they stand beside an axis.
_LAYERS_CHARACTERS = 40


def sweep_charts(rows: Sequence[Row]) -> list[Chart]:
    """Return the charts of the networks' rows (`export.network_rows`), for each plan: latency and energy as bars for
    each objective, relative to the least as a heat map, and latency against energy for each network. Latencies are left
    out where only some machines have a clock (`clockless`).
    """
    plans = dict.fromkeys(row["plan"] for row in rows)
    return [chart for plan in plans for chart in _of_plan(plan, [row for row in rows if row["plan"] == plan])]


def clockless(rows: Sequence[Row]) -> list[str]:
    """Return the machines without a clock if others of the rows have one: their cycles cannot be compared with times,
    nor with cycles of an unknown length.
    """
    without = dict.fromkeys(row["arch"] for row in rows if not row["clock_hz"])
    return list(without) if any(row["clock_hz"] for row in rows) else []


def network_text(row: Row) -> str:
    """Name the network of a row, and the layers that its point chose of it, or how many were mapped."""
    count = f"{row['layers']:,} layer{'s' if row['layers'] != 1 else ''}"
    chosen = row.get("only_layers")
    if chosen is None:
        return f"{row['network']}, {count}"
    is_long = len(chosen) > _LAYERS_CHARACTERS
    return f"{row['network']}: " + (f"{chosen[:_LAYERS_CHARACTERS]}... ({count})" if is_long else chosen)


def setting_text(row: Row, options: Sequence[str] = ()) -> str:
    """Name the machine and the other settings of a row, without objective and network (whose name tells parameters).

    `options`: those that are settings (`varied_options`).
    """
    keys = [key for key in row if key not in _FIGURES and not key.startswith("network.")]
    changed = [f"{key.removeprefix('arch.')} {_short(row[key])}" for key in (*keys, *options) if row[key] is not None]
    own = [text for text in changed if not _is_in_name(text, row["arch"])]
    return ", ".join([row["arch"], *own])


def varied_options(rows: Sequence[Row]) -> list[str]:
    """Return the options in which points of one plan and objective differ."""

    def differs(option: str) -> bool:
        values = {(row["plan"], row["objective"], row[option]) for row in rows}
        return len(values) > len({(row["plan"], row["objective"]) for row in rows})

    return [option for option in _OPTIONS if differs(option)]


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _is_in_name(text: str, arch: str) -> bool:
    """Return whether the machine's name tells a changed field already: `default (page_policy=closed)`."""
    field, _, value = text.partition(" ")
    return f"{field}={value}" in arch


def _of_plan(plan: str, rows: Sequence[Row]) -> Iterator[Chart]:
    unit_is_common, is_timed = not clockless(rows), all(row["clock_hz"] for row in rows)
    for objective in dict.fromkeys(row["objective"] for row in rows):
        own = [row for row in rows if row["objective"] == objective]
        for figure, of, unit_of in list(_figures(is_timed))[0 if unit_is_common else 1 :]:
            values = [of(row) for row in own if of(row) is not None]
            if values:
                unit, size = unit_of(max(values))
                name, title = f"{plan}-{objective}-{figure}", f"{plan}: {figure} with objective {objective}"
                yield from _bars_and_heat(name, title, own, of, size, f"{figure}, {unit}")
    names: Counter[str] = Counter()
    for network in dict.fromkeys(map(_network, rows)):
        own = [row for row in rows if _network(row) == network and row["latency_cycles"] is not None]
        if len(own) > 1 and unit_is_common:
            name = f"{plan}-{own[0]['network']}-{own[0]['layers']}-front"
            names[name] += 1
            yield _front(name if names[name] == 1 else f"{name}-{names[name]}", own, is_timed)


def _network(row: Row) -> tuple[Any, ...]:
    """Return what is equal of rows that are compared: the network, and the layers chosen of it."""
    return row["network"], row.get("only_layers"), row["layers"]


def _figures(is_timed: bool) -> Iterator[tuple[str, Callable[[Row], Any], Unit]]:
    """Yield name, value of a row, and unit of latency and energy; latencies are seconds if machines have a clock."""
    key = "latency_s" if is_timed else "latency_cycles"
    yield "latency", lambda row: row[key], lambda peak: time_unit(peak, int(is_timed))
    yield "energy", lambda row: row["energy_fj"], energy_unit


def _bars_and_heat(
    name: str, title: str, rows: Sequence[Row], of: Callable[[Row], Any], size: float, axis: str
) -> Iterator[Chart]:
    networks = {_network(row): network_text(row) for row in rows}
    options = varied_options(rows)
    found = {(setting_text(row, options), _network(row)): row for row in rows}
    settings = list(dict.fromkeys(text for text, _ in found))
    series = tuple(
        Series(text, COLOURS[SERIES[i % _MOST_SERIES]], tuple(_value(found.get((text, n)), of, size) for n in networks))
        for i, text in enumerate(settings)
    )
    is_open = frozenset(
        (text, i)
        for text in settings
        for i, network in enumerate(networks)
        if (row := found.get((text, network))) and row["proven"] < row["layers"]
    )
    pale = " (pale: not proven)" if is_open else ""
    if len(settings) <= _MOST_SERIES:
        yield Chart(
            name=name,
            title=f"{title}{pale}",
            kind="grouped",
            axis=axis,
            categories=tuple(networks.values()),
            series=series,
            open_marks=is_open,
        )
    if len(settings) > 1:
        yield Chart(
            name=f"{name}-relative",
            title=f"{title}, relative to the least of each network",
            kind="heat",
            axis=axis.partition(",")[0] + " / least",
            categories=tuple(networks.values()),
            series=series,
        )


def _value(row: Row | None, of: Callable[[Row], Any], size: float) -> float | None:
    value = None if row is None else of(row)
    return None if value is None else value / size


def _front(name: str, rows: Sequence[Row], is_timed: bool) -> Chart:
    """Return latency against energy of a network's points, a series per machine."""
    (_, latency, time), (_, energy, joules) = _figures(is_timed)
    series: dict[str, list[tuple[float, float, bool]]] = {}
    for row in rows:
        series.setdefault(row["arch"], []).append((latency(row), energy(row), row["proven"] >= row["layers"]))
    return front_chart(name, f"{network_text(rows[0])}: latency and energy of each point", series, time, joules)
