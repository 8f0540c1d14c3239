"""What a file may contain: kinds of values, which read YAML nodes and return their JSON Schema."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import IntEnum
from fractions import Fraction
from typing import Any

import attrs
import yaml
from attrs import field, frozen

from cpsat_pim.base.reading.nodes import (
    as_number,
    closest,
    hint,
    name_of,
    pairs_of,
    plain,
    shown,
    to_plain,
)
from cpsat_pim.base.reading.reader import WRONG, Kind, Mistake, Reader, Scales, Schema, joined
from cpsat_pim.base.units import AMOUNT_PATTERN, amount_in
from cpsat_pim.base.validate import Rule

ANYTHING = Rule("", lambda value: True)


# --- Scalars ---------------------------------------------------------------------------------------------------------


@frozen
class Value:
    """A scalar or a list of scalars that satisfies a rule. With `units`, a bare number is in the first unit, and an
    amount may be in any of them.
    """

    rule: Rule = ANYTHING
    units: tuple[str, ...] = ()

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Read an int, float, text, bool, None, or a tuple of these."""
        reader.enter(node, path)
        got = shown(node)
        try:
            value = plain(node)
            if self.units and isinstance(value, str):
                value = as_number(amount_in(value, self.units, scales))
                got += f" = {value} {self.units[0]}"
        except ValueError as error:
            return reader.complain(node, path, _with_value(str(error), got))
        problem = self.rule.broken_by(value)
        if problem is None:
            return value
        guess = hint(str(value), self.rule.choices, listed=False) if self.rule.choices else ""
        return reader.complain(node, path, f"{problem} (got {got}){guess}")

    def schema(self, partial: bool = False) -> Schema:
        """Return the rule's schema, extended by text with a unit if the value has units."""
        if not self.units:
            return self.rule.schema
        amount = {"type": "string", "pattern": AMOUNT_PATTERN}
        return {"anyOf": [self.rule.schema, amount], "description": f"in {self.units[0]}, or with a unit"}


def _with_value(problem: str, got: str) -> str:
    """Append the value and a hint to a message: `... (got ...); did you mean ...?`."""
    head, semicolon, guess = problem.partition("; ")
    return f"{head} (got {got}){semicolon}{guess}"


@frozen
class Data:
    """Any value, read as plain data."""

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Return dicts, lists and scalars."""
        try:
            return to_plain(node)
        except ValueError as error:
            return reader.complain(node, path, str(error))

    def schema(self, partial: bool = False) -> Schema:
        """Return the schema that accepts everything."""
        return {}


# --- Structures ------------------------------------------------------------------------------------------------------


@frozen
class Either:
    """A mapping of one kind, or any other node of another kind."""

    plain: Kind
    mapping: Kind

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Read the node as the kind that fits its type."""
        kind = self.mapping if isinstance(node, yaml.MappingNode) else self.plain
        return kind.read(reader, node, path, scales)

    def schema(self, partial: bool = False) -> Schema:
        """Return the schema that accepts both kinds."""
        return {"anyOf": [self.plain.schema(partial), self.mapping.schema(partial)]}


@frozen
class Listing:
    """A list of records; paths in messages call an item by its name if it has one that no earlier one has.

    In a file that extends another, a mapping changes the items that it names (`nodes.merge_nodes`). `names` are the
    fixed names of the items, if they have such.
    """

    item: Kind
    says: str = "a list"
    names: tuple[str, ...] = ()
    may_be_empty: bool = False

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Return the items as a tuple; an item that cannot be read is {}."""
        reader.enter(node, path)
        if not isinstance(node, yaml.SequenceNode) or not (node.value or self.may_be_empty):
            return reader.complain(node, path, f"must be {self.says} (got {shown(node)})")
        read = [self.item.read(reader, item, f"{path}[{at}]", scales) for at, item in self._labelled(node)]
        return tuple({} if item is WRONG else item for item in read)

    def _labelled(self, node: yaml.SequenceNode) -> Iterator[tuple[str, yaml.Node]]:
        seen = {""}
        for i, item in enumerate(node.value):
            name = "" if self.names else name_of(item)
            yield str(i) if name in seen else name, item
            seen.add(name)

    def schema(self, partial: bool = False) -> Schema:
        """Return the schema of a list, or of a mapping of changes."""
        changes: Schema = {"type": "object", "minProperties": 1}
        if self.names:
            changes |= {"properties": {n: self.item.schema(True) for n in self.names}, "additionalProperties": False}
        else:
            changes |= {"additionalProperties": self.item.schema(True)}
        least = 0 if self.may_be_empty else 1
        return {"anyOf": [{"type": "array", "items": self.item.schema(), "minItems": least}, changes]}


@frozen(kw_only=True)
class Field:
    """A key of a mapping. `scale` names the conversion factor that its value defines for the fields beside and below
    it.
    """

    kind: Kind
    required: bool = False
    scale: str | None = None
    default: Any = None

    def schema(self, partial: bool = False) -> Schema:
        """Return the kind's schema, with the default if that is a scalar."""
        schema = self.kind.schema(partial)
        return schema | {"default": self.default} if isinstance(self.default, bool | int | float | str) else schema


