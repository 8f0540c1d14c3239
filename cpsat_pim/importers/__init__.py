"""Networks from models: ONNX files, exported PyTorch programs, and the modules that a Python function returns."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from cpsat_pim.base.extras import import_extra
from cpsat_pim.importers.builder import LeftOut, NetworkBuilder
from cpsat_pim.workload.network import Network

__all__ = ["ImportedNetwork", "import_network", "is_model"]

_FUNCTION = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")


@frozen(kw_only=True)
class ImportedNetwork:
    """A network, and the model's operators that compute but are not in it."""

    network: Network
    left_out: tuple[LeftOut, ...]

    @property
    def summary(self) -> list[str]:
        """A line for each kind of operator left out: how often it occurs, and the names."""
        return _listed(self.left_out)


def is_model(given: str) -> bool:
    """Whether `import_network` takes it, going by its name."""
    return given.endswith((".onnx", ".pt2")) or _FUNCTION.fullmatch(given) is not None


def import_network(
    model: str, bind: Mapping[str, int] | None = None, *, skip_unsupported: bool = False
) -> ImportedNetwork:
    """The network of an .onnx or .pt2 file, or of what a `module:function` returns.

    Args:
        model: the file, or the function, which returns a `torch.nn.Module` and a tuple of its inputs.
        bind: sizes of the dims that the model leaves open, or the function's arguments.
        skip_unsupported: leave out operators that compute but cannot be mapped, instead of raising.

    Raises:
        ValueError: the model cannot be read, the package that reads it is missing, or operators cannot be mapped, each
            of which is named; one line `<model>: ...`.
    """
    builder = NetworkBuilder()
    try:
        _trace(model, bind or {}, builder)
        if builder.left_out and not skip_unsupported:
            raise ValueError(f"cannot map {'; '.join(_listed(builder.left_out))} (--unsupported skip goes on without)")
        return ImportedNetwork(network=builder.network(_name(model)), left_out=tuple(builder.left_out))
    except ValueError as error:
        raise ValueError(f"{model}: {error}") from error


def _trace(model: str, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
    """Hand the model's operators to the builder."""
    if not is_model(model):
        raise ValueError("must be an .onnx or .pt2 file, or a Python function as module:function")
    if model.endswith(".onnx"):
        import_extra("cpsat_pim.importers.onnx_file", "onnx").trace_onnx(model, bind, builder)
        return
    reader = import_extra("cpsat_pim.importers.torch_program", "torch")
    trace = reader.trace_program if model.endswith(".pt2") else reader.trace_function
    trace(model, bind, builder)


def _name(model: str) -> str:
    """The file's stem, or the function's name."""
    return Path(model).stem if model.endswith((".onnx", ".pt2")) else model.partition(":")[2]


def _listed(left_out: Sequence[LeftOut]) -> list[str]:
    """For each kind of operator how often it occurs, and the names."""
    names: dict[str, list[str]] = {}
    for operator in left_out:
        names.setdefault(operator.kind, []).append(operator.name)
    return [f"{len(those)} {kind}: {', '.join(those)}" for kind, those in names.items()]
