"""Locks on single bytes of a file, which the system drops when their process ends, however it ends."""

import os
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nobody is seen to run, so two sweeps may solve a job twice, which does no harm
    fcntl = None  # type: ignore[assignment]


class ByteLocks:
    """Locks on the bytes of a file, by their places; a process sees those of others only."""

    def __init__(self, path: Path) -> None:
        """The file is made when the first lock is taken."""
        self._path = path
        self._file: int | None = None

    def lock(self, place: int) -> None:
        """Lock a byte that nobody else locks; where the file system has no locks, nothing happens."""
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        if fcntl:
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)

    def is_locked(self, place: int) -> bool:
        """Whether another process locks a byte."""
        if self._file is None and not self._opened():
            return False
        assert self._file is not None
        if not fcntl:
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, place)
        except OSError:
            return True
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)
        return False

    def close(self) -> None:
        """Drop all locks: the system does so when the process closes the file anywhere."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> bool:
        """Open the file to look at others' locks, if it is there."""
        with suppress(OSError):
            self._file = os.open(self._path, os.O_RDWR if os.access(self._path, os.W_OK) else os.O_RDONLY)
        return self._file is not None
