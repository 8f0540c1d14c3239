"""The learned predictor that DCC's table II is repeated with, and the drafts that it ranks."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cpsat_pim.base.extras import MissingExtra
from cpsat_pim.compiler import predictor
from cpsat_pim.compiler.drafts import DraftSpace
from cpsat_pim.compiler.predictor import Protocol, Sized, chosen_times, features
from scripts import draft_predictor
from tables.commands.sweep import NONE

TIMES = (NONE, 40, 30, 50)


def sized() -> Sized:
    """Four drafts of 12 elements; the first cannot be run, the third is the best."""
    groups, cores = np.array([[1], [1], [3], [2]]), np.array([[1], [5], [2], [4]])
    return Sized((12,), DraftSpace(groups, cores, lambda number: TIMES[number]), 30)


class Model:
    """A model that predicts given times."""

    def __init__(self, times: list[float]) -> None:
        self.times = np.array(times)

    def inplace_predict(self, _rows: Any) -> Any:
        """The times, whatever the features are."""
        return self.times


def trained(monkeypatch: pytest.MonkeyPatch, times: list[float]) -> dict[str, Any]:
    """Replace XGBoost by a model of given times; what it is trained with."""
    seen: dict[str, Any] = {}

    def train(parameters: Any, matrix: Any, num_boost_round: int) -> Model:
        seen.update(parameters, rounds=num_boost_round, labels=matrix)
        return Model(times)

    fake = SimpleNamespace(train=train, DMatrix=lambda _inputs, label: label)
    monkeypatch.setattr(predictor, "import_extra", lambda *_: fake)
    return seen


def test_features_are_logarithms_of_sizes_and_of_elements_a_core() -> None:
    """12 elements over 1 x 5 cores leave 3 to a core, rounded up, over 2 x 4 cores 2."""
    assert 2 ** features(sized()) == pytest.approx(
        np.array([[12, 1, 1, 12], [12, 1, 5, 3], [12, 3, 2, 2], [12, 2, 4, 2]])
    )


def test_draft_with_the_least_predicted_time_that_runs_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first draft is predicted best, but cannot be run; the second is taken, although the third is faster. Labels
    are logarithms of the times of the drafts that run."""
    seen = trained(monkeypatch, [1, 2, 3, 4])
    assert chosen_times([sized()], Protocol(samples=4, rounds=7)) == [40]
    assert (seen["rounds"], seen["eta"]) == (7, 0.1)
    assert sorted(np.exp(seen["labels"])) == pytest.approx([30, 40, 50])


def test_drafts_with_equal_predictions_are_drawn_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draft that runs is taken with some seed."""
    trained(monkeypatch, [1, 1, 1, 1])
    assert {chosen_times([sized()], Protocol(seed=seed))[0] for seed in range(40)} == {30, 40, 50}


def test_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without XGBoost the line says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    with pytest.raises(MissingExtra, match=r"pip install 'cpsat-pim\[tune\]'"):
        chosen_times([sized()], Protocol())


@pytest.mark.parametrize(
    ("device", "name", "size"),
    [
        ("attacc", "GEMV", (2, 1, 24)),
        ("attacc", "RED", (2, 300)),
        ("hbm-pim-hbm3", "RED", (2, 300)),
        ("hbm-pim-hbm3", "VA", (1, 300)),
        ("hbm-pim-hbm3", "RELU", (3, 1000)),
    ],
)
def test_optimum_is_the_best_of_all_drafts(device: str, name: str, size: tuple[int, ...]) -> None:
    """The exact planner's time is the least of all drafts, each of which is timed by its best mapping."""
    found = draft_predictor.sized(device, name, size)
    assert min(found.drafts.time_ps(number) for number in range(len(found.drafts.groups))) == found.best_ps


def test_attention_drafts_contain_no_better_than_the_optimum() -> None:
    """A draft pairs its best score with its best context behind it: never below the optimum of all pairs, and here
    one reaches it."""
    found = draft_predictor.sized("attacc", "ATTN", (3, 1, 40))
    assert min(found.drafts.time_ps(number) for number in range(len(found.drafts.groups))) == found.best_ps


def test_cases_are_as_many_as_the_papers() -> None:
    """304 GEMVs, 272 attentions, 167 vectors: 1548 cases in all."""
    vectors, attentions = draft_predictor.VECTORS, draft_predictor.ATTENTIONS
    counts = [
        len({"GEMV": draft_predictor.GEMVS[device], "ATTN": attentions}.get(name, vectors))
        for device, name, *_ in draft_predictor.TABLE_2
    ]
    assert counts == [row[2] for row in draft_predictor.TABLE_2]
    assert sum(counts) == 1548
