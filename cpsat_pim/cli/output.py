"""What all commands share when they end: exit codes, error messages, output files, and closed pipes."""

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager, suppress
from functools import partial
from io import UnsupportedOperation
from typing import TextIO, TypeVar

PROGRAM = "cpsat_pim"

#: Exit codes.
OK, NO_MAPPING, BAD_INPUT, DISAGREEMENT, INTERRUPTED = 0, 1, 2, 3, 130

#: Before a message's further lines on a narrow terminal.
_INDENT = "  "

#: Number of names that a message lists at most.
_NAMES_LISTED = 12

_T = TypeVar("_T")


class InputError(Exception):
    """The user's input cannot be used; the message is one line, or one line per mistake in a file."""


def read_input(read: Callable[[], _T]) -> _T:
    """Call `read` and return its result. Its `ValueError` becomes an `InputError`."""
    try:
        return read()
    except ValueError as error:
        raise InputError(str(error)) from error


def check_names(names: list[str], known: list[str], place: str) -> None:
    """Raise `InputError` if a name is not among the known ones."""
    from cpsat_pim.base.reading import hint

    for name in names:
        if name not in known:
            raise InputError(f"{place}: no layer is named {name!r}{hint(name, known)}")


def name_list(names: Sequence[str]) -> str:
    """Join names with commas; a long list is cut after the first names."""
    left = len(names) - _NAMES_LISTED
    return ", ".join(names) if left <= 1 else f"{', '.join(names[:_NAMES_LISTED])} and {left} more"


# --- Files -----------------------------------------------------------------------------------------------------------


def check_outputs(*paths: str | None) -> None:
    """Check before any work that every output file can be written, and that no two outputs are the same file."""
    from cpsat_pim.base.files import check_writable, is_same_file

    wanted = [path for path in paths if path is not None]
    for i, path in enumerate(wanted):
        read_input(partial(check_writable, path))
        if any(is_same_file(path, other) for other in wanted[:i]):
            raise InputError(f"{path}: is the path of two outputs")


def check_not_overwritten(output: str | None, *sources: str | None) -> None:
    """Raise `InputError` if an output would overwrite a file that the command reads."""
    from cpsat_pim.base.files import is_same_file

    if output is not None and any(source is not None and is_same_file(output, source) for source in sources):
        raise InputError(f"{output}: is an input file, which the output would overwrite")


def write_file(path: str, write: Callable[[str], _T]) -> _T:
    """Call `write` with a path and return its result. An `OSError` becomes an `InputError`."""
    try:
        return read_input(lambda: write(path))
    except FileExistsError as error:
        raise InputError(f"{path}: is a file, must be a folder") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def write_files(*wanted: tuple[str | None, Callable[[str], object]]) -> None:
    """Write all requested files. A file that fails does not stop the others from being written."""
    mistakes = []
    for path, write in wanted:
        if path is not None:
            try:
                write_file(path, write)
            except InputError as error:
                mistakes.append(str(error))
    if mistakes:
        raise InputError("\n".join(mistakes))


def incremental_writer(path: str | None, document: Callable[[_T], object]) -> Callable[[_T], None] | None:
    """Return a function that writes the results so far to a JSON file, so that a killed run loses none of them.

    A pipe or device gets only the final results. Errors are ignored here: the final write reports them.
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
    """Print a message on stderr; control characters in names from files are shown as escapes.

    A line; on a terminal that is too narrow for it, several that end between words.
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    print(_fitted(f"{PROGRAM}: {shown}", sys.stderr, _INDENT), file=sys.stderr)


def print_text(text: str) -> None:
    """Print lines on stdout. On a terminal that is too narrow for one, it is several that end between words; they begin
    below what stands behind the first one's label.
    """
    for line in text.split("\n"):
        label = re.match(r"\S+(?: \S+)*  +(?=\S)", line)
        print(_fitted(line, sys.stdout, " " * label.end() if label else _INDENT))


def _fitted(line: str, stream: TextIO, indent: str) -> str:
    """Return a line for a stream, broken between words if that is a terminal."""
    with suppress(OSError, ValueError):  # no terminal, or closed
        width = os.get_terminal_size(stream.fileno()).columns
        if len(line) > width > len(indent):
            return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return line


def note_unmapped(names: Sequence[str]) -> None:
    """Name on stderr the layers that have no mapping, if any."""
    if names:
        note(f"no mapping for {name_list(names)}")


def solving_exit_code(
    wanted: Sized, begun: Sized, unmapped: Sized, unproven: Sequence[str] = (), *, interrupted: bool
) -> int:
    """Return the exit code of a solve, and report on stderr the layers that were not started or are not proven."""
    if interrupted:
        note(f"interrupted: {len(wanted) - len(begun)} of {len(wanted)} layers not started")
        return INTERRUPTED
    if unproven:
        note(f"time limit reached before a proof of optimality for {name_list(unproven)}")
    return NO_MAPPING if unmapped else OK


def print_errors(text: str) -> None:
    """Print an error message for each line of a text."""
    for line in text.splitlines() or [""]:
        note(f"error: {' '.join(line.split())}")


def prepare_streams() -> None:
    """Replace closed streams by the null device, and let a terminal show characters outside its encoding as escapes."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it stays open to the end
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def closed_pipe_allowed() -> Iterator[None]:
    """Stop printing without an error when the reader of standard output, such as `| head`, closes the pipe.

    Raises:
        OSError: standard output cannot be written; nothing more is printed then.
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
    """Redirect standard output to the null device: what is left in the buffer would fail again at exit."""
    with suppress(UnsupportedOperation):  # a caller has put an object of its own in the place of standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
