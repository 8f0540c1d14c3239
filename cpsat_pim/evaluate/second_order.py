"""Second-order effects of DRAM on a mapped layer's DRAM time: refresh, read/write turnaround, overlapping activations.

The figures stand beside the exact one, which leaves these effects out (docs/model.md, section 5). They are part of no
objective and of no proof. An effect whose timings the machine does not name changes nothing.
"""

from typing import Any

import numpy as np
from attrs import frozen

from cpsat_pim.arch import DramTimings, PIMArchitecture
from cpsat_pim.base.units import to_fj
from cpsat_pim.evaluate.cost import Figures
from cpsat_pim.evaluate.verify import stream_columns
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.widths import in_whole_units
from cpsat_pim.workload import ConvWorkload
from tracesim.service import Rules, Service, serve_stream, served_cycles


@frozen(kw_only=True)
class Refresh:
    """DRAM time with refresh, cycles: an estimate, and an upper bound (None if refreshes leave no time to bound it).

    `refreshes`, `more_activations` and `more_activation_fj`: at most that many refreshes, and activations, with their
    energy, of rows that a refresh has closed; None with the bound.
    """

    is_timed: bool
    estimated_cycles: int
    upper_cycles: int | None
    refreshes: int | None
    more_activations: int | None
    more_activation_fj: int | None


@frozen(kw_only=True)
class Turnaround:
    """DRAM time with writes timed as writes, cycles; None where pages are closed, as scans are not told apart there.

    `to_writes`, `to_reads`: accesses behind one of the other direction. `is_exact`: with rows of one bank open at a
    time the cycles are those of service in order; else activations of several banks are taken one after the other.
    """

    is_timed: bool
    is_exact: bool
    cycles: int | None
    to_writes: int
    to_reads: int


@frozen(kw_only=True)
class SecondOrder:
    """The second-order figures of a mapped layer beside its exact DRAM time, cycles.

    `overlapping_cycles`: a lower bound of the DRAM time if activations of several banks overlap.
    """

    dram_cycles: int
    refresh: Refresh
    turnaround: Turnaround
    overlapping_cycles: int

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data (docs/json.md)."""
        refresh, turnaround = self.refresh, self.turnaround
        return {
            "dram_cycles": self.dram_cycles,
            "with_refresh": {
                "timed": refresh.is_timed,
                "estimated_cycles": refresh.estimated_cycles,
                "upper_bound_cycles": refresh.upper_cycles,
                "refreshes_at_most": refresh.refreshes,
                "more_activations_at_most": refresh.more_activations,
                "more_activation_fj_at_most": refresh.more_activation_fj,
            },
            "with_turnaround": {
                "timed": turnaround.is_timed,
                "exact": turnaround.is_exact,
                "cycles": turnaround.cycles,
                "switches": {"to_write": turnaround.to_writes, "to_read": turnaround.to_reads},
            },
            "with_overlapping_activations": {"lower_bound_cycles": self.overlapping_cycles},
        }


def second_order(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping, figures: Figures) -> SecondOrder:
    """Return the second-order figures of a legal mapping, of which `figures` are the exact ones.

    Every column access is served once more, so it takes about as long as a simulation.
    """
    layer, arch = in_whole_units(layer, arch)
    service = _serve(layer, arch, mapping)
    return SecondOrder(
        dram_cycles=figures.dram_cycles,
        refresh=refresh_of(arch, figures, mapping.part_banks),
        turnaround=_turnaround(arch, mapping, service),
        overlapping_cycles=_overlapping(arch, mapping, service, figures),
    )


def _serve(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> Service:
    """Serve the column accesses of a mapping, in the order of its loop nest."""
    stream, part = stream_columns(layer, arch, mapping), np.array(mapping.banks, np.int64)
    banks = arch.banks * np.array(mapping.bank_counts, np.int64)
    timings = arch.dram_timings
    rules = (_write_rules(timings), _read_rules(timings))
    return serve_stream(stream, part, banks, arch.row_bytes, arch.shared_data_bus, *rules)


# --- Refresh ---------------------------------------------------------------------------------------------------------


def refresh_of(arch: PIMArchitecture, figures: Figures, part_banks: tuple[int, ...]) -> Refresh:
    """Return the DRAM time with refresh; `part_banks` as in `Mapping`.

    Estimate: of every tREFI cycles, tRFC serve no access. Upper bound: a refresh also closes the row of each bank. To
    cut a run in two costs at most the period of a run of one column, as period(n) is the larger of a constant and a
    linear function of n. So a refresh delays by at most S = tRFC + rows * period(1), with the rows of the banks whose
    times add up. The k-th refresh begins no earlier than (k-1) tREFI, and while an access is still to come, hence
    before cycle D + (k-1) S. So there are at most k = ceil(D / (tREFI - S)) of them.
    """
    timings, cycles = arch.dram_timings, figures.dram_cycles
    if timings.tRFC is None or timings.tREFI is None:
        return Refresh(
            is_timed=False,
            estimated_cycles=cycles,
            upper_cycles=cycles,
            refreshes=0,
            more_activations=0,
            more_activation_fj=0,
        )
    in_turn = sum(part_banks) if arch.shared_data_bus else max(part_banks)
    delay = timings.tRFC + arch.banks * in_turn * timings.single_period
    free, most = timings.tREFI - delay, None
    if free > 0:
        most = -(-cycles // free)
    activations = None if most is None else most * arch.banks * sum(part_banks)
    return Refresh(
        is_timed=True,
        estimated_cycles=-(-cycles * timings.tREFI // (timings.tREFI - timings.tRFC)),
        upper_cycles=None if most is None else cycles + most * delay,
        refreshes=most,
        more_activations=activations,
        more_activation_fj=None if activations is None else activations * to_fj(arch.activation_energy),
    )


# --- Write recovery, and turnaround ----------------------------------------------------------------------------------


def _read_rules(timings: DramTimings) -> Rules:
    """Return the rules of section 5: writes are timed like reads."""
    gap, to_precharge = np.full((2, 2), timings.tCCD_L), np.full(2, timings.tRTP)
    return Rules(gap, to_precharge, np.array([timings.tRCDRD, timings.tRAS, timings.tRP, timings.tRC]))


def _write_rules(timings: DramTimings) -> Rules:
    """Return the rules for writes: tWTR and tWR count from the end of the burst, WL + BL/2 after the command."""
    rules, written = _read_rules(timings), timings.WL + timings.burst_cycles
    waits = (timings.tRTW, timings.tWTR if timings.tWTR is None else written + timings.tWTR)
    for (way, following), wait in zip(((0, 1), (1, 0)), waits, strict=True):
        rules.gap[way, following] = max(timings.tCCD_L, wait or 0)
    if timings.tWR is not None:
        rules.to_precharge[1] = max(timings.tRTP, written + timings.tWR)
    return rules


def _turnaround(arch: PIMArchitecture, mapping: Mapping, service: Service) -> Turnaround:
    """Return the DRAM time with writes timed as writes: the longest part's, or on a shared bus their sum."""
    timings, parts = arch.dram_timings, mapping.part_banks
    served = [_cycles(timings, run) for run in service.merged]
    cycles = sum(served) if arch.shared_data_bus else max(served)
    return Turnaround(
        is_timed=any(wait is not None for wait in (timings.tWR, timings.tWTR, timings.tRTW)),
        is_exact=arch.banks * max(parts) == 1 and not (arch.shared_data_bus and len(parts) > 1),
        cycles=cycles if arch.page_policy == "open" else None,
        to_writes=int(service.switches[1]),
        to_reads=int(service.switches[0]),
    )


