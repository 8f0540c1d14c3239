"""Addresses of the host and of PIM."""

from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.device import AddressMap, Axis, Device, device_names, read_device
from cpsat_pim.device.addresses import address_of, busiest_channel_bytes, place_of

DEVICES = {name: read_device(name) for name in device_names()}
MAPPED = [name for name, device in DEVICES.items() if device.system.address_map is not None]
FIELDS = ("stack", "channel", "bankgroup", "bank", "row", "column")


def small(order: tuple[str, ...]) -> Device:
    """A device small enough to enumerate: 2 stacks of 3 channels, 4 cores a channel, 2 rows of 2 columns."""
    device = DEVICES["gddr6-aim"]
    group = evolve(device.group, axes=(Axis(name="bankgroup", size=2), Axis(name="bank", size=2)))
    system = evolve(device.system, stacks=2, groups=3, address_map=AddressMap(host=order, pim=FIELDS))
    return evolve(device, system=system, group=group, core=evolve(device.core, rows=2, columns=2))


@given(st.permutations(FIELDS), st.integers(0, 6 * 4 * 4 * 32))
def test_busiest_channel_is_that_of_counting(order: list[str], count: int) -> None:
    """The columns of an array of `count` bytes, counted one by one for every channel, also with 3 channels."""
    device = small(tuple(order))
    place = place_of(device, order, np.arange(-(-count // 32)) * 32)
    columns = np.bincount(place["stack"] * 3 + place["channel"], minlength=6)
    assert busiest_channel_bytes(device, count) == 32 * columns.max()


@given(st.sampled_from(MAPPED), st.sampled_from(["host", "pim"]), st.integers(0, 2**30), st.integers(0, 31))
def test_a_byte_has_one_place(name: str, side: str, column: int, byte: int) -> None:
    """From an address to the fields and back."""
    device = DEVICES[name]
    order = getattr(device.system.address_map, side)
    most = np.prod([device.address_fields[field] for field in order])
    address = column % most * device.core.column_bytes
    place = place_of(device, order, address + byte)
    assert int(place.pop("byte")) == byte
    assert all(0 <= int(value) < device.address_fields[field] for field, value in place.items())
    assert int(address_of(device, order, place)) == address


def test_hosts_addresses_are_those_of_the_simulators() -> None:
    """AttAcc (HBM3CustomMap: Ro Ba Ra Co BG Pch Ch, 32 bytes a column; here below Ch 5 stacks): column 1 comes after
    5 x 16 x 2 x 4 columns. HBM-PIM (Scheme8): after the channels the bank within its group, the bank group, the column;
    bank 3 of a group is bank 1 of block 1. AiM (RoBaRaCoCh): channel, column, bank group, bank."""
    device = DEVICES["attacc"]
    assert device.system.address_map is not None
    place = place_of(device, device.system.address_map.host, 5 * 16 * 2 * 4 * 32)
    assert {name: int(value) for name, value in place.items() if value} == {"column": 1}
    device = DEVICES["hbm-pim"]
    assert device.system.address_map is not None
    place = place_of(device, device.system.address_map.host, (64 * (3 + 4 * 2) + 5) * 32)
    wanted = {"stack": 1, "channel": 1, "block": 1, "bank": 1, "bankgroup": 2}  # channel 5 of 64 is 1 x 4 + 1
    assert {name: int(value) for name, value in place.items() if value} == wanted
    device = DEVICES["gddr6-aim"]
    assert device.system.address_map is not None
    place = place_of(device, device.system.address_map.host, (7 + 32 * (63 + 64 * (2 + 4 * 3))) * 32)
    wanted = {"channel": 7, "column": 63, "bankgroup": 2, "bank": 3}
    assert {name: int(value) for name, value in place.items() if value} == wanted


@pytest.mark.parametrize(
    "order", ["row, bank, bankgroup, column", "row, bank, bankgroup, column, channel, channel", ""]
)
def test_maps_that_do_not_name_all_fields_are_refused(tmp_path: Path, order: str) -> None:
    """One line with the place, the fields that are needed, and what was given."""
    path = tmp_path / "mine.yaml"
    path.write_text(f"version: 1\nextends: gddr6-aim\nsystem: {{address_map: {{host: [{order}]}}}}\n")
    expected = "must name each of channel, bankgroup, bank, row, column once"
    with pytest.raises(ValueError, match=expected) as caught:
        read_device(path)
    assert "mine.yaml:3:" in str(caught.value)
