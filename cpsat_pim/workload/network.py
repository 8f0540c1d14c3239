"""Networks: YAML files of layers and the graph between them, and single shapes as the command line takes them.

    version: 1
    name: example                                              # the file's stem if absent
    bytes: {input: 2, weight: 2, output: 2, psum: 4}           # 1 each if absent
    layers:
    - {name: conv1, R: 3, S: 3, P: 56, Q: 56, C: 64, K: 128, stride: [2, 2], after: [input]}
    - {name: fc, C: 128, K: 10, count: 1, weights: true, after: [conv1]}

A bound, `count`, stride or dilation that is absent is 1. `after` names earlier layers, `input` is the network's own
input; without it a layer follows the one above. `weights: false` marks a product of two activations. With `extends:
NETWORK` the rest is a change: `layers: {conv1: {N: 8}}` changes the layers that it names.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from cpsat_pim.base.dims import Dim, Tensor
from cpsat_pim.base.reading import (
    SUFFIXES,
    VERSION,
    Field,
    FileKind,
    Listing,
    Mistake,
    Record,
    Value,
    fields_of,
    hint,
    read_plain,
    record_of,
    to_yaml,
)
from cpsat_pim.base.validate import Rule, as_tuple, boolean, is_a, positive, text
from cpsat_pim.workload.layer import ConvWorkload

INPUT = "input"
BOUNDS = tuple(dim.name for dim in Dim)
PAIRS = ("stride", "dilation")
BYTES = ("input", "weight", "output", "psum")


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

    name: str = field(validator=text)
    layers: tuple[NetworkNode, ...] = field(converter=as_tuple)

    def __attrs_post_init__(self) -> None:
        if not self.layers:
            raise ValueError("Network.layers: must have at least one layer (got none)")
        earlier: list[str] = []
        for node in self.layers:
            for key, problem in _place_problems(node.name, node.after, earlier):
                raise ValueError(f"Network.layers: {node.name}: {key}: {problem}")
            earlier.append(node.name)

    def only(self, names: Iterable[str]) -> "Network":
        """The network with these layers alone, in its own order; what they come after may not be among them.

        Raises:
            ValueError: no layer has one of the names.
        """
        names, known = list(names), [node.name for node in self.layers]
        for name in names:
            if name not in known:
                raise ValueError(f"{self.name}: no layer is named {name!r}{hint(name, known)}")
        return evolve(self, layers=[evolve(node, after=()) for node in self.layers if node.name in names])

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
    return NETWORKS.names()


def read_network(name_or_path: str | Path, directory: Path | None = None) -> Network:
    """A network by its name, or from a file that ends in .yaml or .yml, relative to a directory.

    Raises:
        ValueError: no such name, an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`.
    """
    network: Network = NETWORKS.read(name_or_path, directory)
    return network


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
    return to_yaml(value, default_flow_style=True, width=sys.maxsize).removesuffix("...\n").strip()


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def build_layer(file: str, data: Any) -> ConvWorkload:
    """The layer of such fields as `ConvWorkload.shape` and its name; `file` is where they come from.

    Raises:
        ValueError: mistakes in them; a line each, `<file>: <field>: ...`.
    """
    layer: ConvWorkload = read_plain(file, data, record_of(ConvWorkload))
    return layer


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
            raise ValueError(f"shape: unknown key {key!r}{hint(key, (*BOUNDS, *PAIRS))}")
        if key in values:
            raise ValueError(f"shape: {key} is given twice")
        values[key] = _parse_pair(key, value) if key in PAIRS else _parse_bound(key, value)
    return ConvWorkload(**values)


def is_shape(text: str) -> bool:
    """Whether a text is meant as a shape, not as a name or a file."""
    return "=" in text and not text.endswith(SUFFIXES)


def shape_network(text: str) -> Network:
    """The network whose only layer is a shape, which is also its name.

    Raises:
        ValueError: as in `parse_shape`.
    """
    workload = parse_shape(text)
    return Network(name=text, layers=(NetworkNode(name=workload.name, workload=workload),))


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


def _is_names(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(name, str) and name for name in value)


_NAMES = Rule(
    f"must be a list of layer names or [{INPUT}]",
    _is_names,
    {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
)
_LAYER = Record(
    fields={
        **fields_of(NetworkNode, ("name",)),
        **fields_of(ConvWorkload, (*BOUNDS, *PAIRS)),
        **fields_of(NetworkNode, ("count", "weights")),
        "after": Field(kind=Value(_NAMES)),
    },
    doc="A layer: bounds, count, stride and dilation that are absent are 1; without `after` it follows the one above.",
)
_WIDTHS = Record(fields={key: fields_of(ConvWorkload)[f"{key}_bytes"] for key in BYTES}, doc="Bytes per element.")

Values = dict[str, Any]


def _layer_mistakes(values: Values) -> Iterator[Mistake]:
    """What is wrong with layers among each other, and with the shape of each."""
    earlier: list[str] = []
    for i, layer in enumerate(values.get("layers", ())):
        name = layer.get("name", "")
        at = f"layers[{name or i}]"
        for key, problem in _place_problems(name, layer.get("after", ()), earlier):
            yield f"{at}.{key}", problem
        earlier.append(name)
        try:
            _workload(layer, values.get("bytes", {}))
        except ValueError as error:
            yield from ((at, line.removeprefix("ConvWorkload").lstrip(".: ")) for line in str(error).splitlines())


def _build_network(layers: tuple[Values, ...], name: str, bytes: Values | None = None) -> Network:
    befores = (INPUT, *(layer["name"] for layer in layers))
    nodes = [
        NetworkNode(
            name=layer["name"],
            count=layer.get("count", 1),
            after=layer.get("after", (before,)),
            workload=_workload(layer, bytes or {}),
            weights=layer.get("weights", True),
        )
        for before, layer in zip(befores, layers, strict=False)
    ]
    return Network(name=name, layers=nodes)


def _workload(layer: Values, widths: Values) -> ConvWorkload:
    """A layer's shape, with the network's bytes per element."""
    shape = {key: layer[key] for key in (*BOUNDS, *PAIRS) if key in layer}
    return ConvWorkload(
        name=layer.get("name", "layer"), **shape, **{f"{key}_bytes": value for key, value in widths.items()}
    )


NETWORKS = FileKind(
    kind="network",
    record=Record(
        fields={
            **fields_of(Network, ("name",)),
            "bytes": Field(kind=_WIDTHS),
            "layers": Field(kind=Listing(_LAYER, "a list of at least one layer"), required=True),
        },
        check=_layer_mistakes,
        build=_build_network,
    ),
    package="cpsat_pim.workload",
    folder="networks",
)


def _place_problems(name: str, after: Iterable[str], earlier: list[str]) -> Iterator[Mistake]:
    """A name is new and not the input's, and what a layer comes after is the input or an earlier layer."""
    if name == INPUT:
        yield "name", f"{INPUT!r} is the network's input"
    if name in earlier:
        yield "name", "there is a layer of this name already"
    for other in after:
        if other != INPUT and other not in earlier:
            yield "after", f"no earlier layer is named {other!r}{hint(other, earlier, listed=False)}"


def _positive_integer(text: str) -> int | None:
    """Plain decimal digits only."""
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,18}", text) else None
