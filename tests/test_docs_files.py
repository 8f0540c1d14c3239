"""The how-to on files shows files that can be read."""

import re
from pathlib import Path

import pytest

from cpsat_pim.arch.reading import read_arch
from cpsat_pim.constraints import read_constraints
from cpsat_pim.mapping_file import read_mapping_file
from cpsat_pim.workload.network import read_network

TEXT = (Path(__file__).parents[1] / "docs" / "files.md").read_text()
BLOCKS = dict(re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", TEXT, re.DOTALL))
READERS = {
    "chip.yaml": read_arch,
    "net.yaml": read_network,
    "mapping.yaml": read_mapping_file,
    "constraints.yaml": read_constraints,
}


@pytest.mark.parametrize("name", READERS)
def test_example_is_valid(name: str, tmp_path: Path) -> None:
    """Each block is a file of its kind."""
    path = tmp_path / name
    path.write_text(BLOCKS[name])
    READERS[name](path)


def test_mistakes_are_shown_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages of the page are those of the program for a file with these mistakes."""
    monkeypatch.chdir(tmp_path)
    lines = ["version: 1", "extends: hbm-pim", "vault_count: 4", "clok: 1 GHz", "multicast: true"]
    lines += ["dram_timings: {tRCDRD: 1, tRP: 14 nS}", "hierarchy:", "  GLOBAL_BUFFER: {entries: 0 KiB}"]
    Path("chip.yaml").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r".") as caught:
        read_arch("chip.yaml")
    assert str(caught.value).splitlines() == re.findall(r"    cpsat_pim: error: (.*)", TEXT)
