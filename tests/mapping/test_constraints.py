"""Constraints: each kind is kept, broken and read; what is not named is free."""

from collections.abc import Callable

import pytest
import yaml
from attrs import evolve
from hypothesis import given, settings

from cpsat_pim.base.dims import Dim, Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import (
    FREE,
    Constraints,
    NetworkConstraints,
    check_constraints,
    check_constraints_fit,
    read_constraints,
)
from cpsat_pim.mapping.dataflow import Dataflow, classify_dataflow
from cpsat_pim.workload import ConvWorkload
from tests.conftest import FileWriter
from tests.cross.cases import cases


def row(**factors: int) -> list[int]:
    """A row of factors, 1 where not named."""
    return [factors.get(d.name, 1) for d in Dim]


def fixed(**factors: int) -> list[int | None]:
    """A row of fixed factors, free where not named."""
    return [factors.get(d.name) for d in Dim]


NONE: list[int | None] = [None] * 8

#: DRAM: K 2, C 3 in the order CK; global buffer: Q 4; rows: C 2; columns: K 4. PEs store W, the global buffer I and W.
MAPPING = Mapping(
    temporal=[row(), row(Q=4), row(), row(K=2, C=3)],
    spatial=[row(C=2), row(K=4), row()],
    order=[(), (Dim.Q,), (), (Dim.C, Dim.K)],
    stored=[[False, True, False], [True, True, False], [False, False, True]],
    layout=[0, 1, 0],
)


@pytest.mark.parametrize(
    ("kept", "broken", "message"),
    [
        (
            {"temporal": [NONE, NONE, NONE, fixed(K=2)]},
            {"temporal": [NONE, NONE, NONE, fixed(K=4)]},
            "DRAM: the factor of K must be 4 (got 2)",
        ),
        (
            {"temporal": [NONE, fixed(P=1), NONE, NONE]},
            {"temporal": [NONE, fixed(P=2), NONE, NONE]},
            "GLOBAL_BUFFER: the factor of P must be 2 (got 1)",
        ),
        (
            {"spatial": [fixed(C=2), fixed(K=4), NONE]},
            {"spatial": [fixed(C=2), fixed(K=2), NONE]},
            "W: the factor of K must be 2 (got 4)",
        ),
        (
            {"order": [(), (), (), (Dim.P, Dim.C, Dim.K)]},
            {"order": [(), (), (), (Dim.K, Dim.P, Dim.C)]},
            "DRAM: the loops must be in the order KC (got CK)",
        ),
        (
            {"stored": [[False, True, None], [None] * 3, [None] * 3]},
            {"stored": [[None, False, None], [None] * 3, [None] * 3]},
            "PE: must not store W",
        ),
        (
            {"stored": [[None] * 3, [None] * 3, [False, None, True]]},
            {"stored": [[None] * 3, [None] * 3, [True, None, None]]},
            "ROW_BUFFER: must store I",
        ),
        ({"layout": [None, 1, 0]}, {"layout": [1, 1, 0]}, "I: the axis order must be NHWGC (got NGCHW)"),
        # C over the rows and K over the columns is IS or, as PEs store W and K is spread, WS (7.1.1, 7.1.3); W is the
        # more stationary: its tile changes with C and K only, a new input comes for each Q.
        ({"dataflow": Dataflow.WEIGHT}, {"dataflow": "OS"}, "the dataflow must be OS (got WS)"),
        ({"banks": (0, 1, 2)}, {"banks": (0, 0, 0)}, "banks: must be IWO (got I|W|O)"),
        ({"bank_counts": None}, {"bank_counts": (2, 1, 1)}, "bank_counts: must be (2, 1, 1) (got (1, 1, 1))"),
    ],
)
def test_constraint_is_kept_or_named(kept, broken, message):
    """One line for the one that is broken, none for the one that is kept."""
    assert check_constraints(MAPPING, Constraints(**kept)) == []
    assert check_constraints(MAPPING, Constraints(**broken)) == [message]


