"""What must not lose or spoil anything: kills, a second sweep, disks that are read-only or full, foreign files."""

import codecs
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from cpsat_pim.base.extras import check_tables
from cpsat_pim.cli import main
from cpsat_pim.study.sweep.database import SCHEMA, StoreError
from cpsat_pim.study.sweep.engine.local import run_locally
from cpsat_pim.study.sweep.reading import read_plan
from cpsat_pim.study.sweep.run import run_sweep
from cpsat_pim.study.sweep.store import Store
from tests.study.sweep import work
from tests.study.sweep.conftest import WritePlan

PATIENCE_SECONDS = 60.0


def start(plan: Path) -> subprocess.Popen[bytes]:
    """Run a sweep with slow results in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "tests.study.sweep.work", str(plan)])


def wait_for(what: Callable[[], bool]) -> None:
    """Until something holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def answers(plan: Path) -> dict[str, str]:
    """What the store holds, by key; read by nothing of ours."""
    path = plan.with_suffix(".sqlite")
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as database, suppress(sqlite3.OperationalError):  # the tables are being made
        return dict(database.execute("SELECT key, answer FROM jobs WHERE state = 'done'"))
    return {}


def is_alive(pid: int) -> bool:
    """Whether there is a process, and not only its number."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


# --- Kills -----------------------------------------------------------------------------------------------------------


def test_a_killed_worker_costs_one_try(write_plan: WritePlan) -> None:
    """Killed from outside in mid-job: the job is tried again by a new worker, the others are not."""
    plan = write_plan(*range(1, 7))
    with start(plan) as process:
        wait_for(lambda: len(answers(plan)) >= 1)
        os.kill(next(iter(work.pids())), signal.SIGKILL)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert len(answers(plan)) == 6
    assert len(work.pids()) == 3
    assert work.calls().total() in (6, 7)  # slow jobs note their call at their end


def test_a_killed_sweep_loses_nothing_that_had_finished(write_plan: WritePlan) -> None:
    """SIGKILL in mid-sweep: its workers end; run again, finished jobs are not solved again and their results
    are the same.
    """
    plan = write_plan(*range(1, 13))
    with start(plan) as process:
        wait_for(lambda: len(answers(plan)) >= 3)
        process.kill()
    before = answers(plan)
    assert 3 <= len(before) < 12
    wait_for(lambda: not any(map(is_alive, work.pids())))
    work.sweep(str(plan))
    after = answers(plan)
    assert len(after) == 12
    assert before == {key: after[key] for key in before}
    assert {work.calls()[key] for key in before} == {1}


def test_two_sweeps_on_one_store_share_the_work(write_plan: WritePlan) -> None:
    """At once on the same plan: each job is solved once, by one of them; both end well."""
    plan = write_plan(*range(1, 13))
    with start(plan) as first, start(plan) as second:
        assert [first.wait(PATIENCE_SECONDS), second.wait(PATIENCE_SECONDS)] == [0, 0]
    assert len(answers(plan)) == 12
    assert list(work.calls().values()) == [1] * 12


def test_a_sweep_takes_over_from_one_that_is_killed_beside_it(write_plan: WritePlan) -> None:
    """The jobs that the dead sweep had taken are solved, although nobody released them."""
    plan = write_plan(*range(1, 9))
    with start(plan) as first:
        wait_for(lambda: len(answers(plan)) >= 1)
        with start(plan) as second:
            first.kill()
            assert second.wait(PATIENCE_SECONDS) == 0
    assert len(answers(plan)) == 8


# --- Disks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def readonly_directory() -> Iterator[Path]:
    """A directory that may not be written to, as somebody who is not above such rules, if this user is."""
    with tempfile.TemporaryDirectory() as name:
        path, user = Path(name), os.geteuid()
        path.chmod(0o755)
        yield path
        if user != os.geteuid():
            os.seteuid(user)
        path.chmod(0o755)


def close_off(path: Path) -> None:
    """Take the right to write, from now on."""
    path.chmod(0o555)
    if os.geteuid() == 0:
        # Whoever we are now may not see what the commands would import later.
        for module in ("export", "progress", "reading", "run", "engine.local"):
            import_module(f"cpsat_pim.study.sweep.{module}")
        check_tables()
        codecs.lookup("utf-8-sig")  # of plans
        os.seteuid(65534)


def test_a_readonly_directory_is_reported_before_solving(
    readonly_directory: Path, write_plan: WritePlan, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit 2, nothing solved."""
    plan = readonly_directory / "plan.yaml"
    plan.write_text(write_plan(1, 2).read_text())
    close_off(readonly_directory)
    assert main(["sweep", str(plan)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"cpsat_pim: error: {plan.with_suffix('.sqlite')}: cannot be opened")
    assert list(readonly_directory.iterdir()) == [plan]


def test_a_readonly_store_can_still_be_read(
    readonly_directory: Path, write_plan: WritePlan, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status and export work where nothing can be written; a sweep is refused before solving."""
    plan = readonly_directory / "plan.yaml"
    plan.write_text(write_plan(1, 2).read_text())
    work.sweep(str(plan), workers=1)
    for path in readonly_directory.iterdir():
        path.chmod(0o444)
    close_off(readonly_directory)
    assert main(["sweep", "status", str(plan)]) == 0
    assert "plan: 2 points, 2 jobs: 2 done, 0 failed, 0 open" in capsys.readouterr().out
    assert main(["sweep", "export", str(plan)]) == 0
    assert capsys.readouterr().out.count("OPTIMAL") == 2
    assert main(["sweep", str(plan)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_full_disk_ends_the_sweep_and_keeps_what_had_finished(write_plan: WritePlan) -> None:
    """A store of a limited size, then without the limit: what was recorded stays, the rest is solved."""
    plan = write_plan(*range(1, 121))
    path = plan.with_suffix(".sqlite")
    quick = partial(run_locally, workers=1, work=work.quick)
    with Store(path) as store:
        store.register(read_plan(plan), read_plan(plan).uses())
        (pages,) = store.query("PRAGMA page_count")[0]
        store.query(f"PRAGMA max_page_count = {pages + 5}")
        with pytest.raises(StoreError, match="cannot be written: database or disk is full; what had finished before"):
            run_sweep(read_plan(plan), store, quick)
    kept = answers(plan)
    assert 0 < len(kept) < 120
    with Store(path) as store:
        summary = run_sweep(read_plan(plan), store, quick)
    assert (summary.before.done, summary.after.done) == (len(kept), 120)
    assert kept == {key: answers(plan)[key] for key in kept}


def test_a_disk_that_takes_no_more_is_one_line(write_plan: WritePlan) -> None:
    """The system refuses to let any file grow past 64 KiB: exit 2 without a traceback, and what is there is sound."""
    plan = write_plan(*range(1, 200))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, 64 * 1024))

    done = subprocess.run(
        [sys.executable, "-m", "cpsat_pim", "sweep", str(plan)],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "cannot be written" in done.stderr
    with closing(sqlite3.connect(plan.with_suffix(".sqlite"))) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_full_file_system_can_be_made_larger(write_plan: WritePlan, tmp_path: Path) -> None:
    """A real one, where this user may mount it: it fills up in mid-sweep; with more room the sweep goes on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        plan = disk / "plan.yaml"
        plan.write_text(write_plan(*range(1, 121)).read_text())
        with Store(plan.with_suffix(".sqlite")) as store, pytest.raises(StoreError, match="cannot be written"):
            run_sweep(read_plan(plan), store, partial(run_locally, workers=1, work=work.quick))
        kept = answers(plan)
        assert 0 < len(kept) < 120
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        with Store(plan.with_suffix(".sqlite")) as store:
            summary = run_sweep(read_plan(plan), store, partial(run_locally, workers=1, work=work.quick))
        assert (summary.before.done, summary.after.done) == (len(kept), 120)
    finally:
        subprocess.run(["umount", disk], check=True)


# --- Foreign files ---------------------------------------------------------------------------------------------------


def refused(plan: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What every command says of a store, in one line and with exit 2; the file stays as it is."""
    path = plan.with_suffix(".sqlite")
    before = path.read_bytes()
    messages = set()
    for command in ([str(plan)], ["status", str(path)], ["export", str(path)], ["merge", str(path), str(path)]):
        assert main(["sweep", *command]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        messages.add(err.removeprefix(f"cpsat_pim: error: {path}: ").strip())
    assert path.read_bytes() == before
    (line,) = messages
    return line


@pytest.mark.parametrize("schema", [SCHEMA - 1, SCHEMA + 1])
def test_a_store_of_another_schema_is_left_alone(
    write_plan: WritePlan, capsys: pytest.CaptureFixture[str], schema: int
) -> None:
    """An older or later program's."""
    plan = write_plan(1)
    Store(plan.with_suffix(".sqlite")).close()
    with closing(sqlite3.connect(plan.with_suffix(".sqlite"))) as database:
        database.execute(f"PRAGMA user_version = {schema}")
    line = refused(plan, capsys)
    assert line.startswith(f"is of another version of this program (schema {schema}, this one uses {SCHEMA})")


def test_a_database_of_something_else_is_left_alone(write_plan: WritePlan, capsys: pytest.CaptureFixture[str]) -> None:
    """SQLite, but not ours."""
    plan = write_plan(1)
    with closing(sqlite3.connect(plan.with_suffix(".sqlite"))) as database:
        database.execute("CREATE TABLE photos (name)")
    assert refused(plan, capsys) == "is not a store of sweeps"


def test_a_file_that_is_no_database_is_left_alone(write_plan: WritePlan, capsys: pytest.CaptureFixture[str]) -> None:
    """Text."""
    plan = write_plan(1)
    plan.with_suffix(".sqlite").write_text("Dear diary, " * 100)
    assert refused(plan, capsys) == "is not a store of sweeps"


def test_a_directory_is_no_store(write_plan: WritePlan, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is a disk at fault."""
    plan = write_plan(1)
    path = plan.with_suffix(".sqlite")
    path.mkdir()
    for command in ([str(plan)], ["status", str(path)], ["merge", str(path), str(path)]):
        assert main(["sweep", *command]) == 2
        assert capsys.readouterr() == ("", f"cpsat_pim: error: {path}: is a directory\n")


def test_merging_what_is_not_there_makes_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip of the pen leaves nothing behind, whatever stores that are there stand before it."""
    Store(tmp_path / "one.sqlite").close()
    paths = [str(tmp_path / name) for name in ("all.sqlite", "one.sqlite", "tow.sqlite")]
    assert main(["sweep", "merge", *paths]) == 2
    assert capsys.readouterr() == ("", f"cpsat_pim: error: {paths[2]}: there is no such store\n")
    assert not Path(paths[0]).exists()


def test_a_damaged_store_is_reported(write_plan: WritePlan, capsys: pytest.CaptureFixture[str]) -> None:
    """Its first page is whole, the others are not."""
    plan = write_plan(*range(1, 60))
    with Store(plan.with_suffix(".sqlite")) as store:
        store.register(read_plan(plan), read_plan(plan).uses())
    path = plan.with_suffix(".sqlite")
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    assert main(["sweep", str(plan)]) == 2
    err = capsys.readouterr().err
    assert "is damaged" in err
    assert err.count("\n") == 1
