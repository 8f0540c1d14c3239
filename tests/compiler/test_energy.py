"""HBM-PIM, AiM and UPMEM: energies against the simulator's commands, bounds, and the objectives energy and packing."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from cpsat_pim.cli import main
from cpsat_pim.compiler.attention import Attention
from cpsat_pim.compiler.broadcast import lowered_of
from cpsat_pim.compiler.compile import compile_kernel
from cpsat_pim.compiler.coupling.attention import _groups_fj
from cpsat_pim.compiler.dispatch.lengths import LengthSearch
from cpsat_pim.compiler.language import Kernel, shipped_kernel
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order import InOrderContraction
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.compiler.mapping.elementwise import elementwise_of
from cpsat_pim.compiler.search import bank_mode as search_of_banks
from cpsat_pim.compiler.search import in_order as search_in_order
from cpsat_pim.compiler.search.bank_elementwise import best_elementwise, elementwise_energy_bound
from cpsat_pim.compiler.search.bank_mode import best_bank_mapping
from cpsat_pim.compiler.search.cuts import CutSpace
from cpsat_pim.compiler.search.goal import Goal
from cpsat_pim.compiler.search.in_order import best_in_order
from cpsat_pim.compiler.search.objective import output_fj
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import Device, read_device
from cpsat_pim.device.rules import rules_of
from tables.commands.window import NOT_EXACT
from tests.compiler.drawing import drawn_broadcast, drawn_elementwise, shipped_contraction, shipped_elementwise
from tracesim.commands import Function, simulate

TARGETS: dict[str, Any] = {
    "hbm-pim": BankTarget(read_device("hbm-pim")),
    "gddr6-aim": InOrderTarget(read_device("gddr6-aim")),
    "upmem": InOrderTarget(read_device("upmem")),
}


def drawn(name: str, seed: int) -> tuple[Kernel, Any]:
    """A random kernel of few elements under a random mapping."""
    target = TARGETS[name]
    for draw in map(Random, range(1000 * seed, 1000 * seed + 1000)):
        if name == "hbm-pim" and seed % 3 == 0:
            kernel = shipped_elementwise(draw)
            lowered = lowered_of(kernel, drawn_elementwise(draw), target.device)
        else:
            kernel = shipped_contraction(draw)
            contraction = contraction_of(kernel, kernel.statements[0])
            form: Any = BankContraction if name == "hbm-pim" else InOrderContraction
            lowered = form(contraction, drawn_broadcast(draw, contraction, target), target)
        if np.prod([loop.extent for loop in kernel.statements[0].loops]) < 100_000 and lowered.ticks != NOT_EXACT:
            return kernel, lowered
    raise AssertionError("no kernel is small enough")


def simulated_fj(lowered: Any, device: Device) -> int:
    """What the simulator issues, times the figures of the device file; in all-bank mode, which lasts from the last ACT
    of the row that enters it to the last of the row that leaves it, an ACT opens a bank in each of 8 blocks."""
    stream = lowered.program.stream
    trace = simulate(rules_of(device), stream)
    total = sum(
        device.commands[kind].issue_fj(Function(function).name.lower()) or 0
        for kind, function in zip(stream.kind.tolist(), stream.work[:, 0].tolist(), strict=True)
    )
    mode = device.controller.all_bank_mode
    acts = [
        (tick, kind, cause) for tick, kind, cause in trace.inserted.tolist() if device.commands[kind].opens != "nothing"
    ]
    rows = [(tick, int(stream.row[cause])) for tick, _, cause in acts]
    entered = max((tick for tick, row in rows if mode and row == mode.enter_row), default=0)
    left = max((tick for tick, row in rows if mode and row == mode.leave_row), default=0)
    for tick, kind, _ in acts:
        total += (device.commands[kind].energy_fj or 0) * (8 if entered < tick <= left else 1)
    return int(total)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("seed", range(12))
def test_energy_is_that_of_the_simulators_commands(name: str, seed: int) -> None:
    """Energy of a channel = what the simulator issues, ACTs included, by the device file. On HBM-PIM the mode ends when
    the second of two rows is closed, which the simulator's log does not name: an ACT in between may count 8 times."""
    _, lowered = drawn(name, seed)
    device = TARGETS[name].device
    in_between = (0, 7 * 901120) if name == "hbm-pim" else (0,)
    assert lowered.channel_fj - simulated_fj(lowered, device) in in_between


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [("gemv", {"B": 3, "N": 9, "K": 40}), ("gemm", {"B": 2, "N": 130, "K": 410}), ("red", {"B": 2, "N": 300})],
)
def test_no_mapping_takes_less_than_its_bound(name: str, kernel: str, sizes: dict[str, int]) -> None:
    """Lower bounds of time, of cuts under any tiling, and of energy, which is the energy itself on AiM and UPMEM."""
    target, search = TARGETS[name], search_of_banks if name == "hbm-pim" else search_in_order
    bound = shipped_kernel(kernel).bind(sizes)
    contraction = contraction_of(bound, bound.statements[0])
    kinds = ("depth", "outputs") if name == "hbm-pim" else ("depth",)
    space = CutSpace.of(contraction, target.axes, target.device.core.lanes, kinds, 4, stores=name == "hbm-pim")
    cuts = space.cuts()
    has_inputs, draw = contraction.inputs is not None, Random(1)
    tilings = _tilings(search, cuts.table, target, has_inputs)
    rows = cuts.table[tilings.cut]
    bounds = search.lower_bounds(rows, tilings, target, has_inputs)
    energy = (search.energy_bounds if name == "hbm-pim" else search.energies)(rows, tilings, target, has_inputs)
    least = search.least_ticks(rows, target)
    for at in draw.sample(range(len(tilings)), min(200, len(tilings))):
        mapping = tilings.mapping(at, cuts)
        if search_problem(name, mapping, contraction, target) is not None:
            continue
        lowered = (BankContraction if name == "hbm-pim" else InOrderContraction)(contraction, mapping, target)
        if lowered.ticks == NOT_EXACT:
            continue
        assert 0 < bounds[at] <= lowered.ticks
        assert least[at] <= lowered.ticks
        assert 0 < energy[at] <= lowered.channel_fj
        assert name == "hbm-pim" or energy[at] == lowered.channel_fj


