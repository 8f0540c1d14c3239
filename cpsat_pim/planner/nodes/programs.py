"""Mappings of node problems: the layer that they are of, which may be padded, what they cost, in other layouts."""

from collections.abc import Iterator
from itertools import product

from attrs import evolve

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level
from cpsat_pim.evaluate.cost import predict
from cpsat_pim.evaluate.verify import verify
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.check import check_mapping
from cpsat_pim.mapping.mapping import Mapping
from cpsat_pim.planner.nodes.problem import NodeCost, NodeProblem
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.padding import with_bounds


def program_of(part: ConvWorkload, mapping: Mapping) -> ConvWorkload:
    """Return the part, or the part padded with zeros to the bounds of a mapping that are all as large or larger."""
    bounds = tuple(mapping.extents(Level.DRAM))
    is_padded = bounds != tuple(part.bounds) and all(new >= old for new, old in zip(bounds, part.bounds, strict=True))
    return with_bounds(part, bounds) if is_padded else part


def in_layouts(problem: NodeProblem, mapping: Mapping | None, arch: PIMArchitecture) -> Iterator[Mapping]:
    """Yield the legal mappings that differ in the layouts only, which are those of the problem; W's are free."""
    if mapping is not None:
        layouts = [(layout,) if layout is not None else (0, 1) for layout in problem.constraints.layout]
        for layout in product(*layouts):
            moved = evolve(mapping, layout=layout)
            if not check_mapping(program_of(problem.layer, moved), arch, moved):
                yield moved


def priced(
    problem: NodeProblem, arch: PIMArchitecture, objective: Objective, mapping: Mapping, known: NodeCost, least: int = 0
) -> NodeCost:
    """Return what is known of a problem with the exact cost of a mapping; none costs less than `least`."""
    figures = predict(program_of(problem.layer, mapping), arch, mapping).figures
    return evolve(
        known,
        least=max(known.least, least),
        value=int(objective.value(figures.latency_cycles, figures.energy_fj)),
        latency_cycles=figures.latency_cycles,
        energy_fj=figures.energy_fj,
        mapping=mapping,
    )


def verify_program(problem: NodeProblem, mapping: Mapping, arch: PIMArchitecture) -> None:
    """Simulate a mapping.

    Raises:
        Disagreement: it is illegal, or some exact figure was predicted wrongly.
    """
    layer = program_of(problem.layer, mapping)
    verify(layer, arch, mapping, predict(layer, arch, mapping))
