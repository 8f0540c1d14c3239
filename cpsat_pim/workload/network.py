"""Networks: YAML files of layers and the graph between them, and single shapes as the command line takes them.

    version: 1
    name: example                                              # the file's stem if absent
    bytes: {input: 2, weight: 2, output: 2, psum: 4}           # 1 each if absent
    layers:
    - {name: conv1, R: 3, S: 3, P: 56, Q: 56, C: 64, K: 128, stride: [2, 2], after: [input]}
    - {name: fc, C: 128, K: 10, count: 1, weights: true, after: [conv1]}

A bound, `count`, stride or dilation that is absent is 1. `after` names earlier layers, `input` is the network's own
input; without it a layer follows the one above. `weights: false` marks a product of two activations.
"""

import difflib
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

import yaml
from attrs import field, frozen

from cpsat_pim.dims import Dim, Tensor
from cpsat_pim.validate import as_tuple, boolean, is_a, positive, text
from cpsat_pim.workload.layer import ConvWorkload

INPUT = "input"
VERSION = 1
BOUNDS = tuple(dim.name for dim in Dim)
PAIRS = ("stride", "dilation")
BYTES = ("input", "weight", "output", "psum")
NETWORK_KEYS = ("version", "name", "bytes", "layers")
LAYER_KEYS = ("name", *BOUNDS, *PAIRS, "count", "after", "weights")

Pairs = dict[str, tuple[yaml.Node, yaml.Node]]


@frozen(kw_only=True)
class NetworkNode:
    """A layer in its network: how often it runs and what it comes after; `weights` is False where W holds activations.

    Raises:
        ValueError: a field is of the wrong type, or the count is not positive.
    """

    name: str = field(validator=text)
    count: int = field(default=1, validator=positive)
    after: tuple[str, ...] = field(default=(), converter=as_tuple)
    workload: ConvWorkload = field(validator=is_a(ConvWorkload))
    weights: bool = field(default=True, validator=boolean)


@frozen(kw_only=True)
class Network:
    """Layers in execution order.

    Raises:
        ValueError: there is none, a name occurs twice, or a layer comes after one that is not before it.
    """

    name: str
    layers: tuple[NetworkNode, ...] = field(converter=as_tuple)

    def __attrs_post_init__(self) -> None:
        if not self.layers:
            raise ValueError("Network.layers: must have at least one layer (got none)")
        earlier: list[str] = []
        for node in self.layers:
            for problem in _place_problems(node.name, node.after, earlier):
                raise ValueError(f"Network.layers: {node.name}: {problem}")
            earlier.append(node.name)

    @property
    def total_macs(self) -> int:
        """Multiply-accumulates of one inference."""
        return sum(node.count * node.workload.macs for node in self.layers)

    @property
    def total_weights(self) -> int:
        """Weights, without biases, norms and the activations that take the place of W."""
        return sum(node.count * node.workload.elements(Tensor.W) for node in self.layers if node.weights)


def network_names() -> tuple[str, ...]:
    """The networks that come with the package."""
    suffix = ".yaml"
    entries = files("cpsat_pim.workload").joinpath("networks").iterdir()
    return tuple(sorted(entry.name.removesuffix(suffix) for entry in entries if entry.name.endswith(suffix)))


def read_network(name_or_path: str | Path) -> Network:
    """A network by its name, or from a file that ends in .yaml or .yml.

    Raises:
        ValueError: no such name, an unreadable file, or a mistake in it; one line `<file>:<line>: <layer>: ...`.
    """
    given = str(name_or_path)
    if given.endswith((".yaml", ".yml")):
        return _Reader(given).read(_file_text(Path(given)))
    if given not in network_names():
        hint = _hint(given, network_names())
        raise ValueError(f"unknown network {given!r}{hint}; a file's name ends in .yaml or .yml")
    file = f"{given}.yaml"
    return _Reader(file).read(files("cpsat_pim.workload").joinpath("networks", file).read_text(encoding="utf-8"))


def format_network(network: Network, *comments: str) -> str:
    """The text of a file that `read_network` reads as this network, below its comments.

    Raises:
        ValueError: its layers differ in their bytes per element, for which a file has one place.
    """
    widths = {node.workload.width_bytes for node in network.layers}
    if len(widths) > 1:
        raise ValueError(f"{network.name}: the layers must have the same bytes per element")
    head: dict[str, Any] = {"version": VERSION, "name": network.name}
    if widths != {(1, 1, 1, 1)}:
        head["bytes"] = dict(zip(BYTES, *widths, strict=True))
    lines = [f"# {_printable(comment)}" for comment in comments]
    lines += [f"{key}: {_flow(value)}" for key, value in head.items()]
    return "\n".join([*lines, "layers:", *(f"- {_flow(_entry(node))}" for node in network.layers), ""])


