"""A plan: points, each a network on a machine for an objective, and the jobs that answer them."""

from collections.abc import Iterable
from typing import Any

from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.validate import as_tuple, text
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.constraints import NetworkConstraints
from cpsat_pim.study.sweep.job import Job, JobOptions
from cpsat_pim.workload.network import Network

#: What a plan's author chose for a point, by the keys of the file.
Settings = dict[str, Any]


@frozen(kw_only=True)
class Point:
    """One run of a network; `settings` are what sets it apart in its plan."""

    settings: Settings
    network: Network
    arch: PIMArchitecture
    objective: Objective
    options: JobOptions
    constraints: NetworkConstraints = field(factory=NetworkConstraints)

    def jobs(self) -> list[Job]:
        """The job of each layer, in the network's order."""
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
    """Where an answer belongs: a layer of a point's network, both by their places, and how often it runs."""

    point: int
    position: int
    layer: str
    count: int
    job: Job


@frozen(kw_only=True)
class Plan:
    """Points under a name.

    Raises:
        ValueError: there is none.
    """

    name: str = field(validator=text)
    points: tuple[Point, ...] = field(converter=as_tuple)

    def __attrs_post_init__(self) -> None:
        if not self.points:
            raise ValueError("Plan.points: must have at least one point (got none)")

    def uses(self) -> list[Use]:
        """All layers of all points."""
        return [
            Use(point=i, position=j, layer=node.name, count=node.count, job=job)
            for i, point in enumerate(self.points)
            for j, (node, job) in enumerate(zip(point.network.layers, point.jobs(), strict=True))
        ]


@frozen(kw_only=True)
class Shard:
    """Part `index` of `count`, counted from 1.

    Raises:
        ValueError: there is no such part.
    """

    index: int = 1
    count: int = 1

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise ValueError(f"must be K/N with K from 1 to N (got {self.index}/{self.count})")

    @classmethod
    def parse(cls, given: str) -> "Shard":
        """`3/16`.

        Raises:
            ValueError: it is something else.
        """
        index, slash, count = given.partition("/")
        if not slash or not (index.isdecimal() and count.isdecimal()):
            raise ValueError(f"must be K/N, such as 3/16 (got {given!r})")
        return cls(index=int(index), count=int(count))

    def of(self, keys: Iterable[str]) -> set[str]:
        """This part of some keys; the parts are disjoint, together all, and differ by at most one in size."""
        return set(sorted(set(keys))[self.index - 1 :: self.count])
