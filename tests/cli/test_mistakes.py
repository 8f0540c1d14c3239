"""What cannot be used: a line for each mistake on stderr, exit code 2, before anything is solved."""

from pathlib import Path

import pytest

from cpsat_pim.cli import main
from tests.cli.commands import TINY, one_error_line


@pytest.mark.parametrize(
    "command",
    [
        "",
        "walk",
        "map",
        "map P=0",
        "map P=two",
        "map P=4,P=4",
        "map Z=4",
        "map P=4 --arch nowhere",
        "map P=4 --arch nowhere.yaml",
        "map P=4 --objective speed",
        "map P=4 --alpha 2",
        "map P=4 --objective blended --alpha 0 --beta 0",
        "map P=4 --objective blended --alpha -1",
        "map P=4 --objective blended --alpha nan",
        "map C=64,K=64,P=56,Q=56 --objective blended --alpha 1e8 --beta 1",
        "baselines C=64,K=64,P=56,Q=56 --objective blended --alpha 1e8 --beta 1",
        "explain C=64,K=64,P=56,Q=56 --objective blended --alpha 1e8 --beta 1",
        "map P=4 --time-limit 0",
        "map P=4 --time-limit inf",
        "map P=4 --jobs 0",
        "map P=4 --seed -1",
        "map P=4 --json /nowhere/m.json",
        "map P=4 --json /",
        "map P=4 --json out --html ./out",
        "map P=4 --mapping out --timeline out",
        "pareto P=4 --json out --mapping out",
        "map C=100000000000",
        "run resnet51",
        "run nowhere.yaml",
        "run resnet50 --layers conv2",
        "run resnet50 --layers conv1,",
        "run resnet50 --layers=",
        "run resnet50 --start-from nowhere.yaml",
        "run resnet50 --start-from nowhere.json",
        "map P=4 --mapping /nowhere/m.yaml",
        "schema sheep",
        "simulate nowhere.json",
        "simulate nowhere.yaml",
        "simulate /",
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Never a traceback, and found before solving."""
    assert main(command.split()) == 2
    assert one_error_line(capsys)


def test_unknown_names_are_met_with_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    """Networks, machines and layers."""
    for command in ("run resnet5", "map P=4 --arch hbm-pin", "run resnet50 --layers layer1.0.conv9"):
        assert main(command.split()) == 2
        assert "did you mean" in capsys.readouterr().err


def test_level_too_small_for_any_tile_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A PE of 1 byte that must hold an element of I and of W: the level and its size are named."""
    levels = [
        "{name: Tiny, entries: 1, stores: [true, true, false], bypass_defined: true, double_buffered: false}",
        "{name: Buffer, entries: 1024}",
        "{name: Row, entries: 1024}",
        "{name: Dram, entries: 1048576}",
    ]
    path = tmp_path / "tiny.yaml"
    path.write_text("version: 1\nhierarchy:\n" + "".join(f"- {level}\n" for level in levels))
    assert main(["map", "P=4", "--arch", str(path)]) == 2
    *warnings, error = capsys.readouterr().err.splitlines()
    assert "Tiny" in error
    widths, figures = warnings
    assert "word_bytes: is missing" in widths
    assert "hierarchy[2].row_buffer_size = 1024 B" in figures


def test_a_mistake_leaves_an_old_json_file_alone(mapped: Path) -> None:
    """The path is checked without touching what is there."""
    before = mapped.read_bytes()
    assert main(["map", "P=0", "--json", str(mapped)]) == 2
    assert main(["map", "C=100000000000", "--json", str(mapped)]) == 2
    assert mapped.read_bytes() == before
    assert [p.name for p in mapped.parent.iterdir()] == [mapped.name]


def test_all_mistakes_of_a_file_are_lines_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its place, nothing else."""
    path = tmp_path / "a.yaml"
    path.write_text("version: 1\nvault_count: 0\npage_policy: opn\n")
    assert main(["map", "P=4", "--arch", str(path)]) == 2
    assert capsys.readouterr() == (
        "",
        f"cpsat_pim: error: {path}:2:14: vault_count: must be a positive integer (got 0)\n"
        f"cpsat_pim: error: {path}:3:14: page_policy: must be one of open, closed (got opn); did you mean 'open'?\n",
    )


@pytest.mark.parametrize("figure", ["activation_energy: 4e12", "pe_array: {compute_unit: {mac_energy: 1e11}}"])
def test_energies_that_cannot_be_counted_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], figure: str
) -> None:
    """Products past 2^62 are found before solving."""
    path = tmp_path / "a.yaml"
    path.write_text(f"version: 1\nextends: default\n{figure}\n")
    assert main(["map", TINY, "--arch", str(path)]) == 2
    assert one_error_line(capsys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--within 5% --then none", "--within: needs a second objective, --then (got 0.05)"),
        ("--objective edp --then latency", "--then: must be the other one of latency and energy (got edp and latency)"),
        ("--padding 5% --then latency", "--padding: must be 0 with a second objective (got 0.05)"),
    ],
)
def test_options_that_do_not_fit_together_are_named_as_typed(
    capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    """Not by the class that refuses them."""
    assert main(f"map P=4 {options}".split()) == 2
    assert capsys.readouterr().err == f"cpsat_pim: error: {message}\n"
