"""The frame of a page that needs no programs: a title, a summary, charts and tables."""

import html
from importlib.resources import files

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}
</style>
<script>
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
</script>
</head>
<body>
<main>
<header><div><h1>{title}</h1><p class="soft">{summary}</p></div></header>
{body}
</main>
</body>
</html>
"""

#: Heads of tables that cannot be sorted, so have no buttons.
_HEADS = "thead th { padding: 7px; font-size: 0.83rem; }"


def plain_page(title: str, summary: str, body: str, style: str) -> str:
    """Return a page in the reader's theme; `style` is added to that of the report, `body` is HTML."""
    report_style = files("cpsat_pim.report").joinpath("page", "page.css").read_text(encoding="utf-8")
    return _PAGE.format(
        title=html.escape(title), summary=html.escape(summary), body=body, style=f"{report_style}\n{_HEADS}\n{style}"
    )
