"""Hosts as data."""

from pathlib import Path

import pytest

from cpsat_pim.compiler.host import host_of
from cpsat_pim.device import device_names, host_names, read_device, read_host


def test_a_device_may_have_a_host_of_its_own(tmp_path: Path) -> None:
    """A host file beside the device file, with half the bandwidth."""
    (tmp_path / "slow.yaml").write_text(
        "version: 1\nkind: pim-host\nextends: a100-hbm3\nmemory_bandwidth: 1676000000000\n"
    )
    (tmp_path / "mine.yaml").write_text("version: 1\nextends: attacc\nsystem: {host: slow.yaml}\n")
    host = host_of(read_device("mine.yaml", tmp_path))
    assert (host.name, host.memory_bandwidth) == ("slow", 1676 * 10**9)
    assert host.cores == read_host("a100-hbm3").cores


def test_devices_name_hosts_that_there_are() -> None:
    """Every preset names a packaged host, but UPMEM, whose host has no model."""
    for name, device in ((name, read_device(name)) for name in device_names()):
        assert device.system.host in ((None,) if name == "upmem" else host_names())
    with pytest.raises(ValueError, match="upmem: its file names no host"):
        host_of(read_device("upmem"))
