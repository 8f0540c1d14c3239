"""Files written whole or not at all: a reader sees the old file or the new one, never a part."""

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
    """Fail before an hour of work rather than after it.

    Raises:
        ValueError: a file cannot be written there.
    """
    try:
        if is_special(path):  # not opened: the reader of a pipe would see it end
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
    """Whether what is written to one replaces what was written to the other."""
    return _target(path) == _target(other) and not is_special(path)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[TextIO]:
    """Open a text file that takes the path's place when all is written; after an exception nothing has changed.

    Raises:
        OSError: it cannot be written.
    """
    with replacing_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text:
        yield text


@contextlib.contextmanager
def replacing_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """The same for a file of bytes.

    Raises:
        OSError: it cannot be written.
    """
    if is_special(path):
        with open(path, "ab") as file:  # behind what is there
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
    """Write a file in one step.

    Raises:
        OSError: it cannot be written.
    """
    with replacing(path) as file:
        file.write(text)


def write_json(data: Any, path: str | Path, *, indent: int | None = 1) -> None:
    """Write a JSON file in one step; on one line without an indent.

    Raises:
        OSError: it cannot be written.
    """
    separators = (",", ":") if indent is None else None
    write_text(json.dumps(data, indent=indent, separators=separators, allow_nan=False) + "\n", path)


def file_stem(name: str) -> str:
    """A name without what a file's may not have."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)


def is_special(path: str | Path) -> bool:
    """A pipe, a device, or what is open already, such as /dev/stdout: written to, not replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return _is_open_already(path) or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _is_open_already(path: str | Path) -> bool:
    """Whether a path leads to a file by its descriptor."""
    link = Path(os.path.abspath(path))
    while link.is_symlink():
        if re.fullmatch(r"/proc/\d+/fd|/dev/fd", os.path.realpath(link.parent)):
            return True
        link = link.parent / os.readlink(link)
    return False


def _target(path: str | Path) -> Path:
    """Where a link leads, so that the link stays one."""
    return Path(os.path.realpath(path))


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
