"""The tuning constants of the search refuse values that make no sense."""

from typing import Any

import attrs
import pytest

from cpsat_pim.mapper.space.parameters import DEFAULTS, SearchParameters


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trial_steps": (0.1, 0.05)}, "trial_steps: must be rising numbers above 0"),
        ({"any_steps": ()}, "any_steps: must be rising numbers above 0"),
        ({"any_steps": (0, 1)}, "any_steps: must be rising numbers above 0"),
        ({"tiles_per_trial": 0}, "tiles_per_trial: must be a positive integer"),
        ({"near_cutoff": 1}, "near_cutoff: must be a number from 0 to below 1"),
        ({"pool_size": 1.5}, "pool_size: must be a positive integer"),
        ({"heavy_work": -1}, "heavy_work: must be a finite number of at least 0"),
        ({"narrow_energy_ratio": 0.5}, "narrow_energy_ratio: must be a number of at least 1"),
    ],
)
def test_values_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    """The message names the parameter."""
    with pytest.raises(ValueError, match=f"SearchParameters.{message}"):
        SearchParameters(**changes)


def test_lists_of_steps_are_kept_as_tuples() -> None:
    """So that parameters can be compared and are never changed."""
    assert SearchParameters(any_steps=[1.0, 2.0]) == attrs.evolve(DEFAULTS, any_steps=(1.0, 2.0))  # type: ignore[arg-type]