# --- Overlapping activations -----------------------------------------------------------------------------------------


def _overlapping(arch: PIMArchitecture, mapping: Mapping, service: Service, figures: Figures) -> int:
    """Return a lower bound of the DRAM time if a bank may open a row while others are busy, cycles.

    Parts with buses of their own are bounded one by one; with a shared bus all banks are bounded together.
    """
    activations = [sum(figures.row_activations[t] for t in range(3) if mapping.banks[t] == p) for p in range(3)]
    # Whatever other banks do, a bank serves its own accesses in its own runs.
    alone = [max(_cycles(arch.dram_timings, run) for run in banks) for banks in service.alone]
    parts = list(zip(service.columns.tolist(), activations, alone, strict=True))
    if arch.shared_data_bus:
        parts = [(int(service.columns.sum()), sum(activations), max(alone))]
    return max(max(cycles, _bus_bound(arch, columns, rows)) for columns, rows, cycles in parts)


def _cycles(timings: DramTimings, run: Any) -> int:
    """Return the cycles of a sequence of runs, to the end of the last data."""
    return served_cycles(run, timings.RL + timings.burst_cycles)


def _bus_bound(arch: PIMArchitecture, columns: int, activations: int) -> int:
    """Return the least cycles of so many columns and activations over any number of banks: a column in tCCD_L, an
    activation in tRRD, four in tFAW; before the first column lies tRCD, behind the last one RL and its burst.
    """
    timings = arch.dram_timings
    if not columns:
        return 0
    last_row, burst = max(activations - 1, 0), timings.tRCDRD + timings.RL + timings.burst_cycles
    rows = max(last_row * (timings.tRRD or 0), last_row // 4 * (timings.tFAW or 0))
    return burst + max((columns - 1) * timings.tCCD_L, rows)
