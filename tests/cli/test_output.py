"""Messages on stderr, lines on stdout."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from cpsat_pim.cli.output import note, print_text

termios = pytest.importorskip("termios")  # not on Windows

_MESSAGE = "chip.yaml:3:7: clock: must be a frequency, as in 500 MHz (got 'fast'); without one no times are shown"


def shown(stream: str, columns: int, write: Callable[[], None]) -> str:
    """Return what `write` shows on a terminal of so many columns, which is `stream`: `stdout` or `stderr`."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with os.fdopen(theirs, "w") as terminal, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, stream, terminal)
        write()
    parts = []
    with os.fdopen(ours, "rb", buffering=0) as screen, suppress(OSError):  # Linux's way to say that it is the end
        while part := screen.read(10_000):
            parts.append(part)
    return b"".join(parts).decode()


def test_message_on_a_narrow_terminal_is_broken_between_words() -> None:
    """No line is longer than the terminal of 40 columns is wide, and no word is lost or cut."""
    text = shown("stderr", 40, lambda: note(_MESSAGE))
    assert max(map(len, text.splitlines())) <= 40
    assert text.split() == f"cpsat_pim: {_MESSAGE}".split()


def test_message_in_a_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read it."""
    note(_MESSAGE)
    assert capsys.readouterr().err == f"cpsat_pim: {_MESSAGE}\n"


def test_line_on_a_narrow_terminal_goes_on_below_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    """A label keeps its column for itself; in a file the line stays one."""
    text = "time     0.082 us (the best of 869,734 mappings)\nenergy   13 uJ"
    print_text(text)
    assert capsys.readouterr().out == text + "\n"
    assert shown("stdout", 30, lambda: print_text(text)).splitlines() == [
        "time     0.082 us (the best of",
        "         869,734 mappings)",
        "energy   13 uJ",
    ]
