"""What a file may hold: kinds of values that read themselves from nodes and say so as JSON Schema.

The kinds of a frozen class come from its attrs fields: the type says how a value is built, the validator (a `Rule`)
what it must be, the metadata in which unit it is. A field that is added to such a class can be read, and is in its
schema.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import attrs
import yaml
from attrs import field, frozen

from cpsat_pim.base.reading.nodes import (
    FileMistakes,
    as_number,
    from_plain,
    hint,
    name_of,
    pairs_of,
    place,
    plain,
    position,
    shown,
    to_plain,
)
from cpsat_pim.base.units import AMOUNT_PATTERN, amount_in
from cpsat_pim.base.validate import Rule

Schema = dict[str, Any]
#: Bytes per element and cycles per second, where they are known: see `units.amount_in`.
Scales = Mapping[str, Fraction]
#: A path within a file, and what is wrong there.
Mistake = tuple[str, str]

#: What reading returns for a value that it has complained about.
WRONG: Any = object()

ANYTHING = Rule("", lambda value: True)


class Reader:
    """Collects what is wrong with a file; remembers where each value stands."""

    def __init__(self) -> None:
        #: What is read once though a file names it often: for kinds to find again.
        self.known: dict[Any, Any] = {}
        self._problems: list[tuple[tuple[str, int, int], str]] = []
        self._places: dict[str, yaml.Node] = {}

    def enter(self, node: yaml.Node, path: str) -> None:
        """A value at a path is about to be read."""
        self._places[path] = node

    def complain(self, node: yaml.Node, path: str, problem: str) -> Any:
        """Note a problem; nothing is raised before all are known."""
        where = ": ".join(filter(None, (place(node), path, problem)))
        self._problems.append((position(node), where))
        return WRONG

    def complain_at(self, path: str, problem: str) -> None:
        """Note a problem at a path, which need not be in the file: then it is shown at what surrounds it."""
        around = path
        while around not in self._places:
            around = re.sub(r"(^|\.|\[)[^.\[]*$", "", around)
        self.complain(self._places[around], path, problem)

    @property
    def count(self) -> int:
        """How many problems there are."""
        return len(self._problems)

    def read(self, root: yaml.Node, kind: "Kind") -> Any:
        """The value of a whole file.

        Raises:
            FileMistakes: all that is wrong with it, in the order of the places.
        """
        value = kind.read(self, root, "", {})
        if self._problems:
            lines = [line for _, line in sorted(self._problems, key=lambda problem: problem[0])]
            raise FileMistakes(dict.fromkeys(lines))
        return value


class Kind(Protocol):
    """A kind of value: how it is read, and its schema; `partial` is for what changes something, where all may lack."""

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """The value, or `WRONG` after a complaint."""

    def schema(self, partial: bool = False) -> Schema:
        """JSON Schema."""


def read_plain(file: str, data: Any, kind: Kind) -> Any:
    """The value of plain data, such as a part of a JSON file.

    Raises:
        FileMistakes: all that is wrong with it.
    """
    return Reader().read(from_plain(file, data), kind)


def joined(path: str, name: str) -> str:
    """`pe_array` and `array_shape` make `pe_array.array_shape`."""
    return f"{path}.{name}" if path and name else path or name


# --- Scalars ---------------------------------------------------------------------------------------------------------


@frozen
class Value:
    """A scalar, or a list of scalars, that obeys a rule; with `units`, a number in the first, or an amount in any."""

    rule: Rule = ANYTHING
    units: tuple[str, ...] = ()

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """The value as the class takes it: int, float, text, bool, None, or a tuple of these."""
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
        """The rule's, or text with a unit."""
        if not self.units:
            return self.rule.schema
        amount = {"type": "string", "pattern": AMOUNT_PATTERN}
        return {"anyOf": [self.rule.schema, amount], "description": f"in {self.units[0]}, or with a unit"}


def _with_value(problem: str, got: str) -> str:
    """`... (got ...); did you mean ...?`"""
    head, semicolon, guess = problem.partition("; ")
    return f"{head} (got {got}){semicolon}{guess}"


