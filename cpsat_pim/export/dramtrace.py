"""Write the DRAM accesses of a mapping as a trace for Ramulator 2 or DRAMsim3 (docs/export.md)."""

import itertools
from collections.abc import Callable, Sequence
from typing import TextIO

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Tensor
from cpsat_pim.base.validate import not_negative, positive
from cpsat_pim.evaluate.verify import stream_columns
from cpsat_pim.mapping import ONE_BANK, OWN_BANKS, BankCounts, Banks, Mapping, banks_text, first_banks
from cpsat_pim.workload import ConvWorkload
from tracesim.stream import ADDRESS, IS_WRITE, TENSOR

Ints = NDArray[np.int64]

#: Simulators read an address as a signed 64-bit integer.
ADDRESS_BITS = 63

#: Default for the rows of a bank: that of the configurations in docs/export.md.
DEFAULT_ROW_BITS = 16

#: Default for the cycles between accesses: more than any single access takes, so that none overtakes another.
DEFAULT_GAP = 128


@frozen(kw_only=True)
class AddressMap:
    """The physical address of a tensor's byte: `bank | row | column | byte`, most significant field first.

    A part of the tensors (`shared`, as `Mapping.banks`) has `counts[t] * banks` banks behind those of the parts before
    it. Row r of tensor t is row `r div b` of the (`r mod b`)-th of its part's b banks, counted from `first_rows[t]` on.
    `row_bits` is given; the other fields are as wide as their largest value requires.

    Raises:
        ValueError: a figure is not positive, or an address would have more than 63 bits.
    """

    banks: int = field(validator=positive)
    row_bytes: int = field(validator=positive)
    column_bytes: int = field(validator=positive)
    row_bits: int = field(validator=not_negative)
    shared: Banks = OWN_BANKS
    counts: BankCounts = ONE_BANK
    first_rows: tuple[int, int, int] = (0, 0, 0)

    def __attrs_post_init__(self) -> None:
        bits = self.bank_bits + self.row_bits + self.column_bits + self.byte_bits
        if bits > ADDRESS_BITS:
            raise ValueError(f"AddressMap.row_bits: an address may have {ADDRESS_BITS} bits (got {bits})")

    @classmethod
    def of(
        cls,
        arch: PIMArchitecture,
        row_bits: int,
        shared: Banks = OWN_BANKS,
        counts: BankCounts = ONE_BANK,
        rows: Sequence[int] = (0, 0, 0),
    ) -> "AddressMap":
        """Return the address map of a machine and the banks of a mapping; `rows` that each tensor takes, where tensors
        share banks.
        """
        own = [count * arch.banks for count in counts]
        first = [sum(-(-rows[u] // own[u]) * own[u] for u in range(t) if shared[u] == shared[t]) for t in range(3)]
        return cls(
            banks=arch.banks,
            row_bytes=arch.row_bytes,
            column_bytes=arch.column_bytes,
            row_bits=row_bits,
            shared=shared,
            counts=counts,
            first_rows=(first[0], first[1], first[2]),
        )

    @property
    def bank_bits(self) -> int:
        """Bits of the bank, over the banks of all three tensors."""
        return _bits(sum(self.tensor_banks))

    @property
    def tensor_banks(self) -> tuple[int, ...]:
        """Number of banks of each tensor's part."""
        return tuple(count * self.banks for count in self.counts)

    @property
    def column_bits(self) -> int:
        """Bits of the column within a row."""
        return _bits(self.row_bytes // self.column_bytes)

    @property
    def byte_bits(self) -> int:
        """Bits of the byte within a column; they are 0 in a trace."""
        return _bits(self.column_bytes)

    def addresses(self, tensor: Ints, address: Ints) -> Ints:
        """Convert the addresses of columns within their tensors (of their first bytes) to physical addresses."""
        row, byte = np.divmod(address, self.row_bytes)
        row, bank = np.divmod(row + np.array(self.first_rows)[tensor], np.array(self.tensor_banks)[tensor])
        first = self.banks * np.array(first_banks(self.shared, self.counts))
        place = (first[tensor] + bank) << self.row_bits | row
        physical: Ints = (place << self.column_bits | byte // self.column_bytes) << self.byte_bits
        return physical

    def __str__(self) -> str:
        """Return the fields with their widths."""
        held = "I W O" if self.shared == OWN_BANKS else banks_text(self.shared)
        return (
            f"bank {self.bank_bits} | row {self.row_bits} | column {self.column_bits} | byte {self.byte_bits} bits, "
            f"{held} in {self._banks_text()} from bank 0"
        )

    def _banks_text(self) -> str:
        """Return how many banks the parts have: `1 bank each`, or those of I, W and O."""
        if self.counts != ONE_BANK:
            return f"{', '.join(map(str, self.tensor_banks))} banks"
        return f"{self.banks} bank{'s' if self.banks > 1 else ''} each"


def _bits(count: int) -> int:
    """Return the number of bits that numbers `count` items."""
    return (count - 1).bit_length()


# --- Lines -----------------------------------------------------------------------------------------------------------


def _ramulator2(address: int, is_write: int, cycle: int) -> str:
    """Format an access for Ramulator 2's LoadStoreTrace: `LD|ST address`; it has no times."""
    return f"{'ST' if is_write else 'LD'} {address:#x}\n"


def _dramsim3(address: int, is_write: int, cycle: int) -> str:
    """Format an access for DRAMsim3: `address READ|WRITE cycle`."""
    return f"{address:#x} {'WRITE' if is_write else 'READ'} {cycle}\n"


#: The formats: each formats an access from its address, its direction, and its cycle.
FORMATS: dict[str, Callable[[int, int, int], str]] = {"ramulator2": _ramulator2, "dramsim3": _dramsim3}


def write_trace(
    layer: ConvWorkload,
    arch: PIMArchitecture,
    mapping: Mapping,
    style: str,
    file: TextIO,
    *,
    row_bits: int = DEFAULT_ROW_BITS,
    gap: int = DEFAULT_GAP,
    tensor: Tensor | None = None,
) -> AddressMap:
    """Write a line for every column access (of one tensor, if given) in order, `gap` cycles apart, without holding all
    of them in memory.

    Raises:
        ValueError: the rows of a tensor do not fit `row_bits`.
        OSError: the file cannot be written.
    """
    stream = stream_columns(layer, arch, mapping)
    rows = stream.rows.tolist()
    addresses = AddressMap.of(arch, row_bits, mapping.banks, mapping.bank_counts, rows)
    _check_rows_fit(rows, addresses)
    cycles = itertools.count(0, gap)
    for bufferful in stream.bufferfuls:
        accesses = bufferful if tensor is None else bufferful[bufferful[:, TENSOR] == tensor]
        places = addresses.addresses(accesses[:, TENSOR], accesses[:, ADDRESS])
        file.writelines(map(FORMATS[style], places.tolist(), accesses[:, IS_WRITE].tolist(), cycles))
    return addresses


def _check_rows_fit(rows: list[int], addresses: AddressMap) -> None:
    """Raise a ValueError if a bank of 2^row_bits rows is too small."""
    for tensor in Tensor:
        end, banks = addresses.first_rows[tensor] + rows[tensor], addresses.tensor_banks[tensor]
        needed = _bits(-(-end // banks))
        if needed > addresses.row_bits:
            raise ValueError(
                f"--row-bits: {tensor.name} takes {end} rows in {banks} banks, which needs {needed} "
                f"(got {addresses.row_bits})"
            )
