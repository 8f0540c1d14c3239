"""Mapping files: mappings as YAML, to be read, edited and fed back.

    version: 1
    arch: hbm-pim                        # a preset, a file, or the fields of one
    network: resnet50                    # where a layer's shape is found that is not given below
    layers:
    - name: fc
      shape: {C: 2048, K: 1000}          # as `shape` in JSON results; what is absent is 1
      mapping:
        temporal:                        # factors of each level's loops, outermost first
          DRAM: {K: 125}
          GLOBAL_BUFFER: {C: 16}
        spatial: {H: {C: 16}, W: {K: 8}, INTERNAL: {C: 8}}
        stored: {ROW_BUFFER: "", GLOBAL_BUFFER: IW, PE: W}
        layout: {I: NHWGC, W: GKCSR, O: NGKQP}

`mapping` also takes what JSON results hold (docs/json.md): `order` for loops that are not written in their order,
`mode` beside the axis order of a layout, `input_block` for a row-aligned input, `resident` for the loops that a tile
covers if these are not all of its level's, `banks` for the tensors that share a bank (`IW|O`), `bank_counts` for the
banks that I, W and O have if these are several (`[8, 4, 4]`).
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

from attrs import evolve, fields_dict, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import arch_names, read_arch
from cpsat_pim.base.dims import BUFFERS, LAYOUT_ORDERS, ON_CHIP, Dim, Direction, Level, Tensor
from cpsat_pim.base.reading import (
    VERSION,
    Either,
    Field,
    FileKind,
    Kind,
    Listing,
    Mistake,
    Record,
    Value,
    fields_of,
    hint,
    read_plain,
    record_of,
    table_of,
    to_yaml,
)
from cpsat_pim.base.validate import Rule, one_of, positive, text
from cpsat_pim.mapping import BANKS, ONE_BANK, BankCounts, Mapping, is_bank_count
from cpsat_pim.mapping.widths import on_machine
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.network import Network, read_network

MODES = ("sequential", "row_aligned")


# --- One mapping -----------------------------------------------------------------------------------------------------


def letters_of(members: Iterable[IntEnum]) -> Rule:
    """Return the rule of a text of distinct letters of dims or tensors."""
    known = "".join(member.name for member in members)

    def holds(value: Any) -> bool:
        return isinstance(value, str) and set(value) <= set(known) and len(set(value)) == len(value)

    schema = {"type": "string", "pattern": f"^[{known}]*$"}
    return Rule(f"must be letters of {known}, each at most once", holds, schema)


def layout_kind(tensor: IntEnum) -> Kind:
    """Return the kind of a layout: an axis order alone, or with its mode."""
    order = Value(one_of(*LAYOUT_ORDERS[Tensor(tensor)]))
    fields = {"mode": Field(kind=Value(one_of(*MODES))), "order": Field(kind=order)}
    return Either(plain=order, mapping=Record(fields=fields))


three_bank_counts = Rule(
    "must be three powers of two [input, weight, output]",
    lambda v: isinstance(v, tuple) and len(v) == len(Tensor) and all(map(is_bank_count, v)),
    {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 3, "maxItems": 3},
)
FACTORS = table_of(Dim, Value(positive))
ORDERS = table_of(Level, Value(letters_of(Dim)))
RESIDENT = table_of(reversed(ON_CHIP), table_of(Tensor, Value(letters_of(Dim))))
_BLOCK = Record(fields={side: Field(kind=Value(positive), required=True) for side in ("h", "w")})
_NO_BLOCK = Rule("must be the height h and width w of blocks, or nothing", lambda v: v is None, {"type": "null"})

Values = dict[Any, Any]


def _build_mapping(
    temporal: Values,
    stored: Values,
    spatial: Values | None = None,
    order: Values | None = None,
    layout: Values | None = None,
    input_block: Values | None = None,
    resident: Values | None = None,
    banks: str = "I|W|O",
    bank_counts: BankCounts = ONE_BANK,
) -> Mapping:
    loops = [_loops(temporal.get(m, {}), (order or {}).get(m)) for m in Level]
    return Mapping(
        temporal=[[temporal.get(m, {}).get(d, 1) for d in Dim] for m in Level],
        spatial=[[(spatial or {}).get(s, {}).get(d, 1) for d in Dim] for s in Direction],
        order=loops,
        stored=[[t.name in stored[m] for t in Tensor] for m in BUFFERS],
        layout=[axis_order(t, (layout or {}).get(t)) or 0 for t in Tensor],
        block_h=(input_block or {}).get("h", 0),
        block_w=(input_block or {}).get("w", 0),
        outside=[[_outside(loops[m], (resident or {}).get(m, {}).get(t)) for t in Tensor] for m in ON_CHIP],
        banks=BANKS[banks],
        bank_counts=bank_counts,
    )


def _loops(factors: dict[Dim, int], order: str | None) -> list[Dim]:
    """Return a level's loops: in the given order, else as written."""
    return [d for d, n in factors.items() if n > 1] if order is None else [Dim[letter] for letter in order]


