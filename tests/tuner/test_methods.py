"""Methods: designs within the area, the same for the same seed; the Gaussian process against its definition."""

import math
import sys

import numpy as np
import pytest
from attrs import evolve

from cpsat_pim.base.extras import MissingExtra
from cpsat_pim.tuner.analytic import AnalyticCost
from cpsat_pim.tuner.area import AreaModel
from cpsat_pim.tuner.methods import METHODS, MethodOptions, build_method
from cpsat_pim.tuner.methods.gaussian import expected_improvement, fit, matern
from cpsat_pim.tuner.space import Design, HardwareSpace
from cpsat_pim.tuner.task import TuneTask

OWN = ("gp", "gp-floors", "random", "sa")
OPTIONS = MethodOptions(seed=3, trials=16, initial=6, candidates=60)


def designs_of(name: str, task: TuneTask) -> tuple[list[Design], list[float]]:
    """What a method proposes, and the costs."""
    floors = task.floors()
    cost = AnalyticCost(floors, task.cost(floors))
    options = evolve(OPTIONS, floor=lambda design: 0.5 * cost.of_values(task.space.values(design)))
    method = build_method(name, task.space, options)
    for _ in range(OPTIONS.trials):
        design = method.propose()
        method.learn(design, cost.of_values(task.space.values(design)))
    return method.designs, method.costs


@pytest.mark.parametrize("name", OWN)
def test_designs_fit_and_are_those_of_the_seed(name: str, task: TuneTask) -> None:
    """Every one within the area, and the same again."""
    designs, _ = designs_of(name, task)
    assert all(map(task.space.fits, designs))
    assert designs == designs_of(name, task)[0]


@pytest.mark.parametrize(("name", "module"), [("xgb", "xgboost"), ("dkl", "gpytorch"), ("botorch", "gpytorch")])
def test_missing_extra_is_one_line(
    name: str, module: str, space: HardwareSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to install."""
    monkeypatch.setitem(sys.modules, module, None)
    for loaded in [one for one in sys.modules if one.startswith("cpsat_pim.tuner.methods.") and name != "gp"]:
        if loaded.endswith(("boosting", "deep_kernel")):
            monkeypatch.delitem(sys.modules, loaded)
    with pytest.raises(MissingExtra, match=r"pip install 'cpsat-pim\[tune(-torch)?\]'$") as caught:
        METHODS[name](space, OPTIONS)
    assert "\n" not in str(caught.value)


def test_annealing_takes_what_is_better_and_rejects_what_fails(space: HardwareSpace) -> None:
    """A better design always, an infinite cost never."""
    method = build_method("sa", space, OPTIONS)
    first, second, third = (method.random_design() for _ in range(3))
    method.learn(first, 2.0)
    method.learn(second, 1.0)
    method.learn(third, math.inf)
    assert vars(method)["current"] == second


def test_no_machine_within_the_area_is_an_error(space: HardwareSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told in one line, not searched for ever."""
    monkeypatch.setattr("cpsat_pim.tuner.methods.method._PATIENCE", 1000)
    nothing = evolve(space, area=AreaModel(limit_mm2=1e-6))
    with pytest.raises(ValueError, match="none of 1,000 random machines is within the area"):
        build_method("random", nothing, OPTIONS).propose()


def test_improvement_is_the_mean_of_what_is_below_the_best() -> None:
    """By the mean over 200,000 draws."""
    draws = np.random.default_rng(0).normal(0.4, 0.7, 200_000)
    found = expected_improvement(np.array([0.4]), np.array([0.7]), 0.1)[0]
    assert found == pytest.approx(np.maximum(0, 0.1 - draws).mean(), rel=0.02)


def test_kernel_is_matern_5_2() -> None:
    """At distance 0.3 with length 0.5: (1 + sqrt5 r + 5 r^2/3) exp(-sqrt5 r), r = 0.6."""
    found = matern(np.array([[0.1]]), np.array([[0.4]]), np.array([0.5]))[0, 0]
    r = 0.6
    assert found == pytest.approx((1 + 5**0.5 * r + 5 * r * r / 3) * math.exp(-(5**0.5) * r))


def test_process_passes_through_its_points_and_knows_what_it_does_not() -> None:
    """Predictions at points are their targets; far away the deviation is larger."""
    points = np.random.default_rng(1).random((12, 2))
    targets = np.sin(4 * points[:, 0]) + points[:, 1]
    process = fit(points, targets, np.array([0.8, 0.8]))
    mean, deviation = process.predict(points)
    assert mean == pytest.approx(targets, abs=0.02)
    assert process.predict(np.array([[3.0, 3.0]]))[1][0] > 5 * deviation.max()
