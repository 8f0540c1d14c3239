"""Streams that agree in their key have the same counts, so one count stands for all of them."""

import pytest

from cpsat_pim import ConvWorkload
from cpsat_pim.base.dims import Tensor
from cpsat_pim.evaluate.cost import to_machine, to_nest
from cpsat_pim.mapping import Mapping
from cpsat_pim.study.fuzz.enumeration import every_mapping
from tables.counts.on_chip import array_timing
from tables.counts.stream import dram_stream, stream_key
from tables.counts.walk import StreamCounts
from tests.cross.test_solver_against_enumeration import CASES, UNEVEN, uneven

MORE = {
    "copies in DRAM": (ConvWorkload(C=4, N=2), CASES["no multicast, no reduction"][1]),
    "lanes take what is between, PEs do not": (
        ConvWorkload(P=2, K=2, stride=(3, 1), input_bytes=4),
        uneven("I", "", "", bytes_in_pe=64, bytes_in_buffer=24),
    ),
}
#: Mappings drawn of a layer.
MAPPINGS = 1500


@pytest.mark.parametrize("case", ["strided", *MORE, *UNEVEN])
def test_streams_with_equal_keys_are_equal(case: str) -> None:
    """Of many mappings of a layer, all over its space; and many with other factors have keys in common."""
    layer, arch = {**CASES, **UNEVEN, **MORE}[case]
    computer, mappings = to_machine(arch), list(every_mapping(layer, arch))
    known, shared = dict[object, tuple[Mapping, StreamCounts]](), 0
    for mapping in mappings[:: max(1, len(mappings) // MAPPINGS)]:
        nest = to_nest(layer, mapping, arch.spatial_reduction)
        tempo = array_timing(nest, computer)
        for t in Tensor:
            stream = dram_stream(nest, t, computer.dram, tempo)
            key = stream_key(nest, t, tempo), mapping.layout[t], mapping.block_h, mapping.block_w
            other, same = known.setdefault(key, (mapping, stream))
            assert stream == same
            shared += (other.temporal, other.spatial) != (mapping.temporal, mapping.spatial)
    assert shared > len(known)
