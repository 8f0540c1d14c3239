"""The host of a device, and the one that AttAcc's published model describes, which the presets name."""

from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.device import Device, Host, read_host

__all__ = ["A100_HBM3", "Host", "host_of"]

A100_HBM3 = read_host("a100-hbm3")


def host_of(device: Device) -> Host:
    """The host that a device's file names.

    Raises:
        KernelMistake: it names none.
        ValueError: there is no such host, or its file has mistakes.
    """
    if device.system.host is None:
        raise KernelMistake(f"{device.name}: its file names no host (`system.host`), so that the host has no time")
    return read_host(device.system.host)
