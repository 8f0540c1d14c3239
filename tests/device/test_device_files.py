"""Device files are read exactly, and mistakes are told with their place."""

import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.device import Device, device_names, read_device, ticks_of
from cpsat_pim.device.rules import rules_of
from tracesim.commands import Needs, Policy


@pytest.mark.parametrize("name", device_names())
def test_presets_have_rules(name: str) -> None:
    """Every preset can be simulated: commands that need rows name what opens and closes them."""
    device = read_device(name)
    rules = rules_of(device)
    assert rules.axes.prod() == device.cores * device.core.banks
    needs_row = np.isin(rules.needs, (Needs.ROW, Needs.ROWS))
    assert (rules.opens[rules.activate[needs_row]] > 0).all()
    assert (rules.closes[rules.precharge[needs_row]] > 0).all()


@pytest.mark.parametrize("name", device_names())
def test_every_timing_of_a_preset_has_its_source(name: str) -> None:
    """Each line of `timings` ends with the source that it is taken from."""
    lines = files("cpsat_pim.device").joinpath("presets", f"{name}.yaml").read_text().splitlines()
    begin = lines.index(next(line for line in lines if line.startswith("timings:"))) + 1
    timings = [line for line in lines[begin:] if line.startswith("  ")]
    names = {line.strip().split(":")[0] for line in timings} & set(read_device(name).timings)
    for line in timings:
        if line.strip().split(":")[0] in names:
            assert re.search(r"#.*\[[A-Z]\]|# assumption", line), line


def test_attacc_has_the_ticks_of_its_simulator() -> None:
    """Figures that are easily taken wrong: nRFC 456, not 260; MACs 6 apart, 4 without the power limit."""
    limited, free = rules_of(read_device("attacc")), rules_of(read_device("attacc-no-power-limit"))
    device = read_device("attacc")
    mac, refresh, activate = (device.command(name) for name in ("MACAB", "REFAB", "ACTAB"))

    def ticks(rules: np.ndarray, before: int, after: int) -> list[int]:
        found: list[int] = rules[(rules[:, 0] == before) & (rules[:, 1] == after), 3].tolist()
        return found

    assert ticks(limited.constraints, mac, mac) == [6]
    assert ticks(free.constraints, mac, mac) == [4]
    assert ticks(limited.constraints, refresh, activate) == [456]


def test_levels_of_the_devices() -> None:
    """The channel, its axes, and the banks of a core."""
    assert read_device("hbm-pim").levels == ("group", "rank", "bankgroup", "block", "bank")
    assert read_device("attacc").levels[:5] == ("group", "pseudochannel", "rank", "bankgroup", "bank")
    assert rules_of(read_device("hbm-pim")).policy == Policy.WINDOW


@given(
    st.lists(
        st.tuples(st.sampled_from("+-"), st.one_of(st.integers(0, 99), st.sampled_from(["nCL", "nBL"]))), min_size=1
    )
)
def test_sums_of_timings(terms: list[tuple[str, int | str]]) -> None:
    """A sum is what Python's arithmetic makes of it."""
    timings = {"nCL": 19, "nBL": 2}
    text = " ".join(f"{sign} {term}" for sign, term in terms)
    want = sum((1 if sign == "+" else -1) * (term if isinstance(term, int) else timings[term]) for sign, term in terms)
    assert ticks_of(text, timings) == want


def test_a_file_extends_a_preset(tmp_path: Path) -> None:
    """Timings are changed one by one; the name is the file's."""
    path = tmp_path / "fast.yaml"
    path.write_text("version: 1\nextends: attacc\ntimings: {nRP: 10}\n")
    device = read_device(path)
    assert (device.name, device.timings["nRP"], device.timings["nRC"]) == ("fast", 10, 63)


@pytest.mark.parametrize(
    ("change", "line", "problem"),
    [
        ("timings: {nRP: -1}", "3:16", "must be an integer of at least 0"),
        ("controller: {policy: fifo}", "3:22", "must be one of in-order, ready-first, window"),
        ("refresh: {command: REFX}", "3:20", "no such command as REFX"),
        ("refresh: {at: stack}", "3:15", "no such level as stack"),
        ("refresh: {interval: nREFO}", "3:21", "no such timing as nREFO"),
        ("commands: {MACAB: {activate: ACTX}}", "3:30", "no such command as ACTX"),
        ("commands: {MACAB: {does: [divide]}}", "3:26", "must be a list of load"),
        ("core: {lanes: 8}", "3:15", "times element_bytes must be column_bytes 32 (got 8)"),
        ("core: {input_axes: [plane]}", "3:20", "no such axis as plane"),
        ("tick: 3", "3:1", "unknown key"),
    ],
)
def test_mistakes_have_a_place(tmp_path: Path, change: str, line: str, problem: str) -> None:
    """Line and column, the field, the rule and the value."""
    path = tmp_path / "mine.yaml"
    path.write_text(f"version: 1\nextends: attacc\n{change}\n")
    with pytest.raises(ValueError, match=re.escape(problem)) as caught:
        read_device(path)
    assert f"mine.yaml:{line}" in str(caught.value)


def test_unknown_command_of_a_device() -> None:
    """The device and the command are named."""
    device: Device = read_device("attacc")
    with pytest.raises(ValueError, match="attacc has no command MAC16"):
        device.command("MAC16")
