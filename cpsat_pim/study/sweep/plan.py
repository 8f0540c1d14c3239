"""A plan: points, each a network on a machine for an objective, and the jobs that they consist of."""

from collections.abc import Iterable
from typing import Any

from attrs import evolve, field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.validate import as_tuple, text
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.constraints import NetworkConstraints
from cpsat_pim.study.sweep.job import Job, JobOptions
from cpsat_pim.workload.network import Network

#: The values that a plan's author chose for a point, by the keys of the file.
Settings = dict[str, Any]


@frozen(kw_only=True)
class Point:
    """One run of a network; `settings` are the values that distinguish it within its plan."""

    settings: Settings
    network: Network
    arch: PIMArchitecture
    objective: Objective
    options: JobOptions
    constraints: NetworkConstraints = field(factory=NetworkConstraints)

    def jobs(self) -> list[Job]:
        """Return the job of each layer, in the network's order."""
        return [
            Job(
                layer=node.workload,
                arch=self.arch,
                objective=self.objective,
                options=self.options,
                constraints=self.constraints.of(node.name),
            )
            for node in self.network.layers
        ]


@frozen(kw_only=True)
class Use:
    """Where a solution is used: a layer of a point's network, both by index, and how often the layer runs."""

    point: int
    position: int
    layer: str
    count: int
    job: Job


@frozen(kw_only=True)
class Plan:
    """A named list of points. `warnings`: a line for each doubtful figure of their machines.

    Raises:
        ValueError: the list is empty.
    """

    name: str = field(validator=text)
    points: tuple[Point, ...] = field(converter=as_tuple)
    warnings: tuple[str, ...] = field(default=(), converter=as_tuple)

    def __attrs_post_init__(self) -> None:
        if not self.points:
            raise ValueError("Plan.points: must have at least one point (got none)")

    def with_time_limit(self, seconds: float) -> "Plan":
        """Return the plan with another time limit for each job."""
        points = [evolve(point, options=evolve(point.options, time_limit=seconds)) for point in self.points]
        return evolve(self, points=points)

    def uses(self) -> list[Use]:
        """Return all layers of all points."""
        return [
            Use(point=i, position=j, layer=node.name, count=node.count, job=job)
            for i, point in enumerate(self.points)
            for j, (node, job) in enumerate(zip(point.network.layers, point.jobs(), strict=True))
        ]


@frozen(kw_only=True)
class Shard:
    """Part `index` of `count`, counted from 1.

    Raises:
        ValueError: `index` is not between 1 and `count`.
    """

    index: int = 1
    count: int = 1

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise ValueError(f"must be K/N with K from 1 to N (got {self.index}/{self.count})")

    @classmethod
    def parse(cls, given: str) -> "Shard":
        """Read a shard such as `3/16`.

        Raises:
            ValueError: the text is not of this form.
        """
        index, slash, count = given.partition("/")
        if not slash or not (index.isdecimal() and count.isdecimal()):
            raise ValueError(f"must be K/N, such as 3/16 (got {given!r})")
        return cls(index=int(index), count=int(count))

    def of(self, keys: Iterable[str]) -> set[str]:
        """Return this part of some keys. The parts are disjoint, cover all keys, and differ in size by at most one."""
        return set(sorted(set(keys))[self.index - 1 :: self.count])
