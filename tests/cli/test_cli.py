"""The commands as a user runs them: results, mistakes, interruption, and what is imported."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cpsat_pim.run
from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.check import check_mapping
from cpsat_pim.cli import main
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping_file import MAPPINGS
from cpsat_pim.report.progress import LiveProgress
from cpsat_pim.schema import SHELVES
from cpsat_pim.verify import Disagreement
from cpsat_pim.workload.network import parse_shape

TINY = "R=3,P=4,Q=4,C=4,K=4"
TINY_BOUNDS = {"R": 3, "S": 1, "P": 4, "Q": 4, "C": 4, "K": 4, "N": 1, "G": 1}
TOP_KEYS = ["schema", "network", "arch", "objective", "layers", "totals"]
LAYER_KEYS = ["name", "count", "shape", "status", "objective", "bound", "gap", "solve_seconds"]
LAYER_KEYS += ["predicted", "simulated", "mapping", "progress"]
TOTAL_KEYS = ["layers", "mapped", "macs", "latency_cycles", "energy_fj", "row_activations", "seconds", "interrupted"]
FIGURES = {
    "latency_cycles",
    "compute_cycles",
    "dram_cycles",
    "energy_fj",
    "row_activations",
    "column_accesses",
    "accesses",
}
NETWORK = """
version: 1
name: pair
layers:
- {name: first, P: 4, Q: 4, C: 4, K: 4, count: 2}
- {name: second, P: 2, Q: 2, C: 4, K: 8}
- {name: twin, P: 2, Q: 2, C: 4, K: 8}
"""


def map_tiny(*options: str) -> int:
    """Map the tiny layer for energy, which is proven at once."""
    return main(["map", TINY, "--objective", "energy", *options])


@pytest.fixture
def pair(tmp_path: Path) -> str:
    """A network of two different layers, of which one occurs twice under two names and the other runs twice."""
    path = tmp_path / "pair.yaml"
    path.write_text(NETWORK)
    return str(path)


def read_json(path: Path) -> Any:
    """What a command wrote."""
    return json.loads(path.read_text())


# --- Results ---------------------------------------------------------------------------------------------------------


def test_map_prints_a_proven_result_and_its_nest(capsys: pytest.CaptureFixture[str]) -> None:
    """One layer: exit 0, status, the loop body; nothing on stderr when that is no terminal; no colours in a pipe."""
    assert map_tiny() == 0
    out, err = capsys.readouterr()
    assert "OPTIMAL" in out
    assert "O[n,g,k,q,p] +=" in out
    assert "\x1b" not in out
    assert err == ""


def test_json_has_exactly_the_documented_keys(tmp_path: Path) -> None:
    """Schema 1, and docs/json.md."""
    path = tmp_path / "m.json"
    assert map_tiny("--json", str(path)) == 0
    data = read_json(path)
    assert list(data) == TOP_KEYS
    assert data["schema"] == 1
    assert list(data["layers"][0]) == LAYER_KEYS
    for figures in (data["layers"][0]["predicted"], data["layers"][0]["simulated"]):
        assert set(figures) == FIGURES
        assert set(figures["row_activations"]) == set(figures["column_accesses"]) == {"I", "W", "O"}
        assert set(figures["accesses"]) == {"PE", "GLOBAL_BUFFER", "ROW_BUFFER", "DRAM"}
        assert set(figures["accesses"]["PE"]["I"]) == {"read", "write"}
    assert list(data["totals"]) == TOTAL_KEYS
    documented = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    for key in (*data, *data["layers"][0], *FIGURES, *data["layers"][0]["mapping"], *data["totals"]):
        assert f"`{key}`" in documented, key


def test_json_values_are_those_of_the_layer(tmp_path: Path) -> None:
    """Shape, macs and proof; energy at least that of the MACs themselves and of reading each operand once from DRAM."""
    path = tmp_path / "m.json"
    assert map_tiny("--json", str(path)) == 0
    data = read_json(path)
    layer = data["layers"][0]
    assert {d: layer["shape"][d] for d in "RSPQCKNG"} == TINY_BOUNDS
    assert data["totals"]["macs"] == 3 * 4 * 4 * 4 * 4
    assert (layer["status"], layer["gap"], layer["objective"]) == ("OPTIMAL", 0, layer["bound"])
    assert layer["objective"] == layer["predicted"]["energy_fj"] > 768 * 560
    # Of the three operands each element moves at least once: I 4 x 4 x 6, W 4 x 4 x 3, O 4 x 4 x 4.
    dram = layer["predicted"]["accesses"]["DRAM"]
    assert dram["I"]["read"] >= 96
    assert dram["W"]["read"] >= 48
    assert dram["O"]["write"] >= 64


def test_predicted_and_simulated_are_equal_but_for_the_latency(pair: str, tmp_path: Path) -> None:
    """Every exact figure of every layer."""
    path = tmp_path / "pair.json"
    assert main(["run", pair, "--objective", "energy", "--jobs", "1", "--json", str(path)]) == 0
    for layer in read_json(path)["layers"]:
        for key in FIGURES - {"latency_cycles"}:
            assert layer["predicted"][key] == layer["simulated"][key]


def test_run_solves_all_layers_and_counts_them(pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Totals count `first` twice; equal layers have equal answers; worker processes do as well as this one."""
    path = tmp_path / "pair.json"
    assert main(["run", pair, "--objective", "energy", "--jobs", "2", "--json", str(path)]) == 0
    data = read_json(path)
    first, second, twin = data["layers"]
    assert [layer["name"] for layer in data["layers"]] == ["first", "second", "twin"]
    assert second["mapping"] == twin["mapping"]
    assert data["totals"]["layers"] == data["totals"]["mapped"] == 4
    assert data["totals"]["energy_fj"] == 2 * first["objective"] + second["objective"] + twin["objective"]
    assert "3/3" in capsys.readouterr().out  # proven rows of the table


