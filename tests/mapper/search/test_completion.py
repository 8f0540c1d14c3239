"""Completions of a draft, where the time ends."""

from unittest.mock import patch

import pytest

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapper.search.completion import Completions
from cpsat_pim.mapper.search.placement import OutOfTime
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from tables.counts.walk import NO_STREAM_LIMIT
from tests.mapping.check.mappings import build_mapping


def test_a_long_stream_is_not_counted_past_the_limit() -> None:
    """W is scanned a million times, an element at a time; the walk is stopped at once, and no minimum is taken."""
    layer, mapping = ConvWorkload(C=1021, K=1031), build_mapping("3K1031 3C1021", "1 1 1")
    restriction = Restriction(layer, PIMArchitecture(), subspace=Subspace.MERGED)
    found = Completions(
        restriction,
        Objective.named("energy"),
        mapping,
        ((frozenset(),) * 3,) * 2,
        {},
        {},
        lambda _: [NO_STREAM_LIMIT] * 3,
        None,
        is_over=lambda: True,
    )
    with patch("cpsat_pim.base.watched._PATIENCE", 0.0), pytest.raises(OutOfTime):
        found.best([mapping.order])
