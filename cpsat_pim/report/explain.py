"""Explanations of layers: tables for the terminal, and a JSON document (docs/explain.md)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpsat_pim.base.dims import Tensor
from cpsat_pim.base.units import FJ_PER_NJ
from cpsat_pim.mapper.explain import Bounds, Conflict, Explained, Fill, Gain, Known, Member, Threshold, sum_gains
from cpsat_pim.mapper.explain.limits import Limit
from cpsat_pim.mapper.result import NetworkLayer, Objective
from cpsat_pim.mapper.result.document import build_document
from cpsat_pim.report.format import format_energy, format_gap, format_machine, format_objective, format_si
from cpsat_pim.report.text import print_fitted, print_plain
from cpsat_pim.workload.network import NetworkNode

_EMPTY = "-"
Number = int | float
#: Explained layers with their nodes, in the network's order.
Layers = Sequence[tuple[NetworkNode, Explained]]


def print_explained(console: Console, layers: Layers) -> None:
    """Print the explanation of each layer, then the gains of upgrades over all layers."""
    for node, explained in layers:
        _print_layer(console, node.name, explained)
    if len(layers) > 1:
        totals = total_gains(layers)
        _print_gains(console, "all layers", totals, layers[0][1].solved.objective)


def _print_layer(console: Console, name: str, explained: Explained) -> None:
    if explained.conflict:
        _print_conflict(console, name, explained.conflict)
    elif explained.bounds:
        _print_bounds(console, name, explained.bounds, explained)
    else:
        print_plain(
            console, f"{name}: neither a mapping nor a proof of infeasibility was found within the time limit\n"
        )
    _print_gains(console, name, explained.gains, explained.solved.objective)


def total_gains(layers: Layers) -> list[Gain]:
    """Return the gain of each upgrade over all layers, weighted by their counts, for upgrades that were tried on every
    layer.
    """
    tried = [(node.count, {gain.upgrade: gain for gain in explained.gains}) for node, explained in layers]
    common = [upgrade for upgrade in tried[0][1] if all(upgrade in gains for _, gains in tried)]
    return [sum_gains([(count, gains[upgrade]) for count, gains in tried]) for upgrade in common]


def _table(*headings: str, left: Iterable[str] = (), title: str | None = None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title and Text(title), title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right", no_wrap=True)
    return table


# --- Why there is no mapping -----------------------------------------------------------------------------------------


def _print_conflict(console: Console, name: str, conflict: Conflict) -> None:
    print_plain(console, f"{name}: proven infeasible. {_claim(conflict)}")
    headings = ("limit", "value", "of", "without it", "lifting it alone")
    table = _table(*headings, left=headings)
    for member in conflict.members:
        cells = (member.limit.name, _value(member.limit), member.limit.of, _without(member), _lifted_alone(member))
        table.add_row(*map(Text, cells))
    print_fitted(console, table)
    for line in _conclusions(conflict):
        print_plain(console, line)
    print_plain(console, "")


def _claim(conflict: Conflict) -> str:
    """State the size of the conflict and whether it is proven minimal."""
    count = len(conflict.members)
    what = "One limit makes it infeasible" if count == 1 else f"{count} limits conflict"
    size = (
        "no smaller set does"
        if conflict.is_smallest
        else "a smaller set may, which was not decided within the time limit"
    )
    return f"{what}, whatever other limits are lifted" + ("." if count == 1 else f"; {size}.")


def _value(limit: Limit) -> str:
    if limit.name == "budget.fj":
        return format_energy(limit.value)
    if ".stores." in limit.name:
        return "must be stored" if limit.value else "cannot be stored"
    return (
        f"{limit.value:,}" if isinstance(limit.value, int) and not isinstance(limit.value, bool) else str(limit.value)
    )


def _without(member: Member) -> str:
    """State whether the layer has a mapping without this member of the conflict."""
    return "there is a mapping" if member.without else "not decided within the time limit"


def _lifted_alone(member: Member) -> str:
    """State whether lifting this limit alone, on the whole machine, admits a mapping, and from which value on."""
    outcome = {True: "is enough", False: "is not enough", None: "not decided within the time limit"}[member.is_way_out]
    if member.threshold is None:
        return outcome
    what = "" if member.is_way_out else "; the conflict ends"
    return f"{outcome}{what}: from {_first_value(member.limit, member.threshold)} on"


def _first_value(limit: Limit, threshold: Threshold) -> str:
    ends = dict.fromkeys((threshold.least, threshold.most))
    return " to ".join(_exact_energy(n) if limit.name == "budget.fj" else f"{n:,}" for n in ends)


def _exact_energy(fj: int) -> str:
    """Format an energy to the femtojoule: a budget that is rounded down would be infeasible."""
    return f"{fj // FJ_PER_NJ:,}.{fj % FJ_PER_NJ:06} nJ"


def _conclusions(conflict: Conflict) -> Iterator[str]:
    """Yield the violated rules, and the limits to lift together if no single one is enough."""
    yield from conflict.reasons
    if any(member.is_way_out for member in conflict.members):
        return
    if conflict.correction:
        names = ", ".join(limit.name for limit in conflict.correction)
        yield f"Lifting one limit leaves another conflict. A minimum set of limits to lift together: {names}."
    else:
        yield "Which limits to lift together was not decided within the time limit."


# --- What bounds a mapping -------------------------------------------------------------------------------------------


def _print_bounds(console: Console, name: str, bounds: Bounds, explained: Explained) -> None:
    solved = explained.solved
    status = "as given" if solved.bound is None else f"{solved.status.value}, gap {format_gap(solved.gap)}"
    where = f" on {format_machine(solved.arch)}" if solved.arch.nodes > 1 else ""
    time = f" = {format_si(bounds.latency_cycles / solved.arch.clock, 's')}" if solved.arch.clock else ""
    print_plain(
        console,
        f"{name}{where}: {bounds.latency_cycles:,} cycles{time}, bound by {bounds.critical}; "
        f"{format_energy(bounds.energy_fj)}{_largest(bounds)} ({status})",
    )
    print_fitted(console, _resources(bounds))
    print_fitted(console, _shares(bounds))
    print_fitted(console, _fills(bounds, explained))


def _largest(bounds: Bounds) -> str:
    """Name the largest share of the energy, if there is any."""
    if not bounds.shares:
        return ""
    most = bounds.shares[0]
    place = " ".join([most.place, *([most.tensor.name] if most.tensor is not None else [])])
    return f", {most.fj / bounds.energy_fj:.1%} of it {place}"


def _resources(bounds: Bounds) -> Table:
    table = _table("resource", "busy", "busy %", "ends after", "slack", "slack %", left=("resource",))
    latency = bounds.latency_cycles
    for r in bounds.resources:
        busy, slack = f"{r.busy_cycles / latency:.1%}", f"{r.slack_cycles / latency:.1%}"
        table.add_row(
            r.name,
            f"{r.busy_cycles:,}",
            busy,
            f"{r.end_cycles + bounds.pipeline_cycles:,}",
            f"{r.slack_cycles:,}",
            slack,
            style="bold" if r.name == bounds.critical else "",
        )
    return table


def _shares(bounds: Bounds) -> Table:
    """Build the table of energy by place, largest first."""
    table = _table("energy", *(t.name for t in Tensor), "sum", "share", left=("energy",))
    places = {p: [s for s in bounds.shares if s.place == p] for p in dict.fromkeys(s.place for s in bounds.shares)}
    for place, shares in sorted(places.items(), key=lambda item: -sum(s.fj for s in item[1])):
        of = {s.tensor: s.fj for s in shares}
        total = sum(of.values())
        cells = [format_energy(of[t]) if t in of else _EMPTY for t in Tensor]
        table.add_row(place, *cells, format_energy(total), f"{total / bounds.energy_fj:.1%}")
    return table


def _fills(bounds: Bounds, explained: Explained) -> Table:
    """Build the table of buffer occupancy, inner to outer, and of the array's utilization."""
    table = _table("bytes", *(t.name for t in Tensor), "used", "usable", "full", "slack", left=("bytes",))
    for fill in bounds.fills:
        cells = [_fill(fill, t) for t in Tensor]
        full = f"{fill.used_bytes / fill.usable_bytes:.1%}" if fill.usable_bytes else _EMPTY
        sizes = (f"{fill.used_bytes:,}", f"{fill.usable_bytes:,}", full, f"{fill.slack_bytes:,}")
        table.add_row(fill.level.name, *cells, *sizes)
    solved = explained.solved
    macs = solved.mapping.parallel_macs if solved.mapping else 0
    there = solved.arch.pe_array.macs_per_cycle
    table.add_row("MACs a cycle", "", "", "", f"{macs:,}", f"{there:,}", f"{macs / there:.1%}", f"{there - macs:,}")
    return table


