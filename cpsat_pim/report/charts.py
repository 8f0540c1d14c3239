"""The charts of results for papers: where time and energy go, Pareto fronts, and two results layer by layer."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cpsat_pim.report.figures import COLOURS, INVISIBLE_FROM, SERIES, Chart, Series
from cpsat_pim.report.view import build_view

View = dict[str, Any]
#: Takes the largest figure of an axis; returns the axis's unit and its size.
Unit = Callable[[float], tuple[str, float]]

#: Parts of the latency and of the energy: key in the view, name, colour.
_TIMES = (
    ("macs", "MACs on a full array", "macs"),
    ("idle", "idle PEs", "idle"),
    ("compute", "stalls, way in and out", "compute"),
    ("dram_I", "waits for DRAM: I", "I"),
    ("dram_W", "waits for DRAM: W", "W"),
    ("dram_O", "waits for DRAM: O", "O"),
    ("dram_bus", "waits for the DRAM bus", "bus"),
    ("bank", "waits for a shared bank", "activation"),
    ("pipeline", "loads that coincide", "pipeline"),
    ("buffers", "waits for buffers", "buffer"),
)
_ENERGIES = (
    ("MAC", "MACs", "macs"),
    ("PE", "PE buffers", "PE"),
    ("GLOBAL_BUFFER", "global buffer", "GLOBAL_BUFFER"),
    ("ROW_BUFFER", "row buffer", "ROW_BUFFER"),
    ("DRAM", "DRAM accesses", "DRAM"),
    ("activation", "row activations", "activation"),
)
_ENERGY_UNITS = (("mJ", 1e12), ("uJ", 1e9), ("nJ", 1e6), ("pJ", 1e3), ("fJ", 1.0))
_TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def result_charts(documents: Sequence[tuple[str, dict[str, Any]]]) -> list[Chart]:
    """Return the charts of one result, or of two and of their common layers; each is given as file name and document.

    Raises:
        ValueError: something in a result is missing, malformed or illegal.
    """
    views = [build_view(json.loads(json.dumps(document)), source, has_maps=False) for source, document in documents]
    endings = ("-a", "-b") if len(views) == 2 else ("",)
    charts = [chart for view, ending in zip(views, endings, strict=True) for chart in _of_one(view, views, ending)]
    return [*charts, *(_of_two(*views) if len(views) == 2 else ())]


def unit_of(peak: float, units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """Return the unit in which the largest value has digits in front of the point, and its size."""
    return next(((name, size) for name, size in units if peak >= size), units[-1])


def energy_unit(peak_fj: float) -> tuple[str, float]:
    """Return a unit of energy and its size in fJ."""
    return unit_of(peak_fj, _ENERGY_UNITS)


def time_unit(peak: float, clock: int | None) -> tuple[str, float]:
    """Return a unit of time and its size, in seconds of a machine with a clock; else cycles."""
    return unit_of(peak, _TIME_UNITS) if clock else ("cycles", 1.0)


# --- One result ------------------------------------------------------------------------------------------------------


def _peak(view: View, views: Sequence[View], figure: Callable[[View, View], float]) -> float:
    """Return the largest figure of a row of all results, or of this one if its own bars were invisible beside it;
    `figure` takes a result and a layer's details in it.
    """
    own, *others = (
        max((row["count"] * figure(one, one["details"][row["detail"]]) for row in _grouped(one)), default=0)
        for one in (view, *views)
    )
    peak = max(others)
    return (peak if peak < INVISIBLE_FROM * own else own) or 1


def _of_one(view: View, views: Sequence[View], ending: str) -> list[Chart]:
    """Return the charts of one of the results; their axes reach as far as those of the other one."""
    rows = _grouped(view)
    details = [view["details"][row["detail"]] for row in rows]
    names, counts = tuple(row["name"] for row in rows), [row["count"] for row in rows]
    per_second = view["clock"] or 1
    times = [_merged(detail["cycles"], n / per_second) for detail, n in _paired(details, counts)]
    energies = [_merged(detail["energies"], n) for detail, n in _paired(details, counts)]
    alike = [one for one in views if bool(one["clock"]) == bool(view["clock"])]
    longest = _peak(view, alike, lambda one, detail: detail["latency"] / (one["clock"] or 1))
    most = _peak(view, views, lambda _, detail: detail["energy"])
    (time, t_size), (energy, e_size) = time_unit(longest, view["clock"]), energy_unit(most)
    where = f"{view['network']} on {view['arch']}"
    return [
        Chart(
            name=f"time{ending}",
            title=f"Where the time goes: {where}",
            kind="stacked",
            axis=f"{'time' if view['clock'] else 'latency'}, {time}",
            categories=names,
            series=_parts(_TIMES, times, t_size),
            end=longest / t_size,
        ),
        Chart(
            name=f"energy{ending}",
            title=f"Where the energy goes: {where}",
            kind="stacked",
            axis=f"energy, {energy}",
            categories=names,
            series=_parts(_ENERGIES, energies, e_size),
            end=most / e_size,
        ),
        *_fronts(view, ending),
    ]


def _fronts(view: View, ending: str) -> list[Chart]:
    """Return the fronts in latency and energy, a series per layer; those in a third figure, too, have no picture."""
    fronts = [front for front in view["pareto"] if (front["x"], front["y"]) == ("latency_cycles", "energy_fj")]
    flat = [(front["name"], front["points"]) for front in fronts if "z" not in front and front["points"]]
    if not flat:
        return []
    per_second = view["clock"] or 1
    series = {
        name: [(one["x"] / per_second, one["y"], one["status"] != "FEASIBLE") for one in points]
        for name, points in flat
    }
    title = f"Pareto fronts: {view['network']} on {view['arch']}"
    return [front_chart(f"fronts{ending}", title, series, partial(time_unit, clock=view["clock"]), energy_unit)]


def front_chart(
    name: str, title: str, series: Mapping[str, Sequence[tuple[float, float, bool]]], time: Unit, energy: Unit
) -> Chart:
    """Return latency against energy: of each series points, and whether they are proven. `time`, `energy`: the unit of
    an axis and its size, by the largest figure.
    """
    points = [one for own in series.values() for one in own]
    (t_unit, t_size), (e_unit, e_size) = time(max(one[0] for one in points)), energy(max(one[1] for one in points))
    is_open = frozenset(
        (one, i) for one, own in series.items() for i, (*_, is_proven) in enumerate(own) if not is_proven
    )
    return Chart(
        name=name,
        title=f"{title} (open: not proven)" if is_open else title,
        kind="front",
        axis=f"energy, {e_unit}",
        x_axis=f"latency, {t_unit}",
        categories=(),
        series=tuple(
            Series(one, COLOURS[SERIES[i % len(SERIES)]], tuple(v for x, y, _ in own for v in (x / t_size, y / e_size)))
            for i, (one, own) in enumerate(series.items())
        ),
        open_marks=is_open,
    )


def _paired(details: Sequence[View], counts: Sequence[int]) -> list[tuple[View, int]]:
    return list(zip(details, counts, strict=True))


def _merged(parts: Mapping[str, float], factor: float) -> dict[str, float]:
    """Return parts times a factor. Waits without a part of their own are for a shared bank (`bank_IW`) or a buffer."""
    known = {key for key, _, _ in (*_TIMES, *_ENERGIES)}
    merged: dict[str, float] = {}
    for key, value in parts.items():
        key = key if key in known else "bank" if key.startswith("bank_") else "buffers"
        merged[key] = merged.get(key, 0) + factor * value
    return merged


def _parts(
    kinds: Sequence[tuple[str, str, str]], values: Sequence[Mapping[str, float]], size: float
) -> tuple[Series, ...]:
    """Return a series for each part that any layer has."""
    used = [kind for kind in kinds if any(layer.get(kind[0]) for layer in values)]
    return tuple(
        Series(name, COLOURS[colour], tuple(layer.get(key, 0) / size for layer in values)) for key, name, colour in used
    )


def _grouped(view: View) -> list[View]:
    """Return one row for all mapped layers of equal shape and result, named after the first."""
    groups: dict[Any, list[View]] = {}
    for layer in view["layers"]:
        if layer["detail"] is not None:
            groups.setdefault((layer["shape"], layer["detail"], layer["status"], layer["gap"]), []).append(layer)
    return [_as_one(equal) for equal in groups.values()]


def _as_one(equal: Sequence[View]) -> View:
    first, others = equal[0], len(equal) - 1
    name = f"{first['name']} +{others}" if others else first["name"]
    return first | {"name": name, "first": first["name"], "count": sum(layer["count"] for layer in equal)}


# --- Two results -----------------------------------------------------------------------------------------------------


def _of_two(one: View, other: View) -> list[Chart]:
    """Return latency and energy of the layers that both results have mapped. Latencies are compared in seconds, or in
    cycles if neither machine has a clock; not if one has none.
    """
    theirs = {layer["name"]: layer for layer in other["layers"] if layer["detail"] is not None}
    rows = [row for row in _grouped(one) if row["first"] in theirs]
    if not rows:
        return []
    names = tuple(row["name"] for row in rows)
    pairs = [(view, [view["details"][layer["detail"]] for layer in layers], layers) for view, layers in (
        (one, rows), (other, [theirs[row["first"]] for row in rows])
    )]  # fmt: skip
    titles = [f"{label}: {view['network']} on {view['arch']}" for label, view in zip("AB", (one, other), strict=True)]
    is_open = frozenset(
        (titles[i], j)
        for i, (_, _, layers) in enumerate(pairs)
        for j, layer in enumerate(layers)
        if layer["status"] != "OPTIMAL"
    )

    def compared(kind: str, values: Sequence[Sequence[float]], unit: str, size: float) -> Chart:
        series = []
        for title, shade, row, (view, _, layers) in zip(titles, SERIES, values, pairs, strict=False):
            scaled = [value / size for value in row]
            is_bounded = view["objective"]["kind"] == kind and all(layer["gap"] is not None for layer in layers)
            bounds = [v * (1 - layer["gap"]) for v, layer in zip(scaled, layers, strict=True)] if is_bounded else ()
            series.append(Series(title, COLOURS[shade], tuple(scaled), tuple(bounds)))
        lines = ", a line from its lower bound" if any(one.bounds for one in series) else ""
        told = f" (pale: not proven{lines})" if is_open else ""
        return Chart(
            name=f"compared-{kind}",
            title=f"Two results by common layers{told}",
            kind="grouped",
            axis=f"{kind} of a layer, {unit}",
            categories=names,
            series=tuple(series),
            open_marks=is_open,
        )

    charts = []
    if bool(one["clock"]) == bool(other["clock"]):
        latencies = [[d["latency"] / (view["clock"] or 1) for d in details] for view, details, _ in pairs]
        charts.append(compared("latency", latencies, *time_unit(max(map(max, latencies)), one["clock"])))
    energies = [[d["energy"] for d in details] for _, details, _ in pairs]
    return [*charts, compared("energy", energies, *energy_unit(max(map(max, energies))))]
