"""Bank-level commands for ragged shares are never faster on AiM, the only device whose cores have some
(`docs/compiler.md`, section 3)."""

from random import Random

import numpy as np
import pytest

from cpsat_pim.compiler.lowering.in_order import InOrderContraction
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.device import device_names, read_device
from cpsat_pim.device.distances import least_ticks
from cpsat_pim.device.rules import rules_of
from tests.compiler.drawing import drawn_broadcast, shipped_contraction
from tracesim.commands import Stream, simulate

DEVICE = read_device("gddr6-aim")
#: Bank-level commands and those that reach all banks.
GROUP = {"MAC": "MAC16", "ACT": "ACT16", "PRE": "PREA"}
MOST = 400


def test_only_aim_has_bank_level_products() -> None:
    """Of the presets' products, AiM's MAC alone needs the row of one bank on a device whose other products reach all
    banks at once."""
    found = {
        name: [c.name for c in read_device(name).commands if c.needs == "row" and {"mac_tree", "mac_lanes"} & {*c.does}]
        for name in device_names()
    }
    assert found.pop("gddr6-aim") == ["MAC"]
    assert {name: commands for name, commands in found.items() if commands} == {
        "hbm-pim": ["PIMRD"],  # in all-bank mode: of all blocks
        "hbm-pim-hbm3": ["PIMRD"],
    }


@pytest.mark.parametrize("before", ["MAC", "ACT", "PRE"])
@pytest.mark.parametrize("after", ["MAC", "ACT", "PRE"])
def test_group_commands_keep_no_longer_distances(before: str, after: str) -> None:
    """Within one bank, a command to all banks follows another no later than the bank-level ones follow each other, and
    no later than where one of both is bank-level. A second PRE would follow a PRE: no stream needs that."""
    group = least_ticks(DEVICE, DEVICE.command(GROUP[before]), DEVICE.command(GROUP[after]))
    bank = least_ticks(DEVICE, DEVICE.command(before), DEVICE.command(after))
    mixed = [
        least_ticks(DEVICE, DEVICE.command(GROUP[before]), DEVICE.command(after)),
        least_ticks(DEVICE, DEVICE.command(before), DEVICE.command(GROUP[after])),
    ]
    assert group <= bank or before == after == "PRE"
    assert all(group <= ticks for ticks in mixed if ticks) or before == after == "PRE"


@pytest.mark.parametrize("seed", range(40))
def test_bank_level_streams_take_no_less(seed: int) -> None:
    """In random streams of compiled kernels, products of some passes go to the first banks one by one, either bank
    after bank or column after column; the simulator never finishes sooner."""
    draw, target = Random(seed), InOrderTarget(DEVICE)
    while True:
        kernel = shipped_contraction(draw)
        contraction = contraction_of(kernel, kernel.statements[0])
        mapping = drawn_broadcast(draw, contraction, target)
        lowered = InOrderContraction(contraction.with_hull(mapping.hull), mapping, target)
        if lowered.runs[:, 2].sum() <= MOST:
            break
    stream, rules = lowered.program.stream, rules_of(DEVICE)
    ticks = simulate(rules, stream).finish
    assert ticks == lowered.ticks
    assert simulate(rules, ragged(stream, draw)).finish >= ticks


def ragged(stream: Stream, draw: Random) -> Stream:
    """The stream with the products of some rows sent to 1 to 15 banks one by one, bank 0 always among them."""
    product, single = DEVICE.command("MAC16"), DEVICE.command("MAC")
    order: list[tuple[int, int]] = []  # command of the stream, bank or -1
    at = 0
    while at < stream.kind.size:
        end = at + 1
        while stream.kind[at] == product and end < stream.kind.size and same_row(stream, at, end):
            end += 1
        run, banks = range(at, end), range(draw.randint(1, 15))
        if stream.kind[at] != product or draw.random() < 0.5:
            order += [(number, -1) for number in run]
        elif draw.random() < 0.5:
            order += [(number, bank) for bank in banks for number in run]
        else:
            order += [(number, bank) for number in run for bank in banks]
        at = end
    numbers, banks_of = np.array(order).T
    chosen = Stream(*(values[numbers].copy() for values in stream))
    is_single = banks_of >= 0
    chosen.kind[is_single] = single
    chosen.coords[is_single, 0], chosen.coords[is_single, 1] = banks_of[is_single] // 4, banks_of[is_single] % 4
    return chosen


def same_row(stream: Stream, at: int, end: int) -> bool:
    """Whether two commands are products of one row."""
    return bool(stream.kind[end] == stream.kind[at] and stream.row[end] == stream.row[at])
