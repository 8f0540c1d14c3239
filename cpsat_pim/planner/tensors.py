"""What a network's graph is made of: stacks as they are stored, and what each layer reads and writes of them
(docs/array.md, section 2).
"""

import math
from collections.abc import Sequence
from functools import cached_property

from attrs import frozen

from cpsat_pim.planner.channels import Span
from cpsat_pim.planner.sums import Extent, Shape, Sum
from cpsat_pim.planner.tours import SHARES_INPUT, SHARES_WEIGHTS
from cpsat_pim.workload import ConvWorkload
from cpsat_pim.workload.joins import Pool, Range, Resize
from cpsat_pim.workload.reorders import Reorder


@frozen(kw_only=True)
class Stack:
    """A tensor as it is stored: (N, C, H, W), its members' channels one behind the other; the first member names it.

    `spread`: the axes along which it has one element, but the sum that it is an operand of has more: every node of its
    home has that element.
    """

    name: str
    members: tuple[str, ...]
    offsets: tuple[int, ...]
    shape: tuple[int, int, int, int]
    element_bytes: int
    spread: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """Elements of the stack."""
        return math.prod(self.shape)

    @property
    def extent(self) -> Extent:
        """What its home boxes depend on, besides the home."""
        return self.shape, self.spread


@frozen(kw_only=True)
class Reading:
    """What a layer reads of a stack: ranges of channels, in the order of its input channels.

    `view`: how it is pooled, resized or reordered by the reader; its channels are then those that it sees, from the
    first span's on. `is_added`: these channels are added to those that the reader has of other readings of its input.
    """

    stack: str
    spans: tuple[Span, ...]
    view: Pool | Resize | Reorder | None = None
    is_added: bool = False

    @property
    def channels(self) -> tuple[Range, ...]:
        """The ranges of the stack."""
        return tuple((span.start, span.stop) for span in self.spans)


@frozen(kw_only=True)
class LayerTask:
    """A layer with its tensors: `pad` (left, top), `offset` of its output's channels in the stack that it writes.

    `beside`: what its input has of other stacks, and then what is added to it. `adds`: what is added to its output.
    `has_heads`: N counts heads that lie along channels. `has_sample_weights`: W differs between samples, as keys and
    values do.
    """

    name: str
    workload: ConvWorkload
    reads: Reading
    beside: tuple[Reading, ...] = ()
    adds: tuple[Reading, ...] = ()
    reads_weights: Reading | None
    weight_rows: str | None
    pad: tuple[int, int]
    pool: Pool | None
    writes: str
    offset: int
    finishes: tuple[Sum, ...] = ()
    has_heads: bool = False
    has_sample_weights: bool = False

    @property
    def weight_dims(self) -> tuple[str, ...]:
        """Dims that W depends on: nodes that agree in them need the same."""
        return ("N", *SHARES_WEIGHTS) if self.has_sample_weights else SHARES_WEIGHTS

    def replica_counts(self, sharing: int) -> tuple[int, ...]:
        """How many replicas of W so many nodes may hold, the most first; all of them where samples have their own W."""
        if self.has_sample_weights:
            return (sharing,)
        return tuple(n for n in range(sharing, 0, -1) if sharing % n == 0)

    @property
    def has_weights(self) -> bool:
        """Whether W holds weights, not activations."""
        return self.reads_weights is None

    @property
    def adds_inputs(self) -> bool:
        """Whether something is added to its input."""
        return any(reading.is_added for reading in self.beside)

    @property
    def others(self) -> tuple[Reading, ...]:
        """What it reads besides `reads`: of other stacks, in the place of W, or to add it to its output."""
        return (*self.beside, *((self.reads_weights,) if self.reads_weights else ()), *self.adds)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """All that it reads."""
        return (self.reads, *self.others)

    def shares_of(self, number: int) -> tuple[str, ...]:
        """The dims by which nodes need the same of a reading (by number; not of what is added)."""
        return SHARES_INPUT if number <= len(self.beside) else self.weight_dims

    @property
    def read_stacks(self) -> tuple[str, ...]:
        """The stacks that it reads, in the order of its readings."""
        return tuple(reading.stack for reading in self.readings)


@frozen(kw_only=True, slots=False)
class Graph:
    """A network's stacks by name, its layers in order, and its sums; `home_of`: the stack whose home a stack shares.

    Operands of a sum share one, and so do the stacks that one layer reads besides the first.
    `batch`: samples at once; N of the layers is so many times that of the network.
    """

    name: str
    batch: int = 1
    stacks: dict[str, Stack]
    tasks: tuple[LayerTask, ...]
    sums: tuple[Sum, ...]
    home_of: dict[str, str]
    stack_of: dict[str, str]

    def task(self, name: str) -> LayerTask:
        """The layer of a name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, LayerTask]:
        return {task.name: task for task in self.tasks}

    @property
    def homes(self) -> tuple[str, ...]:
        """Stacks that need a home of their own, the input's first."""
        return tuple(dict.fromkeys(self.home_of.values()))

    def home_shape(self, stack: str) -> Shape:
        """The size of a stack's home along each axis: the least of all stacks that share it."""
        return self._home_shapes[self.home_of[stack]]

    @cached_property
    def _home_shapes(self) -> dict[str, Shape]:
        sharing: dict[str, list[Stack]] = {}
        for stack, home in self.home_of.items():
            sharing.setdefault(home, []).append(self.stacks[stack])
        return {home: _least_shape(stacks) for home, stacks in sharing.items()}

    def readers(self, stack: str) -> tuple[str, ...]:
        """Layers that read a stack."""
        return tuple(self._readers.get(stack, ()))

    @cached_property
    def _readers(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for task in self.tasks:
            for stack in dict.fromkeys(task.read_stacks):
                found.setdefault(stack, []).append(task.name)
        return found


def _least_shape(stacks: Sequence[Stack]) -> Shape:
    """The least size along each axis of stacks that are not spread along it."""
    n, c, h, w = (min(one.shape[axis] for one in stacks if axis not in one.spread) for axis in range(4))
    return n, c, h, w
