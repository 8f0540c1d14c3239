"""HBM-PIM, AiM and UPMEM: walks against the simulator, bounds against walks, commands against numpy."""

from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cpsat_pim.compiler.broadcast import best_of_kernel, compile_broadcast, lowered_of
from cpsat_pim.compiler.compile import compile_kernel
from cpsat_pim.compiler.language import Kernel, KernelMistake, read_kernel, shipped_kernel
from cpsat_pim.compiler.lowering import bank_contraction, in_order
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction
from cpsat_pim.compiler.lowering.bank_elementwise import BankElementwise
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order import InOrderContraction
from cpsat_pim.compiler.lowering.in_order_elementwise import InOrderElementwise
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.mapping import Contraction, contraction_of
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.contraction import BATCH
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping, SpreadMapping, elementwise_of
from cpsat_pim.compiler.search import bank_mode as search_of_banks
from cpsat_pim.compiler.search import in_order as search_in_order
from cpsat_pim.compiler.search.bank_elementwise import best_elementwise, elementwise_bound
from cpsat_pim.compiler.search.bank_mode import best_bank_mapping
from cpsat_pim.compiler.search.broadcast import facts_of
from cpsat_pim.compiler.search.crosscheck import solve_facts
from cpsat_pim.compiler.search.cuts import Cuts
from cpsat_pim.compiler.search.in_order import best_in_order, best_spread
from cpsat_pim.compiler.verify import execute_on_numbers
from cpsat_pim.device import read_device
from cpsat_pim.device.rules import rules_of
from tables.commands.window import NOT_EXACT
from tests.compiler.strategies import contractions
from tracesim.commands import simulate

HBM, AIM, UPMEM = (read_device(name) for name in ("hbm-pim", "gddr6-aim", "upmem"))
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=30)
NUMBERS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=10)


@st.composite
def broadcast_mappings(
    draw: Any, contraction: Contraction, target: BankTarget | InOrderTarget, most_parts: int = 3
) -> BroadcastMapping:
    """Any mapping that the device can run, with at most so many parts of every class over the channels."""
    is_bank = isinstance(target, BankTarget)
    stores = is_bank and contraction.inputs is not None and draw(st.booleans())
    classes = (-1, 2) if contraction.inputs is not None else (-1, 0, 1, 2, 3)
    of_axes = [(-1, 0, 2, 3) if stores else classes] * (len(target.axes) - 1) + [classes]
    mapping = BroadcastMapping(
        splits=tuple(draw(st.integers(1, most_parts)) for _ in range(4)),
        owners=tuple(
            draw(st.sampled_from(choices)) if size > 1 else -1
            for size, choices in zip(target.axes, of_axes, strict=True)
        ),
        lanes=draw(st.sampled_from(("depth", "outputs"))) if is_bank else "depth",
        depth_tile=draw(st.integers(1, target.device.core.inputs)),
        keeps_inputs=is_bank and draw(st.booleans()),
        stores_inputs=stores,
        order="output-stationary" if is_bank else draw(st.sampled_from(("output-stationary", "input-stationary"))),
        mode_bank=draw(st.integers(0, 1)) if is_bank else 0,
    )
    problem = bank_contraction.problem if is_bank else in_order.problem
    assume(problem(mapping, contraction, target) is None)  # type: ignore[operator]
    return mapping


def lowered_product(kernel: Kernel, contraction: Contraction, mapping: BroadcastMapping, target: Any) -> Any:
    """The contraction under a mapping, as the device takes it."""
    kind = BankContraction if isinstance(target, BankTarget) else InOrderContraction
    return kind(contraction, mapping, target)


@SETTINGS
@given(st.data())
@pytest.mark.parametrize("target", [BankTarget(HBM), InOrderTarget(AIM)], ids=("hbm-pim", "gddr6-aim"))
def test_walk_of_a_product_is_the_simulators_tick(target: Any, data: st.DataObject) -> None:
    """Every mapping takes exactly the ticks that the simulator, which shares no code with the walk, needs."""
    kernel, contraction = data.draw(contractions(10**6))
    mapping = data.draw(broadcast_mappings(contraction, target))
    lowered = lowered_product(kernel, contraction, mapping, target)
    assume(lowered.ticks != NOT_EXACT)
    program = lowered.program
    assert (
        simulate(rules_of(target.device), program.stream).finish
        == program.ticks
        == program.parts.sum() + 1 * (isinstance(target, BankTarget))
    )


@NUMBERS
@given(st.data())
@pytest.mark.parametrize("target", [BankTarget(HBM), InOrderTarget(AIM)], ids=("hbm-pim", "gddr6-aim"))
def test_commands_of_a_product_compute_what_numpy_computes(target: Any, data: st.DataObject) -> None:
    """The commands of all channels, executed on integers, add up to the kernel's own result, exactly."""
    kernel, contraction = data.draw(contractions(10_000))
    mapping = data.draw(broadcast_mappings(contraction, target, 2))
    lowered = lowered_product(kernel, contraction, mapping, target)
    assume(lowered.ticks != NOT_EXACT)
    assert execute_on_numbers(kernel, lowered, target.device) == np.prod(mapping.splits)


