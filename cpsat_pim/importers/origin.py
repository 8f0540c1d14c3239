"""Where the elements of a tensor come from: outputs of layers, which may be pooled, resized and padded on the way."""

from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, field, frozen

from cpsat_pim.workload.joins import CORNERS, NEAREST, Pool, Range, Resize
from cpsat_pim.workload.network import INPUT
from cpsat_pim.workload.reorders import Reorder

#: Columns and rows.
Pair = tuple[int, int]


@frozen
class Source:
    """A layer's output, or the network's input: behind `pool` if it is pooled, `resize` if it is then resized, and then
    `pad` zeros (left, top); or behind `reorder`, with those beside it that are reordered in the same way.

    `rest`: what `pool` is behind the first pooling, where there were several. `adds`: what is added to the layer's
    output before. `channels`: of what is added, those that are taken, if not all. `plus`: sums of layers' outputs that
    whoever reads it adds to what it sees.
    """

    layer: str
    pool: Pool | None = None
    pad: Pair = (0, 0)
    first: Pool | None = field()
    rest: Pool | None = None
    resize: Resize | None = None
    adds: tuple["Source", ...] = ()
    channels: tuple[Range, ...] | None = None
    reorder: Reorder | None = None
    plus: tuple[tuple["Source", ...], ...] = ()

    @first.default
    def _whole(self) -> Pool | None:
        return self.pool

    def pooled(self, pool: Pool) -> "Source":
        """Return the source pooled once more. A window of windows is one window.

        What is pooled behind a resizing or reordering is no view: the source is returned with a size that it does not
        have, so that no plan takes it for one.
        """
        if (last := self.resize or self.reorder) is not None:
            return evolve(self, resize=None, reorder=None) if last.size == pool.size else self
        if self.pool is None:
            return Source(self.layer, _behind(None, self.pad, pool), adds=self.adds)
        whole, rest = (_behind(one, self.pad, pool) for one in (self.pool, self.rest))
        return Source(self.layer, whole, first=self.first, rest=rest, adds=self.adds)

    def resized(self, resize: Resize) -> "Source":
        """Return the source with other rows and columns; as it is where that is no single step."""
        return self if self.resize or self.reorder or any(self.pad) else evolve(self, resize=resize)

    def reordered(self, reorder: Reorder | None) -> "Source":
        """Return a layer's output with its elements along other axes; None: as it is."""
        return self if reorder is None else evolve(self, reorder=reorder)

    @property
    def size(self) -> Pair | None:
        """Width and height, as they are pooled, resized or reordered; None for those of the layer."""
        last = self.reorder or self.resize or self.pool
        return last.size if last else None

    def renamed(self, names: Mapping[str, str]) -> "Source":
        """Return the source with other names of layers."""
        adds = tuple(one.renamed(names) for one in self.adds)
        plus = tuple(tuple(one.renamed(names) for one in part) for part in self.plus)
        return evolve(self, layer=names.get(self.layer, self.layer), adds=adds, plus=plus)

    @property
    def added(self) -> tuple["Source", ...]:
        """What its reader adds to it."""
        return tuple(source for part in self.plus for source in part)

    def padded(self, front: Pair) -> "Source":
        """Return the source behind more zeros (left, top)."""
        return evolve(self, pad=(self.pad[0] + front[0], self.pad[1] + front[1]))


def _behind(earlier: Pool | None, pad: Pair, pool: Pool) -> Pool:
    """Return a pooling, then zeros (left, top), then another pooling as one."""
    own, axes = earlier or Pool(window=(1, 1), size=pool.size), range(2)
    return Pool(
        window=[own.window[a] + (pool.window[a] - 1) * own.stride[a] for a in axes],
        stride=[own.stride[a] * pool.stride[a] for a in axes],
        pad=[own.pad[a] + (pool.pad[a] + pad[a]) * own.stride[a] for a in axes],
        size=pool.size,
    )


def resizing(
    data: Sequence[int], out: Sequence[int], kind: str | None, scales: Sequence[float] | None = None
) -> Resize | None:
    """Return the resizing of `data` [batch, channels, height, width], or [batch, channels, width], to `out`.

    `scales`: of the spatial axes, where elements lie by these. None where nothing is resized, where layers have no such
    axes, where it is of another `kind`, None, or where a scale is not the ratio of the sizes, so that elements lie
    elsewhere (but for corners, which lie on each other whatever it is).
    """
    if kind is None or len(data) != len(out) or len(out) not in (3, 4) or [*data[2:]] == [*out[2:]]:
        return None
    ratios = zip(out[2:], data[2:], scales or (), strict=False)
    if kind != CORNERS and any(size != have * scale for size, have, scale in ratios):
        return None
    return Resize(size=(out[-1], out[-2] if len(out) == 4 else 1), kind=kind)


def nearest_of(data: Sequence[int], out: Sequence[int]) -> str | None:
    """Return `nearest` if sizes are multiples, so that it does not matter where the middles of elements lie."""
    return None if any(size % have for have, size in zip(data[2:], out[2:], strict=False)) else NEAREST


#: What is summed in a tensor, or in some of its channels.
Part = tuple[Source, ...]
#: The parts of a tensor: one, or several side by side; none of a constant.
Parts = tuple[Part, ...]

#: The input of the network.
FED: Parts = ((Source(INPUT),),)


def each_source(parts: Parts, change: Callable[[Source], Source]) -> Parts:
    """Return parts with every source changed."""
    return tuple(tuple(change(source) for source in part) for part in parts)


def pooling(
    data: Sequence[int], out: Sequence[int], window: Sequence[int], stride: Sequence[int], pad: Sequence[int]
) -> Pool | None:
    """Return a pooling of `data` [..., height, width], or [..., width], to `out`, given per spatial axis in this order.

    None where it changes nothing, where a layer's output has no such axes (three of them), or where a window begins
    behind the tensor.
    """
    axes = len(window)
    if axes not in (1, 2) or len(data) != len(out) or len(out) <= axes or {*window, *stride} == {1}:
        return None
    if any((size - 1) * s - p >= have for size, s, p, have in zip(out[-axes:], stride, pad, data[-axes:], strict=True)):
        return None
    one, zero = [1] * (2 - axes), [0] * (2 - axes)
    return Pool(
        window=[*reversed(window), *one],
        stride=[*reversed(stride), *one],
        pad=[*reversed(pad), *zero],
        size=[*reversed(out[-axes:]), *one],
    )
