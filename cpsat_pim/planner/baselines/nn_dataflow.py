"""Schedules of nn_dataflow (github.com/stanford-mast/nn_dataflow) as plans.

Its search writes JSON: of every layer the partition over nodes (order of parallelisms, and how rows and columns of the
nodes are split by each) and the layout of the output over nodes. What becomes of it, and what does not:

- Layers are matched in order, by their number of multiplications. Its layers in between (pooling, sums) have no step
  of their own in a plan: the layout of their output becomes the home of ours, which is pooled or added already.
- Parts: it balances them, ours are as long as possible and the last ones shorter. A tensor that is concatenated or
  added has one home in a plan: that of the first layer with such a layout.
- Its loop blocking is for another node (row stationary). Node programs are ours: the optimum of the same part.
- It does not say how data lie in a node's DRAM. All homes have one layout.
"""

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from cpsat_pim.planner.array import NodeArray, Region
from cpsat_pim.planner.baselines.problem import Problem
from cpsat_pim.planner.partition import Digits, Home, Partition
from cpsat_pim.planner.plan import Plan
from cpsat_pim.planner.tensors import Graph, LayerTask

#: Parallelisms in its order: output channels, output positions (rows, columns), batch, input channels.
_OUTPUTS, _POSITIONS, _BATCH, _INPUTS = range(4)
#: Our dims by parallelism, of rows and of columns of nodes.
_LAYER_DIMS = {_OUTPUTS: ("K", "K"), _POSITIONS: ("Q", "P"), _BATCH: ("N", "N"), _INPUTS: ("C", "C")}
_TENSOR_DIMS = {_OUTPUTS: ("C", "C"), _POSITIONS: ("H", "W"), _BATCH: ("N", "N"), _INPUTS: ("N", "N")}


@frozen(kw_only=True)
class ForeignSchedule:
    """Partitions by layer, homes by stack, and what the other tool says its schedule costs."""

    partitions: dict[str, Partition]
    homes: dict[str, Home]
    time: float
    cost: float


@frozen(kw_only=True)
class _Entry:
    """A layer of the other tool: its multiplications, its partition, and the layout of its output (order, splits)."""

    name: str
    ops: int
    part: Any
    output: Any


def is_foreign(data: dict[str, Any]) -> bool:
    """Whether a document is a schedule of nn_dataflow and not a plan."""
    return "schedules" in data and "resource" in data


def read_schedule(data: dict[str, Any], graph: Graph, array: NodeArray, layout: str) -> ForeignSchedule:
    """The partitions and homes of a schedule, for a network on an array.

    Raises:
        ValueError: the schedule is of another array or network, is a pipeline of layers, or lacks something.
    """
    try:
        return _Reader(data, graph, array, layout).read()
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"schedules: is not as nn_dataflow writes it ({type(error).__name__}: {error})") from error


def replayed(problem: Problem, schedule: ForeignSchedule) -> Plan:
    """The schedule as a plan: each layer's node program is the optimum of its part.

    Raises:
        ValueError: a part has no mapping.
    """
    homes = {name: schedule.homes[name] for name in problem.graph.homes}
    choices = {name: problem.exact(name, partition, homes) for name, partition in schedule.partitions.items()}
    return problem.plan(choices, homes)


class _Reader:
    """Matches layers and translates partitions."""

    def __init__(self, data: dict[str, Any], graph: Graph, array: NodeArray, layout: str) -> None:
        self.data, self.graph, self.array, self.layout = data, graph, array, layout
        self.region = array.whole

    def read(self) -> ForeignSchedule:
        """Everything that a plan takes over."""
        nodes = tuple(self.data["resource"]["proc_region"][0])
        if nodes != (self.array.rows, self.array.cols):
            sizes = f"{self.array.rows} x {self.array.cols} nodes (got {nodes[0]} x {nodes[1]})"
            raise ValueError(f"resource.proc_region: must be {sizes}")
        partitions: dict[str, Partition] = {}
        outputs: dict[str, tuple[bool, Any]] = {}
        for task, entry, after in self._matched():
            partitions[task.name] = self._partition(entry.part)
            between = after[-1] if after else entry
            outputs[task.name] = bool(after), between.output
        return ForeignSchedule(
            partitions=partitions,
            homes=self._homes(outputs),
            time=self.data["total_time"],
            cost=self.data["total_cost"],
        )

    def _entries(self) -> list[_Entry]:
        entries = []
        for name, (scheme, output, _) in self.data["schedules"].items():
            if scheme["num_nodes"] != self.array.nodes:
                raise ValueError(f"schedules.{name}: runs on {scheme['num_nodes']} nodes: pipelines cannot be replayed")
            entries.append(_Entry(name=name, ops=round(scheme["ops"]), part=scheme["part"], output=output[2][0]))
        return entries

    def _matched(self) -> Iterator[tuple[LayerTask, _Entry, list[_Entry]]]:
        """Each layer with its entry and the entries behind it that are no layers of ours."""
        entries, at = self._entries(), 0
        for number, task in enumerate(self.graph.tasks):
            if at == len(entries) or entries[at].ops != task.workload.macs:
                got = f"{entries[at].name} with {entries[at].ops}" if at < len(entries) else "no more layers"
                wanted = f"{task.name} with {task.workload.macs} multiplications"
                raise ValueError(f"schedules: must be of {self.graph.name}: {wanted} (got {got})")
            entry, at = entries[at], at + 1
            last = number + 1 == len(self.graph.tasks)
            macs = None if last else self.graph.tasks[number + 1].workload.macs
            start = at
            while at < len(entries) and entries[at].ops != macs:
                at += 1
            yield task, entry, entries[start:at]

    def _partition(self, part: Any) -> Partition:
        order, splits = part
        return Partition(
            region=self.region,
            h=_digits(order, splits, 0, _LAYER_DIMS),
            w=_digits(order, splits, 1, _LAYER_DIMS),
        )

    def _homes(self, outputs: dict[str, tuple[bool, Any]]) -> dict[str, Home]:
        """Of every stack: the layout of a pooled or added output if there is one, else of the first writer's."""
        homes = {}
        for name in self.graph.homes:
            writers = [task.name for task in self.graph.tasks if self.graph.home_of[task.writes] == name]
            found = sorted((outputs[writer] for writer in writers), key=lambda one: not one[0])
            part = found[0][1] if found else self.data["input_layout"][2][0]
            homes[name] = self._home(part)
        return {stack: homes[self.graph.home_of[stack]] for stack in self.graph.stacks}

    def _home(self, part: Any) -> Home:
        order, splits = part
        sides = {side: _digits(order, splits, at, _TENSOR_DIMS) for at, side in enumerate("hw")}
        return Home(region=Region(0, 0, self.region.h, self.region.w), layout=self.layout, **sides)


def _digits(order: list[int], splits: list[list[int]], side: int, dims: dict[int, tuple[str, str]]) -> Digits:
    """Digits of rows (side 0) or columns (1) of nodes, outermost first."""
    return tuple((dims[kind][side], splits[kind][side]) for kind in order if splits[kind][side] > 1)
