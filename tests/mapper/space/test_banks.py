"""Which assignments of tensors to the banks of a node are searched."""

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Dim, Level, Tensor
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import simulate
from cpsat_pim.mapper.result import Objective, Status
from cpsat_pim.mapper.search import SolveRequest, solve_layer
from cpsat_pim.mapper.space.banks import most_fetched_tensors, searched_banks
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import BANKS, OWN_BANKS, Mapping, banks_text
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.study.fuzz.oracle import bank_assignments, bank_counts
from cpsat_pim.workload import ConvWorkload

ONE_BANK = PIMArchitecture(node_banks=1)
_FOUR = PIMArchitecture(node_banks=4, shared_data_bus=True)


@pytest.mark.parametrize(
    ("node_banks", "searched"),
    [
        (None, ["I|W|O"]),
        (1, ["IWO"]),
        (2, ["IW|O", "IO|W", "I|WO"]),
        (3, ["I|W|O"]),
        (16, ["I|W|O"]),
    ],
)
def test_as_many_parts_as_banks_are_searched(node_banks: int | None, searched: list[str]) -> None:
    """At most three; without `node_banks` each tensor has banks of its own."""
    found = searched_banks(attrs.evolve(ONE_BANK, node_banks=node_banks))
    assert [banks_text(banks) for banks, _ in found] == searched
    assert {counts for _, counts in found} == {(1, 1, 1)}


def test_a_fixed_assignment_is_searched_if_there_are_the_banks() -> None:
    """Also one with fewer parts than banks; none is shared without `node_banks`."""
    two = attrs.evolve(ONE_BANK, node_banks=2)
    shared, own, partly = (Constraints(banks=BANKS[text]) for text in ("IWO", "I|W|O", "IW|O"))
    assert searched_banks(two, shared) == [(BANKS["IWO"], (1, 1, 1))]
    assert searched_banks(two, own) == []
    assert searched_banks(PIMArchitecture(), own) == [(OWN_BANKS, (1, 1, 1))]
    assert searched_banks(PIMArchitecture(), partly) == []


@pytest.mark.parametrize(
    ("node_banks", "searched"),
    [
        (None, {"I|W|O 1 1 1"}),
        (1, {"IWO 1 1 1"}),
        (2, {"IW|O 1 1 1", "IO|W 1 1 1", "I|WO 1 1 1"}),
        # One tensor with two banks beside a shared one is not among three parts of one bank.
        (3, {"I|W|O 1 1 1", "IW|O 1 1 2", "IO|W 1 2 1", "I|WO 2 1 1"}),
        (4, {"I|W|O 2 1 1", "I|W|O 1 2 1", "I|W|O 1 1 2"}),
        (8, {"I|W|O 4 2 2", "I|W|O 2 4 2", "I|W|O 2 2 4"}),
        (16, {"I|W|O 8 4 4", "I|W|O 4 8 4", "I|W|O 4 4 8"}),
    ],
)
def test_bank_counts_that_none_dominates_are_searched(node_banks: int | None, searched: set[str]) -> None:
    """Of a power of two one tensor has half, the others a quarter each."""
    found = searched_banks(attrs.evolve(ONE_BANK, node_banks=node_banks), Constraints(bank_counts=None))
    assert {f"{banks_text(banks)} {' '.join(map(str, counts))}" for banks, counts in found} == searched


@pytest.mark.parametrize("node_banks", range(1, 18))
def test_every_assignment_becomes_one_that_is_searched(node_banks: int) -> None:
    """By dividing parts and doubling banks, one at a time, within the banks of the node at the end."""
    arch = attrs.evolve(ONE_BANK, node_banks=node_banks)
    searched = searched_banks(arch, Constraints(bank_counts=None))
    for banks in bank_assignments(arch):
        for counts in bank_counts(arch, banks):
            assert any(
                all(banks[t] == banks[u] for t in range(3) for u in range(3) if finer[t] == finer[u])
                and all(more % few == 0 for more, few in zip(most, counts, strict=True))
                for finer, most in searched
            )


