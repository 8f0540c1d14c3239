"""Commands for the tests of the command line to run, and what they say."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpsat_pim.cli import main
from cpsat_pim.mapper.network.run import solve_and_verify
from cpsat_pim.mapper.result import SolvedLayer
from cpsat_pim.workload import ConvWorkload

TINY = "R=3,P=4,Q=4,C=4,K=4"
NETWORK = """
version: 1
name: pair
layers:
- {name: first, P: 4, Q: 4, C: 4, K: 4, count: 2}
- {name: second, P: 2, Q: 2, C: 4, K: 8}
- {name: twin, P: 2, Q: 2, C: 4, K: 8}
"""
CHIP = """
version: 1
extends: default
name: small
hierarchy:
  ROW_BUFFER: {stores: [false, false, false]}
  GLOBAL_BUFFER: {stores: [true, true, true], bypass_defined: true}
  PE: {stores: [false, false, true], bypass_defined: true}
"""


def map_tiny(*options: str) -> int:
    """Map the tiny layer for energy, which is proven at once."""
    return main(["map", TINY, "--objective", "energy", *options])


def read_json(path: Path) -> Any:
    """What a command wrote."""
    return json.loads(path.read_text())


def one_error_line(capsys: pytest.CaptureFixture[str]) -> bool:
    """Nothing on stdout, one line on stderr but for warnings."""
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("cpsat_pim: warning: ")]
    return out == "" and len(lines) == 1 and lines[0].startswith("cpsat_pim: error: ") and err.endswith("\n")


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Another interpreter, its output in pipes."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False)


def run_shell(command: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell, what it says on stderr in a pipe."""
    return subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, timeout=300, check=False)


def solve_and_interrupt(*arguments: Any) -> SolvedLayer:
    """A solve, at the end of which Ctrl-C is pressed."""
    solved = solve_and_verify(*arguments)
    signal.raise_signal(signal.SIGINT)
    return solved


def solve_noting(seen: list[str]) -> Callable[..., SolvedLayer]:
    """Solves that write down the names of their layers."""

    def solve(layer: ConvWorkload, *others: Any) -> SolvedLayer:
        seen.append(layer.name)
        return solve_and_verify(layer, *others)

    return solve
