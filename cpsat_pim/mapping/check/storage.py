"""Storage rules: what levels store, which tiles, and what may be read directly from DRAM past the buffers."""

from collections.abc import Iterator

from attrs import frozen

from cpsat_pim.base.dims import BUFFERS, ON_CHIP, RELEVANT, Dim, Level, Tensor
from cpsat_pim.mapping import ONE_BANK, OWN_BANKS, banks_text
from cpsat_pim.mapping.check.mapped import Mapped
from cpsat_pim.mapping.check.messages import letters


@frozen
class StorageRules(Mapped):
    """The storage rules, one method each."""

    def violations(self) -> Iterator[str]:
        """Yield a line per violated rule."""
        yield from self._storage_is_allowed()
        yield from self._residency_is_allowed()
        yield from self._points_are_canonical()
        yield from self._direct_steps_are_contiguous()
        yield from self._direct_tiles_are_contiguous()
        yield from self._input_scans_are_regular()
        yield from self._node_has_the_banks()
        yield from self._shared_parts_have_one_bank()
        yield from self._open_rows_are_not_shared()

    def _storage_is_allowed(self) -> Iterator[str]:
        """A level stores every tensor that it must, and none that it cannot (Eq. 6)."""
        for level in BUFFERS:
            for tensor in Tensor:
                is_stored = self.mapping.stored[level][tensor]
                if is_stored not in self.arch.storing_choices(level, tensor):
                    yield f"{self.level_name(level)}: {'cannot' if is_stored else 'must'} store {tensor.name}"

    def _residency_is_allowed(self) -> Iterator[str]:
        """Only stored tiles have uneven residency, and only on machines that support it."""
        for level, tensor in self._uneven_tiles():
            order = self.mapping.order[level]
            covered = letters(order[self.mapping.outside[level][tensor] :]) or "none"
            tile = f"{self.level_name(level)}: the tile of {tensor.name} covers {covered} of the loops {letters(order)}"
            if not self.arch.uneven_residency:
                yield f"{tile}, the machine has no uneven residency"
            if not self.mapping.stored[level][tensor]:
                yield f"{tile}, but is not stored"

    def _points_are_canonical(self) -> Iterator[str]:
        """The loop directly outside an uneven tile changes the tile; otherwise a residency point further out names the
        same tile.
        """
        for level, tensor in self._uneven_tiles():
            dim = self.uncovered(level, tensor)[-1]
            if dim not in RELEVANT[tensor]:
                name = self.level_name(level)
                yield f"{name}: {dim.name} does not change the tile of {tensor.name}, which must cover it"

    def _direct_steps_are_contiguous(self) -> Iterator[str]:
        """MACs that read a tensor directly from the row buffer or DRAM take adjacent indices of its spread dims."""
        for tensor in Tensor:
            if self.mapping.stored[Level.PE][tensor] or self.mapping.stored[Level.GLOBAL_BUFFER][tensor]:
                continue
            for dim in RELEVANT[tensor]:
                pes, loop = self.mapping.array_factor(dim), self.mapping.temporal[Level.PE][dim]
                if pes > 1 and loop > 1:
                    yield (
                        f"{tensor.name}: no buffer holds it, so {dim.name}, spread over {pes} PEs, "
                        f"cannot also loop within a PE (got {loop})"
                    )

    def _direct_tiles_are_contiguous(self) -> Iterator[str]:
        """PEs that fetch a tensor directly from the row buffer or DRAM take adjacent indices of its spread dims."""
        for tensor in Tensor:
            if not self.mapping.stored[Level.PE][tensor] or self.mapping.stored[Level.GLOBAL_BUFFER][tensor]:
                continue
            for dim in self.uncovered(Level.PE, tensor):
                pes = self.mapping.array_factor(dim)
                if pes > 1 and dim in RELEVANT[tensor]:
                    yield (
                        f"{tensor.name}: the global buffer does not hold it, so {dim.name}, spread over {pes} PEs, "
                        f"cannot also loop outside its tile within a PE"
                    )

    def _input_scans_are_regular(self) -> Iterator[str]:
        """I is read from DRAM as a box or, for 1x1 filters, as a regular grid."""
        stored = [self.mapping.stored[level][Tensor.I] for level in BUFFERS]
        if stored[Level.GLOBAL_BUFFER] or stored[Level.ROW_BUFFER]:
            return
        has_filter = self.layer.R > 1 or self.layer.S > 1
        if not stored[Level.PE] and has_filter:
            yield "I: a filter window must come through a buffer, MACs cannot draw it straight from DRAM"
        if stored[Level.PE] and has_filter:
            for dim in self.layer.stepped_dims:
                if self.mapping.array_factor(dim) > 1:
                    yield f"I: PEs fed strided or dilated windows straight from DRAM cannot be spread over {dim.name}"
        if stored[Level.PE] and max(self.layer.stride) > 1 and not has_filter:
            extents = self.tile_extents(Level.PE, Tensor.I)
            is_spread = self.mapping.array_factor(Dim.P) * self.mapping.array_factor(Dim.Q) > 1
            if is_spread and max(extents[Dim.P], extents[Dim.Q]) > 1:
                yield "I: PEs that take several strided positions each straight from DRAM cannot be spread over P or Q"

    def _node_has_the_banks(self) -> Iterator[str]:
        """Each part of tensors has banks of the node; where each tensor has banks of its own, none are shared, and the
        machine says how many they are.
        """
        there, counts = self.arch.node_banks, self.mapping.bank_counts
        if there is None and self.mapping.banks != OWN_BANKS:
            yield f"banks: each tensor has banks of its own (no node_banks), none are shared (got {self._banks})"
        if there is None and counts != ONE_BANK:
            yield f"bank_counts: each tensor has num_banks of its own (no node_banks), must be 1, 1, 1 (got {counts})"
        if there is not None and sum(self.mapping.part_banks) > there:
            taken = sum(self.mapping.part_banks)
            yield f"banks: {self._banks} takes {taken} banks, the node has {there}"

    def _shared_parts_have_one_bank(self) -> Iterator[str]:
        """A part of several tensors has one bank: so each scan of one of them closes the row of the others."""
        banks, counts = self.mapping.banks, self.mapping.bank_counts
        if any(banks.count(part) > 1 and count > 1 for part, count in zip(banks, counts, strict=True)):
            yield f"bank_counts: tensors that share a bank ({self._banks}) have only this one (got {counts})"

    def _open_rows_are_not_shared(self) -> Iterator[str]:
        """The row buffer is a bank's open row: it stores a tensor only if no other tensor shares the bank."""
        name, banks = self.level_name(Level.ROW_BUFFER), self.mapping.banks
        for tensor in Tensor:
            if self.mapping.stored[Level.ROW_BUFFER][tensor] and banks.count(banks[tensor]) > 1:
                yield f"{name}: cannot store {tensor.name}, its bank is shared ({self._banks})"

    @property
    def _banks(self) -> str:
        return banks_text(self.mapping.banks)

    def _uneven_tiles(self) -> list[tuple[Level, Tensor]]:
        return [(level, tensor) for level in ON_CHIP for tensor in Tensor if self.mapping.outside[level][tensor]]
