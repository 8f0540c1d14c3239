"""Constraints: a partial mapping that a layer's mapping has to agree with.

    version: 1
    temporal: {DRAM: {K: 1}}             # factors that are fixed
    spatial: {H: {C: 16}}
    order: {DRAM: KPQ}                   # these loops, as far as there are any, in this order, outermost first
    stored: {PE: {W: true, I: false}}    # at the row buffer: row-aligned in DRAM or not
    layout: {I: NHWGC, W: {mode: row_aligned}}
    dataflow: WS
    banks: IW|O                           # the tensors that share a bank of the node
    bank_counts: choose                  # how many banks each tensor has is decided, too; or [1, 1, 2]
    layers:                              # what is different for some layers
      conv1: {spatial: {H: {C: 3}}}

Whatever is not named is free, but for `bank_counts`: each part has one bank unless this says otherwise.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, evolve, field, frozen
from attrs.converters import optional

from cpsat_pim.base.dims import BUFFERS, LAYOUT_ORDERS, Dim, Direction, Level, Tensor
from cpsat_pim.base.reading import Field, FileKind, Mistake, Record, Table, Value, table_of
from cpsat_pim.base.validate import Rule, as_table, as_tuple, boolean, is_integer, one_of, or_none
from cpsat_pim.mapping import BANKS, ONE_BANK, BankCounts, Banks, Mapping, banks_text
from cpsat_pim.mapping.dataflow import Dataflow, classify_dataflow
from cpsat_pim.mapping.mapping_file import FACTORS, MODES, ORDERS, axis_order, layout_kind, three_bank_counts
from cpsat_pim.workload import ConvWorkload

Fixed = tuple[int | None, ...]

#: What files say where the number of banks of each tensor is free.
CHOOSE = "choose"
choice_of_bank_counts = Rule(
    f"must be {CHOOSE}, or three powers of two [input, weight, output]",
    lambda value: value == CHOOSE or three_bank_counts.holds(value),
    {"anyOf": [{"const": CHOOSE}, three_bank_counts.schema]},
)


def _rows(count: int, width: int, holds: Callable[[Any], bool], says: str) -> Rule:
    """Return the rule of a table: `count` rows of `width` entries, each None or valid."""

    def test(rows: Any) -> bool:
        entries = [entry for row in rows for entry in row if entry is not None]
        return [len(row) for row in rows] == [width] * count and all(holds(entry) for entry in entries)

    return Rule(f"must be {count} rows of {width}: {says} or None", test)


def _is_factor(value: Any) -> bool:
    return is_integer(value) and value > 0


def _are_orders(orders: Any) -> bool:
    return len(orders) == len(Level) and all(
        len(set(order)) == len(order) and all(isinstance(dim, Dim) for dim in order) for order in orders
    )


def _nothing(count: int, width: int) -> Any:
    return Factory(lambda: ((None,) * width,) * count)


@frozen(kw_only=True, repr=False)
class Constraints:
    """Requirements on a mapping, in the form of `Mapping`; None leaves a value free.

    `temporal[m][d]`, m = PE..DRAM, and `spatial[s][d]`, s = H, W, Internal, are fixed factors. `order[m]`: those of
    these dims that have a loop at level m have this order, outermost first. `stored[m][t]`, m = PE..row buffer;
    `layout[t]` indexes `LAYOUT_ORDERS`. `banks`: one of `BANKS`, which tensors share a bank. `bank_counts`:
    how many banks each tensor has, one unless it says otherwise.

    Raises:
        ValueError: a table has another size, or an entry cannot be that of a mapping.
    """

    temporal: tuple[Fixed, ...] = field(
        default=_nothing(4, 8), converter=as_table, validator=_rows(4, 8, _is_factor, "positive integers")
    )
    spatial: tuple[Fixed, ...] = field(
        default=_nothing(3, 8), converter=as_table, validator=_rows(3, 8, _is_factor, "positive integers")
    )
    order: tuple[tuple[Dim, ...], ...] = field(
        default=((), (), (), ()), converter=as_table, validator=Rule("must be 4 orders of different dims", _are_orders)
    )
    stored: tuple[tuple[bool | None, ...], ...] = field(
        default=_nothing(3, 3), converter=as_table, validator=_rows(3, 3, lambda v: isinstance(v, bool), "booleans")
    )
    layout: tuple[int | None, ...] = field(
        default=(None, None, None),
        converter=as_tuple,
        validator=Rule("must be 0, 1 or None for I, W, O", lambda v: len(v) == 3 and set(v) <= {0, 1, None}),
    )
    dataflow: Dataflow | None = field(default=None, converter=optional(Dataflow))
    banks: Banks | None = field(
        default=None,
        converter=optional(as_tuple),
        validator=Rule("must be a partition of I, W, O or None", lambda v: v is None or v in BANKS.values()),
    )
    bank_counts: BankCounts | None = field(
        default=ONE_BANK, converter=optional(as_tuple), validator=or_none(three_bank_counts)
    )

    def __repr__(self) -> str:
        fixed = ", ".join(f"{key}={value!r}" for key, value in self.to_dict().items())
        return f"Constraints({fixed})"

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data as in a file, without free values."""
        tables = {
            "temporal": _named(Level, Dim, self.temporal),
            "spatial": _named(Direction, Dim, self.spatial),
            "order": {m.name: _letters(self.order[m]) for m in Level if self.order[m]},
            "stored": _named(BUFFERS, Tensor, self.stored),
            "layout": {t.name: LAYOUT_ORDERS[t][i] for t, i in zip(Tensor, self.layout, strict=True) if i is not None},
        }
        flow = {"dataflow": self.dataflow.value} if self.dataflow else {}
        banks = {"banks": banks_text(self.banks)} if self.banks else {}
        counts: dict[str, Any] = {"bank_counts": list(self.bank_counts) if self.bank_counts else CHOOSE}
        kept = {key: table for key, table in tables.items() if table} | flow | banks
        return kept if self.bank_counts == ONE_BANK else kept | counts


