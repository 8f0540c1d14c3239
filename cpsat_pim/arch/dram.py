"""DRAM timing (table 1 and JEDEC names), in cycles of the machine's clock."""

from collections.abc import Iterator

from attrs import field, frozen

from cpsat_pim.base.units import measured_in
from cpsat_pim.base.validate import not_negative, or_none, positive

_CYCLES = measured_in("cycle")
#: Refreshes are microseconds apart: fewer cycles than these are those of a clock in a wrong unit.
_LEAST_TREFI_CYCLES = 10


@frozen(kw_only=True)
class DramTimings:
    """Timing of one bank, cycles; `BL` beats a burst (two a cycle), `co_w` bits a column access moves.

    Defaults: table 1 (RL, WL, tRCDRD, tRP, BL, co_w); the rest from the HBM2 file of Samsung's PIMSimulator
    (ini/HBM2_samsung_2M_16B_x64.ini) at 1 ns: tRAS 33, tRC 47, tRTPL 5, tCCDL 4.

    The timings from tRFC on may be absent. No cost and no proof uses them: they give the second-order figures of
    `cpsat_pim.evaluate.second_order`. All banks of a node are refreshed together, for tRFC once in tREFI. tRTW is the
    time from a read command to a write command, as simulators state it; tWTR begins at the end of the written burst.

    Raises:
        ValueError: a figure is negative, co_w is not a whole number of bytes, a new row takes no time, or an optional
        timing contradicts another.
    """

    RL: int = field(default=25, validator=not_negative, metadata=_CYCLES)
    WL: int = field(default=20, validator=not_negative, metadata=_CYCLES)
    tRCDRD: int = field(default=14, validator=not_negative, metadata=_CYCLES)
    tRP: int = field(default=14, validator=not_negative, metadata=_CYCLES)
    tRAS: int = field(default=33, validator=not_negative, metadata=_CYCLES)
    tRC: int = field(default=47, validator=not_negative, metadata=_CYCLES)
    tRTP: int = field(default=5, validator=not_negative, metadata=_CYCLES)
    tCCD_L: int = field(default=4, validator=positive, metadata=_CYCLES)
    BL: int = field(default=8, validator=positive)
    co_w: int = field(default=256, validator=positive, metadata=measured_in("bit"))
    tRFC: int | None = field(default=None, validator=or_none(not_negative), metadata=_CYCLES)
    tREFI: int | None = field(default=None, validator=or_none(positive), metadata=_CYCLES)
    tWR: int | None = field(default=None, validator=or_none(not_negative), metadata=_CYCLES)
    tWTR: int | None = field(default=None, validator=or_none(not_negative), metadata=_CYCLES)
    tRTW: int | None = field(default=None, validator=or_none(not_negative), metadata=_CYCLES)
    tRRD: int | None = field(default=None, validator=or_none(not_negative), metadata=_CYCLES)
    tFAW: int | None = field(default=None, validator=or_none(not_negative), metadata=_CYCLES)

    def __attrs_post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ValueError("\n".join(f"DramTimings.{problem}" for problem in problems))

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong: a column of a new row must take at least as long as the next column of the open row, as
        the bounds assume.
        """
        if self.co_w % 8:
            yield f"co_w: must be a multiple of 8 bits (got {self.co_w})"
        sums = {"tRCDRD + tRTP + tRP": self.activation_latency + self.tCCD_L}
        sums["tRCDRD + RL + BL/2"] = self.tRCDRD + self.RL + self.burst_cycles
        for what, cycles in sums.items():
            if self.tCCD_L > cycles:
                yield f"tCCD_L: must be at most {what} = {cycles} (got {self.tCCD_L})"
        yield from self._optional_problems()

    def _optional_problems(self) -> Iterator[str]:
        """Yield what is wrong among the optional timings. Several banks open rows at least as fast as one bank."""
        if (self.tRFC is None) != (self.tREFI is None):
            yield "tRFC, tREFI: must be given both, or neither"
        if self.tRFC is not None and self.tREFI is not None and self.tRFC >= self.tREFI:
            is_slow = "; is the unit of the clock right?" if self.tREFI < _LEAST_TREFI_CYCLES else ""
            yield f"tRFC: must be less than tREFI = {self.tREFI} (got {self.tRFC}){is_slow}"
        for name, rows in (("tRRD", 1), ("tFAW", 4)):
            cycles, most = getattr(self, name), rows * self.least_run
            if cycles is not None and cycles > most:
                yield f"{name}: must be at most {most}, as long as a bank takes for {rows} of its rows (got {cycles})"

    @property
    def column_bytes(self) -> int:
        """Bytes of one column access."""
        return self.co_w // 8

    @property
    def burst_cycles(self) -> int:
        """Cycles that a burst occupies the data bus (double data rate)."""
        return self.BL // 2

    @property
    def activation_latency(self) -> int:
        """Cycles that a row activation adds to a long run of column accesses (the activation latency of Eq. 33)."""
        return self.tRCDRD + self.tRTP + self.tRP - self.tCCD_L

    @property
    def single_period(self) -> int:
        """Cycles from one activation of a bank to its next one, if a single column is read between."""
        return max(self.tRC, max(self.tRAS, self.tRCDRD + self.tRTP) + self.tRP)

    @property
    def least_run(self) -> int:
        """Cycles that any row takes: from its activation to the next one, or to the end of its last data."""
        return min(self.single_period, self.tRCDRD + self.RL + self.burst_cycles)
