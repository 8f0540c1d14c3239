"""What bounds a mapping: by hand for a small one, against the simulator for random ones."""

from hypothesis import given, settings

from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.explain import find_bounds
from cpsat_pim.workload import ConvWorkload
from tests.cross.cases import Case, cases
from tests.mapping.check.mappings import build_arch, build_mapping


def test_small_product_by_hand() -> None:
    """K=2, C=4: I in the PEs, O in the global buffer, W from DRAM; 4 columns of 4 B, one element a MAC.

    Tiles: PE I 1 B (K runs inside C), global buffer O 2 B, DRAM 4 + 8 + 2 B. Energy: I once out of DRAM, into and
    out of the PE (8 MACs read it), W once a MAC, O 8 additions less 2 first terms read, 8 written, then 2 to DRAM.
    """
    layer = ConvWorkload(C=4, K=2)
    arch = build_arch(16, 16, 16, 64)
    mapping = build_mapping("3C4 1K2", stored="0 - 1")
    bounds = find_bounds(layer, arch, mapping)
    assert [fill.used for fill in bounds.fills] == [
        {Tensor.I: 1},
        {Tensor.O: 2},
        {},
        {Tensor.I: 4, Tensor.W: 8, Tensor.O: 2},
    ]
    assert [fill.slack_bytes for fill in bounds.fills] == [15, 14, 16, 50]
    # Levels cost nothing here; a MAC costs 560 fJ, a row of 8 B 0.828 nJ.
    figures = simulate(layer, arch, mapping)
    rows = dict(zip(Tensor, figures.row_activations, strict=True))
    shares = {(share.place, share.tensor): share.fj for share in bounds.shares}
    assert shares == {("MAC", None): 8 * 560} | {("activation", t): n * 828_000 for t, n in rows.items()}
    # 8 steps of one MAC; nothing but DRAM and compute takes time without bandwidth limits.
    busy = {resource.name: resource.busy_cycles for resource in bounds.resources}
    assert busy["compute"] == 8
    assert busy["pe"] == busy["global_buffer"] == busy["row_buffer"] == busy["interconnect"] == 0


@settings(max_examples=60)
@given(cases(uneven=True))
def test_parts_are_those_of_the_whole(case: Case) -> None:
    """Shares sum up to the simulated energy; the first resource ends with the predicted latency, the others before."""
    bounds = find_bounds(case.layer, case.arch, case.mapping)
    predicted, simulated = predict(case.layer, case.arch, case.mapping), simulate(case.layer, case.arch, case.mapping)
    assert bounds.energy_fj == simulated.energy_fj
    assert bounds.latency_cycles == predicted.figures.latency_cycles
    assert bounds.critical in {n for n, end in predicted.bounds.items() if end == max(predicted.bounds.values())}
    assert bounds.resources[0].slack_cycles == 0
    for resource in bounds.resources:
        assert resource.end_cycles + resource.slack_cycles + bounds.pipeline_cycles == bounds.latency_cycles
        assert resource.end_cycles == predicted.bounds[resource.name]
    streams = {r.name: r.busy_cycles for r in bounds.resources}
    dram = [streams[f"dram_{t.name}"] for t in Tensor]
    whole = sum(dram) if case.arch.shared_data_bus else max(dram)
    assert whole == simulated.dram_cycles
    assert streams["compute"] == simulated.compute_cycles
    elems = [sum(share.fj for share in bounds.shares if share.place == m.name) for m in Level]
    assert all(fj >= 0 for fj in elems)
