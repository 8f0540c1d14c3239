"""Pages whose blocks are run, in order, in a folder of their own: they print what the page shows."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: In what is shown `...` is any text, and any white space is like any other.
AS_SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(kind: str, text: str, folder: Path) -> str:
    """What a block prints: commands of a shell in which `python` is this one, or a program; it ends as it says."""
    command = {"sh": ["bash", "-euo", "pipefail", "-c", text], "python": [sys.executable, "-c", text]}[kind]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert ended.returncode == text.endswith("# exit code 1\n"), f"{text}{ended.stdout}{ended.stderr}"
    return ended.stdout


def check_shown(shown: str, printed: str) -> None:
    """What a page shows is what was printed; nothing shown, nothing to check."""
    is_shown = not shown or doctest.OutputChecker().check_output(shown, printed, AS_SHOWN)
    assert is_shown, printed


#: Pages whose blocks solve for long.
LONG = ("padding", "pareto", "explain")


@pytest.mark.parametrize(
    "page", ["tutorial", "chip", "api", *(pytest.param(page, marks=pytest.mark.slow) for page in LONG)]
)
def test_page_prints_what_it_shows(page: str, tmp_path: Path) -> None:
    """A `yaml` block is the file that its first line names; `text` blocks show what the last block printed."""
    pytest.importorskip("plotly", reason="the report's plotting library is not installed")
    shown, printed = "", ""
    for kind, text in BLOCK.findall((DOCS / f"{page}.md").read_text()):
        if kind == "yaml":
            (tmp_path / text.split()[1]).write_text(text)
        elif kind == "text":
            shown += text
        else:
            check_shown(shown, printed)
            shown, printed = "", run(kind, text, tmp_path)
    check_shown(shown, printed)