@st.composite
def elementwise_kernels(draw: Any) -> tuple[Kernel, BankElementwise]:
    """A shipped elementwise kernel on HBM-PIM under any mapping."""
    sizes = {"B": draw(st.integers(1, 7)), "N": draw(st.sampled_from((1, 17, 257, 1000, 4097)))}
    kernel = shipped_kernel(draw(st.sampled_from(("va", "mul", "relu")))).bind(sizes)
    elementwise = elementwise_of(kernel.statements[0])
    assert elementwise is not None
    flags = {name: draw(st.booleans()) for name in ("both_banks", "shares_rows", "takes_turns")}
    mapping = ElementwiseMapping(channels=draw(st.integers(1, 5)), mode_bank=draw(st.integers(0, 1)), **flags)
    lowered = BankElementwise(elementwise, mapping, BankTarget(HBM))
    assume(lowered.ticks != NOT_EXACT)
    return kernel, lowered


@NUMBERS
@given(elementwise_kernels())
def test_elementwise_kernels_take_the_simulators_ticks_and_compute_numpys_result(
    drawn: tuple[Kernel, BankElementwise],
) -> None:
    """Host writes, modes, computation and host reads together; the bound is not above the ticks."""
    kernel, lowered = drawn
    assert simulate(rules_of(HBM), lowered.program.stream).finish == lowered.ticks >= elementwise_bound(lowered)
    assert execute_on_numbers(kernel, lowered, HBM) == lowered.mapping.channels


@NUMBERS
@given(st.data())
@pytest.mark.parametrize("name", ["va", "mul", "relu"])
def test_vectors_on_upmem_take_the_simulators_ticks_and_compute_numpys_result(name: str, data: st.DataObject) -> None:
    """The host writes other elements to each of 64 cores of a rank, and reads as many back."""
    sizes = {"B": data.draw(st.integers(1, 3)), "N": data.draw(st.sampled_from((1, 513, 32769, 70001)))}
    kernel = shipped_kernel(name).bind(sizes)
    lowered: Any = lowered_of(kernel, SpreadMapping(channels=data.draw(st.integers(1, 3))), UPMEM)
    assert simulate(rules_of(UPMEM), lowered.program.stream).finish == lowered.ticks == lowered.program.parts.sum()
    assert execute_on_numbers(kernel, lowered, UPMEM) == lowered.mapping.channels


def test_vectors_on_upmem_take_what_hand_arithmetic_says() -> None:
    """65,536 additions on two ranks of 64 cores: a column of 512 elements a core. Two writes, a fill, an addition, a
    store and a read follow each other; the first command is issued at tick 1, the read ends after its own time.

    6868 x 2 + 1101 + (1101 + 3072) + 1085 + 6868, and one for the first tick.
    """
    plan = compile_kernel(shipped_kernel("va"), {"B": 1, "N": 65536}, UPMEM, 2)
    assert plan.ticks == 1 + 2 * 6868 + 1101 + 1101 + 3072 + 1085 + 6868
    assert plan.simulated == plan.ticks
    assert plan.functional == 2


@pytest.mark.parametrize("is_time", [True, False])
def test_vectors_on_upmem_use_as_many_ranks_as_pay(is_time: bool) -> None:
    """Of all numbers of ranks none is better; energy is the power of the ranks for their time."""
    kernel = elementwise_of(shipped_kernel("va").bind({"B": 1, "N": 200_000}).statements[0])
    assert kernel is not None
    every = [InOrderElementwise(kernel, SpreadMapping(channels=n), InOrderTarget(UPMEM)) for n in range(1, 41)]
    best = best_spread(kernel, InOrderTarget(UPMEM), 40, is_time)
    assert best is not None
    if is_time:
        assert best.ticks == min(lowered.ticks for lowered in every)
    else:
        assert best.value == min(lowered.channel_fj * lowered.mapping.channels for lowered in every)


@pytest.mark.parametrize(
    ("kernel", "sizes", "channels"),
    [("gemm", {"B": 2, "N": 70, "K": 40}, 2), ("gemv", {"B": 2, "N": 9, "K": 33}, 2), ("red", {"B": 3, "N": 400}, 2)],
)
@pytest.mark.parametrize("name", ["hbm-pim", "gddr6-aim"])
def test_pruned_search_finds_the_optimum_of_the_full_one(
    name: str, kernel: str, sizes: dict[str, int], channels: int
) -> None:
    """Lower bounds exclude no better mapping."""
    bound = shipped_kernel(kernel).bind(sizes)
    contraction, device = contraction_of(bound, bound.statements[0]), read_device(name)
    if name == "hbm-pim":
        pruned, full = (
            best_bank_mapping(contraction, BankTarget(device), channels, prunes) for prunes in (True, False)
        )
    else:
        pruned, full = (best_in_order(contraction, InOrderTarget(device), channels, prunes) for prunes in (True, False))
    assert pruned is not None
    assert full is not None
    assert pruned.ticks == full.ticks
    assert pruned.walked < full.walked


