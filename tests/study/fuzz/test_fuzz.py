"""`fuzz` finds a planted fault, makes it small, writes what replays, and leaves no option undrawn."""

import json
import signal
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import cpsat_pim.study.fuzz.campaign
import cpsat_pim.study.fuzz.compare
from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Level
from cpsat_pim.cli import main
from cpsat_pim.evaluate.cost import Prediction, predict
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapping import ONE_BANK, BankCounts, Mapping
from cpsat_pim.study.fuzz.campaign import Discovery, compare_round, run_campaign
from cpsat_pim.study.fuzz.compare import Case, Finding, Limits, check_bound, check_optimum, compare, few_mappings, solve
from cpsat_pim.study.fuzz.draw import Drawer
from cpsat_pim.study.fuzz.reproducer import read_case, write_discovery
from cpsat_pim.study.fuzz.shrink import PLAIN, shrink
from cpsat_pim.workload import ConvWorkload

ENERGY = Objective.named("energy")


def wrong_from_three(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> Prediction:
    """A prediction that counts a femtojoule too much when C loops three times or more at the DRAM."""
    prediction = predict(layer, arch, mapping)
    if mapping.temporal[Level.DRAM][Dim.C] < 3:
        return prediction
    return attrs.evolve(
        prediction, figures=attrs.evolve(prediction.figures, energy_fj=prediction.figures.energy_fj + 1)
    )


# --- What is drawn ---------------------------------------------------------------------------------------------------


def test_rounds_depend_on_the_seed_only() -> None:
    """And differ from each other."""
    one, again, other = ([case for _, case, _ in zip_first(compare_round(seed, 0, Limits()), 12)] for seed in (1, 1, 2))
    assert one == again
    assert one != other


def zip_first(made: Any, count: int) -> list[Any]:
    """The first so many."""
    return [item for _, item in zip(range(count), made, strict=False)]


# --- What is compared ------------------------------------------------------------------------------------------------


def test_parties_agree_on_a_tiny_layer() -> None:
    """By every comparison."""
    case = Case(layer=ConvWorkload(C=2, K=2), arch=PLAIN, objective=ENERGY)
    solved = solve(case, Limits())
    mapped = attrs.evolve(case, mapping=solved.mapping)
    assert [compare(name, mapped, Limits()) for name in ("trace", "answer", "bound")] == [None] * 3
    assert solved.mapping is not None
    assert check_optimum(case, solved, [solved.mapping]) is None


def test_pinned_parts_hold_the_solver_and_are_read_back(tmp_path: Path) -> None:
    """A mapping with K outside C at the DRAM: pinned to its order, the solver finds none with C outside K."""
    layer = ConvWorkload(C=2, K=2)
    everywhere = Case(layer=layer, arch=PLAIN, objective=ENERGY)
    mapping = Mapping(
        temporal=((1,) * 8,) * 3 + (layer.bounds,),
        spatial=((1,) * 8,) * 3,
        order=((), (), (), (Dim.K, Dim.C)),
        stored=((False,) * 3,) * 3,
    )
    case = attrs.evolve(everywhere, mapping=mapping, pinned=("temporal", "order", "stored"))
    found = solve(case, Limits()).mapping
    assert found is not None
    assert (found.temporal, found.order, found.stored) == (mapping.temporal, mapping.order, mapping.stored)
    assert compare("pinned", case, Limits()) is None
    above = Finding(lines=("x",), witness=mapping)
    write_discovery(Discovery(comparison="pinned", round=0, case=case, finding=above), tmp_path / "found.json")
    assert read_case(tmp_path / "found.json") == ("pinned", case)


@pytest.mark.parametrize("counts", [None, (1, 2, 1), ONE_BANK])
def test_bank_counts_are_read_back(tmp_path: Path, counts: BankCounts | None) -> None:
    """A replay asks the same question."""
    case = Case(layer=ConvWorkload(C=2), arch=attrs.evolve(PLAIN, node_banks=4), objective=ENERGY, bank_counts=counts)
    found = Finding(lines=("x",), witness=None)
    write_discovery(Discovery(comparison="enumeration", round=0, case=case, finding=found), tmp_path / "found.json")
    assert read_case(tmp_path / "found.json") == ("enumeration", case)


def test_chosen_bank_counts_are_shrunk_to_one_bank() -> None:
    """Unless the disagreement needs them."""
    arch = attrs.evolve(PLAIN, node_banks=4)
    case = Case(layer=ConvWorkload(C=2), arch=arch, objective=ENERGY, bank_counts=None)
    wrong = Finding(lines=["wrong"], witness=None)

    def needs_a_choice(case: Case) -> Finding | None:
        return wrong if case.bank_counts is None and case.arch.node_banks else None

    assert shrink(case, wrong, needs_a_choice, lambda: False)[0].bank_counts is None
    free = shrink(case, wrong, lambda case: wrong, lambda: False)[0]
    assert (free.arch.node_banks, free.bank_counts) == (None, ONE_BANK)


def test_completions_differ_in_outer_loops_orders_and_layouts_only() -> None:
    """Of C = 4 outside the global buffer: 4, 2 x 2 or 4 over levels 2 and 3, in eight layouts."""
    layer = ConvWorkload(C=8)
    mapping = Mapping(
        temporal=((1, 1, 1, 1, 2, 1, 1, 1), (1,) * 8, (1,) * 8, (1, 1, 1, 1, 4, 1, 1, 1)),
        spatial=((1,) * 8,) * 3,
        order=((Dim.C,), (), (), (Dim.C,)),
        stored=((False,) * 3,) * 3,
    )
    case = Case(layer=layer, arch=PLAIN, objective=ENERGY, mapping=mapping, pinned=("inside", "spatial", "stored"))
    completions = few_mappings(case)
    assert completions is not None
    assert len(completions) == 3 * 8
    assert {m.temporal[:2] for m in completions} == {mapping.temporal[:2]}
    assert compare("completion", case, Limits()) is None
    wrong = attrs.evolve(solve(case, Limits()), bound=2 * max(map(case.value, completions)))
    assert check_optimum(case, wrong, completions) is not None


def test_answers_that_are_wrong_are_found() -> None:
    """A bound above a mapping's cost, a mapping where there is said to be none, an optimum that nobody else has."""
    case = Case(layer=ConvWorkload(C=2, K=2), arch=PLAIN, objective=ENERGY)
    solved = solve(case, Limits())
    mapped = attrs.evolve(case, mapping=solved.mapping)
    assert solved.objective_value is not None
    above = check_bound(mapped, attrs.evolve(solved, bound=solved.objective_value + 1))
    assert above is not None
    assert above.witness == solved.mapping
    assert check_bound(mapped, attrs.evolve(solved, status=Status.INFEASIBLE)) is not None
    assert check_optimum(case, solved, []) is not None


def test_party_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it says."""

    def fail(*arguments: Any) -> Any:
        raise RuntimeError("out of order")

    monkeypatch.setattr(cpsat_pim.study.fuzz.compare, "solve_layer", fail)
    found = compare("answer", Case(layer=ConvWorkload(C=2), arch=PLAIN, objective=ENERGY), Limits())
    assert found == Finding(lines=["RuntimeError: out of order"], witness=None)


# --- What is found ---------------------------------------------------------------------------------------------------


def test_shrinking_leaves_what_matters() -> None:
    """Closed pages and a K that is 3 or more: a prime of it, and the plainest machine but for the pages."""

    def disagree(case: Case) -> Finding | None:
        is_wrong = case.layer.K >= 3 and case.arch.page_policy == "closed"
        return Finding(lines=["wrong"], witness=None) if is_wrong else None

    draw = Drawer.of(np.random.default_rng(1))
    layer = attrs.evolve(draw.layer(100), K=15, stride=(2, 3))
    arch = attrs.evolve(draw.machine(), page_policy="closed")
    case = Case(layer=layer, arch=arch, objective=ENERGY)
    small, _ = shrink(case, Finding(lines=["wrong"], witness=None), disagree, lambda: False)
    assert small.layer == ConvWorkload(name=layer.name, K=3)
    assert small.arch == attrs.evolve(PLAIN, page_policy="closed")


def test_shrinking_ends_when_time_is_over() -> None:
    """With what there is."""
    case = Case(layer=ConvWorkload(K=12), arch=PLAIN, objective=ENERGY)
    finding = Finding(lines=["wrong"], witness=None)
    assert shrink(case, finding, lambda case: finding, lambda: True) == (case, finding)


def test_planted_fault_is_found_shrunk_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3; C is 3 or 5 or such, all else is 1; without the fault nothing is wrong with the file."""
    path = tmp_path / "found.json"
    with monkeypatch.context() as planted:
        planted.setattr(cpsat_pim.study.fuzz.compare, "predict", wrong_from_three)
        assert main(["fuzz", "--minutes", "1", "--seed", "3", "-o", str(path)]) == 3
        out, err = capsys.readouterr()
        assert out.startswith("seed 3\n")
        assert "trace" in out
        assert "energy_fj: predicted" in err
        assert main(["fuzz", "--replay", str(path)]) == 3
        assert "trace: a disagreement" in capsys.readouterr().out
    name, case = read_case(path)
    assert name == "trace"
    assert case.layer.C in (3, 5, 7, 11, 13, 197, 1009)  # the primes that are drawn
    assert case.layer == ConvWorkload(name="fuzz", C=case.layer.C)
    assert case.arch == PLAIN
    assert main(["fuzz", "--replay", str(path)]) == 0
    assert main(["simulate", str(path)]) == 0
    assert "all exact figures are equal" in capsys.readouterr().out


def test_fault_is_written_before_it_is_shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no patience has a file all the same."""

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    path = tmp_path / "found.json"
    monkeypatch.setattr(cpsat_pim.study.fuzz.compare, "predict", wrong_from_three)
    monkeypatch.setattr(cpsat_pim.study.fuzz.campaign, "shrink", interrupted)
    assert main(["fuzz", "--minutes", "1", "--seed", "3", "-o", str(path)]) == 130
    assert read_case(path)[0] == "trace"


def test_fault_that_cannot_be_written_is_told_and_written_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The directory is gone by then."""
    path = tmp_path / "there" / "found.json"
    path.parent.mkdir()

    def wrong(*arguments: Any) -> Any:
        if path.parent.exists():
            path.parent.rmdir()
        return wrong_from_three(*arguments)

    monkeypatch.setattr(cpsat_pim.study.fuzz.compare, "predict", wrong)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["fuzz", "--minutes", "1", "--seed", "3", "-o", str(path)]) == 3
    err = capsys.readouterr().err
    assert "a disagreement" in err
    assert f"{path}: cannot be written" in err
    (elsewhere,) = tmp_path.glob("*/found.json")
    assert read_case(elsewhere)[0] == "trace"