def _entry(node: NetworkNode) -> dict[str, Any]:
    """A layer's keys, without those that have their defaults."""
    layer = node.workload
    sizes = {**dict(zip(BOUNDS, layer.bounds, strict=True)), "count": node.count}
    pairs = {key: list(getattr(layer, key)) for key in PAIRS}
    return {
        "name": node.name,
        **{key: size for key, size in sizes.items() if size != 1},
        **{key: pair for key, pair in pairs.items() if pair != [1, 1]},
        **({} if node.weights else {"weights": False}),
        "after": list(node.after) or [INPUT],
    }


def _flow(value: object) -> str:
    """A value in YAML's form of one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=sys.maxsize)
    return str(text).removesuffix("...\n").strip()


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def parse_shape(text: str) -> ConvWorkload:
    """A layer from `R=3,S=3,P=56,stride=2,dilation=1x2`; pairs are width x height, one number stands for both.

    Raises:
        ValueError: an unknown or repeated key, or a value that is not a positive integer.
    """
    values: dict[str, Any] = {}
    for item in text.split(","):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise ValueError(f"shape: must be key=value, separated by commas (got {item.strip()!r})")
        if key not in (*BOUNDS, *PAIRS):
            raise ValueError(f"shape: unknown key {key!r}{_hint(key, (*BOUNDS, *PAIRS))}")
        if key in values:
            raise ValueError(f"shape: {key} is given twice")
        values[key] = _parse_pair(key, value) if key in PAIRS else _parse_bound(key, value)
    return ConvWorkload(**values)


def _parse_bound(key: str, value: str) -> int:
    number = _positive_integer(value)
    if number is None:
        raise ValueError(f"shape: {key} must be a positive integer (got {value!r})")
    return number


def _parse_pair(key: str, value: str) -> tuple[int, int]:
    """`2` or `2x1`."""
    numbers = [_positive_integer(part) for part in value.split("x")]
    if len(numbers) > 2 or None in numbers:
        raise ValueError(f"shape: {key} must be a positive integer or two, width x height, like 2x1 (got {value!r})")
    return numbers[0], numbers[-1]  # type: ignore[return-value]


# --- Reading a file --------------------------------------------------------------------------------------------------


@frozen
class _Reader:
    """Reads one network file from YAML nodes, which know their lines."""

    file: str

    def read(self, text: str) -> Network:
        root = self._compose(text)
        entries = self._entries(root, "", NETWORK_KEYS)
        self._check_version(root, entries)
        name = self._text(*entries["name"], "") if "name" in entries else Path(self.file).stem
        return Network(name=name, layers=self._layers(root, entries, self._widths(entries)))

    def _compose(self, text: str) -> yaml.Node:
        try:
            root = yaml.compose(text, yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise ValueError(f"{self.file}:{mark.line + 1 if mark else 1}: is not YAML: {error.problem}") from error
        except yaml.YAMLError as error:
            raise ValueError(f"{self.file}: is not a YAML text file") from error
        except RecursionError as error:
            raise ValueError(f"{self.file}: is nested too deeply") from error
        if root is None:
            raise ValueError(f"{self.file}: is empty")
        return root

    def _check_version(self, root: yaml.Node, entries: Pairs) -> None:
        """The file says for which version of the format it was written."""
        if "version" not in entries:
            self._complain(root, "", f"version: is missing (this program reads {VERSION})")
        if self._number(*entries["version"], "") != VERSION:
            self._complain(entries["version"][1], "", f"version: must be {VERSION} (got {entries['version'][1].value})")

    def _widths(self, entries: Pairs) -> dict[str, int]:
        """Bytes per element as `ConvWorkload` names them."""
        if "bytes" not in entries:
            return {}
        given = self._entries(entries["bytes"][1], "bytes", BYTES)
        return {f"{key}_bytes": self._number(*pair, "bytes") for key, pair in given.items()}

    def _layers(self, root: yaml.Node, entries: Pairs, widths: dict[str, int]) -> list[NetworkNode]:
        """The layers in order, each named once and after earlier ones only."""
        node = entries["layers"][1] if "layers" in entries else root
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self._complain(node, "", "layers: must be a list of at least one layer")
        layers: list[NetworkNode] = []
        for item in node.value:
            layer = self._layer(item, layers, widths)
            for problem in _place_problems(layer.name, layer.after, [other.name for other in layers]):
                self._complain(item, layer.name, problem)
            layers.append(layer)
        return layers

    def _layer(self, node: yaml.Node, earlier: list[NetworkNode], widths: dict[str, int]) -> NetworkNode:
        """One layer."""
        where = _name_of(node) or f"layer {len(earlier) + 1}"
        entries = self._entries(node, where, LAYER_KEYS)
        if "name" not in entries:
            self._complain(node, where, "name: is missing")
        previous = (earlier[-1].name if earlier else INPUT,)
        return NetworkNode(
            name=self._text(*entries["name"], where),
            count=self._number(*entries["count"], where) if "count" in entries else 1,
            after=self._names(*entries["after"], where) if "after" in entries else previous,
            workload=self._workload(node, where, entries, widths),
            weights=self._flag(*entries["weights"], where) if "weights" in entries else True,
        )

    def _workload(self, node: yaml.Node, where: str, entries: Pairs, widths: dict[str, int]) -> ConvWorkload:
        """The layer's shape."""
        values: dict[str, Any] = {key: self._number(*entries[key], where) for key in BOUNDS if key in entries}
        values |= {key: self._pair(*entries[key], where) for key in PAIRS if key in entries}
        try:
            return ConvWorkload(name=where, **values, **widths)
        except ValueError as error:
            self._complain(node, where, str(error))

    # Values

    def _entries(self, node: yaml.Node, where: str, allowed: tuple[str, ...]) -> Pairs:
        """A mapping's nodes by key; each is known and there once."""
        if not isinstance(node, yaml.MappingNode):
            self._complain(node, where, f"must be a mapping with the keys {', '.join(allowed)}")
        entries: Pairs = {}
        for key, value in node.value:
            if key.value not in allowed:
                self._complain(key, where, f"unknown key {_shown(key)}{_hint(str(key.value), allowed)}")
            if key.value in entries:
                self._complain(key, where, f"{key.value}: is given twice")
            entries[key.value] = (key, value)
        return entries

    def _number(self, key: yaml.Node, node: yaml.Node, where: str) -> int:
        number = _positive_integer(node.value) if _is(node, "int") else None
        if number is None:
            self._complain(node, where, f"{key.value}: must be a positive integer (got {_shown(node)})")
        return number

    def _pair(self, key: yaml.Node, node: yaml.Node, where: str) -> tuple[int, int]:
        if not isinstance(node, yaml.SequenceNode) or len(node.value) != 2:
            rule = "must be two positive integers [width, height]"
            self._complain(node, where, f"{key.value}: {rule} (got {_shown(node)})")
        width, height = node.value
        return self._number(key, width, where), self._number(key, height, where)

    def _text(self, key: yaml.Node, node: yaml.Node, where: str) -> str:
        if not _is(node, "str") or not node.value:
            self._complain(node, where, f"{key.value}: must be text, in quotes if need be (got {_shown(node)})")
        return str(node.value)

    def _flag(self, key: yaml.Node, node: yaml.Node, where: str) -> bool:
        if not _is(node, "bool") or node.value not in ("true", "false"):
            self._complain(node, where, f"{key.value}: must be true or false (got {_shown(node)})")
        return bool(node.value == "true")

    def _names(self, key: yaml.Node, node: yaml.Node, where: str) -> tuple[str, ...]:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self._complain(node, where, f"{key.value}: must be a list of layer names or [{INPUT}] (got {_shown(node)})")
        return tuple(self._text(key, item, where) for item in node.value)

    def _complain(self, node: yaml.Node, where: str, problem: str) -> NoReturn:
        place = f"{self.file}:{node.start_mark.line + 1}: " + (f"{where}: " if where else "")
        raise ValueError(place + problem)


