"""The sizes of a network's tensors, as they are made and as layers see them (docs/array.md, section 2)."""

from collections.abc import Sequence
from itertools import groupby

from attrs import evolve, frozen

from cpsat_pim.planner.channels import Span, spans_of
from cpsat_pim.planner.sums import Shape, operands_of
from cpsat_pim.workload.joins import ADD, Pool, Range, Resize, View, Views, view_of
from cpsat_pim.workload.network import NetworkNode
from cpsat_pim.workload.reorders import Reorder

#: How a layer sees a tensor; None: as it is.
Change = Pool | Resize | Reorder | None


@frozen
class Sizes:
    """(N, C, H, W) of all tensors."""

    of: dict[str, Shape]

    def channels(self, names: Sequence[str], taken: tuple[Range, ...] | None) -> int:
        """How many channels tensors have side by side, or what is taken of them."""
        count = sum(self.of[name][1] for name in names)
        return count if taken is None else sum(min(stop, count) - min(start, count) for start, stop in taken)

    def read(self, names: Sequence[str], taken: tuple[Range, ...] | None) -> Shape:
        """What is taken of tensors side by side, of the size of the first one."""
        samples, _, height, width = self.of[names[0]]
        return samples, self.channels(names, taken), height, width

    def seen(self, names: Sequence[str], taken: tuple[Range, ...] | None, view: Change) -> Shape:
        """The same as a layer sees it."""
        return seen_as(view, self.read(names, taken))

    def alike(self, node: NetworkNode) -> list[tuple[int, ...]]:
        """The numbers of a layer's parts, those of one size seen in one way together."""
        found: dict[object, tuple[int, ...]] = {}
        for at, part in enumerate(parts_of(node)):
            samples, _, *size = self.of[part.name]
            key = part.view, samples, tuple(size)
            found[key] = (*found.get(key, ()), at)
        return list(found.values())

    def taken(self, node: NetworkNode) -> list[tuple[Change, Shape]]:
        """How a layer sees its parts, those that are seen alike together, and (N, C, H, W) of what it takes of them."""
        parts, spans, found = parts_of(node), self._spans(node), []
        for places in self.alike(node):
            samples, _, height, width = self.of[parts[places[0]].name]
            channels = sum(span.stop - span.start for at, span in spans if at in places)
            found.append((parts[places[0]].view, (samples, channels, height, width)))
        return found

    def seen_by(self, node: NetworkNode) -> Shape:
        """(N, C, H, W) of what a layer reads, as it sees it."""
        seen = [seen_as(view, shape) for view, shape in self.taken(node)]
        samples, _, height, width = seen[0]
        return samples, sum(channels for _, channels, *_ in seen), height, width

    def groups(self, node: NetworkNode) -> dict[int, tuple[int, int | None]]:
        """By part of a layer the first one that is seen alike, and how many channels of these it sees if it reorders
        them.
        """
        counts = [view.shape[1] if isinstance(view, Reorder) else None for view, _ in self.taken(node)]
        return {at: (own[0], count) for own, count in zip(self.alike(node), counts, strict=True) for at in own}

    def is_scattered(self, node: NetworkNode) -> bool:
        """Whether a layer takes others between tensors that it reorders together."""
        groups = self.groups(node)
        found = [group for group, _ in groupby(groups[at] for at, _ in self._spans(node))]
        return any(group[1] is not None and found.count(group) > 1 for group in found)

    def _spans(self, node: NetworkNode) -> list[tuple[int, Span]]:
        """What a layer takes of its parts, each by itself."""
        return spans_of([(0, self.of[part.name][1]) for part in parts_of(node)], node.channels)


def seen_as(view: Change, shape: Shape) -> Shape:
    """(N, C, H, W) of a tensor of this shape as a layer sees it."""
    if isinstance(view, Reorder):
        return view.shape
    return (*shape[:2], *view.size[::-1]) if view else shape


@frozen
class Part:
    """A tensor that is a part of a layer's input, and how the layer sees it."""

    name: str
    view: Change


def parts_of(node: NetworkNode) -> tuple[Part, ...]:
    """The tensors whose channels a layer reads one behind the other; a sum is its first operand."""
    operands = operands_of(node)
    names = operands[:1] if node.join == ADD else operands
    views = [view_of(node.views, name, names[:at].count(name)) for at, name in enumerate(names)]
    return tuple(Part(name, view.change if view else node.input_pool) for name, view in zip(names, views, strict=True))


def output_size(node: NetworkNode) -> Shape:
    """(N, C, H, W) of a layer's output, pooled."""
    layer = node.workload
    width, height = node.pool.size if node.pool else (layer.P, layer.Q)
    return (node.samples, node.blocks * layer.K, height, width)


def leading(missing: int) -> int:
    """Zeros in front: half of what is missing, rounded up."""
    return -(-max(0, missing) // 2)


def with_batch(node: NetworkNode, batch: int) -> NetworkNode:
    """A layer with so many times the samples, each of which has operands of its own in a product of two activations."""
    has_own = node.sample_weights or (batch > 1 and node.workload.N == 1 and not node.weights)
    views = node.views and {name: _views_of_batch(view, batch) for name, view in node.views.items()}
    adds, input_adds = (
        some and {name: _view_of_batch(view, batch) for name, view in some.items()}
        for some in (node.adds, node.input_adds)
    )
    workload = evolve(node.workload, N=node.workload.N * batch)
    return evolve(node, sample_weights=has_own, workload=workload, views=views, adds=adds, input_adds=input_adds)


def _views_of_batch(views: Views, batch: int) -> Views:
    if isinstance(views, tuple):
        return tuple(_view_of_batch(view, batch) for view in views)
    return _view_of_batch(views, batch)


def _view_of_batch(view: View, batch: int) -> View:
    """How so many times the samples are seen: those of the batch outermost, as before."""
    one = view.reorder
    if one is None or batch == 1:
        return view
    samples = 1
    for axis, count, _ in (digit for digits in one.axes for digit in digits):
        samples *= count if axis == "N" else 1
    return evolve(view, reorder=evolve(one, N=(("N", batch, samples), *one.N)))
