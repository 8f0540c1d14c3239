"""Device files: YAML with the fields of `Device`, and the presets that come with the package (`docs/devices.md`)."""

from pathlib import Path

from cpsat_pim.base.reading import FileKind, record_of
from cpsat_pim.device.device import Device

DEVICES = FileKind(kind="device", record=record_of(Device), package="cpsat_pim.device", folder="presets")


def device_names() -> tuple[str, ...]:
    """Return the names of the devices that come with the package."""
    return DEVICES.names()


def read_device(name_or_path: str | Path, directory: Path | None = None) -> Device:
    """Return a device by its name, or from a file that ends in .yaml or .yml, relative to a directory.

    Raises:
        ValueError: no such name, an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`.
    """
    device: Device = DEVICES.read(name_or_path, directory)
    return device
