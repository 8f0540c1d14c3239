"""Read the results that `--json` wrote, schema 1 (docs/json.md), and the mapped layers of any file that has some."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.reading import (
    SUFFIXES,
    Data,
    Either,
    Field,
    Kind,
    Listing,
    Mistake,
    Record,
    Table,
    Value,
    read_json,
    read_plain,
    record_of,
)
from cpsat_pim.base.validate import Rule, boolean, not_negative, not_negative_real, one_of, or_none, positive, text
from cpsat_pim.evaluate.verify import MappedLayer, read_reproducer
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.result.document import SCHEMA, Entry
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import LAYER_CONSTRAINTS
from cpsat_pim.mapping.mapping_file import MAPPING, SHAPE, read_mapping_file


def _needed(**kinds: Kind) -> dict[str, Field]:
    """Return required fields of these kinds."""
    return {key: Field(kind=kind, required=True) for key, kind in kinds.items()}


def _or_null(kind: Kind) -> Either:
    return Either(plain=Value(Rule("must be an object or null", lambda v: v is None, {"type": "null"})), mapping=kind)


def _are_known(rows: Any) -> bool:
    """Return whether rows are triples of seconds, best value and bound."""
    return isinstance(rows, tuple) and all(
        isinstance(row, tuple) and len(row) == 3 and all(map(_REAL_OR_NULL.holds, row)) for row in rows
    )


def _third_axis(front: dict[str, Any]) -> Iterator[Mistake]:
    """Yield a mistake for each point whose third coordinate does not match the axes of its front."""
    for i, point in enumerate(front.get("points", ())):
        if ("z" in point) != ("z" in front):
            yield f"points[{i}].z", "is missing" if "z" in front else "is of no axis"


_REAL, _COUNT, _REAL_OR_NULL = Value(not_negative_real), Value(not_negative), or_none(not_negative_real)
_PROGRESS = Rule("must be a list of [seconds, best, bound]", _are_known, {"type": "array"})
_KIND = Value(one_of("latency", "energy", "blended", "edp"))
_TOTALS = _needed(layers=_COUNT, mapped=_COUNT, macs=_COUNT, seconds=_REAL, interrupted=Value(boolean))
_POINT = _needed(x=_REAL, y=_REAL) | {key: Field(kind=Value(or_none(text))) for key in ("label", "status")}
_POINTS = Listing(Record(fields=_POINT | {"z": Field(kind=_REAL)}))
_FRONT = _needed(name=Value(text), x=Value(text), y=Value(text), points=_POINTS) | {"z": Field(kind=Value(text))}

_CHOICE = Record(
    fields={"stored": Field(kind=Table(Table(Value(boolean)))), "layout": Field(kind=Table(Value(text)))}, is_open=True
)
_SHARED = _needed(choice=_or_null(_CHOICE), status=Value(one_of(*Status)), gap=Value(_REAL_OR_NULL))

#: An objective as `Objective.to_dict` returns it.
OBJECTIVE = Record(fields=_needed(kind=_KIND, alpha=_REAL, beta=_REAL), build=Objective)

#: Keys of a layer and of a document: what is needed to simulate a mapping, and what a page needs besides.
_MAPPED_LAYER = _needed(shape=SHAPE) | {
    "name": Field(kind=Value(text)),
    "predicted": Field(kind=_or_null(Data())),
    "mapping": Field(kind=_or_null(MAPPING)),
}
_LAYER = _MAPPED_LAYER | _needed(
    name=Value(text),
    count=Value(positive),
    status=Value(one_of(*Status)),
    gap=Value(_REAL_OR_NULL),
    solve_seconds=_REAL,
    predicted=_or_null(Data()),
    simulated=_or_null(Record(fields=_needed(latency_cycles=_COUNT), is_open=True)),
    mapping=_or_null(MAPPING),
)


def _result(layer: dict[str, Field], others: dict[str, Field]) -> Record:
    """Return the record of a document whose layers have these keys; keys that are not read may hold anything."""
    layers = Listing(Record(fields=layer, is_open=True), "a list of layers", may_be_empty=True)
    return Record(fields=_needed(arch=record_of(PIMArchitecture), layers=layers) | others, is_open=True)


_MAPPED_RESULT = _result(_MAPPED_LAYER, {})
_RESULT = _result(
    _LAYER | {"progress": Field(kind=Value(_PROGRESS)), "constraints": Field(kind=LAYER_CONSTRAINTS)},
    _needed(
        network=Value(text),
        objective=OBJECTIVE,
        totals=Record(fields=_TOTALS, is_open=True),
    )
    | {
        "pareto": Field(kind=Listing(Record(fields=_FRONT, check=_third_axis), "a list of fronts", may_be_empty=True)),
        "shared": Field(kind=Record(fields=_SHARED, is_open=True)),
    },
)


def build_result(file: str, data: Entry) -> Entry:
    """Read a document: its machine, objective, shapes and mappings become objects, all else stays plain data.

    Raises:
        ValueError: it is no such document, or there are mistakes in it; a line each, `<file>: <path.to.entry>: ...`.
    """
    return _built(file, data, _RESULT)


def _built(file: str, data: Entry, kind: Record) -> Entry:
    if data.get("schema") != SCHEMA:
        raise ValueError(f"{file}: schema: must be {SCHEMA} (got {data.get('schema')!r})")
    result: Entry = read_plain(file, data, kind)
    return result


def unmapped_layers(path: str | Path) -> list[str]:
    """Return the names of the layers without a mapping of a file that `read_mapped_layers` can read."""
    layers = [] if str(path).endswith(SUFFIXES) else read_json(path).get("layers", [])
    return [layer["name"] for layer in layers if layer.get("mapping") is None and "name" in layer]


def read_mapped_layers(path: str | Path) -> list[MappedLayer]:
    """Read the mapped layers of a file written by `--json`, of a mapping file, or of a reproducer.

    Raises:
        ValueError: it cannot be read, or something in it is missing or wrong; lines `<file>: ...`.
    """
    if str(path).endswith(SUFFIXES):
        return list(_mapped_yaml(path))
    data = read_json(path)
    if "schema" not in data and "architecture" in data:
        return [read_reproducer(path)]
    return list(_mapped(_built(str(path), data, _MAPPED_RESULT)))


def read_mappings(path: str | Path) -> dict[str, Mapping]:
    """Read the mappings of such a file by layer name. A mapping file may lack machine and shapes.

    Raises:
        ValueError: see `read_mapped_layers`.
    """
    if str(path).endswith(SUFFIXES):
        return {entry.name: entry.mapping for entry in read_mapping_file(path).layers}
    return {case.layer.name: case.mapping for case in read_mapped_layers(path)}


def _mapped_yaml(path: str | Path) -> Iterator[MappedLayer]:
    """Yield the layers of a mapping file that gives everything needed to simulate them."""
    file = read_mapping_file(path)
    if file.arch is None:
        raise ValueError(f"{path}: arch: is missing")
    for entry in file.layers:
        if entry.layer is None:
            raise ValueError(f"{path}: layers[{entry.name}].shape: is missing, and there is no `network` that has it")
        yield MappedLayer(layer=entry.layer, arch=file.arch, mapping=entry.mapping)


def _mapped(result: Entry) -> Iterator[MappedLayer]:
    """Yield the layers of a result that have a mapping."""
    for entry in result["layers"]:
        mapping = entry.get("mapping")
        if mapping is not None:
            layer = evolve(entry["shape"], name=entry.get("name", "layer"))
            yield MappedLayer(layer=layer, arch=result["arch"], mapping=mapping, recorded=entry.get("predicted"))
