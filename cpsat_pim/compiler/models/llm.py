"""Time of the generated tokens of a transformer, layer by layer on host or PIM (DCC, fig. 8).

The published systems follow AttAcc's model (`models.published`): `gpu` runs everything on the host, `base` attention on
PIM, `full` also a part of the feed-forward, and overlaps heads. `compiled-base` and `compiled-full` take attention, QKV
and projection with this package's best mappings, each product where it is faster, and the feed-forward as `base` and
`full` have it: the published model divides it by the peak bandwidths, which no mapping reaches. `compiled` divides the
outputs of every product over host and PIM by exact times. `compiled-piped` is `compiled-full` with the published
overlap of heads. It uses the banks twice at a time, since QKV and projection run on PIM, too; but the times of DCC's
figure can only be had so: they do not grow with the length (`docs/compiler-results.md`).
"""

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Names
from functools import cached_property, partial

from attrs import frozen

from cpsat_pim.compiler.host import Host, host_of
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.models import published
from cpsat_pim.compiler.models.block import GROUPS, Block, Parts, Request
from cpsat_pim.compiler.models.compiled import channel_seconds, compiled_products, host_softmax_seconds
from cpsat_pim.compiler.target import Target

SYSTEMS = ("gpu", "base", "compiled-base", "full", "compiled-full", "compiled-piped", "compiled")
#: The systems of a choice of `--place`.
PLACES = {
    "auto": SYSTEMS,
    "base": ("gpu", "base", "compiled-base"),
    "full": ("gpu", "full", "compiled-full", "compiled-piped"),
}


@frozen(slots=False)
class Generation:
    """All generated tokens of a request but the first, which belongs to the given ones."""

    request: Request
    target: Target

    @property
    def host(self) -> Host:
        """The host that the device names."""
        return host_of(self.target.device)

    @cached_property
    def block(self) -> Block:
        """One block; all are equal."""
        return Block(self.request.model, self.request.batch, self.host, self.target)

    def seconds(self, system: str) -> Parts:
        """Seconds of all blocks by group of layers.

        Raises:
            KernelMistake: keys and values do not fit the device.
        """
        if system in ("gpu", "base", "full"):
            published_parts: Callable[[Block, int], Parts] = getattr(published, system)
            return self._added_up(partial(published_parts, self.block))
        fixed = self._fixed_parts(system)
        if system == "compiled-piped":
            seconds = iter(self.attention)
            return self._added_up(lambda length: self._piped(fixed, next(seconds)))
        attention = sum(self.attention) * self.request.model.blocks
        return {group: attention if group == "attention" else fixed[group] * self._tokens for group in GROUPS}

    @cached_property
    def attention(self) -> Sequence[float]:
        """Seconds of the compiled attention for every length; the softmax of the whole request in the channels or on
        the host, whichever is faster, so that keys and values never change their places.
        """
        lengths, last = self.request.lengths, self.request.lengths[-1]
        channel = [channel_seconds(self.block, length, last) for length in lengths]
        least = sum(host_softmax_seconds(self.block, length, last, is_bound=True) for length in lengths)
        if sum(channel) > least:
            host = [host_softmax_seconds(self.block, length, last) for length in lengths]
            channel = min(channel, host, key=sum)
        if sum(channel) == float("inf"):
            raise KernelMistake(f"{self.request.model.name}: keys and values do not fit {self.target.device.name}")
        return channel

    @property
    def _tokens(self) -> int:
        return len(self.request.lengths) * self.request.model.blocks

    def _piped(self, fixed: Parts, attention: float) -> Parts:
        return published.overlapped(self.block, fixed, attention, attention)

    def _fixed_parts(self, system: str) -> Parts:
        """Seconds of one block's layers that do not depend on the length."""
        products = compiled_products(self.block, shares=system == "compiled")
        if system in ("compiled-full", "compiled-piped"):
            products["feed-forward"] = published.shared_feed_forward(self.block)
        if system == "compiled-base":
            products["feed-forward"] = self.block.host_products["feed-forward"]
        return {**products, "other": self.block.pointwise + self.block.moved / self.request.model.heads}

    def _added_up(self, parts: Callable[[int], Parts]) -> Parts:
        total = dict.fromkeys(GROUPS, 0.0)
        for length in self.request.lengths:
            for group, seconds in parts(length).items():
                total[group] += seconds * self.request.model.blocks
        return total


def generation_seconds(request: Request, system: str, target: Target) -> Parts:
    """Seconds of all generated tokens but the first, by group of layers."""
    return Generation(request, target).seconds(system)


def speedups(times: Names[str, Parts]) -> dict[str, float]:
    """How much faster each system generates than the host alone."""
    return {system: sum(times["gpu"].values()) / sum(parts.values()) for system, parts in times.items()}
