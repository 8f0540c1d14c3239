"""Sphinx: the pages, and the programming interface from its docstrings.

pip install '.[docs]' && sphinx-build -W -b html docs docs/_build
"""

import re
import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
from house import draw

project = "cpsat-pim"
author = "The cpsat-pim authors"
project_copyright = author
version = release = installed(project)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
default_role = "code"  # single backticks of docstrings mean what they do in Markdown
highlight_language = "none"
myst_heading_anchors = 3

autodoc_member_order = "bysource"
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = project
html_copy_source = False


def add_toctrees(app: Sphinx, page: str, source: list[str]) -> None:
    """The sidebar has what the index lists: under its headings, in its order."""
    if page == "index":
        for heading, links in re.findall(r"^## (.*)\n([^#]*)", source[0], re.MULTILINE):
            pages = "\n".join(re.findall(r"\]\(([\w-]+)\.md\)", links))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{pages}\n```\n"


def name_defaults(*event: Any) -> tuple[str | None, str | None]:
    """Functions by their names, and `...` for what attrs makes when it is needed."""
    signature, returns = event[-2:]
    return signature and re.sub(r"NOTHING|<function (\w+)[^>]*>", lambda found: found[1] or "...", signature), returns


def setup(app: Sphinx) -> None:
    """Draw the house and connect the hooks above."""
    (Path(__file__).parent / "house.svg").write_text(draw())
    app.connect("source-read", add_toctrees)
    app.connect("autodoc-process-signature", name_defaults)
