"""The simulated latency is at least every busy time that docs/model.md, section 6, names."""

from hypothesis import given, settings

from cpsat_pim.evaluate.cost import to_machine, to_nest
from cpsat_pim.evaluate.verify import simulate
from tables.counts.accesses import accesses
from tables.counts.cost import transfers
from tests.cross.cases import Case, cases


@settings(max_examples=300)
@given(cases(uneven=True))
def test_latency_covers_compute_and_dram(case: Case) -> None:
    """Steps take their turn, and so does each tensor's DRAM stream: a link moves one tile at a time."""
    figures = simulate(case.layer, case.arch, case.mapping)
    assert figures.latency_cycles >= max(figures.compute_cycles, figures.dram_cycles) + case.arch.pipeline_latency


@settings(max_examples=300)
@given(cases(uneven=True))
def test_latency_covers_every_transfer_time(case: Case) -> None:
    """Ports and the interconnect, which are no links of the pipeline: their times as `tables` counts them."""
    nest = to_nest(case.layer, case.mapping, case.arch.spatial_reduction)
    counts = accesses(nest, case.arch.multicast, case.arch.spatial_reduction)
    busy = transfers(nest, to_machine(case.arch), counts)
    latency = simulate(case.layer, case.arch, case.mapping).latency_cycles
    assert latency - case.arch.pipeline_latency >= max(busy.values())
