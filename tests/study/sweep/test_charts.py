"""The charts and the page of a sweep, from rows made by hand."""

import re
from pathlib import Path
from typing import Any

import pytest

from cpsat_pim.cli import main
from cpsat_pim.report.figures import inline_svg
from cpsat_pim.study.sweep.charts import setting_text, sweep_charts
from cpsat_pim.study.sweep.page import clock_note, render_sweep


def row(**changes: Any) -> dict[str, Any]:
    """Return a row of a network of two layers, proven, at 1 GHz."""
    cycles = changes.get("latency_cycles", 1000)
    clock = changes.get("clock_hz", 10**9)
    base = {
        "plan": "p", "point": 0, "network": "n", "arch": "default", "objective": "energy", "alpha": 0, "beta": 1,
        "time_limit": 60.0, "seed": 0, "layers": 2, "mapped": 2, "proven": 2, "infeasible": 0, "unknown": 0,
        "latency_cycles": cycles, "energy_fj": 5_000_000, "activations": 3, "worst_gap": 0.0, "macs": 100,
        "clock_hz": clock, "latency_s": cycles / clock if clock and cycles else None, "energy_j": 5e-9,
        "static_energy_j": 0.0, "power_w": 0.005, "tops": 0.0002, "tops_per_w": 0.04, "runs_per_second": 1e6,
    }  # fmt: skip
    return base | changes


ROWS = [
    row(),
    row(point=1, arch="other", latency_cycles=500, energy_fj=10_000_000, proven=1),
    row(point=2, network="m", latency_cycles=2000),
    row(point=3, network="m", arch="other", latency_cycles=None, energy_fj=None, mapped=0, proven=0, unknown=2),
]


def test_bars_are_side_by_side_by_machine() -> None:
    """A bar per machine in each network; a point without mappings has none, one without all proofs is pale."""
    charts = {chart.name: chart for chart in sweep_charts(ROWS)}
    latency = charts["p-energy-latency"]
    assert latency.categories == ("n, 2 layers", "m, 2 layers")
    assert latency.axis == "latency, us"
    assert [(series.name, series.values) for series in latency.series] == [
        ("default", (pytest.approx(1), pytest.approx(2))),
        ("other", (pytest.approx(0.5), None)),
    ]
    assert latency.open_marks == {("other", 0), ("other", 1)}
    assert charts["p-energy-energy"].axis == "energy, nJ"
    assert charts["p-energy-latency-relative"].kind == "heat"


def test_front_has_the_points_of_one_network() -> None:
    """Latency, then energy, of each; one without all proofs is open. A network of one point has no front."""
    charts = {chart.name: chart for chart in sweep_charts(ROWS)}
    front = charts["p-n-2-front"]
    assert [(series.name, series.values) for series in front.series] == [
        ("default", (pytest.approx(1), 5)),
        ("other", (pytest.approx(0.5), 10)),
    ]
    assert front.open_marks == {("other", 0)}
    assert front.title.endswith("(open: not proven)")
    assert not any("-m-" in name for name in charts)


def test_points_of_other_layers_are_not_compared() -> None:
    """One layer of a network beside two of it: bars of their own, and no front of one point each."""
    charts = {chart.name: chart for chart in sweep_charts([row(), row(point=1, arch="other", layers=1, proven=1)])}
    assert charts["p-energy-energy"].categories == ("n, 2 layers", "n, 1 layer")
    assert not any(name.endswith("front") for name in charts)


def test_chosen_layers_belong_to_the_network() -> None:
    """A whole network beside two layers of another one, on two machines: two series, and a bar of each in both."""
    whole = [row(point=i, arch=arch, only_layers=None) for i, arch in enumerate(("default", "other"))]
    chosen = [row(network="m", only_layers="a,c", point=2), row(network="m", only_layers="a,c", point=3, arch="other")]
    bars, *_ = sweep_charts([*whole, *chosen])
    assert bars.categories == ("n, 2 layers", "m: a,c")
    assert [(series.name, None in series.values) for series in bars.series] == [("default", False), ("other", False)]


def test_other_layers_of_one_network_are_another_network() -> None:
    """As many, but other ones: a front of each, in a file of its own."""
    rows = [
        row(point=2 * i + j, only_layers=layers, arch=arch)
        for i, layers in enumerate(("a,b", "a,c"))
        for j, arch in enumerate(("default", "other"))
    ]
    charts = sweep_charts(rows)
    fronts = [chart for chart in charts if chart.kind == "front"]
    assert [chart.title for chart in fronts] == [
        f"n: {names}: latency and energy of each point" for names in ("a,b", "a,c")
    ]
    assert [len(chart.series) for chart in fronts] == [2, 2]
    assert len({chart.name for chart in charts}) == len(charts)


