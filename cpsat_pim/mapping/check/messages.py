"""Texts that the rules' messages share."""

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Direction, Level, Tensor

DIRECTION_WORDS = {Direction.H: "H", Direction.W: "W", Direction.INTERNAL: "Internal"}


def sum_text(sizes: dict[Tensor, int]) -> str:
    """Format a sum of tensor sizes: `I 3 + W 4 = 7 B`."""
    parts = " + ".join(f"{tensor.name} {size}" for tensor, size in sizes.items())
    return f"{parts} = {sum(sizes.values())} B"


def capacity_text(arch: PIMArchitecture, level: Level) -> str:
    """State the usable bytes of a level, and why they are fewer than its capacity."""
    usable, whole = arch.usable_bytes(level), arch.hierarchy[level].capacity_bytes
    return f"there are {usable} B" + (f" (half of {whole} B: double buffered)" if usable < whole else "")


def letters(order: tuple[Dim, ...]) -> str:
    """Format a loop order, outermost first: `CKP`."""
    return "".join(Dim(dim).name for dim in order)