def _tilings(search: Any, table: Any, target: Any, has_inputs: bool) -> Any:
    return search.tilings(table, target, has_inputs) if search is search_of_banks else search.tilings(table, target)


def test_single_banks_save_the_idle_ones_at_most() -> None:
    """GEMV of 17 outputs and one column on AiM: a load, two sums set and read, and 17 of 32 products and rows are
    needed (figures of the device file); of 32 outputs group commands are proven best."""
    target = TARGETS["gddr6-aim"]
    for outputs, used in ((17, 17), (32, 32)):
        bound = shipped_kernel("gemm").bind({"B": 1, "N": outputs, "K": 16})
        contraction = contraction_of(bound, bound.statements[0])
        least = search_in_order.single_bank_bound(contraction, target, 1)
        assert least == 1408163 + 2 * (2099438 + 1955688) + used * (1314450 + 47205600) // 16
        best = best_in_order(contraction, target, 1, goal=Goal(contraction, target, "energy"))
        assert best is not None
        assert best.value == 1408163 + 2 * (2099438 + 1955688) + 2 * (1314450 + 47205600)


def search_problem(name: str, mapping: Any, contraction: Any, target: Any) -> str | None:
    """Why the device cannot run a mapping."""
    found: str | None = (search_of_banks if name == "hbm-pim" else search_in_order).problem(
        mapping, contraction, target
    )
    return found


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("objective", "packs"), [("energy", False), ("time", True), ("energy", True)])
def test_pruned_search_finds_the_optimum_of_the_full_one(name: str, objective: str, packs: bool) -> None:
    """Bounds exclude no better mapping, and of equal values the fastest is found."""
    target, search = TARGETS[name], best_bank_mapping if name == "hbm-pim" else best_in_order
    if name == "upmem" and packs:
        pytest.skip("packing has no time on this device")
    bound = shipped_kernel("gemm").bind({"B": 2, "N": 20, "K": 40})
    contraction = contraction_of(bound, bound.statements[0])
    goal = Goal(contraction, target, objective, packs)
    pruned, full = (search(contraction, target, 3, prunes, goal) for prunes in (True, False))
    assert pruned is not None
    assert full is not None
    assert (pruned.value, pruned.ticks) == (full.value, full.ticks)
    assert pruned.walked <= full.walked == full.mappings or full.walked < full.mappings


def test_elementwise_search_by_energy() -> None:
    """The same for elementwise kernels; no mapping takes less than its bound."""
    target = TARGETS["hbm-pim"]
    bound = shipped_kernel("va").bind({"B": 1, "N": 3000})
    kernel = elementwise_of(bound.statements[0])
    assert kernel is not None
    pruned, full = (best_elementwise(kernel, target, 3, prunes, is_time=False) for prunes in (True, False))
    assert pruned is not None
    assert full is not None
    assert (pruned.value, pruned.ticks) == (full.value, full.ticks)
    lowered = lowered_of(bound, pruned.mapping, target.device)
    assert pruned.value == lowered.channel_fj * pruned.mapping.channels
    assert elementwise_energy_bound(lowered) <= pruned.value  # type: ignore[arg-type]


