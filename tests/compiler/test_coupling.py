"""Decisions over a whole model: against trying all combinations, and exact against the single kernels."""

from itertools import product as combinations_of
from pathlib import Path

import pytest

from cpsat_pim.cli import main
from cpsat_pim.compiler.coupling.attention import AttentionOption
from cpsat_pim.compiler.coupling.model import Decision, Problem, decide, problem_of
from cpsat_pim.compiler.coupling.options import shared_layout
from cpsat_pim.compiler.host import A100_HBM3, Product
from cpsat_pim.compiler.lowering import predicted_ticks
from cpsat_pim.compiler.models.compiled import weight_contraction
from cpsat_pim.compiler.models.transformer import Transformer
from cpsat_pim.compiler.search import best_mapping
from cpsat_pim.compiler.search.space import output_ps
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import read_device

TARGET = target_of(read_device("attacc"))
SMALL = Transformer(name="small", blocks=2, hidden=256, heads=4, feed_forward=512, is_gated=False)


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A small model for batches of 1 and 3."""
    return problem_of(SMALL, (1, 3), range(40, 60), TARGET)


def _all_decisions(problem: Problem, objective: str) -> list[Decision]:
    choices = [*problem.weights.values(), *problem.attentions.values()]
    names, result = len(problem.weights), []
    for chosen in combinations_of(*choices):
        weights = dict(zip(problem.weights, chosen[:names], strict=True))
        attentions = dict(zip(problem.attentions, chosen[names:], strict=True))
        decided = Decision(objective=objective, weights=weights, attentions=attentions, value=0, bound=0)  # type: ignore[arg-type]
        result.append(decided)
    return result


@pytest.mark.parametrize("objective", ["time", "energy"])
def test_decision_is_the_best_of_all_combinations(problem: Problem, objective: str) -> None:
    """CP-SAT finds the least value of all choices that fit, counted without the solver, and its bound is below it."""
    decided = decide(problem, objective)
    count = problem.time_ps if objective == "time" else problem.energy_fj
    values = [
        sum(count(choice, batch) for batch in problem.batches)
        for choice in _all_decisions(problem, objective)
        if all(problem.stored_bytes(choice, batch) <= problem.capacity_bytes for batch in problem.batches)
    ]
    assert decided.value == min(values)
    assert decided.bound <= decided.value


def test_full_banks_forbid_second_copies(problem: Problem) -> None:
    """With as many bytes as the cheapest choice takes, and not one KiB more, exactly such a choice is left."""
    sizes = [
        max(problem.stored_bytes(choice, batch) for batch in problem.batches)
        for choice in _all_decisions(problem, "time")
    ]
    tight = Problem(
        model=problem.model,
        batches=problem.batches,
        lengths=problem.lengths,
        weights=problem.weights,
        attentions=problem.attentions,
        pointwise_ps=problem.pointwise_ps,
        capacity_bytes=min(sizes) + 64 * 1024,
    )
    decided = decide(tight, "time")
    assert max(tight.stored_bytes(decided, batch) for batch in tight.batches) <= tight.capacity_bytes


def test_one_use_has_the_best_mapping() -> None:
    """The layout for one batch size alone takes what the best mapping takes."""
    contraction = weight_contraction(Product(2, 300, 256))
    found = shared_layout([contraction], [0], TARGET, A100_HBM3)
    best = best_mapping(contraction, TARGET, counts=False)
    assert found is not None
    assert best is not None
    assert found[1] == [best.time_ps]


def test_shared_layout_is_walked_exactly() -> None:
    """Every use takes the ticks of its own mapping; layouts of all uses are equal up to what overlaps."""
    contractions = [weight_contraction(Product(batch, 300, 256)) for batch in (1, 2, 5)]
    found = shared_layout(contractions, [0, 0, 0], TARGET, A100_HBM3)
    assert found is not None
    for mapping, time, contraction in zip(*found, contractions, strict=True):
        host = output_ps(contraction, TARGET, A100_HBM3, mapping.splits)
        assert time == predicted_ticks(mapping, contraction, TARGET) * TARGET.device.tick_ps + host
    assert len({(m.splits, m.owners, m.is_tree, m.output_tile, m.depth_tile, m.order) for m in found[0]}) == 1
    for time, contraction in zip(found[1], contractions, strict=True):
        best = best_mapping(contraction, TARGET, counts=False)
        assert best is not None
        assert best.time_ps <= time


def test_places_of_an_attention_are_three(problem: Problem) -> None:
    """Host, channels, and PIM with the host's softmax; only the channels' layout may lack a proof."""
    options: tuple[AttentionOption, ...] = problem.attentions[3]
    assert [option.place for option in options] == ["host", "PIM, softmax in the channels", "PIM, softmax on the host"]
    assert all(option.bound_ps <= option.time_ps for option in options)
    assert options[0].bound_ps == options[0].time_ps


def test_command_plans_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`llm FILE --plan` reads a user's model."""
    file = tmp_path / "small.yaml"
    file.write_text("version: 1\nblocks: 2\nhidden: 256\nheads: 4\nfeed_forward: 512\nis_gated: false\n")
    assert main(["llm", str(file), "--batch", "1,3", "--lin", "40", "--lout", "9", "--plan", "time"]) == 0
    printed = capsys.readouterr().out
    assert "small, batch 1, 3, 41 to 48 tokens" in printed
    assert "attention x3" in printed


def test_file_with_a_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Heads that do not divide the width are named with file and line."""
    file = tmp_path / "odd.yaml"
    file.write_text("version: 1\nblocks: 2\nhidden: 250\nheads: 4\nfeed_forward: 512\nis_gated: false\n")
    assert main(["llm", str(file)]) == 2
    message = capsys.readouterr().err.strip()
    assert "must be a multiple of heads 4 (got 250)" in message
    assert "\n" not in message


@pytest.mark.parametrize("plan", [[], ["--plan", "time"]])
def test_caches_beyond_the_banks_are_refused_at_once(plan: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """3,000,003 tokens of GPT-3: 2 x 5120 x 2 bytes x 40 blocks each are 2,289 GiB; the device has 80."""
    assert main(["llm", "gpt3-13b", "--lin", "3000000", "--lout", "4", *plan]) == 2
    message = capsys.readouterr().err.strip()
    assert "keys and values of 3000003 tokens need 2289 GiB, there are 80" in message
    assert "\n" not in message
