"""Memory levels (listing 2) and the hierarchy of four, inner to outer."""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.base.reading import Either, Value, record_of
from cpsat_pim.base.units import measured_in
from cpsat_pim.base.validate import (
    LIMIT,
    Rule,
    as_tuple,
    boolean,
    not_negative,
    not_negative_real,
    or_none,
    positive,
    positive_real_or_none,
    text,
    three_booleans,
)

_ENERGY = measured_in("nJ/element", "nJ")
_RATE = measured_in("B/cycle")
_ELEMENTS = measured_in("element")


@frozen(kw_only=True)
class SeparateEntries:
    """The entries of a level with a buffer of its own for each tensor; 0: the level has none for it.

    Raises:
        ValueError: a number is negative; the message names the tensor.
    """

    I: int = field(validator=not_negative, metadata=_ELEMENTS)  # noqa: E741 - the tensor's name
    W: int = field(validator=not_negative, metadata=_ELEMENTS)
    O: int = field(validator=not_negative, metadata=_ELEMENTS)  # noqa: E741 - the tensor's name

    def __getitem__(self, tensor: Tensor) -> int:
        return (self.I, self.W, self.O)[tensor]


def _to_entries(value: Any) -> Any:
    """Convert entries by the names of tensors; leave other values for the validator."""
    if not isinstance(value, Mapping):
        return value
    given = {key.name if isinstance(key, Tensor) else key: number for key, number in value.items()}
    for name in given.keys() ^ Tensor.__members__.keys():
        problem = "no such tensor, there are I, W, O" if name in given else "is missing (0: no buffer for it)"
        raise ValueError(f"MemoryLevel.entries.{name}: {problem}")
    return SeparateEntries(**given)


_entries = Rule(positive.says, lambda v: isinstance(v, SeparateEntries) or positive.holds(v), positive.schema)
_ENTRIES = Either(plain=Value(_entries, _ELEMENTS["units"]), mapping=record_of(SeparateEntries))


@frozen(kw_only=True)
class MemoryLevel:
    """One memory level (listing 2).

    `entries` elements of `word_bytes` each are the capacity of one instance: of one buffer that all tensors share, or
    `{I: ..., W: ..., O: ...}` of separate buffers (not at the DRAM). `access_cost` is nJ per element read,
    `write_cost` nJ per element written (equal to `access_cost` if not given). `stores` says which of [input, weight,
    output] the level may store. With `bypass_defined` it stores exactly these; otherwise the mapper decides. Bandwidths
    are bytes per cycle and instance, of one of `ports` equal ports, which serves a tensor at a time; None means no
    limit. `latency` (cycles) is paid once, when the pipeline fills. `double_buffered` halves the usable capacity and
    overlaps loading with use (levels 0 and 1 only). `blocksize` (bytes, the width of one access) and `instances` only
    inform the reader: accesses are counted in elements. At the row buffer, `row_buffer_size` is the DRAM row (bytes).
    At the DRAM, `num_banks` is the number of banks of each tensor; bandwidths and ports have no effect there, because
    the timings determine its throughput.

    Raises:
        ValueError: a figure is out of range; the message names the field.
    """

    name: str = field(validator=text)
    entries: int | SeparateEntries = field(converter=_to_entries, validator=_entries, metadata={"kind": _ENTRIES})
    blocksize: int = field(default=1, validator=positive, metadata=measured_in("B"))
    instances: int = field(default=1, validator=positive)
    latency: float = field(default=0.0, validator=not_negative_real, metadata=measured_in("cycle"))
    access_cost: float = field(default=0.0, validator=not_negative_real, metadata=_ENERGY)
    write_cost: float | None = field(default=None, validator=or_none(not_negative_real), metadata=_ENERGY)
    stores: tuple[bool, bool, bool] = field(default=(True, True, True), converter=as_tuple, validator=three_booleans)
    bypass_defined: bool = field(default=False, validator=boolean)
    num_banks: int = field(default=1, validator=positive)
    row_buffer_size: int = field(default=1024, validator=positive, metadata=measured_in("B"))
    read_bandwidth_limit: float | None = field(default=None, validator=positive_real_or_none, metadata=_RATE)
    write_bandwidth_limit: float | None = field(default=None, validator=positive_real_or_none, metadata=_RATE)
    ports: int = field(default=3, validator=positive)
    word_bytes: int = field(default=1, validator=positive, metadata=measured_in("B") | {"scale": "element"})
    double_buffered: bool = field(default=True, validator=boolean)

    def __attrs_post_init__(self) -> None:
        if self.capacity_bytes >= LIMIT:
            raise ValueError(
                f"MemoryLevel.entries: times word_bytes must stay below 2^62 (got {self._total} x {self.word_bytes})"
            )
        for tensor in Tensor:
            if self.bypass_defined and self.stores[tensor] and not self.entries_of(tensor):
                problem = f"the level must store {tensor.name} (`bypass_defined`), but has no buffer for it"
                raise ValueError(f"MemoryLevel.entries.{tensor.name}: {problem}")

    @property
    def is_shared(self) -> bool:
        """Whether all tensors share one buffer."""
        return not isinstance(self.entries, SeparateEntries)

    @property
    def capacity_bytes(self) -> int:
        """Bytes of one instance, over all its buffers."""
        return self._total * self.word_bytes

    def entries_of(self, tensor: Tensor) -> int:
        """Return the entries of the buffer in which a tensor's tile lies."""
        return self.entries[tensor] if isinstance(self.entries, SeparateEntries) else self.entries

    @property
    def _total(self) -> int:
        return sum(map(self.entries_of, Tensor)) if isinstance(self.entries, SeparateEntries) else self.entries


@define
class MemoryHierarchy:
    """The four levels, added inner to outer (listing 8); `PIMArchitecture` checks that all four are there."""

    levels: list[MemoryLevel] = field(factory=list)

    def add_level(self, level: MemoryLevel) -> None:
        """Add the next outer level.

        Raises:
            ValueError: there are four levels already.
        """
        if len(self.levels) == len(Level):
            raise ValueError(f"MemoryHierarchy: has {len(Level)} levels, no room for another (got {level.name!r})")
        self.levels.append(level)

    def __getitem__(self, level: int) -> MemoryLevel:
        return self.levels[level]

    def __iter__(self) -> Iterator[MemoryLevel]:
        return iter(self.levels)

    def __len__(self) -> int:
        return len(self.levels)
