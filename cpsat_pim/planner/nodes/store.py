"""Node costs by key in an SQLite file, written as soon as they are known: a search that is killed loses none."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any


class NodeStore:
    """A file of node costs; several processes may use one at a time."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            ValueError: it cannot be opened, or is no such file.
        """
        try:
            self._database = sqlite3.connect(path, timeout=60.0, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("CREATE TABLE IF NOT EXISTS nodes (key TEXT PRIMARY KEY, data TEXT) WITHOUT ROWID")
        except sqlite3.Error as error:
            raise ValueError(f"{path}: cannot be used to store node problems ({error})") from error

    def read(self, key: str) -> dict[str, Any] | None:
        """Return what is known of a key."""
        row = self._database.execute("SELECT data FROM nodes WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def write(self, key: str, data: dict[str, Any]) -> None:
        """Keep what is known of a key."""
        self._database.execute("INSERT OR REPLACE INTO nodes VALUES (?, ?)", (key, json.dumps(data)))


def digest(data: Any) -> str:
    """Return a key of plain data."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()
