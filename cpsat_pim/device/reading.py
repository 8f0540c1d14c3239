"""Device and host files: YAML with the fields of `Device` and `Host`, and the presets that come with the package
(`docs/devices.md`)."""

from functools import cache
from pathlib import Path

from attrs import evolve

from cpsat_pim.base.reading import SUFFIXES, FileKind, record_of
from cpsat_pim.device.device import Device
from cpsat_pim.device.host import Host

DEVICES = FileKind(kind="device", record=record_of(Device), package="cpsat_pim.device", folder="presets")
HOSTS = FileKind(kind="host", record=record_of(Host), package="cpsat_pim.device", folder="hosts")


def device_names() -> tuple[str, ...]:
    """Return the names of the devices that come with the package."""
    return DEVICES.names()


def host_names() -> tuple[str, ...]:
    """Return the names of the hosts that come with the package."""
    return HOSTS.names()


def read_device(name_or_path: str | Path, directory: Path | None = None) -> Device:
    """Return a device by its name, or from a file that ends in .yaml or .yml, relative to a directory. A host that is a
    file is found beside the device's file.

    Raises:
        ValueError: no such name, an unreadable file, or mistakes in it; a line each, `<file>:<line>:<column>: ...`.
    """
    device: Device = DEVICES.read(name_or_path, directory)
    host = device.system.host
    if host is None or not host.endswith(SUFFIXES):
        return device
    beside = (directory or Path()) / Path(name_or_path).parent / host
    return evolve(device, system=evolve(device.system, host=str(beside.resolve())))


@cache
def read_host(name_or_path: str) -> Host:
    """Return a host by its name, or from a file that ends in .yaml or .yml.

    Raises:
        ValueError: as `read_device`.
    """
    host: Host = HOSTS.read(name_or_path)
    return host
