"""Traces of plans, the host's plans, DCC's drafts."""

import json
from pathlib import Path

import pytest

from cpsat_pim.cli import main
from cpsat_pim.compiler.broadcast import best_of_kernel
from cpsat_pim.compiler.drafts import draft_target, drafts_of, prune
from cpsat_pim.compiler.language import shipped_kernel
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.compiler.plan import mapping_data
from cpsat_pim.compiler.plan_file import mapping_from
from cpsat_pim.compiler.search import best_mapping
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import read_device


@pytest.mark.parametrize(
    ("words", "form", "first"),
    [
        ("compile gemm --sizes B=1,N=40,K=40 --device hbm-pim --channels 2", "pimsimulator", "R 0 0 0 4096 0"),
        ("compile gemm --sizes B=1,N=40,K=40 --device gddr6-aim --channels 2", "aim", "AiM WR_GB 3 0 1"),
        ("compile gemm --sizes B=1,N=40,K=40 --channels 2", "attacc", "PIM_WR_GB"),
    ],
)
def test_commands_of_a_plan_become_a_trace(
    words: str, form: str, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`commands` reads what `compile --json` wrote: HBM-PIM begins by parking bank 0, AiM by loading 40 inputs in 3
    columns of 16."""
    plan, trace = tmp_path / "plan.json", tmp_path / "kernel.trace"
    assert main([*words.split(), "--json", str(plan)]) == 0
    assert main(["commands", str(plan), "--format", form, "-o", str(trace)]) == 0
    assert trace.read_text().startswith(first)
    mapping = json.loads(plan.read_text())["mapping"]["gemm"]
    assert mapping_data(mapping_from(mapping)) == mapping


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "must be a JSON object"),
        ('{"format": 1}', "expected a plan"),
        ('{"format": 1, "mapping": {}}', "expected a plan"),
    ],
)
def test_files_that_are_no_plan_are_refused_in_one_line(
    text: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message, the code of bad input, no trace file."""
    plan, trace = tmp_path / "plan.json", tmp_path / "kernel.trace"
    plan.write_text(text)
    assert main(["commands", str(plan), "--format", "aim", "-o", str(trace)]) == 2
    message = capsys.readouterr().err.strip()
    assert expected in message
    assert "\n" not in message
    assert not trace.exists()


def test_a_format_of_another_device_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """AttAcc's trace has no commands of HBM-PIM."""
    plan = tmp_path / "plan.json"
    words = ["compile", "relu", "--sizes", "B=1,N=300", "--device", "hbm-pim", "--channels", "1", "--json"]
    assert main([*words, str(plan)]) == 0
    assert main(["commands", str(plan), "--format", "attacc", "-o", str(tmp_path / "t")]) == 2
    assert "has no command" in capsys.readouterr().err


def test_softmax_is_timed_on_the_host_by_formula(tmp_path: Path) -> None:
    """64 rows of 1000 on 108 cores: occupancy 64 / 108; 4 bytes an element at 0.85 x 3352 GB/s are slower than 5
    operations at 0.8 x 312 TFLOP/s."""
    file = tmp_path / "host.json"
    assert main(["compile", "softmax", "--sizes", "B=64,N=1000", "--device", "hbm-pim", "--json", str(file)]) == 0
    plan = json.loads(file.read_text())
    assert plan["status"] == "HOST"
    assert plan["objective"] == pytest.approx(4 * 64000 / (0.85 * 3352e9 * 64 / 108) * 1e12, abs=1)


def test_pruning_rules_never_gain_and_rule_1_never_loses() -> None:
    """A subset of the drafts has no better best; one mapping function a dimension makes rule 1 void; rule 2 keeps only
    multiples of 16 along the depth."""
    bound = shipped_kernel("gemv").bind({"B": 2, "N": 24, "K": 96})
    contraction, target = contraction_of(bound, bound.statements[0]), target_of(read_device("attacc"))
    drafts = drafts_of(contraction, target, 4)
    results = {result.rule: result for result in prune(drafts, contraction, target, ("1", "2", "3", "3-lengths"))}
    assert all(result.time_ps >= results["none"].time_ps for result in results.values())
    assert results["1"].drafts == results["none"].drafts == len(drafts)
    assert results["3-lengths"].drafts <= results["3"].drafts <= len(drafts)
    best = best_mapping(contraction, target, 4)
    assert best is not None
    assert results["none"].time_ps == best.time_ps


@pytest.mark.parametrize("name", ["hbm-pim", "gddr6-aim", "upmem"])
def test_best_draft_is_the_optimum_where_inputs_are_sent_to_all_cores(name: str) -> None:
    """Drafts divide the whole space: the best of all takes what the search finds; rules only take drafts away."""
    bound = shipped_kernel("gemv").bind({"B": 2, "N": 40, "K": 33})
    contraction, device = contraction_of(bound, bound.statements[0]), read_device(name)
    target = draft_target(device)
    drafts = drafts_of(contraction, target, 4)
    assert min(draft.time_ps for draft in drafts) == best_of_kernel(bound, device, 4).value
    pruned = prune(drafts, contraction, target, ("2", "3-lengths"))
    assert all(0 < left.drafts <= len(drafts) and left.time_ps >= pruned[0].time_ps for left in pruned)


def test_unknown_rules_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names the rules."""
    assert main(["drafts", "gemv", "--sizes", "B=1,N=8,K=8", "--rules", "4"]) == 2
    assert "there are 1, 2, 3, 3-lengths" in capsys.readouterr().err
