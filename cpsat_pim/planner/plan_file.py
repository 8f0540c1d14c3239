"""Plans as JSON files: what `plan --json` writes is what `plan --replay` reads (docs/array.md, section 8)."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.reading import read_json
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.mapping_file import build_mapping
from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.nodes.programs import program_of
from cpsat_pim.planner.partition import Home, Partition
from cpsat_pim.planner.plan import LayerPlan, Plan, RegionPlan, check_plan, node_program
from cpsat_pim.planner.tensors import Graph
from cpsat_pim.workload import ConvWorkload

_T = TypeVar("_T")
_ARRAY = ("rows", "cols", "flit_bytes", "hop_fj_per_bit", "router_cycles", "local_port_flits", "capacity_bytes")


def read_plan(path: str | Path, graph: Graph, node: PIMArchitecture) -> Plan:
    """The plan in a file, of a network on nodes of a machine.

    Node programs that have a mapping are costed anew; others keep the figures of the file.

    Raises:
        ValueError: it cannot be read, or something in it is missing or wrong; lines `<file>: ...`.
    """
    data = read_json(path)
    plan = _told(f"{path}", lambda: build_plan(data, node))
    problems = check_plan(graph, plan)
    if problems:
        raise ValueError("\n".join(f"{path}: {problem}" for problem in problems))
    layers = {task.name: _recosted(path, task.name, node_program(task, p.partition), node, p)
              for task in graph.tasks for p in [plan.layers[task.name]]}  # fmt: skip
    return evolve(plan, layers=layers)


def build_plan(data: dict[str, Any], node: PIMArchitecture) -> Plan:
    """The plan that `Plan.to_dict` gave.

    Raises:
        ValueError: something in it is missing or wrong; `<path.to.field>: ...`.
    """
    array = _at(data, "array")
    sizes = {key: _at(array, key, "array") for key in _ARRAY}
    return Plan(
        network=_at(data, "network"),
        batch=_at(data, "batch"),
        array=_told("array", lambda: NodeArray(node=node, interconnect=_at(array, "interconnect", "array"), **sizes)),
        segments=tuple(
            tuple(_told(f"segments[{i}]", partial(_region_plan, one)) for one in _listed(f"segments[{i}]", regions))
            for i, regions in enumerate(_listed("segments", _at(data, "segments")))
        ),
        layers={name: _told(f"layers.{name}", partial(_layer_plan, e)) for name, e in _entries(data, "layers")},
        homes={name: _told(f"homes.{name}", partial(_home, e)) for name, e in _entries(data, "homes")},
        send_order=_at(data, "send_order"),
    )


def _region(entry: Any) -> Region:
    return Region(*entry)


def _region_plan(entry: dict[str, Any]) -> RegionPlan:
    return RegionPlan(region=_region(_at(entry, "region")), layers=tuple(_at(entry, "layers")))


def _layer_plan(entry: dict[str, Any]) -> LayerPlan:
    mapping = _at(entry, "mapping")
    return LayerPlan(
        partition=Partition(
            region=_region(_at(entry, "region")),
            h=_at(entry, "h"),
            w=_at(entry, "w"),
            weight_replicas=entry.get("weight_replicas"),
        ),
        tours={exchange: tuple(map(tuple, tours)) for exchange, tours in entry.get("tours", {}).items()},
        mapping=None if mapping is None else build_mapping("mapping", mapping),
        node_cycles=_at(entry, "node_cycles"),
        node_energy_fj=_at(entry, "node_energy_fj"),
    )


def _home(entry: dict[str, Any]) -> Home:
    sides = {side: _at(entry, side) for side in ("h", "w")}
    return Home(region=_region(_at(entry, "region")), layout=_at(entry, "layout"), **sides)


def _recosted(path: str | Path, name: str, layer: ConvWorkload, node: PIMArchitecture, plan: LayerPlan) -> LayerPlan:
    """A layer's plan with the figures of its mapping, which may be of a padded part."""
    if plan.mapping is None:
        return plan
    padded = program_of(layer, plan.mapping)
    figures = _figures(f"{path}: layers.{name}.mapping", padded, node, plan.mapping)
    return evolve(plan, node_cycles=figures[0], node_energy_fj=figures[1])


def _figures(place: str, layer: ConvWorkload, node: PIMArchitecture, mapping: Mapping) -> tuple[int, int]:
    """(cycles, fJ) of a legal mapping."""
    problems = check_mapping(layer, node, mapping)
    if problems:
        raise ValueError("\n".join(f"{place}: {problem}" for problem in problems))
    figures = predict(layer, node, mapping).figures
    return figures.latency_cycles, figures.energy_fj


def _at(entry: Any, key: str, place: str = "") -> Any:
    """The value of a key.

    Raises:
        ValueError: there is none.
    """
    if not isinstance(entry, dict) or key not in entry:
        raise ValueError(f"{place + '.' if place else ''}{key}: is missing")
    return entry[key]


def _listed(place: str, value: Any) -> list[Any]:
    """A value that is a list.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, list):
        raise ValueError(f"{place}: must be a list (got {value!r})")
    return value


def _entries(data: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    """Names and values of an object of the file.

    Raises:
        ValueError: it is missing or no object.
    """
    value = _at(data, key)
    if not isinstance(value, dict):
        raise ValueError(f"{key}: must be an object with an entry for each name (got {value!r})")
    return list(value.items())


def _told(place: str, build: Callable[[], _T]) -> _T:
    """What is built; its mistakes say where they are.

    Raises:
        ValueError: it cannot be built.
    """
    try:
        return build()
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError("\n".join(f"{place}: {line}" for line in str(error).splitlines())) from error
