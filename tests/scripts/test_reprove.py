"""What is proven in one way is not refuted in another, and if it is, that is told."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Script = Callable[[str], ModuleType]


def answer(status: str, value: int | None, bound: int | None) -> dict[str, Any]:
    """An answer."""
    return {"status": status, "value": value, "bound": bound, "seconds": 1.0}


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ([answer("OPTIMAL", 7, 7), answer("OPTIMAL", 7, 7)], "equal"),
        ([answer("INFEASIBLE", None, None)] * 2, "equal"),
        ([answer("OPTIMAL", 7, 7), answer("FEASIBLE", 7, 6)], "compatible"),
        ([answer("OPTIMAL", 7, 7), answer("FEASIBLE", 9, 5)], "compatible"),
        ([answer("OPTIMAL", 7, 7), answer("UNKNOWN", None, 5)], "compatible"),
        ([answer("OPTIMAL", 7, 7), answer("OPTIMAL", 6, 6)], "DIFFERENT"),
        ([answer("FEASIBLE", 6, 5), answer("FEASIBLE", 9, 7)], "DIFFERENT"),
        ([answer("OPTIMAL", 7, 7), answer("INFEASIBLE", None, None)], "DIFFERENT"),
    ],
)
def test_verdict_tells_what_cannot_be(script: Script, given: list[dict[str, Any]], word: str) -> None:
    """A value below a bound, or where there is said to be none; whoever comes first."""
    reprove = script("reprove")
    assert reprove.verdict(given) == reprove.verdict(given[::-1]) == word


def test_exit_code_tells_of_differences(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    """1 for one that cannot be, 0 for none."""
    reprove = script("reprove")
    tasks = reprove.drawn_tasks(2, 0, 1.0)
    same, other = [answer("OPTIMAL", 7, 7)] * 2, [answer("OPTIMAL", 7, 7), answer("OPTIMAL", 6, 6)]
    assert reprove.print_table(tasks, {"one": same, "two": same}) == 0
    assert reprove.print_table(tasks, {"one": same, "two": other}) == 1
    assert "1 equal, 0 compatible, 1 DIFFERENT" in capsys.readouterr().out
