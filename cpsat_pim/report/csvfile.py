"""Results as comma-separated values: a row per layer with every figure of its entry in a document (docs/json.md)."""

import csv
import json
from collections.abc import Sequence
from typing import Any, TextIO

from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.mapper.result.document import useful_macs
from cpsat_pim.report.format import visible

Row = dict[str, Any]

_PAIRS = ("stride", "dilation")
_WIDTHS = ("input_bytes", "weight_bytes", "output_bytes", "psum_bytes")
_CYCLES = ("latency_cycles", "compute_cycles", "dram_cycles")
_PARTS = ("MAC", *(level.name for level in Level), "activation")
PERFORMANCE = ("latency_s", "energy_j", "static_energy_j", "power_w", "tops", "tops_per_w", "runs_per_second")
#: With one of these a spreadsheet takes a cell for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def document_rows(document: Row) -> list[Row]:
    """Return a row for each layer of a document, with the columns of network, machine and objective in front."""
    arch, objective = document["arch"], document["objective"]
    machine = {"arch": arch["name"], **machine_columns(arch)}
    head = {"network": document["network"], **machine, "objective": objective["kind"]}
    return [head | entry_row(entry) for entry in document["layers"]]


def machine_columns(arch: Row) -> Row:
    """Return the columns of a machine: its nodes, of which a mapping uses one, and their clock."""
    return {"nodes": arch["vault_count"] * arch["pu_count"], "clock_hz": arch.get("clock")}


def entry_row(entry: Row) -> Row:
    """Return the row of a layer's entry; figures that it lacks are None."""
    return {
        "layer": entry["name"],
        "count": entry["count"],
        **shape_columns(entry["shape"]),
        "macs": useful_macs(entry["shape"]),
        **{key: entry[key] for key in ("status", "bound", "gap")},
        "objective_value": entry["objective"],
        **answer_columns(entry),
        "solve_seconds": entry["solve_seconds"],
    }


def shape_columns(shape: Row) -> Row:
    """Return the columns of a shape: bounds, strides, dilations, bytes per element."""
    pairs = {f"{key}_{side}": value for key in _PAIRS for side, value in zip("wh", shape[key], strict=True)}
    zeros = json.dumps(shape["zeros"], separators=(",", ":")) if shape.get("zeros") else None
    return {d.name: shape[d.name] for d in Dim} | pairs | {key: shape[key] for key in _WIDTHS} | {"zeros": zeros}


def answer_columns(entry: Row) -> Row:
    """Return the columns of a layer's figures and mapping."""
    predicted, simulated = entry["predicted"] or {}, entry["simulated"] or {}
    parts, performance = entry.get("energy_parts_fj") or {}, entry.get("performance") or {}
    utilization = entry.get("utilization") or {}
    return {
        **{key: predicted.get(key) for key in _CYCLES},
        "simulated_cycles": simulated.get("latency_cycles"),
        "energy_fj": predicted.get("energy_fj"),
        **{f"energy_{part}_fj": parts.get(part) for part in _PARTS},
        **{f"activations_{t.name}": (predicted.get("row_activations") or {}).get(t.name) for t in Tensor},
        **{f"columns_{t.name}": (predicted.get("column_accesses") or {}).get(t.name) for t in Tensor},
        "utilization_steps": utilization.get("compute_steps"),
        "utilization_latency": utilization.get("latency"),
        "bound_by": entry.get("bound_by"),
        "dataflow": entry.get("dataflow"),
        **_layouts(entry["mapping"]),
        **{key: performance.get(key) for key in PERFORMANCE},
        "mapping": entry["mapping"] and json.dumps(entry["mapping"], separators=(",", ":")),
    }


def _layouts(mapping: Row | None) -> Row:
    layouts = (mapping or {}).get("layout") or {}
    return {
        f"layout_{t.name}": f"{layouts[t.name]['mode']} {layouts[t.name]['order']}" if t.name in layouts else None
        for t in Tensor
    }


def write_csv(rows: Sequence[Row], file: TextIO) -> None:
    """Write rows of equal keys with a header line; missing values are empty. Text that a spreadsheet would run as a
    formula begins with an apostrophe.
    """
    writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_safe, rows))


def _safe(row: Row) -> Row:
    return {key: _plain_text(value) if isinstance(value, str) else value for key, value in row.items()}


def _plain_text(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, with control characters shown as escapes."""
    return visible(f"'{text}" if text.startswith(_FORMULA) else text)


#: The columns of a layer that is not solved.
NO_ANSWER: Row = answer_columns({"predicted": None, "simulated": None, "mapping": None})
