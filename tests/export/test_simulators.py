"""The simulators' configurations give an address the fields that the trace gives it, for every machine."""

import ast
import configparser
from pathlib import Path

import attrs
import pytest

import cpsat_pim.arch
from cpsat_pim.arch import DramTimings, PIMArchitecture
from cpsat_pim.arch.reading import read_arch
from cpsat_pim.export.dramtrace import AddressMap
from cpsat_pim.export.simulators import CONFIGURATIONS

PRESETS = sorted(path.stem for path in Path(cpsat_pim.arch.__file__).parent.glob("presets/*.yaml"))
ROW_BITS = 16
Fields = dict[str, int]


def bits(count: int) -> int:
    """The bits of a power of two."""
    assert count == 1 << (count.bit_length() - 1)
    return count.bit_length() - 1


def fields_of_dramsim3(text: str) -> Fields:
    """Widths of the fields as DRAMsim3's configuration.cc computes them (commit 2981759): a request is a burst of the
    bus, columns count beats.
    """
    ini = configparser.ConfigParser(inline_comment_prefixes=())
    ini.optionxform = str  # type: ignore[assignment, method-assign]
    ini.read_string(text)
    dram, system = ini["dram_structure"], ini["system"]
    burst, width, rows = int(dram["BL"]), int(system["bus_width"]), int(dram["rows"])
    assert system["address_mapping"] == "chrabgbaroco"
    assert dram["protocol"] == "DDR4"
    assert width == int(dram["device_width"]) >= 8
    mebibytes_per_bank = int(dram["columns"]) * width // 8 * (rows // 1024) // 1024
    banks = int(dram["bankgroups"]) * int(dram["banks_per_group"])
    assert int(system["channel_size"]) == mebibytes_per_bank * banks > 0  # one rank
    column = bits(int(dram["columns"])) - bits(burst)
    return {"byte": bits(width // 8 * burst), "column": column, "row": bits(rows), "banks": banks}


def fields_of_ramulator2(text: str) -> Fields:
    """Widths of the fields as addr_mapper_base.cpp computes them (commit c5b1c3a): transactions of
    `data_payload_bytes`, columns over HBM2's prefetch of four.
    """
    numbers: dict[str, int] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant) and node.arg is not None:
            numbers.setdefault(node.arg, node.value.value)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            assert isinstance(node.targets[0], ast.Name)
            numbers[node.targets[0].id] = node.value.value
    banks = numbers["bankgroup"] * numbers["bank"]
    column = bits(numbers["column"]) - bits(4)
    return {"byte": bits(numbers["data_payload_bytes"]), "column": column, "row": bits(numbers["row"]), "banks": banks}


READERS = {"dramsim3": fields_of_dramsim3, "ramulator2": fields_of_ramulator2}


@pytest.mark.parametrize("style", sorted(READERS))
@pytest.mark.parametrize("preset", ["default", *PRESETS])
def test_fields_of_a_configuration_are_those_of_the_trace(preset: str, style: str) -> None:
    """Columns of 1 to 256 bytes: the same bits are byte, column and row; every bank that a trace names exists."""
    arch = PIMArchitecture() if preset == "default" else read_arch(preset)
    addresses = AddressMap.of(arch, ROW_BITS)
    fields = READERS[style](CONFIGURATIONS[style](addresses, arch.dram_timings, "/t", 128))
    assert fields.pop("banks") >= 3 * arch.banks
    assert fields == {"byte": addresses.byte_bits, "column": addresses.column_bits, "row": ROW_BITS}


def test_many_banks_are_all_there() -> None:
    """16 banks a tensor are 48, which take 6 bits."""
    addresses = AddressMap(banks=16, row_bytes=256, column_bytes=32, row_bits=ROW_BITS)
    for style, read in READERS.items():
        assert read(CONFIGURATIONS[style](addresses, DramTimings(), "/t", 128))["banks"] == 64


@pytest.mark.parametrize(
    ("style", "row_bits", "message"),
    [
        ("dramsim3", 9, r"DRAMsim3 takes 10 to 30 for rows of 2\^10 bytes \(got 9\)"),
        ("dramsim3", 31, r"DRAMsim3 takes 10 to 30"),
        ("ramulator2", 31, r"Ramulator 2 takes at most 30 \(got 31\)"),
    ],
)
def test_rows_that_a_simulator_cannot_number_are_refused(style: str, row_bits: int, message: str) -> None:
    """DRAMsim3 divides a channel by a bank's whole MiB, which must not be 0; both number rows in 32 bits."""
    addresses = attrs.evolve(AddressMap.of(PIMArchitecture(), ROW_BITS), row_bits=row_bits)
    with pytest.raises(ValueError, match=message):
        CONFIGURATIONS[style](addresses, DramTimings(), "/t", 128)
