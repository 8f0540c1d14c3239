"""Where the elements of a tensor come from: outputs of layers, which may be pooled and padded on the way."""

from collections.abc import Callable, Sequence

from attrs import evolve, field, frozen

from cpsat_pim.workload.joins import Pool
from cpsat_pim.workload.network import INPUT

#: Columns and rows.
Pair = tuple[int, int]


@frozen
class Source:
    """A layer's output, or the network's input: behind `pool` if it is pooled, then behind `pad` zeros (left, top).

    `rest`: what `pool` is behind the first pooling, where there were several.
    """

    layer: str
    pool: Pool | None = None
    pad: Pair = (0, 0)
    first: Pool | None = field()
    rest: Pool | None = None

    @first.default
    def _whole(self) -> Pool | None:
        return self.pool

    def pooled(self, pool: Pool) -> "Source":
        """Return the source pooled once more. A window of windows is one window."""
        if self.pool is None:
            return Source(self.layer, _behind(None, self.pad, pool))
        return Source(
            self.layer, _behind(self.pool, self.pad, pool), first=self.first, rest=_behind(self.rest, self.pad, pool)
        )

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
