"""Second-order figures: refresh, turnaround and overlapping activations, by hand and as properties."""

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpsat_pim.arch import DramTimings, PIMArchitecture
from cpsat_pim.base.dims import Dim, Level
from cpsat_pim.evaluate.cost import Figures, predict
from cpsat_pim.evaluate.second_order import SecondOrder, refresh_of, second_order
from cpsat_pim.mapping import Mapping
from cpsat_pim.workload import ConvWorkload
from tests.cross.cases import Case, cases

ONES = (1,) * 8


def machine(banks: int = 1, **timings: int) -> PIMArchitecture:
    """A machine whose period of one column is 9 cycles: max(tRC 9, max(tRAS 5, tRCD 3 + tRTP 2) + tRP 4)."""
    named = {"RL": 6, "WL": 5, "tRCDRD": 3, "tRP": 4, "tRAS": 5, "tRC": 9, "tRTP": 2, "tCCD_L": 2, "BL": 4, "co_w": 64}
    default = PIMArchitecture()
    dram = attrs.evolve(default.hierarchy[Level.DRAM], num_banks=banks)
    row_buffer = attrs.evolve(default.hierarchy[Level.ROW_BUFFER], row_buffer_size=64)
    return attrs.evolve(
        default,
        dram_timings=DramTimings(**(named | timings)),
        hierarchy=(*default.hierarchy[: Level.ROW_BUFFER], row_buffer, dram),
        activation_energy=0.001,
    )


def figures(dram_cycles: int) -> Figures:
    """Figures of which only the DRAM time matters."""
    return Figures(
        latency_cycles=0,
        compute_cycles=0,
        dram_cycles=dram_cycles,
        energy_fj=0,
        row_activations=(1, 1, 1),
        column_accesses=(1, 1, 1),
        accesses=(),
    )


def timed(case: Case, **timings: int) -> Case:
    """The case on a machine with more timings."""
    arch = attrs.evolve(case.arch, dram_timings=attrs.evolve(case.arch.dram_timings, **timings))
    return attrs.evolve(case, arch=arch)


def effects(case: Case) -> SecondOrder:
    """The second-order figures of a case."""
    exact = predict(case.layer, case.arch, case.mapping).figures
    return second_order(case.layer, case.arch, case.mapping, exact)


# --- Refresh ---------------------------------------------------------------------------------------------------------


def test_refresh_by_hand() -> None:
    """1,000 cycles at 10 of 100 lost: 1000/0.9 = 1111.1. A refresh delays by at most 10 + 9; ceil(1000/(100-19)) = 13
    of them, 13 * 19 = 247 cycles and 13 activations of 1,000 fJ in each of three parts' banks.
    """
    found = refresh_of(machine(tRFC=10, tREFI=100), figures(1000), part_banks=(1, 1, 1))
    assert (found.estimated_cycles, found.upper_cycles, found.refreshes) == (1112, 1247, 13)
    assert (found.more_activations, found.more_activation_fj) == (39, 39_000)


def test_refresh_of_a_shared_bus_opens_the_rows_of_all_parts_one_after_the_other() -> None:
    """Three parts of two banks: 10 + 6 * 9 = 64 cycles a refresh, ceil(1000/36) = 28 refreshes, 28 * 6 activations."""
    arch = attrs.evolve(machine(banks=2, tRFC=10, tREFI=100), shared_data_bus=True)
    found = refresh_of(arch, figures(1000), part_banks=(1, 1, 1))
    assert (found.upper_cycles, found.refreshes, found.more_activations) == (1000 + 28 * 64, 28, 168)


def test_refresh_opens_the_rows_of_each_parts_own_banks() -> None:
    """4, 2 and 1 banks: 10 + 4 * 9 = 46 cycles a refresh, ceil(1000/54) = 19 refreshes, 19 * 7 activations."""
    found = refresh_of(machine(tRFC=10, tREFI=100), figures(1000), part_banks=(4, 2, 1))
    assert (found.upper_cycles, found.refreshes, found.more_activations) == (1000 + 19 * 46, 19, 133)


def test_refreshes_that_leave_no_time_have_no_upper_bound() -> None:
    """10 + 10 banks * 9 = 100 cycles a refresh in an interval of 100: the estimate remains."""
    found = refresh_of(machine(banks=10, tRFC=10, tREFI=100), figures(1000), part_banks=(1, 1, 1))
    assert (found.estimated_cycles, found.upper_cycles, found.more_activations) == (1112, None, None)


@given(st.integers(0, 10**9), st.integers(0, 900), st.integers(1000, 5000), st.integers(1, 8))
def test_refresh_grows_with_its_time_and_the_bound_is_above_the_estimate(cycles, tRFC, tREFI, banks) -> None:
    """A longer refresh, and a shorter interval, cost no less; exact <= estimate <= upper bound."""
    least, longer, oftener = (
        refresh_of(machine(banks=banks, tRFC=length, tREFI=interval), figures(cycles), (1, 1, 1))
        for length, interval in ((tRFC, tREFI), (tRFC + 5, tREFI), (tRFC, tREFI - 10))
    )
    assert cycles <= least.estimated_cycles <= min(longer.estimated_cycles, oftener.estimated_cycles)
    for found in (least, longer, oftener):
        assert found.upper_cycles is None or found.estimated_cycles <= found.upper_cycles


