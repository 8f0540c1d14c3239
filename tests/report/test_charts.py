"""Charts for papers: what they show, and files that other programs read."""

import copy
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from cpsat_pim.report.charts import _ENERGIES, _TIMES, energy_unit, result_charts
from cpsat_pim.report.figures import COLOURS, Chart, Series, _drawn, inline_svg, write_pdf, write_svgs
from tests.report.results import document, shared_bank_document

PAGE_CSS = Path(__file__).parents[2] / "cpsat_pim" / "report" / "page" / "page.css"


def charts(*documents: dict[str, Any]) -> dict[str, Any]:
    """Return the charts by name."""
    return {chart.name: chart for chart in result_charts([(f"{i}.json", data) for i, data in enumerate(documents)])}


def test_bars_add_up_to_the_totals() -> None:
    """Both layers are one bar: four runs."""
    data = document()
    found = charts(data)
    assert [*found] == ["time", "energy"]
    assert found["time"].categories == ("a +1",)
    assert (
        sum(series.values[0] for series in found["time"].series) == 4 * data["layers"][0]["predicted"]["latency_cycles"]
    )
    energy = 4 * data["layers"][0]["predicted"]["energy_fj"]
    unit, size = energy_unit(energy)
    assert found["energy"].axis.endswith(unit)
    assert sum(series.values[0] for series in found["energy"].series) * size == pytest.approx(energy)


def test_wait_for_a_bank_that_tensors_share_is_not_for_a_buffer() -> None:
    """The only layer waits for the bank of all three tensors: no other resource ends as late."""
    names = {series.name for series in charts(shared_bank_document())["time"].series}
    assert "waits for a shared bank" in names
    assert "waits for buffers" not in names


def test_two_results_are_compared_over_common_layers_in_seconds() -> None:
    """The other machine has half the clock: twice the time. A layer of one result only is left out."""
    one, other = document(), document()
    one["arch"]["clock"], other["arch"]["clock"] = 2_000_000, 1_000_000
    other["layers"] = other["layers"][:1]
    other["layers"][0] |= {"status": "FEASIBLE", "gap": 0.5}
    latency = charts(one, other)["compared-latency"]
    (a,), (b,) = (series.values for series in latency.series)
    assert b == pytest.approx(2 * a)
    assert latency.open_marks == {(latency.series[1].name, 0)}


def test_latencies_are_not_compared_if_one_clock_is_unknown() -> None:
    """Cycles of one machine and seconds of another are no ratio."""
    one, other = document(), document()
    one["arch"]["clock"] = 2_000_000
    found = charts(one, other)
    assert "compared-energy" in found
    assert "compared-latency" not in found


def test_fronts_are_drawn_in_the_units_of_the_machine() -> None:
    """2,000 and 4,000 cycles at 2 MHz are 1 and 2 ms; 5 nJ and 3 nJ; a front in a third figure is not drawn."""
    data = document()
    data["arch"]["clock"] = 2_000_000
    axes = {"x": "latency_cycles", "y": "energy_fj"}
    points = [{"x": 2000, "y": 5_000_000}, {"x": 4000, "y": 3_000_000, "status": "FEASIBLE"}]
    solid = {"name": "s", **axes, "z": "row_activations", "points": [points[0] | {"z": 1}]}
    data["pareto"] = [{"name": "f", **axes, "points": points}, solid]
    front = charts(data)["fronts"]
    assert (front.x_axis, front.axis) == ("latency, ms", "energy, nJ")
    assert [(one.name, one.values) for one in front.series] == [("f", (1, 5, 2, 3))]
    assert front.open_marks == {("f", 1)}
    del data["arch"]["clock"]
    assert charts(data)["fronts"].x_axis == "latency, cycles"
    data["pareto"] = [solid]
    assert "fronts" not in charts(data)