def _outside(loops: list[Dim], covered: str | None) -> int:
    """Return the number of loops outside a tile that covers `covered`, or all loops."""
    return 0 if covered is None else len(loops) - len(covered)


def axis_order(tensor: Tensor, entry: Any) -> int | None:
    """Return the index of a tensor's axis order."""
    order = entry.get("order") if isinstance(entry, dict) else entry
    return None if order is None else LAYOUT_ORDERS[tensor].index(order)


def _mistakes(values: Values) -> Iterator[Mistake]:
    yield from _layout_mistakes(values)
    yield from _residency_mistakes(values)


def _layout_mistakes(values: Values) -> Iterator[Mistake]:
    """Yield a mistake where a layout's mode contradicts what the row buffer stores."""
    stored = values.get("stored", {}).get(Level.ROW_BUFFER)
    for tensor, entry in values.get("layout", {}).items():
        mode = entry.get("mode") if isinstance(entry, dict) else None
        if mode and stored is not None and mode != MODES[tensor.name in stored]:
            stores = f"{'stores' if tensor.name in stored else 'does not store'} {tensor.name}"
            yield f"layout.{tensor.name}.mode", f"must be {MODES[tensor.name in stored]}, the row buffer {stores}"


def _residency_mistakes(values: Values) -> Iterator[Mistake]:
    """Yield a mistake where a tile does not cover the innermost loops of its level."""
    for level, tiles in values.get("resident", {}).items():
        loops = _loops(values.get("temporal", {}).get(level, {}), values.get("order", {}).get(level))
        letters = "".join(dim.name for dim in loops)
        for tensor, covered in tiles.items():
            if not letters.endswith(covered):
                yield (
                    f"resident.{level.name}.{tensor.name}",
                    f"must be the innermost of the loops {letters} (got {covered})",
                )


MAPPING = Record(
    fields={
        "temporal": Field(kind=table_of(Level, FACTORS), required=True),
        "spatial": Field(kind=table_of(Direction, FACTORS)),
        "order": Field(kind=ORDERS),
        "stored": Field(kind=table_of(reversed(BUFFERS), Value(letters_of(Tensor)), required=True), required=True),
        "layout": Field(kind=table_of(Tensor, layout_kind)),
        "input_block": Field(kind=Either(plain=Value(_NO_BLOCK), mapping=_BLOCK)),
        "resident": Field(kind=RESIDENT),
        "banks": Field(kind=Value(one_of(*BANKS))),
        "bank_counts": Field(kind=Value(three_bank_counts)),
    },
    check=_mistakes,
    build=_build_mapping,
    doc="Loop factors and orders, parallel factors, stored tensors and DRAM layouts of one layer.",
)


def build_mapping(file: str, data: Any) -> Mapping:
    """Build a mapping from data that `Mapping.to_dict` returned.

    Raises:
        ValueError: mistakes in it; a line each, `<file>: <path.to.field>: ...`.
    """
    mapping: Mapping = read_plain(file, data, MAPPING)
    return mapping


# --- Files -----------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class MappingEntry:
    """The mapping of a layer, with its shape if the file gives it."""

    name: str
    layer: ConvWorkload | None
    mapping: Mapping


@frozen(kw_only=True)
class MappingFile:
    """Mappings, and their machine if the file gives it."""

    arch: PIMArchitecture | None
    layers: tuple[MappingEntry, ...]


