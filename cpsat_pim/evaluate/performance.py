"""Seconds, watts and operations per second of work on one node, from its cycles, its energy and the machine's clock."""

from typing import Any

from attrs import frozen

from cpsat_pim.base.units import FJ_PER_NJ

#: Femtojoules per joule.
FJ_PER_J = FJ_PER_NJ * 10**9
#: Operations of a multiply-accumulate: a multiplication and an addition.
OPS_PER_MAC = 2


@frozen(kw_only=True)
class Performance:
    """Work of one node: `latency_cycles` at `clock` cycles per second, `energy_fj` of MACs, accesses and row
    activations, `macs` without those of padding, and `static_power_w`, which the node draws all the time (W).

    All figures are positive, but `static_power_w` may be 0.
    """

    clock: int
    latency_cycles: int
    energy_fj: int
    macs: int
    static_power_w: float = 0.0

    @property
    def seconds(self) -> float:
        """The latency in seconds."""
        return self.latency_cycles / self.clock

    @property
    def energy_j(self) -> float:
        """Energy of MACs, accesses and row activations, J."""
        return self.energy_fj / FJ_PER_J

    @property
    def static_energy_j(self) -> float:
        """Energy of the static power over the latency, J."""
        return self.static_power_w * self.seconds

    @property
    def power_w(self) -> float:
        """Mean power over the latency, static power included, W."""
        return self.energy_j / self.seconds + self.static_power_w

    @property
    def tops(self) -> float:
        """10^12 operations per second."""
        return OPS_PER_MAC * self.macs / self.seconds / 1e12

    @property
    def tops_per_w(self) -> float | None:
        """10^12 operations per joule, static energy included; None if no energy is known."""
        joules = self.energy_j + self.static_energy_j
        return OPS_PER_MAC * self.macs / joules / 1e12 if joules else None

    @property
    def runs_per_second(self) -> float:
        """How often the work can be done in a second: inferences per second of a whole network."""
        return 1 / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data (docs/json.md)."""
        return {
            "latency_s": self.seconds,
            "energy_j": self.energy_j,
            "static_energy_j": self.static_energy_j,
            "power_w": self.power_w,
            "tops": self.tops,
            "tops_per_w": self.tops_per_w,
            "runs_per_second": self.runs_per_second,
        }


def performance_of(arch: dict[str, Any], latency_cycles: int, energy_fj: int, macs: int) -> Performance | None:
    """Return the performance of work on one node of a machine, given as plain data; None without a clock or work."""
    clock, static_power = arch.get("clock"), arch.get("static_power")
    if not clock or not latency_cycles:
        return None
    return Performance(
        clock=clock,
        latency_cycles=latency_cycles,
        energy_fj=energy_fj,
        macs=macs,
        static_power_w=static_power or 0.0,
    )