@frozen
class WithoutHead:
    """Builds the value of a file from all its keys but `version` and `extends`."""

    build: Callable[..., Any]

    def __call__(self, version: Any, extends: Any = None, **values: Any) -> Any:
        """Return what `build` makes of the values."""
        return self.build(**values)


def _no_mistakes(values: dict[str, Any]) -> Iterable[Mistake]:
    return ()


#: Cycles per second where a machine's clock cannot be read, or is misspelt: its times in ns come to as many cycles.
_STAND_IN = Fraction(10**9)


@frozen(kw_only=True, eq=False)
class Record:
    """A mapping with known keys, and keys that match a pattern. `is_open` accepts and ignores all other keys.

    `check` gets the values that could be read, and yields the mistakes between them. `build` gets all values if there
    is no mistake; its ValueErrors `Class.field: ...` become mistakes. Without `build` the dict of values is the result.
    """

    fields: Mapping[str, Field]
    patterns: Mapping[str, Field] = field(factory=dict)
    build: Callable[..., Any] | None = None
    check: Callable[[dict[str, Any]], Iterable[Mistake]] = _no_mistakes
    doc: str = ""
    is_open: bool = False

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Return what `build` makes of the values."""
        reader.enter(node, path)
        if not isinstance(node, yaml.MappingNode):
            return reader.complain(node, path, f"must be a mapping of fields (got {shown(node)})")
        before = reader.count
        values = self._values(reader, node, path, scales)
        for at, problem in self.check(values):
            reader.complain_at(joined(path, at), problem)
        if self.build is None:
            return values
        if reader.count > before:
            for line in _problems_between(self.build, values, pairs_of(node)):
                reader.complain_at(*_located(line, path))
            return WRONG
        try:
            return self.build(**values)
        except ValueError as error:
            for line in str(error).splitlines():
                reader.complain_at(*_located(line, path))
            return WRONG

    def _values(self, reader: Reader, node: yaml.MappingNode, path: str, scales: Scales) -> dict[str, Any]:
        """Return the values that could be read. Fields that define a scale are read first, because the others need the
        scales.
        """
        given, values = pairs_of(node), {}
        known = {name: item for name in given if (item := self._field(name))}
        unknown = [] if self.is_open else [name for name in given if name not in known]
        for name in unknown:
            reader.complain(given[name][0], joined(path, name), f"unknown key{self._place_hint(reader, name)}")
        for name, item in self.fields.items():
            if item.required and name not in given:
                reader.complain(node, joined(path, name), "is missing")
        scales = {**scales, **{f.scale: Fraction(f.default) for f in self.fields.values() if f.scale and f.default}}
        meant = {closest(name, self.fields) for name in unknown} - given.keys()  # their own mistake is enough
        scales = {f.scale: _STAND_IN for name, f in self.fields.items() if f.scale and name in meant} | scales
        reader.around.append((path, self.fields))
        for name in sorted(known, key=lambda n: known[n].scale is None):
            value = known[name].kind.read(reader, given[name][1], joined(path, name), scales)
            scale = known[name].scale
            if value is not WRONG:
                values[name] = value
                scales |= {scale: Fraction(value)} if scale and value else {}
            elif scale:  # one mistake: other fields are read by a scale that is as good as any
                scales = {scale: _STAND_IN, **scales}
        reader.around.pop()
        return values

    def _place_hint(self, reader: Reader, name: str) -> str:
        """Return where a key belongs that a mapping around this one may have, else a key of this one that is close."""
        path = next((path for path, names in reversed(reader.around) if name in names), None)
        return hint(name, self.fields) if path is None else f"; it is a key of {path or 'the file itself'}"

    def _field(self, name: str) -> Field | None:
        """Return the field of a key, known or matching a pattern."""
        alike = (item for pattern, item in self.patterns.items() if re.fullmatch(pattern, name))
        return self.fields.get(name) or next(alike, None)

    def schema(self, partial: bool = False) -> Schema:
        """Return the schema of an object. A file may inherit required keys from the file that it extends, so only items
        of lists must have them.
        """
        schema: Schema = {"type": "object", "description": self.doc} if self.doc else {"type": "object"}
        schema["properties"] = {name: item.schema(partial) for name, item in self.fields.items()}
        if self.patterns:
            schema["patternProperties"] = {f"^{p}$": item.schema(partial) for p, item in self.patterns.items()}
        schema["additionalProperties"] = self.is_open
        required = [name for name, item in self.fields.items() if item.required]
        return schema | {"required": required} if required and not partial else schema


@frozen
class Table:
    """A mapping from arbitrary keys to values of one kind."""

    item: Kind

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Return the values that could be read, by key."""
        reader.enter(node, path)
        if not isinstance(node, yaml.MappingNode):
            return reader.complain(node, path, f"must be a mapping (got {shown(node)})")
        read = {key.value: self.item.read(reader, item, f"{path}[{key.value}]", scales) for key, item in node.value}
        return {name: value for name, value in read.items() if value is not WRONG}

    def schema(self, partial: bool = False) -> Schema:
        """Return the schema of an object."""
        return {"type": "object", "additionalProperties": self.item.schema(partial)}


