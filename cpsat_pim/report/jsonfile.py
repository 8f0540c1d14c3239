"""Results as JSON, schema 1 (docs/json.md), written whole or not at all, and read back as mapped layers."""

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.arch.reading import build_arch
from cpsat_pim.dims import Tensor
from cpsat_pim.mapping import Mapping
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


def check_writable(path: str | Path) -> None:
    """Fail before an hour of solving rather than after it.

    Raises:
        ValueError: a file cannot be written there.
    """
    try:
        if _is_special(path):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            return
        if Path(path).is_dir():
            raise IsADirectoryError(None, "is a directory")
        handle, probe = tempfile.mkstemp(dir=_target(path).parent, prefix=".cpsat_pim-")
        os.close(handle)
        os.unlink(probe)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error


def write_document(document: dict[str, Any], path: str | Path) -> None:
    """Write a document in one step: a reader sees the old file or the new one, never a part.

    Raises:
        OSError: it cannot be written.
    """
    write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", path)


def write_text(text: str, path: str | Path) -> None:
    """Write a file in one step, as `write_document` does.

    Raises:
        OSError: it cannot be written.
    """
    if _is_special(path):
        Path(path).write_text(text, encoding="utf-8")
        return
    target = _target(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".cpsat_pim-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


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


def _is_special(path: str | Path) -> bool:
    """A pipe or device, such as /dev/stdout: written to, not replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _target(path: str | Path) -> Path:
    """Where a link leads, so that the link stays one."""
    return Path(os.path.realpath(path))


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


# --- Reading ---------------------------------------------------------------------------------------------------------


def read_document(path: str | Path) -> dict[str, Any]:
    """What `--json` wrote.

    Raises:
        ValueError: it cannot be read, or is no such file; one line `<file>: ...`.
    """
    return _checked_document(path, _read_json(Path(path)))


def read_mapped_layers(path: str | Path) -> list[MappedLayer]:
    """The mapped layers of a file that `--json` wrote, or the one of a reproducer.

    Raises:
        ValueError: it cannot be read, or something in it is missing or wrong; one line `<file>: ...`.
    """
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
        try:
            layer = ConvWorkload(**(entry["shape"] | {"name": name}))
            mapping = Mapping.from_dict(entry["mapping"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {name}: {error}") from error
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
