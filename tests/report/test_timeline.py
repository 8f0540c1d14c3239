"""The trace file, against the format's rules and the simulated latency."""

import attrs

from cpsat_pim.evaluate.verify import MappedLayer, simulate
from cpsat_pim.report.timeline import build_timeline
from tests.report.results import ARCH, LAYER, MAPPING

CASE = MappedLayer(layer=LAYER, arch=ARCH, mapping=MAPPING, recorded=None)


def test_trace_ends_with_the_simulated_latency_less_the_constant() -> None:
    """Complete events of whole cycles on named threads; 4 array steps, and I comes in before the first."""
    trace = build_timeline([CASE])["traceEvents"]
    slices = [event for event in trace if event["ph"] == "X"]
    assert max(event["ts"] + event["dur"] for event in slices) == simulate(LAYER, ARCH, MAPPING).latency_cycles - 6
    threads = {event["tid"]: event["args"]["name"] for event in trace if event["name"] == "thread_name"}
    assert {event["tid"] for event in slices} == set(threads)
    steps = [event for event in slices if event["name"] == "array step"]
    assert len(steps) == 4
    first = next(event for event in slices if event["name"] == "I in")
    assert threads[first["tid"]] == "I: LocalDRAM - GlobalBuffer"
    assert first["ts"] + first["dur"] <= steps[0]["ts"]
    assert any(name == "I: GlobalBuffer - MACs" for name in threads.values())


def test_layers_are_processes_with_names() -> None:
    """Processes are numbered from 1; the name states the number of omitted events."""
    trace = build_timeline([CASE, CASE], limit=2)["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in trace if event["name"] == "process_name"}
    assert [*names] == [1, 2]
    assert names[1].startswith("a on default (")
    assert names[1].endswith("events in the middle are omitted)")


def test_shared_bus_is_one_thread() -> None:
    """All that comes from or goes to DRAM is on it."""
    case = attrs.evolve(CASE, arch=attrs.evolve(ARCH, shared_data_bus=True))
    trace = build_timeline([case])["traceEvents"]
    threads = [(event["tid"], event["args"]["name"]) for event in trace if event["name"] == "thread_name"]
    (bus,) = (thread for thread, name in threads if name == "LocalDRAM bus")
    on_bus = {event["name"] for event in trace if event["ph"] == "X" and event["tid"] == bus}
    assert on_bus == {"I in", "W in", "O out"}