def test_fixed_bank_counts_are_searched_if_there_are_the_banks() -> None:
    """With every assignment that leaves a part of several tensors one bank."""
    eight = attrs.evolve(ONE_BANK, node_banks=8)
    assert searched_banks(eight, Constraints(bank_counts=(4, 2, 2))) == [(OWN_BANKS, (4, 2, 2))]
    assert searched_banks(eight, Constraints(bank_counts=(4, 4, 2))) == []
    three = attrs.evolve(ONE_BANK, node_banks=3)
    assert searched_banks(three, Constraints(bank_counts=(1, 1, 2))) == [(BANKS["IW|O"], (1, 1, 2))]


def test_one_tensor_of_a_shared_bank_may_be_fetched_most() -> None:
    """Each of the part in turn; with closed pages, or banks of its own, it does not matter."""
    assert most_fetched_tensors(ONE_BANK, BANKS["IO|W"]) == [Tensor.I, Tensor.O]
    assert most_fetched_tensors(ONE_BANK, OWN_BANKS) == [None]
    assert most_fetched_tensors(attrs.evolve(ONE_BANK, page_policy="closed"), BANKS["IWO"]) == [None]


def test_nothing_is_row_aligned_in_a_shared_bank() -> None:
    """With one bank the aligned subspace is empty; with two, the tensor with a bank for itself may be row-aligned."""
    layer = ConvWorkload(C=4, K=4)
    shared, partly = (Constraints(banks=BANKS[text]) for text in ("IWO", "IW|O"))
    assert Restriction(layer, ONE_BANK, shared, Subspace.ALIGNED).is_empty
    two = Restriction(layer, attrs.evolve(ONE_BANK, node_banks=2), partly, Subspace.ALIGNED)
    assert not two.is_empty
    assert [True in two.storing_choices(Level.ROW_BUFFER, t) for t in Tensor] == [False, False, True]


#: Three loads of I from rows of its own; all of W lies in one row, and so does the only output.
_DRAWN = Mapping(
    temporal=((1,) * 8, (1,) * 8, (1,) * 8, ConvWorkload(C=3).bounds),
    spatial=((1,) * 8,) * 3,
    order=((), (), (), (Dim.C,)),
    stored=((False, True, False), (True, False, True), (True, False, False)),
    block_h=1,
    block_w=1,
    banks=BANKS["I|WO"],
)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_divided_part_takes_no_more_energy_but_perhaps_longer(is_shared: bool) -> None:
    """One bank's runs follow each other, where the first run of each of two banks has an access before it."""
    layer, arch = ConvWorkload(C=3, input_bytes=4), attrs.evolve(_FOUR, shared_data_bus=is_shared)
    coarse, fine = (simulate(layer, arch, attrs.evolve(_DRAWN, banks=banks)) for banks in (_DRAWN.banks, OWN_BANKS))
    assert fine.energy_fj <= coarse.energy_fj
    assert 0 < fine.latency_cycles - coarse.latency_cycles < arch.dram_timings.tRCDRD


def test_a_mapping_of_an_assignment_that_is_not_searched_is_no_start() -> None:
    """Unless that assignment is fixed: then its optimum costs no more."""
    layer = ConvWorkload(C=3, input_bytes=4)
    request = SolveRequest(objective=Objective.named("latency"), then=None, start=_DRAWN)
    with pytest.raises(ValueError, match=r"banks: I\|WO are searched only if they are fixed \(banks, bank_counts\)$"):
        solve_layer(layer, _FOUR, request)
    solved = solve_layer(layer, _FOUR, attrs.evolve(request, constraints=Constraints(banks=_DRAWN.banks)))
    assert solved.status is Status.OPTIMAL
    assert solved.bound <= predict(layer, _FOUR, _DRAWN).figures.latency_cycles