def _problems_between(build: Callable[..., Any], values: Mapping[str, Any], given: Iterable[str]) -> list[str]:
    """Return what is wrong between those fields of a frozen class that could be read, where others could not, so that a
    file's mistakes are told at once. A class tells them by a generator `_problems`, which ends where one needs a field
    that could not be read.
    """
    build = build.build if isinstance(build, WithoutHead) else build
    if not (isinstance(build, type) and attrs.has(build) and hasattr(build, "_problems")):
        return []
    partial: Any = build.__new__(build)
    found: list[str] = []
    for attribute in attrs.fields(build):
        if attribute.name in values and not _holds_wrong(values[attribute.name]):
            try:
                _set(partial, attribute, values[attribute.name])
            except ValueError as error:
                found += str(error).splitlines()
        elif attribute.name not in given and attribute.default is not attrs.NOTHING:
            object.__setattr__(partial, attribute.name, _default_of(attribute))
    with suppress(AttributeError):
        for line in partial._problems():
            found.append(line if line.startswith(build.__name__) else f"{build.__name__}.{line}")
    return found


def _set(partial: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    """Give an object a value as its constructor would: converted, and not before it is valid."""
    convert: Any = attribute.converter
    value = convert(value) if convert else value
    if attribute.validator:
        attribute.validator(partial, attribute, value)
    object.__setattr__(partial, attribute.name, value)


def _holds_wrong(value: Any) -> bool:
    """Return whether a list has an item that could not be read."""
    return isinstance(value, tuple) and any(item == {} for item in value)


def _default_of(attribute: Any) -> Any:
    default = attribute.default.factory() if isinstance(attribute.default, attrs.Factory) else attribute.default  # type: ignore[arg-type]
    return attribute.converter(default) if attribute.converter else default


def _located(line: str, path: str) -> Mistake:
    """Split `Class.field: problem` into the path of the field and the problem."""
    match = re.match(r"[A-Z]\w*(?:\.([\w.\[\]]+))?: (.*)", line)
    return (joined(path, match[1] or ""), match[2]) if match else (path, line)


def table_of(keys: Iterable[IntEnum], kind: Kind | Callable[[IntEnum], Kind], required: bool = False) -> Record:
    """Return a record whose keys are the names of enum members; it is read as a dict by member, in the file's order."""
    members = {key.name: key for key in keys}
    kinds = {name: kind(key) if inspect.isfunction(kind) else kind for name, key in members.items()}
    return Record(
        fields={name: Field(kind=kinds[name], required=required) for name in members},  # type: ignore[arg-type]
        build=lambda **values: {members[name]: value for name, value in values.items()},
    )
