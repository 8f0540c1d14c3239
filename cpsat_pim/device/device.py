"""A command-driven PIM device: system, channel (group), core, commands, timing (`docs/devices.md`, section 1)."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod

from attrs import field, frozen

from cpsat_pim.base.reading import Listing, Table, Value, record_of
from cpsat_pim.base.validate import Rule, as_tuple, boolean, not_negative, one_of, or_none, positive, text
from cpsat_pim.device.commands import Command, Controller, Refresh
from cpsat_pim.device.timing import Constraint, ticks_of

_GROUP = "group"
_kind = one_of("pim-device")
_words = Rule(
    "must be a list of words",
    lambda v: isinstance(v, tuple) and all(isinstance(word, str) and word for word in v),
    {"type": "array", "items": {"type": "string"}},
)


@frozen(kw_only=True)
class AddressMap:
    """The fields of an address above the bytes of a column, the most significant first (`addresses`).

    `host`: arrays as the host stores them, `pim`: what the compiler lays out. Fields: stack, channel, the axes, the
    banks of a core, row, column.
    """

    host: tuple[str, ...] = field(converter=as_tuple, validator=_words)
    pim: tuple[str, ...] = field(converter=as_tuple, validator=_words)


@frozen(kw_only=True)
class System:
    """`stacks` of `groups` channels each, driven by a `host`: the name of a host or a host file.

    `address_map`: where the host's addresses lie. `checked_against`: the simulator whose ticks the device reproduces;
    nothing if there is none.
    """

    stacks: int = field(validator=positive)
    groups: int = field(validator=positive)
    host: str | None = field(default=None, validator=or_none(text))
    address_map: AddressMap | None = field(default=None, metadata={"kind": record_of(AddressMap)})
    checked_against: str | None = field(default=None, validator=or_none(text))

    @property
    def channels(self) -> int:
        """Channels of all stacks."""
        return self.stacks * self.groups


@frozen(kw_only=True)
class Axis:
    """One axis of the cores inside a channel."""

    name: str = field(validator=text)
    size: int = field(validator=positive)


@frozen(kw_only=True)
class Group:
    """A channel: its core `axes`, outermost first in address order; its bus and what it can compute itself.

    `burst_bytes` are moved by a column command. `buffer_bytes`: the channel's own buffer. `reduces`: axes along which
    it adds accumulators up while it drains them. `units`: such as `softmax`. `byte_fj`: femtojoules of a byte between
    the channel and the host; None if no source gives them.
    """

    axes: tuple[Axis, ...] = field(
        converter=as_tuple, metadata={"kind": Listing(record_of(Axis), "a list of axes with name and size")}
    )
    burst_bytes: int = field(validator=positive)
    buffer_bytes: int = field(default=0, validator=not_negative)
    reduces: tuple[str, ...] = field(default=(), converter=as_tuple, validator=_words)
    units: tuple[str, ...] = field(default=(), converter=as_tuple, validator=_words)
    byte_fj: int | None = field(default=None, validator=or_none(not_negative))


@frozen(kw_only=True)
class Core:
    """A core: `banks`, `lanes` of `element_bytes`, registers of one column each, and what its lanes can do.

    `modes`: `tree` adds the products of all lanes up, `lanes` keeps a sum a lane. `scalar_input`: in mode `lanes` one
    input element can meet all lanes. `input_axes`: axes along which the inputs of cores can differ. A row has `columns`
    of
    `column_bytes`.
    """

    banks: int = field(validator=positive)
    lanes: int = field(validator=positive)
    element_bytes: int = field(validator=positive)
    modes: tuple[str, ...] = field(converter=as_tuple, validator=_words)
    scalar_input: bool = field(default=False, validator=boolean)
    inputs: int = field(validator=positive)
    input_axes: tuple[str, ...] = field(default=(), converter=as_tuple, validator=_words)
    accumulators: int = field(validator=not_negative)
    columns: int = field(validator=positive)
    rows: int = field(validator=positive)
    column_bytes: int = field(validator=positive)


@frozen(kw_only=True, eq=False)
class Device:
    """A command-driven PIM device. Times in ticks of `tick_ps` picoseconds. Devices are compared by identity, so that
    what is derived from one can be kept with it.

    Raises:
        ValueError: a figure is out of range, or a name of a level, command or timing is unknown; a line for each.
    """

    kind: str = field(default="pim-device", validator=_kind)
    name: str = field(validator=text)
    tick_ps: int = field(validator=positive)
    system: System
    group: Group
    core: Core
    timings: Mapping[str, int] = field(metadata={"kind": Table(Value(not_negative))})
    commands: tuple[Command, ...] = field(
        converter=as_tuple, metadata={"kind": Listing(record_of(Command), "a list of commands")}
    )
    constraints: tuple[Constraint, ...] = field(
        converter=as_tuple, metadata={"kind": Listing(record_of(Constraint), "a list of constraints")}
    )
    controller: Controller
    refresh: Refresh | None = field(default=None, metadata={"kind": record_of(Refresh)})

    def __attrs_post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ValueError("\n".join(f"Device.{problem}" for problem in problems))

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, the channel first; the last are the banks of a core, `bank` if a core has several."""
        axes = tuple(axis.name for axis in self.group.axes)
        return (_GROUP, *axes, "bank" if "bank" not in axes else "bank of the core")

    @cached_property
    def address_fields(self) -> dict[str, int]:
        """How many values each field of an address has."""
        axes = {axis.name: axis.size for axis in self.group.axes}
        outer = {"stack": self.system.stacks, "channel": self.system.groups}
        return {**outer, **axes, self.levels[-1]: self.core.banks, "row": self.core.rows, "column": self.core.columns}

    @property
    def cores(self) -> int:
        """Cores of a channel."""
        size = 1
        for axis in self.group.axes:
            size *= axis.size
        return size

    @cached_property
    def column_writes(self) -> tuple[int, int] | None:
        """So many ticks for so many columns written, at the level of a channel that limits them most; None if the host
        writes no single bank."""
        if self._write is None:
            return None
        write, sizes = self._write.name, [axis.size for axis in self.group.axes]
        limits = [
            (self.ticks(rule.ticks), prod(sizes[: self.levels.index(rule.at)]))
            for rule in self.constraints
            if write in rule.before and write in rule.after and rule.window == 1 and not rule.siblings
        ]
        return max([(1, 1), *limits], key=lambda limit: limit[0] / limit[1])

    @cached_property
    def row_ticks(self) -> int:
        """Ticks from closing a row to a write to the next one of the same bank."""
        write = self._write
        assert write is not None
        pairs = ((write.precharge, write.activate), (write.activate, write.name))
        return sum(
            max(
                (self.ticks(r.ticks) for r in self.constraints if a in r.before and b in r.after and r.window == 1),
                default=0,
            )
            for a, b in pairs
        )

    @property
    def _write(self) -> Command | None:
        """The command that writes a column of a bank."""
        return next((c for c in self.commands if "write" in c.does and c.needs == "row"), None)

    def command(self, name: str) -> int:
        """Return the index of a command.

        Raises:
            ValueError: there is no such command.
        """
        for i, command in enumerate(self.commands):
            if command.name == name:
                return i
        raise ValueError(f"Device.commands: {self.name} has no command {name}")

    def ticks(self, value: int | str) -> int:
        """Return the ticks of a number or of a sum of timings."""
        return ticks_of(value, self.timings)

    # --- Checks

    def _problems(self) -> Iterator[str]:
        """What contradicts itself, `<path>: <problem>`."""
        yield from self._unknown_axes()
        yield from self._bad_maps()
        for command in self.commands:
            path = f"commands[{command.name}]"
            yield from self._bad_level(f"{path}.scope", command.scope)
            yield from self._bad_command(f"{path}.activate", command.activate)
            yield from self._bad_command(f"{path}.precharge", command.precharge)
            yield from self._bad_sum(f"{path}.latency", command.latency, least=0)
        for i, constraint in enumerate(self.constraints):
            path = f"constraints[{i}]"
            yield from self._bad_level(f"{path}.at", constraint.at)
            yield from self._bad_sum(f"{path}.ticks", constraint.ticks, least=1)
            for side in ("before", "after"):
                for name in getattr(constraint, side):
                    yield from self._bad_command(f"{path}.{side}", name)
        yield from self._bad_command("controller.mode_change", self.controller.mode_change)
        yield from self._bad_level("controller.queue_at", self.controller.queue_at)
        if self.refresh is not None:
            yield from self._bad_command("refresh.command", self.refresh.command)
            yield from self._bad_level("refresh.at", self.refresh.at)
            for name in ("first", "stagger", "interval"):
                yield from self._bad_sum(f"refresh.{name}", getattr(self.refresh, name), least=0)

    def _unknown_axes(self) -> Iterator[str]:
        known = [axis.name for axis in self.group.axes]
        for path, given in (("group.reduces", self.group.reduces), ("core.input_axes", self.core.input_axes)):
            for name in given:
                if name not in known:
                    yield f"{path}: no such axis as {name}, there are {', '.join(known)}"
        core = self.core
        if core.lanes * core.element_bytes != core.column_bytes:
            yield f"core.lanes: times element_bytes must be column_bytes {core.column_bytes} (got {core.lanes})"

    def _bad_maps(self) -> Iterator[str]:
        """An address map names every field once, and those with one value at most once."""
        if self.system.address_map is None:
            return
        sizes = self.address_fields
        needed = [name for name, size in sizes.items() if size > 1]
        for side in ("host", "pim"):
            given = getattr(self.system.address_map, side)
            if len(set(given)) < len(given) or not set(needed) <= set(given) <= set(sizes):
                yield (
                    f"system.address_map.{side}: must name each of {', '.join(needed)} once (got {', '.join(given)})"
                )

    def _bad_level(self, path: str, name: str | None) -> Iterator[str]:
        if name is not None and name not in self.levels:
            yield f"{path}: no such level as {name}, there are {', '.join(self.levels)}"

    def _bad_command(self, path: str, name: str | None) -> Iterator[str]:
        known = [command.name for command in self.commands]
        if name is not None and name not in known:
            yield f"{path}: no such command as {name}, there are {', '.join(known)}"

    def _bad_sum(self, path: str, value: int | str, least: int) -> Iterator[str]:
        try:
            ticks = self.ticks(value)
        except ValueError as error:
            yield f"{path}: {error}"
            return
        if ticks < least:
            yield f"{path}: must be at least {least} ticks (got {value} = {ticks})"
