"""Export a store's results as CSV or Parquet, a row per layer or per network, or as results files (docs/json.md)."""

import csv
import json
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from cpsat_pim.base.dims import Dim
from cpsat_pim.base.extras import import_extra
from cpsat_pim.base.files import file_stem, replacing, replacing_bytes, write_json
from cpsat_pim.mapper.result.document import build_document
from cpsat_pim.study.sweep.job import Failure
from cpsat_pim.study.sweep.store import Store

Row = dict[str, Any]

_BOUNDS = tuple(dim.name for dim in Dim)
_PAIRS = ("stride", "dilation")
_WIDTHS = ("input_bytes", "weight_bytes", "output_bytes", "psum_bytes")

#: Columns of a row per network: sums over its layers, if all of them have a mapping.
_NETWORKS = """
SELECT plan, point, network, arch, objective, alpha, beta, time_limit, seed, settings,
    sum(count) AS layers, sum(count * (latency_cycles IS NOT NULL)) AS mapped,
    sum(count * (status IS 'OPTIMAL')) AS proven,
    CASE WHEN count(*) = count(latency_cycles) THEN sum(count * latency_cycles) END AS latency_cycles,
    CASE WHEN count(*) = count(latency_cycles) THEN sum(count * energy_fj) END AS energy_fj,
    CASE WHEN count(*) = count(latency_cycles) THEN
        sum(count * (activations_I + activations_W + activations_O)) END AS activations,
    max(gap) AS worst_gap
FROM results GROUP BY plan, point ORDER BY plan, point
"""
#: Columns of a row per layer, with the padding of the solution beside the requested shape.
_LAYERS = """
SELECT results.*, json_extract(answer, '$.shape.zeros') AS zeros
FROM results JOIN jobs USING (key) ORDER BY plan, point, position
"""
_DOCUMENTS = """
SELECT uses.plan, uses.point, network, points.arch AS name, fields, objective, layer, count, answer
FROM uses JOIN points USING (plan, point) JOIN jobs ON jobs.key = uses.job
    JOIN architectures ON architectures.key = jobs.arch
ORDER BY uses.plan, uses.point, position
"""

#: Columns of a Parquet file whose type does not depend on their values.
_REALS = ("alpha", "beta", "time_limit", "objective_value", "bound", "gap", "seconds", "worst_gap")
_TEXTS = (
    "plan", "network", "arch", "objective", "layer", "state", "status", "failure", "reason", "key", "code", "solver",
    "zeros",
)  # fmt: skip


# --- Rows ------------------------------------------------------------------------------------------------------------


def layer_rows(store: Store) -> list[Row]:
    """Return a row for each layer of each point, in any state."""
    return _widened(store.rows(_LAYERS))


def network_rows(store: Store) -> list[Row]:
    """Return a row for each point: the sums over its layers times their counts."""
    return _widened(store.rows(_NETWORKS))


def _widened(rows: list[Row]) -> list[Row]:
    """Replace the dicts of settings and shape by one column per entry."""
    settings = [json.loads(row["settings"]) for row in rows]
    added = sorted({key for own in settings for key in own if rows and key not in rows[0]})
    return [_wide(row, {key: own.get(key) for key in added}) for row, own in zip(rows, settings, strict=True)]


def _wide(row: Row, settings: Row) -> Row:
    """Replace `settings` and `shape` of a row by their entries."""
    parts: dict[str, Callable[[], Row]] = {
        "settings": lambda: {key: _plain(value) for key, value in settings.items()},
        "shape": lambda: _shape_columns(json.loads(row["shape"])),
    }
    wide: Row = {}
    for key, value in row.items():
        wide |= parts[key]() if key in parts else {key: value}
    return wide


def _shape_columns(shape: Row) -> Row:
    pairs = {f"{key}_{side}": value for key in _PAIRS for side, value in zip("wh", shape[key], strict=True)}
    return {key: shape[key] for key in _BOUNDS} | pairs | {key: shape[key] for key in _WIDTHS}


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value


# --- Files -----------------------------------------------------------------------------------------------------------


def write_csv(rows: list[Row], file: TextIO) -> None:
    """Write comma-separated values with a header line; missing values are empty."""
    writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


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
