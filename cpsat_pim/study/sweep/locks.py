"""Locks on single bytes of a file; the system releases them when their process ends, however it ends."""

import os
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: locks are invisible, so two sweeps may solve a job twice, which is harmless
    fcntl = None  # type: ignore[assignment]


class ByteLocks:
    """Locks on the bytes of a file, by position; a process sees only the locks of other processes."""

    def __init__(self, path: Path) -> None:
        """Set the path; the file is created when the first lock is taken."""
        self._path = path
        self._file: int | None = None

    def lock(self, place: int) -> None:
        """Lock a byte that no other process locks; has no effect on a file system without locks."""
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        if fcntl:
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)

    def is_locked(self, place: int) -> bool:
        """Return whether another process locks a byte."""
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
        """Release all locks, which happens when the process closes the file anywhere."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> bool:
        """Open the file to query the locks of others; return whether it exists."""
        with suppress(OSError):
            self._file = os.open(self._path, os.O_RDWR if os.access(self._path, os.W_OK) else os.O_RDONLY)
        return self._file is not None