def test_aim_product_takes_what_hand_arithmetic_says() -> None:
    """One output of one column: WRGB, WRMAC16, ACT16, MAC16, RDMAC16.

    CENT's powers by their times: a row in 16 banks 16 x 66.3 mW x 44.5 ns, a product 3 x 438.15 mW x 1 ns, a write
    553.15 mW x 1.25 ns and a read 438.15 mW x 1.25 ns of the sums; three times 256 bits of 5.5 pJ; 0.163 pJ for the
    global buffer.
    """
    plan = compile_kernel(shipped_kernel("gemm"), {"B": 1, "N": 1, "K": 1}, read_device("gddr6-aim"), 1, "energy")
    pj = 16 * 66.3 * 44.5 + 3 * 438.15 + 1.25 * (553.15 + 438.15) + 3 * 256 * 5.5 + 0.163
    assert plan.value == plan.energy_fj
    assert abs(plan.value - 1000 * pj) <= 2  # figures are whole femtojoules


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gemv", "--device", "upmem", "--pack", "--sizes", "B=1,N=4,K=4"], "names no host"),
        (["va", "--device", "hbm-pim", "--pack", "--sizes", "B=1,N=4"], "expected a kernel with a matrix to pack"),
        (["gemv", "--device", "hbm-pim", "--objective", "compute", "--sizes", "B=1,N=4,K=4"], "time or energy"),
        (["attention", "--pack", "--sizes", "B=1,N=16,K=16"], "expected resident keys and values"),
    ],
)
def test_what_makes_no_sense_is_one_line(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Options that a device or a kernel does not have: one line, exit code 2."""
    assert main(["compile", *words]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("device", ["attacc", "gddr6-aim", "upmem"])
def test_products_of_a_chain_have_their_energies(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each product of two has the energy that it has if it is compiled by itself."""
    file, plan = tmp_path / "two.py", tmp_path / "plan.json"
    file.write_text(
        '@kernel\ndef gemm(w: "N K", x: "B K") -> "B N":\n    y = zeros(B, N)\n    for b in range(B):\n'
        "        for n in range(N):\n            for k in range(K):\n                y[b, n] += w[n, k] * x[b, k]\n"
        '    return y\n\n\n@kernel\ndef two(w: "N K", v: "M N", x: "B K") -> "B M":\n    h = gemm(w, x)\n'
        "    return gemm(v, h)\n"
    )
    sizes = "B=2,N=2048,K=3000,M=1024"
    assert main(["compile", f"{file}:two", "--sizes", sizes, "--device", device, "--json", str(plan)]) == 0
    chain = [one["energy_fj"] for one in json.loads(plan.read_text())["statements"]]  # None on the host
    alone = []
    for one in ("B=2,N=2048,K=3000", "B=2,N=1024,K=2048"):
        assert main(["compile", "gemm", "--sizes", one, "--device", device, "--json", str(plan)]) == 0
        alone.append(json.loads(plan.read_text())["energy_fj"])
    assert chain[0] is not None
    assert all(one in (None, single) for one, single in zip(chain, alone, strict=True))
    assert "uJ of the device's commands" in capsys.readouterr().out


def test_attention_has_the_energy_of_its_dram_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the simulator counts gives the sum that the groups of both products give, without the softmax."""
    plan = tmp_path / "plan.json"
    words = ["compile", "attention", "--sizes", "B=3,N=100,K=64", "--channels", "2", "--json", str(plan)]
    assert main(words) == 0
    assert "the energy is that of the DRAM commands" in capsys.readouterr().out
    target, attention = target_of(read_device("attacc")), Attention(3, 100, 64)
    search = LengthSearch(3, 64, target, 2)
    mapping = search.best(100).mapping
    channel = _groups_fj(search, search.groups(100, mapping), mapping, target)
    wanted = channel * mapping.score.splits[0] + output_fj(attention.context, target, (1, 1, 1, 1))
    assert json.loads(plan.read_text())["energy_fj"] == wanted


def test_power_throughput_and_efficiency_are_those_of_time_and_energy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In joules and seconds, from the figures in the file."""
    file = tmp_path / "plan.json"
    assert main(["compile", "gemv", "--sizes", "B=1,N=64,K=64", "--device", "attacc", "--json", str(file)]) == 0
    plan = json.loads(file.read_text())
    assert plan["power_w"] == pytest.approx((plan["energy_fj"] * 1e-15) / (plan["time_ps"] * 1e-12))
    printed = capsys.readouterr().out
    assert f"power         {plan['power_w']:.4g} W" in printed
    assert plan["operations"] == 2 * 64 * 64
    assert plan["tops"] == pytest.approx(2 * 64 * 64 / (plan["time_ps"] * 1e-12) / 1e12)
    assert plan["tops_per_w"] == pytest.approx(2 * 64 * 64 / (plan["energy_fj"] * 1e-15) / 1e12)
    assert f"throughput    {plan['tops']:.4g} TOPS, {plan['tops_per_w']:.4g} TOPS/W" in printed