def test_a_long_choice_of_layers_is_cut() -> None:
    """Its name stands beside the axis."""
    names = ",".join(f"features.{i}.conv" for i in range(20))
    (bars, *_) = sweep_charts([row(only_layers=names, layers=20)])
    (text,) = bars.categories
    assert text.startswith("n: features.0.conv,features.1.conv,")
    assert text.endswith("... (20 layers)")
    assert len(text) < 70


def test_unproven_point_is_drawn_open() -> None:
    """Of two points one has no face; the legend's marks are filled."""
    front = next(chart for chart in sweep_charts(ROWS) if chart.name == "p-n-2-front")
    assert len(re.findall(r"<use [^>]*fill(?:-opacity: 0|: none); stroke: var\(--", inline_svg(front))) == 1


def test_cycles_are_shown_if_no_machine_has_a_clock() -> None:
    """Their lengths may be taken as equal."""
    rows = [row(clock_hz=None), row(point=1, arch="clockless", clock_hz=None)]
    latency = next(chart for chart in sweep_charts(rows) if chart.name == "p-energy-latency")
    assert latency.axis == "latency, cycles"
    assert [series.values for series in latency.series] == [(1000,), (1000,)]


def test_latencies_are_not_compared_if_only_some_machines_have_a_clock() -> None:
    """Neither seconds with cycles nor cycles of different lengths; energies are, and a sentence names the machine."""
    rows = [row(), row(point=1, arch="clockless", clock_hz=None)]
    names = {chart.name for chart in sweep_charts(rows)}
    assert names == {"p-energy-energy", "p-energy-energy-relative"}
    assert clock_note(rows) == "latencies are not compared: no clock is stated for clockless, but for others"
    assert clock_note(ROWS) == ""


def test_setting_names_what_the_machine_s_name_does_not() -> None:
    """A changed field is part of the name already."""
    assert setting_text(row()) == "default"
    changed = {"arch": "default (page_policy=closed)", "arch.page_policy": "closed", "padding": 0.25}
    assert setting_text(row(**changed)) == "default (page_policy=closed), padding 0.25"


def test_points_that_differ_in_an_option_alone_are_beside_each_other() -> None:
    """Three time limits of one machine and network: three series, three rows of the table."""
    rows = [row(point=i, time_limit=limit, latency_cycles=1000 - i) for i, limit in enumerate((5.0, 20.0, 60.0))]
    bars, *_ = sweep_charts(rows)
    assert [series.name for series in bars.series] == [f"default, time_limit {n}" for n in ("5.0", "20.0", "60.0")]
    pytest.importorskip("matplotlib", reason="the plotting library of the charts is not installed")
    assert render_sweep(rows).count("time_limit 20.0</td>") == 1


def test_weights_of_different_objectives_are_no_settings() -> None:
    """Latency has alpha 1 and beta 0, energy the other way round, in every sweep."""
    (bars, *_) = sweep_charts([row(), row(point=1, objective="latency", alpha=1, beta=0)])
    assert [series.name for series in bars.series] == ["default"]


def test_page_tells_what_has_no_mapping(tmp_path: Path) -> None:
    """Not found in time is no proof; names are text."""
    pytest.importorskip("matplotlib", reason="the plotting library of the charts is not installed")
    page = render_sweep([*ROWS, row(point=4, network="<b>", infeasible=1, mapped=1, proven=1)])
    assert "2 not found in time" in page
    assert "1 proven to have none" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "data:" not in page  # no picture that the page's policy would forbid


def test_target_of_another_kind_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Before the store is read."""
    assert main(["sweep", "report", str(tmp_path / "none.sqlite"), "-o", "x.png"]) == 2
    assert "x.png: must end in .html, .pdf or /" in capsys.readouterr().err


def test_setting_does_not_repeat_what_the_network_s_name_tells() -> None:
    """A parameter of the network is in its name: points of one machine have one series."""
    base = {"plan": "p", "network": "net (batch=4)", "arch": "chip", "objective": "energy"}
    assert setting_text(base | {"network.batch": 4, "padding": 0.25}) == "chip, padding 0.25"


@pytest.mark.parametrize("names", [["a", "b"], ["x" * 40] * 4, ["x" * 60] * 3])
def test_long_names_do_not_leave_the_picture(names: list[str]) -> None:
    """Every text begins within the picture, however long the legend's entries are."""
    rows = [row(point=i, arch=f"{name}{i}") for i, name in enumerate(names)]
    for chart in sweep_charts(rows):
        placed = re.findall(r'text-anchor: start[^>]* x="(-?[0-9.]+)"', inline_svg(chart))
        assert placed
        assert all(float(x) >= 0 for x in placed)
