"""The SQLite file of a store in WAL mode: how it is made, opened and locked, and its complaints in one line of ours."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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


class Database:
    """An open file with the tables of a store."""

    def __init__(self, path: Path, *, readonly: bool) -> None:
        """Open a file; one that is not there is made, unless it is only to be read.

        Raises:
            StoreError: it is not there, is no store or one of another version, or cannot be written.
        """
        self.path = path
        if path.is_dir():
            raise StoreError(f"{path}: is a directory")
        with self.told():
            self._connection = _connect_to_read(path) if readonly else _connect_to_write(path)
            try:
                self._check_schema(readonly)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # Schema

    def _check_schema(self, readonly: bool) -> None:
        """A store of this schema; an empty file becomes one."""
        is_empty = not self._connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
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
        _switch_to_wal(self._connection)
        with self.transaction() as connection:
            if self._pragma("user_version") == 0:
                for statement in _TABLES.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    # Reading and writing

    def query(self, statement: str, *parameters: Any) -> list[Any]:
        """The rows that a statement selects."""
        with self.told():
            return self._connection.execute(statement, parameters).fetchall()

    def rows(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """The rows that a statement selects, by their columns' names."""
        with self.told():
            cursor = self._connection.execute(statement, parameters)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, alone."""
        with self.told():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # it may have been rolled back already
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def attached(self, other: Path) -> Iterator[None]:
        """Another file, to be read as `other`."""
        with self.told():
            self._connection.execute("ATTACH ? AS other", (_uri(other),))
            try:
                yield
            finally:
                self._connection.execute("DETACH other")

    # Errors

    @contextmanager
    def told(self) -> Iterator[None]:
        """SQLite's and the system's complaints in one line of ours."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            rule = next((rule for start, rule in _COMPLAINTS.items() if name.startswith(start)), "cannot be used: {}")
            raise StoreError(f"{self.path}: {rule.format(error)}") from error
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be used: {error.strerror or error}") from error


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
