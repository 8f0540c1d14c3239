"""Results as one HTML file that needs nothing else: data, style, scripts and the plotting library are all in it."""

import base64
import gzip
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from cpsat_pim.base.extras import import_extra
from cpsat_pim.report.view import build_view

_SCRIPTS = ("format.js", "charts.js", "table.js", "layer.js", "page.js")


def check_plotting() -> None:
    """Fail before an hour of solving rather than after it.

    Raises:
        MissingExtra: the plotting library is not installed.
    """
    import_extra("plotly", "report")


def render_report(documents: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """The page of one result, or of two that are compared; each a file's name and its content (docs/json.md).

    Raises:
        ValueError: something in a result is missing, malformed or illegal, or the plotting library is not installed.
    """
    check_plotting()
    # Through text and back: what was never in a file looks as if it had been (lists for tuples).
    views = [build_view(json.loads(json.dumps(document)), source) for source, document in documents]
    parts = {
        "title": html.escape(" and ".join(f"{view['network']} on {view['arch']}" for view in views)),
        "style": _asset("page.css"),
        "results": _script_safe(json.dumps(views, separators=(",", ":"), allow_nan=False)),
        "plotting": _plotting(),
        "script": '"use strict";\n' + "\n".join(_asset(name) for name in _SCRIPTS),
    }
    return _filled(_asset("page.html"), parts)


def _filled(template: str, parts: dict[str, str]) -> str:
    """A template with its `{{name}}` replaced; what is filled in is not looked at again."""
    first, *rest = template.split("{{")
    pieces = (piece.split("}}", 1) for piece in rest)
    return first + "".join(parts[name] + text for name, text in pieces)


def _asset(name: str) -> str:
    return files("cpsat_pim.report").joinpath("page", name).read_text(encoding="utf-8")


def _script_safe(text: str) -> str:
    """JSON that cannot end the element it stands in: a layer may have any name."""
    return text.replace("<", "\\u003c")


def _plotting() -> str:
    """The plotting library, packed: a third of its size, and the browser unpacks it in no time."""
    script: str = import_extra("plotly.offline", "report").get_plotlyjs()
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()
