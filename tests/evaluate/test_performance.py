"""Seconds, watts and operations per second."""

import pytest

from cpsat_pim.evaluate.performance import Performance, performance_of


def test_figures_are_those_of_hand_arithmetic() -> None:
    """1,000 cycles at 500 MHz are 2 us. 4 nJ in 2 us are 2 mW, and 3 mW of static power are 6 nJ more. 10,000 MACs are
    20,000 operations: 10 G a second, and 2 T a joule of 10 nJ.
    """
    work = Performance(clock=500_000_000, latency_cycles=1_000, energy_fj=4_000_000, macs=10_000, static_power_w=0.003)
    expected = {
        "latency_s": 2e-6,
        "energy_j": 4e-9,
        "static_energy_j": 6e-9,
        "power_w": 5e-3,
        "tops": 0.01,
        "tops_per_w": 2.0,
        "runs_per_second": 500_000,
    }
    assert work.to_dict() == pytest.approx(expected)


def test_without_clock_or_work_there_is_none() -> None:
    """Cycles of an unknown length are no time."""
    assert performance_of({"clock": None, "static_power": 1.0}, 5, 5, 5) is None
    assert performance_of({"clock": 1_000_000}, 0, 0, 0) is None


def test_machine_without_energies_has_no_efficiency() -> None:
    """0 J are no divisor."""
    work = performance_of({"clock": 1_000_000}, 10, 0, 5)
    assert work is not None
    assert (work.power_w, work.tops_per_w) == (0, None)
