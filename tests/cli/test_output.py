"""Messages on stderr."""

import os
import sys

import pytest

from cpsat_pim.cli.output import note

termios = pytest.importorskip("termios")  # not on Windows

_MESSAGE = "chip.yaml:3:7: clock: must be a frequency, as in 500 MHz (got 'fast'); without one no times are shown"


def test_message_on_a_narrow_terminal_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is longer than the terminal of 40 columns is wide, and no word is lost or cut."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 40))
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        note(_MESSAGE)
        terminal.flush()
        shown = os.read(ours, 10_000).decode()
        monkeypatch.undo()
    os.close(ours)
    assert max(map(len, shown.splitlines())) <= 40
    assert shown.split() == f"cpsat_pim: {_MESSAGE}".split()


def test_message_in_a_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read it."""
    note(_MESSAGE)
    assert capsys.readouterr().err == f"cpsat_pim: {_MESSAGE}\n"