def _place_problems(name: str, after: Iterable[str], earlier: list[str]) -> Iterator[str]:
    """A name is new and not the input's, and what a layer comes after is the input or an earlier layer."""
    if name == INPUT:
        yield f"name: {INPUT!r} is the network's input"
    if name in earlier:
        yield "name: there is a layer of this name already"
    for other in after:
        if other != INPUT and other not in earlier:
            yield f"after: no earlier layer is named {other!r}{_hint(other, earlier, listed=False)}"


def _name_of(node: yaml.Node) -> str:
    """What a layer calls itself, as far as it does."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((str(value.value) for key, value in pairs if key.value == "name" and _is(value, "str")), "")


def _is(node: yaml.Node, kind: str) -> bool:
    """Whether a node is a scalar of a kind: int, str, bool."""
    return isinstance(node, yaml.ScalarNode) and node.tag == f"tag:yaml.org,2002:{kind}"


def _shown(node: yaml.Node) -> str:
    """A value as it stands in the file, or what it is."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value) or "nothing"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


def _positive_integer(text: str) -> int | None:
    """Plain decimal digits only: YAML 1.1 would read 010 as 8 and 1:30 as 90."""
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,18}", text) else None


def _hint(given: str, known: Iterable[str], listed: bool = True) -> str:
    """`, did you mean ...?`, else what there is."""
    known = list(known)
    close = difflib.get_close_matches(given, known, n=1)
    if close:
        return f", did you mean {close[0]!r}?"
    return f", there are {', '.join(known)}" if listed else ""


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not a YAML text file") from error
