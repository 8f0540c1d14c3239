"""`verify` lets a right prediction pass and names what is wrong about any other; a reproducer brings it all back."""

import json
import pickle
from pathlib import Path
from typing import Any

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Level
from cpsat_pim.evaluate.cost import Prediction, predict
from cpsat_pim.evaluate.verify import Disagreement, read_reproducer, simulate, verify, write_reproducer
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload

ONES = (1,) * 8
LAYER = ConvWorkload(name="conv 1/a", C=4, K=2)
#: C=4 in the PE, K=2 from DRAM; every tensor in the PEs and nowhere else on chip.
MAPPING = Mapping(
    temporal=((1, 1, 1, 1, 4, 1, 1, 1), ONES, ONES, (1, 1, 1, 1, 1, 2, 1, 1)),
    spatial=(ONES, ONES, ONES),
    order=((Dim.C,), (), (), (Dim.K,)),
    stored=((True, True, True), (False,) * 3, (False,) * 3),
)
ARCH = PIMArchitecture()


def wrong(**changes: Any) -> Disagreement:
    """What `verify` says of a prediction with some figures changed."""
    right = predict(LAYER, ARCH, MAPPING)
    prediction = attrs.evolve(right, figures=attrs.evolve(right.figures, **changes))
    with pytest.raises(Disagreement) as caught:
        verify(LAYER, ARCH, MAPPING, prediction)
    return caught.value


def test_right_prediction_passes_with_its_simulation() -> None:
    """I stays: 4 reads; W 2 x 4; O 2 written; one column and row each, 8 steps."""
    figures = verify(LAYER, ARCH, MAPPING, predict(LAYER, ARCH, MAPPING))
    assert figures is not None
    assert figures.accesses[Level.DRAM] == ((4, 0), (8, 0), (0, 2))
    # W's two tiles of 4 B are two scans of one column each, and so are O's two of 1 B.
    assert (figures.row_activations, figures.column_accesses, figures.compute_cycles) == ((1, 1, 1), (1, 2, 2), 8)


def large() -> tuple[ConvWorkload, Mapping]:
    """2^32 array steps of one MAC, which take a minute to walk."""
    layer = ConvWorkload(C=2**11, K=2**11, N=2**10)
    loops = (1, 1, 1, 1, 2**11, 2**11, 2**10, 1)
    return layer, attrs.evolve(MAPPING, temporal=(ONES, ONES, ONES, loops), order=((), (), (), (Dim.N, Dim.K, Dim.C)))


def test_simulation_that_has_to_stop_gives_no_figures() -> None:
    """Nobody waits for a minute; the prediction has been recomputed all the same."""
    layer, mapping = large()
    prediction = predict(layer, ARCH, mapping)
    assert verify(layer, ARCH, mapping, prediction, is_over=lambda: True) is None
    with pytest.raises(Disagreement, match="energy_fj: predicted 1, recosted"):
        verify(
            layer,
            ARCH,
            mapping,
            attrs.evolve(prediction, figures=attrs.evolve(prediction.figures, energy_fj=1)),
            lambda: True,
        )


def test_simulation_hears_an_interrupt() -> None:
    """Ctrl-C ends a walk of a minute at once."""
    layer, mapping = large()

    def is_over() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify(layer, ARCH, mapping, predict(layer, ARCH, mapping), is_over)


def test_latency_includes_the_pipeline_latency_and_the_steps_do_not() -> None:
    """The default machine's levels take 1 + 5 cycles."""
    slow = attrs.evolve(ARCH, hierarchy=tuple(attrs.evolve(m, latency=m.latency + 10) for m in ARCH.hierarchy))
    before, after = simulate(LAYER, ARCH, MAPPING), simulate(LAYER, slow, MAPPING)
    assert after == attrs.evolve(before, latency_cycles=before.latency_cycles + 40)


def test_uneven_mapping_is_predicted_and_simulated() -> None:
    """I's tile in the PE covers nothing of C = 4, so each of the two K fetches its 4 elements again."""
    uneven = attrs.evolve(MAPPING, outside=((1, 0, 0), (0, 0, 0)))
    arch = attrs.evolve(ARCH, uneven_residency=True)
    figures = verify(LAYER, arch, uneven, predict(LAYER, arch, uneven))
    assert figures.accesses[Level.DRAM] == ((8, 0), (8, 0), (0, 2))


def test_wrong_figure_is_named_with_both_values() -> None:
    """Once against the recost and once against the simulation."""
    error = wrong(dram_cycles=7)
    right = predict(LAYER, ARCH, MAPPING).figures.dram_cycles
    assert error.differences == [
        f"dram_cycles: predicted 7, recosted {right}",
        f"dram_cycles: predicted 7, simulated {right}",
    ]
    assert str(error) == "\n  ".join(["conv 1/a: the mapping found does not hold:", *error.differences])


def test_wrong_latency_is_found_by_the_recost() -> None:
    """The simulated latency is the truth, not a figure that has to match."""
    right = predict(LAYER, ARCH, MAPPING).figures.latency_cycles
    assert wrong(latency_cycles=1).differences == [f"latency_cycles: predicted 1, recosted {right}"]


def test_illegal_mapping_is_not_simulated() -> None:
    """Its broken rules are what is said of it."""
    mapping = attrs.evolve(MAPPING, block_h=3)
    with pytest.raises(Disagreement, match="block_h must be 0") as caught:
        verify(LAYER, ARCH, mapping, Prediction(figures=predict(LAYER, ARCH, MAPPING).figures, bounds={}))
    assert caught.value.simulated is None


def test_disagreement_survives_the_way_from_a_worker() -> None:
    """Pickled and back, all is there."""
    error = wrong(energy_fj=1)
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.layer, back.arch, back.mapping) == (str(error), LAYER, ARCH, MAPPING)
    assert (back.predicted, back.simulated) == (error.predicted, error.simulated)


def test_reproducer_brings_the_case_back(tmp_path: Path) -> None:
    """Layer, machine and mapping; the figures are there to read."""
    error = wrong(energy_fj=1)
    path = write_reproducer(error, tmp_path / "new")
    assert path.name == "disagreement-conv_1_a.json"
    case = read_reproducer(path)
    assert (case.layer, case.arch, case.mapping) == (LAYER, ARCH, MAPPING)
    data = json.loads(path.read_text())
    assert (data["predicted"]["energy_fj"], data["differences"]) == (1, error.differences)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "is no reproducer of version 1"),
        ({"layer": None}, "layer: must be a mapping of fields"),
        ({"layer": {"C": 4, "X": 1}}, "layer: X: unknown key"),
        ({"layer": {"C": 8, "K": 2}}, "mapping: C: the factors multiply to 4, not to 8"),
        ({"architecture": {"bank": 1}}, "bank: unknown key"),
        ({"mapping": {}}, "mapping: temporal: is missing"),
    ],
)
def test_reproducer_that_is_none_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    """Each line starts with the file."""
    path = write_reproducer(wrong(energy_fj=1), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=message) as caught:
        read_reproducer(path)
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).splitlines())


def test_reproducer_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """No file, no JSON."""
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_reproducer(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        read_reproducer(tmp_path / "text.json")
