"""`plan` with its options about baselines, starts, explanations and traces, on two small layers."""

import json

import pytest

from cpsat_pim.cli import main

CHAIN = """version: 1
name: chain
layers:
- {name: a, P: 8, C: 4, K: 8, after: [input]}
- {name: b, P: 8, C: 8, K: 4, after: [a]}
"""
WORDS = ["--arch", "default", "--layouts", "free", "--dims", "1", "--quiet", "--jobs", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a network of two layers and its greedy plan on 1 x 2 nodes."""
    path = tmp_path_factory.mktemp("chain")
    (path / "chain.yaml").write_text(CHAIN)
    words = ["--array", "1x2", *WORDS, "--store", str(path / "nodes.db"), "--simulate"]
    assert (
        main(["plan", str(path / "chain.yaml"), *words, "--baseline", "greedy", "--json", str(path / "made.json")]) == 0
    )
    return path


@pytest.fixture
def chain(folder):
    """The network's file."""
    return str(folder / "chain.yaml")


def test_one_node_is_what_run_says_of_latency_too(chain, tmp_path):
    """On one node with free layouts the least latency is the sum of the layers' own."""
    planned, ran = tmp_path / "plan.json", tmp_path / "run.json"
    assert main(["plan", chain, "--array", "1x1", *WORDS, "--json", str(planned)]) == 0
    assert main(["run", chain, "--arch", "default", "--objective", "latency", "--json", str(ran)]) == 0
    plan, run = json.loads(planned.read_text()), json.loads(ran.read_text())
    assert plan["status"] == "OPTIMAL"
    assert plan["predicted"]["latency_cycles"] == run["totals"]["latency_cycles"]


def test_baseline_writes_a_plan_without_a_bound(folder):
    """It is FEASIBLE, names its planner, and is simulated as predicted."""
    document = json.loads((folder / "made.json").read_text())
    assert (document["status"], document["baseline"], document["bound"]) == ("FEASIBLE", "greedy", None)
    assert document["simulated"]["energy_fj"] == document["predicted"]["energy_fj"]


def test_search_is_not_worse_than_what_it_starts_from(folder, chain, capsys):
    """From a baseline and a file; the plan is explained, and its schedule written."""
    made, better, trace = (folder / name for name in ("made.json", "better.json", "trace.json"))
    words = ["--array", "1x2", *WORDS, "--store", str(folder / "nodes.db"), "--trace", str(trace), "--explain"]
    assert main(["plan", chain, *words, "--start", f"sequential,{made}", "--json", str(better)]) == 0
    solved = json.loads(better.read_text())
    assert solved["predicted"]["latency_cycles"] <= json.loads(made.read_text())["objective"]
    assert solved["explanation"]["time"]["node"] > 0
    assert "fullest node: " in capsys.readouterr().out
    assert {event["ph"] for event in json.loads(trace.read_text())["traceEvents"]} == {"M", "X", "C"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--baseline", "lucky"], "argument --baseline: invalid choice: 'lucky'"),
        (
            ["--start", "none.json"],
            "--start: must be plan files or some of sequential, alternating, greedy (got 'none.json')",
        ),
        (["--replay", "none.json"], "none.json: cannot be read"),
    ],
)
def test_mistake_is_one_line(chain, capsys, words, message):
    """What was given and what was expected; exit code 2."""
    assert main(["plan", chain, "--array", "1x2", *WORDS, *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d["segments"].__setitem__(0, [*d["segments"][0], {"region": [0, 0, 1, 1], "layers": ["c"]}]),
            "segments[0]: region [0, 0, 1, 1] must lie in the array, apart from the others",
        ),
        (lambda d: d["segments"][0][0]["layers"].append("c"), "segments: c is not a layer of chain"),
        (lambda d: d["layers"].pop("b"), "layers: b is missing"),
        (lambda d: d.update(homes={}), "homes: input is missing"),
        (lambda d: d.update(layers=[]), "layers: must be "),
        (lambda d: d["array"].update(rows="many"), "array: NodeArray.rows: must be "),
        (lambda d: d.update(network="other"), "network: must be a plan of chain (got 'other')"),
    ],
)
def test_mistakes_of_a_plan_are_told_in_a_line(folder, chain, tmp_path, capsys, change, message):
    """Regions that overlap, an unknown layer, what is missing, wrong types, a plan of another network."""
    document, path = json.loads((folder / "made.json").read_text()), tmp_path / "plan.json"
    change(document)
    path.write_text(json.dumps(document))
    assert main(["plan", chain, "--array", "1x2", *WORDS, "--replay", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_capacity_that_is_too_small_is_told_with_what_it_takes(folder, chain, capsys):
    """With one replica of all weights the plan still needs so many bytes."""
    words = ["--array", "1x2", *WORDS, "--store", str(folder / "nodes.db"), "--capacity", "10"]
    assert main(["plan", chain, *words, "--baseline", "greedy"]) == 2
    assert (
        "capacity: 10 bytes a node are too few: with one replica of all weights this plan needs"
        in capsys.readouterr().err
    )
