"""A plan's schedule as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open (Trace Event Format).

Times are predicted. A node is a thread: each step of its region is a slice, its phases lie below. Counters show the
flits of the busiest link and the bytes on the fullest node. One cycle is shown as one microsecond.
"""

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from cpsat_pim.planner.evaluate import PlanCost, StepCost
from cpsat_pim.planner.phases import PhaseCost
from cpsat_pim.planner.plan import Plan
from tables.array.counts import EJECT, INJECT

Event = dict[str, Any]
_NODES, _COUNTERS = 1, 2


@frozen(kw_only=True)
class Span:
    """A phase of a step from one cycle to another; `phase` is None for the node program."""

    step: int
    name: str
    start: int
    end: int
    phase: PhaseCost | None


def spans_of(plan: Plan, cost: PlanCost) -> list[Span]:
    """All phases of all steps in time. Regions of a segment start together; the next segment waits for the slowest."""
    spans, begin = list[Span](), 0
    for segment, cycles in enumerate(cost.segment_cycles):
        for region in range(len(plan.segments[segment])):
            time = begin
            for number, step in enumerate(cost.steps):
                if (step.segment, step.region) == (segment, region):
                    for span in _step_spans(number, step, time):
                        spans.append(span)
                        time = span.end
        begin += cycles
    return spans


def _step_spans(number: int, step: StepCost, time: int) -> Iterator[Span]:
    """Weights and inputs, the node program, partial sums and outputs; what takes no time is left out."""
    first, last = step.phases[:2], step.phases[2:]
    parts = [(p.name, p.cycles, p) for p in first] + [("compute", step.node_cycles, None)]
    for name, cycles, phase in [*parts, *((p.name, p.cycles, p) for p in last)]:
        if cycles:
            yield Span(step=number, name=name, start=time, end=time + cycles, phase=phase)
            time += cycles


def build_plan_timeline(plan: Plan, cost: PlanCost) -> dict[str, Any]:
    """Build the trace of a plan."""
    spans = spans_of(plan, cost)
    events = [*_names(plan), *_slices(plan, cost, spans), *_counters(plan, cost, spans)]
    return {"traceEvents": events, "otherData": {"unit": "1 us is one cycle", "times": "predicted"}}


def _names(plan: Plan) -> Iterator[Event]:
    title = f"{plan.network} on {plan.array.rows} x {plan.array.cols} nodes of {plan.array.node.name}"
    yield _metadata(_NODES, 0, "process_name", name=title)
    yield _metadata(_COUNTERS, 0, "process_name", name="busiest link and fullest node")
    for node in range(plan.array.nodes):
        yield _metadata(_NODES, node, "thread_name", name=f"node {node}")
        yield _metadata(_NODES, node, "thread_sort_index", sort_index=node)


def _slices(plan: Plan, cost: PlanCost, spans: list[Span]) -> Iterator[Event]:
    """Each node's steps, and the phases within them."""
    for number, step in enumerate(cost.steps):
        own = [span for span in spans if span.step == number]
        region = plan.layers[step.layer].partition.region
        for node in plan.array.numbers(region) if own else ():
            yield _slice(node, step.layer, own[0].start, own[-1].end, {"cycles": step.cycles})
            for span in own:
                yield _slice(node, span.name, span.start, span.end, _flits(span, node))


def _flits(span: Span, node: int) -> dict[str, int]:
    """Flits that a node sends and receives in a phase."""
    if span.phase is None:
        return {}
    loads = span.phase.loads[node]
    return {"flits sent": int(loads[INJECT]), "flits received": int(loads[EJECT])}


def _counters(plan: Plan, cost: PlanCost, spans: list[Span]) -> Iterator[Event]:
    """The busiest link of every phase, and the fullest node of every step."""
    for span in spans:
        flits = span.phase.max_link_flits if span.phase else 0
        yield _counter("flits on the busiest link", span.start, flits)
        yield _counter("bytes on the fullest node", span.start, int(cost.used_bytes[span.step].max()))
    if spans:
        yield _counter("flits on the busiest link", max(span.end for span in spans), 0)


def _metadata(process: int, thread: int, key: str, **arguments: Any) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": key, "args": arguments}


def _slice(node: int, name: str, start: int, end: int, arguments: dict[str, int]) -> Event:
    return {"ph": "X", "pid": _NODES, "tid": node, "name": name, "ts": start, "dur": end - start, "args": arguments}


def _counter(name: str, time: int, value: int) -> Event:
    return {"ph": "C", "pid": _COUNTERS, "name": name, "ts": time, "args": {"value": value}}
