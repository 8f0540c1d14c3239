"""Layers that can have no mapping on a machine, and those that just can."""

from typing import Any

import pytest

from cpsat_pim.arch import ComputeUnit, PIMArchitecture
from cpsat_pim.mapping import BankCounts
from cpsat_pim.mapping.check import check_fits
from cpsat_pim.workload import ConvWorkload
from tests.mapping.check.mappings import PE, ROOMY, ROW_BUFFER, build_arch, change_level


def test_layer_that_fits_has_no_complaint() -> None:
    """A small layer on the default machine."""
    assert check_fits(ConvWorkload(C=64, K=64), PIMArchitecture()) == []


def test_forced_tensors_need_room_for_one_element_each() -> None:
    """A PE that must hold W (1 B) and O (a partial sum of 4 B) has room with 5 bytes, not with 4."""
    layer = ConvWorkload(K=100, psum_bytes=4)
    for size, complaints in (
        (5, []),
        (4, ["Pe: one element of each tensor that it must store takes W 1 + O 4 = 5 B, there are 4 B"]),
    ):
        arch = change_level(build_arch(size), PE, stores=[False, True, True], bypass_defined=True)
        assert check_fits(layer, arch) == complaints


def test_outputs_in_a_row_buffer_may_be_finished_ones() -> None:
    """Its least tile of O is one byte, not a partial sum of four."""
    layer, stores = ConvWorkload(psum_bytes=4), [False, False, True]
    arch = change_level(build_arch(ROOMY, ROOMY, 1), ROW_BUFFER, stores=stores, bypass_defined=True)
    assert check_fits(layer, arch) == []


def test_tensors_that_may_be_bypassed_need_no_room() -> None:
    """A PE of one byte is no obstacle to elements of two, if nothing forces it to hold them."""
    assert check_fits(ConvWorkload(input_bytes=2), build_arch(1)) == []


def test_layer_must_fit_dram_at_its_smallest() -> None:
    """I 6, W 24 and O 4 bytes, though partial sums have 4: 34 bytes."""
    layer = ConvWorkload(C=6, K=4, psum_bytes=4)
    assert check_fits(layer, build_arch(ROOMY, ROOMY, ROOMY, 34)) == []
    assert check_fits(layer, build_arch(ROOMY, ROOMY, ROOMY, 33)) == [
        "Dram: the layer takes at least I 6 + W 24 + O 4 = 34 B, there are 33 B, so it needs 2 nodes or more"
    ]


@pytest.mark.parametrize(
    ("bank_counts", "complaint"),
    [
        ((1, 1, 1), "there are 16 B in a bank, so it needs 3 nodes or more, or more banks (bank_counts: at most 2)"),
        ((2, 1, 1), "there are 16 B in a bank, so it needs 3 nodes or more, or more banks (bank_counts: at most 2)"),
        ((1, 2, 1), "there are 32 B in 2 banks, so it needs 2 nodes or more"),
        (None, "there are 32 B in 2 banks, so it needs 2 nodes or more"),
    ],
)
def test_each_tensor_must_fit_the_banks_that_it_has(bank_counts: BankCounts | None, complaint: str) -> None:
    """Four banks of 16 bytes, of which one tensor can have two: 33 bytes of W fit neither one nor two, 32 fit two."""
    arch = build_arch(ROOMY, ROOMY, ROOMY, 64, node_banks=4)
    assert check_fits(ConvWorkload(C=3, K=11), arch, bank_counts) == [f"Dram: W takes at least 33 B, {complaint}"]
    fits_two = check_fits(ConvWorkload(C=4, K=8), arch, bank_counts) == []
    assert fits_two == (bank_counts in ((1, 2, 1), None))


def test_each_part_has_one_bank_if_nothing_else_is_said() -> None:
    """As in a search without constraints."""
    arch = build_arch(ROOMY, ROOMY, ROOMY, 64, node_banks=4)
    assert check_fits(ConvWorkload(C=4, K=4), arch) == []
    assert check_fits(ConvWorkload(C=4, K=5), arch) == check_fits(ConvWorkload(C=4, K=5), arch, (1, 1, 1)) != []


def test_forced_row_alignment_takes_whole_rows() -> None:
    """W of 12 bytes is two rows of 8 if the row buffer must store it: 16 + 1 + 12."""
    layer, stores = ConvWorkload(K=12), [False, True, False]
    for size, fits in ((29, True), (28, False)):
        arch = change_level(build_arch(ROOMY, ROOMY, ROOMY, size), ROW_BUFFER, stores=stores, bypass_defined=True)
        assert (check_fits(layer, arch) == []) == fits


def test_columns_hold_whole_elements() -> None:
    """Partial sums of 4 bytes need columns of 32 bits."""
    layer = ConvWorkload(C=4, psum_bytes=4)
    assert check_fits(layer, PIMArchitecture(dram_timings={"co_w": 32})) == []
    (problem,) = check_fits(layer, PIMArchitecture(dram_timings={"co_w": 16}))
    assert problem == "DramTimings.co_w: a column of 2 B is narrower than an element of 4 B"
    (problem,) = check_fits(ConvWorkload(C=4, psum_bytes=5), PIMArchitecture())
    assert problem == "DramTimings.co_w: a column of 32 B does not hold whole elements of 5 B"


@pytest.mark.parametrize(
    ("what", "field"),
    [
        ("a MAC", {"array": {"compute_unit": ComputeUnit(mac_energy=2**32 / 10**6)}}),
        ("a row activation", {"activation_energy": 2**32 / 10**6}),
    ],
)
def test_energies_beyond_what_is_counted_are_refused(what: str, field: dict[str, Any]) -> None:
    """2^30 of 2^32 fJ each (MACs; elements are some more) are 2^62 fJ; half as many can be counted."""
    assert check_fits(ConvWorkload(C=2**15, K=2**14), build_arch(**field)) == []
    (problem,) = check_fits(ConvWorkload(C=2**15, K=2**15), build_arch(**field))
    assert problem.startswith(f"{what} of 4294.967296 nJ: ")
    assert problem.endswith(" of them cost more than 2^62 fJ, which cannot be counted")


@pytest.mark.parametrize("field", ["access_cost", "write_cost"])
def test_accesses_beyond_what_is_counted_are_refused(field: str) -> None:
    """At any level, read or written."""
    layer, arch = ConvWorkload(C=2**15, K=2**15), change_level(build_arch(), PE, **{field: 2**32 / 10**6})
    (problem,) = check_fits(layer, arch)
    assert problem.startswith("an access of Pe of 4294.967296 nJ: ")
