"""All rules together."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.arch import ComputeUnit, PhyDim2
from cpsat_pim.base.dims import Dim
from cpsat_pim.workload import ConvWorkload
from tests.mapping.check.mappings import ROOMY, build_arch, build_mapping, violations

PLACES = st.sampled_from(("3", "2", "1", "H", "W", "0", "L"))


@st.composite
def mapped_layers(draw: Any) -> tuple[ConvWorkload, list[str]]:
    """A layer and loops that multiply to its bounds, at most one per place and dim."""
    places = draw(st.dictionaries(st.tuples(PLACES, st.sampled_from(Dim)), st.integers(2, 5), max_size=12))
    bounds = {dim.name: math.prod(f for (_, d), f in places.items() if d == dim) for dim in Dim}
    return ConvWorkload(**bounds), [f"{place}{dim.name}{factor}" for (place, dim), factor in places.items()]


HUGE_ARRAY = {
    "array_shape": PhyDim2(h=ROOMY, w=ROOMY),
    "compute_unit": ComputeUnit(unit_type="simd", num_macs=ROOMY),
    "exclusive_spatial": False,
}


@given(case=mapped_layers(), data=st.data())
def test_any_factorization_is_legal_on_a_large_machine_and_none_other(case: Any, data: Any) -> None:
    """Whatever multiplies to the bounds is legal if everything has room; one factor more or less is not."""
    layer, loops = case
    arch = build_arch(2**60, 2**60, 2**60, 2**60, array=HUGE_ARRAY)
    assert violations(layer, build_mapping(" ".join(loops), "01 01 01"), arch) == []
    if loops:
        dropped = data.draw(st.sampled_from(loops))
        rest = " ".join(loop for loop in loops if loop != dropped)
        (violation,) = violations(layer, build_mapping(rest, "01 01 01"), arch)
        assert violation.startswith(f"{dropped[1]}: factors ")


def test_every_broken_rule_is_reported_at_once() -> None:
    """A wrong factor, two directions, a full array and a full buffer are four lines."""
    found = violations(ConvWorkload(K=7, C=8), build_mapping("HK2 WK4 0C8", "- 0 -"), build_arch(7))
    assert [line.split(":")[0] for line in found] == ["K", "PE array", "PE array", "Pe"]