def test_pruned_elementwise_search_finds_the_optimum_of_the_full_one() -> None:
    """The same for vectors."""
    kernel = elementwise_of(shipped_kernel("va").bind({"B": 1, "N": 9000}).statements[0])
    assert kernel is not None
    pruned, full = (best_elementwise(kernel, BankTarget(HBM), 5, prunes) for prunes in (True, False))
    assert pruned is not None
    assert full is not None
    assert pruned.ticks == full.ticks


def test_compiled_gemv_is_faster_than_samsungs() -> None:
    """GEMV 1024 x 1024: Samsung's own kernel takes 3651 ticks with refresh on PIMSimulator b464dde, without reading its
    results; ours must be at least 1.2 times faster with them."""
    plan = compile_kernel(shipped_kernel("gemm"), {"B": 1, "N": 1024, "K": 1024}, HBM)
    assert plan.status == "OPTIMAL"
    assert plan.refreshed * 1.2 <= 3651
    assert sum(plan.part_ticks.values()) + 1 == plan.simulated == plan.ticks


def test_blocks_work_on_matrices_of_their_own_if_inputs_are_in_banks() -> None:
    """Scores of 64 heads over 512 tokens: the optimum writes inputs into the banks, so that blocks have different
    heads. PIMSimulator b464dde takes 4215 ticks for its commands, with refresh."""
    plan = compile_kernel(shipped_kernel("gemv"), {"B": 64, "N": 512, "K": 128}, HBM)
    mapping = plan.mappings["gemv"]
    assert isinstance(mapping, BroadcastMapping)
    assert mapping.stores_inputs
    assert BATCH in mapping.owners
    assert plan.refreshed == 4215


def test_vectors_are_not_divided_over_cores_that_store_inputs() -> None:
    """The matrix would be copied; a tile that is no divisor of 8 would straddle rows; a sum has no inputs."""
    target = BankTarget(HBM)
    gemm = shipped_kernel("gemm").bind({"B": 4, "N": 64, "K": 640})
    contraction = contraction_of(gemm, gemm.statements[0])
    one = BroadcastMapping(splits=(1, 1, 1, 1), owners=(-1, 1, 2, 2), stores_inputs=True)
    assert "vectors" in str(bank_contraction.problem(one, contraction, target))
    three = evolve(one, owners=(-1, 3, 2, 2), depth_tile=3)
    assert "divisor of 8" in str(bank_contraction.problem(three, contraction, target))
    assert bank_contraction.problem(evolve(three, depth_tile=4), contraction, target) is None
    differs = evolve(three, depth_tile=4, owners=(-1, 2, 2, 3))
    assert "for all accumulators" in str(bank_contraction.problem(differs, contraction, target))
    red = shipped_kernel("red").bind({"B": 2, "N": 64})
    without = contraction_of(red, red.statements[0])
    assert "only inputs" in str(bank_contraction.problem(evolve(one, owners=(-1, 2, 2, 2)), without, target))


def test_aim_product_takes_what_hand_arithmetic_says() -> None:
    """One output of one column on AiM: the load waits for register mode, the product for bank mode and its row.

    Mode change at 1, WRGB at 1 + 32, WRMAC16 2 ticks later (nCCDS); ACT16 becomes ready one tick later, the mode
    changes instead, ACT16 32 later, MAC16 56 after it; RDMAC16 becomes ready 2 ticks later (nCCDS), the mode changes
    instead, RDMAC16 32 later, complete 2 ticks later (nBL).
    """
    plan = compile_kernel(shipped_kernel("gemm"), {"B": 1, "N": 1, "K": 1}, AIM, 1)
    act = 1 + 32 + 2 + 1 + 32
    assert plan.ticks == act + 56 + 2 + 32 + 2


HALO = """
@kernel
def strided(w: "N K+1", x: "2*B 3*K") -> "B N":
    y = zeros(B, N)
    for b in range(B):
        for n in range(N):
            for k in range(K):
                y[b, n] += w[n, k + 1] * x[2 * b, 3 * k + 1]
    return y
"""


@pytest.mark.parametrize("name", ["hbm-pim", "gddr6-aim"])
def test_offsets_and_strides_are_packed_where_they_are_used(name: str, tmp_path: Any) -> None:
    """Halo indices in both operands: the commands compute the kernel's own result."""
    file = tmp_path / "halo.py"
    file.write_text(HALO)
    plan = compile_kernel(read_kernel(f"{file}:strided"), {"B": 2, "N": 17, "K": 37}, read_device(name), 3)
    assert plan.functional > 0


