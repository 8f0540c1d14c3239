"""Exact integers from the decimal figures of data sheets and listings."""

from fractions import Fraction

#: Femtojoules per nanojoule: listings give nJ, the solver and the tables see integer fJ.
FJ_PER_NJ = 1_000_000


def to_fj(energy_nj: float) -> int:
    """Energy in nJ, as written in a listing, as integer fJ (rounded to the nearest)."""
    return round(Fraction(str(energy_nj)) * FJ_PER_NJ)


def to_fraction(value: float | Fraction) -> Fraction:
    """The decimal as written, exactly (0.1 is 1/10, not its binary neighbour)."""
    return value if isinstance(value, Fraction) else Fraction(str(value))
