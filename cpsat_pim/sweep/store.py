"""The store of a sweep: an SQLite file in WAL mode, written by the sweep's own process only.

A job is `open`, `done` or `failed`. A sweep takes an open job before it is solved, so that another sweep on the same
file leaves it alone; what a sweep has taken is open to all again once the sweep has ended, however it ended. That it
runs is told by a lock on one byte of a file beside the store, at the sweep's number: the system drops it with the
process. Readers of the file need nothing of this; `results` is a view made for them.
"""

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from cpsat_pim.result import Status
from cpsat_pim.sweep.job import Failure, Job, Outcome, arch_key
from cpsat_pim.sweep.locks import ByteLocks
from cpsat_pim.sweep.plan import Plan, Use

#: Of the tables below; a store of another schema is left alone.
SCHEMA = 1

#: Tells SQLite files that are stores from others: "cpsw".
APPLICATION_ID = 0x63707377

#: Seconds to wait for another sweep's write.
_PATIENCE = 60.0

_TABLES = """
CREATE TABLE architectures (key TEXT PRIMARY KEY, fields TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (
    key TEXT PRIMARY KEY,
    shape TEXT NOT NULL, arch TEXT NOT NULL REFERENCES architectures (key),
    objective TEXT NOT NULL, options TEXT NOT NULL, code TEXT NOT NULL, solver TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'failed')),
    sweep INTEGER,                       -- that has taken it
    failure TEXT, reason TEXT, detail TEXT,
    status TEXT, objective_value, bound, gap REAL, latency_cycles INTEGER, simulated_cycles INTEGER, energy_fj INTEGER,
    activations_I INTEGER, activations_W INTEGER, activations_O INTEGER, seconds REAL,
    answer TEXT                          -- the layer's entry of a results file
);
CREATE INDEX jobs_by_content ON jobs (shape, arch);
CREATE TABLE points (
    plan TEXT, point INTEGER, network TEXT NOT NULL, arch TEXT NOT NULL, settings TEXT NOT NULL,
    PRIMARY KEY (plan, point)
) WITHOUT ROWID;
CREATE TABLE uses (
    plan TEXT, point INTEGER, position INTEGER, layer TEXT NOT NULL, count INTEGER NOT NULL,
    job TEXT NOT NULL REFERENCES jobs (key),
    PRIMARY KEY (plan, point, position)
) WITHOUT ROWID;
CREATE INDEX uses_by_job ON uses (job);
CREATE TABLE sweeps (id INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL);
CREATE VIEW results AS
SELECT plan, point, network, points.arch AS arch, json_extract(objective, '$.kind') AS objective,
    json_extract(objective, '$.alpha') AS alpha, json_extract(objective, '$.beta') AS beta,
    json_extract(options, '$.time_limit') AS time_limit, json_extract(options, '$.seed') AS seed, settings,
    position, layer, count, shape, state, status, objective_value, bound, gap, latency_cycles, simulated_cycles,
    energy_fj, activations_I, activations_W, activations_O, seconds, failure, reason, key, code, solver
FROM uses JOIN points USING (plan, point) JOIN jobs ON jobs.key = uses.job;
"""


class StoreError(Exception):
    """A store cannot be opened, read or written; the message is one line `<file>: ...`."""


@frozen(kw_only=True)
class Tally:
    """Jobs by what has become of them; `unmapped` of the done have no mapping, `wrong` of the failed disagree."""

    open: int = 0
    done: int = 0
    failed: int = 0
    unmapped: int = 0
    wrong: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.open + self.done + self.failed


