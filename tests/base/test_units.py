"""Units: what amounts come to, exactly, and what is refused."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.base.units import UNITS, amount_in, exact_number, to_fj, unit_named

SCALES = {"element": Fraction(2), "cycle": Fraction(400_000_000)}


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("64 KiB", "B", 65536),
        ("64KiB", "B", 65536),
        ("64 kB", "B", 64000),
        ("1.5 MiB", "B", 3 * 2**19),
        ("256 bit", "B", 32),
        ("32 B", "bit", 256),
        ("1 Gibit", "B", 2**27),
        ("64 KiB", "element", 32768),
        ("3 B", "element", Fraction(3, 2)),
        ("1.2 pJ", "nJ", Fraction(12, 10_000)),
        ("828 pJ", "nJ", Fraction(828, 1000)),
        ("1 mJ", "nJ", 10**6),
        ("0.88 pJ/bit", "nJ/element", Fraction(88 * 16, 100_000)),
        ("804 pJ / 64 B", "nJ/element", Fraction(804 * 2, 64_000)),
        ("1 pJ/element", "nJ/element", Fraction(1, 1000)),
        ("500 MHz", "Hz", 500_000_000),
        ("14 ns", "cycle", 6),  # 5.6
        ("15 ns", "cycle", 6),  # 6 exactly
        ("15001 ps", "cycle", 7),
        ("0 ns", "cycle", 0),
        ("-1 ns", "cycle", -1),  # never 0: a mistake stays one
        ("3 cycles", "cycle", 3),
        ("25.6 GB/s", "B/cycle", 64),
        ("1 GB/s", "B/cycle", Fraction(5, 2)),  # a rate is not rounded
        ("32 B / 2 cycles", "B/cycle", 16),
        ("1 µs", "cycle", 400),
        ("1e3 ns", "cycle", 400),
    ],
)
def test_amounts_are_exact(text, unit, value):
    """Two bytes an element, 400 MHz: 2.5 ns a cycle."""
    assert amount_in(text, (unit,), SCALES) == value


@pytest.mark.parametrize(
    ("text", "units", "message"),
    [
        ("64", ("B",), "must be a number, or one with a unit such as B"),
        ("KiB", ("B",), "must be a number, or one with a unit such as B"),
        ("64 KiB KiB", ("B",), "must be a number, or one with a unit such as B"),
        ("1/2 B", ("B",), "must be a number, or one with a unit such as B"),
        ("64 KB", ("B",), "has the unknown unit 'KB'; did you mean kB?"),
        ("1 pj", ("nJ",), "has the unknown unit 'pj'; did you mean pJ?"),
        ("1.6 nS", ("nJ",), "has the unknown unit 'nS'; did you mean nJ?"),  # not ns, which is no energy
        ("14 nS", ("cycle",), "has the unknown unit 'nS'; did you mean ns?"),
        ("12 mj", ("W",), "has the unknown unit 'mj'; did you mean mW?"),
        ("64 kb", ("element",), "has the unknown unit 'kb'; did you mean kB?"),
        ("1 furlong", ("nJ",), "has the unknown unit 'furlong'"),
        ("1 pJ/bot", ("nJ/element",), "has the unknown unit 'bot'; did you mean bit or kbit?"),
        ("1 pJ / 0 B", ("nJ/element",), "has a number that is too long or divides by 0"),
        ("1e99 B", ("B",), "has a number that is too long or divides by 0"),
        ("14 ns", ("B",), "must be in B, not in ns"),
        ("14 ns", ("nJ/element", "nJ"), "must be in nJ/element or nJ, not in ns"),
        ("1 GB/s", ("B",), "must be in B, not in GB/s"),
        ("1 GB", ("B/cycle",), "must be in B/cycle, not in GB"),
        ("2 cycles", ("B",), "must be in B, not in cycles"),
        ("5 ns", ("Hz",), "must be in Hz, not in ns"),
    ],
)
def test_amounts_of_another_kind_are_refused(text, units, message):
    """The unit is named."""
    with pytest.raises(ValueError, match=r".") as caught:
        amount_in(text, units, SCALES)
    assert str(caught.value) == message


def test_times_need_a_clock():
    """Without cycles a second there are no cycles."""
    with pytest.raises(ValueError, match="needs the machine's clock"):
        amount_in("14 ns", ("cycle",), {})


@given(st.fractions(min_value=0, max_value=10**9, max_denominator=1000), st.sampled_from(sorted(UNITS)))
def test_units_convert_there_and_back(amount, name):
    """A decimal in one unit is that many of its scale in the base unit, and no digit is lost."""
    digits = int(amount * 1000)
    text = f"{digits // 1000}.{digits % 1000:03d} {name}"
    base = {"B": "B", "element": "element", "s": "s", "cycle": "cycle", "J": "J", "Hz": "Hz", "W": "W"}
    (target,) = (unit for unit in base if UNITS[unit].powers == UNITS[name].powers)
    assert amount_in(text, (target,), {}) == Fraction(digits, 1000) * unit_named(name).scale


def test_numbers_that_are_too_long_are_none():
    """Nobody waits for a number of a million digits."""
    assert exact_number("1e41") is None
    assert exact_number("1" * 41) is None
    assert exact_number("1e40") == 10**40
    assert exact_number("abc") is None


def test_fractions_of_femtojoules_are_rounded():
    """5117.1875 fJ are 5117."""
    assert to_fj(5.1171875e-3) == 5117