def test_mapping_with_several_banks_needs_a_constraint_that_allows_it():
    """One bank a part is a limit that nobody has to write."""
    several = evolve(MAPPING, bank_counts=(1, 2, 1))
    line = "bank_counts: must be (1, 1, 1) unless constraints say otherwise (got (1, 2, 1))"
    assert check_constraints(several, Constraints()) == [line]
    assert check_constraints(several, Constraints(bank_counts=None)) == []


def test_every_broken_constraint_has_a_line():
    """Factors, storage and dataflow at once."""
    constraints = Constraints(spatial=[fixed(C=1), NONE, NONE], stored=[[True] * 3] * 3, dataflow="RS")
    assert len(check_constraints(MAPPING, constraints)) == 1 + 5 + 1


@given(cases())
@settings(max_examples=60)
def test_a_mapping_keeps_itself_as_constraints(case):
    """All that a mapping says, as constraints, is kept by it, and its layer can have it; so is nothing at all."""
    mapping = case.mapping
    whole = Constraints(
        temporal=mapping.temporal,
        spatial=mapping.spatial,
        order=mapping.order,
        stored=mapping.stored,
        layout=mapping.layout,
        dataflow=classify_dataflow(mapping),
    )
    assert check_constraints(mapping, whole) == []
    assert check_constraints_fit(case.layer, whole) == []
    assert check_constraints(mapping, FREE) == []


@given(case=cases())
@settings(max_examples=30)
def test_plain_data_are_what_a_file_says(case, tmp_path_factory):
    """Written and read again they are the same; nothing is fixed, nothing is said."""
    mapping = case.mapping
    some = Constraints(
        temporal=[[n if n > 1 else None for n in row] for row in mapping.temporal],
        order=mapping.order,
        stored=mapping.stored,
        layout=mapping.layout,
        dataflow=classify_dataflow(mapping),
    )
    path = tmp_path_factory.mktemp("constraints") / "c.yaml"
    path.write_text(yaml.safe_dump({"version": 1, **some.to_dict()}))
    assert read_constraints(path).everywhere == some
    assert FREE.to_dict() == {}


def test_factors_that_no_mapping_of_the_layer_can_have_are_named():
    """2 x 4 divides 16, 2 x 3 does not."""
    constraints = Constraints(temporal=[fixed(K=2), NONE, NONE, NONE], spatial=[fixed(K=4, C=3), NONE, NONE])
    assert check_constraints_fit(ConvWorkload(K=16, C=6), constraints) == []
    assert check_constraints_fit(ConvWorkload(K=12, C=6), constraints) == [
        "K: the fixed factors 2 x 4 do not divide the bound 12"
    ]


def test_factors_that_are_all_fixed_multiply_to_the_bound():
    """1 in all seven places is a bound of 1, and no bound of 3."""
    ones = Constraints(temporal=[fixed(R=1)] * 4, spatial=[fixed(R=1)] * 3)
    assert check_constraints_fit(ConvWorkload(K=3), ones) == []
    assert check_constraints_fit(ConvWorkload(R=3), ones) == [
        "R: all factors are fixed, and 1 x 1 x 1 x 1 x 1 x 1 x 1 is not the bound 3"
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"temporal": [NONE] * 3},
        {"temporal": [[0, *NONE[1:]], NONE, NONE, NONE]},
        {"spatial": [NONE[1:], NONE, NONE]},
        {"order": [(Dim.K, Dim.K), (), (), ()]},
        {"order": [("K",), (), (), ()]},
        {"stored": [[1, None, None], [None] * 3, [None] * 3]},
        {"layout": [2, None, None]},
        {"dataflow": "XS"},
        {"banks": (0, 1, 1, 1)},
        {"banks": (1, 1, 0)},
        {"bank_counts": (3, 1, 1)},
        {"bank_counts": "chosen"},
    ],
)
def test_constraints_are_checked_on_construction(wrong):
    """What no mapping can have is a ValueError."""
    with pytest.raises(ValueError, match=r"."):
        Constraints(**wrong)


# --- Files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def write(file_writer: FileWriter) -> Callable[[str | bytes], str]:
    """Write `c.yaml` in a directory of its own and return its name."""
    return file_writer("c.yaml")


