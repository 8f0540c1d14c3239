"""Texts that the rules' messages share."""

from collections.abc import Iterator
from fractions import Fraction

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Direction, Level, Tensor

DIRECTION_WORDS = {Direction.H: "H", Direction.W: "W", Direction.INTERNAL: "Internal"}


def sum_text(sizes: dict[Tensor, int]) -> str:
    """Format a sum of tensor sizes: `I 3 + W 4 = 7 B`."""
    parts = " + ".join(f"{tensor.name} {_amount(size)}" for tensor, size in sizes.items())
    return f"{parts} = {_amount(sum(sizes.values()))} B"


def _amount(size: int | Fraction) -> str:
    """Format a number of bytes, of which elements of a few bits may leave a fraction."""
    return f"{size}" if size % 1 == 0 else f"{float(size)}"


def overfull(arch: PIMArchitecture, level: Level, sizes: dict[Tensor, int]) -> Iterator[str]:
    """Yield a text for each buffer of a level that has no room for its tiles of so many bytes (Eq. 17)."""
    if arch.hierarchy[level].is_shared:
        if sum(sizes.values()) > arch.usable_bytes(level):
            yield f"{sum_text(sizes)}, {capacity_text(arch, level)}"
        return
    for tensor, size in sizes.items():
        if size > arch.usable_bytes_of(level, tensor):
            yield f"{sum_text({tensor: size})}, {capacity_text(arch, level, tensor)}"


def capacity_text(arch: PIMArchitecture, level: Level, tensor: Tensor | None = None) -> str:
    """State the usable bytes of a level, or of its buffer for a tensor, and why they are fewer than its capacity."""
    memory = arch.hierarchy[level]
    usable, whole, whose = arch.usable_bytes(level), memory.capacity_bytes, ""
    if tensor is not None and not memory.is_shared:
        usable, whole = arch.usable_bytes_of(level, tensor), memory.entries_of(tensor) * memory.word_bytes
        whose = f" for {tensor.name}"
    return f"there are {usable} B{whose}" + (f" (half of {whole} B: double buffered)" if usable < whole else "")


def letters(order: tuple[Dim, ...]) -> str:
    """Format a loop order, outermost first: `CKP`."""
    return "".join(Dim(dim).name for dim in order)
