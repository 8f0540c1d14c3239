"""Draws the house for docs/architecture.md: the rooms of the package, floor by floor, from the import contracts.

The floors are read from `pyproject.toml` and the sentences from the rooms' docstrings, so the picture cannot be out of
date: what the checkers enforce is what is drawn.
"""

import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
WIDTH, GAP, LINE, HEAD = 960, 8, 15, 24
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1b2733 } .room { font-weight: 600; font-size: 14px }
.paper { fill: #fff; stroke: none }
rect { fill: #eef3f8; stroke: #7b93ab } .inner { fill: #dfe9f3 } .leaf { fill: #f6efe2; stroke: #b39a66 }
"""


def contract(name: str) -> list[list[str]]:
    """The floors of an import contract, from the top: the rooms of each, as far as they are built."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (found,) = (c for c in config["tool"]["importlinter"]["contracts"] if c["name"] == name)
    (container,) = found["containers"]
    folder = ROOT / container.replace(".", "/")
    floors = [[room.strip(" ()") for room in layer.split("|")] for layer in found["layers"]]
    return [kept for floor in floors if (kept := [r for r in floor if list(folder.glob(f"{r}*"))])]


def sentence(path: str) -> str:
    """The first sentence of a package's or a module's docstring."""
    file = ROOT / path
    text = (file / "__init__.py" if file.is_dir() else file.with_suffix(".py")).read_text()
    doc = ast.get_docstring(ast.parse(text)) or ""
    return " ".join(doc.split("\n\n")[0].split()).replace("`", "")


def box(x: float, y: float, width: float, title: str, text: str, kind: str) -> tuple[str, float]:
    """A room with its sentence, as SVG, and its height."""
    lines = textwrap.wrap(text, max(12, int((width - 16) / 6.4)))
    height = HEAD + LINE * len(lines) + 6
    spans = "".join(f'<text x="{x + 8}" y="{y + HEAD + 10 + LINE * i}">{escape(t)}</text>' for i, t in enumerate(lines))
    head = f'<text class="room" x="{x + 8}" y="{y + 18}">{escape(title)}</text>'
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>{head}{spans}', height


def floors(container: str, contract_name: str, y: float, x: float, width: float, kind: str) -> tuple[str, float]:
    """All floors of a container from the top, as SVG, and where they end."""
    parts = []
    for floor in contract(contract_name):
        each = (width - GAP * (len(floor) - 1)) / len(floor)
        drawn = [
            box(x + i * (each + GAP), y, each, room, sentence(f"{container}/{room}"), kind)
            for i, room in enumerate(floor)
        ]
        parts += [svg for svg, _ in drawn]
        y += max(height for _, height in drawn) + GAP
    return "".join(parts), y


def draw() -> str:
    """The whole picture: the package, the inside of the mapper, the two leaf packages."""
    half = (WIDTH - 3 * GAP) / 2
    house, end = floors("cpsat_pim", "the house", 40, GAP, half, "room-box")
    mapper, mapper_end = floors("cpsat_pim/mapper", "one layer's optimum", 40, half + 2 * GAP, half, "inner")
    leaves, y = [], mapper_end + 34
    for name in ("tables", "tracesim"):
        svg, height = box(half + 2 * GAP, y, half, name, sentence(name), "leaf")
        leaves.append(svg)
        y += height + GAP
    right, height = half + 2 * GAP, max(end, y)
    titles = ((GAP, 28, "cpsat_pim"), (right, 28, "cpsat_pim.mapper"), (right, mapper_end + 24, "leaf packages"))
    heads = "".join(f'<text class="room" x="{x}" y="{top}">{text}</text>' for x, top, text in titles)
    size = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
    paper = f'<rect class="paper" width="{WIDTH}" height="{height}"/>'
    return f"<svg {size}><style>{STYLE}</style>{paper}{heads}{house}{mapper}{''.join(leaves)}</svg>"


if __name__ == "__main__":
    (Path(__file__).parent / "house.svg").write_text(draw())
