"""Ticks: named timings, sums of them, and constraints between commands (`docs/devices.md`, section 3)."""

import re
from collections.abc import Mapping

from attrs import field, frozen

from cpsat_pim.base.validate import Rule, as_tuple, boolean, is_integer, text

_SUM = re.compile(r"\s*([-+]?)\s*([A-Za-z]\w*|\d+)")


def _is_sum(value: object) -> bool:
    """Whether a value is ticks or text such as `nCL + nBL + 2 - nCWL`."""
    return (is_integer(value) and value >= 0) or (  # type: ignore[operator]
        isinstance(value, str) and re.fullmatch(rf"(?:{_SUM.pattern})+\s*", value) is not None
    )


def _are_names(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(name, str) and name for name in value)


#: Ticks, or a sum of timings.
ticks_or_sum = Rule(
    "must be ticks, or a sum of timings such as nCL + nBL - 1", _is_sum, {"type": ["integer", "string"]}
)
names = Rule("must be a list of names", _are_names, {"type": "array", "items": {"type": "string"}, "minItems": 1})

_window = Rule(
    "must be 1 to 4", lambda v: is_integer(v) and 1 <= v <= 4, {"type": "integer", "minimum": 1, "maximum": 4}
)


def ticks_of(value: int | str, timings: Mapping[str, int]) -> int:
    """Return the ticks of a sum such as `nCL + nBL - 1`.

    Raises:
        ValueError: a timing that there is not.
    """
    if isinstance(value, int):
        return value
    total = 0
    for sign, term in _SUM.findall(value):
        if not term.isdigit() and term not in timings:
            raise ValueError(f"no such timing as {term}, there are {', '.join(timings)} (got {value!r})")
        total += (-1 if sign == "-" else 1) * (int(term) if term.isdigit() else timings[term])
    return total


@frozen(kw_only=True)
class Constraint:
    """No command of `after` is issued within `ticks` of one of `before` through the same node of level `at`.

    `window`: counted from the `window`-th last command instead of the last. `siblings`: between different nodes below
    one parent, for banks that have a row open.
    """

    before: tuple[str, ...] = field(converter=as_tuple, validator=names)
    after: tuple[str, ...] = field(converter=as_tuple, validator=names)
    at: str = field(validator=text)
    ticks: int | str = field(validator=ticks_or_sum)
    window: int = field(default=1, validator=_window)
    siblings: bool = field(default=False, validator=boolean)