@pytest.mark.parametrize(
    ("timings", "message"),
    [
        ({"tRFC": 10}, "tRFC, tREFI: must be given both, or neither"),
        ({"tREFI": 10}, "tRFC, tREFI: must be given both, or neither"),
        ({"tRFC": 10, "tREFI": 10}, "tRFC: must be less than tREFI = 10"),
        ({"tRRD": 10}, "tRRD: must be at most 9, as long as a bank takes for 1 of its rows"),
        ({"tFAW": 37}, "tFAW: must be at most 36, as long as a bank takes for 4 of its rows"),
    ],
)
def test_optional_timings_that_contradict_are_rejected(timings, message) -> None:
    """One line says which timing, and what is expected."""
    with pytest.raises(ValueError, match=message):
        machine(**timings)


# --- Mapped layers ---------------------------------------------------------------------------------------------------


def spilled() -> tuple[ConvWorkload, Mapping]:
    """C=2 outside K=2 from DRAM, all operands a byte; nothing is stored but in the PEs: O's two sums are spilled.

    O's columns: W o0 | W o1 | R o0, W o0 | R o1, W o1, a scan each, in one column of one row. In the step in which a
    tile returns, the old one goes out before: W o0, W o1, R o0, W o0, R o1, W o1.
    """
    layer = ConvWorkload(C=2, K=2)
    loops = (1, 1, 1, 1, 2, 2, 1, 1)
    mapping = Mapping(
        temporal=(ONES, ONES, ONES, loops),
        spatial=(ONES, ONES, ONES),
        order=((), (), (), (Dim.C, Dim.K)),
        stored=((True, True, True), (False,) * 3, (False,) * 3),
    )
    return layer, mapping


def test_turnaround_of_spilled_sums_by_hand() -> None:
    """O's scans: write o0, then (o1 leaves, o0 returns) write o1, read o0, write o0, read o1, write o1.

    Commands: W 3, W 5, R 5+(5+2+3)=15, W 15+8=23, R 33, W 41; the last data ends at 41 + RL 6 + 2 = 49. As reads six
    columns take 3 + 5 * 2 + 8 = 21 cycles. Both directions change twice.
    """
    layer, mapping = spilled()
    plain, timed_arch = machine(), machine(tWR=7, tWTR=3, tRTW=8)
    exact = predict(layer, plain, mapping).figures
    found = second_order(layer, timed_arch, mapping, exact).turnaround
    assert (exact.dram_cycles, found.cycles, found.is_exact, found.is_timed) == (21, 49, True, True)
    assert (found.to_writes, found.to_reads) == (2, 2)


@settings(max_examples=60, deadline=None)
@given(cases(uneven=True))
def test_without_optional_timings_the_figures_are_the_exact_ones(case: Case) -> None:
    """Refresh and turnaround add nothing; the service in order ends in the predicted cycle, by another walk."""
    found = effects(case)
    assert (found.refresh.estimated_cycles, found.refresh.upper_cycles) == (found.dram_cycles, found.dram_cycles)
    assert not found.refresh.is_timed
    assert not found.turnaround.is_timed
    if case.arch.page_policy == "open":
        assert found.turnaround.cycles == found.dram_cycles
    else:
        assert found.turnaround.cycles is None


@settings(max_examples=60, deadline=None)
@given(cases(), st.dictionaries(st.sampled_from(["tWR", "tWTR", "tRTW"]), st.integers(0, 30)))
def test_slower_writes_cost_no_less(case: Case, timings: dict[str, int]) -> None:
    """Each optional timing delays; none makes a stream shorter."""
    case = attrs.evolve(case, arch=attrs.evolve(case.arch, page_policy="open"))
    slow, slower = (effects(timed(case, **{k: v + more for k, v in timings.items()})) for more in (0, 4))
    assert slow.dram_cycles <= slow.turnaround.cycles <= slower.turnaround.cycles


@settings(max_examples=60, deadline=None)
@given(cases(uneven=True))
def test_overlapping_activations_bound_the_exact_figure_from_below(case: Case) -> None:
    """Equal where each part has one bank and a bus; tRRD and tFAW raise it, but never above the exact one."""
    most = case.arch.dram_timings.least_run
    plain = effects(case)
    limited = effects(timed(case, tRRD=most, tFAW=4 * most))
    assert 0 < plain.overlapping_cycles <= limited.overlapping_cycles <= plain.dram_cycles
    if case.arch.banks == 1 and case.arch.page_policy == "open" and not case.arch.shared_data_bus:
        assert plain.overlapping_cycles == plain.dram_cycles
