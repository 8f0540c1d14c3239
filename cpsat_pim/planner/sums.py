"""Sums of a network's tensors, and the rules that they keep to (docs/array.md, section 2)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from cpsat_pim.workload.joins import ADD
from cpsat_pim.workload.network import INPUT, NetworkNode

#: (N, C, H, W).
Shape = tuple[int, int, int, int]
#: A shape, and the axes along which the tensor is spread over a sum.
Extent = tuple[Shape, tuple[int, ...]]


@frozen(kw_only=True)
class Sum:
    """`first` + the other operands (tensor names), finished by the layer that comes last."""

    operands: tuple[str, ...]
    finished_by: str

    @property
    def first(self) -> str:
        """The operand that names the sum."""
        return self.operands[0]


def operands_of(node: NetworkNode) -> tuple[str, ...]:
    """Return the tensors that become a layer's I."""
    return node.after if node.weights else node.after[:1]


def added_to(node: NetworkNode) -> tuple[str, ...]:
    """Return the tensors that a layer adds to its input or output."""
    return (*(node.input_adds or ()), *(node.adds or ()))


def spread_axes(name: str, sums: Iterable[Sum], sizes: Mapping[str, Shape]) -> tuple[int, ...]:
    """Return the axes along which an operand has one element and its sum has more."""
    firsts = [one.first for one in sums if name in one.operands]
    return tuple(axis for axis in range(4) if any(sizes[name][axis] == 1 < sizes[first][axis] for first in firsts))


def adds_alike(node: NetworkNode, sizes: Mapping[str, Shape]) -> bool:
    """Return whether the operands of a sum are as large as the first one, or have one element along an axis."""
    operands = operands_of(node)
    return node.join != ADD or all(
        {sizes[name][a] for name in operands} <= {1, sizes[operands[0]][a]} for a in range(4)
    )


def sum_problems(nodes: Sequence[NetworkNode], sums: Mapping[str, Sum], sizes: Mapping[str, Shape]) -> Iterator[str]:
    """Yield a line for each rule of sums and concatenations that is broken.

    Operands are alike, or spread over the first one, and who reads the first one alone before the sum is finished
    helps to make an operand.

    Args:
        nodes: the layers in order.
        sums: by their first operand.
        sizes: of all tensors.
    """
    yield from _SumRules(nodes, sums, sizes).problems()


class _SumRules:
    """The layers and sums of a network."""

    def __init__(self, nodes: Sequence[NetworkNode], sums: Mapping[str, Sum], sizes: Mapping[str, Shape]) -> None:
        self.nodes, self.sums, self.sizes = nodes, sums, sizes
        self.order = {node.name: at for at, node in enumerate(nodes)}

    def problems(self) -> Iterator[str]:
        """Yield a line for each rule that is broken."""
        last = [one.finished_by for one in self.sums.values()]
        for name in sorted({name for name in last if last.count(name) > 1}):
            yield f"{name}: must not finish several sums"
        for one in self.sums.values():
            yield from self._spread_problems(one)
        for node in self.nodes:
            yield from self._size_problems(node)
            for place, name in enumerate((*operands_of(node), *added_to(node))):
                if (found := self.sums.get(name)) is not None:
                    yield from self._reader_problems(node, found, place)

    def _size_problems(self, node: NetworkNode) -> Iterator[str]:
        """Yield a line where operands of a sum have different sizes; they may have one element along an axis."""
        operands = operands_of(node)
        if not adds_alike(node, self.sizes):
            sizes = sorted({self.sizes[name] for name in operands})
            told = ", ".join(map(str, sizes))
            yield f"{node.name}: after: must have one size (got {told}); no operand of a sum may be resized by itself"

    def _spread_problems(self, one: Sum) -> Iterator[str]:
        """Yield a line for each operand that is spread over the sum, but has another use."""
        for name in one.operands[1:]:
            if spread_axes(name, [one], self.sizes):
                others = [other for other in self.sums.values() if other != one and name in other.operands]
                readers = [node.name for node in self.nodes if self._reads(node, name)]
                if name == INPUT or others or readers:
                    use = "is the network's input" if name == INPUT else "is read elsewhere"
                    yield f"{name}: is spread over {one.first}, so nothing else may read it (it {use})"

    def _reads(self, node: NetworkNode, name: str) -> bool:
        """Return whether a layer reads a tensor otherwise than as an operand of a sum that lies elsewhere."""
        parts = node.after[:1] if node.join == ADD else node.after
        return name in (*parts, *added_to(node))

    def _reader_problems(self, node: NetworkNode, found: Sum, place: int) -> Iterator[str]:
        before = self.order.get(found.finished_by, -1) >= self.order[node.name]
        if before and not self._helps(node, found):
            yield f"{node.name}: reads {found.first} before its sum is finished by {found.finished_by}"
        if place == 0 and node.join == ADD and node.after != found.operands:
            yield f"{node.name}: {found.first} is the first operand of {', '.join(found.operands)} already"

    def _helps(self, node: NetworkNode, found: Sum) -> bool:
        """Return whether a layer that adds nothing itself helps to make an operand: it reads the first one as it is."""
        ahead, seen = list(found.operands[1:]), set[str]()
        while ahead:
            name = ahead.pop()
            if name not in seen and name in self.order:
                seen.add(name)
                ahead += self.nodes[self.order[name]].read
        return node.join is None and node.name in seen
