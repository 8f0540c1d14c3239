"""Command-driven PIM devices: what they are made of, their commands and timing, presets and device files."""

from cpsat_pim.device.commands import AllBankMode, Command, Controller, Refresh
from cpsat_pim.device.device import AddressMap, Axis, Core, Device, Group, System
from cpsat_pim.device.host import Host
from cpsat_pim.device.reading import device_names, host_names, read_device, read_host
from cpsat_pim.device.timing import Constraint, ticks_of

__all__ = [
    "AddressMap",
    "AllBankMode",
    "Axis",
    "Command",
    "Constraint",
    "Controller",
    "Core",
    "Device",
    "Group",
    "Host",
    "Refresh",
    "System",
    "device_names",
    "host_names",
    "read_device",
    "read_host",
    "ticks_of",
]
