"""`run` and `map` as a user runs them: results, nests, mappings to start from, constraints, shared choices."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cpsat_pim.mapper.network.tasks
from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.cli import main
from cpsat_pim.cli.given import check_layers_fit, given_arch
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.constraints import Constraints, NetworkConstraints
from cpsat_pim.workload.network_text import parse_shape, shape_network
from tests.cli.commands import TINY, map_tiny, one_error_line, read_json

TINY_BOUNDS = {"R": 3, "S": 1, "P": 4, "Q": 4, "C": 4, "K": 4, "N": 1, "G": 1}
TOP_KEYS = ["schema", "network", "arch", "objective", "layers", "totals"]
LAYER_KEYS = ["name", "count", "shape", "status", "objective", "bound", "gap", "solve_seconds"]
LAYER_KEYS += ["predicted", "simulated", "mapping", "progress"]
LAYER_KEYS += ["bound_by", "dataflow", "energy_parts_fj", "utilization", "performance"]
TOTAL_KEYS = ["layers", "mapped", "macs", "latency_cycles", "energy_fj", "objective", "bound"]
TOTAL_KEYS += ["row_activations", "performance", "nodes", "seconds", "interrupted"]
FIGURES = {
    "latency_cycles",
    "compute_cycles",
    "dram_cycles",
    "energy_fj",
    "row_activations",
    "column_accesses",
    "accesses",
}


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
    assert list(data["layers"][0]) == [*LAYER_KEYS, "second"]
    for figures in (data["layers"][0]["predicted"], data["layers"][0]["simulated"]):
        assert set(figures) == FIGURES
        assert set(figures["row_activations"]) == set(figures["column_accesses"]) == {"I", "W", "O"}
        assert set(figures["accesses"]) == {"PE", "GLOBAL_BUFFER", "ROW_BUFFER", "DRAM"}
        assert set(figures["accesses"]["PE"]["I"]) == {"read", "write"}
    assert list(data["totals"]) == TOTAL_KEYS
    documented = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    for key in (*data, *data["layers"][0], *FIGURES, *data["layers"][0]["mapping"], *data["totals"]):
        assert f"`{key}`" in documented, key


def test_product_is_reported_in_its_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--objective edp`: cycles x fJ in JSON, with its bound, also in the totals; cycles x nJ to be read."""
    path = tmp_path / "m.json"
    assert main(["map", "C=2,K=4", "--objective", "edp", "--json", str(path)]) == 0
    data = read_json(path)
    (layer,) = data["layers"]
    product = layer["predicted"]["latency_cycles"] * layer["predicted"]["energy_fj"]
    assert data["objective"]["kind"] == "edp"
    assert (layer["objective"], layer["bound"], layer["gap"], layer["status"]) == (product, product, 0, "OPTIMAL")
    assert (data["totals"]["objective"], data["totals"]["bound"]) == (product, product)
    out = capsys.readouterr().out
    assert out.split().count(f"{product / 10**6:.4g}") == 2
    assert "objective edp (cycles x nJ)" in out
    assert main(["simulate", str(path)]) == 0


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
    """Totals count `first` twice; equal layers have equal results; worker processes give the same results as
    this one.
    """
    path = tmp_path / "pair.json"
    assert main(["run", pair, "--objective", "energy", "--jobs", "2", "--json", str(path)]) == 0
    data = read_json(path)
    first, second, twin = data["layers"]
    assert [layer["name"] for layer in data["layers"]] == ["first", "second", "twin"]
    assert second["mapping"] == twin["mapping"]
    assert data["totals"]["layers"] == data["totals"]["mapped"] == 4
    assert data["totals"]["energy_fj"] == 2 * first["objective"] + second["objective"] + twin["objective"]
    assert "3/3" in capsys.readouterr().out  # proven rows of the table


def test_run_takes_a_shape(tmp_path: Path) -> None:
    """As any command that takes a network: one layer, as if `map` had been given it."""
    path = tmp_path / "r.json"
    assert main(["run", "C=4,K=4", "--json", str(path)]) == 0
    assert [layer["shape"]["K"] for layer in read_json(path)["layers"]] == [4]


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
        assert err.startswith("cpsat_pim: time limit reached before a proof of optimality for layer")
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


