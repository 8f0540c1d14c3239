"""Results as JSON, schema 1 (docs/json.md), written whole or not at all, and read back as mapped layers."""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import build_arch
from cpsat_pim.dims import Tensor
from cpsat_pim.files import write_text
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping_file import build_mapping, read_mapping_file
from cpsat_pim.reading import SUFFIXES, read_plain, record_of
from cpsat_pim.result import NetworkLayer, Objective, SolvedNetwork
from cpsat_pim.verify import read_reproducer
from cpsat_pim.workload import ConvWorkload

SCHEMA = 1


@frozen(kw_only=True)
class MappedLayer:
    """A mapped layer as a file holds it; `recorded` are the predicted figures in the file, None if it has none.

    `is_reproducer` tells that the file was written because of a disagreement.
    """

    layer: ConvWorkload
    arch: PIMArchitecture
    mapping: Mapping
    recorded: dict[str, Any] | None
    is_reproducer: bool = False


# --- Writing ---------------------------------------------------------------------------------------------------------


def to_document(network: SolvedNetwork) -> dict[str, Any]:
    """A solved network as plain data, schema 1."""
    return {
        "schema": SCHEMA,
        "network": network.network,
        "arch": network.arch.to_dict(),
        "objective": _objective_data(network.objective),
        "layers": [_layer_data(node) for node in network.layers],
        "totals": _totals(network),
    }


def write_document(document: dict[str, Any], path: str | Path) -> None:
    """Write a document in one step: a reader sees the old file or the new one, never a part.

    Raises:
        OSError: it cannot be written.
    """
    write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", path)


def _layer_data(node: NetworkLayer) -> dict[str, Any]:
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
    }


def _objective_data(objective: Objective) -> dict[str, Any]:
    return {"kind": objective.kind, "alpha": _number(objective.alpha), "beta": _number(objective.beta)}


def _number(weight: Fraction) -> int | float:
    return weight.numerator if weight.denominator == 1 else float(weight)


def _totals(network: SolvedNetwork) -> dict[str, Any]:
    """Sums over layers times their counts; only layers with a mapping have costs."""
    mapped = [node for node in network.layers if node.solved.mapping]
    return {
        "layers": sum(node.count for node in network.layers),
        "mapped": sum(node.count for node in mapped),
        "macs": sum(node.count * node.solved.workload.macs for node in network.layers),
        "latency_cycles": network.latency_cycles,
        "energy_fj": network.energy_fj,
        "row_activations": {
            t.name: sum(node.count * node.solved.predicted.row_activations[t] for node in mapped) for t in Tensor
        },
        "seconds": round(network.seconds, 3),
        "interrupted": network.interrupted,
    }


# --- Reading ---------------------------------------------------------------------------------------------------------


def read_document(path: str | Path) -> dict[str, Any]:
    """What `--json` wrote.

    Raises:
        ValueError: it cannot be read, or is no such file; one line `<file>: ...`.
    """
    return _checked_document(path, _read_json(Path(path)))


def read_mapped_layers(path: str | Path) -> list[MappedLayer]:
    """The mapped layers of a file that `--json` wrote, of a mapping file, or the one of a reproducer.

    Raises:
        ValueError: it cannot be read, or something in it is missing or wrong; lines `<file>: ...`.
    """
    if str(path).endswith(SUFFIXES):
        return list(_mapped_yaml(path))
    data = _read_json(Path(path))
    if "schema" not in data and "architecture" in data:
        return [_reproduced(path)]
    _checked_document(path, data)
    return list(_mapped(path, data["layers"], build_arch(str(path), data["arch"])))


def _checked_document(path: str | Path, data: dict[str, Any]) -> dict[str, Any]:
    if data.get("schema") != SCHEMA:
        raise ValueError(f"{path}: schema: must be {SCHEMA} (got {data.get('schema')!r})")
    for key, kind in (("arch", dict), ("layers", list)):
        if not isinstance(data.get(key), kind):
            raise ValueError(f"{path}: {key}: is missing or malformed")
    return data


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
        yield MappedLayer(layer=entry.layer, arch=file.arch, mapping=entry.mapping, recorded=None)


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
        layer = read_plain(f"{path}: {name}: shape", entry["shape"] | {"name": name}, record_of(ConvWorkload))
        mapping = build_mapping(f"{path}: {name}: mapping", entry["mapping"])
        yield MappedLayer(layer=layer, arch=arch, mapping=mapping, recorded=recorded)


def _reproduced(path: str | Path) -> MappedLayer:
    case = read_reproducer(path)
    return MappedLayer(layer=case.layer, arch=case.arch, mapping=case.mapping, recorded=None, is_reproducer=True)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise ValueError(f"{path}: is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"{path}: is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path}: must be a JSON object")
    return data