def test_file_of_run_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says nothing of a comparison: prediction and simulation are compared, and whether the mapping is legal."""
    from cpsat_pim.evaluate.verify import Disagreement, write_reproducer

    case = Case(layer=ConvWorkload(C=2), arch=PLAIN, objective=ENERGY)
    solved = solve(case, Limits())
    assert solved.mapping is not None
    figures = solved.predicted
    path = write_reproducer(Disagreement(case.layer, case.arch, solved.mapping, ["x"], figures, None), tmp_path)
    assert main(["fuzz", "--replay", str(path)]) == 0
    assert capsys.readouterr().out == "trace: no disagreement\n"
    illegal = attrs.evolve(case.layer, C=4)
    path = write_reproducer(Disagreement(illegal, case.arch, solved.mapping, ["x"], figures, None), tmp_path)
    assert main(["fuzz", "--replay", str(path)]) == 3


# --- How it ends -----------------------------------------------------------------------------------------------------


def test_interrupt_tells_the_counts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C during the third comparison: exit code 130, three are counted."""

    def interrupted(seed: int, number: int, limits: Limits) -> Any:
        case = Case(layer=ConvWorkload(C=2), arch=PLAIN, objective=ENERGY)
        yield from [("trace", case, None)] * 2
        signal.raise_signal(signal.SIGINT)
        yield from [("trace", case, None)] * 2

    monkeypatch.setattr(cpsat_pim.study.fuzz.campaign, "compare_round", interrupted)
    assert main(["fuzz", "--minutes", "1"]) == 130
    out, err = capsys.readouterr()
    assert "trace 3, legality 0, answer 0" in out
    assert "interrupted" in err


