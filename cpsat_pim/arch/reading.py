"""Architecture files: YAML with the fields of `PIMArchitecture`, and the presets that come with the package.

    version: 1
    name: mine                     # the file's stem if absent
    page_policy: closed            # any field that is absent keeps its default
    dram_timings: {tRCDRD: 14, tRP: 14}
    pe_array: {array_shape: {h: 8, w: 8}, compute_unit: {unit_type: simd, num_macs: 4}}
    hierarchy:                     # PE, global buffer, row buffer, DRAM
    - {name: PELocalBuffer, entries: 512}
    - ...

Values are in the units of the classes: bytes, cycles of the machine's clock, nJ.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import yaml
from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    ClassValidationError,
    Converter,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn

from cpsat_pim.arch.architecture import PIMArchitecture
from cpsat_pim.arch.memory import MemoryLevel

DEFAULT = "default"
VERSION = 1


def arch_names() -> tuple[str, ...]:
    """The machines that come with the package; `default` is `PIMArchitecture()`."""
    suffix = ".yaml"
    entries = files("cpsat_pim.arch").joinpath("presets").iterdir()
    return (DEFAULT, *sorted(entry.name.removesuffix(suffix) for entry in entries if entry.name.endswith(suffix)))


def read_arch(name_or_path: str | Path) -> PIMArchitecture:
    """A machine by its name, or from a file that ends in .yaml or .yml.

    Raises:
        ValueError: no such name, an unreadable file, or a mistake in it; one line `<file>: <path.to.field>: ...`.
    """
    given = str(name_or_path)
    if given == DEFAULT:
        return PIMArchitecture()
    if given.endswith((".yaml", ".yml")):
        return _build_arch(given, _file_text(Path(given)))
    if given not in arch_names():
        hint = _hint(given, arch_names())
        raise ValueError(f"unknown architecture {given!r}{hint}; a file's name ends in .yaml or .yml")
    file = f"{given}.yaml"
    return _build_arch(file, files("cpsat_pim.arch").joinpath("presets", file).read_text(encoding="utf-8"))


def _build_arch(file: str, text: str) -> PIMArchitecture:
    """The machine that a file describes."""
    return build_arch(file, {"name": Path(file).stem} | _without_version(file, _parse_yaml(file, text)))


def build_arch(file: str, data: Any) -> PIMArchitecture:
    """The machine of such fields, as `PIMArchitecture.to_dict` gives them; `file` is where they come from.

    Raises:
        ValueError: a mistake in them; one line `<file>: <path.to.field>: ...`.
    """
    try:
        return _CONVERTER.structure(data, PIMArchitecture)
    except BaseValidationError as error:
        raise ValueError(f"{file}: {next(_problems(error, ''))}") from error


def _without_version(file: str, data: Any) -> dict[str, Any]:
    """The fields of a file that is written for this version of the format."""
    if not isinstance(data, dict):
        raise ValueError(f"{file}: must be a mapping of fields (got {_shown(data)})")
    if "version" not in data:
        raise ValueError(f"{file}: version: is missing (this program reads {VERSION})")
    if data["version"] != VERSION or isinstance(data["version"], bool):
        raise ValueError(f"{file}: version: must be {VERSION} (got {data['version']!r})")
    return {key: value for key, value in data.items() if key != "version"}


# --- YAML ------------------------------------------------------------------------------------------------------------


_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")


def _parse_yaml(file: str, text: str) -> Any:
    """The data of a YAML file: strict about keys that are given twice, lenient about numbers like 1e-3."""
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        for problem in _node_problems(root):
            raise ValueError(f"{file}: {problem}")
        return loader.construct_document(root) if root else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ValueError(f"{file}: line {mark.line + 1 if mark else 1}: is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{file}: is not a YAML text file") from error
    except RecursionError as error:
        raise ValueError(f"{file}: is nested too deeply") from error


def _node_problems(node: yaml.Node | None) -> Iterator[str]:
    """Keys that are given twice, of which YAML would keep the last; on the way, numbers like 1e-3 become numbers."""
    if isinstance(node, yaml.ScalarNode) and node.style is None and _EXPONENT.fullmatch(node.value):
        node.tag = "tag:yaml.org,2002:float"  # YAML 1.2; PyYAML reads 1.1, where 1e-3 is text and 1.0e-3 a number
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _node_problems(item)
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        yield from (f"{key} is given twice" for key in keys if keys.count(key) > 1)
        for _, value in node.value:
            yield from _node_problems(value)


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not a YAML text file") from error


# --- Fields to classes -----------------------------------------------------------------------------------------------


#: Types beside the scalars whose values are taken as they stand in the file.
_PLAIN = (float | None, int | None, tuple[bool, bool, bool])


def _build_converter() -> Converter:
    """Classes are built from mappings without unknown keys; the values' own rules are the classes' validators."""
    converter = Converter(forbid_extra_keys=True)
    for kind in (int, float, str, bool):
        converter.register_structure_hook(kind, lambda value, _: value)
    converter.register_structure_hook_func(lambda kind: kind in _PLAIN, lambda value, _: value)
    converter.register_structure_hook_factory(attrs.has, lambda kind: _class_hook(kind, converter))
    converter.register_structure_hook_func(
        lambda kind: kind == tuple[MemoryLevel, ...], lambda value, _: _structure_levels(value, converter)
    )
    return converter


def _class_hook(kind: type, converter: Converter) -> Callable[[Any, Any], Any]:
    """What builds a class from a mapping and nothing else."""
    build: Callable[[Any, Any], Any] = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"must be a mapping of fields (got {_shown(value)})")
        return build(value, kind)

    return structure


def _structure_levels(value: Any, converter: Converter) -> tuple[MemoryLevel, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of four levels (got {_shown(value)})")
    return tuple(converter.structure(value, list[MemoryLevel]))


_CONVERTER = _build_converter()


# --- What went wrong -------------------------------------------------------------------------------------------------


def _problems(error: BaseException, path: str) -> Iterator[str]:
    """The mistakes that an exception stands for, one line each, with the paths of their fields."""
    if isinstance(error, ClassValidationError | IterableValidationError):
        noted, bare = error.group_exceptions()
        for inner, note in noted:
            yield from _problems(inner, _step(path, note))
        for inner in bare:
            yield from _class_problems(inner, path, error)
    elif isinstance(error, KeyError):
        yield f"{path}: is missing"
    else:
        yield f"{path}: {error}"


def _class_problems(inner: BaseException, path: str, error: BaseException) -> Iterator[str]:
    """What a class as a whole complains about: keys that it has not, or a rule `Class.field: ...` of its own."""
    if isinstance(inner, ForbiddenExtraKeysError):
        known = [attribute.name for attribute in attrs.fields(inner.cl)]
        for key in sorted(map(str, inner.extra_fields)):
            yield f"{_joined(path, key)}: unknown key{_hint(key, known)}"
        return
    owner = getattr(getattr(error, "cl", None), "__name__", "")
    yield _joined(path, str(inner).removeprefix(f"{owner}.")) if owner else f"{path}: {inner}"


def _step(path: str, note: AttributeValidationNote | IterableValidationNote) -> str:
    """The path of what a note points at: a field, or an item of a list."""
    if isinstance(note, IterableValidationNote):
        return f"{path}[{note.index}]"
    return _joined(path, note.name)


def _joined(path: str, name: str) -> str:
    """`pe_array` and `array_shape` make `pe_array.array_shape`."""
    return f"{path}.{name}" if path else name


def _shown(value: Any) -> str:
    """A scalar, or the name of what else it is."""
    return {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value), repr(value))


def _hint(given: str, known: Iterable[str]) -> str:
    """`, did you mean ...?`, else what there is."""
    known = list(known)
    close = difflib.get_close_matches(given, known, n=1)
    return f", did you mean {close[0]!r}?" if close else f", there are {', '.join(known)}"
