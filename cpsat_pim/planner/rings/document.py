"""A schedule as JSON, and sharing sets from JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import asdict

from cpsat_pim.base.reading import read_json
from cpsat_pim.base.validate import is_integer
from cpsat_pim.planner.rings.baselines import Outcome
from cpsat_pim.planner.rings.certificate import certificate_document
from cpsat_pim.planner.rings.cuts import exchange_bound
from cpsat_pim.planner.rings.instance import Instance, Mesh
from cpsat_pim.planner.rings.schedule import Schedule
from cpsat_pim.planner.rings.two_phase import TwoPhase


def schedule_document(
    schedule: Schedule, outcomes: Sequence[Outcome] = (), exchanges: Sequence[tuple[str, TwoPhase]] = ()
) -> dict[str, Any]:
    """Return a schedule for JSON (docs/rings.md); nodes are numbered row by row."""
    instance = schedule.instance
    mask = {} if instance.mask is None else {"free": instance.mask.digits(instance.mesh)}
    return {
        "mesh": str(instance.mesh),
        **mask,
        "load": schedule.load,
        "bound": schedule.bound,
        "status": schedule.status,
        "method": schedule.method,
        "seconds": round(schedule.seconds, 3),
        "steps": instance.steps,
        "chunk_times": schedule.chunk_times,
        "chunk_times_bound": exchange_bound(instance),
        "sets": [list(nodes) for nodes in instance.sets],
        "rings": [list(ring) for ring in schedule.rings],
        "certificate": certificate_document(instance.mesh, schedule.certificate),
        "baselines": [asdict(outcome) for outcome in outcomes],
        "phases": [_phases(name, exchange) for name, exchange in exchanges],
    }


def _phases(name: str, exchange: TwoPhase) -> dict[str, Any]:
    phases = [
        {"load": p.schedule.load, "bound": p.schedule.bound, "chunks": p.chunks, "rings": p.schedule.rings}
        for p in exchange.phases
    ]
    return {"name": name, "steps": exchange.steps, "chunk_times": exchange.chunk_times, "phases": phases}


def read_sets(path: str | Path, mesh: Mesh) -> Instance:
    """Return the instance of a file `{"sets": [[node, ...], ...]}`; a node is its number or [row, column].

    Raises:
        ValueError: the file cannot be read, holds something else, or its sets do not fit the mesh.
    """
    data = read_json(path).get("sets")
    if not isinstance(data, list) or not all(isinstance(nodes, list) for nodes in data):
        raise ValueError(f'{path}: must hold "sets", a list of lists of nodes')
    try:
        return Instance(mesh=mesh, sets=[[_node(node, mesh) for node in nodes] for nodes in data])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _node(node: Any, mesh: Mesh) -> int:
    if is_integer(node):
        return int(node)
    if not isinstance(node, list) or len(node) != 2 or not all(map(is_integer, node)):
        raise ValueError(f"a node must be a number or [row, column] (got {node!r})")
    y, x = node
    if not (0 <= y < mesh.rows and 0 <= x < mesh.cols):
        raise ValueError(f"a node must lie in the {mesh} mesh (got {node!r})")
    return int(y * mesh.cols + x)
