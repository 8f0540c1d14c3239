"""Layers that add the other operands of a sum to their output: of one that is concatenated, or that is an operand of
another sum (docs/array.md, section 2: `adds`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from attrs import evolve

from cpsat_pim.importers.added import agreed_on
from cpsat_pim.importers.between import stated_between
from cpsat_pim.importers.layers import Layers
from cpsat_pim.importers.origin import Part, Parts, Source
from cpsat_pim.workload.network import INPUT, Network, NetworkNode


class SummedLayers(Layers):
    """Lets layers at the ends of sums add the other operands, where all readers read the same sum."""

    def network(self, name: str) -> Network:
        """Return the network, in which layers at the ends of such sums add the others.

        Raises:
            ValueError: no operator was a layer.
        """
        operands = [self._operands[layer.name] for layer in self._layers]
        adding = _added_by_ends(operands, self._end, self._elements, agreed_on(self._added))
        if adding:
            self._layers[:] = [self._reading_ends(layer, adding) for layer in self._layers]
            self._added |= {end: {others} for end, others in adding.items()}
        return super().network(name)

    def _reading_ends(self, layer: NetworkNode, adding: Mapping[str, Part]) -> NetworkNode:
        """Return a layer that reads the ends of sums, where these add the others."""

        def ends_of(parts: Parts) -> Parts:
            ends = map(self._end, parts)
            return tuple(
                (evolve(end, adds=adding[end.layer]),) if end.layer in adding else part
                for end, part in zip(ends, parts, strict=True)
            )

        data, weight = map(ends_of, self._operands[layer.name])
        if (data, weight) == self._operands[layer.name]:
            return layer
        self._reads[layer.name] = tuple(dict.fromkeys(source for part in data for source in part))
        join = stated_between(layer.workload, data, None, None).get("join")
        return evolve(layer, after=self._after(data, weight), join=join)


def _added_by_ends(
    operands: Iterable[tuple[Parts, Parts]],
    end: Callable[[Part], Source],
    elements: Callable[[Source], int | None],
    agreed: Collection[str],
) -> dict[str, Part]:
    """Return what the layers at the ends of sums may add, as all readers read the same sum of layers' outputs of one
    size: sums that are concatenated, or with an operand that is itself a sum which no layer makes.

    Args:
        operands: what each layer reads as its data and as its weights.
        end: the end of a part.
        elements: how many a source has.
        agreed: layers that add to their outputs what is added to them wherever they are read.
    """
    read = list(operands)
    parts = {part for both in read for own in both for part in own}
    sums = {
        end(part).layer
        for data, _ in read
        for part in data
        if len(part) > 1 and (len(data) > 1 or any(one.adds and one.layer not in agreed for one in part))
    }
    found: dict[str, Part] = {}
    for name in sums:
        first, *others = (part for part in parts if end(part).layer == name)
        is_plain = all(one == Source(one.layer, adds=one.adds) and one.layer != INPUT for one in first)
        is_plain = is_plain and not end(first).adds
        if is_plain and len({elements(source) for source in first}) == 1 and all({*o} == {*first} for o in others):
            found[name] = tuple(source for source in first if source.layer != name)
    return found