def test_constraints_are_read_for_all_layers_and_for_some(write):
    """A layer's own constraints are merged over those of all layers: keys that it does not name stay."""
    text = """
version: 1
temporal: {DRAM: {K: 1}}
spatial: {H: {C: 16}}
order: {DRAM: KPQ}
stored: {PE: {W: true, I: false}}
layout: {I: NHWGC, W: {mode: row_aligned}, O: {mode: sequential, order: NQPGK}}
dataflow: WS
banks: IW|O
bank_counts: [1, 1, 2]
layers:
  conv1: {spatial: {H: {C: 3}}, dataflow: OS}
  fc: {stored: {ROW_BUFFER: {W: false}}}
"""
    everywhere = Constraints(
        temporal=[NONE, NONE, NONE, fixed(K=1)],
        spatial=[fixed(C=16), NONE, NONE],
        order=[(), (), (), (Dim.K, Dim.P, Dim.Q)],
        stored=[[False, True, None], [None] * 3, [None, True, False]],
        layout=[1, None, 1],
        dataflow="WS",
        banks=(0, 0, 1),
        bank_counts=(1, 1, 2),
    )
    read = read_constraints(write(text))
    assert isinstance(read, NetworkConstraints)
    assert read.everywhere == read.of("conv2") == everywhere
    conv1 = read.of("conv1")
    assert (conv1.spatial[0], conv1.dataflow) == (tuple(fixed(C=3)), Dataflow.OUTPUT)
    assert (conv1.temporal, conv1.stored) == (everywhere.temporal, everywhere.stored)
    assert read.of("fc").stored[2] == (None, False, False)
    assert read.with_banks(bank_counts=None).of("conv1").to_dict()["bank_counts"] == "choose"
    assert {read.with_banks(banks=(0, 0, 0)).of(name).banks for name in ("conv1", "conv2")} == {(0, 0, 0)}


@pytest.mark.parametrize(
    ("everywhere", "own", "is_aligned", "order"),
    [
        ("stored: {ROW_BUFFER: {W: true}}", "layout: {W: {mode: sequential}}", False, None),
        ("layout: {W: {mode: sequential}}", "stored: {ROW_BUFFER: {W: true}}", True, None),
        ("layout: {W: {mode: row_aligned}}", "layout: {W: SRCGK}", True, 1),
        ("layout: {W: SRCGK}", "layout: {W: {mode: row_aligned}}", True, 1),
        ("layout: {W: {mode: row_aligned, order: SRCGK}}", "layout: {W: GKCSR}", True, 0),
    ],
)
def test_layouts_of_a_layer_are_merged_over_those_of_all(write, everywhere, own, is_aligned, order):
    """Mode and axis order each for itself; the mode is what the row buffer stores, by either name."""
    read = read_constraints(write(f"version: 1\n{everywhere}\nlayers: {{fc: {{{own}}}}}\n")).of("fc")
    assert (read.stored[2][Tensor.W], read.layout[Tensor.W]) == (is_aligned, order)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dataflow: XS", "2:11: dataflow: must be one of WS, OS, IS, RS (got XS); did you mean 'WS'?"),
        ("stored: {PE: {W: 1}}", "2:18: stored.PE.W: must be true or false (got 1)"),
        ("stored: {DRAM: {W: true}}", "2:10: stored.DRAM: unknown key; there are ROW_BUFFER, GLOBAL_BUFFER, PE"),
        ("spatial: {H: {C: -2}}", "2:18: spatial.H.C: must be a positive integer (got -2)"),
        ("order: {PE: RR}", "2:13: order.PE: must be letters of RSPQCKNG, each at most once (got RR)"),
        ("layers: {a: {dataflw: WS}}", "2:14: layers[a].dataflw: unknown key; did you mean 'dataflow'?"),
        ("layers: [a]", "2:9: layers: must be a mapping (got [a])"),
        (
            "stored: {ROW_BUFFER: {I: true}}\nlayout: {I: {mode: sequential}}",
            "3:20: layout.I.mode: must be row_aligned, as `stored` says",
        ),
    ],
)
def test_mistake_in_constraints_names_its_place(write, text, message):
    """Line, column and path."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_constraints(write(f"version: 1\n{text}\n"))
    assert str(caught.value) == f"c.yaml:{message}"
