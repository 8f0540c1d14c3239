"""What bounds a mapping: when each resource ends, the shares of the energy, and how full each level is."""

import math
from collections.abc import Iterator

from attrs import frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.dims import Level, Tensor
from cpsat_pim.base.units import to_fj
from cpsat_pim.evaluate.cost import access_energies_fj, to_machine, to_nest
from cpsat_pim.mapping import Mapping
from cpsat_pim.mapping.check import used_bytes
from cpsat_pim.mapping.widths import in_whole_units
from cpsat_pim.workload import ConvWorkload
from tables.counts.cost import bank_cycles, bank_name, exact_cost, transfers
from tables.counts.latency import PIPELINE, with_walk


@frozen(kw_only=True)
class Resource:
    """A resource that takes time: `busy_cycles` by itself; it ends after `end_cycles`, `slack_cycles` before the last.

    The latter two include what it cannot overlap: the first tiles' way in, the last one's way out, and stalls.
    """

    name: str
    busy_cycles: int
    end_cycles: int
    slack_cycles: int


@frozen(kw_only=True)
class Share:
    """A part of the energy: of a `place`, MAC, activation or a level by name, and of a tensor if there is one."""

    place: str
    tensor: Tensor | None
    fj: int


@frozen(kw_only=True)
class Fill:
    """The bytes of each tensor that a level stores, and the bytes that tiles may use together.

    `usable`: the bytes that each tile may use where tensors have separate buffers, else empty.
    """

    level: Level
    used: dict[Tensor, int]
    usable_bytes: int
    usable: dict[Tensor, int]

    @property
    def used_bytes(self) -> int:
        """The bytes of all tensors."""
        return sum(self.used.values())

    @property
    def slack_bytes(self) -> int:
        """The bytes that are left."""
        return self.usable_bytes - self.used_bytes


@frozen(kw_only=True)
class Bounds:
    """A legal mapping's resources, those that end last first; shares, largest first; levels, PE..DRAM.

    The latency is that of the first resource and the pipeline's.
    """

    resources: tuple[Resource, ...]
    pipeline_cycles: int
    shares: tuple[Share, ...]
    fills: tuple[Fill, ...]

    @property
    def critical(self) -> str:
        """The resource that ends last."""
        return self.resources[0].name

    @property
    def latency_cycles(self) -> int:
        """The predicted latency."""
        return self.resources[0].end_cycles + self.pipeline_cycles

    @property
    def energy_fj(self) -> int:
        """The sum of all shares."""
        return sum(share.fj for share in self.shares)


def find_bounds(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> Bounds:
    """Return what bounds a legal mapping, as predicted."""
    whole_layer, whole_arch = in_whole_units(layer, arch)
    nest, machine = to_nest(whole_layer, mapping, arch.spatial_reduction), to_machine(whole_arch)
    cost = with_walk(exact_cost(nest, machine), nest, machine)
    busy = transfers(nest, machine, cost.accesses) | {"compute": cost.compute_cycles}
    busy |= {f"dram_{t.name}": cost.streams[t].cycles for t in Tensor}
    banks = bank_cycles(nest, cost.streams)
    busy |= {"dram_bus": sum(banks.values())} | {bank_name(tensors): cycles for tensors, cycles in banks.items()}
    busy |= {PIPELINE: cost.latency_terms.get(PIPELINE, 0)}
    last = max(cost.latency_terms.values())
    resources = [
        Resource(name=name, busy_cycles=busy[name], end_cycles=end, slack_cycles=last - end)
        for name, end in cost.latency_terms.items()
    ]
    rows = [stream.activations for stream in cost.streams]
    shares = [*_accesses(arch, cost.accesses.tolist()), *_activations(arch, rows), _macs(layer, arch)]
    return Bounds(
        resources=tuple(sorted(resources, key=lambda resource: resource.slack_cycles)),
        pipeline_cycles=machine.pipeline_latency,
        shares=tuple(sorted((share for share in shares if share.fj), key=lambda share: -share.fj)),
        fills=tuple(_fills(layer, arch, mapping)),
    )


def _accesses(arch: PIMArchitecture, counts: list[list[list[int]]]) -> Iterator[Share]:
    """Reads and writes of each tensor at each level (Eq. 42)."""
    costs = access_energies_fj(arch)
    for level in Level:
        for tensor in Tensor:
            reads, writes = counts[level][tensor]
            fj = reads * costs[level][0] + writes * costs[level][1]
            yield Share(place=level.name, tensor=tensor, fj=fj)


def _activations(arch: PIMArchitecture, rows: list[int]) -> Iterator[Share]:
    """Rows opened for each tensor."""
    for tensor in Tensor:
        yield Share(place="activation", tensor=tensor, fj=int(rows[tensor]) * to_fj(arch.activation_energy))


def _macs(layer: ConvWorkload, arch: PIMArchitecture) -> Share:
    return Share(place="MAC", tensor=None, fj=layer.macs * to_fj(arch.pe_array.compute_unit.mac_energy))


def _fills(layer: ConvWorkload, arch: PIMArchitecture, mapping: Mapping) -> Iterator[Fill]:
    """Yield the fill of each level; the other half of a double buffer is not counted."""
    for level, used in zip(Level, used_bytes(layer, arch, mapping), strict=True):
        separate = () if arch.hierarchy[level].is_shared else Tensor
        usable = {t: arch.usable_bytes_of(level, t) for t in separate}
        whole = {t: math.ceil(size) for t, size in used.items()}
        yield Fill(level=level, used=whole, usable_bytes=arch.usable_bytes(level), usable=usable)
