"""Mappings whose tables have other sizes or hold other things than they should."""

from typing import Any

import attrs
import pytest

from cpsat_pim.workload import ConvWorkload
from tests.mapping.check.mappings import build_mapping, violations


@pytest.mark.parametrize("factor", [0, -2, 2.0, True, "2", None])
def test_factors_must_be_positive_integers(factor: Any) -> None:
    """Neither 0, a negative number, a float, a boolean, a text nor nothing is a factor."""
    temporal = [[1] * 8, [1] * 8, [1] * 8, [1] * 4 + [factor] + [1] * 3]
    assert violations(ConvWorkload(), build_mapping(temporal=temporal)) == [
        f"Dram: the temporal factor of C must be a positive integer (got {factor!r})"
    ]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("temporal", [[1] * 8] * 3, "temporal: must have 4 rows (got 3)"),
        ("temporal", [[1] * 8] * 3 + [[1] * 7], "Dram: must have 8 temporal factors (got 7)"),
        ("spatial", [[1] * 8] * 2, "spatial: must have 3 rows (got 2)"),
        ("spatial", [[1] * 8, [1] * 7 + [0], [1] * 8], "W: the spatial factor of G must be a positive integer (got 0)"),
        ("order", [[]] * 3, "order: must have 4 levels (got 3)"),
        ("order", [[8], [], [], []], "Pe: the order must name dims (got 8)"),
        ("order", [[], ["C"], [], []], "Gbuf: the order must name dims (got 'C')"),
        ("stored", [[True] * 3] * 2, f"stored: must have 3 levels of 3 tensors (got {((True,) * 3,) * 2})"),
        ("stored", [[1] * 3] * 3, f"stored: must be true or false (got {((1,) * 3,) * 3})"),
        ("layout", (0, 0), "layout: must be 0 or 1 for each of I, W, O (got (0, 0))"),
        ("block_h", 1.0, "block_h: must be an integer (got 1.0)"),
        ("block_w", None, "block_w: must be an integer (got None)"),
        (
            "banks",
            (0, 2, 1),
            "banks: must be one of (0, 1, 2), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 0, 0) (got (0, 2, 1))",
        ),
        ("bank_counts", (1, 3, 1), "bank_counts: must be a power of two for each of I, W, O (got (1, 3, 1))"),
        ("bank_counts", (0, 1, 1), "bank_counts: must be a power of two for each of I, W, O (got (0, 1, 1))"),
        ("bank_counts", (2, 1), "bank_counts: must be a power of two for each of I, W, O (got (2, 1))"),
        ("bank_counts", (1, True, 1), "bank_counts: must be a power of two for each of I, W, O (got (1, True, 1))"),
        ("outside", [[0] * 3], f"outside: must have 2 levels of 3 tensors (got {((0,) * 3,)})"),
        ("outside", [[0] * 3, [0, 1, 0]], "Gbuf: the loops outside a tile must be 0 to 0 (got 1)"),
        ("outside", [[0, -1, 0], [0] * 3], "Pe: the loops outside a tile must be 0 to 0 (got -1)"),
        ("outside", [[True, 0, 0], [0] * 3], "Pe: the loops outside a tile must be 0 to 0 (got True)"),
    ],
)
def test_malformed_mappings_are_told_so(field: str, value: Any, message: str) -> None:
    """Tables of the wrong size or type are named, and nothing is computed from them."""
    assert violations(ConvWorkload(), attrs.evolve(build_mapping(), **{field: value})) == [message]
