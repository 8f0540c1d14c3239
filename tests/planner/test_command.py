"""The command `plan`: one node is what `run` says, and mistakes are told in a line."""

import json

import pytest

from cpsat_pim.cli import main

CHAIN = """version: 1
name: chain
layers:
- {name: a, P: 8, C: 4, K: 8, after: [input]}
- {name: b, P: 8, C: 8, K: 4, after: [a]}
"""


AWKWARD = """version: 1
name: awkward
layers:
- {name: a, P: 17, C: 2, K: 2, after: [input]}
"""


@pytest.fixture
def chain(tmp_path):
    """A file of two layers."""
    path = tmp_path / "chain.yaml"
    path.write_text(CHAIN)
    return str(path)


@pytest.mark.parametrize(("objective", "figure"), [("latency", "latency_cycles"), ("energy", "energy_fj")])
def test_one_node_is_what_run_says(chain, tmp_path, capsys, objective, figure):
    """On an array of one node with free layouts nothing moves: latency and energy are sums of the layers' own."""
    planned, ran = tmp_path / "plan.json", tmp_path / "run.json"
    words = ["--arch", "default", "--objective", objective, "--json"]
    assert main(["plan", chain, "--array", "1x1", "--layouts", "free", *words, str(planned), "--quiet"]) == 0
    assert main(["run", chain, *words, str(ran)]) == 0
    plan, run = json.loads(planned.read_text()), json.loads(ran.read_text())
    assert (plan["status"], plan["gap"]) == ("OPTIMAL", 0)
    assert plan["objective"] == plan["bound"]
    assert plan["predicted"][figure] == run["totals"][figure]
    assert plan["predicted"]["message_bytes"] == plan["predicted"]["dram_columns"] == 0
    assert main(["plan", chain, "--arch", "default", "--replay", str(planned), "--simulate"]) == 0
    printed = capsys.readouterr()
    assert f"latency {plan['predicted']['latency_cycles']:,} cycles" in printed.out
    assert "every other figure is equal" in printed.err


@pytest.mark.slow
def test_padded_parts_are_written_replayed_and_simulated(tmp_path, capsys):
    """17 rows on 16 columns of PEs take 117 cycles, as 17 is prime; padded to 18 they take fewer.

    The mapping that is written has the larger bound; it is read, costed and simulated as such.
    """
    network, planned = tmp_path / "awkward.yaml", tmp_path / "plan.json"
    network.write_text(AWKWARD)
    words = ["plan", str(network), "--arch", "default", "--objective", "latency", "--quiet"]
    free = ["--array", "1x1", "--layouts", "free", "--jobs", "1", "--node-time", "4", "--time-limit", "20"]
    assert main([*words, *free, "--padding", "10%", "--json", str(planned)]) == 0
    plan = json.loads(planned.read_text())
    assert plan["predicted"]["latency_cycles"] < 117
    assert plan["space"]["padding"] == 0.1
    capsys.readouterr()
    assert main([*words, "--replay", str(planned), "--simulate"]) == 0
    printed = capsys.readouterr()
    assert f"latency {plan['predicted']['latency_cycles']:,} cycles" in printed.out
    assert "every other figure is equal" in printed.err


def test_plan_on_nodes_with_one_bank_is_what_is_simulated(chain, tmp_path, capsys):
    """NicePIM's nodes have one bank: node programs share it, and every exact figure of the simulation is predicted."""
    words = ["--arch", "stacked-3d-4x4", "--array", "1x2", "--bytes", "2,2,2,4", "--objective", "energy", "--jobs", "1"]
    limits = ["--time-limit", "20", "--node-time", "2"]
    assert main(["plan", chain, *words, *limits, "--store", str(tmp_path / "nodes.db"), "--simulate", "--quiet"]) == 0
    assert "every other figure is equal" in capsys.readouterr().err


@pytest.mark.parametrize(("stopped", "says"), [("_run", "UNKNOWN: latency -"), ("run", "FEASIBLE: latency ")])
def test_interrupted_search_ends_with_130(chain, tmp_path, monkeypatch, capsys, stopped, says):
    """A stop before mappings are built leaves no plan, and one before any is solved leaves a plan of those."""
    monkeypatch.setattr(f"cpsat_pim.planner.nodes.workers.Workers.{stopped}", lambda self, *rest: self.stop.set())
    words = ["--arch", "default", "--array", "1x2", "--objective", "latency", "--store", str(tmp_path / "nodes.db")]
    assert main(["plan", chain, *words]) == 130
    printed = capsys.readouterr()
    assert says in printed.out
    assert ("no plan was found in time" in printed.err) == (stopped == "_run")


