"""Read the files that users write: YAML with positions, values with units, and all mistakes of a file at once.

`fields` describes what a file may hold; the same description reads files and gives the JSON Schemas for editors.
"""

from cpsat_pim.base.reading.classes import fields_of, kind_of, record_of
from cpsat_pim.base.reading.fields import (
    Data,
    Either,
    Field,
    Listing,
    Record,
    Table,
    Value,
    table_of,
)
from cpsat_pim.base.reading.file_kind import SUFFIXES, VERSION, FileKind
from cpsat_pim.base.reading.json_file import read_json
from cpsat_pim.base.reading.nodes import FileMistakes, hint, to_yaml
from cpsat_pim.base.reading.reader import WRONG, Kind, Mistake, read_plain

__all__ = [
    "SUFFIXES",
    "VERSION",
    "WRONG",
    "Data",
    "Either",
    "Field",
    "FileKind",
    "FileMistakes",
    "Kind",
    "Listing",
    "Mistake",
    "Record",
    "Table",
    "Value",
    "fields_of",
    "hint",
    "kind_of",
    "read_json",
    "read_plain",
    "record_of",
    "table_of",
    "to_yaml",
]
