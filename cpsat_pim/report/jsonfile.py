"""Results as JSON, schema 1 (docs/json.md), and read back as mapped layers."""

import math
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import build_arch
from cpsat_pim.dims import Dim, Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping_file import build_mapping, read_mapping_file
from cpsat_pim.reading import SUFFIXES, read_json
from cpsat_pim.result import NetworkLayer, Objective, SolvedNetwork
from cpsat_pim.verify import MappedLayer, read_reproducer
from cpsat_pim.workload.network import build_layer

SCHEMA = 1

#: An object of JSON.
Entry = dict[str, Any]


# --- Writing ---------------------------------------------------------------------------------------------------------


def to_document(network: SolvedNetwork) -> Entry:
    """A solved network as plain data, schema 1."""
    return build_document(
        network=network.network,
        arch=network.arch.to_dict(),
        objective=network.objective.to_dict(),
        layers=[layer_entry(node) for node in network.layers],
        seconds=network.seconds,
        interrupted=network.interrupted,
    )


def build_document(
    *, network: str, arch: Entry, objective: Entry, layers: list[Entry], seconds: float, interrupted: bool
) -> Entry:
    """The whole of its parts, with the totals of the layers' entries."""
    return {
        "schema": SCHEMA,
        "network": network,
        "arch": arch,
        "objective": objective,
        "layers": layers,
        "totals": _totals(layers) | {"seconds": round(seconds, 3), "interrupted": interrupted},
    }


def layer_entry(node: NetworkLayer) -> Entry:
    """A layer's place in such a document."""
    solved = node.solved
    return {
        "name": node.name,
        "count": node.count,
        "shape": solved.workload.shape,
        "status": solved.status.value,
        "objective": solved.objective_value,
        "bound": solved.bound,
        "gap": solved.gap,
        "solve_seconds": round(solved.solve_seconds, 3),
        "predicted": solved.predicted.to_dict() if solved.prediction else None,
        "simulated": solved.simulated.to_dict() if solved.simulated else None,
        "mapping": solved.mapping.to_dict() if solved.mapping else None,
        "progress": [[round(seconds, 3), best, bound] for seconds, best, bound in solved.progress],
    }


def _totals(layers: list[Entry]) -> Entry:
    """Sums over layers' entries times their counts; only layers with a mapping have costs."""
    mapped = [layer for layer in layers if layer["mapping"]]

    def total(cost: Callable[[Entry], int]) -> int:
        return sum(layer["count"] * cost(layer["predicted"]) for layer in mapped)

    return {
        "layers": sum(layer["count"] for layer in layers),
        "mapped": sum(layer["count"] for layer in mapped),
        "macs": sum(layer["count"] * math.prod(layer["shape"][d.name] for d in Dim) for layer in layers),
        "latency_cycles": total(itemgetter("latency_cycles")),
        "energy_fj": total(itemgetter("energy_fj")),
        "row_activations": {t.name: total(lambda p, t=t: p["row_activations"][t.name]) for t in Tensor},  # type: ignore[misc]
    }


# --- Reading ---------------------------------------------------------------------------------------------------------


def read_document(path: str | Path) -> dict[str, Any]:
    """What `--json` wrote.

    Raises:
        ValueError: it cannot be read, or is no such file; one line `<file>: ...`.
    """
    return _checked_document(path, read_json(path))


def read_mapped_layers(path: str | Path) -> list[MappedLayer]:
    """The mapped layers of a file that `--json` wrote, of a mapping file, or the one of a reproducer.

    Raises:
        ValueError: it cannot be read, or something in it is missing or wrong; lines `<file>: ...`.
    """
    if str(path).endswith(SUFFIXES):
        return list(_mapped_yaml(path))
    data = read_json(path)
    if "schema" not in data and "architecture" in data:
        return [read_reproducer(path)]
    _checked_document(path, data)
    return list(_mapped(path, data["layers"], build_arch(str(path), data["arch"])))


def _checked_document(path: str | Path, data: dict[str, Any]) -> dict[str, Any]:
    if data.get("schema") != SCHEMA:
        raise ValueError(f"{path}: schema: must be {SCHEMA} (got {data.get('schema')!r})")
    for key, kind in (("arch", dict), ("layers", list)):
        if not isinstance(data.get(key), kind):
            raise ValueError(f"{path}: {key}: is missing or malformed")
    return data


def read_objective(path: str | Path, data: Any) -> Objective:
    """The objective as such a file has it.

    Raises:
        ValueError: it is missing or wrong; one line `<file>: ...`.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{path}: objective: is missing or malformed")
    try:
        return Objective.named(str(data.get("kind")), data.get("alpha", 1), data.get("beta", 1))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def read_mappings(path: str | Path) -> dict[str, Mapping]:
    """The mappings of such a file by the names of layers; a mapping file need not give the machine and shapes.

    Raises:
        ValueError: see `read_mapped_layers`.
    """
    if str(path).endswith(SUFFIXES):
        return {entry.name: entry.mapping for entry in read_mapping_file(path).layers}
    return {case.layer.name: case.mapping for case in read_mapped_layers(path)}


def _mapped_yaml(path: str | Path) -> Iterator[MappedLayer]:
    """The layers of a mapping file that gives all that is needed to simulate them."""
    file = read_mapping_file(path)
    if file.arch is None:
        raise ValueError(f"{path}: arch: is missing")
    for entry in file.layers:
        if entry.layer is None:
            raise ValueError(f"{path}: layers[{entry.name}].shape: is missing, and there is no `network` that has it")
        yield MappedLayer(layer=entry.layer, arch=file.arch, mapping=entry.mapping)


def _mapped(path: str | Path, entries: list[Any], arch: PIMArchitecture) -> Iterator[MappedLayer]:
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("shape"), dict):
            raise ValueError(f"{path}: layers: an entry must have a shape (got {str(entry)[:40]})")
        name = str(entry.get("name", "layer"))
        if entry.get("mapping") is None:
            continue
        recorded = entry.get("predicted")
        if recorded is not None and not isinstance(recorded, dict):
            raise ValueError(f"{path}: {name}: predicted: must be an object or null")
        layer = build_layer(f"{path}: {name}: shape", entry["shape"] | {"name": name})
        mapping = build_mapping(f"{path}: {name}: mapping", entry["mapping"])
        yield MappedLayer(layer=layer, arch=arch, mapping=mapping, recorded=recorded)
