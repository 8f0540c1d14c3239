"""What a channel computes under every split, owner of its axes and role of its lanes, on devices that send the same
inputs to all cores: one *cut* for all that are alike."""

from collections.abc import Iterator
from itertools import product

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.mapping import CLASSES, Contraction
from cpsat_pim.compiler.mapping.contraction import BATCH, DEPTH, OUTPUTS, SHARED
from cpsat_pim.compiler.mapping.mapping import UNUSED
from cpsat_pim.compiler.search.space import possible_splits

Ints = NDArray[np.int64]

#: Columns of a table of cuts: passes (batches, shared, outputs, columns), cores in use, the axes in use as bits, of
#: which the last is the accumulators, and whether cores need inputs of their own; if asked for, channels in use and
#: copies of the matrix.
BATCHES, SHARED_VECTORS, OUTPUT_COUNT, COLUMNS, CORES, USED_AXES, INPUTS_DIFFER, CHANNELS, COPIES = range(9)


@frozen(eq=False)
class Cuts:
    """One row of `table` for all that are alike.

    `splits` int64[cuts, classes], `owners` int64[cuts, axes] and `lanes` (a number of `kinds`) of one of each, the one
    that uses the fewest channels; `counts`: how many are alike.
    """

    table: Ints
    splits: Ints
    owners: Ints
    lanes: Ints
    kinds: tuple[str, ...]
    counts: Ints

    def mapping(self, at: int) -> tuple[tuple[int, ...], tuple[int, ...], str]:
        """Splits, owners and lanes of a cut."""
        return tuple(self.splits[at].tolist()), tuple(self.owners[at].tolist()), self.kinds[self.lanes[at]]

    def only(self, wanted: NDArray[np.bool_]) -> "Cuts":
        """Some of the cuts."""
        some = np.flatnonzero(wanted)
        return Cuts(
            table=self.table[some],
            splits=self.splits[some],
            owners=self.owners[some],
            lanes=self.lanes[some],
            kinds=self.kinds,
            counts=self.counts[some],
        )


@frozen(eq=False)
class CutSpace:
    """All splits, owners and lanes of a contraction.

    With inputs, an axis cuts outputs or nothing; if the device `stores` inputs in banks, its channels' axes also cut
    the batch and the depth. With `keeps_channels` mappings that use other numbers of channels, or of copies of the
    matrix, are not alike. `splits` int64[splits, classes], those of the fewest channels first; `owners` int64[owners,
    axes]; `kinds`: the classes along which lanes may lie, each `lanes` wide.
    """

    contraction: Contraction
    axes: tuple[int, ...]
    lanes: int
    kinds: tuple[str, ...]
    keeps_channels: bool
    splits: Ints
    owners: Ints

    @classmethod
    def of(
        cls,
        contraction: Contraction,
        axes: tuple[int, ...],
        lanes: int,
        kinds: tuple[str, ...],
        channels: int,
        keeps_channels: bool = False,
        stores: bool = False,
    ) -> "CutSpace":
        """The space on so many channels."""
        splits = np.array(sorted(possible_splits(contraction.extents, channels), key=np.prod), np.int64)
        owners = np.array(list(possible_owners(contraction, axes, stores)), np.int64)
        return cls(contraction, axes, lanes, kinds, keeps_channels, splits, owners)

    @property
    def chunks(self) -> Ints:
        """int64[splits, classes]: elements of every class a channel."""
        return np.asarray(-(-np.array(self.contraction.extents) // self.splits), np.int64)

    @property
    def least_columns(self) -> Ints:
        """int64[splits]: columns that an accumulator at least multiplies, if no lane and no accumulator is idle."""
        return np.asarray(-(-self.chunks.prod(axis=1) // (int(np.prod(self.axes)) * self.lanes)), np.int64)

    def rows(self, some: Ints | None = None) -> Ints:
        """A row of a table of cuts for all kinds of lanes x splits (default: all) x owners."""
        number = slice(None) if some is None else some
        parts = np.stack([np.where(self.owners == n, self.axes, 1).prod(axis=1) for n in range(len(CLASSES))], axis=1)
        local = -(-self.chunks[number][:, None] // parts[None])
        used = np.where(self.owners[:, :-1] != UNUSED, self.axes[:-1], 1).prod(axis=1)
        axes_used = ((self.owners != UNUSED) << np.arange(len(self.axes))).sum(axis=1)
        shape = (*local.shape[:2], 1)
        of_owners = (used, axes_used, inputs_differ(self.contraction, self.owners))
        columns = [np.broadcast_to(column[:, None], shape) for column in of_owners]
        if self.keeps_channels:
            splits = self.splits[number]
            every_split = (splits.prod(axis=1), splits[:, SHARED])
            columns += [np.broadcast_to(column[:, None, None], shape) for column in every_split]
        rows = []
        for name in self.kinds:
            table = np.concatenate([local, *columns], axis=2)
            along = {"depth": DEPTH, "outputs": OUTPUTS}[name]
            table[:, :, along] = -(-table[:, :, along] // self.lanes)
            rows.append(table.reshape(-1, table.shape[2]))
        return np.concatenate(rows)

    def cuts(self, some: Ints | None = None) -> Cuts:
        """The cuts of some splits (default: all)."""
        every = self.rows(some)
        splits = self.splits if some is None else self.splits[some]
        first, counts = distinct(every)
        kind, cut = np.divmod(first, len(splits) * len(self.owners))
        split, owner = np.divmod(cut, len(self.owners))
        return Cuts(every[first], splits[split], self.owners[owner], kind, self.kinds, counts)


def distinct(rows: Ints) -> tuple[Ints, Ints]:
    """The first of every kind of row, and how many there are of each."""
    sizes = rows.max(axis=0) + 1
    if float(np.prod(sizes, dtype=float)) >= 2**62:
        _, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
        return first, counts
    keys = rows[:, 0].copy()
    for number in range(1, rows.shape[1]):
        keys *= sizes[number]
        keys += rows[:, number]
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return first, counts


def inputs_differ(contraction: Contraction, owners: Ints) -> Ints:
    """int64[owners]: 1 if cores of a channel need other inputs than others."""
    differ = ((owners == BATCH) | (owners == DEPTH)).any(axis=1)
    return np.asarray(differ & (contraction.inputs is not None), np.int64)


def possible_owners(contraction: Contraction, axes: tuple[int, ...], stores: bool) -> Iterator[tuple[int, ...]]:
    """For every axis a class with more than one element, or none; with inputs, outputs or none, or if cores `store`
    them any class but that of the vectors."""
    every = [UNUSED, *(number for number in range(len(CLASSES)) if contraction.extents[number] > 1)]
    classes = [every] * len(axes)
    if contraction.inputs is not None:
        alike = [number for number in every if number in (UNUSED, OUTPUTS)]
        stored = [number for number in every if number != SHARED] if stores else alike
        classes = [*[stored] * (len(axes) - 1), alike]
    return product(*([UNUSED] if size == 1 else choices for size, choices in zip(axes, classes, strict=True)))
