"""The box of a tensor has the dims that are relevant to it, and what the MACs span."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.base.dims import RELEVANT, Dim, Tensor
from cpsat_pim.mapping.check import box_elems
from cpsat_pim.workload import ConvWorkload

SMALL = st.integers(1, 3)
LAYERS = st.builds(
    ConvWorkload, stride=st.tuples(SMALL, SMALL), dilation=st.tuples(SMALL, SMALL), **{dim.name: SMALL for dim in Dim}
)


@given(layer=LAYERS, extents=st.tuples(*[SMALL] * 8), dim=st.sampled_from(Dim), tensor=st.sampled_from(Tensor))
def test_only_relevant_dims_change_a_tile(layer: ConvWorkload, extents: Any, dim: Dim, tensor: Tensor) -> None:
    """One more along a dim makes a tile larger exactly if the dim is relevant to the tensor."""
    longer = tuple(extent + (d == dim) for d, extent in zip(Dim, extents, strict=True))
    grows = box_elems(layer, longer, tensor) > box_elems(layer, extents, tensor)
    assert grows == (dim in RELEVANT[tensor])


@given(layer=LAYERS)
def test_whole_box_of_input_is_what_the_macs_span(layer: ConvWorkload) -> None:
    """The box of all extents spans the first to the last column and row that any MAC reads."""
    columns = {
        layer.stride[0] * p + layer.dilation[0] * r for p, r in itertools.product(range(layer.P), range(layer.R))
    }
    rows = {layer.stride[1] * q + layer.dilation[1] * s for q, s in itertools.product(range(layer.Q), range(layer.S))}
    span = (max(columns) + 1) * (max(rows) + 1)
    assert box_elems(layer, layer.bounds, Tensor.I) == layer.N * layer.G * layer.C * span