def test_charts_of_two_results_have_the_same_axes() -> None:
    """The other machine has half the clock, so its bars are twice as long, and both axes reach as far as these."""
    one, other = document(), document()
    one["arch"]["clock"], other["arch"]["clock"] = 2_000_000, 1_000_000
    found = charts(one, other)
    a, b = found["time-a"], found["time-b"]
    assert a.axis == b.axis
    assert a.end == b.end == pytest.approx(sum(series.values[0] for series in b.series))
    assert a.end == pytest.approx(2 * sum(series.values[0] for series in a.series))
    assert found["energy-a"].end == found["energy-b"].end
    other["arch"]["clock"] = 10_000  # 200 times as long
    found = charts(one, other)
    assert found["time-a"].end == pytest.approx(sum(series.values[0] for series in found["time-a"].series))


def test_gap_of_the_objective_is_a_line_from_its_bound() -> None:
    """Half of the energy may be saved; nothing is known of the least latency."""
    one, other = document(), document()
    other["layers"] = other["layers"][:1]
    other["layers"][0] |= {"status": "FEASIBLE", "gap": 0.5}
    found = charts(one, other)
    a, b = found["compared-energy"].series
    assert a.bounds == a.values
    assert b.bounds == (b.values[0] / 2,)
    assert [series.bounds for series in found["compared-latency"].series] == [(), ()]


def test_parts_of_a_bar_have_different_colours() -> None:
    """Of the parts of the time each has its own, and so have those of the energy."""
    for parts in (_TIMES, _ENERGIES):
        assert len({COLOURS[colour] for _, _, colour in parts}) == len(parts)


def test_bars_that_could_not_be_seen_are_logarithmic() -> None:
    """1 beside 1,000 has no visible length on a linear axis; 1 beside 50 has one."""
    pytest.importorskip("matplotlib", reason="the plotting library of the charts is not installed")
    for most, scale in ((50.0, "linear"), (1000.0, "log")):
        series = (Series("a", COLOURS["accent"], (1.0, None)), Series("b", COLOURS["W"], (most, most)))
        chart = Chart(name="g", title="g", kind="grouped", axis="s", categories=("n", "m"), series=series)
        assert _drawn(chart).axes[0].get_xscale() == scale


def test_colours_are_those_of_the_pages() -> None:
    """One colour for a component everywhere."""
    light = PAGE_CSS.read_text().partition("}")[0]
    page = dict(re.findall(r"--([\w]+): (#[0-9a-f]{6})", light))
    assert {name: page[name] for name in COLOURS} == COLOURS


def test_files_are_svg_and_pdf(tmp_path: Path) -> None:
    """A page per chart, a file per chart; the same charts give the same bytes."""
    pytest.importorskip("matplotlib", reason="the plotting library of the charts is not installed")
    data = copy.deepcopy(document())
    data["layers"][0]["name"] = "cost $x_1$ <b>"
    found = list(charts(data).values())
    write_pdf(found, tmp_path / "charts.pdf")
    assert (tmp_path / "charts.pdf").read_bytes().startswith(b"%PDF")
    paths = write_svgs(found, tmp_path / "figures")
    assert [path.name for path in paths] == ["time.svg", "energy.svg"]
    texts = [path.read_text() for path in paths]
    assert all("cost $x_1$ &lt;b&gt;" in text for text in texts)
    write_svgs(found, tmp_path / "figures")
    assert [path.read_text() for path in paths] == texts
    inline = inline_svg(found[0])
    assert inline.startswith("<svg")
    assert "var(--macs)" in inline


def test_a_page_of_a_pdf_is_drawn_as_an_svg_file_is(tmp_path: Path) -> None:
    """In letters of the same size, which stay text (fonts of type 42, not outlines of type 3)."""
    pytest.importorskip("matplotlib", reason="the plotting library of the charts is not installed")
    time, _ = charts(document()).values()
    write_pdf([time], tmp_path / "charts.pdf")
    page = (tmp_path / "charts.pdf").read_bytes()
    assert b"/Subtype /Type3" not in page
    assert b"/CIDFontType2" in page
    (svg,) = write_svgs([time], tmp_path)
    drawn = b"".join(
        zlib.decompress(part) for part in re.findall(rb"FlateDecode.*?stream\r?\n(.*?)\r?\nendstream", page, re.S)
    )
    sizes_pdf = {float(size) for size in re.findall(rb"/F\d+ ([\d.]+) Tf", drawn)}
    sizes_svg = {float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg.read_text())}
    assert sizes_pdf == sizes_svg


