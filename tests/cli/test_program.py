"""The lists, and all commands as a program: exit codes, outputs that are closed or full, what is imported."""

import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cpsat_pim.cli import main
from cpsat_pim.cli.output import name_list
from cpsat_pim.cli.schema import FILE_KINDS
from cpsat_pim.mapping.mapping_file import MAPPINGS
from cpsat_pim.workload.network_text import parse_shape
from tests.cli.commands import TINY, map_tiny, read_json, run_python, run_shell

# --- Lists -----------------------------------------------------------------------------------------------------------


def test_networks_lists_macs_and_weights(capsys: pytest.CaptureFixture[str]) -> None:
    """VGG-16, Simonyan and Zisserman: 138 M weights, here without biases; 15.47 G MACs."""
    assert main(["networks"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "vgg16" in line)
    assert "15,470,264,320" in row
    assert "138,344,128" in row


def test_archs_lists_every_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """One row each; the default's array is listing 8's 16 x 16."""
    assert main(["archs"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("default", "gddr6-aim", "hbm-pim", "stacked-3d"))
    assert "16x16" in out


def test_devices_lists_every_device(capsys: pytest.CaptureFixture[str]) -> None:
    """One row each, within 100 columns; AttAcc has 5 stacks of 16 channels and a clock of 1.3 GHz."""
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(
        any(line.split()[:1] == [name] for line in lines) for name in ("attacc", "gddr6-aim", "hbm-pim", "upmem")
    )
    assert next(line for line in lines if " attacc " in line).split()[:4] == ["attacc", "80", "64", "769"]
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_schema_prints_a_schema(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON, for an editor."""
    assert main(["schema", kind]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["version"] == {"const": 1}


# --- As a program ----------------------------------------------------------------------------------------------------


def test_the_program_maps_and_tells_by_its_exit_code() -> None:
    """`python -m cpsat_pim`, output to a pipe: no colours, no wrapped rows."""
    done = run_python("-m", "cpsat_pim", "map", TINY, "--objective", "energy")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    (row,) = (line for line in done.stdout.splitlines() if "OPTIMAL" in line)
    assert row.split()[0] == parse_shape(TINY).name
    assert row.rstrip().split()[-2] == "0"  # the gap; behind it the seconds


def test_the_program_fails_without_a_traceback() -> None:
    """As a shell script sees it."""
    done = run_python("-m", "cpsat_pim", "run", "resnet51")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_results_are_written_though_nobody_reads_what_is_printed(pair: str, tmp_path: Path) -> None:
    """`| head` that has left already: the files are whole, the exit code is that of the results, no traceback."""
    results, mappings = tmp_path / "pair.json", tmp_path / "pair.yaml"
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "cpsat_pim", "run", pair, "--jobs", "1", "--nest"]
    command += ["--json", str(results), "--mapping", str(mappings)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_json(results)["totals"]["mapped"] == 4
    assert [layer["name"] for layer in MAPPINGS.read(mappings)["layers"]] == ["first", "second", "twin"]


@pytest.mark.parametrize("command", ["networks", "run resnet51"])
def test_a_closed_output_is_nobody_who_reads(command: str) -> None:
    """`>&-`: as if it went to /dev/null, with the exit code that the command has there."""
    line = f"exec {shlex.quote(sys.executable)} -m cpsat_pim {command}"
    closed, thrown_away = (run_shell(f"{line} {target}") for target in (">&-", ">/dev/null"))
    assert (closed.returncode, closed.stderr) == (thrown_away.returncode, thrown_away.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_an_output_on_a_full_disk_is_one_line_and_takes_nothing_along(pair: str, tmp_path: Path) -> None:
    """Exit code 2, no traceback; an hour of solving is not lost with the table, the results are written."""
    results = tmp_path / "pair.json"
    program = f"exec {shlex.quote(sys.executable)} -m cpsat_pim"
    name_list = run_shell(f"{program} networks >/dev/full")
    assert (name_list.returncode, name_list.stderr) == (2, "cpsat_pim: error: No space left on device\n")
    solved = run_shell(f"{program} run {pair} --jobs 1 --json {results} >/dev/full")
    message = "cpsat_pim: error: standard output: cannot be written: No space left on device\n"
    assert (solved.returncode, solved.stderr) == (2, message)
    assert read_json(results)["totals"]["mapped"] == 4


def test_a_file_that_cannot_be_written_takes_nothing_else_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk under the JSON: the table is printed and the mappings are written all the same; exit code 2."""
    mappings = tmp_path / "m.yaml"
    assert map_tiny("--json", "/dev/full", "--mapping", str(mappings)) == 2
    out, err = capsys.readouterr()
    assert "OPTIMAL" in out
    assert err == "cpsat_pim: error: /dev/full: cannot be written: No space left on device\n"
    assert len(MAPPINGS.read(mappings)["layers"]) == 1


def test_help_imports_nothing_heavy() -> None:
    """The promise behind `--help` in under 0.3 s: heavy modules are not imported."""
    heavy = "{'ortools', 'numba', 'numpy', 'rich', 'yaml', 'attrs', 'cattrs'}"
    code = (
        "import sys, cpsat_pim.cli\n"
        "assert cpsat_pim.cli.main(['--help']) == 0\n"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


# --- Messages --------------------------------------------------------------------------------------------------------


def test_very_many_names_are_not_all_listed() -> None:
    """A line of 150 names is none; a single one more takes no less room than its name."""
    names = [f"layer{i}" for i in range(150)]
    assert name_list(names) == f"{', '.join(names[:12])} and 138 more"
    assert name_list(names[:13]) == ", ".join(names[:13])


def test_an_error_keeps_its_text_where_output_is_no_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output may be an object of the caller's, without a file descriptor to redirect."""

    def fail(_: list[str]) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "results")

    monkeypatch.setattr("cpsat_pim.cli.program._run", fail)
    assert main([]) == 2
    assert capsys.readouterr().err == "cpsat_pim: error: results: No space left on device\n"
