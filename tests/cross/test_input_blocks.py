"""Input blocks: what is legal, by the validator, and what the search considers."""

from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.mapper.search.placement import input_blocks
from cpsat_pim.workload import ConvWorkload
from tests.mapping.check.mappings import build_mapping, violations

FACTORS = st.tuples(*[st.sampled_from([1, 2, 3])] * 2)


@given(FACTORS, FACTORS, *[st.integers(1, 3)] * 4)
def test_search_considers_exactly_the_legal_blocks(
    rows: tuple[int, int], columns: tuple[int, int], filters: int, height: int, stride: int, dilation: int
) -> None:
    """The validator accepts a block if and only if the search tries it."""
    (q3, q2), (p3, p2) = rows, columns
    layer = ConvWorkload(R=filters, S=height, P=p3 * p2, Q=q3 * q2, stride=(stride, 1), dilation=(dilation, stride))
    nest = f"3P{p3} 3Q{q3} 2P{p2} 2Q{q2} 0R{filters} 0S{height}"
    legal = [
        (h, w)
        for h in range(1, layer.input_height + 1)
        for w in range(1, layer.input_width + 1)
        if not [
            line for line in violations(layer, build_mapping(nest, "2 - -", block_h=h, block_w=w)) if "block" in line
        ]
    ]
    assert legal == sorted(input_blocks(layer, build_mapping(nest, "2 - -", block_h=1, block_w=1)))
