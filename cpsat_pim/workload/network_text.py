"""Networks as text: the file of a network, and shapes of single layers as the command line takes them."""

import re
import sys
from typing import Any

from attrs import asdict

from cpsat_pim.base.reading import SUFFIXES, VERSION, hint, to_yaml
from cpsat_pim.workload.joins import Pool, Resize, View
from cpsat_pim.workload.layer import ConvWorkload, plain_width
from cpsat_pim.workload.network import BETWEEN, BOUNDS, BYTES, INPUT, PAIRS, Network, NetworkNode
from cpsat_pim.workload.reorders import Reorder

# --- Files -----------------------------------------------------------------------------------------------------------


def format_network(network: Network, *comments: str) -> str:
    """Format a file that `read_network` reads back as this network, below comment lines.

    Raises:
        ValueError: its layers differ in their bytes per element, for which a file has one place.
    """
    head: dict[str, Any] = {"version": VERSION, "name": network.name}
    if network.has_widths:
        head["bytes"] = _shared_widths(network)
    if network.input is not None:
        head["input"] = asdict(network.input)
    lines = [f"# {_printable(comment)}" for comment in comments]
    lines += [f"{key}: {_flow(value)}" for key, value in head.items()]
    return "\n".join([*lines, "layers:", *(f"- {_flow(_entry(node))}" for node in network.layers), ""])


def _shared_widths(network: Network) -> dict[str, Any]:
    """Return the bytes per element of all layers, as far as these do not have their own.

    Raises:
        ValueError: layers differ in other widths than their own.
    """
    found: dict[str, Any] = {}
    for node in network.layers:
        for key, width in zip(BYTES, node.workload.width_bytes, strict=True):
            if key not in node.bytes and found.setdefault(key, width) != width:
                raise ValueError(f"{network.name}: the layers must have the same bytes per element")
    return {key: plain_width(found.get(key, 1)) for key in BYTES}


def _entry(node: NetworkNode) -> dict[str, Any]:
    """Return a layer's keys, without those at their defaults."""
    layer = node.workload
    sizes = {**dict(zip(BOUNDS, layer.bounds, strict=True)), "count": node.count}
    pairs = {key: list(getattr(layer, key)) for key in PAIRS}
    return {
        "name": node.name,
        **{key: size for key, size in sizes.items() if size != 1},
        **{key: pair for key, pair in pairs.items() if pair != [1, 1]},
        **({} if node.weights else {"weights": False}),
        **({"bytes": {key: plain_width(width) for key, width in node.bytes.items()}} if node.bytes else {}),
        **{key: _plain(value) for key in BETWEEN if (value := getattr(node, key)) is not None},
        "after": list(node.after) or [INPUT],
    }


def _plain(value: Any) -> Any:
    """Convert a field to the form of the file."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, View | Pool | Resize):
        return _plain({key: item for key, item in asdict(value, recurse=False).items() if item is not None})
    if isinstance(value, Reorder):
        return _plain({key: item for key, item in asdict(value).items() if item not in ((), (0, 0))})
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _flow(value: object) -> str:
    """Format a value in YAML's flow style."""
    return to_yaml(value, default_flow_style=True, width=sys.maxsize).removesuffix("...\n").strip()


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


# --- Shapes ----------------------------------------------------------------------------------------------------------


def parse_shape(text: str) -> ConvWorkload:
    """Read a layer such as `R=3,S=3,P=56,stride=2,dilation=1x2`; pairs are width x height, a single number stands for
    both.

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
    """Return whether a text is a shape, rather than a name or a file."""
    return "=" in text and not text.endswith(SUFFIXES)


def shape_network(text: str) -> Network:
    """Return the network with a shape as its only layer, which is named after the shape.

    Raises:
        ValueError: as in `parse_shape`.
    """
    workload = parse_shape(text)
    return Network(name=text, layers=(NetworkNode(name=workload.name, workload=workload),), has_widths=False)


def _parse_bound(key: str, value: str) -> int:
    number = _positive_integer(value)
    if number is None:
        rule = "have 19 digits at most" if re.fullmatch(r"[1-9][0-9]+", value) else "be a positive integer"
        raise ValueError(f"shape: {key} must {rule} (got {value!r})")
    return number


def _parse_pair(key: str, value: str) -> tuple[int, int]:
    """Read a pair such as `2` or `2x1`."""
    numbers = [_positive_integer(part) for part in value.split("x")]
    if len(numbers) > 2 or None in numbers:
        raise ValueError(f"shape: {key} must be a positive integer or two, width x height, like 2x1 (got {value!r})")
    return numbers[0], numbers[-1]  # type: ignore[return-value]


def _positive_integer(text: str) -> int | None:
    """Read plain decimal digits."""
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,18}", text) else None
