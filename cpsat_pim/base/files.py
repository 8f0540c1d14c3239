"""Write files atomically: a reader sees the old file or the complete new one, never a part."""

import contextlib
import io
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO


def check_writable(path: str | Path) -> None:
    """Check that a file can be written, so that a wrong path fails before the work and not after it.

    Raises:
        ValueError: a file cannot be written there.
    """
    try:
        if is_special(path):  # do not open a pipe: its reader would see the end of the data
            if not os.access(path, os.W_OK):
                raise PermissionError(None, "permission denied")
            return
        if Path(path).is_dir():
            raise IsADirectoryError(None, "is a directory")
        handle, probe = tempfile.mkstemp(dir=_target(path).parent, prefix=".cpsat_pim-")
        os.close(handle)
        os.unlink(probe)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error


def is_same_file(path: str | Path, other: str | Path) -> bool:
    """Return whether writing to one path would replace the content written to the other."""
    return _target(path) == _target(other) and not is_special(path)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[TextIO]:
    """Open a text file that replaces `path` when the block ends. After an exception the old file is unchanged.

    Raises:
        OSError: it cannot be written.
    """
    with replacing_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text:
        yield text


@contextlib.contextmanager
def replacing_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` when the block ends. After an exception the old file is unchanged.

    Raises:
        OSError: it cannot be written.
    """
    if is_special(path):
        with open(path, "ab") as file:  # append to what an earlier writer sent
            yield file
        return
    target = _target(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".cpsat_pim-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def write_text(text: str, path: str | Path) -> None:
    """Write a text file atomically.

    Raises:
        OSError: it cannot be written.
    """
    with replacing(path) as file:
        file.write(text)


def write_json(data: Any, path: str | Path, *, indent: int | None = 1) -> None:
    """Write a JSON file atomically; `indent=None` writes it on one line.

    Raises:
        OSError: it cannot be written.
    """
    separators = (",", ":") if indent is None else None
    write_text(json.dumps(data, indent=indent, separators=separators, allow_nan=False) + "\n", path)


def file_stem(name: str) -> str:
    """Replace the characters of a name that a file name should not contain by underscores."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)


def is_special(path: str | Path) -> bool:
    """Return whether a path is a pipe, a device, or an open descriptor such as /dev/stdout, which cannot be
    replaced.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return _is_open_already(path) or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _is_open_already(path: str | Path) -> bool:
    """Return whether a path leads to a file through its descriptor."""
    link = Path(os.path.abspath(path))
    while link.is_symlink():
        if re.fullmatch(r"/proc/\d+/fd|/dev/fd", os.path.realpath(link.parent)):
            return True
        link = link.parent / os.readlink(link)
    return False


def _target(path: str | Path) -> Path:
    """Resolve symbolic links, so that the link stays and its target is replaced."""
    return Path(os.path.realpath(path))


def _mode(target: Path) -> int:
    """Return the permissions of the file to be replaced, or the permissions of a new file."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
