"""Messages on stderr, lines on stdout."""

import os
import sys
from contextlib import suppress

import pytest

from cpsat_pim.cli.output import note, print_text

termios = pytest.importorskip("termios")  # not on Windows

_MESSAGE = "chip.yaml:3:7: clock: must be a frequency, as in 500 MHz (got 'fast'); without one no times are shown"


def _read(terminal: int) -> str:
    """Return all that was shown on a terminal that is closed at its other end."""
    parts = []
    with os.fdopen(terminal, "rb", buffering=0) as shown, suppress(OSError):  # Linux's way to say that it is the end
        while part := shown.read(10_000):
            parts.append(part)
    return b"".join(parts).decode()


def test_message_on_a_narrow_terminal_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is longer than the terminal of 40 columns is wide, and no word is lost or cut."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 40))
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        note(_MESSAGE)
        monkeypatch.undo()
    shown = _read(ours)
    assert max(map(len, shown.splitlines())) <= 40
    assert shown.split() == f"cpsat_pim: {_MESSAGE}".split()


def test_message_in_a_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read it."""
    note(_MESSAGE)
    assert capsys.readouterr().err == f"cpsat_pim: {_MESSAGE}\n"


def test_line_on_a_narrow_terminal_goes_on_below_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A label keeps its column for itself; in a file the line stays one."""
    text = "time     0.082 us (the best of 869,734 mappings)\nenergy   13 uJ"
    print_text(text)
    assert capsys.readouterr().out == text + "\n"
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 30))
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        print_text(text)
        monkeypatch.undo()
    assert _read(ours).splitlines() == [
        "time     0.082 us (the best of",
        "         869,734 mappings)",
        "energy   13 uJ",
    ]
