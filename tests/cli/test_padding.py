"""`--padding`: padded results are shown, written, read back and rejected like all others."""

import json
from pathlib import Path

import pytest

from cpsat_pim.cli import main
from cpsat_pim.mapping.mapping_file import read_mapping_file
from cpsat_pim.report.html import render_report
from cpsat_pim.report.jsonfile import build_result, read_mapped_layers
from cpsat_pim.study.sweep.export import layer_rows
from cpsat_pim.study.sweep.store import Store
from tests.cli.commands import one_error_line, read_json

MAP = ["map", "C=1009,K=8", "--padding", "25%"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the results of a layer that padding makes better: r.json and m.yaml."""
    folder = tmp_path_factory.mktemp("padded")
    assert main([*MAP, "--json", str(folder / "r.json"), "--mapping", str(folder / "m.yaml")]) == 0
    return folder


def test_output_says_what_is_padded(capsys: pytest.CaptureFixture[str]) -> None:
    """The nest begins with it, and below the table stands what the proof is of."""
    assert main(MAP) == 0
    out = capsys.readouterr().out
    assert "layer\npadded: C 1009+15\nLocalDRAM (m=3) [ I 1024 " in out
    assert "Bounds and proofs hold for each layer and its paddings with at most 25 % more MACs." in out
    assert "layer is padded: C 1009+15." in out


def test_json_has_the_padded_shape_and_the_share(written: Path) -> None:
    """1009 x 8 useful MACs; the layer that is read back is the padded one."""
    data = read_json(written / "r.json")
    (entry,) = data["layers"]
    assert (entry["shape"]["C"], entry["shape"]["zeros"], entry["padding"]) == (1024, {"C": 15}, 0.25)
    assert data["totals"]["macs"] == 1009 * 8
    (case,) = read_mapped_layers(written / "r.json")
    assert (case.layer.C, case.layer.useful_macs) == (1024, 1009 * 8)
    assert build_result("r.json", data)["layers"][0]["shape"].C == 1024


def test_mapping_file_has_the_padded_shape(written: Path) -> None:
    """The same layer and mapping as in the JSON."""
    (case,), (entry,) = read_mapped_layers(written / "r.json"), read_mapping_file(written / "m.yaml").layers
    assert (entry.layer, entry.mapping) == (case.layer, case.mapping)


@pytest.mark.parametrize("name", ["r.json", "m.yaml"])
def test_padded_mappings_simulate_as_predicted(name: str, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The title says what is padded; the trace of the pipeline is written, too."""
    assert main(["simulate", str(written / name), "--timeline", str(written / "trace.json")]) == 0
    out = capsys.readouterr().out
    assert "layer, padded: C 1009+15" in out
    assert "all exact figures are equal" in out
    assert read_json(written / "trace.json")["traceEvents"]


def test_padded_mappings_go_to_other_tools(written: Path) -> None:
    """Timeloop's problem has the padded bounds, a trace the columns of padded tensors: 1024 / 32 of W's 8 rows."""
    assert main(["export", str(written / "r.json"), "--format", "timeloop", "-o", str(written / "timeloop")]) == 0
    assert "C: 1024," in (written / "timeloop" / "layer.problem.yaml").read_text()
    assert main(["trace", str(written / "r.json"), "--format", "dramsim3", "-o", str(written / "layer.trace")]) == 0
    assert len((written / "layer.trace").read_text().splitlines()) == 2 * 8 * 1024 // 32 + 1


def test_page_shows_the_padded_bounds(written: Path) -> None:
    """In the layer's shape; utilisation is of useful MACs."""
    pytest.importorskip("plotly", reason="needs the extra report")
    page = render_report([("padded", read_json(written / "r.json"))])
    assert '"C1009+15 K8"' in page


def test_a_padded_mapping_is_started_from(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With padding; without it the mapping is of other bounds, as one line says."""
    network = tmp_path / "net.yaml"
    network.write_text("version: 1\nlayers:\n- {name: layer, C: 1009, K: 8}\n")
    run = ["run", str(network), "--start-from", str(written / "m.yaml"), "--json", str(tmp_path / "again.json")]
    assert main([*run, "--padding", "0.02"]) == 0
    assert read_json(tmp_path / "again.json")["layers"][0]["objective"] == objective(written / "r.json")
    capsys.readouterr()
    assert main(run) == 2
    assert one_error_line(capsys)


def objective(path: Path) -> object:
    """Of the only layer."""
    return read_json(path)["layers"][0]["objective"]


@pytest.mark.parametrize("given", ["100%", "-1%", "1.5", "some", "nan"])
def test_a_share_that_is_none_is_one_line(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line."""
    assert main(["map", "C=11", f"--padding={given}"]) == 2
    assert one_error_line(capsys)


@pytest.mark.parametrize("zeros", [{"C": 1024}, {"C": -1}, {"X": 1}, [1], 3, {"C": 1.5}])
def test_padding_that_cannot_be_is_one_line(
    zeros: object, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a file."""
    data = read_json(written / "r.json")
    data["layers"][0]["shape"]["zeros"] = zeros
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(data))
    capsys.readouterr()
    assert main(["simulate", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "zeros" in err


# --- Sweeps ----------------------------------------------------------------------------------------------------------


def test_sweeps_pad_and_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """11 on four lanes without and with padding: two jobs, of which the second has a mapping; exported as rows and as
    results files that simulate.
    """
    (tmp_path / "four.yaml").write_text("version: 1\nspatial: {INTERNAL: {C: 4}}\n")
    plan = tmp_path / "plan.yaml"
    base = '{network: "C=11,K=8", constraints: four.yaml}'
    plan.write_text(f"version: 1\nbase: {base}\ngrid: {{padding: [0, 0.25]}}\n")
    assert main(["sweep", str(plan), "--jobs", "1"]) == 1
    with Store(plan.with_suffix(".sqlite"), readonly=True) as store:
        plain, padded = layer_rows(store)
    assert (plain["C"], plain["zeros"], plain["padding"], plain["status"]) == (11, None, 0, "INFEASIBLE")
    assert (padded["C"], padded["zeros"], padded["padding"], padded["status"]) == (11, '{"C":1}', 0.25, "OPTIMAL")
    assert main(["sweep", "export", str(plan), f"{tmp_path}/out/"]) == 0
    assert main(["simulate", str(tmp_path / "out" / "plan-0001.json")]) == 0
    assert "padded: C 11+1" in capsys.readouterr().out


@pytest.mark.parametrize("given", ["1", "-0.1", "12%", "true"])
def test_a_plan_with_a_share_that_is_none_is_one_line(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its place."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(f'version: 1\nlist: [{{network: "C=11", padding: {given}}}]\n')
    assert main(["sweep", str(plan)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "list[0].padding: must be a number from 0 to below 1" in err


def test_layers_too_large_to_be_padded_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """4194301 is a prime; 2^22 partial sums of 2^40 B are 2^62 B."""
    network = tmp_path / "net.yaml"
    network.write_text("version: 1\nbytes: {psum: 1099511627776}\nlayers: [{name: a, K: 4194301}]\n")
    chip = tmp_path / "chip.yaml"
    terabytes = "dram_timings: {co_w: 1 TiB}\nhierarchy: {ROW_BUFFER: {row_buffer_size: 1 TiB}}\n"
    chip.write_text(f"version: 1\nextends: default\n{terabytes}")
    assert main(["run", str(network), "--arch", str(chip), "--padding", "1%"]) == 2
    assert one_error_line(capsys)