class Store:
    """An open store; a context that closes it."""

    def __init__(self, path: str | Path, *, readonly: bool = False) -> None:
        """Open a store; one that is not there is made, unless it is only to be read.

        Raises:
            StoreError: it is not there, is no store or one of another version, or cannot be written.
        """
        self.path = Path(path)
        self._sweep: int | None = None
        if self.path.is_dir():
            raise StoreError(f"{self.path}: is a directory")
        with self._told():
            self._database = _connect_to_read(self.path) if readonly else _connect_to_write(self.path)
            try:
                self._check_schema(readonly)
            except BaseException:
                self._database.close()
                raise
        self._locks = ByteLocks(Path(f"{self.path}.lock"))

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what is taken, and close."""
        with suppress(StoreError):  # the disk may be full; the end of this process gives back as well
            self._give_back()
        self._locks.close()
        self._database.close()

    # Schema

    def _check_schema(self, readonly: bool) -> None:
        """A store of this schema; an empty file becomes one."""
        is_empty = not self._database.execute("SELECT 1 FROM sqlite_schema").fetchone()
        # Looked at last: a store that is being made gets its tables and these numbers in one step.
        application, schema = self._pragma("application_id"), self._pragma("user_version")
        if is_empty and application == 0 and not readonly:
            self._create()
        elif application != APPLICATION_ID:
            raise StoreError(f"{self.path}: is not a store of sweeps")
        elif schema != SCHEMA:
            rule = f"is of another version of this program (schema {schema}, this one uses {SCHEMA})"
            raise StoreError(f"{self.path}: {rule}; it was left as it is, choose another file with --store")

    def _create(self) -> None:
        """Make the tables, unless another process has just made them."""
        _switch_to_wal(self._database)
        with self._transaction():
            if self._pragma("user_version") == 0:
                for statement in _TABLES.split(";\n"):
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._database.execute(f"PRAGMA user_version = {SCHEMA}")

    def _pragma(self, name: str) -> int:
        return int(self._database.execute(f"PRAGMA {name}").fetchone()[0])

    # Writing

    def register(self, plan: Plan, uses: list[Use]) -> None:
        """Write down a plan's points and their jobs; those of its former version are forgotten, answers are kept."""
        jobs = {use.job.key: use.job for use in uses}
        archs = {arch_key(job.arch): job.arch for job in jobs.values()}
        points = [
            (plan.name, i, point.network.name, point.arch.name, json.dumps(point.settings))
            for i, point in enumerate(plan.points)
        ]
        rows = [(plan.name, use.point, use.position, use.layer, use.count, use.job.key) for use in uses]
        with self._told(), self._transaction():
            add = self._database.executemany
            add(
                "INSERT OR IGNORE INTO architectures VALUES (?, ?)",
                ((key, json.dumps(arch.to_dict())) for key, arch in archs.items()),
            )
            add(
                "INSERT OR IGNORE INTO jobs (key, shape, arch, objective, options, code, solver)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                map(_job_row, jobs.values()),
            )
            for table in ("uses", "points"):
                self._database.execute(f"DELETE FROM {table} WHERE plan = ?", (plan.name,))
            add("INSERT INTO points VALUES (?, ?, ?, ?, ?)", points)
            add("INSERT INTO uses VALUES (?, ?, ?, ?, ?, ?)", rows)

    def begin_sweep(self) -> None:
        """Get a number, under which jobs are taken."""
        with self._told(), self._transaction():
            number = self._database.execute("INSERT INTO sweeps (pid) VALUES (?)", (os.getpid(),)).lastrowid
            assert number is not None
            self._locks.lock(number)  # before anybody else can know the number, and look whether it is locked
        self._sweep = number

    def take(self, key: str) -> bool:
        """Take a job; False if it is not open, or another sweep that runs has it."""
        with self._told(), self._transaction():
            row = self._database.execute("SELECT state, sweep FROM jobs WHERE key = ?", (key,)).fetchone()
            if row[0] != "open" or self._runs(row[1]):
                return False
            self._database.execute("UPDATE jobs SET sweep = ? WHERE key = ?", (self._sweep, key))
        return True

    def record(self, outcome: Outcome) -> None:
        """Keep what became of a job, known to the store or not; an answer that is there stays."""
        columns = _columns(outcome)
        assigned = ", ".join(f"{column} = :{column}" for column in columns)
        with self._told(), self._transaction():
            self._database.execute(
                f"UPDATE jobs SET {assigned}, sweep = NULL WHERE key = :key AND state <> 'done'",
                columns | {"key": outcome.key},
            )

    def reopen_failed(self, keys: Iterable[str]) -> int:
        """Open the failed ones of some jobs again; how many they were."""
        with self._told(), self._transaction():
            cursor = self._database.executemany(
                "UPDATE jobs SET state = 'open', failure = NULL, reason = NULL, detail = NULL"
                " WHERE key = ? AND state = 'failed'",
                ((key,) for key in keys),
            )
        return cursor.rowcount

    def merge(self, other: str | Path) -> None:
        """Take over the plans of another store, and what it knows of jobs that are not done here.

        Raises:
            StoreError: the other one is no store, or one of them fails.
        """
        Store(other, readonly=True).close()
        columns = [row[1] for row in self._database.execute("PRAGMA table_info(jobs)")]
        theirs = ", ".join("NULL" if column == "sweep" else column for column in columns)
        with self._told():
            self._database.execute("ATTACH ? AS other", (_uri(Path(other)),))
            try:
                with self._transaction():
                    for table in ("architectures", "points", "uses"):
                        self._database.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM other.{table}")
                    self._database.execute(
                        f"INSERT OR REPLACE INTO jobs SELECT {theirs} FROM other.jobs AS their {_NEWS}"
                    )
            finally:
                self._database.execute("DETACH other")

    def _give_back(self) -> None:
        if self._sweep is not None:
            with self._told(), self._transaction():
                self._database.execute("UPDATE jobs SET sweep = NULL WHERE sweep = ?", (self._sweep,))
            self._sweep = None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing, alone."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # it may have been rolled back already
                self._database.execute("ROLLBACK")
            raise

    # Reading

    def open_keys(self, keys: Iterable[str]) -> list[str]:
        """Those of some jobs that are open and that no other sweep is solving, in their order."""
        with self._told():
            rows = self._database.execute("SELECT key, sweep FROM jobs WHERE state = 'open'").fetchall()
            running = {sweep for sweep in {sweep for _, sweep in rows} if self._runs(sweep)}
            free = {key for key, sweep in rows if sweep not in running}
        return [key for key in keys if key in free]

    def tally(self, keys: Iterable[str]) -> Tally:
        """What has become of some jobs."""
        known = {key: rest for key, *rest in self.query("SELECT key, state, status, failure FROM jobs")}
        found = [known[key] for key in keys]
        states = [state for state, _, _ in found]
        return Tally(
            **{state: states.count(state) for state in ("open", "done", "failed")},
            unmapped=sum(status in (Status.INFEASIBLE, Status.UNKNOWN) for _, status, _ in found),
            wrong=sum(failure == Failure.DISAGREEMENT for _, _, failure in found),
        )

    def count_outdated(self, plan: str) -> int:
        """Open jobs of a plan that another version of the program or of the solver has done."""
        same = " AND ".join(f"theirs.{column} = ours.{column}" for column in ("shape", "arch", "objective", "options"))
        (row,) = self.query(
            "SELECT count(DISTINCT ours.key) FROM uses JOIN jobs AS ours ON ours.key = uses.job"
            f" JOIN jobs AS theirs ON theirs.state = 'done' AND {same} WHERE plan = ? AND ours.state = 'open'",
            plan,
        )
        return int(row[0])

    def running(self) -> set[str]:
        """Jobs that a sweep has taken which runs."""
        taken = self.query("SELECT key, sweep FROM jobs WHERE state = 'open' AND sweep IS NOT NULL")
        return {key for key, sweep in taken if self._runs(sweep)}

    def query(self, statement: str, *parameters: Any) -> list[Any]:
        """The rows that a statement selects."""
        with self._told():
            return self._database.execute(statement, parameters).fetchall()

    def rows(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """The rows that a statement selects, by their columns' names."""
        with self._told():
            cursor = self._database.execute(statement, parameters)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def _runs(self, sweep: int | None) -> bool:
        """Whether a sweep has not ended."""
        return sweep is not None and (sweep == self._sweep or self._locks.is_locked(sweep))

    # Errors

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's and the system's complaints in one line of ours."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            rule = next((rule for start, rule in _COMPLAINTS.items() if name.startswith(start)), "cannot be used: {}")
            raise StoreError(f"{self.path}: {rule.format(error)}") from error
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be used: {error.strerror or error}") from error


#: Of another store's jobs: those that are not known here, or have been decided there and not done here.
_NEWS = (
    "WHERE NOT EXISTS (SELECT 1 FROM main.jobs AS our WHERE our.key = their.key"
    " AND (our.state = 'done' OR their.state = 'open'))"
)

#: By how the name of SQLite's error starts.
_COMPLAINTS = {
    "SQLITE_NOTADB": "is not a store of sweeps",
    "SQLITE_CORRUPT": "is damaged: {}",
    "SQLITE_READONLY": "cannot be written: {}; choose another place with --store",
    "SQLITE_CANTOPEN": "cannot be opened: {}; choose another place with --store",
    "SQLITE_FULL": "cannot be written: {}; what had finished before is kept",
    "SQLITE_IOERR": "cannot be written: {}; what had finished before is kept",
    "SQLITE_BUSY": "is kept locked by another program",
}


def _connect_to_write(path: Path) -> sqlite3.Connection:
    """A connection whose commits survive this process, though the last ones not a power cut (they are solved again)."""
    database = sqlite3.connect(_uri(path, "rwc"), timeout=_PATIENCE, isolation_level=None, uri=True)
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def _switch_to_wal(database: sqlite3.Connection) -> None:
    """For this SQLite does not wait by itself, should another process be making the same store."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, if need be not even the files that SQLite puts beside a store."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such store")
    try:
        return _reading(_uri(path))
    except sqlite3.OperationalError:
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise
        return _reading(_uri(path) + "&immutable=1")  # a directory that is read-only, and nothing left in the log


def _reading(uri: str) -> sqlite3.Connection:
    database = sqlite3.connect(uri, timeout=_PATIENCE, isolation_level=None, uri=True)
    try:
        database.execute("SELECT 1 FROM sqlite_schema")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _uri(path: Path, mode: str = "ro") -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"


def _job_row(job: Job) -> tuple[str, ...]:
    """What identifies a job, in words."""
    return (
        job.key,
        json.dumps(job.layer.shape),
        arch_key(job.arch),
        json.dumps(job.objective.to_dict()),
        json.dumps(attrs.asdict(job.options)),
        job.versions.code,
        job.versions.solver,
    )


def _columns(outcome: Outcome) -> dict[str, Any]:
    """An outcome by the columns of its job."""
    answer = outcome.answer
    if answer is None:
        told = {"failure": outcome.failure, "reason": outcome.reason, "detail": outcome.detail}
        return {"state": "failed", **told}
    predicted, simulated = answer["predicted"] or {}, answer["simulated"] or {}
    activations = predicted.get("row_activations") or {}
    return {
        "state": "done",
        "status": answer["status"],
        "objective_value": _storable(answer["objective"]),
        "bound": _storable(answer["bound"]),
        "gap": answer["gap"],
        "latency_cycles": predicted.get("latency_cycles"),
        "simulated_cycles": simulated.get("latency_cycles"),
        "energy_fj": predicted.get("energy_fj"),
        **{f"activations_{tensor}": activations.get(tensor) for tensor in "IWO"},
        "seconds": answer["solve_seconds"],
        "answer": json.dumps(answer, allow_nan=False),
        "failure": None,
        "reason": None,
        "detail": None,
    }


def _storable(number: int | float | None) -> int | float | None:
    """A number as SQLite takes it: an integer of more than 64 bits is rounded. The answer has it exactly."""
    return float(number) if isinstance(number, int) and abs(number) >= 2**63 else number