def _fill(fill: Fill, tensor: Tensor) -> str:
    """Format the bytes of a tile, and those of its buffer if it has one of its own: `96 / 128`."""
    used = f"{fill.used[tensor]:,}" if tensor in fill.used else _EMPTY
    return f"{used} / {fill.usable[tensor]:,}" if fill.usable else used


# --- What upgrades buy -----------------------------------------------------------------------------------------------


def _print_gains(console: Console, name: str, gains: Sequence[Gain], objective: Objective) -> None:
    if not gains:
        return
    title = f"{name}: gain of each upgrade; {objective.kind} now {_known(gains[0].before, objective)}"
    headings = ("upgrade", "from", "to", f"{objective.kind} then", "same mapping", "saves")
    table = _table(*headings, left=("upgrade", "saves"), title=title)
    for gain in gains:
        same = _EMPTY if gain.same_mapping is None else format_objective(objective.kind, gain.same_mapping)
        then = "not known" if gain.after is None else _known(gain.after, objective)
        cells = (gain.upgrade.path, f"{gain.upgrade.before:,}", f"{gain.upgrade.after:,}", then, same, _saved(gain))
        table.add_row(*map(Text, cells))
    print_fitted(console, table)


def _known(known: Known, objective: Objective) -> str:
    """Format an optimum, or the interval from its bound to the best known value."""
    if known.is_proven:
        return format_objective(objective.kind, known.value)
    return f"{format_objective(objective.kind, known.bound)} to {format_objective(objective.kind, known.value)}"