@frozen
class Data:
    """Anything, taken as plain data."""

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """Dicts, lists and scalars."""
        try:
            return to_plain(node)
        except ValueError as error:
            return reader.complain(node, path, str(error))

    def schema(self, partial: bool = False) -> Schema:
        """Nothing is wrong."""
        return {}


# --- Structures ------------------------------------------------------------------------------------------------------


@frozen
class Either:
    """A mapping of one kind, or anything else of another."""

    plain: Kind
    mapping: Kind

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """What the node is."""
        kind = self.mapping if isinstance(node, yaml.MappingNode) else self.plain
        return kind.read(reader, node, path, scales)

    def schema(self, partial: bool = False) -> Schema:
        """Both."""
        return {"anyOf": [self.plain.schema(partial), self.mapping.schema(partial)]}


@frozen
class Listing:
    """A list of records; items that have a name are called by it in paths.

    In a file that extends another, a mapping changes the items that it names (`nodes.laid_over`): `names` if the items
    have fixed ones.
    """

    item: Kind
    says: str = "a list"
    names: tuple[str, ...] = ()
    may_be_empty: bool = False

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """The items; {} stands for one that is wrong as a whole."""
        reader.enter(node, path)
        if not isinstance(node, yaml.SequenceNode) or not (node.value or self.may_be_empty):
            return reader.complain(node, path, f"must be {self.says} (got {shown(node)})")
        read = [self.item.read(reader, item, f"{path}[{at}]", scales) for at, item in self._labelled(node)]
        return tuple({} if item is WRONG else item for item in read)

    def _labelled(self, node: yaml.SequenceNode) -> Iterator[tuple[str, yaml.Node]]:
        for i, item in enumerate(node.value):
            yield (not self.names and name_of(item)) or str(i), item

    def schema(self, partial: bool = False) -> Schema:
        """A list, or a mapping of changes."""
        changes: Schema = {"type": "object", "minProperties": 1}
        if self.names:
            changes |= {"properties": {n: self.item.schema(True) for n in self.names}, "additionalProperties": False}
        else:
            changes |= {"additionalProperties": self.item.schema(True)}
        least = 0 if self.may_be_empty else 1
        return {"anyOf": [{"type": "array", "items": self.item.schema(), "minItems": least}, changes]}


@frozen(kw_only=True)
class Field:
    """A key of a mapping. `scale` names the scale that its value gives to the fields beside and below it."""

    kind: Kind
    required: bool = False
    scale: str | None = None
    default: Any = None

    def schema(self, partial: bool = False) -> Schema:
        """The kind's, with the default if that is a plain value."""
        schema = self.kind.schema(partial)
        return schema | {"default": self.default} if isinstance(self.default, bool | int | float | str) else schema


def _no_mistakes(values: dict[str, Any]) -> Iterable[Mistake]:
    return ()


@frozen(kw_only=True, eq=False)
class Record:
    """A mapping with known keys, and others that are like a pattern; with `is_open` any others are passed over.

    `check` sees the values that could be read and yields mistakes among them; `build` is called with all of them if
    there is no mistake, and its ValueErrors `Class.field: ...` are mistakes, too. Without it the values are the result.
    """

    fields: Mapping[str, Field]
    patterns: Mapping[str, Field] = field(factory=dict)
    build: Callable[..., Any] | None = None
    check: Callable[[dict[str, Any]], Iterable[Mistake]] = _no_mistakes
    doc: str = ""
    is_open: bool = False

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """What `build` makes of the values."""
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
            return WRONG
        try:
            return self.build(**values)
        except ValueError as error:
            for line in str(error).splitlines():
                reader.complain_at(*_located(line, path))
            return WRONG

    def _values(self, reader: Reader, node: yaml.MappingNode, path: str, scales: Scales) -> dict[str, Any]:
        """The values that could be read, in the order of the file but for those that give scales."""
        given, values = pairs_of(node), {}
        known = {name: item for name in given if (item := self._field(name))}
        for name in [] if self.is_open else [name for name in given if name not in known]:
            reader.complain(given[name][0], joined(path, name), f"unknown key{hint(name, self.fields)}")
        for name, item in self.fields.items():
            if item.required and name not in given:
                reader.complain(node, joined(path, name), "is missing")
        scales = {**scales, **{f.scale: Fraction(f.default) for f in self.fields.values() if f.scale and f.default}}
        for name in sorted(known, key=lambda n: known[n].scale is None):
            value = known[name].kind.read(reader, given[name][1], joined(path, name), scales)
            scale = known[name].scale
            if value is not WRONG:
                values[name] = value
                scales |= {scale: Fraction(value)} if scale and value else {}
        return values

    def _field(self, name: str) -> Field | None:
        """What a key holds."""
        alike = (item for pattern, item in self.patterns.items() if re.fullmatch(pattern, name))
        return self.fields.get(name) or next(alike, None)

    def schema(self, partial: bool = False) -> Schema:
        """An object. What a file extends may hold what is required, so only items of lists must have it."""
        schema: Schema = {"type": "object", "description": self.doc} if self.doc else {"type": "object"}
        schema["properties"] = {name: item.schema(partial) for name, item in self.fields.items()}
        if self.patterns:
            schema["patternProperties"] = {f"^{p}$": item.schema(partial) for p, item in self.patterns.items()}
        schema["additionalProperties"] = self.is_open
        required = [name for name, item in self.fields.items() if item.required]
        return schema | {"required": required} if required and not partial else schema