def test_ratios_that_are_nearly_one_look_alike() -> None:
    """A heat map of ratios begins at 1 and reaches at least 1.1, however close the figures are."""
    pytest.importorskip("matplotlib", reason="the plotting library of the charts is not installed")
    series = [Series(name, COLOURS["accent"], values) for name, values in (("a", (1.0, 5.0)), ("b", (1.001, 5.0)))]
    chart = Chart(name="h", title="h", kind="heat", axis="ratio", categories=("n", "m"), series=tuple(series))
    (mesh,) = _drawn(chart).axes[0].collections
    assert mesh.get_clim() == (1, 1.1)


def test_one_large_ratio_does_not_hide_the_others() -> None:
    """Where a machine is 1,183 times slower, another one that is 7 times slower does not have the shade of the best."""
    pytest.importorskip("matplotlib", reason="the plotting library of the charts is not installed")
    series = tuple(Series(name, COLOURS["accent"], (value,)) for name, value in (("a", 1.0), ("b", 1183.0), ("c", 7.0)))
    (axes, _) = _drawn(Chart(name="h", title="h", kind="heat", axis="ratio", categories=("n",), series=series)).axes
    (mesh,) = axes.collections
    assert mesh.norm(7) > 0.25
    assert [text.get_text() for text in axes.texts] == ["1", "1,183", "7"]


def test_gaps_between_cells_follow_the_theme() -> None:
    """Also around a cell without a figure: white lines would be a frame on the dark page."""
    pytest.importorskip("matplotlib", reason="the plotting library of the charts is not installed")
    series = (Series("a", COLOURS["accent"], (1.0, None)), Series("b", COLOURS["accent"], (2.0, 1.0)))
    text = inline_svg(Chart(name="h", title="h", kind="heat", axis="ratio", categories=("n", "m"), series=series))
    (mesh,) = re.findall(r'<g id="QuadMesh_1">.*?</g>', text, re.DOTALL)
    assert set(re.findall(r"stroke: ([^;\"]+)", mesh)) == {"var(--grid)"}


def test_ratios_are_legible_on_every_shade() -> None:
    """White stands out more where Y of sRGB is below 0.179: there 1.05 / (Y + 0.05) is more than (Y + 0.05) / 0.05."""
    pytest.importorskip("matplotlib", reason="the plotting library of the charts is not installed")
    series = tuple(Series(str(n), COLOURS["accent"], (n / 10,)) for n in range(10, 101))
    (axes, _) = _drawn(Chart(name="h", title="h", kind="heat", axis="ratio", categories=("n",), series=series)).axes
    (mesh,) = axes.collections
    for text in axes.texts:
        red, green, blue, _ = mesh.to_rgba(float(text.get_text()))
        light = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2  # the curve of sRGB is nearly a power
        if abs(light - 0.179) > 0.01:
            assert text.get_color() == ("white" if light < 0.179 else "black")


def test_few_names_lie_under_a_heat_map() -> None:
    """One name of a network needs no turn; sixteen long ones do."""
    pytest.importorskip("matplotlib", reason="the plotting library of the charts is not installed")
    for names, turn in ((("mobilenetv2",), 0), (tuple(f"network{i}" for i in range(16)), 30)):
        series = (Series("a", COLOURS["accent"], (1.0,) * len(names)),)
        (axes, _) = _drawn(Chart(name="h", title="h", kind="heat", axis="r", categories=names, series=series)).axes
        assert {label.get_rotation() for label in axes.get_xticklabels()} == {turn}


def test_names_with_control_characters_are_drawn_as_escapes(tmp_path: Path) -> None:
    """A name such as `a<ESC>[31m` is no mistake, and the font has no glyph for its escape character."""
    data = document()
    for layer in data["layers"]:
        layer["name"] = f"\x1b[31m${layer['name']}$"
    [path, _] = write_svgs(result_charts([("r.json", data)]), tmp_path)
    assert "\\x1b[31m$a$" in path.read_text()
