"""Import networks from models: ONNX files, exported PyTorch programs, and modules returned by a Python function."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from cpsat_pim.base.extras import import_extra
from cpsat_pim.importers.builder import NetworkBuilder
from cpsat_pim.importers.progress import SkippedOperator
from cpsat_pim.workload.network import Network

__all__ = ["ImportedNetwork", "import_network", "is_model"]

_FUNCTION = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")


@frozen(kw_only=True)
class ImportedNetwork:
    """A network, and the operators of the model that compute but are not part of it."""

    network: Network
    skipped: tuple[SkippedOperator, ...]

    @property
    def summary(self) -> list[str]:
        """One line per kind of skipped operator: how often it occurs, and the names."""
        return _listed(self.skipped)


def is_model(given: str) -> bool:
    """Return whether the argument names a model, judged by its form."""
    return given.endswith((".onnx", ".pt2")) or _FUNCTION.fullmatch(given) is not None


def import_network(
    model: str | Path, bind: Mapping[str, int] | None = None, *, skip_unsupported: bool = False
) -> ImportedNetwork:
    """Import the network of an .onnx or .pt2 file, or of the module that a `module:function` returns.

    Args:
        model: the file, or the function, which returns a `torch.nn.Module` and a tuple of its inputs.
        bind: sizes of the dims that the model leaves open, or the function's arguments.
        skip_unsupported: leave out operators that compute but cannot be mapped, instead of raising.

    Raises:
        ValueError: the model cannot be read, the package that reads it is missing, or operators cannot be mapped, each
            of which is named; one line `<model>: ...`.
    """
    model, builder = str(model), NetworkBuilder()
    try:
        _trace(model, bind or {}, builder)
        if builder.skipped and not skip_unsupported:
            raise ValueError(f"cannot map {'; '.join(_listed(builder.skipped))} (--unsupported skip goes on without)")
        if builder.skipped and builder.is_empty:
            raise ValueError(f"holds nothing else than what cannot be mapped: {'; '.join(_listed(builder.skipped))}")
        return ImportedNetwork(network=builder.network(_name(model)), skipped=tuple(builder.skipped))
    except ValueError as error:
        raise ValueError(f"{model}: {error}") from error


def _trace(model: str, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
    """Pass the model's operators to the builder."""
    if not is_model(model):
        raise ValueError("must be an .onnx or .pt2 file, or a Python function as module:function")
    if model.endswith(".onnx"):
        import_extra("cpsat_pim.importers.onnx_file", "onnx").trace_onnx(model, bind, builder)
        return
    reader = import_extra("cpsat_pim.importers.torch_program", "torch")
    trace = reader.trace_program if model.endswith(".pt2") else reader.trace_function
    trace(model, bind, builder)


def _name(model: str) -> str:
    """Return the file's stem, or the function's name."""
    return Path(model).stem if model.endswith((".onnx", ".pt2")) else model.partition(":")[2]


def _listed(skipped: Sequence[SkippedOperator]) -> list[str]:
    """Return for each kind of operator how often it occurs, and the names."""
    names: dict[str, list[str]] = {}
    for operator in skipped:
        names.setdefault(operator.kind, []).append(operator.name)
    return [f"{len(those)} {kind}: {', '.join(those)}" for kind, those in names.items()]