def _saved(gain: Gain) -> str:
    """Format the saving of an upgrade, as an interval if it is not proven."""
    if gain.is_unchanged:
        return "nothing: latency is not in the objective"
    if gain.is_proven and gain.most is not None:
        return "nothing" if gain.most == 0 else f"{gain.most:.2%}" if gain.most > 0 else f"costs {-gain.most:.2%} more"
    if gain.most is None:
        return "not known"
    return f"at most {gain.most:.2%}" if gain.least is None else f"{gain.least:.2%} to {gain.most:.2%}"


# --- Files -----------------------------------------------------------------------------------------------------------


def explained_document(
    network: str, arch: dict[str, Any], objective: Objective, layers: Layers, *, seconds: float, interrupted: bool
) -> dict[str, Any]:
    """Build the JSON document (schema 1): the layers as solved, and per layer its explanation under `explain`."""
    nodes = [
        NetworkLayer(name=node.name, count=node.count, after=node.after, solved=explained.solved)
        for node, explained in layers
    ]
    document = build_document(
        network=network,
        arch=arch,
        objective=objective.to_dict(),
        layers=[node.to_dict() for node in nodes],
        seconds=seconds,
        interrupted=interrupted,
    )
    return document | {"explain": [_entry(node.name, explained) for node, explained in layers]}


def _entry(name: str, explained: Explained) -> dict[str, Any]:
    return {
        "name": name,
        "conflict": explained.conflict and _conflict_entry(explained.conflict),
        "bounds": explained.bounds and _bounds_entry(explained.bounds),
        "upgrades": [_gain_entry(gain) for gain in explained.gains],
    }


def _conflict_entry(conflict: Conflict) -> dict[str, Any]:
    return {
        "limits": [_member_entry(member) for member in conflict.members],
        "is_smallest": conflict.is_smallest,
        "is_irreducible": conflict.is_irreducible,
        "reasons": list(conflict.reasons),
        "lift_together": conflict.correction and [limit.name for limit in conflict.correction],
    }


def _member_entry(member: Member) -> dict[str, Any]:
    limit, threshold = member.limit, member.threshold
    return {
        "name": limit.name,
        "of": limit.of,
        "value": limit.value,
        "without_it": member.without and member.without.to_dict(),
        "lifting_it_is_enough": member.is_way_out,
        "feasible_from": threshold and [threshold.least, threshold.most],
    }


def _bounds_entry(bounds: Bounds) -> dict[str, Any]:
    return {
        "critical": bounds.critical,
        "latency_cycles": bounds.latency_cycles,
        "pipeline_cycles": bounds.pipeline_cycles,
        "resources": [
            {name: getattr(resource, name) for name in ("name", "busy_cycles", "end_cycles", "slack_cycles")}
            for resource in bounds.resources
        ],
        "energy_fj": bounds.energy_fj,
        "shares": [
            {"place": share.place, "tensor": None if share.tensor is None else share.tensor.name, "fj": share.fj}
            for share in bounds.shares
        ],
        "levels": [
            {
                "level": fill.level.name,
                "used_bytes": {t.name: fill.used[t] for t in fill.used},
                "usable_bytes": fill.usable_bytes,
                "slack_bytes": fill.slack_bytes,
            }
            | ({"separate_bytes": {t.name: size for t, size in fill.usable.items()}} if fill.usable else {})
            for fill in bounds.fills
        ],
    }


def _gain_entry(gain: Gain) -> dict[str, Any]:
    after = gain.after
    return {
        "path": gain.upgrade.path,
        "from": gain.upgrade.before,
        "to": gain.upgrade.after,
        "now": [gain.before.bound, gain.before.value],
        "then": after and [after.bound, after.value],
        "same_mapping": gain.same_mapping,
        "is_proven": gain.is_proven,
        "saves": [gain.least, gain.most],
        "mapping": gain.solved and gain.solved.mapping and gain.solved.mapping.to_dict(),
    }
