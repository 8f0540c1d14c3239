"""Draw the pictures of the pages from the files that the pages show: a machine, a mapping, a pipeline.

    python docs/pictures.py

`node.svg` shows the machine of chip.md, `nest.svg` the mapping of tutorial.md, `pipeline.svg` the simulation of that
mapping. Every number in them is computed by the package.
"""

import re
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from cpsat_pim.arch import PIMArchitecture  # noqa: E402 - the package need not be installed
from cpsat_pim.arch.reading import read_arch  # noqa: E402
from cpsat_pim.base.dims import Level, Tensor  # noqa: E402
from cpsat_pim.evaluate.verify import MappedLayer  # noqa: E402
from cpsat_pim.mapping import Mapping  # noqa: E402
from cpsat_pim.mapping.check import used_bytes  # noqa: E402
from cpsat_pim.report.format import format_bytes  # noqa: E402
from cpsat_pim.report.jsonfile import read_mapped_layers  # noqa: E402
from cpsat_pim.report.timeline import build_timeline  # noqa: E402

WIDTH = 760
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1b2733 }
.head { font-weight: 600 } .note { font-size: 12px; fill: #51606e }
.paper { fill: #fff } .level { fill: #eef3f8; stroke: #7b93ab } .array { fill: #f6efe2; stroke: #b39a66 }
.loop { fill: #fff; stroke: #7b93ab } .step { fill: #9aa7b4 }
.I { fill: #8fbbe3 } .W { fill: #f0b070 } .O { fill: #93c993 }
"""


def example(page: str, file: str) -> str:
    """Return the YAML of a page's code block that begins with a comment of the file's name."""
    found = re.search(rf"```yaml\n# {re.escape(file)}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    assert found is not None, f"{page} has no {file}"
    return found[1]


def write_example(page: str, file: str, folder: str) -> Path:
    """Write a page's file to a folder, and return its path."""
    path = Path(folder) / file
    path.write_text(example(page, file))
    return path


# --- SVG -------------------------------------------------------------------------------------------------------------


def text(x: float, y: float, content: str, kind: str = "") -> str:
    """Return a line of text at a position."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return a rectangle of a style."""
    return f'<rect class="{kind}" x="{x:.6g}" y="{y:g}" width="{width:.6g}" height="{height:g}" rx="3"/>'


def svg(height: float, parts: list[str]) -> str:
    """Wrap elements as an SVG document on white paper."""
    size = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}"'
    return f"<svg {size}><style>{STYLE}</style>{box(0, 0, WIDTH, height, 'paper')}{''.join(parts)}</svg>\n"


# --- A machine -------------------------------------------------------------------------------------------------------


def draw_node(arch: PIMArchitecture) -> str:
    """Draw one node: a box per level with its capacity and the keys that describe it, and the PE array."""
    shape, unit = arch.pe_array.array_shape, arch.pe_array.compute_unit
    notes = {
        Level.DRAM: f"dram_timings, num_banks: {arch.banks} per tensor, columns of {arch.column_bytes} B",
        Level.ROW_BUFFER: f"row_buffer_size: rows of {format_bytes(arch.row_bytes)}",
        Level.GLOBAL_BUFFER: "read_bandwidth_limit, write_bandwidth_limit, double_buffered",
    }
    parts = [text(10, 20, f"One node of {arch.name}, outer level first; keys of its file beside", "head")]
    y = 34
    for level, note in notes.items():
        item = arch.hierarchy[level]
        parts += [box(10, y, 250, 40, "level"), text(20, y + 25, f"{item.name}: {format_bytes(item.capacity_bytes)}")]
        parts += [text(275, y + 17, f"hierarchy: {level.name}", "head"), text(275, y + 34, note, "note")]
        parts.append(text(130, y + 56, "↕", "note"))
        y += 62
    side = 250 / shape.w
    pe = arch.hierarchy[Level.PE]
    for row in range(shape.h):
        for column in range(shape.w):
            parts.append(box(12 + column * side, y + row * 26, side - 4, 22, "array"))
            parts.append(text(16 + column * side, y + 16 + row * 26, format_bytes(pe.capacity_bytes), "note"))
    parts.append(text(275, y + 17, f"pe_array: {shape.h} x {shape.w} PEs, each a {unit.unit_type} unit of", "head"))
    parts.append(text(275, y + 36, f"{unit.num_macs} MACs per cycle (compute_unit.num_macs)", "note"))
    parts.append(
        text(275, y + 55, f"hierarchy: PE, {pe.name} of {format_bytes(pe.capacity_bytes)} in every PE", "note")
    )
    return svg(y + 26 * shape.h + 12, parts)


# --- A mapping -------------------------------------------------------------------------------------------------------


def loops_of(mapping: Mapping, place: Level | str) -> list[str]:
    """Return the loops of a level, outermost first, or of the array."""
    if isinstance(place, Level):
        return [f"for {d.name} in {mapping.temporal[place][d]}" for d in mapping.order[place]]
    names = {"PE array": (0, 1), "MAC lanes": (2,)}[place]
    found = []
    for s in names:
        over = ("over rows", "over columns", "over lanes")[s]
        found += [f"{d} x{n} {over}" for d, n in zip("RSPQCKNG", mapping.spatial[s], strict=True) if n > 1]
    return found


def draw_nest(case: MappedLayer) -> str:
    """Draw a loop nest: a band per level with its tiles, as bytes of each tensor, and its loops."""
    used = used_bytes(case.layer, case.arch, case.mapping)
    places: list[Level | str] = [Level.DRAM, Level.ROW_BUFFER, Level.GLOBAL_BUFFER, "PE array", Level.PE, "MAC lanes"]
    parts = [text(10, 20, "A mapping: levels from outer to inner, the tiles that they store, and their loops", "head")]
    y = 32.0
    for indent, place in enumerate(places):
        x = 10 + 14 * indent
        is_level = isinstance(place, Level)
        parts.append(box(x, y, WIDTH - 10 - x, 40, "level" if is_level else "array"))
        parts.append(
            text(x + 10, y + 25, case.arch.hierarchy[place].name if isinstance(place, Level) else place, "head")
        )
        right = 190.0
        for tensor, size in used[place].items() if isinstance(place, Level) else ():
            parts += [
                box(right, y + 9, 84, 22, Tensor(tensor).name),
                text(right + 6, y + 25, f"{Tensor(tensor).name} {size} B"),
            ]
            right += 90
        if is_level and not used[place]:
            parts.append(text(right, y + 25, "bypassed", "note"))
        right = 465.0
        for loop in loops_of(case.mapping, place):
            width = 6.6 * len(loop) + 12
            parts += [box(right, y + 9, width, 22, "loop"), text(right + 6, y + 25, loop)]
            right += width + 6
        y += 46
    return svg(y + 4, parts)


# --- A pipeline ------------------------------------------------------------------------------------------------------


def draw_pipeline(case: MappedLayer) -> str:
    """Draw the simulated pipeline: a track per link and for the PE array, over cycles."""
    events: list[dict[str, Any]] = build_timeline([case])["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    slices = [e for e in events if e["ph"] == "X"]
    end = max(e["ts"] + e["dur"] for e in slices)
    left, scale = 250, (WIDTH - 260) / end
    rows = [*[t for t in sorted(threads) if t], 0]
    parts = [text(10, 20, f"Simulated pipeline over {end:,} cycles: what each link and the PE array do", "head")]
    for i, thread in enumerate(rows):
        y = 34 + 26 * i
        parts.append(text(10, y + 15, threads[thread], "note"))
        for e in (e for e in slices if e["tid"] == thread):
            kind = e["name"][0] if thread else "step"
            parts.append(box(left + e["ts"] * scale, y, max(0.6, e["dur"] * scale - 0.4), 20, kind))
    y = 34 + 26 * len(rows) + 14
    parts += [text(left, y, "0", "note"), text(WIDTH - 85, y, f"{end:,} cycles", "note")]
    return svg(y + 8, parts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        arch = read_arch(str(write_example("chip.md", "node.yaml", folder)))
        (case,) = read_mapped_layers(str(write_example("tutorial.md", "mine.yaml", folder)))
    for name, drawing in (("node", draw_node(arch)), ("nest", draw_nest(case)), ("pipeline", draw_pipeline(case))):
        (ROOT / "docs" / f"{name}.svg").write_text(drawing)
