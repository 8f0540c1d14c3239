"""Networks: YAML files of layers and the graph between them, and single shapes as the command line takes them.

    version: 1
    name: example                                              # the file's stem if absent
    bytes: {input: 2, weight: 4 bit, output: 2, psum: 4}       # as wide as the machine's words if absent
    layers:
    - {name: conv1, R: 3, S: 3, P: 56, Q: 56, C: 64, K: 128, stride: [2, 2], after: [input]}
    - {name: fc, C: 128, K: 10, count: 1, weights: true, after: [conv1]}

A bound, `count`, stride or dilation that is absent is 1. `after` names earlier layers, `input` is the network's own
input; without it a layer follows the one above. `weights: false` marks a product of two activations. With `extends:
NETWORK` the rest is a change: `layers: {conv1: {N: 8}}` changes the layers that it names.

Bounds and counts may be formulas of `parameters`, such as `parameters: {batch: 1, prompt: 128, kv: 0}` and `K: kv +
prompt`, with + - * // and parentheses. A layer may have `bytes` of its own, of some tensors: `bytes: {weight: 4 bit}`.

What lies between layers matters to plans only (docs/array.md, section 2): the network's `input: {C: 3, H: 224, W:
224}`, and of a layer `join: add`, `pad: [1, 1]`, `pool: {window: [3, 3], stride: [2, 2], size: [56, 56]}`.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from cpsat_pim.base.dims import Dim, Tensor
from cpsat_pim.base.reading import (
    Field,
    FileKind,
    Listing,
    Mistake,
    Record,
    Table,
    Value,
    fields_of,
    hint,
    read_plain,
    record_of,
)
from cpsat_pim.base.validate import as_tuple, boolean, is_a, not_negative, one_of, or_none, positive, text
from cpsat_pim.workload.joins import (
    JOINS,
    VIEWS,
    InputSize,
    Pool,
    Range,
    View,
    Views,
    channels_field,
    layer_names,
    pad_field,
)
from cpsat_pim.workload.layer import ConvWorkload
from cpsat_pim.workload.parameters import Parameters, Size, sized

INPUT = "input"
BOUNDS = tuple(dim.name for dim in Dim)
PAIRS = ("stride", "dilation")
BYTES = ("input", "weight", "output", "psum")


@frozen(kw_only=True)
class NetworkNode:
    """A layer in its network: how often it runs, and what it reads. `weights` is False where W holds activations.

    `join`: how several tensors become its input. `pad`: zeros (left, top) before its input. `pool`: pooling of its
    output. `input_pool`: pooling of its input, as only this layer reads it; `views`: how it sees single tensors of its
    input, by name, before they are joined; a list where it lists one several times. `adds`, `input_adds`: tensors that
    are added to its output, or to its input, as only this layer reads it, and how it sees them. `weight_rows`: the dim
    along the positions of a tensor that is read as W.
    `shared_heads`: N counts heads of a group that share W, and lie along channels.
    `sample_weights`: each sample has a W of its own, as keys and values do; in files these are groups, plans make them
    samples.
    `channels`: those that it takes of what it reads, side by side, in the order of its own; absent: all.
    `weight_channels`: those of the tensor that is read as W. `bytes`: its own widths by tensor, which the network's (or
    the machine's) do not replace.

    Raises:
        ValueError: a field is of the wrong type, or the count is not positive.
    """

    name: str = field(validator=text)
    count: int = field(default=1, validator=positive)
    after: tuple[str, ...] = field(default=(), converter=as_tuple)
    workload: ConvWorkload = field(validator=is_a(ConvWorkload))
    weights: bool = field(default=True, validator=boolean)
    join: str | None = field(default=None, validator=or_none(one_of(*JOINS)), metadata={"kind": Value(one_of(*JOINS))})
    pad: tuple[int, int] | None = pad_field()
    pool: Pool | None = field(default=None, validator=or_none(is_a(Pool)), metadata={"kind": record_of(Pool)})
    input_pool: Pool | None = field(default=None, validator=or_none(is_a(Pool)), metadata={"kind": record_of(Pool)})
    views: dict[str, Views] | None = field(default=None, metadata={"kind": Table(VIEWS)})
    adds: dict[str, View] | None = field(default=None, metadata={"kind": Table(record_of(View))})
    input_adds: dict[str, View] | None = field(default=None, metadata={"kind": Table(record_of(View))})
    weight_rows: str | None = field(
        default=None, validator=or_none(one_of("K", "C")), metadata={"kind": Value(one_of("K", "C"))}
    )
    shared_heads: bool | None = field(default=None, validator=or_none(boolean), metadata={"kind": Value(boolean)})
    sample_weights: bool = field(default=False, validator=boolean)
    channels: tuple[Range, ...] | None = channels_field()
    weight_channels: tuple[Range, ...] | None = channels_field()
    bytes: dict[str, int | Fraction] = field(factory=dict)

    @property
    def read(self) -> tuple[str, ...]:
        """The tensors that it reads, those that it adds last."""
        return (*self.after, *(self.input_adds or ()), *(self.adds or ()))

    @property
    def samples(self) -> int:
        """Samples of what it reads and makes."""
        return 1 if self.shared_heads else self.workload.N

    @property
    def blocks(self) -> int:
        """Blocks of C channels that it reads, and of K that it makes: its groups, or their heads."""
        return self.workload.G * (self.workload.N if self.shared_heads else 1)


#: Keys of a layer that name what it reads.
_NAMING = ("after", "adds", "input_adds")
#: Keys of a layer's entry about the tensors around it, without defaults of their own.
BETWEEN = (
    "join",
    "pad",
    "pool",
    "input_pool",
    "views",
    "adds",
    "input_adds",
    "shared_heads",
    "weight_rows",
    "channels",
    "weight_channels",
)


@frozen(kw_only=True)
class Network:
    """Layers in execution order.

    `input`: the size of the network's own input, if the file gives it. `has_widths`: the bytes per element of its
    layers are given; otherwise those of a machine's words take their place. `parameters`: the values with which a
    file's formulas were computed.

    Raises:
        ValueError: there are no layers, a name occurs twice, or a layer comes after one that does not precede it.
    """

    name: str = field(validator=text)
    layers: tuple[NetworkNode, ...] = field(converter=as_tuple)
    input: InputSize | None = field(
        default=None, validator=or_none(is_a(InputSize)), metadata={"kind": record_of(InputSize)}
    )
    has_widths: bool = field(default=True, validator=boolean)
    parameters: dict[str, int] = field(factory=dict, eq=False)

    def __attrs_post_init__(self) -> None:
        if not self.layers:
            raise ValueError("Network.layers: must have at least one layer (got none)")
        earlier: list[str] = []
        for node in self.layers:
            for key, problem in _place_problems(node.name, {key: getattr(node, key) for key in _NAMING}, earlier):
                raise ValueError(f"Network.layers: {node.name}: {key}: {problem}")
            earlier.append(node.name)

    def only(self, names: Iterable[str]) -> "Network":
        """Return the network with only these layers, in its own order; layers that they come after may be missing.

        Raises:
            ValueError: no layer has one of the names.
        """
        names, known = list(names), [node.name for node in self.layers]
        for name in names:
            if name not in known:
                raise ValueError(f"{self.name}: no layer is named {name!r}{hint(name, known)}")
        alone = [evolve(node, after=(), join=None, adds=None, input_adds=None) for node in self.layers]
        return evolve(self, layers=[node for node in alone if node.name in names])

    @property
    def total_macs(self) -> int:
        """Multiply-accumulates of one inference."""
        return sum(node.count * node.workload.macs for node in self.layers)

    @property
    def total_weights(self) -> int:
        """Weights, without biases, norms and activations that take the place of W. Those of a layer count as often as
        it runs, also where all runs use the same ones, as the steps of a recurrent layer do.
        """
        return sum(node.count * node.workload.elements(Tensor.W) for node in self.layers if node.weights)


def network_names() -> tuple[str, ...]:
    """Return the names of the presets."""
    return NETWORKS.names()


def read_network(
    name_or_path: str | Path, directory: Path | None = None, parameters: Mapping[str, int] | None = None
) -> Network:
    """Read a network: a preset by name, or a file by its path (.yaml or .yml), relative to `directory`. `parameters`
    gives other values than the file's; the network's name then tells them.

    Raises:
        ValueError: no such name, an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`. Or
            the file has no parameter of a name.
    """
    changes = {f"parameters.{name}": value for name, value in (parameters or {}).items()}
    network: Network = NETWORKS.read(name_or_path, directory, changes)
    if not parameters:
        return network
    known = NETWORKS.plain_data(name_or_path, directory).get("parameters") or {}
    for name in parameters:
        if name not in known:
            there = hint(name, known) or "; it has none"
            raise ValueError(f"{name_or_path}: no parameter is named {name!r}{there}")
    told = ", ".join(f"{name}={value}" for name, value in parameters.items())
    return evolve(network, name=f"{network.name} ({told})")


def build_layer(file: str, data: Any) -> ConvWorkload:
    """Build a layer from fields as `ConvWorkload.shape` with a name; `file` names their source in messages.

    Raises:
        ValueError: mistakes in them; a line each, `<file>: <field>: ...`.
    """
    layer: ConvWorkload = read_plain(file, data, record_of(ConvWorkload))
    return layer


# --- Reading a file --------------------------------------------------------------------------------------------------


def _size(item: Field) -> Field:
    """Return a field that may also be a formula of parameters."""
    return evolve(item, kind=Size(item.kind))


_WIDTHS = Record(fields={key: fields_of(ConvWorkload)[f"{key}_bytes"] for key in BYTES}, doc="Bytes per element.")
_LAYER = Record(
    fields={
        **fields_of(NetworkNode, ("name",)),
        **{key: _size(item) for key, item in fields_of(ConvWorkload, BOUNDS).items()},
        **fields_of(ConvWorkload, PAIRS),
        "count": _size(fields_of(NetworkNode, ("count",))["count"]),
        **fields_of(NetworkNode, ("weights", *BETWEEN)),
        "bytes": Field(kind=_WIDTHS),
        "after": Field(kind=Value(layer_names)),
    },
    doc="A layer: bounds, count, stride and dilation that are absent are 1; without `after` it follows the one above.",
)

Values = dict[str, Any]


def _layer_mistakes(values: Values) -> Iterator[Mistake]:
    """Yield the mistakes between layers, and in the shape of each."""
    earlier: list[str] = []
    parameters = values.get("parameters", {})
    for i, layer in enumerate(values.get("layers", ())):
        name = layer.get("name", "")
        at = f"layers[{name if name and name not in earlier else i}]"
        wrong = list(_size_mistakes(layer, parameters))
        if wrong:
            yield from ((f"{at}.{key}", problem) for key, problem in wrong)
            earlier.append(name)
            continue
        for key, problem in _place_problems(name, layer, earlier):
            yield f"{at}.{key}", problem
        earlier.append(name)
        try:
            _workload(_sized(layer, parameters), values.get("bytes", {}))
        except ValueError as error:
            yield from ((at, line.removeprefix("ConvWorkload").lstrip(".: ")) for line in str(error).splitlines())


def _size_mistakes(layer: Values, parameters: Parameters) -> Iterator[Mistake]:
    """Yield a mistake for each formula of a layer that has no value."""
    for key, value in layer.items():
        try:
            sized(value, parameters)
        except ValueError as error:
            yield key, str(error)


def _sized(layer: Values, parameters: Parameters) -> Values:
    """Return a layer's keys with the values of its formulas."""
    return {key: sized(value, parameters) for key, value in layer.items()}


def _build_network(
    layers: tuple[Values, ...],
    name: str,
    bytes: Values | None = None,
    input: InputSize | None = None,
    parameters: dict[str, int] | None = None,
) -> Network:
    layers = tuple(_sized(layer, parameters or {}) for layer in layers)
    befores = (INPUT, *(layer["name"] for layer in layers))
    nodes = [
        NetworkNode(
            name=layer["name"],
            count=layer.get("count", 1),
            after=layer.get("after", (before,)),
            workload=_workload(layer, bytes or {}),
            weights=layer.get("weights", True),
            bytes=layer.get("bytes", {}),
            **{key: layer[key] for key in BETWEEN if key in layer},
        )
        for before, layer in zip(befores, layers, strict=False)
    ]
    given = parameters or {}
    return Network(name=name, layers=nodes, input=input, has_widths=bytes is not None, parameters=given)


def _workload(layer: Values, widths: Values) -> ConvWorkload:
    """Build a layer's shape with its own bytes per element, else the network's."""
    shape = {key: layer[key] for key in (*BOUNDS, *PAIRS) if key in layer}
    return ConvWorkload(
        name=layer.get("name", "layer"),
        **shape,
        **{f"{key}_bytes": value for key, value in (widths | layer.get("bytes", {})).items()},
    )


NETWORKS = FileKind(
    kind="network",
    record=Record(
        fields={
            **fields_of(Network, ("name", "input")),
            "bytes": Field(kind=_WIDTHS),
            "parameters": Field(kind=Table(Value(not_negative))),
            "layers": Field(kind=Listing(_LAYER, "a list of at least one layer"), required=True),
        },
        check=_layer_mistakes,
        build=_build_network,
    ),
    package="cpsat_pim.workload",
    folder="networks",
)


def _place_problems(name: str, layer: Values, earlier: list[str]) -> Iterator[Mistake]:
    """Yield a mistake if a name is not new or is `input`, or if a layer comes after one that does not precede it."""
    if name == INPUT:
        yield "name", f"{INPUT!r} is the network's input"
    if name and name in earlier:
        yield "name", "there is a layer of this name already"
    for key, other in ((naming, one) for naming in _NAMING for one in layer.get(naming) or ()):
        if other != INPUT and other not in earlier:
            yield key, f"no earlier layer is named {other!r}{hint(other, earlier, listed=False)}"
