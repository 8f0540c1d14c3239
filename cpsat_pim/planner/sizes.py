"""The sizes of a network's tensors, as they are made and as layers see them (docs/array.md, section 2)."""

from collections.abc import Sequence

from attrs import evolve, frozen

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
        samples, channels, height, width = self.read(names, taken)
        if isinstance(view, Reorder):
            return view.shape
        return (samples, channels, *view.size[::-1]) if view else (samples, channels, height, width)


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
