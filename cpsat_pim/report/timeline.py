"""The simulated pipeline as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open (Trace Event Format).

A layer is a process, each link and the PE array a thread of it. One cycle is shown as one microsecond.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.evaluate.verify import MappedLayer, record
from tracesim.timeline import ARRAY_STEP, LIMIT, MOVE_OUT, STREAM, Timeline

#: Most events of one layer; of more only the first half and the last half of this number are kept.
LIMIT_EVENTS = 100_000
_ARRAY, _LIMITS, _FIRST_LINK = 0, 1, 2
Event = dict[str, Any]


def build_timeline(cases: Sequence[MappedLayer], limit: int = LIMIT_EVENTS) -> dict[str, Any]:
    """Build the trace of mapped layers. Each layer starts at cycle 0, without the constant pipeline latency."""
    timelines = (record(case.layer, case.arch, case.mapping, limit) for case in cases)
    processes = [
        _process(number, case.layer.name, case.arch, timeline)
        for number, (case, timeline) in enumerate(zip(cases, timelines, strict=True), start=1)
    ]
    events = [event for process in processes for event in process]
    return {"traceEvents": events, "otherData": {"unit": "1 us is one cycle"}}


def _process(number: int, name: str, arch: PIMArchitecture, timeline: Timeline) -> Iterator[Event]:
    """Yield the names of a layer and of its threads, and its events."""
    dropped = f" ({timeline.dropped} events in the middle are omitted)" if timeline.dropped else ""
    yield _metadata(number, 0, "process_name", name=f"{name} on {arch.name}{dropped}")
    rows = timeline.events.tolist()
    for thread, title in sorted({_thread(arch, row) for row in rows}):
        yield _metadata(number, thread, "thread_name", name=title)
        yield _metadata(number, thread, "thread_sort_index", sort_index=thread)
    for row in rows:
        yield _slice(number, _thread(arch, row)[0], row)


def _metadata(process: int, thread: int, key: str, **arguments: Any) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": key, "args": arguments}


def _slice(process: int, thread: int, row: list[int]) -> Event:
    start, end = row[-2:]
    return {"ph": "X", "pid": process, "tid": thread, "name": _name(row), "ts": start, "dur": end - start}


def _name(row: list[int]) -> str:
    """Return the title of an event."""
    kind, _, _, _, tensor, _, _ = row
    if kind in (ARRAY_STEP, LIMIT):
        return "array step" if kind == ARRAY_STEP else "ports or interconnect"
    return f"{Tensor(tensor).name} {'streams' if kind == STREAM else 'out' if kind == MOVE_OUT else 'in'}"


def _thread(arch: PIMArchitecture, row: list[int]) -> tuple[int, str]:
    """Return the thread of an event and its title; a DRAM bus shared by the tensors is one thread."""
    kind, link, parent, level, tensor, _, _ = row
    if kind in (ARRAY_STEP, LIMIT):
        return (_ARRAY, "PE array") if kind == ARRAY_STEP else (_LIMITS, "ports and interconnect, in all")
    if parent == Level.DRAM and arch.shared_data_bus:
        return _FIRST_LINK + link, f"{arch.hierarchy[parent].name} bus"
    target = "MACs" if kind == STREAM else arch.hierarchy[level].name
    return _FIRST_LINK + link, f"{Tensor(tensor).name}: {arch.hierarchy[parent].name} - {target}"
