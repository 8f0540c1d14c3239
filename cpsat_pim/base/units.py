"""Exact integers and fractions from the figures of data sheets and listings, with their units."""

import difflib
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

#: Femtojoules per nanojoule: listings give nJ, the solver and the tables use integer fJ.
FJ_PER_NJ = 1_000_000


def to_fj(energy_nj: float) -> int:
    """Convert an energy in nJ, as written in a listing, to integer fJ (rounded to the nearest)."""
    return round(Fraction(str(energy_nj)) * FJ_PER_NJ)


def to_fraction(value: float | Fraction) -> Fraction:
    """Return a decimal number exactly as written: 0.1 is 1/10, not its binary neighbour."""
    return value if isinstance(value, Fraction) else Fraction(str(value))


# --- Units -----------------------------------------------------------------------------------------------------------


class Unit(NamedTuple):
    """A unit: its scale, and its powers of bytes, elements, seconds, cycles and joules."""

    scale: Fraction
    powers: tuple[int, int, int, int, int]

    def per(self, other: "Unit") -> "Unit":
        """Return this unit divided by another."""
        powers = tuple(a - b for a, b in zip(self.powers, other.powers, strict=True))
        return Unit(self.scale / other.scale, powers)  # type: ignore[arg-type]


_POWERS = {"B": (1, 0, 0, 0, 0), "element": (0, 1, 0, 0, 0), "s": (0, 0, 1, 0, 0), "cycle": (0, 0, 0, 1, 0)}
_POWERS |= {"J": (0, 0, 0, 0, 1), "Hz": (0, 0, -1, 0, 0), "W": (0, 0, -1, 0, 1)}
_SMALL = {"m": -3, "u": -6, "µ": -6, "n": -9, "p": -12, "f": -15}
_LARGE = {"k": 3, "M": 6, "G": 9, "T": 12}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}


def _build_units() -> dict[str, Unit]:
    """Return all units by name."""
    small, large = ({p: Fraction(10) ** n for p, n in table.items()} for table in (_SMALL, _LARGE))
    sizes = large | {p: Fraction(2) ** n for p, n in _BINARY.items()}
    units = {"bit": Unit(Fraction(1, 8), _POWERS["B"])}
    units |= {name: Unit(Fraction(1), powers) for name, powers in _POWERS.items()}
    units |= {name + "s": units[name] for name in ("bit", "element", "cycle")}
    for name, prefixes in (("s", small), ("J", small), ("W", small), ("Hz", large), ("B", sizes), ("bit", sizes)):
        units |= {p + name: Unit(units[name].scale * scale, units[name].powers) for p, scale in prefixes.items()}
    return units


UNITS = _build_units()

_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,3})?"
_NAME = r"[A-Za-zµ]+"
_AMOUNT = re.compile(rf"({_NUMBER})\s*({_NAME})(?:\s*/\s*(?:({_NUMBER})\s*)?({_NAME}))?")
#: What JSON Schema can check of an amount: a number followed by a unit.
AMOUNT_PATTERN = rf"^{_NUMBER}\s*{_NAME}(\s*/\s*({_NUMBER}\s*)?{_NAME})?$"
#: Limits that no real figure reaches: digits, and the decimal exponent.
_DIGITS, _EXPONENT = 40, 40


def exact_number(text: str) -> Fraction | None:
    """Read a decimal number exactly; None if the text is not a number or has too many digits."""
    match = re.fullmatch(r"([-+]?[0-9]+(?:\.[0-9]*)?)(?:[eE]([-+]?[0-9]{1,3}))?", text)
    if match is None or len(match[1]) > _DIGITS or abs(int(match[2] or 0)) > _EXPONENT:
        return None
    return Fraction(match[1].removesuffix(".")) * Fraction(10) ** int(match[2] or 0)


def measured_in(*units: str) -> dict[str, Any]:
    """Return the metadata of an attrs field: the unit of a bare number (first), and other units that are accepted."""
    return {"units": units}


def unit_named(text: str, wanted: tuple[str, ...] = ()) -> Unit:
    """Return the unit of a name such as `B` or `B/cycle`. `wanted`: units to which it should be convertible.

    Raises:
        ValueError: there is no such unit.
    """
    above, _, below = text.partition("/")
    for name in filter(None, (above, below)):
        if name not in UNITS:
            raise ValueError(f"has the unknown unit {name!r}" + _hint(name, () if below else wanted))
    return UNITS[above].per(UNITS[below]) if below else UNITS[above]


def amount_in(text: str, units: tuple[str, ...], scales: Mapping[str, Fraction]) -> Fraction:
    """Convert an amount such as `64 KiB`, `1.2 pJ`, `0.88 pJ/bit` or `804 pJ / 64 B` to the first unit that fits,
    exactly.

    `scales["element"]` is bytes per element and `scales["cycle"]` cycles per second; they convert bytes to elements and
    seconds to cycles. A time in whole cycles is rounded up, because data sheets give minimum times.

    Raises:
        ValueError: the text is not a number with a unit, or the unit is unknown or of another dimension.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"must be a number, or one with a unit such as {units[0]}")
    number, name, divisor, below = match.groups()
    given = unit_named(f"{name}/{below}" if below else name, units)
    amount, parts = exact_number(number), exact_number(divisor or "1")
    if amount is None or not parts:
        raise ValueError("has a number that is too long or divides by 0")
    for wanted in units:
        result = _converted(amount / parts, given, unit_named(wanted), scales)
        if result is not None:
            return result
    raise ValueError(f"must be in {' or '.join(units)}, not in {name}{f'/{below}' if below else ''}")


def _converted(amount: Fraction, given: Unit, wanted: Unit, scales: Mapping[str, Fraction]) -> Fraction | None:
    """Convert an amount to another unit; None if the dimensions differ."""
    ratio = given.per(wanted)
    if not _is_number(ratio):
        return None
    size, _, time, _, _ = ratio.powers
    if time and "cycle" not in scales:
        raise ValueError("needs the machine's clock, such as `clock: 500 MHz`")
    bytes_an_element, cycles_a_second = (scales.get(key, Fraction(1)) for key in ("element", "cycle"))
    result = amount * ratio.scale / bytes_an_element**size * cycles_a_second**time
    return _whole(result) if time == 1 and not size else result


def _whole(cycles: Fraction) -> Fraction:
    """Round away from 0: a minimum time must not become shorter, and a negative number stays negative."""
    return Fraction(-(-cycles // 1) if cycles > 0 else cycles // 1)


def _is_number(ratio: Unit) -> bool:
    """Return whether a ratio of units is a number, once bytes are elements and seconds are cycles."""
    size, elements, time, cycles, energy = ratio.powers
    return not (size + elements or time + cycles or energy)


def _hint(name: str, wanted: tuple[str, ...]) -> str:
    """Suggest units with a similar name, preferably one that differs only in case. Only if none of these can be
    converted to the wanted ones, others.
    """
    fitting = [unit for unit in UNITS if any(_is_number(UNITS[unit].per(unit_named(other))) for other in wanted)]
    for units in (fitting, UNITS):
        same = [unit for unit in units if unit.lower() == name.lower()]
        close = same or difflib.get_close_matches(name, units, n=2, cutoff=0.5)
        if close:
            return f"; did you mean {' or '.join(close)}?"
    return ""
