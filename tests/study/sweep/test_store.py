"""The store under several processes, which the tests of faults run as whole sweeps."""

import json
import subprocess
import sys
from pathlib import Path

from cpsat_pim.study.sweep.job import Outcome
from cpsat_pim.study.sweep.store import Store
from tests.report.results import document

MAKE = "import sys; from cpsat_pim.study.sweep.store import Store; s = Store(sys.argv[1]); s.begin_sweep(); s.close()"


def test_a_store_may_be_made_by_several_at_once(tmp_path: Path) -> None:
    """Four processes open the same new file: none is refused, and each gets a number of its own."""
    path = tmp_path / "s.sqlite"
    command = [sys.executable, "-c", MAKE, str(path)]
    makers = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    assert [maker.communicate(b"\n", timeout=60)[1] for maker in makers] == [b""] * 4
    with Store(path, readonly=True) as store:
        assert store.query("SELECT count(*), max(id) FROM sweeps") == [(4, 4)]


def test_readers_see_what_runs(tmp_path: Path) -> None:
    """A taken job is being solved as long as the process lives that took it, killed or not."""
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.query("INSERT INTO jobs (key, shape, arch, objective, options, code, solver) VALUES ('k',1,1,1,1,1,1)")
    take = "import sys; from cpsat_pim.study.sweep.store import Store; s = Store(sys.argv[1]); s.begin_sweep()\n"
    take += "print(s.take('k'), flush=True); input()"
    command = [sys.executable, "-c", take, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        with Store(path, readonly=True) as store:
            assert (store.running(), store.open_keys(["k"])) == ({"k"}, [])
        with Store(path) as store:
            store.begin_sweep()
            assert not store.take("k")
        other.kill()
    with Store(path) as store:
        assert (store.running(), store.open_keys(["k"])) == (set(), ["k"])
        store.begin_sweep()
        assert store.take("k")


def test_products_of_more_than_64_bits_are_kept_exactly(tmp_path: Path) -> None:
    """The stored answer has them exactly; the columns have them as floats."""
    answer = document()["layers"][0] | {"objective": 2**70, "bound": 2**70 - 5}
    with Store(tmp_path / "s.sqlite") as store:
        store.query("INSERT INTO jobs (key, shape, arch, objective, options, code, solver) VALUES ('k',1,1,1,1,1,1)")
        store.record(Outcome(key="k", answer=answer))
        (row,) = store.rows("SELECT objective_value, bound, answer FROM jobs")
    assert (row["objective_value"], row["bound"]) == (2.0**70, 2.0**70)
    assert json.loads(row["answer"])["bound"] == 2**70 - 5
