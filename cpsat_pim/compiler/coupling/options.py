"""What may be decided for one layer, with exact times, energies and bytes in the banks for every batch size."""

from collections.abc import Iterator
from itertools import combinations
from math import prod

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.host import Host, Product, product_seconds
from cpsat_pim.compiler.host.energy import product_fj
from cpsat_pim.compiler.mapping import Contraction, Mapping
from cpsat_pim.compiler.models.compiled import SHARES, weight_contraction
from cpsat_pim.compiler.search.objective import energy_fj, states_energies
from cpsat_pim.compiler.search.space import output_ps, space_of
from cpsat_pim.compiler.search.sweep import mapping_of
from cpsat_pim.compiler.target import Target
from tables.commands.shared import Uses, sweep_layouts
from tables.commands.steps import Share, ceiling, pass_columns
from tables.commands.sweep import NONE

Ints = NDArray[np.int64]


@frozen(kw_only=True)
class Option:
    """One way to compute a layer.

    `sixteenths` of the outputs are computed on PIM for the batch sizes `on_pim`, at the same time as the others on the
    host. `times_ps`, `energies_fj`: for every batch size. `stored_bytes`: what the layer's weights take in the banks of
    one block, in both layouts together. `mappings`: of the batch sizes on PIM; they differ only in what overlaps.
    """

    layer: str
    sixteenths: int
    on_pim: tuple[int, ...]
    times_ps: tuple[int, ...]
    energies_fj: tuple[int, ...]
    stored_bytes: int
    mappings: tuple[Mapping, ...] = ()

    def describe(self) -> str:
        """The option in words."""
        if not self.on_pim:
            return "host"
        share = "" if self.sixteenths == SHARES else f" {self.sixteenths}/{SHARES} beside the host"
        return f"PIM{share} for batch {', '.join(map(str, self.on_pim))}"


def product_options(
    layer: str, product: Product, batches: tuple[int, ...], target: Target, host: Host, divides: bool
) -> Iterator[Option]:
    """The options of a product with a weight: the host; and for every set of batch sizes and every share of the outputs
    the layout with the least sum of times. With `divides` host and PIM may share the outputs, in shares of which the
    host's part takes less than everything on PIM.
    """
    works = tuple(evolve(product, m=batch) for batch in batches)
    alone = tuple(round(product_seconds(host, work) * 1e12) for work in works)
    energies = tuple(product_fj(host, work) for work in works)
    whole = product.n * product.k * product.element_bytes
    yield Option(layer=layer, sixteenths=0, on_pim=(), times_ps=alone, energies_fj=energies, stored_bytes=whole)
    for size in range(1, len(batches) + 1):
        for chosen in combinations(range(len(batches)), size):
            entire = _on_pim(layer, works, chosen, SHARES, target, host)
            if entire is not None:
                yield entire
            for sixteenths in range(1, SHARES) if divides else ():
                if entire is None or _may_pay(works, chosen, sixteenths, entire, host):
                    option = _on_pim(layer, works, chosen, sixteenths, target, host)
                    if option is not None:
                        yield option


def _may_pay(works: tuple[Product, ...], chosen: tuple[int, ...], sixteenths: int, entire: Option, host: Host) -> bool:
    """Whether for some batch size the host's part takes less than everything on PIM."""
    rest = works[0].n - works[0].n * sixteenths // SHARES
    seconds = (product_seconds(host, evolve(works[at], n=rest)) for at in chosen)
    return any(time * 1e12 < entire.times_ps[at] for at, time in zip(chosen, seconds, strict=True))


def _on_pim(
    layer: str, works: tuple[Product, ...], chosen: tuple[int, ...], sixteenths: int, target: Target, host: Host
) -> Option | None:
    """The best layout for some batch sizes and a share of the outputs, or None if none fits."""
    columns = works[0].n * sixteenths // SHARES
    parts = [evolve(works[at], n=columns) for at in chosen]
    rests = [evolve(work, n=work.n - columns) for work in works]
    floors = [round(product_seconds(host, rests[at]) * 1e12) if rests[at].n else 0 for at in chosen]
    found = shared_layout([weight_contraction(part) for part in parts], floors, target, host)
    if found is None:
        return None
    mappings, seconds = found
    times = [round(product_seconds(host, work) * 1e12) for work in works]
    energies = [product_fj(host, work) for work in works]
    for at, mapping, part, time in zip(chosen, mappings, parts, seconds, strict=True):
        times[at] = time
        energies[at] = _pim_fj(mapping, part, target) + (product_fj(host, rests[at]) if rests[at].n else 0)
    left = works[0].n - columns if len(chosen) == len(works) else works[0].n
    share = mappings[0].share(weight_contraction(parts[0]), target)
    stored = left * works[0].k * works[0].element_bytes + bank_bytes(share, prod(mappings[0].splits), target)
    return Option(
        layer=layer,
        sixteenths=sixteenths,
        on_pim=tuple(works[at].m for at in chosen),
        times_ps=tuple(times),
        energies_fj=tuple(energies),
        stored_bytes=stored,
        mappings=mappings,
    )


def shared_layout(
    contractions: list[Contraction], floors_ps: list[int], target: Target, host: Host
) -> tuple[tuple[Mapping, ...], list[int]] | None:
    """The layout of one matrix with the least sum of times over its uses, their mappings and picoseconds.

    `floors_ps`: what runs at the same time as each use. The largest use is the last.
    """
    largest = contractions[-1]
    space = space_of(largest, target)
    chunks = np.array([[_chunks(c, split) for split in space.splits] for c in reversed(contractions)])
    extra = np.array([[output_ps(c, target, host, split) for split in space.splits] for c in reversed(contractions)])
    floors = np.array(floors_ps[::-1])
    chosen = np.zeros((len(contractions), 3), np.int64)
    uses = Uses(chunks, extra, floors, np.ones(len(contractions), np.int64), 0)
    best = sweep_layouts(space.arrays, target.timing, uses, chosen)
    if best.total_ps >= NONE:
        return None
    layout = mapping_of(space, best)
    mappings, times = [], []
    for use, (ticks, drains, loads) in enumerate(chosen.tolist()):
        mappings.append(evolve(layout, overlaps_drains=bool(drains), overlaps_loads=bool(loads)))
        times.append(max(ticks * target.device.tick_ps + int(extra[use, best.split]), int(floors[use])))
    return tuple(mappings[::-1]), times[::-1]


def _chunks(contraction: Contraction, split: tuple[int, ...]) -> list[int]:
    return [ceiling(extent, parts) for extent, parts in zip(contraction.extents, split, strict=True)]


def _pim_fj(mapping: Mapping, product: Product, target: Target) -> int:
    return energy_fj(mapping, weight_contraction(product), target) if states_energies(target) else 0


def bank_bytes(share: Share, channels: int, target: Target) -> int:
    """Bytes of the rows that a matrix takes in all banks of the channels in use."""
    core = target.device.core
    rows = ceiling(pass_columns(share) * share.batches, core.columns)
    return rows * core.columns * core.column_bytes * int(np.prod(target.axes)) * channels
