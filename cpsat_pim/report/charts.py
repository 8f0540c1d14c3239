"""The charts of results for papers: where time and energy go, and two results layer by layer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cpsat_pim.report.figures import COLOURS, SERIES, Chart, Series
from cpsat_pim.report.view import build_view

View = dict[str, Any]

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
    ("pipeline", "loads that coincide", "bus"),
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
    charts = [chart for i, view in enumerate(views) for chart in _of_one(view, "ab"[i] if len(views) > 1 else "")]
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


def _of_one(view: View, suffix: str) -> list[Chart]:
    rows = _grouped(view)
    details = [view["details"][row["detail"]] for row in rows]
    names, counts = tuple(row["name"] for row in rows), [row["count"] for row in rows]
    per_second = view["clock"] or 1
    times = [_merged(detail["cycles"], n / per_second) for detail, n in _paired(details, counts)]
    energies = [_merged(detail["energies"], n) for detail, n in _paired(details, counts)]
    time, t_size = time_unit(max((sum(t.values()) for t in times), default=1), view["clock"])
    energy, e_size = energy_unit(max((sum(e.values()) for e in energies), default=1))
    where = f"{view['network']} on {view['arch']}"
    ending = f"-{suffix}" if suffix else ""
    return [
        Chart(
            name=f"time{ending}",
            title=f"Where the time goes: {where}",
            kind="stacked",
            axis=f"{'time' if view['clock'] else 'latency'}, {time}",
            categories=names,
            series=_parts(_TIMES, times, t_size),
        ),
        Chart(
            name=f"energy{ending}",
            title=f"Where the energy goes: {where}",
            kind="stacked",
            axis=f"energy, {energy}",
            categories=names,
            series=_parts(_ENERGIES, energies, e_size),
        ),
    ]


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
    charts = []
    if bool(one["clock"]) == bool(other["clock"]):
        values = [[d["latency"] / (view["clock"] or 1) for d in details] for view, details, _ in pairs]
        unit, size = time_unit(max(map(max, values)), one["clock"])
        charts.append(
            _compared("compared-latency", f"latency of a layer, {unit}", names, titles, values, size, is_open)
        )
    values = [[d["energy"] for d in details] for _, details, _ in pairs]
    unit, size = energy_unit(max(map(max, values)))
    charts.append(_compared("compared-energy", f"energy of a layer, {unit}", names, titles, values, size, is_open))
    return charts


def _compared(
    name: str, axis: str, names: tuple[str, ...], titles: Sequence[str], values: Sequence[Sequence[float]], size: float,
    is_open: frozenset[tuple[str, int]],
) -> Chart:  # fmt: skip
    series = tuple(
        Series(title, COLOURS[shade], tuple(value / size for value in row))
        for title, shade, row in zip(titles, SERIES, values, strict=False)
    )
    title = "Two results by common layers" + (" (pale: not proven)" if is_open else "")
    return Chart(name=name, title=title, kind="grouped", axis=axis, categories=names, series=series, open_marks=is_open)
