"""What an import has come to: the layers added, and the operators skipped."""

from collections.abc import Iterable

from attrs import evolve, frozen

from cpsat_pim.importers.origin import Parts, each_source
from cpsat_pim.workload.network import NetworkNode


@frozen
class SkippedOperator:
    """An operator that computes but is not a layer: its kind, with the reason if only some operators of the kind are
    skipped, and its multiply-accumulates if these are known.
    """

    kind: str
    name: str
    macs: int | None = None


@frozen
class Progress:
    """The operators skipped and the layers added so far."""

    skipped: tuple[SkippedOperator, ...]
    layers: tuple[NetworkNode, ...]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the layers."""
        return sum(layer.count * layer.workload.macs for layer in self.layers)

    def is_like(self, other: "Progress") -> bool:
        """Return whether the same was added but for the names of layers, and the same skipped."""
        return self.skipped == other.skipped and self._nameless() == other._nameless()

    def rename(self, parts: Iterable[Parts], other: "Progress") -> list[Parts]:
        """Return parts of tensors with the names that the layers have in the other, which is like this one."""
        names = {own.name: layer.name for own, layer in zip(self.layers, other.layers, strict=True)}
        return [each_source(tensor, lambda source: source.renamed(names)) for tensor in parts]

    def _nameless(self) -> list[NetworkNode]:
        """Return the layers, named by their order."""
        number = {layer.name: str(index) for index, layer in enumerate(self.layers)}
        return [
            evolve(
                layer,
                name=number[layer.name],
                after=tuple(number.get(name, name) for name in layer.after),
                workload=evolve(layer.workload, name=number[layer.name]),
            )
            for layer in self.layers
        ]
