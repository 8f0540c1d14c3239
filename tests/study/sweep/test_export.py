"""Exports: CSV and Parquet give back what the store holds; results files are as `run` writes them; stores merge."""

import csv
import io
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpsat_pim.cli import main
from cpsat_pim.report.csvfile import write_csv
from cpsat_pim.report.jsonfile import read_mapped_layers
from cpsat_pim.study.sweep.charts import network_text, setting_text
from cpsat_pim.study.sweep.export import layer_rows, network_rows, write_documents
from cpsat_pim.study.sweep.job import Failure, Job, Outcome, attempt, solve_job
from cpsat_pim.study.sweep.plan import Shard
from cpsat_pim.study.sweep.reading import read_plan
from cpsat_pim.study.sweep.run import Choice, run_sweep
from cpsat_pim.study.sweep.store import Store
from tests.study.sweep import work
from tests.study.sweep.conftest import WritePlan

#: A network whose layer a runs three times; the second point leaves out layer b, which fails.
NETWORK = "version: 1\nlayers:\n- {name: a, K: 2, count: 3}\n- {name: b, K: 17}\n- {name: c, K: 5}\n"
PLAN = """
base: {network: net.yaml}
list:
- seed: 1
- layers: a,c
  arch.hierarchy.GLOBAL_BUFFER.stores: [true, true, false]
  arch.hierarchy.GLOBAL_BUFFER.access_cost: 0.5
"""


def solve(jobs: Iterator[Job]) -> Iterator[Outcome]:
    """An engine of this process, whose K=17 fails."""
    return (attempt(work.deadly, job) for job in jobs)


@pytest.fixture
def plan(write_plan: WritePlan) -> Path:
    """A plan that has been solved."""
    path = write_plan(text=PLAN)
    (path.parent / "net.yaml").write_text(NETWORK)
    with Store(path.with_suffix(".sqlite")) as store:
        run_sweep(read_plan(path), store, solve)
    return path


@pytest.fixture
def store(plan: Path) -> Iterator[Store]:
    """Its store."""
    with Store(plan.with_suffix(".sqlite"), readonly=True) as store:
        yield store


def test_rows_tell_of_how_many_nodes_their_figures_are_one(write_plan: WritePlan) -> None:
    """The machine of the plan has 2 x 3 nodes; a row's figures are of one. Charts do not name them as a setting."""
    path = write_plan(
        text="base: {network: net.yaml, layers: a, arch.vault_count: 2, arch.pu_count: 3}\nlist: [{seed: 1}]\n"
    )
    (path.parent / "net.yaml").write_text(NETWORK)
    with Store(path.with_suffix(".sqlite")) as store:
        run_sweep(read_plan(path), store, solve)
        assert [row["nodes"] for row in (*layer_rows(store), *network_rows(store))] == [6, 6]
        assert "nodes" not in setting_text(*network_rows(store))


def test_layers_are_rows_with_settings_and_shapes_as_columns(store: Store) -> None:
    """Five of them: three and two; the failed one has its reason and no figures."""
    rows = layer_rows(store)
    assert [(row["point"], row["layer"], row["count"]) for row in rows] == [
        (0, "a", 3), (0, "b", 1), (0, "c", 1), (1, "a", 3), (1, "c", 1),
    ]  # fmt: skip
    assert [row["K"] for row in rows] == [2, 17, 5, 2, 5]
    assert [row["energy_fj"] for row in rows] == [14_000, None, 35_000, 14_000, 35_000]
    assert [row["latency_cycles"] for row in rows] == [200, None, 500, 200, 500]
    assert (rows[1]["state"], rows[1]["failure"], rows[1]["reason"]) == ("failed", "error", "RuntimeError: no way")
    assert [row["seed"] for row in rows] == [1, 1, 1, 0, 0]
    assert [row["arch.hierarchy.GLOBAL_BUFFER.access_cost"] for row in rows] == [None, None, None, 0.5, 0.5]
    assert rows[3]["arch.hierarchy.GLOBAL_BUFFER.stores"] == "[true, true, false]"


