"""Files of one kind: those that come with the package, by name, and the user's, each of which may extend others."""

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from attrs import define, evolve, field

from cpsat_pim.base.reading.fields import Field, Reader, Record, Value
from cpsat_pim.base.reading.nodes import (
    FileMistakes,
    compose,
    file_text,
    from_plain,
    hint,
    laid_over,
    pairs_of,
    text_of,
)
from cpsat_pim.base.validate import Rule, is_integer, text

VERSION = 1
SUFFIXES = (".yaml", ".yml")
_VERSION_RULE = Rule(f"must be {VERSION}", lambda v: is_integer(v) and v == VERSION, {"const": VERSION})
#: What a file says of itself alone: not taken over by one that extends it.
_OWN_KEYS = ("version", "extends", "name")


def _nested(path: str, value: Any) -> Any:
    """`a.b` and 3 make {a: {b: 3}}."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


@define(kw_only=True, slots=False)
class FileKind:
    """What is called `kind` (`architecture`): its files in a folder of a package, and how any such file is read.

    `builtin` are names that have no file, and their data; `defaults` is what a file leaves out, for changes to be made
    to. `item_names`: see `nodes.laid_over`. A file that does not give a `name` is called by its stem, where the record
    has one.
    """

    kind: str
    record: Record
    package: str | None = None
    folder: str = ""
    builtin: Mapping[str, Callable[[], dict[str, Any]]] = field(factory=dict)
    defaults: Callable[[], dict[str, Any]] = dict
    item_names: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """What comes with the package."""
        if self.package is None:
            return tuple(self.builtin)
        entries = [entry.name for entry in files(self.package).joinpath(self.folder).iterdir()]
        return (*self.builtin, *sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml")))

    def read(
        self, name_or_path: str | Path, directory: Path | None = None, changes: Mapping[str, Any] | None = None
    ) -> Any:
        """What a name or a file stands for, with other values at some paths, as a file would have it that extends it; a
        file's name ends in .yaml or .yml.

        Raises:
            ValueError: there is no such name.
            FileMistakes: all that is wrong with the file or the changes.
        """
        reader = Reader()
        root = self._root(str(name_or_path), directory, (), reader)
        if changes:
            complete = laid_over(from_plain("", self.defaults()), root, self.item_names, reader.complain)
            root = self._with(changes, complete, reader)
        return reader.read(root, self.file_record)

    def changed(self, data: Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
        """What plain data stand for, with other values at some paths, as a file would have it that extends them.

        Raises:
            FileMistakes: all that is wrong with it, `<path>: ...`.
        """
        reader = Reader()
        return reader.read(self._with(changes, from_plain("", data), reader), self.record)

    def _with(self, changes: Mapping[str, Any], root: yaml.Node, reader: Reader) -> yaml.Node:
        for path, value in changes.items():
            root = laid_over(root, from_plain("", _nested(path, value)), self.item_names, reader.complain)
        return root

    @cached_property
    def file_record(self) -> Record:
        """A whole file: the record, its version, and what it extends."""
        build = self.record.build
        own = {"version": Field(kind=Value(_VERSION_RULE), required=True), "extends": Field(kind=Value(text))}
        return evolve(
            self.record,
            fields={**own, **self.record.fields},
            build=build and (lambda version, extends=None, **values: build(**values)),
        )

    def schema(self) -> dict[str, Any]:
        """JSON Schema of a file."""
        partial = self.file_record.schema(partial=True)
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"cpsat-pim {self.kind}"}
        needed = [name for name, item in self.file_record.fields.items() if item.required and name not in _OWN_KEYS]
        complete = {"anyOf": [{"required": ["extends"]}, {"required": needed}]} if needed else {}
        return {**head, **partial, "required": ["version"], **complete}

    # --- Files to nodes

    def _root(self, given: str, directory: Path | None, seen: tuple[str, ...], reader: Reader) -> yaml.Node:
        """A file's root, laid over what it extends."""
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
        """What messages call a file, and its text."""
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
        """A root laid over that of the file that it names."""
        _, node = pairs_of(root).get("extends", (None, None))
        named = text_of(node)
        if named is None:
            return root
        try:
            base = self._root(named, Path(file).parent, seen, reader)
        except ValueError as error:
            for line in str(error).splitlines():
                reader.complain(node, "extends", line)
            return root
        if not isinstance(base, yaml.MappingNode):
            reader.complain(base, "", "must be a mapping of fields")
            return root
        inherited = [(key, value) for key, value in base.value if key.value not in _OWN_KEYS]
        kept = yaml.MappingNode(base.tag, inherited, base.start_mark, base.end_mark)
        merged = laid_over(kept, root, self.item_names, reader.complain)
        assert isinstance(merged, yaml.MappingNode)
        return merged