def _named(places: Iterable[Any], members: Iterable[Any], rows: Sequence[Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Return the entries of a table that are not None, by name."""
    named = {p.name: {x.name: rows[p][x] for x in members if rows[p][x] is not None} for p in places}
    return {name: row for name, row in named.items() if row}


#: No constraint.
FREE = Constraints()


# --- Checks ----------------------------------------------------------------------------------------------------------


def check_constraints(mapping: Mapping, constraints: Constraints) -> list[str]:
    """Return one line per constraint that a well-formed mapping violates; none if it satisfies all."""
    return [
        *_factor_violations(Level, mapping.temporal, constraints.temporal),
        *_factor_violations(Direction, mapping.spatial, constraints.spatial),
        *_order_violations(mapping, constraints),
        *_storage_violations(mapping, constraints),
        *_layout_violations(mapping, constraints),
        *_dataflow_violations(mapping, constraints),
        *_bank_violations(mapping, constraints),
    ]


def check_constraints_fit(layer: ConvWorkload, constraints: Constraints) -> list[str]:
    """Return one line per dim whose fixed factors no mapping of the layer can have."""
    places = len(constraints.temporal) + len(constraints.spatial)
    problems = []
    for dim in Dim:
        fixed, bound = _fixed(constraints, dim), layer.bounds[dim]
        product = " x ".join(map(str, fixed))
        if bound % math.prod(fixed):
            problems.append(f"{dim.name}: the fixed factors {product} do not divide the bound {bound}")
        elif len(fixed) == places and math.prod(fixed) != bound:
            problems.append(f"{dim.name}: all factors are fixed, and {product} is not the bound {bound}")
    return problems


def _factor_violations(places: Any, rows: Any, fixed: tuple[Fixed, ...]) -> Iterator[str]:
    """Yield a line per factor that differs from its fixed value."""
    for place in places:
        for dim in Dim:
            wanted, factor = fixed[place][dim], rows[place][dim]
            if wanted is not None and factor != wanted:
                yield f"{place.name}: the factor of {dim.name} must be {wanted} (got {factor})"


def _order_violations(mapping: Mapping, constraints: Constraints) -> Iterator[str]:
    """Yield a line per level whose loops are not in the fixed order."""
    for level in Level:
        wanted = [dim for dim in constraints.order[level] if dim in mapping.order[level]]
        loops = [dim for dim in mapping.order[level] if dim in wanted]
        if loops != wanted:
            yield f"{level.name}: the loops must be in the order {_letters(wanted)} (got {_letters(loops)})"


def _storage_violations(mapping: Mapping, constraints: Constraints) -> Iterator[str]:
    """Yield a line per tensor that a level must store or bypass and does not."""
    for level in BUFFERS:
        for tensor in Tensor:
            wanted = constraints.stored[level][tensor]
            if wanted is not None and mapping.stored[level][tensor] != wanted:
                yield f"{level.name}: must {'store' if wanted else 'not store'} {tensor.name}"


def _layout_violations(mapping: Mapping, constraints: Constraints) -> Iterator[str]:
    """Yield a line per tensor that does not have its fixed axis order."""
    for tensor in Tensor:
        wanted = constraints.layout[tensor]
        if wanted is not None and mapping.layout[tensor] != wanted:
            orders = LAYOUT_ORDERS[tensor]
            yield f"{tensor.name}: the axis order must be {orders[wanted]} (got {orders[mapping.layout[tensor]]})"


def _dataflow_violations(mapping: Mapping, constraints: Constraints) -> Iterator[str]:
    """Yield a line if the mapping is not of the required dataflow class."""
    flow = classify_dataflow(mapping)
    if constraints.dataflow not in (None, flow):
        yield f"the dataflow must be {constraints.dataflow} (got {flow})"


def _bank_violations(mapping: Mapping, constraints: Constraints) -> Iterator[str]:
    """Yield a line if other tensors share a bank than must, or have other numbers of banks."""
    if constraints.banks not in (None, mapping.banks):
        yield f"banks: must be {banks_text(constraints.banks)} (got {banks_text(mapping.banks)})"
    if constraints.bank_counts not in (None, mapping.bank_counts):
        unless = " unless constraints say otherwise" if constraints.bank_counts == ONE_BANK else ""
        yield f"bank_counts: must be {constraints.bank_counts}{unless} (got {mapping.bank_counts})"


def _fixed(constraints: Constraints, dim: Dim) -> list[int]:
    """Return the fixed factors of a dim."""
    factors = [row[dim] for row in (*constraints.temporal, *constraints.spatial)]
    return [factor for factor in factors if factor is not None]


def _letters(dims: Iterable[Dim]) -> str:
    return "".join(dim.name for dim in dims)


# --- Files -----------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class NetworkConstraints:
    """The constraints of every layer, and the constraints of particular layers that replace them."""

    everywhere: Constraints = FREE
    layers: dict[str, Constraints] = field(factory=dict)

    def of(self, name: str) -> Constraints:
        """Return the constraints of a layer."""
        return self.layers.get(name, self.everywhere)

    def with_banks(self, **fixed: Any) -> "NetworkConstraints":
        """Return the constraints with the same `banks` or `bank_counts` for every layer."""
        layers = {name: evolve(own, **fixed) for name, own in self.layers.items()}
        return NetworkConstraints(everywhere=evolve(self.everywhere, **fixed), layers=layers)

    def key(self, name: str, layer: ConvWorkload) -> str:
        """Return a key of what determines a solve: shape and constraints. Layers with equal keys are solved once."""
        return f"{layer.shape_key}{self.of(name).to_dict() or ''}"

    @classmethod
    def whole(cls, given: "Constraints | NetworkConstraints") -> "NetworkConstraints":
        """Convert constraints for every layer; a `NetworkConstraints` is unchanged."""
        return given if isinstance(given, NetworkConstraints) else cls(everywhere=given)


Values = dict[Any, Any]
_STORED = table_of(reversed(BUFFERS), table_of(Tensor, Value(boolean)))
_PARTS = {
    "temporal": Field(kind=table_of(Level, FACTORS)),
    "spatial": Field(kind=table_of(Direction, FACTORS)),
    "order": Field(kind=ORDERS),
    "stored": Field(kind=_STORED),
    "layout": Field(kind=table_of(Tensor, layout_kind)),
    "dataflow": Field(kind=Value(one_of(*(flow.value for flow in Dataflow)))),
    "banks": Field(kind=Value(one_of(*BANKS))),
    "bank_counts": Field(kind=Value(choice_of_bank_counts)),
}


def _mode_mistakes(values: Values) -> Iterator[Mistake]:
    """Yield a mistake if a layout's mode and the row buffer's `stored` entry contradict each other."""
    stored = values.get("stored", {}).get(Level.ROW_BUFFER, {})
    for tensor, entry in values.get("layout", {}).items():
        mode = entry.get("mode") if isinstance(entry, dict) else None
        if mode and tensor in stored and mode != MODES[stored[tensor]]:
            yield f"layout.{tensor.name}.mode", f"must be {MODES[stored[tensor]]}, as `stored` says"


_LAYER = Record(fields=_PARTS, check=_mode_mistakes)


def _build_constraints(values: Values) -> Constraints:
    """Build the constraints from a file's values."""
    temporal, spatial, stored, layout = (values.get(key, {}) for key in ("temporal", "spatial", "stored", "layout"))
    return Constraints(
        temporal=[[temporal.get(m, {}).get(d) for d in Dim] for m in Level],
        spatial=[[spatial.get(s, {}).get(d) for d in Dim] for s in Direction],
        order=[[Dim[letter] for letter in values.get("order", {}).get(m, "")] for m in Level],
        stored=[[stored.get(m, {}).get(t) for t in Tensor] for m in BUFFERS],
        layout=tuple(layout.get(t) for t in Tensor),
        dataflow=values.get("dataflow"),
        banks=BANKS.get(values.get("banks", "")),
        bank_counts=fixed_bank_counts(values.get("bank_counts", ONE_BANK)),
    )


def fixed_bank_counts(value: Any) -> BankCounts | None:
    """Return the bank counts that a file's value fixes; None if it leaves them free."""
    return None if value == CHOOSE else value


def _build_all(layers: dict[str, Values] | None = None, **values: Any) -> NetworkConstraints:
    everywhere = _with_modes_as_stored(values)
    return NetworkConstraints(
        everywhere=_build_constraints(everywhere),
        layers={
            name: _build_constraints(_laid_over(everywhere, _with_modes_as_stored(own)))
            for name, own in (layers or {}).items()
        },
    )


def _with_modes_as_stored(values: Values) -> Values:
    """Move the modes of layouts into the row buffer's `stored` entries, so that axis order and mode can be overridden
    separately.
    """
    layout = values.get("layout", {})
    modes = {t: entry.get("mode") for t, entry in layout.items() if isinstance(entry, dict)}
    aligned = {t: mode == MODES[1] for t, mode in modes.items() if mode}
    orders = {t: order for t, entry in layout.items() if (order := axis_order(t, entry)) is not None}
    return {**values, "layout": orders, "stored": _laid_over({Level.ROW_BUFFER: aligned}, values.get("stored", {}))}


def _laid_over(base: Values, over: Any) -> Any:
    """Merge the values of one layer over those of all layers."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return {**base, **{key: _laid_over(base[key], value) if key in base else value for key, value in over.items()}}


#: The constraints of one layer, as `Constraints.to_dict` returns them.
LAYER_CONSTRAINTS = evolve(_LAYER, build=lambda **values: _build_constraints(_with_modes_as_stored(values)))
CONSTRAINTS = FileKind(
    kind="constraints",
    record=evolve(_LAYER, fields={**_PARTS, "layers": Field(kind=Table(_LAYER))}, build=_build_all),
)


def read_constraints(path: str | Path, directory: Path | None = None) -> NetworkConstraints:
    """Read the constraints of a YAML file, relative to `directory`.

    Raises:
        ValueError: an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`.
    """
    constraints: NetworkConstraints = CONSTRAINTS.read(path, directory)
    return constraints
