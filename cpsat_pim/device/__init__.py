"""Command-driven PIM devices: what they are made of, their commands and timing, presets and device files."""

from cpsat_pim.device.commands import AllBankMode, Command, Controller, Refresh
from cpsat_pim.device.device import Axis, Core, Device, Group, System
from cpsat_pim.device.reading import device_names, read_device
from cpsat_pim.device.timing import Constraint, ticks_of

__all__ = [
    "AllBankMode",
    "Axis",
    "Command",
    "Constraint",
    "Controller",
    "Core",
    "Device",
    "Group",
    "Refresh",
    "System",
    "device_names",
    "read_device",
    "ticks_of",
]
