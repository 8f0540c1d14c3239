"""What `tables` predicts against what `tracesim` counts, which share no code: every exact figure of any mapping."""

import itertools

import attrs
import numpy as np
import pytest
from hypothesis import given, settings

from cpsat_pim import ConvWorkload, PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import differences, simulate
from cpsat_pim.mapping import Mapping
from cpsat_pim.study.baselines.space import Space
from tests.cross.cases import Case, cases

#: Layers whose row-aligned inputs are read in long runs of alike windows.
WINDOWED = {
    "channels": ConvWorkload(R=3, P=4, Q=4, C=96, K=2),
    "positions": ConvWorkload(R=3, S=3, P=64, Q=64, C=2),
    "strided": ConvWorkload(R=2, S=3, P=48, Q=32, K=2, stride=(2, 3), dilation=(3, 1)),
}


@settings(max_examples=800)
@given(cases(uneven=True))
def test_predicted_figures_are_the_simulated_ones(case: Case) -> None:
    """Accesses, columns, activations, DRAM cycles, compute cycles and energy, whatever the mapping."""
    assert wrong_figures(case.layer, case.arch, case.mapping) == []


@pytest.mark.parametrize("banks", [1, 3])
@pytest.mark.parametrize("name", WINDOWED)
def test_windows_that_recur_are_counted_like_all_others(name: str, banks: int) -> None:
    """Over blocks of a row-aligned input, most of them in rows of few blocks."""
    toy, layer, rng = PIMArchitecture(), WINDOWED[name], np.random.default_rng(banks)
    buffer = attrs.evolve(toy.hierarchy[Level.ROW_BUFFER], row_buffer_size=64, entries=64)
    arch = attrs.evolve(toy, hierarchy=(*toy.hierarchy[:2], buffer, attrs.evolve(toy.hierarchy[3], num_banks=banks)))
    space = Space(layer, arch)
    drawn = (space.draw(rng).to_mapping(layer) for _ in range(1000))  # about one in three is row-aligned
    mappings = list(itertools.islice((m for m in drawn if m.stored[Level.ROW_BUFFER][Tensor.I]), 60))
    assert len(mappings) == 60
    for mapping in mappings:
        assert wrong_figures(layer, arch, mapping) == []


def wrong_figures(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> list[str]:
    """Exact figures that are predicted otherwise than simulated, both ways."""
    return differences(predict(layer, arch, mapping).figures, simulate(layer, arch, mapping), "simulated")
