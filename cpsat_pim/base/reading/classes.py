"""Kinds of values that are frozen classes: what a file may contain of them comes from their attrs fields.

The type of a field says how its value is built, the validator (a `Rule`) what it must satisfy, and the metadata its
unit. A new field of such a class is therefore read and part of the schema.
"""

import inspect
from collections.abc import Iterable
from functools import cache
from typing import Any

import attrs

from cpsat_pim.base.reading.fields import ANYTHING, Field, Record, Value
from cpsat_pim.base.reading.reader import Kind
from cpsat_pim.base.validate import Rule


@cache
def record_of(kind: type) -> Record:
    """Return the record of a frozen class."""
    return Record(fields=fields_of(kind), build=kind, doc=_doc(kind))


def fields_of(kind: Any, names: Iterable[str] | None = None) -> dict[str, Field]:
    """Return the fields of a frozen class by name, all or those of `names`."""
    attributes = attrs.fields_dict(kind)
    return {name: _field_of(attributes[name]) for name in names or attributes}


def _field_of(attribute: Any) -> Field:
    has_default = attribute.default is not attrs.NOTHING
    plain = None if not has_default or isinstance(attribute.default, attrs.Factory) else attribute.default  # type: ignore[arg-type]
    scale = attribute.metadata.get("scale")
    return Field(kind=kind_of(attribute), required=not has_default, scale=scale, default=plain)


def kind_of(attribute: Any) -> Kind:
    """Return the kind of value that an attrs field takes."""
    own: Kind | None = attribute.metadata.get("kind")
    if own:
        return own
    if attrs.has(attribute.type):
        return record_of(attribute.type)
    rule = attribute.validator if isinstance(attribute.validator, Rule) else ANYTHING
    return Value(rule, attribute.metadata.get("units", ()))


def _doc(kind: type) -> str:
    """Return the docstring of a class as one line, without its Raises section."""
    text = inspect.getdoc(kind) or ""
    return " ".join(text.partition("Raises:")[0].split())
