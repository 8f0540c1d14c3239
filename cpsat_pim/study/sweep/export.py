"""Export a store's results as CSV or Parquet, a row per layer or per network, or as results files (docs/json.md)."""

import json
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cpsat_pim.base.extras import import_extra
from cpsat_pim.base.files import file_stem, replacing, replacing_bytes, write_json
from cpsat_pim.evaluate.performance import performance_of
from cpsat_pim.mapper.result.document import build_document, useful_macs
from cpsat_pim.report.csvfile import NO_ANSWER, PERFORMANCE, answer_columns, machine_columns, shape_columns, write_csv
from cpsat_pim.study.sweep.job import Failure
from cpsat_pim.study.sweep.store import Store

Row = dict[str, Any]

#: Columns of a row per network: sums over its layers, if all of them have a mapping.
_NETWORKS = """
SELECT plan, point, network, arch, objective, alpha, beta, time_limit, seed, settings,
    sum(count) AS layers, sum(count * (latency_cycles IS NOT NULL)) AS mapped,
    sum(count * (status IS 'OPTIMAL')) AS proven,
    CASE WHEN count(*) = count(latency_cycles) THEN sum(count * latency_cycles) END AS latency_cycles,
    CASE WHEN count(*) = count(latency_cycles) THEN sum(count * energy_fj) END AS energy_fj,
    CASE WHEN count(*) = count(latency_cycles) THEN
        sum(count * (activations_I + activations_W + activations_O)) END AS activations,
    sum(count * (status IS 'INFEASIBLE')) AS infeasible, sum(count * (status IS 'UNKNOWN')) AS unknown,
    max(gap) AS worst_gap, json_group_array(json_array(count, json(shape))) AS shapes
FROM results GROUP BY plan, point ORDER BY plan, point
"""
#: What a row per layer is made of: the requested shape, and the solution's entry and machine.
_LAYERS = """
SELECT results.*, answer, fields
FROM results JOIN jobs USING (key) JOIN architectures ON architectures.key = jobs.arch ORDER BY plan, point, position
"""
#: The machine of each point.
_MACHINES = """
SELECT DISTINCT uses.plan, uses.point, fields FROM uses JOIN jobs ON jobs.key = uses.job
    JOIN architectures ON architectures.key = jobs.arch
"""
_DOCUMENTS = """
SELECT uses.plan, uses.point, network, points.arch AS name, fields, objective, layer, count, answer
FROM uses JOIN points USING (plan, point) JOIN jobs ON jobs.key = uses.job
    JOIN architectures ON architectures.key = jobs.arch
ORDER BY uses.plan, uses.point, position
"""

#: Columns of a Parquet file whose type does not depend on their values.
_REALS = (
    "alpha", "beta", "time_limit", "objective_value", "bound", "gap", "seconds", "worst_gap", *PERFORMANCE,
    "utilization_steps", "utilization_latency",
)  # fmt: skip
_TEXTS = (
    "plan", "network", "arch", "objective", "layer", "state", "status", "failure", "reason", "key", "code", "solver",
    "zeros", "bound_by", "dataflow", "layout_I", "layout_W", "layout_O", "mapping",
)  # fmt: skip


# --- Rows ------------------------------------------------------------------------------------------------------------


def layer_rows(store: Store) -> list[Row]:
    """Return a row for each layer of each point, in any state: the requested bounds and, once it is solved, all
    figures of its entry (docs/json.md). `zeros` is the padding of the solution.
    """
    rows = []
    for row in store.rows(_LAYERS):
        arch, answer, shape = json.loads(row.pop("fields")), row.pop("answer"), json.loads(row["shape"])
        row["shape"] = shape_columns(shape) | {"macs": useful_macs(shape)}
        entry = json.loads(answer) if answer else None
        zeros = entry and entry["shape"].get("zeros")
        row |= {**machine_columns(arch), **(answer_columns(entry) if entry else NO_ANSWER)}
        rows.append(row | {"zeros": json.dumps(zeros, separators=(",", ":")) if zeros else None})
    return _widened(rows)


