"""The dataflow class of mappings, description by description of section 7.1. Visits are counted by hand."""

from typing import Any

import pytest
from attrs import evolve

from cpsat_pim.base.dims import Tensor
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.dataflow import Dataflow, classify_dataflow, possible_dataflows, tile_visits
from tests.shorthand import read_loops


def build_mapping(loops: str, at_pe: str = "") -> Mapping:
    """A mapping from its loops and what PEs store."""
    stored: Any = [[t.name in at_pe for t in Tensor], [True] * 3, [False] * 3]
    return Mapping(**read_loops(loops)._asdict(), stored=stored)


@pytest.mark.parametrize("loops", ["HS3 WK4", "HK4 WR3", "HR3 HC2 WK4 3P8"])
def test_filter_against_output_channels_is_row_stationary(loops: str) -> None:
    """7.1.4, whichever direction is which, and whatever the PEs store."""
    assert classify_dataflow(build_mapping(loops, "IWO")) is Dataflow.ROW


def test_filter_and_output_channels_in_one_direction_is_not_row_stationary() -> None:
    """7.1.4 needs one direction for each; here K is spread and W stays: 7.1.1."""
    assert classify_dataflow(build_mapping("HR3 HK4 3P8", "W")) is Dataflow.WEIGHT


def test_resident_weights_with_spread_output_channels_is_weight_stationary() -> None:
    """7.1.1: P and Q pass by, W stays."""
    assert classify_dataflow(build_mapping("HK4 WK4 3P8 1Q8", "W")) is Dataflow.WEIGHT


def test_resident_outputs_with_spread_positions_is_output_stationary() -> None:
    """7.1.2: R, S, C are temporal and add to an output that stays."""
    assert classify_dataflow(build_mapping("HP4 WQ4 1C8 0R3 0S3", "O")) is Dataflow.OUTPUT


def test_input_against_output_channels_is_input_stationary() -> None:
    """7.1.3, with no weights in the PEs."""
    assert classify_dataflow(build_mapping("HC4 WK4 1P8", "I")) is Dataflow.INPUT


@pytest.mark.parametrize(
    ("loops", "at_pe", "flows"),
    [
        ("HR3 WK4", "IWO", "RS"),
        ("HC4 WK4", "W", "WS IS"),
        ("HC4 HK4", "W", "WS"),
        ("HP4 WK4", "WO", "WS OS"),
        ("HP4 WC4", "O", "WS OS IS"),  # no description holds
        ("", "", "WS OS IS"),
    ],
)
def test_classes_that_the_array_leaves_are_decided_by_loops(loops: str, at_pe: str, flows: str) -> None:
    """One where a single description holds, all three where none does."""
    mapping = build_mapping(loops, at_pe)
    assert possible_dataflows(mapping.spatial, mapping.stored[0]) == flows.split()


def test_two_descriptions_yield_the_tensor_replaced_least() -> None:
    """7.1.1 and 7.1.3 both hold: whose loops run outside decides."""
    # P inside: W stays through it (1 visit), I is new each time (8 visits).
    assert classify_dataflow(build_mapping("HC4 WK4 1P8", "IW")) is Dataflow.WEIGHT
    # K inside: I stays through it (1 visit), W is new each time (8 visits).
    assert classify_dataflow(build_mapping("HC4 WK4 1K8", "IW")) is Dataflow.INPUT


def test_no_description_yields_the_tensor_replaced_least() -> None:
    """Nothing is spread; only the innermost K loop leaves a tensor, I, in place."""
    assert classify_dataflow(build_mapping("3C4 3P2 0K8")) is Dataflow.INPUT


@pytest.mark.parametrize(
    ("tensor", "at_pe", "visits"),
    [
        # Loops outside the MACs, outermost first: C4 (DRAM), P2 (global buffer), K8 (PE).
        (Tensor.I, "", 4 * 2),  # K, innermost, does not touch I
        (Tensor.W, "", 4 * 2 * 8),  # P is irrelevant, but K lies inside it
        (Tensor.W, "W", 4),  # the PE's tile covers K, P inside C is irrelevant
        (Tensor.O, "O", 4 * 2),  # C is irrelevant, but P lies inside it
    ],
)
def test_tile_visits_skip_only_irrelevant_inner_loops(tensor: Tensor, at_pe: str, visits: int) -> None:
    """The rule of model.md section 4: a tile is its relevant loop indices, and is replaced when they change."""
    assert tile_visits(build_mapping("3C4 1P2 0K8", at_pe), tensor) == visits


def test_loops_outside_an_uneven_tile_replace_it() -> None:
    """W's tile covers C of the PE's K = 8 and C = 2, so K moves it; all of P and C outside do too, through K."""
    mapping = evolve(build_mapping("3C4 1P2 0K8 0C2", "W"), outside=((0, 1, 0), (0, 0, 0)))
    assert tile_visits(mapping, Tensor.W) == 4 * 2 * 8
