"""The fuzzer's own rules: what they forbid, by hand, and that they share no code with the parties they judge."""

import ast
from pathlib import Path

import attrs
import pytest

import cpsat_pim.study.fuzz.enumeration
import cpsat_pim.study.fuzz.oracle
from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim
from cpsat_pim.mapping import BANKS, Mapping
from cpsat_pim.study.fuzz.oracle import Legality, bank_assignments, input_blocks, residency_points
from cpsat_pim.workload import ConvWorkload
from tests.mapping.check.mappings import build_mapping

PARTIES = ("cpsat_pim.mapper", "cpsat_pim.mapping.check", "cpsat_pim.evaluate", "cpsat_pim.study.baselines", "tables")


@pytest.mark.parametrize("module", [cpsat_pim.study.fuzz.oracle, cpsat_pim.study.fuzz.enumeration])
def test_oracle_imports_no_party(module: object) -> None:
    """No rule is taken from the search, the validator, the predictions or the baselines."""
    tree = ast.parse(Path(str(module.__file__)).read_text())  # type: ignore[attr-defined]
    named = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    named += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert [name for name in named if name.startswith(PARTIES)] == []


def is_legal(layer: ConvWorkload, mapping: Mapping, **machine: object) -> bool:
    """Whether the default machine, with some differences, can run a mapping."""
    return Legality(layer, attrs.evolve(PIMArchitecture(), **machine), mapping).is_in_space()


def test_blocks_are_divisors_steps_and_the_tile() -> None:
    """Two rows of six outputs, of which three are a tile: 3 x 3 filters span 5 of 8; divisors 1 2 4, steps 1 3, the
    tile 5.
    """
    layer = ConvWorkload(R=3, P=6)
    blocks = input_blocks(layer, build_mapping("3P2 2P3 0R3", "2 - -", block_h=1, block_w=1))
    assert blocks == [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)]


def test_a_point_lies_inside_a_loop_that_changes_the_tile() -> None:
    """Of K, C, P: W changes with K and C, O with K and P; none for even."""
    order = (Dim.K, Dim.C, Dim.P)
    assert [residency_points(order, t) for t in range(3)] == [[0, 2, 3], [0, 1, 2], [0, 1, 3]]


def test_banks_are_those_of_the_node() -> None:
    """One bank holds all; two leave four partitions of at most two parts; without a number each has its own."""
    counts = {n: len(list(bank_assignments(attrs.evolve(PIMArchitecture(), node_banks=n)))) for n in (1, 2, 3, None)}
    assert counts == {1: 1, 2: 4, 3: 5, None: 1}
    assert set(bank_assignments(attrs.evolve(PIMArchitecture(), node_banks=3))) == set(BANKS.values())


@pytest.mark.parametrize(
    ("layer", "nest", "stored", "says"),
    [
        # Section 3, MACs without a buffer: K over H, and looping in the PEs, needs a buffer for W and O.
        (ConvWorkload(K=6), "0K3 HK2", "- 0 0", True),
        (ConvWorkload(K=6), "0K3 HK2", "- - 0", False),
        (ConvWorkload(K=6), "3K3 HK2", "- - 0", True),
        # Regular scans: a filter needs a buffer for I, and a strided one the global or the row buffer.
        (ConvWorkload(R=3), "0R3", "- 0 0", False),
        (ConvWorkload(R=3), "0R3", "0 0 0", True),
        (ConvWorkload(R=3, P=2, stride=(2, 1)), "0R3 3P2", "0 0 0", True),
        (ConvWorkload(R=3, P=2, stride=(2, 1)), "0R3 HP2", "0 0 0", False),
        (ConvWorkload(R=3, P=2, Q=2, stride=(2, 1)), "0R3 3P2 HQ2", "0 0 0", True),
        (ConvWorkload(R=2, P=2, dilation=(2, 1)), "HR2 0P2", "0 0 0", False),
        (ConvWorkload(R=3, P=2, stride=(2, 1)), "0R3 3P2", "01 0 0", True),
        # A strided 1x1 layer: several positions a PE only if P is not spread.
        (ConvWorkload(P=4, stride=(2, 1)), "0P4", "0 0 0", True),
        (ConvWorkload(P=4, stride=(2, 1)), "0P2 HP2", "0 - 0", False),
        (ConvWorkload(P=4, stride=(2, 1)), "3P2 HP2", "0 - 0", True),
    ],
)
def test_rules_of_what_comes_straight_from_dram(layer: ConvWorkload, nest: str, stored: str, says: bool) -> None:
    """Each rule with a mapping that keeps it and one that does not."""
    assert is_legal(layer, build_mapping(nest, stored)) is says


def test_sums_return_where_a_reduction_runs_outside_a_loop_of_outputs() -> None:
    """C outside K at the DRAM: O's two tiles alternate. K outside C: each ends before the next. Nothing holds O: a
    second C adds.
    """
    layer = ConvWorkload(C=2, K=2)
    nests = {"3C2 3K2": True, "3K2 3C2": False}
    for nest, returns in nests.items():
        assert Legality(layer, PIMArchitecture(), build_mapping(nest, "0 0 0")).sums_return() is returns
    assert Legality(layer, PIMArchitecture(), build_mapping("3K2 3C2", "0 0 -")).sums_return()