def test_networks_are_sums_only_if_they_are_whole(store: Store) -> None:
    """3 x 200 + 500 cycles, 3 x 14 + 35 pJ, 3 x (1 + 2 + 2) + 1 + 2 + 5 activations; the other one lacks layer b."""
    partly, whole = network_rows(store)
    assert [whole[key] for key in ("layers", "mapped", "proven")] == [4, 4, 4]
    assert [whole[key] for key in ("latency_cycles", "energy_fj", "activations")] == [1100, 77_000, 23]
    assert [partly[key] for key in ("layers", "mapped", "latency_cycles", "energy_fj")] == [5, 4, None, None]
    assert (partly["only_layers"], whole["only_layers"]) == (None, "a,c")
    assert network_text(whole).endswith(": a,c")
    assert "a,c" not in setting_text(whole)


def test_csv_gives_back_every_cell(store: Store) -> None:
    """What does not exist is empty; all else is as Python writes it."""
    rows, file = layer_rows(store), io.StringIO()
    write_csv(rows, file)
    file.seek(0)
    read = list(csv.DictReader(file))
    assert read == [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows]


@pytest.mark.parametrize("by", ["layer", "network"])
def test_parquet_gives_back_every_value(plan: Path, store: Store, by: str) -> None:
    """Integers as integers, also in columns with gaps; read by pyarrow."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra parquet")
    path = plan.with_suffix(".parquet")
    assert main(["sweep", "export", str(plan), str(path), "--by", by]) == 0
    table = parquet.read_table(path)
    assert table.to_pylist() == {"layer": layer_rows, "network": network_rows}[by](store)
    assert str(table.schema.field("energy_fj").type) == "int64"


def test_parquet_without_pyarrow_is_one_line(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How to install it; nothing is written."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["sweep", "export", str(plan), str(plan.with_suffix(".parquet"))]) == 2
    assert "pip install 'cpsat-pim[parquet]'" in capsys.readouterr().err
    assert not plan.with_suffix(".parquet").exists()


def test_results_files_are_as_run_writes_them(write_plan: WritePlan, tmp_path: Path) -> None:
    """Solved by the solver once through the sweep and once by `run`: equal but for the times, and `simulate` agrees."""
    (tmp_path / "net.yaml").write_text("version: 1\nlayers:\n- {name: a, K: 4, count: 3}\n- {name: b, C: 8}\n")
    path = write_plan(text="list: [{network: net.yaml}]")
    with Store(path.with_suffix(".sqlite")) as store:
        run_sweep(read_plan(path), store, lambda jobs: (attempt(solve_job, job) for job in jobs))
        (written,) = write_documents(store, tmp_path / "out")
    run = ["run", str(tmp_path / "net.yaml"), "--then", "none", "--jobs", "1", "--json", str(tmp_path / "run.json")]
    assert main(run) == 0
    ours, theirs = (json.loads(p.read_text()) for p in (written, tmp_path / "run.json"))
    for document in (ours, theirs):
        document["totals"].pop("seconds")
        for layer in document["layers"]:
            del layer["solve_seconds"], layer["progress"]
    assert ours == theirs
    assert [case.layer.name for case in read_mapped_layers(written)] == ["a", "b"]
    assert main(["simulate", str(written)]) == 0


def test_incomplete_points_say_so(store: Store, tmp_path: Path) -> None:
    """Layer b is absent, the totals are of the others and marked."""
    documents = [json.loads(path.read_text()) for path in write_documents(store, tmp_path / "out")]
    assert [[layer["name"] for layer in document["layers"]] for document in documents] == [["a", "c"], ["a", "c"]]
    assert [document["totals"]["interrupted"] for document in documents] == [True, False]
    assert documents[0]["totals"]["energy_fj"] == 3 * 14_000 + 35_000
    assert [layer["count"] for layer in documents[0]["layers"]] == [3, 1]


def test_disagreements_can_be_reproduced(write_plan: WritePlan, tmp_path: Path) -> None:
    """The reproducer comes out as it went in."""
    path = write_plan(2)

    def disagree(jobs: Iterator[Job]) -> Iterator[Outcome]:
        for job in jobs:
            yield Outcome(key=job.key, failure=Failure.DISAGREEMENT, reason="differs", detail='{"version": 1}')

    with Store(path.with_suffix(".sqlite")) as store:
        assert run_sweep(read_plan(path), store, disagree).after.wrong == 1
        (written,) = write_documents(store, tmp_path / "out")
    assert written.name.startswith("disagreement-")
    assert json.loads(written.read_text()) == {"version": 1}


def test_shards_solved_apart_merge_into_the_whole(write_plan: WritePlan, tmp_path: Path) -> None:
    """Two stores as of two machines, merged in either order and twice: each result once, nothing open."""
    path = write_plan(1, 2, 3, 4, 5)
    parts = [tmp_path / f"{i}.sqlite" for i in (1, 2)]
    for i, part in enumerate(parts, 1):
        with Store(part) as store:
            run_sweep(read_plan(path), store, solve, Choice(shard=Shard(index=i, count=2)))
    assert main(["sweep", "merge", str(tmp_path / "all.sqlite"), *map(str, parts), str(parts[0])]) == 0
    with Store(tmp_path / "all.sqlite", readonly=True) as store:
        assert [(row["K"], row["state"]) for row in layer_rows(store)] == [(k, "done") for k in range(1, 6)]
        whole = store.query("SELECT key, answer FROM jobs ORDER BY key")
    assert len(whole) == 5
    for part in parts:
        with Store(part, readonly=True) as store:
            assert set(store.query("SELECT key, answer FROM jobs WHERE state = 'done'")) <= set(whole)


def test_stores_of_different_plans_of_one_name_do_not_mix(
    write_plan: WritePlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two layers and of one, of a network whose layer was edited: the line names the plan, nothing has changed."""
    network, stores = tmp_path / "n.yaml", [tmp_path / "a.sqlite", tmp_path / "b.sqlite", tmp_path / "c.sqlite"]
    for store, layers in zip(stores, ("{name: a, K: 2}, {name: b}", "{name: a, K: 2}", "{name: a, K: 3}"), strict=True):
        network.write_text(f"version: 1\nlayers: [{layers}]\n")
        plan = write_plan(text="list: [{network: n.yaml}]\n")
        assert main(["sweep", str(plan), "--store", str(store), "--jobs", "1"]) == 0
    capsys.readouterr()
    for into, other in itertools.permutations(stores, 2):
        assert main(["sweep", "merge", str(into), str(other)]) == 2
        message = f"cpsat_pim: error: {other}: its plan 'plan' has other points or layers than that of {into}\n"
        assert capsys.readouterr().err == message
    with Store(stores[0], readonly=True) as store:
        assert store.query("SELECT count(*) FROM uses") == [(2,)]


def test_a_merge_does_not_undo_what_is_done(write_plan: WritePlan, tmp_path: Path) -> None:
    """Merge a store that failed where this one has a result, and a store that never began."""
    path = write_plan(work.RAISING, 2)
    with Store(tmp_path / "failed.sqlite") as store:
        run_sweep(read_plan(path), store, solve)
    with Store(tmp_path / "begun.sqlite") as store:
        store.register(read_plan(path), read_plan(path).uses())
    with Store(tmp_path / "done.sqlite") as store:
        run_sweep(read_plan(path), store, lambda jobs: (attempt(work.quick, job) for job in jobs))
        for other in ("failed", "begun"):
            store.merge(tmp_path / f"{other}.sqlite")
        assert store.query("SELECT DISTINCT state FROM jobs") == [("done",)]


@pytest.mark.parametrize("to", ["rows.txt", "nowhere/rows.csv", "nowhere/rows.parquet"])
def test_an_export_that_cannot_be_is_one_line(plan: Path, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that says nothing, and a directory that is not there."""
    assert main(["sweep", "export", str(plan), str(plan.parent / to)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
