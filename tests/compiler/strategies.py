"""Random kernels and mappings for AttAcc."""

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from cpsat_pim.compiler.language import Kernel, shipped_kernel
from cpsat_pim.compiler.mapping import Contraction, Mapping, contraction_of
from cpsat_pim.compiler.target import Target

EXTENTS = st.sampled_from((1, 2, 3, 5, 7, 16, 17, 31, 33, 64, 97, 128, 257))


@st.composite
def contractions(draw: Any, most: int = 10**9) -> tuple[Kernel, Contraction]:
    """A shipped contraction with sizes, primes among them."""
    kernel = shipped_kernel(draw(st.sampled_from(("gemv", "gemm", "red", "context"))))
    sizes = {name: draw(EXTENTS) for name in kernel.sizes}
    bound = kernel.bind(sizes)
    contraction = contraction_of(bound, bound.statements[0])
    points = 1
    for extent in contraction.extents:
        points *= extent
    assume(points <= most)
    return bound, contraction


@st.composite
def mappings(draw: Any, contraction: Contraction, target: Target) -> Mapping:
    """Any mapping that the device can run."""
    mapping = Mapping(
        splits=tuple(draw(st.integers(1, 3)) for _ in range(4)),
        owners=tuple(draw(st.integers(-1, 3)) for _ in target.axes),
        is_tree=draw(st.booleans()),
        output_tile=draw(st.integers(1, 2)),
        depth_tile=draw(st.sampled_from((1, 2, 3, 4, 8, 16))),
        order=draw(st.sampled_from(("output-stationary", "input-stationary"))),
        overlaps_drains=draw(st.booleans()),
        overlaps_loads=draw(st.booleans()),
    )
    assume(mapping.problem(contraction, target) is None)
    return mapping
