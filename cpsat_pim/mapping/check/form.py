"""Check that a mapping is well-formed, before anything is computed from it."""

from collections.abc import Iterator

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import BUFFERS, ON_CHIP, Dim, Level, Tensor
from cpsat_pim.base.validate import is_integer
from cpsat_pim.mapping import BANKS, Mapping, is_bank_count
from cpsat_pim.mapping.check.messages import DIRECTION_WORDS


@frozen
class Form:
    """The rules of form, which all other rules rely on: sizes and types of the mapping's tables."""

    arch: PIMArchitecture
    mapping: Mapping

    def violations(self) -> Iterator[str]:
        """Yield a line per violated rule."""
        yield from self._factors_are_positive_integers()
        yield from self._orders_name_dims()
        yield from self._storage_is_boolean()
        yield from self._layouts_are_known()
        yield from self._blocks_are_integers()
        yield from self._points_are_in_the_orders()
        yield from self._banks_are_known()
        yield from self._bank_counts_are_powers_of_two()

    def _factors_are_positive_integers(self) -> Iterator[str]:
        """Four temporal and three spatial rows have one positive integer per dim (Eq. 12)."""
        levels = [level.name for level in self.arch.hierarchy]
        yield from _rows_have_factors("temporal", levels, self.mapping.temporal)
        yield from _rows_have_factors("spatial", [*DIRECTION_WORDS.values()], self.mapping.spatial)

    def _orders_name_dims(self) -> Iterator[str]:
        """Each level has an order, which contains only dims."""
        if len(self.mapping.order) != len(Level):
            yield f"order: must have {len(Level)} levels (got {len(self.mapping.order)})"
        for level, order in zip(self.arch.hierarchy, self.mapping.order, strict=False):
            for entry in order:
                if not is_integer(entry) or not 0 <= entry < len(Dim):
                    yield f"{level.name}: the order must name dims (got {entry!r})"

    def _storage_is_boolean(self) -> Iterator[str]:
        """Each level below DRAM has a boolean per tensor (Eq. 6)."""
        stored = self.mapping.stored
        if [len(row) for row in stored] != [len(Tensor)] * len(BUFFERS):
            yield f"stored: must have {len(BUFFERS)} levels of {len(Tensor)} tensors (got {stored!r})"
        if not all(isinstance(entry, bool) for row in stored for entry in row):
            yield f"stored: must be true or false (got {stored!r})"

    def _layouts_are_known(self) -> Iterator[str]:
        """Each tensor has one of its two axis orders (Eq. 21, 50, 51)."""
        layout = self.mapping.layout
        if len(layout) != len(Tensor) or not all(is_integer(index) and index in (0, 1) for index in layout):
            yield f"layout: must be 0 or 1 for each of I, W, O (got {layout!r})"

    def _blocks_are_integers(self) -> Iterator[str]:
        """The sides of input blocks are integers."""
        for side in ("block_h", "block_w"):
            if not is_integer(getattr(self.mapping, side)):
                yield f"{side}: must be an integer (got {getattr(self.mapping, side)!r})"

    def _points_are_in_the_orders(self) -> Iterator[str]:
        """At the PEs and the global buffer, the number of loops outside a tile is between 0 and the level's number of
        loops.
        """
        outside = self.mapping.outside
        if [len(row) for row in outside] != [len(Tensor)] * len(ON_CHIP):
            yield f"outside: must have {len(ON_CHIP)} levels of {len(Tensor)} tensors (got {outside!r})"
        for level, row, order in zip(self.arch.hierarchy, outside, self.mapping.order, strict=False):
            for entry in row:
                if not is_integer(entry) or not 0 <= entry <= len(order):
                    yield f"{level.name}: the loops outside a tile must be 0 to {len(order)} (got {entry!r})"

    def _banks_are_known(self) -> Iterator[str]:
        """The tensors are divided among banks in one of the five ways."""
        if self.mapping.banks not in BANKS.values():
            yield f"banks: must be one of {', '.join(map(str, BANKS.values()))} (got {self.mapping.banks!r})"

    def _bank_counts_are_powers_of_two(self) -> Iterator[str]:
        """Each tensor has a number of banks that is a power of two, as bits of an address name the bank."""
        counts = self.mapping.bank_counts
        if len(counts) != len(Tensor) or not all(is_bank_count(count) for count in counts):
            yield f"bank_counts: must be a power of two for each of I, W, O (got {counts!r})"


def _rows_have_factors(table: str, names: list[str], rows: tuple[tuple[int, ...], ...]) -> Iterator[str]:
    """Yield a line per row that is not one positive integer per dim."""
    if len(rows) != len(names):
        yield f"{table}: must have {len(names)} rows (got {len(rows)})"
    for name, row in zip(names, rows, strict=False):
        if len(row) != len(Dim):
            yield f"{name}: must have {len(Dim)} {table} factors (got {len(row)})"
        for dim, factor in zip(Dim, row, strict=False):
            if not is_integer(factor) or factor < 1:
                yield f"{name}: the {table} factor of {dim.name} must be a positive integer (got {factor!r})"
