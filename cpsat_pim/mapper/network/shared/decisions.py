"""The decisions that layers can share, and (partial) choices of them."""

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, Level, Tensor
from cpsat_pim.mapper.search.placement import input_blocks
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.workload import ConvWorkload

#: A value for each decision; None where each layer decides for itself.
Choice = tuple[int | None, ...]


@frozen
class Decision:
    """Whether a level stores a tensor; without a level, the tensor's axis order in DRAM."""

    tensor: Tensor
    level: Level | None = None

    def of(self, mapping: Mapping) -> int:
        """Return the decision's value in a mapping."""
        return mapping.layout[self.tensor] if self.level is None else int(mapping.stored[self.level][self.tensor])

    def values(self, arch: PIMArchitecture) -> list[int]:
        """Return the values that a machine allows."""
        return [0, 1] if self.level is None else [int(v) for v in arch.storing_choices(self.level, self.tensor)]


def _stored(*levels: Level) -> tuple[Decision, ...]:
    return tuple(Decision(t, m) for m in levels for t in Tensor)


#: The decisions that can be shared, by name. A tensor that the row buffer stores is row-aligned in DRAM.
SHARES = {
    "bypass": _stored(*BUFFERS),
    "layout": (*_stored(Level.ROW_BUFFER), *(Decision(t) for t in Tensor)),
}
#: The decisions that the seeds share.
ON_CHIP = _stored(Level.PE, Level.GLOBAL_BUFFER)


def decisions_of(names: Iterable[str]) -> tuple[Decision, ...]:
    """Return the decisions of some names of `SHARES`.

    Raises:
        ValueError: there are no names, or one is unknown.
    """
    names = [*names]
    for name in names:
        if name not in SHARES:
            raise ValueError(f"share: must be of {', '.join(SHARES)} (got {name!r})")
    if not names:
        raise ValueError(f"share: must name something of {', '.join(SHARES)}")
    return tuple(dict.fromkeys(decision for name in names for decision in SHARES[name]))


def constrained(own: Constraints, decisions: Sequence[Decision], choice: Choice) -> Constraints | None:
    """Return a layer's own constraints and those of a choice; None if they contradict each other."""
    tables: list[list[Any]] = [[*row] for row in (*own.stored, own.layout)]
    for decision, value in zip(decisions, choice, strict=True):
        row = tables[-1 if decision.level is None else decision.level]
        if value is None:
            continue
        if row[decision.tensor] not in (None, value):
            return None
        row[decision.tensor] = value if decision.level is None else bool(value)
    return attrs.evolve(own, stored=tables[:-1], layout=tables[-1])


def changed(mapping: Mapping, layer: ConvWorkload, decisions: Sequence[Decision], choice: Choice) -> Mapping:
    """Return a mapping with a choice's decisions and the same loops, legal or not; a new input block is the tile."""
    stored, layout = [list(row) for row in mapping.stored], list(mapping.layout)
    for decision, value in zip(decisions, choice, strict=True):
        if value is not None and decision.level is None:
            layout[decision.tensor] = value
        elif value is not None and decision.level is not None:
            stored[decision.level][decision.tensor] = bool(value)
    is_aligned = stored[Level.ROW_BUFFER][Tensor.I]
    blocks = (mapping.block_h, mapping.block_w)
    if is_aligned != mapping.stored[Level.ROW_BUFFER][Tensor.I]:
        blocks = input_blocks(layer, mapping)[-1] if is_aligned else (0, 0)
    return attrs.evolve(mapping, stored=stored, layout=layout, block_h=blocks[0], block_w=blocks[1])


def covers(wider: Choice, choice: Choice) -> bool:
    """Whether a choice has the same value wherever the wider one fixes a decision."""
    return all(w is None or w == c for w, c in zip(wider, choice, strict=True))


def with_value(choice: Choice, i: int, value: int) -> Choice:
    """Return a choice with another value for its i-th decision."""
    return (*choice[:i], value, *choice[i + 1 :])