def test_run_takes_only_the_named_layers(pair: str, tmp_path: Path) -> None:
    """`--layers`, in the network's order."""
    path = tmp_path / "pair.json"
    assert main(["run", pair, "--layers", "twin", "--objective", "energy", "--json", str(path)]) == 0
    assert [layer["name"] for layer in read_json(path)["layers"]] == ["twin"]


def test_blended_objective_weighs_cycles_and_nanojoules(tmp_path: Path) -> None:
    """alpha 0, beta 2: twice the energy in nJ."""
    path = tmp_path / "m.json"
    options = ["--objective", "blended", "--alpha", "0", "--beta", "2", "--json", str(path)]
    assert main(["map", TINY, *options]) in (0, 1)
    data = read_json(path)
    assert data["objective"] == {"kind": "blended", "alpha": 0, "beta": 2}
    layer = data["layers"][0]
    assert layer["objective"] == pytest.approx(2 * layer["predicted"]["energy_fj"] / 1e6)


def test_time_out_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No time for a proof: a mapping, its gap and exit 0; or none, nulls, a line on stderr and exit 1."""
    path = tmp_path / "m.json"
    code = main(["map", "P=56,Q=56,C=64,K=64", "--time-limit", "0.001", "--json", str(path)])
    out, err = capsys.readouterr()
    layer = read_json(path)["layers"][0]
    assert layer["status"] in out
    if code == 0:
        assert layer["status"] == "FEASIBLE"
        assert 0 < layer["gap"] < 1
        assert err.startswith("cpsat_pim: time ran out before a proof for layer")
    else:
        assert (code, layer["status"]) == (1, "UNKNOWN")
        assert [layer[key] for key in ("objective", "gap", "predicted", "simulated", "mapping")] == [None] * 5
        assert err.startswith("cpsat_pim: no mapping for layer")


# --- The nest --------------------------------------------------------------------------------------------------------


def test_nest_contains_each_loop_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The drawn factors are the mapping's, each once; per dim they multiply to the bound; each line is deeper."""
    path = tmp_path / "m.json"
    assert map_tiny("--json", str(path)) == 0
    lines = capsys.readouterr().out.splitlines()
    loops = [m for line in lines if (m := re.match(r"\|( +)(?:parallel-)?for (\w) in \[0:(\d+)\)", line))]
    mapping = read_json(path)["layers"][0]["mapping"]
    factors = [(d, n) for part in ("temporal", "spatial") for level in mapping[part].values() for d, n in level.items()]
    assert sorted((m[2], int(m[3])) for m in loops) == sorted(factors)
    products = dict.fromkeys("RSPQCKNG", 1)
    for loop in loops:
        products[loop[2]] *= int(loop[3])
    assert products == TINY_BOUNDS
    depths = [len(m[1]) for m in loops]
    assert depths == sorted(set(depths))


# --- simulate --------------------------------------------------------------------------------------------------------


@pytest.fixture
def mapped(tmp_path: Path) -> Path:
    """A file that `map --json` wrote."""
    path = tmp_path / "m.json"
    assert map_tiny("--json", str(path)) == 0
    return path


