"""What all commands share of their ends: exit codes, mistakes, messages, files that are written, pipes that break."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

PROGRAM = "cpsat_pim"

#: Exit codes.
OK, NO_MAPPING, BAD_INPUT, DISAGREEMENT, INTERRUPTED = 0, 1, 2, 3, 130

#: So many names are enough for a line.
_NAMES_LISTED = 12

_T = TypeVar("_T")


class InputError(Exception):
    """What the user gave cannot be used; the message is one line, or a line for each mistake of a file."""


def given(read: Callable[[], _T]) -> _T:
    """What a reader returns; its complaint is about the input."""
    try:
        return read()
    except ValueError as error:
        raise InputError(str(error)) from error


def check_names(names: list[str], known: list[str], place: str) -> None:
    """Every name is that of a layer."""
    from cpsat_pim.base.reading import hint

    for name in names:
        if name not in known:
            raise InputError(f"{place}: no layer is named {name!r}{hint(name, known)}")


def listed(names: Sequence[str]) -> str:
    """Names for a line of text; of very many the first ones."""
    left = len(names) - _NAMES_LISTED
    return ", ".join(names) if left <= 1 else f"{', '.join(names[:_NAMES_LISTED])} and {left} more"


# --- Files -----------------------------------------------------------------------------------------------------------


def check_outputs(*paths: str | None) -> None:
    """What was asked for can be written, and each to a file of its own, known before it is there."""
    from cpsat_pim.base.files import check_writable, is_same_file

    wanted = [path for path in paths if path is not None]
    for i, path in enumerate(wanted):
        given(partial(check_writable, path))
        if any(is_same_file(path, other) for other in wanted[:i]):
            raise InputError(f"{path}: is asked for twice, of which one would replace the other")


def check_kept(output: str | None, *sources: str | None) -> None:
    """What is written does not take the place of what it is made from."""
    from cpsat_pim.base.files import is_same_file

    if output is not None and any(source is not None and is_same_file(output, source) for source in sources):
        raise InputError(f"{output}: is read, so it cannot be what is written")


def written(path: str, write: Callable[[str], _T]) -> _T:
    """What a writer of a file returns."""
    try:
        return given(lambda: write(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def write_files(*wanted: tuple[str | None, Callable[[str], object]]) -> None:
    """Write the files that were asked for; one that fails keeps no other from being written."""
    mistakes = []
    for path, write in wanted:
        if path is not None:
            try:
                written(path, write)
            except InputError as error:
                mistakes.append(str(error))
    if mistakes:
        raise InputError("\n".join(mistakes))


def keeper(path: str | None, document: Callable[[_T], object]) -> Callable[[_T], None] | None:
    """Writes what is finished to a JSON file while the rest goes on, so that a kill loses none of it; what is read from
    a pipe comes at the end. If it cannot be written the end tells.
    """
    from cpsat_pim.base.files import is_special, write_json

    if path is None or is_special(path):
        return None

    def keep(finished: _T) -> None:
        with suppress(OSError):
            write_json(document(finished), path)

    return keep


# --- Messages --------------------------------------------------------------------------------------------------------


def note(text: str) -> None:
    """A message on stderr."""
    print(f"{PROGRAM}: {text}", file=sys.stderr)


def note_unmapped(names: Sequence[str]) -> None:
    """Say on stderr which layers have no mapping, if any."""
    if names:
        note(f"no mapping for {listed(names)}")


def end_of_solving(
    wanted: Sized, begun: Sized, unmapped: Sized, unproven: Sequence[str] = (), *, interrupted: bool
) -> int:
    """The exit code of layers; on stderr how many were not begun, or which are not proven."""
    if interrupted:
        note(f"interrupted, {len(wanted) - len(begun)} of {len(wanted)} layers not begun")
        return INTERRUPTED
    if unproven:
        note(f"time ran out before a proof for {listed(unproven)}")
    return NO_MAPPING if unmapped else OK


def print_mistakes(text: str) -> None:
    """A message for each line."""
    for line in text.splitlines() or [""]:
        note(f"error: {' '.join(line.split())}")


def prepare_streams() -> None:
    """To a stream that is closed nobody listens; a name that a terminal's encoding lacks is shown escaped."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it stays open to the end
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """What is printed here is read, or a reader such as `| head` has seen enough: then nothing more is printed.

    Raises:
        OSError: it cannot be written; nothing more is tried to be.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _print_no_more()
    except OSError:
        _print_no_more()
        raise


def _print_no_more() -> None:
    """Throw away what is printed from now on, and what is left in the buffer: it would fail again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