@pytest.mark.parametrize(
    ("name", "kernel", "expected"),
    [
        ("hbm-pim", "layernorm", "expected one statement"),
        ("gddr6-aim", "va", "expected y[...] += a[...] * b[...]"),
        ("attacc", "relu", "expected y[...] += a[...] * b[...]"),
    ],
)
def test_kernels_that_a_device_cannot_run_are_refused(name: str, kernel: str, expected: str) -> None:
    """One line that says what the device takes."""
    with pytest.raises(KernelMistake, match="expected") as raised:
        compile_kernel(shipped_kernel(kernel), {"B": 1, "N": 8}, read_device(name))
    assert expected in str(raised.value)


def test_upmem_plan_says_that_its_model_is_not_checked() -> None:
    """The device has no simulator of others; its plan is simulated by ours, executed, and says so."""
    kernel, sizes = shipped_kernel("gemm"), {"B": 1, "N": 70, "K": 600}
    plan = compile_broadcast(kernel, kernel.bind(sizes), sizes, UPMEM, 2)
    assert plan.simulated == plan.ticks
    assert any("not checked" in remark for remark in plan.remarks)


def test_best_mapping_lowers_to_the_ticks_it_was_chosen_for() -> None:
    """What the search reports is what the lowered kernel takes."""
    bound = shipped_kernel("relu").bind({"B": 1, "N": 5000})
    best = best_of_kernel(bound, HBM, 4)
    assert lowered_of(bound, best.mapping, HBM).ticks == best.ticks


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [("gemm", {"B": 2, "N": 70, "K": 20}), ("gemv", {"B": 2, "N": 9, "K": 33}), ("red", {"B": 3, "N": 90})],
)
@pytest.mark.parametrize("name", ["hbm-pim", "gddr6-aim"])
def test_cp_sat_proves_the_optimum_of_the_search(name: str, kernel: str, sizes: dict[str, int]) -> None:
    """CP-SAT, told how splits, axes and lanes divide loops and what each share takes, proves the same least time."""
    bound = shipped_kernel(kernel).bind(sizes)
    contraction, device = contraction_of(bound, bound.statements[0]), read_device(name)
    is_bank = name == "hbm-pim"
    target: Any = BankTarget(device) if is_bank else InOrderTarget(device)
    search: Any = best_bank_mapping if is_bank else best_in_order

    def least(cut: tuple[tuple[int, ...], tuple[int, ...], str]) -> int | None:
        splits, owners, lanes = cut
        chosen = BroadcastMapping(splits=splits, owners=owners, lanes=lanes)
        passes = chosen.passes(contraction, target.axes, device.core.lanes)
        differ = int(contraction.inputs is not None and bool({0, 3} & {*owners}))
        row = np.array([[passes.batches, passes.shared, passes.outputs, passes.columns, 0, 0, differ]])
        module: Any = search_of_banks if is_bank else search_in_order
        has_inputs = [contraction.inputs is not None] if is_bank else []
        tilings = module.tilings(row, target, *has_inputs)
        cuts, found = Cuts(row, np.array([splits]), np.array([owners]), np.zeros(1, int), (lanes,), np.ones(1, int)), []
        for number in range(len(tilings)):
            mapping = tilings.mapping(number, cuts)
            problem = bank_contraction.problem if is_bank else in_order.problem
            if problem(mapping, contraction, target) is None:
                found.append(lowered_product(bound, contraction, mapping, target).ticks)
        possible = [ticks for ticks in found if ticks != NOT_EXACT]
        return min(possible) if possible else None

    kinds = ("depth", "outputs") if is_bank else ("depth",)
    facts = facts_of(contraction, target, 2, kinds, least, stores=is_bank)
    model, best = solve_facts(facts, contraction.extents, 2), search(contraction, target, 2)
    assert model.is_proven
    assert model.time_ps == best.ticks * device.tick_ps


def test_devices_built_in_another_way_are_refused() -> None:
    """A window controller without all-bank mode, or blocks with other banks than HBM-PIM's: one line."""
    without_mode = evolve(HBM, controller=evolve(HBM.controller, all_bank_mode=None))
    with pytest.raises(KernelMistake, match="expected an all-bank mode or the controller in-order"):
        compile_kernel(shipped_kernel("gemm"), {"B": 1, "N": 8, "K": 8}, without_mode)
    one_bank = evolve(HBM, core=evolve(HBM.core, banks=1))
    with pytest.raises(KernelMistake, match="expected two banks a block"):
        compile_kernel(shipped_kernel("gemm"), {"B": 1, "N": 8, "K": 8}, one_bank)
