"""The page in a real browser: it draws, sorts, filters and opens layers, without a word on the console or a request.

Needs a Chromium on the path (Debian: `apt-get install chromium`).
"""

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cpsat_pim.report.html import render_report
from tests.report.results import UNMAPPED, document, shared_bank_document

pytest.importorskip("plotly", reason="the report's plotting library is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

#: As root in a container, without a graphics card, and silent on the network.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all pages."""
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


class Visit:
    """A page that is open, and what it asked for or complained of."""

    def __init__(self, browser: Any, path: Path, is_empty: bool = False, **context: Any) -> None:
        self.page = browser.new_context(reduced_motion="reduce", **context).new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#layers h2" if is_empty else "#layer h2")
        self.page.wait_for_function("!document.querySelector('.chart:not(.js-plotly-plot)')")

    def names(self) -> list[str]:
        """The table's first column."""
        names: list[str] = self.page.locator("tbody tr td:first-child").all_inner_texts()
        return names

    def count(self, selector: str) -> int:
        """How many elements there are."""
        return int(self.page.locator(selector).count())


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens the page of documents; in the end nothing was asked for but the page and nothing complained."""
    visits: list[Visit] = []

    def go(*documents: dict[str, Any], **context: Any) -> Visit:
        path = tmp_path / "report.html"
        path.write_text(render_report([(f"{i}.json", data) for i, data in enumerate(documents)]), encoding="utf-8")
        visits.append(Visit(browser, path, **context))
        return visits[-1]

    yield go
    for each in visits:
        assert each.complaints == []
        assert [url.split(":")[0] for url in each.requests] == ["file"]
        each.page.context.close()


def many(count: int) -> dict[str, Any]:
    """A result of so many layers, whose counts fall; the third has no mapping, the fifth has a gap.

    Their dilations differ, which changes nothing for filters of one element but makes them different layers.
    """
    data = document()
    first = data["layers"][0]
    data["layers"] = [copy.deepcopy(first) | {"name": f"layer{i}", "count": count - i} for i in range(count)]
    data["layers"][2] = document(**UNMAPPED)["layers"][1] | {"name": "layer2"}
    data["layers"][4] |= {"status": "FEASIBLE", "gap": 0.25}
    for i, layer in enumerate(data["layers"]):
        layer["shape"] = layer["shape"] | {"dilation": [i + 1, 1]}
    return data


def test_one_layer_shows_all_there_is(visit: Any) -> None:
    """Six figures, three charts of the network, two of the layer, three maps, six places, two lines of progress."""
    data = document()
    data["layers"] = data["layers"][:1]
    data["layers"][0]["progress"] = [[0.1, None, 5], [0.4, 9, 6], [0.9, 8, 8]]
    points = [{"x": 1, "y": 2}, {"x": 2, "y": 1}]
    data["pareto"] = [{"name": "f", "x": "latency_cycles", "y": "energy_fj", "points": points}]
    seen = visit(data)
    assert seen.count(".card") == 6
    assert seen.count(".bars .barlayer .bars") >= 6
    assert seen.count("#fullness .heatmaplayer image") == 1
    assert seen.count("#layer .thirds .heatmaplayer image") == 3
    assert seen.count("#layer .place") == 6
    assert seen.count("#layer .js-plotly-plot .scatterlayer .trace") == 2
    assert seen.count(".pareto .scatterlayer .trace") == 1
    assert seen.count("#layer .array rect") == 256 + 8


def test_tensors_that_share_a_bank_are_in_one_picture(visit: Any) -> None:
    """One chart with a heat map per tensor, in the tensors' colours; its text tells what is in a cell."""
    seen = visit(shared_bank_document())
    assert seen.count("#layer .thirds .chart") == 1
    assert seen.count("#layer .thirds .swatch") == 3
    assert seen.count("#layer .thirds .heatmaplayer image") == 3
    assert "I, W, O share a bank" in seen.page.locator("#layer .thirds").inner_text()
    assert "What ends last: bank of I, W, O" in seen.page.locator("#layer").inner_text()
    assert "waits for a shared bank" in seen.page.locator("main").inner_text()
    drawn = seen.page.evaluate("activationMap(results[0].details[0].maps[0]).data")
    assert {one["name"]: one["colorscale"][1][1] for one in drawn} == seen.page.evaluate(
        "Object.fromEntries(TENSORS.map(tensor => [tensor, colour(tensor)]))"
    )
    assert drawn[0]["text"][1][1].endswith("rows 1: W 1")


def test_smaller_tensor_is_seen_where_two_share_a_cell(visit: Any) -> None:
    """Bins of 2 rows: the cell holds the last row of I and the one row of W. W is drawn behind I, so on top of it."""
    page = visit(document()).page
    i = "{ tensor: 'I', activations: 3, first_row: 0, end_row: 3, cells: [0, 0, 2, 0, 1, 1] }"
    w = "{ tensor: 'W', activations: 1, first_row: 3, end_row: 4, cells: [0, 1, 1] }"
    drawn = page.evaluate(f"activationMap({{ order_width: 4, row_width: 2, tensors: [{w}, {i}] }}).data")
    assert [one["name"] for one in drawn] == ["I", "W"]
    assert drawn[0]["text"][1][0] == "activations 0–3<br>rows 2–3: I 1, W 1"


def test_names_are_text_wherever_they_are_shown(visit: Any) -> None:
    """A layer named like a tag makes no element."""
    seen = visit(document())
    assert seen.names() == ["a +1"]
    seen.page.get_by_role("button", name="every layer").click()
    assert seen.names() == ["a", "<b>"]
    seen.page.get_by_role("row", name="<b>").click()
    assert seen.page.locator("#layer h2").inner_text().startswith("<b>")
    assert "<b>" in seen.page.locator(".bars").first.inner_text()


def test_heading_sorts_both_ways(visit: Any) -> None:
    """By a number: up, then down; what has none comes last either way."""
    seen = visit(many(12))
    assert seen.names()[0] == "layer0"
    seen.page.get_by_role("button", name="×", exact=True).click()
    assert seen.names()[0] == "layer11"  # of count 1
    seen.page.get_by_role("button", name="×", exact=True).click()
    assert seen.names()[0] == "layer0"  # of count 12
    seen.page.get_by_role("button", name="gap").click()
    assert (seen.names()[-2], seen.names()[-1]) == ("layer4", "layer2")
    seen.page.get_by_role("button", name="gap").click()
    assert (seen.names()[0], seen.names()[-1]) == ("layer4", "layer2")
    assert seen.page.locator("th[aria-sort='descending']").inner_text() == "gap"


def test_words_and_status_filter(visit: Any) -> None:
    """All words must be in the row or its shape; the choice is of a status or of what ends last."""
    seen = visit(many(12))
    search = seen.page.get_by_role("searchbox")
    search.fill("layer1 optimal")
    assert seen.names() == ["layer1", "layer10", "layer11"]
    search.fill("no such")
    assert seen.names() == []
    search.fill("")
    seen.page.get_by_role("combobox").select_option("FEASIBLE")
    assert seen.names() == ["layer4"]
    assert "1 of 12 layers" in seen.page.locator("#layers").inner_text()


def test_row_bar_and_arrow_open_a_layer(visit: Any) -> None:
    """And the address keeps it."""
    seen = visit(many(12))
    title = seen.page.locator("#layer h2")
    assert title.inner_text().startswith("layer0")  # it costs most
    seen.page.get_by_role("row", name="layer7").click()
    assert title.inner_text().startswith("layer7")
    assert seen.page.url.endswith("#layer7")
    seen.page.get_by_role("button", name="next layer").click()
    assert title.inner_text().startswith("layer8")
    seen.page.get_by_role("row", name="layer2").press("Enter")
    assert "No mapping was found" in seen.page.locator("#layer").inner_text()
    seen.page.locator(".bars .barlayer .point path").first.click(force=True)
    assert title.inner_text().startswith("layer0")


def test_hundred_and_fifty_layers_stay_readable(visit: Any) -> None:
    """All are in table and charts, no chart is wider than the page or taller than a screen, text does not collide."""
    seen = visit(many(150), viewport={"width": 1280, "height": 900})
    assert len(seen.names()) == 150
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    heights = seen.page.eval_on_selector_all(".chart", "charts => charts.map(chart => chart.clientHeight)")
    assert max(heights) <= 400
    assert seen.page.locator(".bars").first.locator(".barlayer .point").count() >= 149


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_takes_the_reader_s_theme_and_changes_it(visit: Any, scheme: str) -> None:
    """Ground and charts change together."""
    seen = visit(document(), color_scheme=scheme)
    other = {"light": "dark", "dark": "light"}[scheme]
    ground = "getComputedStyle(document.body).backgroundColor"
    bar = "getComputedStyle(document.querySelector('.bars .barlayer .point path')).fill"
    before = [seen.page.evaluate(ground), seen.page.evaluate(bar)]
    assert seen.page.evaluate("document.documentElement.dataset.theme") == scheme
    seen.page.get_by_role("button", name=other).click()
    seen.page.wait_for_function(f"{bar} !== {before[1]!r}")
    assert seen.page.evaluate(ground) != before[0]


def test_share_makes_every_bar_whole(visit: Any) -> None:
    """The axis ends at 100 %."""
    seen = visit(document())
    seen.page.get_by_role("button", name="share").first.click()
    seen.page.wait_for_function("document.querySelector('.bars .xaxislayer-above').textContent.includes('100%')")


def test_two_results_are_compared(visit: Any) -> None:
    """Layers of the same name side by side; the other result is a click away."""
    other = document()
    other["network"] = "other"
    other["layers"] = other["layers"][:1]
    seen = visit(document(), other)
    assert seen.count("#comparison .scatterlayer .trace") == 2
    assert seen.count("#comparison .scatterlayer .point") == 2
    assert "Δ cycles" in seen.page.locator("thead").inner_text()
    seen.page.get_by_role("button", name="B: 1.json").click()
    assert seen.page.locator("h1").inner_text() == "other on default"
    assert seen.names() == ["a"]


def test_layers_that_are_alike_in_name_only_are_named(visit: Any) -> None:
    """Layers of other widths are compared, but a note names them; none, if all are equal in both."""
    other = document()
    other["layers"][0]["shape"]["input_bytes"] = 2
    widths = "With elements of other widths in the other result: {}."
    assert widths.format("a") in visit(document(), other).page.locator(".note").all_inner_texts()
    other["layers"][1]["shape"]["input_bytes"] = 2
    assert widths.format("all layers") in visit(document(), other).page.locator(".note").all_inner_texts()
    other["layers"][0]["shape"]["stride"] = [2, 1]
    shape = "Of the same name, but of another shape in the other result: a."
    assert shape in visit(document(), other).page.locator(".note").all_inner_texts()
    equal = visit(document(), document()).page.locator(".note").all_inner_texts()
    assert not any("in the other result" in text for text in equal)


def test_ratios_have_lines_only_where_both_minimize_the_same(visit: Any) -> None:
    """Bounds of other objectives say nothing about the ratio, neither in the chart nor in its words."""
    other = document()
    kind = other["objective"]["kind"]
    other["objective"]["kind"] = "latency" if kind == "energy" else "energy"
    for data, lines in ((document(), True), (other, False)):
        seen = visit(document(), data)
        assert (seen.count("#comparison .errorbar") > 0) == lines
        assert ("lines span" in seen.page.locator("#comparison").inner_text()) == lines


def test_two_results_fit_a_laptop(visit: Any) -> None:
    """At 1280 pixels no column of the table is out of sight, though comparing takes two more."""
    seen = visit(many(30), many(30), viewport={"width": 1280, "height": 900})
    assert seen.page.eval_on_selector(".scroll", "place => place.scrollWidth <= place.clientWidth")


def test_axes_have_marks_where_the_points_are(visit: Any) -> None:
    """A result ten times as good as the other, an optimum known from the start, a front of one point."""
    data = document()
    data["layers"] = data["layers"][:1]
    data["layers"][0]["progress"] = [[0.5, 14_000_000, 14_000_000]]
    data["pareto"] = [{"name": "f", "x": "latency_cycles", "y": "energy_fj", "points": [{"x": 9, "y": 14_000_000}]}]
    page = visit(data).page
    better = "[{ name: 'a', index: 0, view: { latency: 1 }, other: { latency: 10 } }]"
    figure = "{ name: 'latency', shade: 'latency', symbol: 'circle', of: l => l.view.latency / l.other.latency }"
    assert 0.1 in page.evaluate(f"ratios({better}, [{figure}]).layout.xaxis.tickvals")
    for place in ("#layer .block >> nth=-1", ".pareto"):
        assert "14" in page.locator(place).locator(".ytick text").all_text_contents()
        assert "nJ" in (page.locator(place).locator(".ytitle").text_content() or "")
    drawn = page.evaluate("paretoFronts(results[0].pareto, 3e6)")  # 9 cycles at 3 MHz
    assert (drawn["layout"]["xaxis"]["title"]["text"], drawn["data"][0]["x"]) == ("latency, µs", [pytest.approx(3)])
    assert "3 µs (9 cycles)" in drawn["data"][0]["text"][0]


def test_third_figure_of_a_front_is_its_colour(visit: Any) -> None:
    """Fronts of two figures share a chart, one of three has its own with a scale and no line."""
    data = document()
    axes = {"x": "latency_cycles", "y": "energy_fj"}
    flat = {"name": "flat", **axes, "points": [{"x": 1, "y": 2}, {"x": 2, "y": 1}]}
    points = [{"x": 1, "y": 2, "z": 9}, {"x": 2, "y": 1, "z": 4, "status": "FEASIBLE"}]
    data["pareto"] = [flat, flat, *({"name": name, **axes, "z": "row_activations", "points": points} for name in "ab")]
    seen = visit(data)
    assert [
        seen.count(f".pareto {part}") for part in (".scatterlayer .trace", ".scatterlayer .js-line", ".colorbar")
    ] == [4, 2, 2]
    assert seen.count(".pareto") == 3
    assert "row activations" in seen.page.locator(".pareto >> nth=1").inner_text()
    shown = seen.page.evaluate("paretoFronts(results[0].pareto.slice(2, 3)).data[0]")
    assert (shown["marker"]["symbol"], shown["marker"]["color"]) == (["circle", "circle-open"], [9, 4])
    assert shown["text"][0].endswith("9 activations")


LEVELS = ["PE", "GLOBAL_BUFFER", "ROW_BUFFER", "DRAM"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_written_on_bars_can_be_read(visit: Any, scheme: str) -> None:
    """At least 3 : 1, as large text needs it, for each colour of the page's charts."""
    page = visit(document(), color_scheme=scheme).page
    shades = ["I", "W", "O", "macs", "idle", "compute", "bus", "buffer", "MAC", *LEVELS, "activation"]
    ratios = page.evaluate(
        "shades => shades.map(shade => Math.exp(contrast(legible(colour(shade)), colour(shade))))", shades
    )
    assert min(ratios) >= 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shares_can_be_read_on_every_shade(visit: Any, scheme: str) -> None:
    """Between an empty and a full cell the luminance only rises or falls, so 4.5 : 1 at both ends is enough."""
    page = visit(document(), color_scheme=scheme).page
    (cells,) = page.evaluate("fullness(shownLayers(results[0])).data")
    assert (cells["texttemplate"], cells["textfont"]) == ("%{z:.2~p}", {"color": page.evaluate("colour('ink')")})
    for _, shade in cells["colorscale"]:
        assert page.evaluate(f"Math.exp(contrast(colour('ink'), '{shade}'))") >= 4.5


def test_result_without_layers_says_so(visit: Any) -> None:
    """Interrupted before the first: a note and an empty table."""
    data = document() | {"layers": []}
    data["totals"] |= {"interrupted": True, "layers": 0, "mapped": 0, "macs": 0}
    page = visit(data, is_empty=True).page
    assert "interrupted" in page.locator(".note").inner_text()
    assert "0 layers" in page.locator("#layers").inner_text()


def test_phone_has_no_sideways_scroll(visit: Any) -> None:
    """At 400 pixels everything wraps but the table, which scrolls by itself."""
    seen = visit(document(), viewport={"width": 400, "height": 800})
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