@frozen
class Table:
    """A mapping from any words to values of one kind."""

    item: Kind

    def read(self, reader: Reader, node: yaml.Node, path: str, scales: Scales) -> Any:
        """The values that could be read, by their words."""
        reader.enter(node, path)
        if not isinstance(node, yaml.MappingNode):
            return reader.complain(node, path, f"must be a mapping (got {shown(node)})")
        read = {key.value: self.item.read(reader, item, f"{path}[{key.value}]", scales) for key, item in node.value}
        return {name: value for name, value in read.items() if value is not WRONG}

    def schema(self, partial: bool = False) -> Schema:
        """An object."""
        return {"type": "object", "additionalProperties": self.item.schema(partial)}


def _located(line: str, path: str) -> Mistake:
    """`Class.field: problem` as the path of the field and the problem."""
    match = re.match(r"[A-Z]\w*(?:\.([\w.\[\]]+))?: (.*)", line)
    return (joined(path, match[1] or ""), match[2]) if match else (path, line)


def table_of(keys: Iterable[IntEnum], kind: Kind | Callable[[IntEnum], Kind], required: bool = False) -> Record:
    """A mapping from the names of enum members: read as a dict by member, in the order of the file."""
    members = {key.name: key for key in keys}
    kinds = {name: kind(key) if inspect.isfunction(kind) else kind for name, key in members.items()}
    return Record(
        fields={name: Field(kind=kinds[name], required=required) for name in members},  # type: ignore[arg-type]
        build=lambda **values: {members[name]: value for name, value in values.items()},
    )


# --- Classes ---------------------------------------------------------------------------------------------------------


@cache
def record_of(kind: type) -> Record:
    """A frozen class as a record."""
    return Record(fields=fields_of(kind), build=kind, doc=_doc(kind))


def fields_of(kind: Any, names: Iterable[str] | None = None) -> dict[str, Field]:
    """The fields of a class, or some, by name."""
    attributes = attrs.fields_dict(kind)
    return {name: _field_of(attributes[name]) for name in names or attributes}


def _field_of(attribute: Any) -> Field:
    has_default = attribute.default is not attrs.NOTHING
    plain = None if not has_default or isinstance(attribute.default, attrs.Factory) else attribute.default  # type: ignore[arg-type]
    scale = attribute.metadata.get("scale")
    return Field(kind=kind_of(attribute), required=not has_default, scale=scale, default=plain)


def kind_of(attribute: Any) -> Kind:
    """The kind of value that an attrs field takes."""
    own: Kind | None = attribute.metadata.get("kind")
    if own:
        return own
    if attrs.has(attribute.type):
        return record_of(attribute.type)
    rule = attribute.validator if isinstance(attribute.validator, Rule) else ANYTHING
    return Value(rule, attribute.metadata.get("units", ()))


def _doc(kind: type) -> str:
    """What the docstring says of a class, as one line, without what it raises."""
    text = inspect.getdoc(kind) or ""
    return " ".join(text.partition("Raises:")[0].split())
