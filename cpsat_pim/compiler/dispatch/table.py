"""The dispatch table of a range of lengths: the optimum of each, fewest mappings, one layout; as text and as JSON."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.attention import AttentionMapping
from cpsat_pim.compiler.dispatch.cover import Cover, fewest_mappings
from cpsat_pim.compiler.dispatch.layout import SharedLayout, best_layout
from cpsat_pim.compiler.dispatch.lengths import LengthOptimum, LengthSearch, best_of_lengths
from cpsat_pim.compiler.mapping.contraction import DEPTH, OUTPUTS
from cpsat_pim.compiler.plan import describe_mapping, mapping_data
from cpsat_pim.compiler.target import Target
from tables.commands.steps import ceiling

Ints = NDArray[np.int64]

#: Version of the JSON that `Dispatch.as_data` returns.
FORMAT = 1


@frozen(eq=False)
class Dispatch:
    """`optima` of every length; `mappings`: those that are optimal somewhere; the fewest of them within `percent`; one
    layout for all lengths.
    """

    search: LengthSearch
    lengths: range
    optima: tuple[LengthOptimum, ...]
    mappings: tuple[AttentionMapping, ...]
    percent: float
    cover: Cover
    layout: SharedLayout

    @property
    def status(self) -> str:
        """OPTIMAL: every length is."""
        return "OPTIMAL" if all(found.status == "OPTIMAL" for found in self.optima) else "FEASIBLE"

    @property
    def excess(self) -> float:
        """Percent that the one layout costs over the optimum of every length, in the sum. Below 0 if the rows of their
        own, in which the values of a layout begin, save more than the layout loses."""
        best = sum(found.ticks for found in self.optima)
        return 100 * (int(self.layout.ticks.sum()) - best) / best

    def as_data(self) -> dict[str, Any]:
        """The table as JSON takes it. Ranges of lengths are closed."""
        number = {mapping: at for at, mapping in enumerate(self.mappings)}
        return {
            "format": FORMAT,
            "status": self.status,
            "kernel": "attention",
            "device": self.search.target.device.name,
            "tick_ps": self.search.target.device.tick_ps,
            "heads": self.search.heads,
            "head_size": self.search.head_size,
            "mappings": [_pair_data(mapping) for mapping in self.mappings],
            "table": list(self._ranges(number[found.mapping] for found in self.optima)),
            "ticks": [found.ticks for found in self.optima],
            "bounds": [found.bound for found in self.optima],
            "fewest": {
                "percent": self.percent,
                "status": self.cover.status,
                "count": len(self.cover.chosen),
                "bound": self.cover.bound,
                "table": list(self._ranges(self.cover.of_length.tolist())),
            },
            "one_layout": {
                "status": self.layout.status,
                "ticks": self.layout.ticks.tolist(),
                "total": int(self.layout.ticks.sum()),
                "bound": self.layout.bound,
                "excess_percent": self.excess,
                "mapping": _pair_data(self.layout.mappings[-1]),
                "overlaps": list(self._ranges(_overlaps(mapping) for mapping in self.layout.mappings)),
            },
        }

    def _ranges(self, values: Iterable[Any]) -> Iterator[dict[str, Any]]:
        for value, group in groupby(zip(self.lengths, values, strict=True), key=lambda pair: pair[1]):
            members = [tokens for tokens, _ in group]
            yield {"from": members[0], "to": members[-1], "use": value}


def dispatch(
    heads: int, head_size: int, lengths: range, target: Target, channels: int | None = None, percent: float = 1.0
) -> Dispatch:
    """The dispatch table of an attention.

    Raises:
        KernelMistake: the device cannot run it.
    """
    search = LengthSearch(heads, head_size, target, channels)
    optima = tuple(best_of_lengths(search, lengths[0], lengths[-1]))
    mappings = tuple(dict.fromkeys(found.mapping for found in optima))
    ticks = np.array([ticks_of_lengths(search, mapping, lengths) for mapping in mappings])
    cover = fewest_mappings(ticks, np.array([found.ticks for found in optima]), percent)
    return Dispatch(search, lengths, optima, mappings, percent, cover, best_layout(search, lengths))


def ticks_of_lengths(search: LengthSearch, mapping: AttentionMapping, lengths: range) -> list[int]:
    """The ticks of a mapping for every length. Tokens enter a stream only as the heads of a round, the outputs of a
    core in the score and its depth in the context: lengths in which these are equal take the same ticks.
    """
    outputs, depth = mapping.score.parts(search.target)[OUTPUTS], mapping.context.parts(search.target)[DEPTH]
    known: dict[tuple[int, ...], int] = {}
    result = []
    for tokens in lengths:
        key = (*search.rounds(tokens, mapping), ceiling(tokens, outputs), ceiling(tokens, depth))
        if key not in known:
            known[key] = search.ticks(tokens, mapping)
        result.append(known[key])
    return result


def format_dispatch(found: Dispatch) -> str:
    """The table as text."""
    search, first, last = found.search, found.lengths[0], found.lengths[-1]
    best = sum(optimum.ticks for optimum in found.optima)
    worst = max(100 * (o.ticks - o.bound) / o.bound for o in found.optima)
    layout = found.layout
    gap = 100 * (int(layout.ticks.sum()) - layout.bound) / layout.bound
    lines = [
        f"attention of {search.heads} heads of {search.head_size} on {search.target.device.name}, "
        f"{first} to {last} tokens",
        f"every length    {found.status}, gap at most {worst:.2f} %: {best:,} ticks in all, "
        f"{len(found.mappings)} mappings",
        f"within {found.percent:g} %     {found.cover.status}: {len(found.cover.chosen)} of these mappings are needed",
        f"one layout      {layout.status}, gap {gap:.2f} %: {int(layout.ticks.sum()):,} ticks in all, "
        f"{abs(found.excess):.2f} % {'above' if found.excess >= 0 else 'below'} the optimum of every length "
        "(values directly behind keys)",
    ]
    for name, mapping in (("score", layout.mappings[-1].score), ("context", layout.mappings[-1].context)):
        lines += [f"{name}:", *describe_mapping(mapping, search.target.axis_names)]
    return "\n".join(lines)


def _pair_data(mapping: AttentionMapping) -> dict[str, Any]:
    return {"score": mapping_data(mapping.score), "context": mapping_data(mapping.context)}


def _overlaps(mapping: AttentionMapping) -> list[bool]:
    """Whether drains and loads of the score, and those of the context, run beside MACs."""
    return [flag for part in (mapping.score, mapping.context) for flag in (part.overlaps_drains, part.overlaps_loads)]
