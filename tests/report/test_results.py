"""The table of results: equal layers in one row, several tables on narrow terminals, times with a clock."""

import io
import math
from typing import Any

import pytest
from attrs import evolve
from rich.console import Console

from cpsat_pim.mapper.result import NetworkLayer, SolvedNetwork, Status
from cpsat_pim.report.results import group_equal, print_results
from cpsat_pim.report.text import open_console
from tests.report.results import ARCH, UNMAPPED, solved_layer, solved_network


def printed(network: SolvedNetwork, width: int | None = None, **options: Any) -> str:
    """Return what is printed, on a terminal of a width or into a file."""
    stream = io.StringIO()
    console = open_console(stream)
    if width is not None:
        console = Console(file=stream, width=width, force_terminal=True, color_system=None, highlight=False)
    print_results(console, network, **options)
    return stream.getvalue()


def with_clock(network: SolvedNetwork, **machine: Any) -> SolvedNetwork:
    """Return the network on the same machine with other figures."""
    arch = evolve(ARCH, **machine)
    layers = [evolve(layer, solved=evolve(layer.solved, arch=arch)) for layer in network.layers]
    return evolve(network, arch=arch, layers=tuple(layers))


def test_equal_layers_are_one_row_with_the_sum_of_counts() -> None:
    """`a` runs once and `<b>` three times; a layer without a mapping is another row."""
    groups = group_equal(solved_network().layers)
    assert [(layer.name, layer.count) for layer in groups] == [("a +1", 4)]
    groups = group_equal(solved_network(**UNMAPPED).layers)
    assert [(layer.name, layer.count) for layer in groups] == [("a", 1), ("<b>", 3)]
    text = printed(solved_network())
    assert "a +1" in text
    assert "'conv1 +2' stands for conv1 and 2 others" in text
    assert "<b>" in printed(solved_network(), every_layer=True)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_cell_is_broken_on_a_terminal(width: int) -> None:
    """Every line of the tables fits, every table has the layers' names, and no column is lost."""
    network = with_clock(solved_network(**UNMAPPED), clock=500_000_000)
    text = printed(network, width)
    table, _, _ = text.partition("pair on")
    lines = [line.rstrip() for line in table.splitlines()]
    assert max(map(len, lines)) <= width
    headings = [line for line in lines if line.lstrip().startswith("layer")]
    assert len(headings) == {80: 3, 120: 2, 200: 1}[width]
    assert sum(line.lstrip().startswith("<b>") for line in lines) == len(headings)
    every = " ".join(headings)
    for column in ("cycles", "time", "energy", "power", "throughput", "util. steps", "util. latency", "status", "gap"):
        assert every.count(column) >= 1


def test_long_name_is_shortened_in_the_middle() -> None:
    """Its beginning and its end are what distinguishes it."""
    layer = NetworkLayer(name="x" * 40 + "tail", count=1, after=(), solved=solved_layer())
    text = printed(evolve(solved_network(), layers=(layer,)), 80)
    assert f"{'x' * 15}..{'x' * 11}tail" in text


def test_control_characters_of_a_name_do_not_reach_the_terminal() -> None:
    """An escape sequence is shown as what it is."""
    layer = NetworkLayer(name="\x1b[31mred", count=1, after=(), solved=solved_layer())
    text = printed(evolve(solved_network(), layers=(layer,), network="n\x07"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert r"\x1b[31mred" in text
    assert r"n\x07 on default" in text


def test_times_need_a_clock() -> None:
    """The default machine has none: cycles only."""
    without, with_one = printed(solved_network()), printed(with_clock(solved_network(), clock=500_000_000))
    assert "throughput" not in without
    assert "runs/s" not in without
    assert "throughput" in with_one
    assert "At 500.0 MHz on the machine" in with_one
    assert "without static power" in with_one


def test_machine_of_many_nodes_and_static_power_are_told() -> None:
    """All figures are of one node."""
    network = with_clock(solved_network(), clock=500_000_000, vault_count=4, pu_count=8, static_power=0.25)
    text = printed(network)
    assert "on one of 32 nodes of default" in text
    assert "At 500.0 MHz on one of 32 nodes" in text
    assert "with 250.0 mW of static power" in text
    performance = network.performance
    assert performance is not None
    # Both layers are 192 MACs; 1 + 3 runs of latency cycles at 2 ns.
    cycles = 4 * solved_layer().latency
    assert performance.seconds == pytest.approx(cycles * 2e-9)
    assert performance.tops == pytest.approx(2 * 4 * 192 / (cycles * 2e-9) / 1e12)
    dynamic = 4 * solved_layer().predicted.energy_fj * 1e-15
    assert performance.power_w == pytest.approx(dynamic / (cycles * 2e-9) + 0.25)


def test_utilisation_over_steps_and_over_the_latency() -> None:
    """192 MACs in 12 steps of 1024 lanes; the latency is longer than the steps."""
    solved = solved_layer()
    assert solved.pe_utilization == 192 / 12 / 1024
    assert solved.latency_utilization == 192 / solved.latency / 1024
    assert solved.latency > 12


def test_status_total_counts_every_layer() -> None:
    """Two layers in one row are two proven ones."""
    assert "2/2" in printed(solved_network())
    assert "1/2" in printed(solved_network(status=Status.FEASIBLE, bound=1))


def test_totals_say_what_they_leave_out() -> None:
    """Half of a network cannot be run so often a second."""
    network = with_clock(solved_network(**UNMAPPED), clock=500_000_000)
    assert "The totals leave out what has no mapping: <b>." in printed(network)
    assert "runs/s" not in printed(network)
    whole = printed(with_clock(solved_network(), clock=500_000_000))
    assert "leave out" not in whole
    assert "runs/s" in whole


def test_runs_per_second_are_a_plain_number() -> None:
    """Four runs of the latency at 2 ns a cycle are more than 10,000 a second: four digits, and no exponent."""
    runs = 500_000_000 / (4 * solved_layer().latency)
    assert runs > 1e4
    digits = 3 - int(math.log10(runs))
    assert f"{round(runs, digits):,.0f} runs/s" in printed(with_clock(solved_network(), clock=500_000_000))


def test_small_deviation_is_not_shown_as_zero() -> None:
    """One cycle in 100,000 is less than 0.01 %, and not 0."""
    solved = solved_layer()
    predicted = evolve(solved.predicted, latency_cycles=100_000)
    prediction = evolve(solved.prediction, figures=predicted)
    simulated = evolve(predicted, latency_cycles=99_999)
    layer = NetworkLayer(name="x", count=1, after=(), solved=solved_layer(prediction=prediction, simulated=simulated))
    text = printed(evolve(solved_network(), layers=(layer,)))
    assert "<0.01%" in text
    assert "-0.00%" not in text
