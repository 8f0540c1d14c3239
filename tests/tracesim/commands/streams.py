"""Random command streams of the devices, the same on every machine: what foreign simulators have been given."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cpsat_pim.device import Device
from tracesim.commands.records import Stream


class Access(NamedTuple):
    """A command of a stream, or a barrier (`kind` empty)."""

    kind: str
    coords: tuple[int, ...] = ()
    row: int = 0
    column: int = 0


BARRIER = Access("")


class Dice:
    """Random integers by a linear congruence (Knuth's MMIX), so that no library's changes touch the goldens."""

    def __init__(self, seed: int) -> None:
        self.state = seed * 2654435761 % 2**64

    def below(self, n: int) -> int:
        """Return 0 to n - 1."""
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def between(self, low: int, high: int) -> int:
        """Return low to high."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """Return true in so many of a hundred cases."""
        return self.below(100) < percent


def to_stream(device: Device, accesses: list[Access]) -> Stream:
    """Return the accesses as a stream; consecutive barriers count."""
    names = [command.name for command in device.commands]
    group, rows = 0, []
    for access in accesses:
        if access == BARRIER:
            group += 1
        else:
            rows.append((names.index(access.kind), access.coords, access.row, access.column, group))
    size = len(rows)
    coords = np.array([row[1] for row in rows]).reshape(size, len(device.group.axes) + 1)
    kind, row, column, groups = (np.array([entry[i] for entry in rows]) for i in (0, 2, 3, 4))
    return Stream(kind, coords, row, column, groups, np.zeros((size, 6), np.int64))


def _without_last_barriers(accesses: list[Access]) -> list[Access]:
    while accesses and accesses[-1] == BARRIER:
        accesses.pop()
    return accesses


def attacc_tiles(seed: int) -> list[Access]:
    """Tiles of a product on AttAcc: fills, MACs with or without moves between them, drains; barriers at random."""
    dice, accesses = Dice(seed), []
    row_columns, position = (8, 16, 24, 32)[dice.below(4)], dice.below(64)
    for _ in range(dice.between(1, 8)):
        for _ in range(dice.below(21)):
            place = (0, dice.below(2) * dice.below(2), dice.below(4) * dice.below(2), dice.below(4), 0)
            accesses.append(Access(("WRGB", "MVGB")[dice.chance(30)], place))
        accesses += [BARRIER] * dice.chance(80)
        mixes = dice.chance(30)
        for _ in range(dice.between(1, 150)):
            accesses.append(Access("MACAB", (0, 0, 0, 0, 0), position // row_columns, position % row_columns))
            position += 1
            if mixes and dice.chance(30):
                place = (dice.below(3) // 2, dice.below(2), dice.below(4), dice.below(4) * dice.below(2), 0)
                accesses.append(Access(("MVSB", "WRGB")[dice.below(2)], place))
        accesses += [Access("SFM", (0, 0, 0, 0, 0))] * dice.chance(10) + [BARRIER] * dice.chance(70)
        for _ in range(dice.below(17)):
            place = (0, dice.below(2), dice.below(4), dice.below(4) * dice.below(2), 0)
            accesses.append(Access("MVSB", place))
        accesses += [BARRIER] * dice.chance(70)
        position = dice.below(4000) if dice.chance(30) else position
    return _without_last_barriers(accesses)


def hbm_accesses(seed: int) -> list[Access]:
    """Reads and writes of single banks of HBM-PIM, at random or in address order, with barriers."""
    dice, accesses = Dice(seed), []
    rows = (1, 2, 5)[dice.below(3)]
    barriers, writes, in_order = (0, 2, 20)[dice.below(3)], (0, 10, 50, 100)[dice.below(4)], dice.chance(40)
    for i in range((1, 3, 10, 60, 64, 65, 100, 300, 800)[dice.below(9)]):
        bank, row, column = i % 16, i // 512, i // 16 % 32
        if not in_order:
            bank, row, column = dice.below(16), dice.below(rows), dice.below(32)
        place = (0, bank // 4, bank % 4 // 2, bank % 2)
        accesses.append(Access("WR" if dice.chance(writes) else "RD", place, row, column))
        accesses += [BARRIER] * dice.chance(barriers)
    return _without_last_barriers(accesses)


#: Rows of HBM-PIM that are no storage: parking, entering and leaving all-bank mode, registers.
_PARK, _ENTER, _LEAVE, _REGISTERS = 1 << 12, 0x17FF, 0x1FFF, 0x3FFF


def hbm_kernel(seed: int) -> list[Access]:
    """A kernel of HBM-PIM as Samsung's are: park, all-bank mode, program, tiles of fills and MACs or moves, back."""
    dice = Dice(seed)
    ranks = (0,)
    accesses = [BARRIER, *_parked(ranks)]
    for bank in (0, 1, 8, 9):
        accesses += [Access("WR", (rank, bank // 4, 0, bank % 2), _ENTER, 0x1F) for rank in ranks]
    accesses.append(BARRIER)
    for column in range(4, 4 + dice.between(1, 2)):
        accesses += [Access("PIMWR", (rank, 0, 0, 1), _REGISTERS, column) for rank in ranks]
    accesses.append(BARRIER)
    for _ in range(dice.between(1, 4)):
        accesses += _hbm_tiles(dice, ranks)
    for bank in (0, 1):
        accesses += [Access("WR", (rank, 0, 0, bank), _LEAVE, 0x1F) for rank in ranks]
    return _without_last_barriers([*accesses, BARRIER, *_parked(ranks)])


def _parked(ranks: tuple[int, ...]) -> list[Access]:
    reads = [
        Access("RD", (rank, bank % 4, bank // 4 // 2, bank // 4 % 2), _PARK) for rank in ranks for bank in range(16)
    ]
    return [*reads, BARRIER]


def _hbm_tiles(dice: Dice, ranks: tuple[int, ...]) -> list[Access]:
    """One output tile: into PIM mode, fills and MACs or bank accesses, out of PIM mode."""
    accesses = [Access("PIMWR", (rank, 0, 0, 0), _REGISTERS, 0) for rank in ranks] + [BARRIER]
    for _ in range(dice.between(1, 12)):
        bank, first = dice.below(2), dice.below(2000) // 8 * 8
        runs, kind = 1, ("PIMRD", "PIMWR")[dice.below(2)]
        if dice.chance(70):
            runs, kind = dice.between(1, 8), "PIMRD"
            for rank in ranks:
                accesses += [Access("PIMWR", (rank, 0, 0, 1), _REGISTERS, 8 + i) for i in range(8)]
            accesses.append(BARRIER)
        for run in range(runs):
            at = range(first + 8 * run, first + 8 * run + 8)
            accesses += [Access(kind, (rank, 0, 0, bank), i // 32, i % 32) for rank in ranks for i in at]
            accesses.append(BARRIER)
    # Column 1 stands for the write that leaves PIM mode: to the registers, too, but with another value.
    return accesses + [Access("PIMWR", (rank, 0, 0, 0), _REGISTERS, 1) for rank in ranks] + [BARRIER]


def aim_product(seed: int) -> list[Access]:
    """A product on AiM: fills of the global buffer, biases, MACs over rows, reads of the sums."""
    dice, accesses, everywhere = Dice(seed), [], (-1, -1, 0)
    for _ in range(dice.between(1, 4)):
        if dice.chance(80):
            accesses += [Access("WRGB", everywhere, 0, i) for i in range(dice.between(1, 64))]
        accesses += [Access("WRMAC16", everywhere)] * dice.chance(50)
        row = dice.below(100)
        for _ in range(dice.between(1, 6)):
            accesses += [Access("MAC16", everywhere, row, i) for i in range(dice.between(1, 64))]
            row += dice.below(2)
            accesses += [Access("RDMAC16", everywhere)] * dice.chance(30)
        accesses.append(Access("RDMAC16", everywhere))
    return accesses


GENERATORS: dict[str, tuple[str, Callable[[int], list[Access]]]] = {
    "attacc_tiles": ("attacc", attacc_tiles),
    "hbm_accesses": ("hbm-pim", hbm_accesses),
    "hbm_kernel": ("hbm-pim", hbm_kernel),
    "aim_product": ("gddr6-aim", aim_product),
}