def test_simulate_finds_a_written_mapping_as_predicted(mapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `map --json` wrote is enough to simulate from."""
    assert main(["simulate", str(mapped)]) == 0
    assert "all exact figures are equal" in capsys.readouterr().out


def test_simulate_tells_when_the_file_holds_other_figures(mapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An edited prediction is found out."""
    data = read_json(mapped)
    data["layers"][0]["predicted"]["energy_fj"] += 1
    mapped.write_text(json.dumps(data))
    assert main(["simulate", str(mapped)]) == 3
    assert "energy_fj" in capsys.readouterr().err


def test_simulate_refuses_an_illegal_mapping(mapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An edited loop: the factors no longer multiply to the bounds."""
    data = read_json(mapped)
    data["layers"][0]["shape"]["K"] = 8
    mapped.write_text(json.dumps(data))
    assert main(["simulate", str(mapped)]) == 2
    assert one_error_line(capsys)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"layers": 3},
        {"layers": [3]},
        {"layers": [{"shape": {"P": 0}, "mapping": {}}]},
        {"layers": [{"shape": {"P": 1}, "mapping": {}}]},
        {"layers": [{"shape": {"X": 1}, "mapping": {}}]},
        {"layers": []},
        {"arch": {"name": 3}},
    ],
)
def test_simulate_refuses_a_broken_file(
    mapped: Path, change: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is broken, nothing but lines that say so."""
    mapped.write_text(json.dumps(read_json(mapped) | change))
    capsys.readouterr()
    assert main(["simulate", str(mapped)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(line.startswith(f"cpsat_pim: error: {mapped}: ") for line in err.splitlines())


def test_disagreement_leaves_a_reproducer_that_simulate_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, no result, the file's path; and since nothing is really wrong, the file simulates as predicted."""

    def disagree(layer: Any, arch: Any, mapping: Mapping, prediction: Any) -> None:
        raise Disagreement(layer, arch, mapping, ["energy_fj: predicted 1, simulated 2"], prediction.figures, None)

    monkeypatch.setattr(cpsat_pim.run, "verify", disagree)
    monkeypatch.chdir(tmp_path)
    assert map_tiny() == 3
    out, err = capsys.readouterr()
    (path,) = tmp_path.glob("disagreement-*.json")
    assert out == ""
    assert path.name in err
    assert "energy_fj: predicted 1, simulated 2" in err
    assert main(["simulate", str(path)]) == 0


# --- Files -----------------------------------------------------------------------------------------------------------


def test_mappings_are_written_and_fed_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--mapping` writes what `simulate` reads, with the energy that was found."""
    written, results = tmp_path / "m.yaml", tmp_path / "m.json"
    assert map_tiny("--mapping", str(written), "--json", str(results)) == 0
    capsys.readouterr()
    assert main(["simulate", str(written)]) == 0
    out = capsys.readouterr().out
    assert "all exact figures are equal" in out
    assert f"{read_json(results)['layers'][0]['objective']:,}" in out


def test_mapping_file_without_machine_or_shape_cannot_be_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing is named."""
    path = tmp_path / "m.yaml"
    text = "layers:\n- name: a\n  mapping: {temporal: {}, stored: {ROW_BUFFER: '', GLOBAL_BUFFER: '', PE: ''}}\n"
    for head, missing in (("version: 1\n", "arch"), ("version: 1\narch: default\n", "layers[a].shape")):
        path.write_text(head + text)
        assert main(["simulate", str(path)]) == 2
        assert f"{path}: {missing}: is missing" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_run_hands_a_start_to_the_layers_that_have_one(
    pair: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """The twin starts from what its equal layer is given; the other layer from nothing."""
    written = tmp_path / f"start{suffix}"
    option = "--json" if suffix == ".json" else "--mapping"
    assert main(["run", pair, "--layers", "second", "--jobs", "1", option, str(written)]) == 0
    starts: dict[str, Mapping | None] = {}

    def run(tasks: list[Any], *others: Any) -> dict[str, Any]:
        starts.update({task.layer.name: task.start for task in tasks})
        return {}

    monkeypatch.setattr(cpsat_pim.run, "_run_here", run)
    assert main(["run", pair, "--start-from", str(written), "--jobs", "1"]) == 0
    assert starts["first"] is None
    assert isinstance(starts["second"], Mapping)
    assert check_mapping(parse_shape("P=2,Q=2,C=4,K=8"), PIMArchitecture(), starts["second"]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- name: frst\n  mapping: {}", "m.yaml:4:12: layers[frst].mapping.temporal: is missing"),
        ("- name: frst\n  mapping: {temporal: {}, stored: {ROW_BUFFER: '', GLOBAL_BUFFER: '', PE: ''}}", "'first'?"),
        (
            "- name: first\n  mapping: {temporal: {}, stored: {ROW_BUFFER: '', GLOBAL_BUFFER: '', PE: ''}}",
            "--start-from: first on default: P: factors 1 x 1 x 1 x 1 x 1 x 1 x 1 = 1, the bound is 4",
        ),
        (
            "- name: first\n  mapping: {temporal: {PE: {P: 4}}, stored: {ROW_BUFFER: '', GLOBAL_BUFFER: '', PE: I}, "
            "resident: {PE: {I: ''}}}",
            "the tile of I covers none of the loops P, the machine has no uneven residency",
        ),
    ],
)
def test_start_that_cannot_be_used_is_refused_before_solving(
    pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    """A broken file, an unknown layer, an illegal mapping: each is told."""
    path = tmp_path / "m.yaml"
    path.write_text(f"version: 1\nlayers:\n{text}\n")
    assert main(["run", pair, "--start-from", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_simulate_tells_which_constraints_are_not_kept(
    mapped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr; the counts are what they are."""
    path = tmp_path / "c.yaml"
    path.write_text("version: 1\ntemporal: {DRAM: {K: 64}}\n")
    assert main(["simulate", str(mapped), "--constraints", str(path)]) == 0
    assert "layer: DRAM: the factor of K must be 64 (got " in capsys.readouterr().err


@pytest.mark.parametrize("kind", SHELVES)
def test_schema_prints_a_schema(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON, for an editor."""
    assert main(["schema", kind]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["version"] == {"const": 1}


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


# --- Interruption ----------------------------------------------------------------------------------------------------


def test_interrupt_reports_and_writes_what_was_found(
    pair: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C at the first mapping: it is in the table and the JSON, layers not begun are not, exit code 130."""
    sent: list[Any] = []

    def interrupt_once(self: LiveProgress, progress: Any) -> None:
        if not sent:
            sent.append(progress)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(LiveProgress, "report", interrupt_once)
    path = tmp_path / "pair.json"
    assert main(["run", pair, "--objective", "energy", "--jobs", "1", "--json", str(path)]) == 130
    out, err = capsys.readouterr()
    data = read_json(path)
    assert data["totals"]["interrupted"] is True
    assert [layer["name"] for layer in data["layers"]] == ["first"]  # the larger one is solved first
    assert data["layers"][0]["mapping"] is not None
    assert "Interrupted" in out
    assert "2 of 3 layers not begun" in err


# --- Mistakes --------------------------------------------------------------------------------------------------------


def one_error_line(capsys: pytest.CaptureFixture[str]) -> bool:
    """Nothing on stdout, one line on stderr."""
    out, err = capsys.readouterr()
    return out == "" and err.startswith("cpsat_pim: error: ") and err.count("\n") == 1 and err.endswith("\n")


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
        "map P=4 --time-limit 0",
        "map P=4 --time-limit inf",
        "map P=4 --jobs 0",
        "map P=4 --seed -1",
        "map P=4 --json /nowhere/m.json",
        "map P=4 --json /",
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
    assert "Tiny" in (err := capsys.readouterr().err)
    assert err.count("\n") == 1


def test_a_mistake_leaves_an_old_json_file_alone(mapped: Path) -> None:
    """The path is checked without touching what is there."""
    before = mapped.read_bytes()
    assert main(["map", "P=0", "--json", str(mapped)]) == 2
    assert main(["map", "C=100000000000", "--json", str(mapped)]) == 2
    assert mapped.read_bytes() == before
    assert [p.name for p in mapped.parent.iterdir()] == [mapped.name]


# --- Lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run pair.yaml", "map P=2"])
def test_machine_with_uneven_residency_is_refused(
    pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """The solver searches even tiles only, so nothing that it proved would hold."""
    chip = tmp_path / "chip.yaml"
    chip.write_text("version: 1\nextends: default\nuneven_residency: true\n")
    words = [pair if word == "pair.yaml" else word for word in command.split()]
    assert main([*words, "--arch", str(chip)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "chip: uneven_residency: must be false for solving; only even tiles are searched" in err
    assert err.count("\n") == 1


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


# --- As a program ----------------------------------------------------------------------------------------------------


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Another interpreter, its output in pipes."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False)


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
    """What makes `--help` answer in under 0.3 s."""
    heavy = "{'ortools', 'numba', 'numpy', 'rich', 'yaml', 'attrs', 'cattrs'}"
    code = (
        "import sys, cpsat_pim.cli\n"
        "assert cpsat_pim.cli.main(['--help']) == 0\n"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
