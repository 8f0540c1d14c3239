"""The machine: memory levels, PE array, DRAM timing and options (listings 1 and 8)."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from attrs import field, frozen

from cpsat_pim.arch.dram import DramTimings
from cpsat_pim.arch.memory import MemoryHierarchy, MemoryLevel
from cpsat_pim.arch.pe_array import ComputeUnit, PEArray, PhyDim2
from cpsat_pim.base.dims import ON_CHIP, Level, Tensor
from cpsat_pim.base.reading import Listing, record_of
from cpsat_pim.base.units import measured_in
from cpsat_pim.base.validate import (
    as_tuple,
    boolean,
    complain,
    is_a,
    not_negative_real,
    one_of,
    or_none,
    positive,
    text,
)

#: What a file may change in a machine that it extends, by the names of levels.
LEVEL_NAMES = tuple(level.name for level in Level)
_LEVELS = Listing(record_of(MemoryLevel), "a list of four levels", LEVEL_NAMES)


def _to_timings(value: DramTimings | Mapping[str, int]) -> DramTimings:
    if not isinstance(value, Mapping):
        return value
    for key in value:
        if key not in attrs.fields_dict(DramTimings):
            known = ", ".join(attrs.fields_dict(DramTimings))
            raise ValueError(f"DramTimings.{key}: no such timing, there are {known}")
    return DramTimings(**value)


def _to_levels(value: MemoryHierarchy | tuple[MemoryLevel, ...]) -> tuple[MemoryLevel, ...]:
    levels: tuple[MemoryLevel, ...] = as_tuple(value)
    return levels


def _four_levels(instance: Any, attribute: Any, value: Any) -> None:
    """Check that the hierarchy has four MemoryLevels."""
    if not isinstance(value, tuple) or not all(isinstance(level, MemoryLevel) for level in value):
        complain(instance, attribute, "must be MemoryLevels", value)
    if len(value) != len(Level):
        names = ", ".join(level.name for level in value) or "none"
        rule = "must have 4 levels (PE, global buffer, row buffer, DRAM)"
        raise ValueError(f"PIMArchitecture.hierarchy: {rule} (got {names})")


def _default_pe_array() -> PEArray:
    # 16 x 16 PEs: listing 8. 1024 MACs a node: NicePIM's tuned design (128 x 8 PEs), so four lanes a PE.
    # 0.56 pJ a MAC: listing 3.
    return PEArray(array_shape=PhyDim2(h=16, w=16), compute_unit=ComputeUnit(unit_type="simd", num_macs=4))


def _default_hierarchy() -> MemoryHierarchy:
    return MemoryHierarchy(
        [
            # 512 entries a PE, latency 1: listing 8.
            # Energy: a register file access costs 1 MAC (Chen et al., Eyeriss, ISCA 2016, table IV).
            MemoryLevel(
                name="PELocalBuffer", entries=512, blocksize=1, instances=256, latency=1.0, access_cost=0.56e-3
            ),
            # 65536 entries, blocks of 64 B, latency 5: listing 8. 64 B a cycle and tensor: one block.
            # Energy: a buffer access costs 6 MACs (Eyeriss, table IV).
            MemoryLevel(
                name="GlobalBuffer",
                entries=65536,
                blocksize=64,
                latency=5.0,
                access_cost=3.36e-3,
                read_bandwidth_limit=64,
                write_bandwidth_limit=64,
            ),
            # 1 KiB rows: HBM2 (Samsung PIMSimulator HBM2_samsung_2M_16B_x64.ini), one open row a tensor.
            # Energy: cell read 0.44 pJ/bit (attacc_simulator src/config.py). 32 B a cycle: the column width.
            MemoryLevel(
                name="RowBuffer",
                entries=3072,
                blocksize=32,
                access_cost=3.52e-3,
                row_buffer_size=1024,
                read_bandwidth_limit=32,
                write_bandwidth_limit=32,
                double_buffered=False,
            ),
            # 16 banks of 16 MiB, a pseudo-channel: HBM2 as above. Energy from the IDDs of DRAMsim3's HBM2_8Gb_x128.ini:
            # 804 pJ a 64 B read, 1068 pJ a 64 B write.
            MemoryLevel(
                name="LocalDRAM",
                entries=16 * 16 * 2**20,
                blocksize=32,
                access_cost=12.5625e-3,
                write_cost=16.6875e-3,
                double_buffered=False,
            ),
        ]
    )


@frozen(kw_only=True)
class PIMArchitecture:
    """A PIM machine of `vault_count` x `pu_count` equal nodes; a layer is mapped on one node (listing 1).

    `page_policy`: `open` keeps rows open across tile fetches, `closed` precharges after each. `activation_energy`: nJ
    per row activation. `multicast`: an element that several PEs need at once leaves its level once.
    `spatial_reduction`: partial sums spread over PEs and lanes are added on the way out. `shared_data_bus`: the
    tensors' DRAM streams share one bus. `uneven_residency`: each tile in the PEs and the global buffer may cover only
    the inner loops of its level. `node_banks`: how many banks the node has, if tensors may have to share them; a
    mapping then says which do. Without it each tensor has `num_banks` of the DRAM for itself. `clock`: cycles per
    second, if known; files may then give times in seconds and bandwidths per second. `static_power`: watts that one
    node draws whether or not it works, if known; it does not affect which mapping is best, and is part of the reported
    power.

    Raises:
        ValueError: not four levels, widths that do not divide each other, or a figure out of range.
    """

    name: str = field(default="default", validator=text)
    vault_count: int = field(default=1, validator=positive)
    pu_count: int = field(default=1, validator=positive)
    dram_timings: DramTimings = field(factory=DramTimings, converter=_to_timings, validator=is_a(DramTimings))
    hierarchy: tuple[MemoryLevel, ...] = field(
        factory=_default_hierarchy, converter=_to_levels, validator=_four_levels, metadata={"kind": _LEVELS}
    )
    pe_array: PEArray = field(factory=_default_pe_array, validator=is_a(PEArray))
    page_policy: str = field(default="open", validator=one_of("open", "closed"))
    # 828 pJ: an HBM2 activation, from the IDDs of DRAMsim3's HBM2_8Gb_x128.ini.
    activation_energy: float = field(default=0.828, validator=not_negative_real, metadata=measured_in("nJ"))
    multicast: bool = field(default=True, validator=boolean)
    spatial_reduction: bool = field(default=True, validator=boolean)
    shared_data_bus: bool = field(default=False, validator=boolean)
    uneven_residency: bool = field(default=False, validator=boolean)
    node_banks: int | None = field(default=None, validator=or_none(positive))
    clock: int | None = field(
        default=None, validator=or_none(positive), metadata=measured_in("Hz") | {"scale": "cycle"}
    )
    static_power: float | None = field(default=None, validator=or_none(not_negative_real), metadata=measured_in("W"))

    def __attrs_post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ValueError("\n".join(f"PIMArchitecture.{problem}" for problem in problems))

    def _problems(self) -> Iterator[str]:
        if self.row_bytes % self.column_bytes:
            width = f"the column width {self.column_bytes} B"
            yield f"hierarchy[2].row_buffer_size: must be a multiple of {width} (got {self.row_bytes})"
        dram = self.hierarchy[Level.DRAM]
        if not all(dram.stores):
            yield f"hierarchy[3].stores: the DRAM stores all tensors (got {list(dram.stores)})"
        if not dram.is_shared:
            yield "hierarchy[3].entries: must be one number, all tensors share the DRAM"
        if self.node_banks is not None and dram.num_banks != 1:
            own = "node_banks: null gives each tensor banks of its own"
            yield f"hierarchy[3].num_banks: must be 1, as parts share node_banks (got {dram.num_banks}); {own}"

    @property
    def row_bytes(self) -> int:
        """Bytes of a DRAM row."""
        return self.hierarchy[Level.ROW_BUFFER].row_buffer_size

    @property
    def column_bytes(self) -> int:
        """Bytes of a column access."""
        return self.dram_timings.column_bytes

    @property
    def nodes(self) -> int:
        """Number of nodes of the machine; a mapping uses one of them."""
        return self.vault_count * self.pu_count

    @property
    def banks(self) -> int:
        """Number of banks of each tensor."""
        return self.hierarchy[Level.DRAM].num_banks

    @property
    def most_banks(self) -> int:
        """The most banks of the node that one tensor can have: a power of two that leaves one for the others."""
        return 1 << max(1, (self.node_banks or 1) - 1).bit_length() - 1

    @property
    def bank_bytes(self) -> int | None:
        """Bytes of each bank of the node; None if tensors have banks of their own."""
        return self.node_banks and self.hierarchy[Level.DRAM].capacity_bytes // self.node_banks

    @property
    def dram_activation_latency(self) -> int:
        """Cycles of a row activation (listing 1), derived from the timings."""
        return self.dram_timings.activation_latency

    @property
    def pipeline_latency(self) -> int:
        """Cycles until the first result: access latencies of the levels on the way, and the compute unit's
        reduction.
        """
        levels = sum(-int(-level.latency // 1) for level in self.hierarchy)
        return levels + self.pe_array.compute_unit.reduction_latency

    def usable_bytes(self, level: Level) -> int:
        """Return the capacity for all tiles together: half of the level's capacity where it is double buffered (PE and
        global buffer).
        """
        memory = self.hierarchy[level]
        if not memory.is_shared:
            return sum(self.usable_bytes_of(level, tensor) for tensor in Tensor)
        return memory.capacity_bytes // 2 if self.is_halved(level) else memory.capacity_bytes

    def usable_bytes_of(self, level: Level, tensor: Tensor) -> int:
        """Return the capacity for the tile of a tensor, if the level stores no other."""
        memory = self.hierarchy[level]
        capacity_bytes = memory.entries_of(tensor) * memory.word_bytes
        return capacity_bytes // 2 if self.is_halved(level) else capacity_bytes

    def is_halved(self, level: Level) -> bool:
        """Return whether double buffering leaves half of a level's capacity for tiles."""
        return self.hierarchy[level].double_buffered and level in (Level.PE, Level.GLOBAL_BUFFER)

    def fits(self, level: Level, sizes: Mapping[Tensor, int]) -> bool:
        """Return whether a level has room for tiles of so many bytes: together, and in separate buffers each (Eq.
        17).
        """
        if sum(sizes.values()) > self.usable_bytes(level):
            return False
        return all(size <= self.usable_bytes_of(level, tensor) for tensor, size in sizes.items())

    def storing_choices(self, level: Level, tensor: Tensor) -> tuple[bool, ...]:
        """Return whether the level may store the tensor: (True,), (False,) or both (Eq. 6)."""
        memory = self.hierarchy[level]
        if memory.bypass_defined:
            return (memory.stores[tensor],)
        return (False, True) if memory.stores[tensor] and memory.entries_of(tensor) else (False,)

    @property
    def draws_operands_from_dram(self) -> bool:
        """Whether no level on chip may store one of the operands: MACs draw it from its bank."""
        choices = {t: [self.storing_choices(level, t) for level in ON_CHIP] for t in (Tensor.I, Tensor.W)}
        return any(found == [(False,)] * len(ON_CHIP) for found in choices.values())

    def without_row_activation(self) -> "PIMArchitecture":
        """Return the same machine with activations that take no time and no energy (`enable_row_activation=False`). The
        next column still takes its time, as on any machine.
        """
        old = self.dram_timings
        read_latency = max(old.RL, old.tCCD_L - old.burst_cycles)
        timings = attrs.evolve(old, tRCDRD=0, tRP=0, tRAS=0, tRC=0, tRTP=old.tCCD_L, RL=read_latency)
        return attrs.evolve(self, dram_timings=timings, activation_energy=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data, as in an architecture file."""
        return attrs.asdict(self)
