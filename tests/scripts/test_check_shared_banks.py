"""The comparison of `tables` with `tracesim` on mappings that share banks."""

from collections.abc import Callable
from types import ModuleType

import pytest


def test_mappings_are_equal_and_share_banks(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many as asked, none with a bank for each tensor; the totals add up."""
    module = script("check_shared_banks")
    monkeypatch.setattr("sys.argv", ["check_shared_banks", "--count", "120", "--seed", "3"])
    monkeypatch.setattr(module, "DRAWN", 4)
    assert module.main() == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "seed 3: 120 mappings, all exact figures are equal"
    by_banks = dict(line.split(" mappings, ")[0].rsplit(maxsplit=1) for line in lines if "open more rows" in line)
    assert sum(map(int, by_banks.values())) == 120
    assert "I|W|O" not in {banks.strip() for banks in by_banks}  # but perhaps with several banks for a tensor


def test_a_difference_ends_with_1_and_is_printed(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the mapping that shows it."""
    module = script("check_shared_banks")
    monkeypatch.setattr("sys.argv", ["check_shared_banks", "--count", "5"])
    monkeypatch.setattr(module, "differences", lambda *figures: ["row_activations: 3, simulated 4"])
    assert module.main() == 1
    printed = capsys.readouterr().out
    assert "row_activations: 3, simulated 4" in printed
    assert "MappedLayer(" in printed
