"""Predictions that end when the time is up."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from attrs import evolve

import cpsat_pim.evaluate.cost
from cpsat_pim import ConvWorkload, Mapping, PIMArchitecture
from cpsat_pim.base.dims import Dim
from cpsat_pim.evaluate.cost import predict, predict_until

#: All loops at the DRAM, nothing stored: W is scanned 701 * 601 times.
LAYER = ConvWorkload(C=601, K=701)
MAPPING = Mapping(
    temporal=[[1] * 8] * 3 + [LAYER.bounds],
    spatial=[[1] * 8] * 3,
    order=[()] * 3 + [(Dim.K, Dim.C)],
    stored=[[False] * 3] * 3,
)


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(cpsat_pim.evaluate.cost, "_recent", {})


def _at_once(call: Callable[[Any], Any], is_over: Callable[[], bool]) -> Any:
    """Ask once, before the call."""
    return call(np.array([is_over()], np.int64))


@pytest.mark.parametrize("is_over", [True, False])
def test_a_long_prediction_ends_with_the_time(is_over: bool) -> None:
    """Where the time is up before the streams are counted there is no prediction; else it is the usual one."""
    arch = PIMArchitecture()
    with patch("cpsat_pim.evaluate.cost.call_watched", _at_once):
        found = predict_until(lambda: is_over, LAYER, arch, MAPPING)
    assert found == (None if is_over else predict(LAYER, arch, MAPPING))


def test_the_same_mapping_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the search, its answer and the verification ask for; another layer or machine is counted by itself."""
    counted: list[object] = []
    count = cpsat_pim.evaluate.cost._count
    monkeypatch.setattr(cpsat_pim.evaluate.cost, "_count", lambda *given: (counted.append(given), count(*given))[1])
    wider = evolve(LAYER, weight_bytes=2)
    first = predict(LAYER, PIMArchitecture(), MAPPING)
    assert predict(LAYER, PIMArchitecture(), MAPPING) is first
    assert len(counted) == 1
    assert predict(wider, PIMArchitecture(), MAPPING) != first
    assert len(counted) == 2
