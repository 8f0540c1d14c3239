"""The programs, run: the outputs are the layer's, and what they scan in DRAM is what is simulated."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.base.dims import Dim
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.export.loops import build_program, execute, program_document, read_program
from cpsat_pim.export.loops.memory import Ints
from cpsat_pim.export.loops.program import LoopProgram
from cpsat_pim.workload import ConvWorkload
from tests.cross.cases import Case, cases, in_several_banks

#: Steps that a program may take in a test; each takes about 0.1 ms.
MAX_STEPS = 400


def convolve(layer: ConvWorkload, inputs: Ints, weights: Ints) -> Ints:
    """The layer by its definition (section 1): a sum over filter positions and channels, in whole-array products."""
    outputs = np.zeros((layer.N, layer.G, layer.K, layer.Q, layer.P), np.int64)
    for s, r in itertools.product(range(layer.S), range(layer.R)):
        rows = inputs[:, :, :, layer.dilation[1] * s :: layer.stride[1]][:, :, :, : layer.Q]
        window = rows[..., layer.dilation[0] * r :: layer.stride[0]][..., : layer.P]
        outputs += np.einsum("ngcqp,gkc->ngkqp", window, weights[..., s, r])
    return outputs


def numbers(layer: ConvWorkload, seed: int) -> tuple[Ints, Ints]:
    """Inputs and weights, all different from 0."""
    random = np.random.default_rng(seed)
    inputs = random.integers(1, 100, (layer.N, layer.G, layer.C, layer.input_height, layer.input_width))
    return inputs, random.integers(1, 100, (layer.G, layer.K, layer.C, layer.S, layer.R))


def program_of(case: Case) -> LoopProgram:
    """The program as a reader of its JSON has it."""
    return read_program(json.loads(json.dumps(program_document(build_program(case.layer, case.arch, case.mapping)))))


class Rows:
    """Counts columns and activations by tensor, from the places that a program scans."""

    def __init__(self, case: Case) -> None:
        self.closes = case.arch.page_policy != "open"
        self.columns, self.activations = dict.fromkeys("IWO", 0), dict.fromkeys("IWO", 0)
        self.open: dict[int, int] = {}
        self.holder: dict[tuple[int, int], str] = {}

    def scan(self, tensor: str, places: Ints, is_write: bool) -> None:
        """One scan: consecutive elements in one column are one access."""
        for bank, row, _ in (key for key, _ in itertools.groupby(places[:, :3].tolist())):
            self.columns[tensor] += 1
            assert self.holder.setdefault((bank, row), tensor) == tensor, "a row holds two tensors"
            if self.open.get(bank) != row:
                self.open[bank] = row
                self.activations[tensor] += 1
        if self.closes:
            for bank in set(places[:, 0].tolist()):
                del self.open[bank]


@settings(max_examples=50)
@given(cases(uneven=True).filter(lambda case: case.mapping.compute_steps <= MAX_STEPS), st.integers(0, 2**32))
def test_program_computes_the_layer(case: Case, seed: int) -> None:
    """Whatever the mapping: every value is brought in before it is used, and every output arrives in DRAM."""
    inputs, weights = numbers(case.layer, seed)
    outputs = execute(program_of(case), inputs, weights)
    assert (outputs == convolve(case.layer, inputs, weights)).all()


@settings(max_examples=50)
@given(st.one_of(cases(uneven=True), in_several_banks()).filter(lambda case: case.mapping.compute_steps <= MAX_STEPS))
def test_program_opens_the_rows_and_columns_that_are_simulated(case: Case) -> None:
    """Addresses, the order of scans and their points are those of the simulator; own banks, shared or several ones."""
    rows = Rows(case)
    execute(program_of(case), *numbers(case.layer, 0), rows.scan)
    figures = simulate(case.layer, case.arch, case.mapping)
    assert tuple(rows.columns.values()) == figures.column_accesses
    assert tuple(rows.activations.values()) == figures.row_activations


@given(cases(uneven=True))
def test_loops_visit_every_index_once(case: Case) -> None:
    """The index of a dim is the sum of its loops' indices times steps: each value from 0 to its bound occurs once."""
    program = program_of(case)
    for d in Dim:
        loops = [loop for loop in (*program.sequential, *program.pes, *program.lanes) if loop.dim == d.name]
        indices = [range(0, loop.count * loop.step, loop.step) for loop in loops]
        assert sorted(map(sum, itertools.product(*indices))) == list(range(case.layer.bounds[d]))


def test_wrong_shape_is_told() -> None:
    """Inputs without the layer's padding are no inputs."""
    case = Case(layer=ConvWorkload(), **_single())
    with pytest.raises(ValueError, match=r"I: must have the shape \[1, 1, 1, 1, 1\] \(got \[2\]\)"):
        execute(program_of(case), np.ones(2, np.int64), np.ones((1, 1, 1, 1, 1), np.int64))


@pytest.mark.parametrize("document", [{}, [], {"version": 1}, {"version": 1, "sequential": []}])
def test_other_documents_are_refused(document: object) -> None:
    """A JSON file of another kind is told as such."""
    with pytest.raises(ValueError, match="file of `export --format loops`"):
        read_program(document)  # type: ignore[arg-type]


def _single() -> dict[str, object]:
    """The default machine and the mapping of a single MAC."""
    from cpsat_pim.arch import PIMArchitecture
    from cpsat_pim.mapping import Mapping

    mapping = Mapping(temporal=[[1] * 8] * 4, spatial=[[1] * 8] * 3, order=[()] * 4, stored=[[False] * 3] * 3)
    return {"arch": PIMArchitecture(), "mapping": mapping}