SHAPE = Record(
    fields=fields_of(ConvWorkload, (name for name in fields_dict(ConvWorkload) if name != "name")),
    build=ConvWorkload,
    doc="Bounds (so much of them is padding: zeros), stride, dilation and bytes per element; what is absent is 1.",
)
_ENTRY = Record(
    fields={
        "name": Field(kind=Value(text), required=True),
        "shape": Field(kind=SHAPE),
        "mapping": Field(kind=MAPPING, required=True),
    },
)


def _name_mistakes(values: Values) -> Iterator[Mistake]:
    """Yield a mistake where a layer has several mappings."""
    names = [entry.get("name") for entry in values.get("layers", ())]
    for i in (i for i, name in enumerate(names) if name and name in names[:i]):
        yield f"layers[{i}].name", "there is a layer of this name already"


MAPPINGS = FileKind(
    kind="mapping",
    record=Record(
        fields={
            "arch": Field(kind=Either(plain=Value(text), mapping=record_of(PIMArchitecture))),
            "network": Field(kind=Value(text)),
            "layers": Field(kind=Listing(_ENTRY, "a list of at least one layer"), required=True),
        },
        check=_name_mistakes,
    ),
)


def read_mapping_file(path: str | Path) -> MappingFile:
    """Read the mappings of a YAML file.

    Raises:
        ValueError: an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`.
    """
    values = MAPPINGS.read(path)
    directory = Path(path).parent
    arch, network = values.get("arch"), values.get("network")
    try:
        machine = read_arch(arch, directory) if isinstance(arch, str) else arch
        shapes = _shapes(read_network(network, directory), machine) if network else {}
    except ValueError as error:
        raise ValueError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error
    entries = [_entry(path, values, entry, shapes) for entry in values["layers"]]
    return MappingFile(arch=machine, layers=tuple(entries))


def _shapes(network: Network, arch: PIMArchitecture | None) -> dict[str, ConvWorkload]:
    layers = on_machine(network, arch).layers if arch else network.layers
    return {node.name: node.workload for node in layers}


def _entry(path: str | Path, values: Values, entry: Values, shapes: dict[str, ConvWorkload]) -> MappingEntry:
    """Build the entry of a layer, with the shape in the entry or in the network."""
    name = entry["name"]
    layer = shapes.get(name)
    if "shape" in entry:
        layer = evolve(entry["shape"], name=name)
    elif layer is None and shapes:
        raise ValueError(f"{path}: layers[{name}]: {values['network']} has no layer of this name{hint(name, shapes)}")
    return MappingEntry(name=name, layer=layer, mapping=entry["mapping"])


# --- Writing ---------------------------------------------------------------------------------------------------------


def format_mapping_file(arch: PIMArchitecture, mapped: Iterable[tuple[ConvWorkload, Mapping]]) -> str:
    """Format layers as a mapping file: loops in their order, without factors of 1 and empty values."""
    data = {
        "version": VERSION,
        "arch": arch.name if _is_preset(arch) else _listed(arch.to_dict()),
        "layers": [
            {"name": layer.name, "shape": _shape_data(layer), "mapping": _mapping_data(mapping)}
            for layer, mapping in mapped
        ],
    }
    return to_yaml(data, default_flow_style=None, width=120)


def _is_preset(arch: PIMArchitecture) -> bool:
    return arch.name in arch_names() and read_arch(arch.name) == arch


def _shape_data(layer: ConvWorkload) -> dict[str, Any]:
    default = ConvWorkload().shape
    return {key: value for key, value in layer.shape.items() if value != default.get(key)}


def _mapping_data(mapping: Mapping) -> dict[str, Any]:
    data = mapping.to_dict()
    temporal = {m.name: {d.name: mapping.temporal[m][d] for d in mapping.order[m]} for m in reversed(Level)}
    kept = {
        "temporal": {name: factors for name, factors in temporal.items() if factors},
        "spatial": {name: factors for name, factors in data["spatial"].items() if factors},
        "stored": data["stored"],
        "layout": {name: layout["order"] for name, layout in data["layout"].items()},
    }
    return kept | {key: data[key] for key in ("input_block", "resident", "banks", "bank_counts") if data.get(key)}


def _listed(value: Any) -> Any:
    """Convert tuples to lists, which YAML requires."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value
