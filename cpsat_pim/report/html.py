"""Results as one self-contained HTML file: data, styles, scripts and the plotting library are all in it."""

import base64
import gzip
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from cpsat_pim.base.extras import import_extra
from cpsat_pim.report.plan_view import CostedPlan, build_plan_view
from cpsat_pim.report.view import build_view

#: In folders of this package, in the order in which a page needs them.
_SHARED = ("page/format.js", "page/charts.js", "page/start.js")
_RESULT = (*_SHARED, "page/table.js", "page/layer.js", "page/page.js")
_PLAN_PARTS = ("steps", "array", "rings", "gantt", "homes", "plan")
_PLAN = (*_SHARED, *(f"plan_page/{part}.js" for part in _PLAN_PARTS))


def check_plotting() -> None:
    """Check that the plotting library is installed, so that a missing package fails before the solve and not after it.

    Raises:
        MissingExtra: the plotting library is not installed.
    """
    import_extra("plotly", "report")


def render_report(documents: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Render the page of one result, or of two results compared; each is given as file name and document
    (docs/json.md).

    Raises:
        ValueError: something in a result is missing, malformed or illegal, or the plotting library is not installed.
    """
    check_plotting()
    # Through JSON text and back, so that tuples become lists as in a document read from a file.
    views = [build_view(json.loads(json.dumps(document)), source) for source, document in documents]
    title = " and ".join(f"{view['network']} on {view['arch']}" for view in views)
    return _page(title, views, ("page/page.css",), _RESULT)


def render_plan(costed: CostedPlan) -> str:
    """Render the page of a plan.

    Raises:
        MissingExtra: the plotting library is not installed.
    """
    view = build_plan_view(costed)
    array = view["array"]
    title = f"{view['network']} on {array['rows']} x {array['cols']} nodes of {array['node']}"
    return _page(title, view, ("page/page.css", "plan_page/plan.css"), _PLAN)


def _page(title: str, data: Any, styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Fill the page's frame with data, styles, scripts and the plotting library."""
    parts = {
        "title": html.escape(title),
        "style": "\n".join(map(_asset, styles)),
        "results": _script_safe(json.dumps(data, separators=(",", ":"), allow_nan=False)),
        "plotting": _plotting(),
        "script": '"use strict";\n' + "\n".join(map(_asset, scripts)),
    }
    return _filled(_asset("page/page.html"), parts)


def _filled(template: str, parts: dict[str, str]) -> str:
    """Replace each `{{name}}` of a template once; inserted text is not searched again."""
    first, *rest = template.split("{{")
    pieces = (piece.split("}}", 1) for piece in rest)
    return first + "".join(parts[name] + text for name, text in pieces)


def _asset(path: str) -> str:
    return files("cpsat_pim.report").joinpath(*path.split("/")).read_text(encoding="utf-8")


def _script_safe(text: str) -> str:
    """Encode data as JSON that cannot close its script element, whatever a layer is called."""
    return text.replace("<", "\\u003c")


def _plotting() -> str:
    """Return the plotting library compressed to a third of its size; the browser decompresses it."""
    script: str = import_extra("plotly.offline", "report").get_plotlyjs()
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()
