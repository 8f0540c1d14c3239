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
WORDS = ["--arch", "default", "--layouts", "free", "--dims", "1", "--quiet"]


@pytest.fixture
def chain(tmp_path):
    """A file of two layers."""
    path = tmp_path / "chain.yaml"
    path.write_text(CHAIN)
    return str(path)


def test_one_node_is_what_run_says_of_latency_too(chain, tmp_path):
    """On one node with free layouts the least latency is the sum of the layers' own."""
    planned, ran = tmp_path / "plan.json", tmp_path / "run.json"
    assert main(["plan", chain, "--array", "1x1", *WORDS, "--json", str(planned)]) == 0
    assert main(["run", chain, "--arch", "default", "--objective", "latency", "--json", str(ran)]) == 0
    plan, run = json.loads(planned.read_text()), json.loads(ran.read_text())
    assert plan["status"] == "OPTIMAL"
    assert plan["predicted"]["latency_cycles"] == run["totals"]["latency_cycles"]


def test_baseline_writes_a_plan_without_a_bound(chain, tmp_path, capsys):
    """It is FEASIBLE, names its planner, can be replayed, and the search from it is not worse."""
    made, better, trace = (tmp_path / name for name in ("made.json", "better.json", "trace.json"))
    store = ["--store", str(tmp_path / "nodes.db")]
    words = ["--array", "1x2", *WORDS, *store]
    assert main(["plan", chain, *words, "--baseline", "greedy", "--json", str(made), "--simulate"]) == 0
    document = json.loads(made.read_text())
    assert (document["status"], document["baseline"], document["bound"]) == ("FEASIBLE", "greedy", None)
    assert "every other figure is equal" in capsys.readouterr().err
    words += ["--trace", str(trace), "--explain"]
    assert main(["plan", chain, *words, "--start", f"sequential,{made}", "--json", str(better)]) == 0
    solved = json.loads(better.read_text())
    assert solved["objective"] <= document["objective"]
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
        (["--baseline", "greedy", "--capacity", "10"], "capacity: 10 bytes a node are too few"),
    ],
)
def test_mistake_is_one_line(chain, capsys, words, message):
    """What was given and what was expected; exit code 2."""
    assert main(["plan", chain, "--array", "1x2", *WORDS, *words]) == 2
    assert message in capsys.readouterr().err


def edited(path, change):
    """A plan file with a change."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return str(path)


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
def test_mistakes_of_a_plan_are_told_in_a_line(chain, tmp_path, capsys, change, message):
    """Regions that overlap, an unknown layer, what is missing, wrong types, a plan of another network."""
    path = tmp_path / "plan.json"
    words = ["--array", "1x2", *WORDS, "--store", str(tmp_path / "nodes.db")]
    assert main(["plan", chain, *words, "--baseline", "greedy", "--json", str(path)]) == 0
    capsys.readouterr()
    assert main(["plan", chain, *words, "--replay", edited(path, change)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
