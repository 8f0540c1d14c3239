"""Commands of a device and the controller that issues them (`docs/devices.md`, sections 2 and 4)."""

from collections.abc import Mapping

from attrs import field, frozen

from cpsat_pim.base.reading import Table, Value, record_of
from cpsat_pim.base.validate import Rule, as_tuple, boolean, not_negative, one_of, or_none, positive, text
from cpsat_pim.device.timing import ticks_or_sum

FUNCTIONS = (
    "load",
    "mac_tree",
    "mac_lanes",
    "fill",
    "fill_relu",
    "add",
    "mul",
    "store",
    "load_scalars",
    "drain",
    "drain_clear",
    "drain_scalars",
    "clear",
    "write",
    "read",
    "write_each",
    "read_each",
)
_functions = Rule(
    f"must be a list of {', '.join(FUNCTIONS)}",
    lambda v: isinstance(v, tuple) and all(name in FUNCTIONS for name in v),
    {"type": "array", "items": {"enum": list(FUNCTIONS)}},
    FUNCTIONS,
)
_by_function = Rule(
    f"must name functions: nothing, {', '.join(FUNCTIONS)}",
    lambda v: all(name in ("nothing", *FUNCTIONS) for name in v),
    {"type": "object"},
)
_masks = Rule(
    "must be a list of banks",
    lambda v: isinstance(v, tuple) and bool(v) and all(isinstance(bank, int) and 0 <= bank < 62 for bank in v),
    {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
)


@frozen(kw_only=True)
class Command:
    """A command: `slot` of a tick, level `scope` of its timing check, what it needs open, opens, closes and does.

    `activate` and `precharge` are inserted for it when its row is not open. `latency` ticks after its issue it is
    complete; if it is `blocking`, no later command enters the queue before. `mode` is `bank` or `register` on devices
    that have a controller with a `mode_change`. `energy_fj`: femtojoules of one issue, in all cores that it reaches;
    None if no source gives them. `function_fj`: the same if it carries a certain function, or `nothing`.
    """

    name: str = field(validator=text)
    slot: str = field(validator=one_of("row", "column", "none"))
    scope: str | None = field(default=None, validator=or_none(text))
    needs: str = field(default="nothing", validator=one_of("nothing", "row", "rows", "closed"))
    opens: str = field(default="nothing", validator=one_of("nothing", "bank", "group"))
    closes: str = field(default="nothing", validator=one_of("nothing", "bank", "group"))
    activate: str | None = field(default=None, validator=or_none(text))
    precharge: str | None = field(default=None, validator=or_none(text))
    latency: int | str = field(default=0, validator=ticks_or_sum)
    blocking: bool = field(default=False, validator=boolean)
    mode: str = field(default="any", validator=one_of("any", "bank", "register"))
    does: tuple[str, ...] = field(default=(), converter=as_tuple, validator=_functions)
    energy_fj: int | None = field(default=None, validator=or_none(not_negative))
    function_fj: Mapping[str, int] = field(
        factory=dict, validator=_by_function, metadata={"kind": Table(Value(not_negative))}
    )

    def issue_fj(self, function: str) -> int | None:
        """Femtojoules of one issue that carries a function, or `nothing`; None if no source gives them."""
        return self.function_fj.get(function, self.energy_fj)


@frozen(kw_only=True)
class AllBankMode:
    """Mode in which one command reaches every PIM block of a rank (HBM-PIM).

    It begins when row `enter_row` has been activated in all `enter_banks` of a rank and ends when row `leave_row` has
    been closed in all `leave_banks`. In between only the first `banks` banks of a rank can be activated. Banks count
    within the rank.
    """

    enter_row: int = field(validator=not_negative)
    enter_banks: tuple[int, ...] = field(converter=as_tuple, validator=_masks)
    leave_row: int = field(validator=not_negative)
    leave_banks: tuple[int, ...] = field(converter=as_tuple, validator=_masks)
    banks: int = field(validator=positive)


@frozen(kw_only=True)
class Controller:
    """How commands are chosen: `policy`, and `queue` entries for each node of level `queue_at`.

    Commands come through an entry queue of `entry_queue` entries (policy `window`). `mode_change` is issued between
    commands of different modes.
    """

    policy: str = field(validator=one_of("in-order", "ready-first", "window"))
    queue: int = field(validator=positive)
    queue_at: str = field(default="group", validator=text)
    entry_queue: int = field(default=0, validator=not_negative)
    mode_change: str | None = field(default=None, validator=or_none(text))
    all_bank_mode: AllBankMode | None = field(default=None, metadata={"kind": record_of(AllBankMode)})


@frozen(kw_only=True)
class Refresh:
    """One `command` for each node of level `at`: at tick `first`, `stagger` ticks later at the next node; then
    every `interval`. `idle` further nodes without cores are refreshed in turn (policy `window`).
    """

    command: str = field(validator=text)
    at: str = field(default="group", validator=text)
    first: int | str = field(validator=ticks_or_sum)
    stagger: int | str = field(default=0, validator=ticks_or_sum)
    interval: int | str = field(validator=ticks_or_sum)
    idle: int = field(default=0, validator=not_negative)
