"""The traces, replayed: what a simulator counts that serves them in order is what `simulate` says."""

import io
import math
from collections import Counter
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.export.dramtrace import AddressMap, write_trace
from cpsat_pim.mapping import BANKS, Mapping
from cpsat_pim.workload import ConvWorkload
from tests.cross.cases import Case, cases, in_one_bank, in_several_banks

#: Of traces written by hand; and enough for every layer that is drawn, in rows of a single element.
ROW_BITS, MANY_ROW_BITS = 12, 20
NO_LOOPS = [[1] * 8] * 4
NO_SPREAD = [[1] * 8] * 3
STORED = [[True] * 3, [False] * 3, [False] * 3]

Access = tuple[int, bool]


def trace(case: Case, style: str, row_bits: int = ROW_BITS, **options: Any) -> str:
    """What is written for a case."""
    file = io.StringIO()
    write_trace(case.layer, case.arch, case.mapping, style, file, row_bits=row_bits, **options)
    return file.getvalue()


def read_ramulator2(text: str) -> list[Access]:
    """Addresses, and whether they are stored to, as LoadStoreTrace reads them."""
    words = [line.split(" ") for line in text.splitlines()]
    assert {way for way, _ in words} <= {"LD", "ST"}
    return [(int(address, 16), way == "ST") for way, address in words]


def read_dramsim3(text: str, gap: int) -> list[Access]:
    """Addresses, and whether they are written, as DRAMsim3 reads them; one comes every `gap` cycles."""
    words = [line.split(" ") for line in text.splitlines()]
    assert {way for _, way, _ in words} <= {"READ", "WRITE"}
    assert [int(cycle) for _, _, cycle in words] == [n * gap for n in range(len(words))]
    return [(int(address, 16), way == "WRITE") for address, way, _ in words]


class OpenRows:
    """A memory that serves one request at a time and leaves rows open; it counts by tensor."""

    def __init__(self, arch: PIMArchitecture) -> None:
        self.banks = arch.banks
        self.below_column = int(math.log2(arch.column_bytes))
        self.below_row = int(math.log2(arch.row_bytes))  # a row's columns and their bytes
        self.open: dict[int, int] = {}
        self.columns: Counter[int] = Counter()
        self.activations: Counter[int] = Counter()

    def serve(self, address: int) -> None:
        """One column access."""
        assert address % 2**self.below_column == 0
        bank, row = divmod(address >> self.below_row, 2**MANY_ROW_BITS)
        tensor = bank // self.banks
        self.columns[tensor] += 1
        if self.open.get(bank) != row:
            self.open[bank] = row
            self.activations[tensor] += 1


@settings(max_examples=150)
@given(cases(), st.sampled_from([0, 1, 200]))
def test_replayed_trace_opens_the_rows_and_columns_that_are_simulated(case: Case, gap: int) -> None:
    """Whatever the mapping: both formats hold the same accesses; columns and activations of each tensor are right."""
    accesses = read_ramulator2(trace(case, "ramulator2", MANY_ROW_BITS))
    assert read_dramsim3(trace(case, "dramsim3", MANY_ROW_BITS, gap=gap), gap) == accesses
    memory = OpenRows(case.arch)
    for address, _ in accesses:
        memory.serve(address)
    figures = simulate(case.layer, attrs.evolve(case.arch, page_policy="open"), case.mapping)
    assert tuple(memory.columns[t] for t in range(3)) == figures.column_accesses
    assert tuple(memory.activations[t] for t in range(3)) == figures.row_activations


@settings(max_examples=100)
@given(st.one_of(st.builds(in_one_bank, cases(uneven=True), st.sampled_from(list(BANKS))), in_several_banks()))
def test_replayed_trace_of_numbered_banks_opens_as_many_rows_as_are_simulated(case: Case) -> None:
    """Rows of all tensors together; no address lies in a bank that holds no tensor, or in two tensors."""
    arch = attrs.evolve(case.arch, page_policy="open")
    shared, memory = attrs.evolve(case, arch=arch), OpenRows(arch)
    accesses = read_ramulator2(trace(shared, "ramulator2", MANY_ROW_BITS))
    for address, _ in accesses:
        memory.serve(address)
    figures = simulate(shared.layer, arch, shared.mapping)
    assert sum(memory.activations.values()) == sum(figures.row_activations)
    assert max(memory.columns) < sum(case.mapping.part_banks)
    assert not {a for a, is_write in accesses if is_write} & {a for a, is_write in accesses if not is_write} or (
        figures.accesses[3][2][0] > 0  # only outputs that return are both read and written
    )