# --- Starts ----------------------------------------------------------------------------------------------------------


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
        starts.update({task.layer.name: task.request.start for task in tasks})
        return {}

    monkeypatch.setattr(cpsat_pim.mapper.network.tasks, "_run_here", run)
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
    """A broken file, an unknown layer, an illegal mapping: each is reported."""
    path = tmp_path / "m.yaml"
    path.write_text(f"version: 1\nlayers:\n{text}\n")
    assert main(["run", pair, "--start-from", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


# --- Constraints -----------------------------------------------------------------------------------------------------

DIRECTIONS = ("H", "W", "INTERNAL")
#: Of the two layers that are equal, one has constraints of its own.
CONSTRAINTS = """
version: 1
spatial: {H: {K: 1}, W: {K: 1}, INTERNAL: {K: 1}}
layers:
  twin: {stored: {PE: {W: true}}, order: {DRAM: PQ}, layout: {I: NHWGC}}
"""


@pytest.fixture
def constrain(tmp_path: Path) -> Callable[[str], str]:
    """Writes a file of constraints and returns its name."""

    def write(text: str) -> str:
        path = tmp_path / "c.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_constraints_are_kept_and_recorded(
    pair: str, constrain: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of all layers and those of one, which is solved by itself; `simulate` finds nothing that is not kept."""
    path, file = tmp_path / "r.json", constrain(CONSTRAINTS)
    assert main(["run", pair, "--constraints", file, "--jobs", "1", "--json", str(path)]) == 0
    assert "Bounds and proofs hold for the mappings that satisfy the constraints." in capsys.readouterr().out
    first, second, twin = read_json(path)["layers"]
    assert first["constraints"] == second["constraints"] == {"spatial": {place: {"K": 1} for place in DIRECTIONS}}
    assert twin["constraints"]["stored"] == {"PE": {"W": True}}
    assert all("K" not in row for layer in (first, second, twin) for row in layer["mapping"]["spatial"].values())
    assert "W" in twin["mapping"]["stored"]["PE"]
    assert twin["mapping"]["layout"]["I"]["order"] == "NHWGC"
    assert twin["objective"] >= second["objective"]
    assert main(["simulate", str(path), "--constraints", file]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spatial: {H: {C: 3}}", "C: the fixed factors 3 do not divide the bound 4"),
        ("spatial: {H: {C: 4}, INTERNAL: {C: 4}}", "C: the fixed factors 4 x 4 do not divide the bound 4"),
        ("temporal: {PE: {C: 4}}\nstored: {PE: {O: false, W: false}}\ndataflow: RS", None),
    ],
)
def test_what_nothing_keeps_is_told_in_a_line(
    constrain: Callable[[str], str], capsys: pytest.CaptureFixture[str], text: str, message: str | None
) -> None:
    """INFEASIBLE, exit code 1, and the reason if the factors show it. The layer has no filter to spread."""
    assert main(["map", "P=4,C=4,K=4", "--constraints", constrain(f"version: 1\n{text}")]) == 1
    out, err = capsys.readouterr()
    assert "INFEASIBLE" in out
    said = "cpsat_pim: layer: infeasible: no mapping satisfies the constraints"
    assert err == (
        f"{said}: {message}\n" if message else f"{said}; `cpsat_pim explain` names the limits that conflict\n"
    )


def test_layers_beyond_a_node_are_told_and_the_others_solved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node of `hbm-pim` has 32 MiB. W of 4096 x 11008 two-byte elements alone has 86 MiB: three nodes."""
    net, path = tmp_path / "net.yaml", tmp_path / "r.json"
    layers = "- {name: small, C: 16, K: 16}\n- {name: large, C: 4096, K: 11008, after: [small]}\n"
    net.write_text("version: 1\nbytes: {input: 2, weight: 2, output: 2, psum: 2}\nlayers:\n" + layers)
    assert main(["run", str(net), "--arch", "hbm-pim", "--json", str(path), "--jobs", "1"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("cpsat_pim: large: infeasible: BankPair: the layer takes at least I 8192 + W 90177536 + ")
    assert err.endswith("there are 33554432 B, so it needs 3 nodes or more\n")
    assert [layer["status"] for layer in read_json(path)["layers"]] == ["OPTIMAL", "INFEASIBLE"]
    assert main(["map", "C=4096,K=11008", "--arch", "hbm-pim"]) == 2
    assert "so it needs 3 nodes or more" in capsys.readouterr().err  # two-byte elements, as the machine's words


def test_constraints_that_cannot_be_used_are_refused_before_solving(
    pair: str, constrain: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken file, and a layer that is not there."""
    assert main(["run", pair, "--constraints", constrain("version: 1\ndataflow: XS")]) == 2
    assert "c.yaml:2:11: dataflow: must be one of" in capsys.readouterr().err
    assert main(["run", pair, "--constraints", constrain("version: 1\nlayers: {frst: {dataflow: WS}}")]) == 2
    assert "no layer is named 'frst'; did you mean 'first'?" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "counts"), [("choose", {(2, 1, 1), (1, 2, 1), (1, 1, 2)}), ("1,2,1", {(1, 2, 1)})])
def test_bank_counts_are_chosen_or_fixed(given: str, counts: set[tuple[int, ...]], tmp_path: Path) -> None:
    """`--bank-counts`, on a node with four banks: the JSON names them in the mapping and in the constraints."""
    machine, path = tmp_path / "four.yaml", tmp_path / "m.json"
    machine.write_text("version: 1\nextends: default\nnode_banks: 4\nhierarchy: {DRAM: {num_banks: 1}}\n")
    assert map_tiny("--arch", str(machine), "--bank-counts", given, "--json", str(path)) == 0
    (layer,) = read_json(path)["layers"]
    assert layer["status"] == "OPTIMAL"
    assert tuple(layer["mapping"]["bank_counts"]) in counts
    assert layer["constraints"] == {"bank_counts": given if given == "choose" else [1, 2, 1]}
    assert main(["simulate", str(path)]) == 0


def test_a_tensor_larger_than_its_bank_is_refused_before_solving(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Banks of 16 KiB: 25,600 bytes of weights fit two, which a constraint may give to one layer or leave open."""
    machine = tmp_path / "four.yaml"
    machine.write_text(
        "version: 1\nextends: default\nnode_banks: 4\nhierarchy: {DRAM: {num_banks: 1, entries: 65536}}\n"
    )
    assert main(["map", "C=256,K=100", "--arch", str(machine), "--time-limit", "1"]) == 2
    assert "W takes at least 25600 B, there are 16384 B in a bank, so it needs 2 nodes" in capsys.readouterr().err
    two, chosen = Constraints(bank_counts=(1, 2, 1)), Constraints(bank_counts=None)
    for constraints in (NetworkConstraints(layers={"layer": two}), NetworkConstraints(everywhere=chosen)):
        check_layers_fit(shape_network("C=256,K=100"), given_arch(str(machine)), constraints=constraints)


def test_bank_counts_that_are_none_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A power of two for each tensor."""
    assert map_tiny("--bank-counts", "3,1,1") == 2
    assert "must be choose, or three powers of two [input, weight, output] (got '3,1,1')" in capsys.readouterr().err


def test_start_keeps_the_constraints(
    pair: str, constrain: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or is refused."""
    start, file = tmp_path / "m.yaml", constrain("version: 1\nlayers: {first: {temporal: {PE: {P: 2}}}}")
    loops = "{temporal: {PE: {P: 4, Q: 4, C: 4, K: 4}}, stored: {ROW_BUFFER: '', GLOBAL_BUFFER: '', PE: IWO}}"
    start.write_text(f"version: 1\nlayers:\n- name: first\n  mapping: {loops}\n")
    assert main(["run", pair, "--start-from", str(start), "--constraints", file]) == 2
    assert "--start-from: first on default: PE: the factor of P must be 2 (got 4)" in capsys.readouterr().err


# --- Shared choices --------------------------------------------------------------------------------------------------


def test_shared_choice_is_told_and_recorded(pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--share`: the JSON names what all layers have in common, as constraints that each layer's mapping keeps."""
    path = tmp_path / "r.json"
    assert main(["run", pair, "--share", "bypass, layout", "--json", str(path), "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert re.search(r"Shared by all layers: PE stores .*; minimum over all choices: proven\. The sum is \d", out)
    data = read_json(path)
    assert list(data) == [*TOP_KEYS, "shared"]
    assert (data["shared"]["status"], data["shared"]["gap"]) == ("OPTIMAL", 0)
    assert all(layer["constraints"] == data["shared"]["choice"] for layer in data["layers"])
    documented = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    assert all(f'"{key}"' in documented for key in data["shared"])
    assert main(["simulate", str(path)]) == 0


def test_shared_choice_without_a_proof_is_told(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In so little time that not all is proven there is a gap, or nothing was found."""
    code = main(["run", pair, "--share", "bypass", "--total-time", "0.01", "--objective", "latency", "--jobs", "1"])
    assert code in (0, 1)
    assert "time limit reached before a proof of optimality of the shared choice" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--share", "order"], ["--share", ""], ["--total-time", "5"]])
def test_share_that_cannot_be_used_is_refused(
    pair: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is solved."""
    assert main(["run", pair, *options]) == 2
    assert one_error_line(capsys)