def test_time_ends_a_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the round that is running; what was compared is reported."""
    monkeypatch.setattr(cpsat_pim.study.fuzz.campaign, "_SOLVE_SECONDS", 0.5)
    heard: list[tuple[Counter[str], int]] = []
    found = run_campaign(5, 0.01, threading.Event(), lambda counts, rounds: heard.append((counts.copy(), rounds)))
    assert found is None
    ((counts, rounds),) = heard
    assert rounds == 1
    assert counts["trace"] > 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"version": 7}, "is no reproducer of version 1"),
        (
            {"version": 1, "comparison": "taste"},
            "comparison: must be one of trace, legality, answer, bound, pinned, completion, enumeration (got taste)",
        ),
        ({"version": 1}, "layer"),
    ],
)
def test_file_that_is_none_is_refused(
    data: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, a line."""
    path = tmp_path / "f.json"
    path.write_text(json.dumps(data))
    assert main(["fuzz", "--replay", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_what_is_pinned_must_be_parts_of_a_mapping(tmp_path: Path) -> None:
    """Named, each by a word."""
    case = Case(layer=ConvWorkload(C=2), arch=PLAIN, objective=ENERGY)
    path = tmp_path / "f.json"
    write_discovery(
        Discovery(comparison="answer", round=0, case=case, finding=Finding(lines=("x",), witness=None)), path
    )
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pinned": [["order"]]}))
    with pytest.raises(ValueError, match="pinned: must be a list of "):
        read_case(path)


@pytest.mark.parametrize(
    "command", ["fuzz --minutes 0", "fuzz --seed -1", "fuzz -o /nowhere/f.json", "fuzz --replay no"]
)
def test_mistake_is_one_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing on stdout."""
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