def network_rows(store: Store) -> list[Row]:
    """Return a row for each point: the sums over its layers times their counts, and what follows from them if all
    layers have a mapping.
    """
    machines = {(row["plan"], row["point"]): row for row in store.rows(_MACHINES)}
    rows = []
    for row in store.rows(_NETWORKS):
        shapes = json.loads(row.pop("shapes"))
        macs = sum(count * useful_macs(shape) for count, shape in shapes)
        arch = json.loads(machines[row["plan"], row["point"]]["fields"])
        cycles, energy = row["latency_cycles"], row["energy_fj"]
        found = None if cycles is None else performance_of(arch, cycles, energy, macs)
        figures = found.to_dict() if found else dict.fromkeys(PERFORMANCE)
        rows.append(row | {"macs": macs, **machine_columns(arch), **figures})
    return _widened(rows, {"layers": "only_layers"})  # `layers` is how many there are


def _widened(rows: list[Row], renamed: Mapping[str, str] = MappingProxyType({})) -> list[Row]:
    """Replace the dicts of settings and shape by one column per entry."""
    settings = [{renamed.get(key, key): own for key, own in json.loads(row["settings"]).items()} for row in rows]
    added = sorted({key for own in settings for key in own if rows and key not in rows[0]})
    return [_wide(row, {key: own.get(key) for key in added}) for row, own in zip(rows, settings, strict=True)]


def _wide(row: Row, settings: Row) -> Row:
    """Replace `settings` and `shape` of a row by their entries."""
    parts: dict[str, Callable[[], Row]] = {
        "settings": lambda: {key: _plain(value) for key, value in settings.items()},
        "shape": lambda: row["shape"],
    }
    wide: Row = {}
    for key, value in row.items():
        wide |= parts[key]() if key in parts else {key: value}
    return wide


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value


# --- Files -----------------------------------------------------------------------------------------------------------


def write_csv_file(rows: list[Row], path: Path) -> None:
    """Write a CSV file atomically.

    Raises:
        OSError: it cannot be written.
    """
    with replacing(path) as file:
        write_csv(rows, file)


def write_parquet_file(rows: list[Row], path: Path) -> None:
    """Write a Parquet file atomically.

    Raises:
        MissingExtra: pyarrow is not installed.
        OSError: it cannot be written.
    """
    arrow = import_extra("pyarrow", "parquet")
    parquet = import_extra("pyarrow.parquet", "parquet")
    columns = {key: [row[key] for row in rows] for key in (rows[0] if rows else ())}
    fields = [(key, _arrow_type(arrow, key, values)) for key, values in columns.items()]
    table = arrow.table(
        {key: [_as(kind, arrow, value) for value in columns[key]] for key, kind in fields}, arrow.schema(fields)
    )
    with replacing_bytes(path) as file:
        parquet.write_table(table, file)


def _arrow_type(arrow: Any, key: str, values: list[Any]) -> Any:
    """Return the Arrow type of a column."""
    kinds = {type(value) for value in values if value is not None}
    if key in _TEXTS or not kinds <= {int, float, bool} or (bool in kinds and len(kinds) > 1):
        return arrow.string()
    if key in _REALS or float in kinds:
        return arrow.float64()
    return arrow.bool_() if bool in kinds else arrow.int64()


def _as(kind: Any, arrow: Any, value: Any) -> Any:
    if value is None:
        return None
    return str(value) if kind == arrow.string() else float(value) if kind == arrow.float64() else value


def write_documents(store: Store, directory: Path) -> list[Path]:
    """Write a results file for each point with a solution, and a reproducer for each disagreement; return their paths.

    Raises:
        OSError: one cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for (plan, point), group in groupby(store.rows(_DOCUMENTS), lambda row: (row["plan"], row["point"])):
        rows = list(group)
        if any(row["answer"] for row in rows):
            written.append(directory / f"{file_stem(plan)}-{point:04}.json")
            write_json(_document(rows), written[-1])
    for key, detail in store.query("SELECT key, detail FROM jobs WHERE failure = ?", Failure.DISAGREEMENT):
        written.append(directory / f"disagreement-{key}.json")
        write_json(json.loads(detail), written[-1])
    return written


def _document(rows: list[Row]) -> Row:
    """Build the document that `run --json` would write; layers that are not done are absent."""
    done = [row for row in rows if row["answer"]]
    layers = [json.loads(row["answer"]) | {"name": row["layer"], "count": row["count"]} for row in done]
    return build_document(
        network=rows[0]["network"],
        arch=json.loads(rows[0]["fields"]) | {"name": rows[0]["name"]},
        objective=json.loads(rows[0]["objective"]),
        layers=layers,
        seconds=sum({str(layer["shape"]): layer["solve_seconds"] for layer in layers}.values()),
        interrupted=len(done) < len(rows),
    )
