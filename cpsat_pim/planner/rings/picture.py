"""Rings and link loads of a schedule, drawn as SVG.

Left, the rings: every hop along its XY route, each set in a colour of its own and drawn a little apart from the others.
Right, the loads: every directed link, the darker the more chunks it carries in a step.
"""

from collections.abc import Iterator

from cpsat_pim.planner.rings.instance import Mesh
from cpsat_pim.planner.rings.routes import link_ends, link_loads
from cpsat_pim.planner.rings.schedule import Schedule

#: Pixels between neighbouring nodes, around each panel, and of a node's dot; part of the pitch that rings spread over.
_PITCH, _MARGIN, _DOT, _SPREAD = 36, 30, 3, 0.5

_GREY = "#444"

Point = tuple[float, float]


def draw(schedule: Schedule) -> str:
    """Return the picture of a schedule."""
    mesh = schedule.instance.mesh
    width, height = _size(mesh)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * width} {height}" font-family="sans-serif">',
        f'<rect width="{2 * width}" height="{height}" fill="white"/>',
        *_panel(mesh, 0, f"rings of {len(schedule.rings)} sets", _ring_lines(schedule), _node_colours(schedule)),
        *_panel(mesh, width, f"link loads, at most {schedule.load}", _load_lines(schedule), {}),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _size(mesh: Mesh) -> tuple[int, int]:
    return (mesh.cols - 1) * _PITCH + 2 * _MARGIN, (mesh.rows - 1) * _PITCH + 2 * _MARGIN + 10


def _panel(mesh: Mesh, left: int, title: str, lines: Iterator[str], colours: dict[int, str]) -> Iterator[str]:
    """A titled group: lines, and the nodes above them, grey unless they have a colour."""
    yield f'<g transform="translate({left},10)"><text x="{_MARGIN}" y="10" font-size="11">{title}</text>'
    yield from lines
    for node in range(mesh.nodes):
        x, y = _place(mesh, node)
        yield f'<circle cx="{x:g}" cy="{y:g}" r="{_DOT}" fill="{colours.get(node, _GREY)}"/>'
    yield "</g>"


def _place(mesh: Mesh, node: int) -> Point:
    y, x = divmod(node, mesh.cols)
    return _MARGIN + x * _PITCH, _MARGIN + y * _PITCH


# --- Rings -------------------------------------------------------------------------------------------------------


def _ring_lines(schedule: Schedule) -> Iterator[str]:
    """A closed line a set, and an arrowhead in the middle of each hop's longer leg."""
    count = len(schedule.rings)
    for s, ring in enumerate(schedule.rings):
        shift = _PITCH * _SPREAD * ((s + 0.5) / count - 0.5) if count > 1 else 0.0
        colour = _colour(s, count)
        points = [point for i in range(len(ring)) for point in _legs(schedule.instance.mesh, ring[i - 1], ring[i])]
        moved = [(x + shift, y + shift) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in moved)
        title = f"<title>set {s}</title>"
        yield f'<polygon points="{path}" fill="none" stroke="{colour}" stroke-width="1.3">{title}</polygon>'
        for a, b in zip(moved, moved[1:] + moved[:1], strict=True):
            yield from _arrow(a, b, colour)


def _node_colours(schedule: Schedule) -> dict[int, str]:
    """Each node in the colour of its set."""
    count = len(schedule.rings)
    return {node: _colour(s, count) for s, ring in enumerate(schedule.rings) for node in ring}


def _colour(s: int, count: int) -> str:
    """Of a set: hues apart from each other."""
    return f"hsl({360 * s // count},65%,42%)"


def _legs(mesh: Mesh, source: int, target: int) -> list[Point]:
    """Where a hop begins and where it turns; its end begins the next hop."""
    (xa, ya), (xb, yb) = _place(mesh, source), _place(mesh, target)
    return [(xa, ya), (xb, ya)] if xa != xb and ya != yb else [(xa, ya)]


def _arrow(a: Point, b: Point, colour: str) -> Iterator[str]:
    """A triangle in the middle of a line along an axis."""
    length = max(abs(b[0] - a[0]), abs(b[1] - a[1]))
    if length == 0:
        return
    dx, dy = (b[0] - a[0]) / length, (b[1] - a[1]) / length
    x, y = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
    tips = [
        (x + 3 * dx, y + 3 * dy),
        (x - 2 * dx - 2.5 * dy, y - 2 * dy + 2.5 * dx),
        (x - 2 * dx + 2.5 * dy, y - 2 * dy - 2.5 * dx),
    ]
    yield f'<polygon points="{" ".join(f"{u:.1f},{v:.1f}" for u, v in tips)}" fill="{colour}"/>'


# --- Loads -------------------------------------------------------------------------------------------------------


def _load_lines(schedule: Schedule) -> Iterator[str]:
    """Each directed link on its right-hand side, so that the two directions lie beside each other."""
    mesh = schedule.instance.mesh
    loads = link_loads(mesh, schedule.rings).tolist()
    most = max(loads)
    for (source, target), load in zip(link_ends(mesh).tolist(), loads, strict=True):
        (xa, ya), (xb, yb) = _place(mesh, source), _place(mesh, target)
        dx, dy = (xb - xa) / _PITCH, (yb - ya) / _PITCH
        side_x, side_y = -3 * dy, 3 * dx
        grey = 92 - round(70 * load / most)
        ends = f'x1="{xa + side_x:g}" y1="{ya + side_y:g}" x2="{xb + side_x:g}" y2="{yb + side_y:g}"'
        title = f"<title>{source} to {target}: {load}</title>"
        yield f'<line {ends} stroke="hsl(215,60%,{grey}%)" stroke-width="3.5">{title}</line>'
