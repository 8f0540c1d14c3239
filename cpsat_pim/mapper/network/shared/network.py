"""A network under one shared choice."""

import math
import threading
import time
from collections.abc import Sequence

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.interrupts import interrupt_stops
from cpsat_pim.mapper.network.run import Report, WorkersDied, as_layer, ignore_progress
from cpsat_pim.mapper.network.shared.decisions import Decision, constrained, decisions_of
from cpsat_pim.mapper.network.shared.part import Part
from cpsat_pim.mapper.network.shared.search import SharedSearch
from cpsat_pim.mapper.network.shared.solving import Solving
from cpsat_pim.mapper.result import Objective, SharedChoice, SolvedNetwork
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.constraints import FREE, Constraints, NetworkConstraints
from cpsat_pim.workload.network import Network, NetworkNode


def solve_shared(
    network: Network,
    arch: PIMArchitecture,
    objective: Objective,
    *,
    share: Sequence[str],
    names: Sequence[str] | None = None,
    time_limit: float = 60.0,
    total_time: float = math.inf,
    seed: int = 0,
    jobs: int = 1,
    report: Report = ignore_progress,
    stop: threading.Event | None = None,
    starts: dict[str, Mapping] | None = None,
    constraints: Constraints | NetworkConstraints = FREE,
) -> SolvedNetwork:
    """Every layer of a network (or those named) under the shared choice that is best for the sum of all.

    `share` names what is shared: `bypass`, what each level stores; `layout`, axis orders in DRAM and which tensors are
    row-aligned. `time_limit` seconds a solve, `total_time` for all; the rest is as in `cpsat_pim.mapper.network.run.solve_network`.

    Raises:
        ValueError: `share` names nothing, or something unknown; a number is out of range; and see `solve_network`.
        Disagreement, WorkersDied: see `solve_network`.
    """
    started = time.monotonic()
    if not total_time >= 0:
        raise ValueError(f"total_time: must be a number of at least 0 (got {total_time})")
    nodes = (network if names is None else network.only(names)).layers
    whole = NetworkConstraints.whole(constraints)
    parts = _parts(nodes, arch, objective, decisions_of(share), whole, starts or {})
    solving = Solving(
        time_limit=time_limit,
        end=started + total_time,
        seed=seed,
        jobs=jobs,
        report=report,
        stop=stop or threading.Event(),
    )
    search = SharedSearch([*parts.values()], solving, solving.is_over, jobs)
    with interrupt_stops(solving.stop):
        search.run()
    answers = {key: search.answer(part) for key, part in parts.items() if part.answers}
    known = [(node, answers.get(whole.key(node.name, node.workload))) for node in nodes]
    solved = SolvedNetwork(
        network=network.name,
        arch=arch,
        objective=objective,
        layers=tuple(as_layer(node, answer) for node, answer in known if answer),
        seconds=time.monotonic() - started,
        interrupted=solving.stop.is_set() or bool(solving.lost),
        shared=_shared(search, share),
    )
    if solving.lost:
        raise WorkersDied(solved, solving.lost)
    return solved


def _parts(
    nodes: Sequence[NetworkNode],
    arch: PIMArchitecture,
    objective: Objective,
    decisions: Sequence[Decision],
    constraints: NetworkConstraints,
    starts: dict[str, Mapping],
) -> dict[str, Part]:
    """A part for equal layers under equal constraints, from the first mapping that one of them has."""
    parts: dict[str, Part] = {}
    for node in nodes:
        own, start = constraints.of(node.name), starts.get(node.name)
        part = Part(node.workload, arch, objective, decisions, own, start)
        part = parts.setdefault(constraints.key(node.name, node.workload), part)
        part.count += node.count
        part.start = part.start or start
    return parts


def _shared(search: SharedSearch, share: Sequence[str]) -> SharedChoice:
    """What is shared, in the reported unit."""
    first = search.parts[0]

    def reported(value: int | None) -> int | float | None:
        return None if value is None else first.objective.reported(value)

    return SharedChoice(
        share=tuple(share),
        choice=None if search.choice is None else constrained(FREE, first.decisions, search.choice),
        status=search.status,
        objective_value=reported(search.total),
        bound=reported(search.bound),
        free=reported(search.sum_of_best(search.free)),
        solves=sum(len(part.answers) for part in search.parts),
    )