@settings(max_examples=50)
@given(cases())
def test_only_outputs_are_written(case: Case) -> None:
    """What is stored to lies in the banks after those of I and W."""
    for address, is_write in read_ramulator2(trace(case, "ramulator2", MANY_ROW_BITS)):
        bank = address // case.arch.row_bytes >> MANY_ROW_BITS
        assert not is_write or bank // case.arch.banks == 2


# --- Addresses -------------------------------------------------------------------------------------------------------


def test_fields_of_an_address_lie_where_the_map_says() -> None:
    """Row 5 of W in 2 banks of rows of 4 columns of 8 bytes is row 2 of bank 2 + 1; its byte 16 is column 2."""
    addresses = AddressMap(banks=2, row_bytes=32, column_bytes=8, row_bits=4)
    place = int(addresses.addresses(np.array([1]), np.array([5 * 32 + 16]))[0])
    assert f"{place:b}" == "11" + "0010" + "10" + "000"
    assert str(addresses).startswith("bank 3 | row 4 | column 2 | byte 3 bits")


def test_parts_with_several_banks_lie_behind_each_other() -> None:
    """I has banks 0 to 3, W and O bank 4 and 5: row 6 of I is row 1 of bank 2, row 6 of W row 6 of bank 4."""
    addresses = AddressMap(banks=1, row_bytes=32, column_bytes=8, row_bits=4, counts=(4, 1, 1))
    i, w = (int(addresses.addresses(np.array([t]), np.array([6 * 32]))[0]) for t in (0, 1))
    assert (f"{i:b}", f"{w:b}") == ("10" + "0001" + "00" + "000", "100" + "0110" + "00" + "000")
    assert str(addresses).endswith("I W O in 4, 1, 1 banks from bank 0")


def test_sizes_that_are_no_powers_of_two_have_addresses_of_their_own() -> None:
    """3 banks of rows of 3 columns of 24 bytes: no two columns of three tensors of 20 rows share an address."""
    addresses = AddressMap(banks=3, row_bytes=72, column_bytes=24, row_bits=3)
    first_bytes = np.arange(20 * 3) * 24
    places = [place for t in range(3) for place in addresses.addresses(np.full(60, t), first_bytes).tolist()]
    assert len(set(places)) == 3 * 60
    assert max(places) < 2 ** (4 + 3 + 2 + 5)


def tiny_case(weights: int) -> Case:
    """One fetch of everything; a byte a weight."""
    layer = ConvWorkload(K=weights)
    temporal = [[1, 1, 1, 1, 1, weights, 1, 1], *NO_LOOPS[1:]]
    order = [[5], [], [], []] if weights > 1 else [[]] * 4
    mapping = Mapping(temporal=temporal, spatial=NO_SPREAD, order=order, stored=STORED)
    return Case(layer=layer, arch=PIMArchitecture(), mapping=mapping)


def test_lines_are_what_the_simulators_read() -> None:
    """A MAC: I and W are read, O is written; 2^12 rows of 1 KiB a bank, so banks are 4 MiB apart."""
    case = tiny_case(1)
    assert trace(case, "ramulator2") == "LD 0x0\nLD 0x400000\nST 0x800000\n"
    assert trace(case, "dramsim3", gap=7) == "0x0 READ 0\n0x400000 READ 7\n0x800000 WRITE 14\n"


def test_rows_that_do_not_fit_are_refused_before_anything_is_written() -> None:
    """2^22 weights fill all 2^12 rows of 1 KiB; one more needs a bit more."""
    file = io.StringIO()
    case = tiny_case(2**22 + 1)
    with pytest.raises(ValueError, match=r"W takes 4097 rows in 1 banks, which needs 13 \(got 12\)"):
        write_trace(case.layer, case.arch, case.mapping, "ramulator2", file, row_bits=ROW_BITS)
    assert file.getvalue() == ""
    assert trace(tiny_case(2**22), "ramulator2").count("LD") == 1 + 2**22 // 32


def test_address_of_more_than_63_bits_is_refused() -> None:
    """2 bits of bank, 40 of row, 22 of a row's bytes."""
    with pytest.raises(ValueError, match=r"63 bits \(got 64\)"):
        AddressMap(banks=1, row_bytes=2**22, column_bytes=32, row_bits=40)
