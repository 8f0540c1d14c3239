"""Nodes of YAML files, with positions: merged, and never turned into objects by YAML itself.

`text` parses files, `fields` reads nodes. Scalars follow YAML 1.2: only `true` and `false` are booleans, and numbers
are decimal.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from fractions import Fraction
from typing import Any

import yaml

from cpsat_pim.base.units import exact_number

#: Limits: depth of nesting, mistakes reported of one file, and names in one hint.
MAX_DEPTH, MAX_SHOWN, MAX_NAMES = 100, 50, 24

Pairs = dict[str, tuple[yaml.Node, yaml.Node]]
#: Records a mistake at a node with a path.
Complain = Callable[[yaml.Node, str, str], Any]


class FileMistakes(ValueError):
    """All mistakes of a file, one line each: `file:line:column: path: ...`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        more = len(self.lines) - MAX_SHOWN
        super().__init__("\n".join([*self.lines[:MAX_SHOWN], *([f"... and {more} more"] if more > 0 else [])]))


def closest(given: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelt one is close to, if any."""
    return next(iter(difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)), None)


def hint(given: str, known: Iterable[str], listed: bool = True) -> str:
    """Return `; did you mean ...?` for a close match, else the list of known names."""
    known = list(known)
    close = closest(given, known)
    if close is not None:
        return f"; did you mean {close!r}?"
    more = ", ..." if len(known) > MAX_NAMES else ""
    return f"; there are {', '.join(known[:MAX_NAMES])}{more}" if listed and known else ""


# --- Plain data to nodes ---------------------------------------------------------------------------------------------


#: The constants of JSON, by their Python values, as YAML.
_NOT_FINITE = {"NaN": ".nan", "Infinity": ".inf", "-Infinity": "-.inf"}


def from_plain(file: str, data: Any) -> yaml.Node:
    """Build nodes from plain data, such as JSON data. They know their file, but no line."""
    mark = yaml.Mark(file, 0, -1, -1, None, 0)
    if isinstance(data, dict):
        pairs = [(from_plain(file, str(key)), from_plain(file, value)) for key, value in data.items()]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, mark, mark)
    if isinstance(data, list | tuple):
        return yaml.SequenceNode("tag:yaml.org,2002:seq", [from_plain(file, item) for item in data], mark, mark)
    style = '"' if isinstance(data, str) else None
    text = data if isinstance(data, str) else json.dumps(data, default=str)
    text = text if style else _NOT_FINITE.get(text, text)
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, mark, mark, style)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    """Writes YAML, and quotes text that would otherwise be read as another type."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, None if _is_plain_text(text) else "'")


_Dumper.add_representer(str, _represent_text)


def _is_plain_text(text: str) -> bool:
    """Return whether unquoted text is read back as the same text."""
    try:
        return bool(plain(yaml.ScalarNode("tag:yaml.org,2002:str", text)) == text)
    except ValueError:
        return False


def to_yaml(data: Any, **style: Any) -> str:
    """Write plain data as YAML that is read back unchanged; `style` is PyYAML's flow style."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, **style))


def to_plain(node: yaml.Node) -> Any:
    """Return the plain data of a node.

    Raises:
        ValueError: a number has too many digits.
    """
    if isinstance(node, yaml.MappingNode):
        return {key.value: to_plain(value) for key, value in node.value}
    return [to_plain(item) for item in node.value] if isinstance(node, yaml.SequenceNode) else plain(node)


# --- Nodes -----------------------------------------------------------------------------------------------------------


def place(node: yaml.Node) -> str:
    """Return `file:line:column`, as far as it is known."""
    return mark_text(node.start_mark, "")


def mark_text(mark: Any, file: str) -> str:
    """Return the position of a mark of PyYAML: file, line and column, as far as it has them."""
    if mark is None:
        return file
    return f"{mark.name}:{mark.line + 1}:{mark.column + 1}" if mark.line >= 0 else str(mark.name)


def position(node: yaml.Node) -> tuple[str, int, int]:
    """Return the key by which mistakes are sorted."""
    return node.start_mark.name, node.start_mark.line, node.start_mark.column


def mapping_like(pairs: list[tuple[yaml.Node, yaml.Node]], like: yaml.Node) -> yaml.MappingNode:
    """Return a mapping at the position of another node."""
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs, like.start_mark, like.end_mark)


def pairs_of(node: yaml.MappingNode) -> Pairs:
    """Return the keys and values of a mapping node, by the text of the keys."""
    return {key.value: (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def shown(node: yaml.Node) -> str:
    """Describe a value for a message: its text, shortened, or its type."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        text = f"[{', '.join(shown(item) for item in node.value[:9])}]"
        return text if len(node.value) < 9 and len(text) <= 60 else "a list"
    quote = node.style if node.style in ("'", '"') else ""
    text = " ".join(f"{quote}{node.value}{quote}".split()) or "nothing"
    return text if len(text) <= 60 else f"{text[:57]}..."


def merge_nodes(base: yaml.Node, over: yaml.Node, item_names: tuple[str, ...], complain: Complain) -> yaml.Node:
    """Merge a node over the node that it extends.

    Mappings are merged key by key. A mapping over a list changes the items that it names: by `item_names`, or by the
    items' own `name`. Anything else replaces the base.
    """
    if not isinstance(over, yaml.MappingNode):
        return over
    if isinstance(base, yaml.SequenceNode):
        names = list(item_names) if len(item_names) == len(base.value) else [name_of(item) for item in base.value]
        return _merge_items(base, over, names, item_names, complain) if any(names) else over
    if not isinstance(base, yaml.MappingNode):
        return over
    given, merged = pairs_of(over), []
    for key, value in base.value:
        own = given.pop(key.value, None)
        merged.append((own[0], merge_nodes(value, own[1], item_names, complain)) if own else (key, value))
    return mapping_like([*merged, *given.values()], over)


def _merge_items(
    base: yaml.SequenceNode,
    over: yaml.MappingNode,
    names: list[str],
    item_names: tuple[str, ...],
    complain: Complain,
) -> yaml.Node:
    """Merge a mapping of changes into the items of a list that have these names."""
    given = pairs_of(over)
    known = [name for name in names if name]
    for name in given.keys() - known:
        complain(given[name][0], name, f"what is extended has no such item{hint(name, known)}")
    items = [
        merge_nodes(item, given[name][1], item_names, complain) if name in given else item
        for name, item in zip(names, base.value, strict=True)
    ]
    return yaml.SequenceNode(base.tag, items, over.start_mark, over.end_mark)


def name_of(node: yaml.Node) -> str:
    """Return the name that an item gives itself, or an empty text."""
    _, value = pairs_of(node).get("name", (None, None)) if isinstance(node, yaml.MappingNode) else (None, None)
    return text_of(value) or ""


def text_of(node: yaml.Node | None) -> str | None:
    """Return the text of a scalar node, or None if it is not text; the caller's kind reports that."""
    with suppress(ValueError):
        value = plain(node) if isinstance(node, yaml.ScalarNode) else None
        return value if isinstance(value, str) else None
    return None


# --- Scalars ---------------------------------------------------------------------------------------------------------


_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}
_WORDS |= {".nan": float("nan"), ".inf": float("inf"), "-.inf": float("-inf")}
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")


def plain(node: yaml.Node) -> Any:
    """Return the value of a scalar by the rules of YAML 1.2, with exact numbers, of a list of them, or a mapping
    unchanged.

    Raises:
        ValueError: a number has too many digits.
    """
    if isinstance(node, yaml.SequenceNode):
        return tuple(plain(item) for item in node.value)
    if not isinstance(node, yaml.ScalarNode):
        return node
    text: str = node.value
    if node.style is not None:
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if not re.fullmatch(r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?", text) or _LEADING_ZERO.match(text):
        return text
    number = exact_number(f"0{text}" if text.startswith(".") else text)
    if number is None:
        raise ValueError("must be a number below 2^62, of at most 40 digits")
    return as_number(number)


def as_number(number: Fraction) -> int | float:
    """Return an integer, or the float whose shortest decimal is exactly this number.

    Raises:
        ValueError: there is no such float.
    """
    if number.denominator == 1:
        return number.numerator
    if Fraction(repr(float(number))) != number:
        raise ValueError(f"comes to {number}, which no decimal number of 15 digits gives exactly")
    return float(number)
