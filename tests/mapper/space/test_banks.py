"""Which assignments of tensors to the banks of a node are searched."""

import attrs
import pytest

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.mapper.space.banks import most_fetched_tensors, searched_banks
from cpsat_pim.mapper.space.restriction import Restriction
from cpsat_pim.mapper.space.subspace import Subspace
from cpsat_pim.mapping import BANKS, OWN_BANKS, banks_text
from cpsat_pim.mapping.constraints import Constraints
from cpsat_pim.workload import ConvWorkload

ONE_BANK = PIMArchitecture(node_banks=1)


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
    assert [banks_text(banks) for banks in found] == searched


def test_a_fixed_assignment_is_searched_if_there_are_the_banks() -> None:
    """Also one with fewer parts than banks; none is shared without `node_banks`."""
    two = attrs.evolve(ONE_BANK, node_banks=2)
    assert searched_banks(two, BANKS["IWO"]) == [BANKS["IWO"]]
    assert searched_banks(two, OWN_BANKS) == []
    assert searched_banks(PIMArchitecture(), OWN_BANKS) == [OWN_BANKS]
    assert searched_banks(PIMArchitecture(), BANKS["IW|O"]) == []


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
