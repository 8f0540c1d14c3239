"""The certificate's sample is honest, and its summary counts each layer once."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from cpsat_pim.study.sweep.plan import Plan


@pytest.fixture
def certify(script: Callable[[str], ModuleType]) -> ModuleType:
    """The script."""
    return script("certify")


def keys(plan: Plan) -> set[str]:
    """The jobs of a plan."""
    return {use.job.key for use in plan.uses()}


def test_sample_is_drawn_from_the_whole_by_the_seed(certify: ModuleType) -> None:
    """As many as asked for; a longer sample has a shorter one in it; another seed, others."""
    plan = certify.read_plan(certify.PLAN)
    few, more, others = (keys(certify.sampled(plan, *asked)) for asked in ((20, 1), (50, 1), (50, 2)))
    assert (len(few), len(more)) == (20, 50)
    assert few < more < keys(plan)
    assert others != more
    assert {point.arch.name for point in certify.sampled(plan, 50, 1).points} == {
        "default",
        "tiny-buffers",
        "wide-array",
        "many-banks",
    }


def test_plan_has_all_networks_objectives_and_machines(certify: ModuleType) -> None:
    """Eight, three, four; a minute a layer."""
    points = certify.read_plan(certify.PLAN).points
    assert len(points) == 8 * 3 * 4
    assert len({(p.network.name, p.objective.kind, p.arch.name) for p in points}) == len(points)
    assert {point.options.time_limit for point in points} == {60}


def row(key: str, network: str, **told: Any) -> dict[str, Any]:
    """A layer as the store tells it."""
    solved = {"state": "done", "status": "OPTIMAL", "gap": 0.0, "cpu": 1.0, "off": 0.0, "peak": 200.0}
    where = {"key": key, "network": network, "objective": "energy", "arch": "default", "failure": None}
    where["layer"] = f"layer {key}"
    return where | solved | told


def test_summary_counts_each_layer_once(certify: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """In each network that has it, and once in all; gaps are those of what is not proven."""
    rows = [row("a", "one"), row("b", "one", status="FEASIBLE", gap=0.004, cpu=3.0, off=0.01), row("a", "two")]
    failed = [
        row(name, "two", state="failed", status=None, failure=why) for name, why in (("c", "error"), ("d", "unfit"))
    ]
    certify.print_summary([*rows, *failed])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["one", "energy", "default", "2", "1", "0.400", "2.0", "3.0", "3.0", "200", "1.000"]
    assert lines[2].split() == ["two", "energy", "default", "3", "1", "1.0", "1.0", "1.0", "200", "0.000"]
    assert lines[-5].split() == ["one", "energy", "default", "layer", "b", "FEASIBLE", "gap", "0.400", "%"]
    assert lines[-3].split() == ["all", "4", "1", "0.400", "2.0", "3.0", "3.0", "200", "1.000"]
    assert lines[-2].startswith("proven 1 of 2 solved layers (50.00 %), 1 of them in at most 60 s of the CPU; ")
    assert lines[-2].endswith("; 1 failed, 1 fit no node, 0 open")


def test_mapping_below_a_bound_of_another_version_is_told(
    certify: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has the bound; one that is only higher says nothing, nor does one of another blend."""

    def result(
        shape: str, cost: float | None, bound: float | None, status: str = "FEASIBLE", asked: str = "energy"
    ) -> dict[str, Any]:
        told = {"status": status, "objective_value": cost, "bound": bound}
        return row(shape, "one", shape=shape, machine="m", asked=asked, **told)

    here = [result("a", 10, 10), result("b", 7, 6), result("n", None, None, "INFEASIBLE"), result("c", 5.0, 5.0)]
    here += [result("d", None, 4, "UNKNOWN"), result("m", None, None, "INFEASIBLE")]
    others = [result("a", 9, 8), result("b", 9, 8), result("n", 3, 1), result("c", 5.0, 5.000000000000001)]
    others += [result("d", None, 3, "UNKNOWN"), result("m", None, None, "INFEASIBLE"), result("e", 1, 1)]
    others += [result("a", 1, 1, asked="a blend")]
    assert certify.has_contradictions(here, others)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == [f"one layer {x}, energy, default" for x in "abn"]
    assert lines[-1] == "6 results compared, 3 contradict each other"
    assert not certify.has_contradictions(here, others[3:])
