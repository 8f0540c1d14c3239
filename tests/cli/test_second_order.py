"""`simulate --second-order` and `--json`: second-order figures beside the exact ones."""

from pathlib import Path

import pytest

from cpsat_pim.cli import main
from tests.cli.commands import one_error_line, read_json

#: C=2 outside K=2, straight from DRAM: both partial sums go out and come back.
MAPPING = """\
version: 1
arch: machine.yaml
layers:
- name: spilled
  shape: {C: 2, K: 2}
  mapping:
    temporal: {DRAM: {C: 2, K: 2}}
    order: {DRAM: CK}
    stored: {PE: IWO, GLOBAL_BUFFER: "", ROW_BUFFER: ""}
"""


def write_case(folder: Path, timings: str) -> str:
    """Write the mapping and a machine of one bank a tensor with these timings besides; return the mapping's path."""
    machine = f"version: 1\nextends: default\ndram_timings: {{{timings}}}\nhierarchy: {{DRAM: {{num_banks: 1}}}}\n"
    (folder / "machine.yaml").write_text(machine)
    (folder / "m.yaml").write_text(MAPPING)
    return str(folder / "m.yaml")


def test_figures_stand_beside_the_exact_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """O's row takes W W R W R W. As reads: tRCD 14 + 5 * tCCD 4 + RL 25 + 4 = 63. W to R is 20 + 4 + tWTR 6 = 30 twice,
    R to W is tRTW 10 twice: 14 + 4 + 2 * 30 + 2 * 10 + 29 = 127. Refresh: 63 * 1000/900 = 70; at most 63 + 100 + 47.
    """
    file = write_case(tmp_path, "tWR: 16, tWTR: 6, tRTW: 10, tRFC: 100, tREFI: 1000")
    assert main(["simulate", file, "--second-order", "--json", str(tmp_path / "out.json")]) == 0
    out = capsys.readouterr().out
    for name in ("with refresh", "with turnaround", "with overlapping activations at least"):
        assert name in out
    (layer,) = read_json(tmp_path / "out.json")["layers"]
    found = layer["second_order"]
    assert layer["simulated"]["dram_cycles"] == found["dram_cycles"] == 63
    assert found["with_turnaround"] == {
        "timed": True,
        "exact": True,
        "cycles": 127,
        "switches": {"to_write": 2, "to_read": 2},
    }
    refresh = found["with_refresh"]
    assert (refresh["estimated_cycles"], refresh["upper_bound_cycles"]) == (70, 210)
    assert (refresh["refreshes_at_most"], refresh["more_activations_at_most"]) == (1, 3)
    assert found["with_overlapping_activations"]["lower_bound_cycles"] == 63


def test_machine_without_the_timings_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each effect is printed with the exact figure and the timings that are missing."""
    assert main(["simulate", write_case(tmp_path, "tRP: 14"), "--second-order"]) == 0
    out = capsys.readouterr().out
    assert "the machine has no tRFC, tREFI" in out
    assert "the machine has no tWR, tWTR, tRTW" in out


def test_json_without_the_option_has_no_second_order(tmp_path: Path) -> None:
    """Only what was asked for is computed."""
    assert main(["simulate", write_case(tmp_path, "tRP: 14"), "--json", str(tmp_path / "out.json")]) == 0
    (layer,) = read_json(tmp_path / "out.json")["layers"]
    assert sorted(layer) == ["name", "predicted", "simulated"]


def test_half_a_pair_of_timings_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A refresh without its interval says nothing."""
    assert main(["simulate", write_case(tmp_path, "tRFC: 100"), "--second-order"]) == 2
    assert "tRFC, tREFI: must be given both, or neither" in capsys.readouterr().err.strip()


def test_output_does_not_overwrite_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of mappings stays as it is."""
    file = write_case(tmp_path, "tRP: 14")
    assert main(["simulate", file, "--json", file]) == 2
    assert one_error_line(capsys)
