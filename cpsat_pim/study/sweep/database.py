"""The SQLite file of a store, in WAL mode: creation, opening, locking, and error messages of one line."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

#: Version of the tables below; a store of another version is rejected.
SCHEMA = 1

#: Identifies an SQLite file as a store: "cpsw".
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
    """An open SQLite file with the tables of a store."""

    def __init__(self, path: Path, *, readonly: bool) -> None:
        """Open a file, and create it if it does not exist, unless `readonly`.

        Raises:
            StoreError: the file does not exist, is not a store, has another version, or cannot be written.
        """
        self.path = path
        if path.is_dir():
            raise StoreError(f"{path}: is a directory")
        with self.translated_errors():
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
        """Check the schema of the file; an empty file gets the tables."""
        is_empty = not self._connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
        # Set last: a new store gets its tables and these numbers in one transaction.
        application, schema = self._pragma("application_id"), self._pragma("user_version")
        if is_empty and application == 0 and not readonly:
            self._create()
        elif application != APPLICATION_ID:
            raise StoreError(f"{self.path}: is not a store of sweeps")
        elif schema != SCHEMA:
            rule = f"is of another version of this program (schema {schema}, this one uses {SCHEMA})"
            raise StoreError(f"{self.path}: {rule}; it was left as it is, choose another file with --store")

    def _create(self) -> None:
        """Create the tables, unless another process has just created them."""
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
        """Return the rows that a statement selects."""
        with self.translated_errors():
            return self._connection.execute(statement, parameters).fetchall()

    def rows(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Return the rows that a statement selects, as dicts by column name."""
        with self.translated_errors():
            cursor = self._connection.execute(statement, parameters)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one exclusive transaction."""
        with self.translated_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have rolled back already
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def attached(self, other: Path) -> Iterator[None]:
        """Attach another file, for reading, under the name `other`."""
        with self.translated_errors():
            self._connection.execute("ATTACH ? AS other", (_uri(other),))
            try:
                yield
            finally:
                self._connection.execute("DETACH other")

    # Errors

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Turn errors of SQLite and the system into a `StoreError` of one line."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            rule = next((rule for start, rule in _COMPLAINTS.items() if name.startswith(start)), "cannot be used: {}")
            raise StoreError(f"{self.path}: {rule.format(error)}") from error
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be used: {error.strerror or error}") from error


#: By the prefix of SQLite's error name.
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
    """Connect so that commits survive the death of this process; a power cut may lose the last ones, which are solved
    again.
    """
    database = sqlite3.connect(_uri(path, "rwc"), timeout=_PATIENCE, isolation_level=None, uri=True)
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def _switch_to_wal(database: sqlite3.Connection) -> None:
    """Switch to WAL mode. SQLite does not wait by itself if another process is creating the same store."""
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
    """Connect without changing anything, if necessary not even the files that SQLite keeps beside a store."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such store")
    try:
        return _reading(_uri(path))
    except sqlite3.OperationalError:
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise
        return _reading(_uri(path) + "&immutable=1")  # a read-only directory, and an empty log


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