def test_weights_that_do_not_fit_are_said_at_once(chain, capsys):
    """64 weights, 32 inputs and the 64 outputs of the first layer take 160 bytes, so 80 on each of two nodes.

    Besides, a node must fetch 16 bytes for the first layer: half of its weights if P is split, half of its inputs if K
    is. Where C is, it holds 64 partial sums. So 96 is the least.
    """
    words = ["--arch", "default", "--array", "1x2", "--capacity", "79"]
    assert main(["plan", chain, *words]) == 1
    printed = capsys.readouterr().err
    assert "no plan fits the 79 bytes of a node: " in printed
    assert "take at least 80 on each of 2 nodes; the least that would do is 96" in printed


def test_plan_of_another_array_or_network_is_told_in_one_line(chain, tmp_path, capsys):
    """Not a line for each of its layers and tensors, which another network lacks.

    P is split: a node has all 32 + 32 weights, half of the 64 outputs of `a`, and half of the 32 of `b`: 112 bytes.
    """
    planned, other = str(tmp_path / "plan.json"), tmp_path / "other.yaml"
    other.write_text(AWKWARD)
    common = ["--arch", "default", "--objective", "latency", "--store", str(tmp_path / "nodes.db")]
    assert main(["plan", chain, *common, "--array", "1x2", "--json", planned, "--quiet"]) == 0
    for words, message in (
        ([chain, "--array", "1x4"], "array: must be 1x4, as --array says (got 1x2)"),
        ([chain, "--array", "1x2", "--capacity", "95"], "takes 112 bytes of its fullest node, which has 95"),
        ([str(other), "--array", "1x2"], "network: must be a plan of awkward (got 'chain')"),
    ):
        assert main(["plan", *words, *common, "--replay", planned]) == 2
        assert capsys.readouterr().err == f"cpsat_pim: error: {planned}: {message}\n"


def test_layer_of_which_no_part_has_a_mapping_is_told_by_name(tmp_path, capsys):
    """Half of `b`'s weights, 2 MiB, exceed a bank pair's bank of 1 MiB: more bytes for a plan would not help."""
    (tmp_path / "arch.yaml").write_text(
        "version: 1\nextends: hbm-pim\nname: small\nhierarchy: {DRAM: {entries: 2 MiB}}\n"
    )
    (tmp_path / "net.yaml").write_text(
        "version: 1\nname: n\nlayers:\n"
        "- {name: a, C: 64, K: 1024, after: [input]}\n- {name: b, C: 1024, K: 2048, after: [a]}\n"
    )
    words = ["--arch", str(tmp_path / "arch.yaml"), "--array", "1x2", "--capacity", "64 MiB", "--time-limit", "20"]
    for _ in range(2):  # the second time, tables of the first one tell it before the search begins
        assert main(["plan", str(tmp_path / "net.yaml"), *words]) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert "no plan: no part of b has a mapping on a node, however it is partitioned (" in line
        assert line.endswith("so it needs 2 nodes or more")


def test_start_without_room_is_left_out(chain, capsys):
    """The sequential baseline replicates no weights here and needs more than the 96 bytes by which a plan exists."""
    words = ["--arch", "default", "--array", "1x2", "--capacity", "96", "--start", "sequential"]
    assert main(["plan", chain, *words]) == 0
    printed = capsys.readouterr()
    assert "--start sequential: left out, capacity: 96 bytes a node are too few" in printed.err
    assert "OPTIMAL: latency" in printed.out


@pytest.mark.parametrize("capacity", [80, 95])
def test_steps_that_no_node_has_room_for_are_told_in_a_line(chain, capsys, capacity):
    """All that is stored would fit on two nodes, but no partition of the first layer has the 96 bytes that it takes."""
    assert main(["plan", chain, "--arch", "default", "--array", "1x2", "--capacity", str(capacity)]) == 1
    printed = capsys.readouterr()
    assert "INFEASIBLE: latency -" in printed.out
    line = printed.err.splitlines()[-1]
    assert line.endswith(f"no plan of the space fits the {capacity} bytes of a node; the least that would do is 96")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--array", "4"], "array: must be rows x columns, like 4x8 (got '4')"),
        (["--bytes", "2,2"], "argument --bytes: must be one or four numbers of bytes up to 64, of whole bits"),
        (["--layouts", "BWHC"], "Space.layouts: must be different ones of BCHW and BHWC, alone or with grouped"),
        (["--alpha", "2"], "--alpha and --beta need --objective blended"),
        (["--cuts", "1", "--objective", "energy"], "--cuts needs --objective lexicographic or latency"),
        (["--replay", "none.json"], "none.json: cannot be read: No such file or directory"),
    ],
)
def test_mistake_is_one_line(chain, capsys, words, message):
    """What was given and what was expected; exit code 2."""
    assert main(["plan", chain, "--arch", "default", *words]) == 2
    assert message in capsys.readouterr().err


def test_network_without_joins_is_refused(tmp_path, capsys):
    """A layer behind two others says how they become its input."""
    path = tmp_path / "net.yaml"
    path.write_text(CHAIN + "- {name: c, P: 8, C: 12, after: [a, b]}\n")
    assert main(["plan", str(path)]) == 2
    assert "chain: c: join: must be concat or add, as it comes after 2 layers" in capsys.readouterr().err
