"""The page as a file; how it looks and behaves is in test_page.py."""

import json
import re
import sys

import pytest

from cpsat_pim.report.html import _filled as filled
from cpsat_pim.report.html import render_report
from tests.report.results import document

pytest.importorskip("plotly", reason="the report's plotting library is not installed")


@pytest.fixture(scope="module")
def page() -> str:
    """The page of the two layers."""
    return render_report([("one.json", document())])


def test_page_names_no_file_but_itself(page: str) -> None:
    """Nothing is loaded by an address, and the page forbids it to whatever is in it."""
    text = re.sub(r'(?s)<script type="text/plain".*?</script>', "", page)
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe)\b|\bsrc=|\bfetch\(|@import|\burl\(", text)
    assert "default-src 'none'" in text
    assert len(page) < 2_600_000


def test_data_cannot_end_its_element(page: str) -> None:
    """A layer named like a tag is data, and comes back as it was."""
    text = re.search(r'(?s)<script type="application/json" id="results">(.*?)</script>', page)
    assert text is not None
    assert "<" not in text[1]
    assert json.loads(text[1])[0]["layers"][1]["name"] == "<b>"


def test_two_results_are_both_in_the_page() -> None:
    """In the order given."""
    page = render_report([("one.json", document()), ("two.json", document() | {"network": "<other>"})])
    assert "<title>pair on default and &lt;other&gt; on default</title>" in page
    assert '"source":"one.json"' in page
    assert '"source":"two.json"' in page


def test_what_is_filled_in_is_not_filled_again() -> None:
    """A part may hold braces."""
    assert filled("a {{x}} b {{y}} c", {"x": "{{y}}", "y": "}} {{"}) == "a {{y}} b }} {{ c"


def test_absent_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says how to get it."""
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ValueError, match=r"pip install 'cpsat-pim\[report\]'"):
        render_report([("one.json", document())])
