"""The explanation of a plan as text and as plain data (`plan --explain`)."""

from collections.abc import Iterator
from typing import Any

from attrs import asdict

from cpsat_pim.planner.evaluate import PlanCost
from cpsat_pim.planner.explain import Capacity, Explanation, Movement

#: So many steps and tensors are named.
_NAMED = 5


def explanation_document(found: Explanation) -> dict[str, Any]:
    """Convert an explanation to plain data."""
    return asdict(found)


def format_explanation(found: Explanation, cost: PlanCost) -> str:
    """Format an explanation as lines of text."""
    return "\n".join(
        [
            "",
            *_time_lines(found, cost),
            *_tour_lines(found),
            *_movement_lines(found.movements),
            *_capacity_lines(found.capacity),
        ]
    )


def _time_lines(found: Explanation, cost: PlanCost) -> Iterator[str]:
    """Where the time goes, and the busiest link."""
    time, steps = found.time, sorted(cost.steps, key=lambda step: -step.cycles)[:_NAMED]
    whole = max(1, time.node + time.network + time.dram)
    shares = {"node programs": time.node, "network": time.network, "DRAM": time.dram}
    yield "time: " + ", ".join(f"{name} {100 * cycles / whole:.1f} %" for name, cycles in shares.items())
    yield "longest steps: " + ", ".join(f"{s.layer} {100 * s.cycles / whole:.1f} %" for s in steps)
    if found.link is None:
        yield "no link carries anything"
    else:
        link = found.link
        yield (
            f"busiest link: node {link.source} to node {link.target}, {link.flits:,} flits in the {link.phase} of"
            f" {link.layer}, which takes {link.phase_cycles:,} cycles"
        )


def _tour_lines(found: Explanation) -> Iterator[str]:
    """What other tours could save."""
    if found.tours.cycles:
        yield (
            f"exchanges along tours: {found.tours.cycles:,} cycles, of which other tours could save at most"
            f" {found.tours.most_saved:,}"
        )


def _movement_lines(movements: tuple[Movement, ...]) -> Iterator[str]:
    """Tensors that move, those with the most cycles first."""
    if not movements:
        yield "no tensor moves"
        return
    forced = sum(one.least_cycles for one in movements)
    yield (
        f"{len(movements)} tensors move, {sum(one.cycles for one in movements):,} cycles; with the same partitions at"
        f" least {forced:,} whatever their homes (one tensor at a time):"
    )
    for one in movements[:_NAMED]:
        parts = f"{one.push_cycles:,} to its home, {one.pull_cycles:,} from there"
        yield f"  {one.tensor}: {one.cycles:,} cycles ({parts}); {_force(one)}"


def _force(one: Movement) -> str:
    if one.least_cycles == 0:
        return "another home would avoid them"
    return f"forced by the partitions around it: no home takes less than {one.least_cycles:,}"


def _capacity_lines(capacity: Capacity) -> Iterator[str]:
    """Whether capacity binds, and at what price."""
    full = 100 * capacity.peak_bytes / capacity.capacity_bytes
    yield f"fullest node: {capacity.peak_bytes:,} bytes of {capacity.capacity_bytes:,} ({full:.1f} %)"
    if not capacity.gain_layer:
        yield "capacity does not bind: every node holds all weights that it uses, so a MiB more saves nothing"
    else:
        more = f"more replicas of {capacity.gain_layer}"
        yield f"a MiB more on a node would save up to {capacity.gain:,.0f} cycles ({more})"
    if capacity.loss is not None:
        yield f"a MiB less would cost at least {capacity.loss:,.0f} cycles (fewer replicas of {capacity.loss_layer})"
