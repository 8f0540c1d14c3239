"""Where a byte address of the host lies in a device, and back (`docs/devices.md`, section 8).

An address map lists the fields of an address from the most significant to the least; the bytes of a column follow. A
field has as many values as the device has of it, which need not be a power of two.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpsat_pim.device.device import Device

Ints = NDArray[np.int64]


def address_of(device: Device, order: Sequence[str], place: Mapping[str, Any]) -> Ints:
    """int64[...]: byte addresses of the first bytes of columns. `place` gives the fields, int or int64[...]; absent
    ones are 0."""
    sizes = device.address_fields
    address: Any = np.int64(0)
    for name in order:
        address = address * sizes[name] + np.asarray(place.get(name, 0), np.int64)
    return np.asarray(address * device.core.column_bytes, np.int64)


def place_of(device: Device, order: Sequence[str], addresses: Any) -> dict[str, Ints]:
    """The fields of byte addresses, int64[...] each, and `byte` within the column."""
    sizes = device.address_fields
    rest, byte = divmod(np.asarray(addresses, np.int64), device.core.column_bytes)
    place = {"byte": byte}
    for name in reversed(order):
        rest, place[name] = divmod(rest, sizes[name])
    return place


def busiest_channel_bytes(device: Device, count: int) -> int:
    """Bytes of an array of `count` bytes from address 0 that lie in the channel with most of them, in whole columns.

    That is the first channel of the first stack: columns are counted whose fields `stack` and `channel` are 0. Without
    an address map they are dealt evenly.
    """
    columns = -(-count // device.core.column_bytes)
    if device.system.address_map is None:
        return -(-columns // device.system.channels) * device.core.column_bytes
    order, sizes = device.system.address_map.host, device.address_fields
    found, rest = 0, columns
    for at, name in enumerate(order):
        below = prod(sizes[other] for other in order[at + 1 :])
        free = prod(sizes[other] for other in order[at + 1 :] if other not in ("stack", "channel"))
        digit, rest = divmod(rest, below)
        if name not in ("stack", "channel"):
            found += digit * free
        elif digit:
            return (found + free) * device.core.column_bytes
    return found * device.core.column_bytes
