"""`explain` as a user runs it: tables, JSON, files of mappings, mistakes, interruption."""

import json
from pathlib import Path

import pytest

import cpsat_pim.mapper.explain.layers
from cpsat_pim.cli import main
from cpsat_pim.report.jsonfile import read_mapped_layers
from tests.cli.commands import one_error_line, read_json, solve_and_interrupt, solve_noting

SHAPE = "C=2,K=4"


@pytest.fixture
def tiny(tmp_path: Path, chip: str) -> str:
    """The same without any: half of a byte for an element of O."""
    path = tmp_path / "tiny.yaml"
    path.write_text(f"version: 1\nextends: {chip}\nhierarchy: {{PE: {{entries: 1}}}}\n")
    return str(path)


def test_conflict_is_printed_and_written(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1; the limits, each a way out; the mappings that show it are in the JSON, which other commands read."""
    data = tmp_path / "e.json"
    assert main(["explain", SHAPE, "--arch", tiny, "--json", str(data)]) == 1
    out, err = capsys.readouterr()
    assert err == "cpsat_pim: no mapping for layer\n"
    assert "3 limits conflict, whatever other limits are lifted; no smaller set does." in out
    document = read_json(data)
    (entry,) = document["explain"]
    limits = {limit["name"]: limit for limit in entry["conflict"]["limits"]}
    assert [*limits] == ["hierarchy.PE.entries", "hierarchy.PE.double_buffered", "hierarchy.PE.stores.O"]
    assert all(name in out for name in limits)
    assert all(limit["lifting_it_is_enough"] and limit["without_it"]["temporal"] for limit in limits.values())
    assert limits["hierarchy.PE.entries"]["feasible_from"] == [2, 2]
    assert (entry["bounds"], entry["upgrades"], document["layers"][0]["status"]) == (None, [], "INFEASIBLE")
    assert read_mapped_layers(data) == []


def test_bounds_and_upgrades_are_printed_and_written(
    chip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `run` would report as bound, parts that sum up, a row for each step; JSON has the same."""
    data = tmp_path / "e.json"
    steps = "hierarchy.PE.entries,hierarchy.DRAM.num_banks"
    assert main(["explain", SHAPE, "--arch", chip, "--upgrades", steps, "--json", str(data)]) == 0
    out, err = capsys.readouterr()
    document = read_json(data)
    (entry,) = document["explain"]
    bounds = entry["bounds"]
    assert (err, f"bound by {bounds['critical']};" in out) == ("", True)
    assert bounds["energy_fj"] == sum(share["fj"] for share in bounds["shares"]) == document["layers"][0]["objective"]
    assert bounds["latency_cycles"] == document["layers"][0]["predicted"]["latency_cycles"]
    assert [level["level"] for level in bounds["levels"]] == ["PE", "GLOBAL_BUFFER", "ROW_BUFFER", "DRAM"]
    assert ",".join(gain["path"] for gain in entry["upgrades"]) == steps
    for gain in entry["upgrades"]:
        assert gain["path"] in out
        assert gain["now"] == [document["layers"][0]["objective"]] * 2
    documented = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    keys = [entry, bounds, *bounds["resources"], *bounds["levels"], *entry["upgrades"]]
    assert all(f"`{key}`" in documented for part in keys for key in part)


def test_given_mappings_are_explained_as_they_are(
    chip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results and mapping files: the file's machine and figures, nothing solved; its objective for upgrades."""
    results, mappings, data = tmp_path / "r.json", tmp_path / "m.yaml", tmp_path / "e.json"
    solved = [
        "map",
        SHAPE,
        "--arch",
        chip,
        "--objective",
        "latency",
        "--json",
        str(results),
        "--mapping",
        str(mappings),
    ]
    assert main(solved) == 0
    for file in (results, mappings):
        capsys.readouterr()
        assert main(["explain", str(file), "--json", str(data)]) == 0
        assert "(as given)" in capsys.readouterr().out
        (bounds,) = (entry["bounds"] for entry in read_json(data)["explain"])
        assert bounds["latency_cycles"] == read_json(results)["layers"][0]["predicted"]["latency_cycles"]
    assert main(["explain", str(results), "--upgrades", "hierarchy.PE.entries", "--json", str(data)]) == 0
    assert "latency now" in capsys.readouterr().out
    assert read_json(data)["objective"]["kind"] == "latency"


def test_product_is_explained_like_a_sum(chip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results of `--objective edp`: time matters to a product, so bandwidth is solved for, too."""
    results, data = tmp_path / "r.json", tmp_path / "e.json"
    assert main(["map", SHAPE, "--arch", chip, "--objective", "edp", "--json", str(results)]) == 0
    assert main(["explain", str(results), "--upgrades", "all", "--time-limit", "2", "--json", str(data)]) == 0
    assert "edp then" in capsys.readouterr().out
    (entry,) = read_json(data)["explain"]
    assert all(gain["mapping"] for gain in entry["upgrades"])
    assert all(gain["now"][1] <= read_json(results)["layers"][0]["objective"] for gain in entry["upgrades"])


def test_network_has_totals_and_equal_layers_are_explained_once(
    chip: str, pair: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both named layers are explained, and the upgrade's gain is summed over them."""
    seen: list[str] = []
    monkeypatch.setattr(cpsat_pim.mapper.explain.layers, "solve_and_verify", solve_noting(seen))
    options = ["--layers", "second,twin", "--arch", chip, "--upgrades", "hierarchy.GLOBAL_BUFFER.entries"]
    assert main(["explain", pair, *options]) == 0
    out = capsys.readouterr().out
    titles = [line for line in out.splitlines() if "gain of each upgrade" in line]
    assert [title.split(":")[0] for title in titles] == ["second", "twin", "all layers"]
    assert set(seen) == {"second"}


def test_budget_that_is_too_small_is_the_conflict(chip: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the least that would do, to the femtojoule."""
    assert main(["explain", SHAPE, "--arch", chip, "--max-energy", "1pJ"]) == 1
    out = capsys.readouterr().out
    least = out.split("is enough: from ")[1].split(" on")[0].replace(" ", "").replace(",", "")
    assert main(["explain", SHAPE, "--arch", chip, "--max-energy", least]) == 0
    assert "OPTIMAL" in capsys.readouterr().out


def test_interrupt_keeps_what_is_known(
    chip: str, pair: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while the first layer is solved: it is explained, without upgrades; exit code 130."""
    monkeypatch.setattr(cpsat_pim.mapper.explain.layers, "solve_and_verify", solve_and_interrupt)
    data = tmp_path / "e.json"
    assert main(["explain", pair, "--arch", chip, "--upgrades", "all", "--json", str(data)]) == 130
    assert "interrupted: 2 of 3 layers not started" in capsys.readouterr().err
    (entry,) = read_json(data)["explain"]
    assert (entry["name"], entry["upgrades"], bool(entry["bounds"])) == ("first", [], True)


@pytest.mark.parametrize(
    "arguments",
    [
        [SHAPE, "--upgrades", "hierarchy.PE.entires"],
        [SHAPE, "--max-energy", "3 parsecs"],
        [SHAPE, "--max-cycles", "0"],
        [SHAPE, "--layers", "conv1"],
        [SHAPE, "--arch", "nosuch"],
        [SHAPE, "--constraints", "nosuch.yaml"],
        [SHAPE, "--alpha", "2"],
        ["C=2,Z=4"],
        ["nosuch"],
        ["nosuch.json"],
        ["nosuch.yaml"],
        [SHAPE, "--json", "no/such/folder/f.json"],
    ],
)
def test_mistake_is_a_line_and_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Known before anything is solved."""
    assert main(["explain", *arguments]) == 2
    assert one_error_line(capsys)


def test_mapping_that_breaks_a_limit_is_refused(
    chip: str, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A given mapping over the budget; a file that names its machine with another one; sizes of a model."""
    results = tmp_path / "r.json"
    assert main(["map", SHAPE, "--arch", chip, "--json", str(results)]) == 0
    for option in (["--max-cycles", "1"], ["--arch", tiny], ["--bind", "n=1"]):
        capsys.readouterr()
        assert main(["explain", str(results), *option]) == 2
        assert one_error_line(capsys)


def test_machine_that_takes_no_energy_is_explained(
    tmp_path: Path, chip: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing has a share of nothing."""
    costs = "access_cost: 0, write_cost: 0"
    levels = ", ".join(f"{level}: {{{costs}}}" for level in ("PE", "GLOBAL_BUFFER", "ROW_BUFFER", "DRAM"))
    free = tmp_path / "free.yaml"
    free.write_text(
        f"version: 1\nextends: {chip}\nactivation_energy: 0\nhierarchy: {{{levels}}}\n"
        "pe_array: {compute_unit: {mac_energy: 0}}\n"
    )
    assert main(["explain", SHAPE, "--arch", str(free), "--objective", "latency"]) == 0
    assert "; 0.000 nJ (OPTIMAL, gap 0)" in capsys.readouterr().out


def test_budget_is_written(chip: str, tmp_path: Path) -> None:
    """Status and bound are of mappings within it."""
    data = tmp_path / "e.json"
    budget = ["--max-cycles", "100000", "--max-energy", "1mJ"]
    assert main(["explain", SHAPE, "--arch", chip, *budget, "--json", str(data)]) == 0
    (layer,) = read_json(data)["layers"]
    assert layer["budget"] == {"cycles": 100000, "fj": 10**12}


def test_layers_of_a_file_without_a_mapping_are_explained(
    tiny: str, pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All, or those named: why there is none, exit code 1."""
    data = tmp_path / "r.json"
    assert main(["explain", pair, "--arch", tiny, "--json", str(data)]) == 1
    capsys.readouterr()
    assert main(["explain", str(data)]) == 1
    out, err = capsys.readouterr()
    assert all(f"{name}: proven infeasible" in out for name in ("first", "second", "twin"))
    assert err == "cpsat_pim: no mapping for first, second, twin\n"
    assert main(["explain", str(data), "--layers", "second"]) == 1


def test_constraints_of_a_file_count_unless_others_are_given(
    chip: str, pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A constraint that leaves one layer no mapping is a limit again, of this layer; one of its own replaces it."""
    constraints, free, data = (tmp_path / name for name in ("c.yaml", "free.yaml", "r.json"))
    constraints.write_text("version: 1\nlayers: {second: {temporal: {PE: {K: 1000}}}}\n")
    free.write_text("version: 1\n")
    assert main(["explain", pair, "--arch", chip, "--constraints", str(constraints), "--json", str(data)]) == 1
    capsys.readouterr()
    assert main(["explain", str(data)]) == 1
    out, err = capsys.readouterr()
    assert ("temporal.PE.K" in out, err) == (True, "cpsat_pim: no mapping for second\n")
    assert main(["explain", str(data), "--layers", "first"]) == 0
    assert main(["explain", str(data), "--constraints", str(free)]) == 0
    results = read_json(data)
    results["layers"][1]["constraints"]["temporal"]["PE"]["K"] = "many"
    data.write_text(json.dumps(results))
    capsys.readouterr()
    assert main(["explain", str(data)]) == 2
    assert "layers[second].constraints.temporal.PE.K: must be" in capsys.readouterr().err


def test_mappings_are_checked_before_anything_is_solved(
    chip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last layer, too."""
    network = tmp_path / "two.yaml"
    network.write_text("version: 1\nlayers:\n- {name: a, C: 2, K: 4}\n- {name: b, C: 64, K: 64}\n")
    data = tmp_path / "r.json"
    assert main(["run", str(network), "--arch", chip, "--json", str(data)]) == 0
    cycles = [layer["predicted"]["latency_cycles"] for layer in read_json(data)["layers"]]
    monkeypatch.setattr(cpsat_pim.mapper.explain.layers, "solve_and_verify", lambda *_: pytest.fail("solved"))
    assert cycles[0] < cycles[1]
    assert main(["explain", str(data), "--upgrades", "all", "--max-cycles", str(cycles[0])]) == 2
    assert "b on " in capsys.readouterr().err
