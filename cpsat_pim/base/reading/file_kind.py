"""A kind of file (architecture, network, ...): its presets, by name, and the user's files, each of which may extend
others.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from attrs import define, evolve, field

from cpsat_pim.base.reading.fields import Field, Listing, Record, Value, WithoutHead
from cpsat_pim.base.reading.nodes import (
    FileMistakes,
    from_plain,
    hint,
    mapping_like,
    merge_nodes,
    pairs_of,
    text_of,
    to_plain,
)
from cpsat_pim.base.reading.reader import Reader
from cpsat_pim.base.reading.text import compose, file_text
from cpsat_pim.base.validate import Rule, is_integer, text

VERSION = 1
SUFFIXES = (".yaml", ".yml")
_VERSION_RULE = Rule(f"must be {VERSION}", lambda v: is_integer(v) and v == VERSION, {"const": VERSION})
#: Keys that describe one file and are not inherited by a file that extends it.
_OWN_KEYS = ("version", "extends", "name")


def _nested(path: str, value: Any) -> Any:
    """Nest a value under a dotted path: `a.b` and 3 become {a: {b: 3}}."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


@define(kw_only=True, slots=False)
class FileKind:
    """A kind of file, called `kind` in messages: the presets in a folder of a package, and how such a file is read.

    `builtin` maps the names of presets without a file to their data. `defaults` returns the values of keys that a file
    may omit; changes apply to them. `item_names`: see `nodes.merge_nodes`. A file without a `name` gets its stem as
    name, if the record has a name.
    """

    kind: str
    record: Record
    package: str | None = None
    folder: str = ""
    builtin: Mapping[str, Callable[[], dict[str, Any]]] = field(factory=dict)
    defaults: Callable[[], dict[str, Any]] = dict
    item_names: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """Return the names of the presets."""
        if self.package is None:
            return tuple(self.builtin)
        entries = [entry.name for entry in files(self.package).joinpath(self.folder).iterdir()]
        return (*self.builtin, *sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml")))

    def read(
        self, name_or_path: str | Path, directory: Path | None = None, changes: Mapping[str, Any] | None = None
    ) -> Any:
        """Read a preset by its name, or a file by its path, which ends in .yaml or .yml. `changes` gives other values
        at dotted paths, as a file would that extends this one.

        Raises:
            ValueError: there is no such preset.
            FileMistakes: all mistakes of the file and of the changes.
        """
        reader = Reader()
        root = self._root(str(name_or_path), directory, (), reader)
        if changes:
            complete = merge_nodes(from_plain("", self.defaults()), root, self.item_names, reader.complain)
            root = self._with(changes, complete, reader)
        return reader.read(root, self.file_record)

    def changed(self, data: Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
        """Read plain data with other values at dotted paths, as a file would that extends them.

        Raises:
            FileMistakes: all mistakes, `<path>: ...`.
        """
        reader = Reader()
        return reader.read(self._with(changes, from_plain("", data), reader), self.record)

    def plain_data(self, name_or_path: str | Path, directory: Path | None = None) -> dict[str, Any]:
        """Return what a readable file gives, merged over what it extends, without the defaults of absent keys.

        Raises:
            FileMistakes: it cannot be parsed.
        """
        data = to_plain(self._root(str(name_or_path), directory, (), Reader()))
        return data if isinstance(data, dict) else {}

    def _with(self, changes: Mapping[str, Any], root: yaml.Node, reader: Reader) -> yaml.Node:
        for path, value in changes.items():
            root = merge_nodes(root, from_plain("", _nested(path, value)), self.item_names, reader.complain)
        return root

    @cached_property
    def file_record(self) -> Record:
        """The record of a whole file: the record with the keys `version` and `extends`."""
        own = {"version": Field(kind=Value(_VERSION_RULE), required=True), "extends": Field(kind=Value(text))}
        return evolve(
            self.record,
            fields={**own, **self.record.fields},
            build=self.record.build and WithoutHead(self.record.build),
        )

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a file."""
        partial = self.file_record.schema(partial=True)
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"cpsat-pim {self.kind}"}
        needed = [name for name, item in self.file_record.fields.items() if item.required and name not in _OWN_KEYS]
        complete = {"anyOf": [{"required": ["extends"]}, {"required": needed}]} if needed else {}
        return {**head, **partial, "required": ["version"], **complete}

    # --- Files to nodes

    def _root(self, given: str, directory: Path | None, seen: tuple[str, ...], reader: Reader) -> yaml.Node:
        """Return the root node of a file, merged over the files that it extends."""
        if given in self.builtin:
            return from_plain(given, {"version": VERSION, **self.builtin[given]()})
        file, content = self._file(given, directory)
        if file in seen:
            raise FileMistakes([f"{file}: extends itself: {' -> '.join([*seen, file])}"])
        root = compose(file, content, reader.complain)
        if isinstance(root, yaml.MappingNode):
            root = self._extended(root, file, (*seen, file), reader)
            if "name" in self.record.fields and "name" not in pairs_of(root):
                root.value.append((from_plain(file, "name"), from_plain(file, Path(file).stem)))
        return root

    def _file(self, given: str, directory: Path | None) -> tuple[str, str]:
        """Return the name of a file for messages, and its text."""
        if given.endswith(SUFFIXES):
            path = directory / given if directory else Path(given)
            return str(path), file_text(path)
        if given not in self.names() or self.package is None:
            raise ValueError(
                f"unknown {self.kind} {given!r}{hint(given, self.names())}"
                f"; a file's name ends in {' or '.join(SUFFIXES)}"
            )
        file = f"{given}.yaml"
        return file, files(self.package).joinpath(self.folder, file).read_text(encoding="utf-8")

    def _extended(self, root: yaml.MappingNode, file: str, seen: tuple[str, ...], reader: Reader) -> yaml.MappingNode:
        """Merge a root over the root of the file that it extends."""
        _, node = pairs_of(root).get("extends", (None, None))
        named = text_of(node)
        if named is None:
            return root
        try:
            base = self._root(named, Path(file).parent, seen, reader)
        except ValueError as error:
            for line in str(error).splitlines():
                reader.complain(node, "extends", line)
            return self._without_changes(root)
        if not isinstance(base, yaml.MappingNode):
            reader.complain(base, "", "must be a mapping of fields")
            return root
        inherited = [(key, value) for key, value in base.value if key.value not in _OWN_KEYS]
        kept = yaml.MappingNode(base.tag, inherited, base.start_mark, base.end_mark)
        merged = merge_nodes(kept, root, self.item_names, reader.complain)
        assert isinstance(merged, yaml.MappingNode)
        return merged

    def _without_changes(self, root: yaml.MappingNode) -> yaml.MappingNode:
        """Return a root without the changes to lists of a file that cannot be read: whether they fit is not known."""
        fields = self.record.fields
        lists = {name for name in fields if isinstance(fields[name].kind, Listing)}
        pairs = [(key, value) for key, value in root.value if key.value not in lists or value.id == "sequence"]
        return mapping_like(pairs, root)
