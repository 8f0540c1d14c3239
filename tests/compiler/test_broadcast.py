"""HBM-PIM, AiM and UPMEM: walks against the simulator, bounds against walks, commands against numpy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cpsat_pim.cli import main
from cpsat_pim.compiler.broadcast import best_of_kernel, compile_broadcast, lowered_of
from cpsat_pim.compiler.compile import compile_kernel
from cpsat_pim.compiler.drafts import drafts_of, prune
from cpsat_pim.compiler.language import Kernel, KernelMistake, read_kernel, shipped_kernel
from cpsat_pim.compiler.lowering import bank_contraction, in_order
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction
from cpsat_pim.compiler.lowering.bank_elementwise import BankElementwise
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order import InOrderContraction, InOrderTarget
from cpsat_pim.compiler.mapping import Contraction, contraction_of
from cpsat_pim.compiler.mapping.broadcast import BroadcastMapping
from cpsat_pim.compiler.mapping.elementwise import ElementwiseMapping, elementwise_of
from cpsat_pim.compiler.plan import mapping_data
from cpsat_pim.compiler.plan_file import mapping_from
from cpsat_pim.compiler.search import best_mapping
from cpsat_pim.compiler.search.bank_mode import best_bank_mapping, best_elementwise, elementwise_bound
from cpsat_pim.compiler.search.in_order import best_in_order
from cpsat_pim.compiler.target import target_of
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
def broadcast_mappings(draw: Any, contraction: Contraction, target: BankTarget | InOrderTarget) -> BroadcastMapping:
    """Any mapping that the device can run."""
    is_bank = isinstance(target, BankTarget)
    classes = (-1, 2) if contraction.inputs is not None else (-1, 0, 1, 2, 3)
    mapping = BroadcastMapping(
        splits=tuple(draw(st.integers(1, 3)) for _ in range(4)),
        owners=tuple(draw(st.sampled_from(classes)) if size > 1 else -1 for size in target.axes),
        lanes=draw(st.sampled_from(("depth", "outputs"))) if is_bank else "depth",
        depth_tile=draw(st.integers(1, target.device.core.inputs)),
        keeps_inputs=is_bank and draw(st.booleans()),
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
    kernel, contraction = data.draw(contractions(20_000))
    mapping = data.draw(broadcast_mappings(contraction, target))
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
    plan = compile_broadcast(
        shipped_kernel("gemm"), shipped_kernel("gemm").bind({"B": 1, "N": 70, "K": 600}), {}, UPMEM, 2
    )
    assert plan.simulated == plan.ticks
    assert any("not checked" in remark for remark in plan.remarks)


def test_best_mapping_lowers_to_the_ticks_it_was_chosen_for() -> None:
    """What the search reports is what the lowered kernel takes."""
    bound = shipped_kernel("relu").bind({"B": 1, "N": 5000})
    best = best_of_kernel(bound, HBM, 4)
    assert lowered_of(bound, best.mapping, HBM).ticks == best.ticks


@pytest.mark.parametrize(
    ("words", "form", "first"),
    [
        ("compile gemm --sizes B=1,N=40,K=40 --device hbm-pim --channels 2", "pimsimulator", "R 0 0 0 4096 0"),
        ("compile gemm --sizes B=1,N=40,K=40 --device gddr6-aim --channels 2", "aim", "AiM WR_GB 3 0 1"),
        ("compile gemm --sizes B=1,N=40,K=40 --channels 2", "attacc", "PIM_WR_GB"),
    ],
)
def test_commands_of_a_plan_become_a_trace(
    words: str, form: str, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`commands` reads what `compile --json` wrote: HBM-PIM begins by parking bank 0, AiM by loading 40 inputs in 3
    columns of 16."""
    plan, trace = tmp_path / "plan.json", tmp_path / "kernel.trace"
    assert main([*words.split(), "--json", str(plan)]) == 0
    assert main(["commands", str(plan), "--format", form, "-o", str(trace)]) == 0
    assert trace.read_text().startswith(first)
    mapping = json.loads(plan.read_text())["mapping"]["gemm"]
    assert mapping_data(mapping_from(mapping)) == mapping


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "must be a JSON object"),
        ('{"format": 1}', "expected a plan"),
        ('{"format": 1, "mapping": {}}', "expected a plan"),
    ],
)
def test_files_that_are_no_plan_are_refused_in_one_line(
    text: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message, the code of bad input, no trace file."""
    plan, trace = tmp_path / "plan.json", tmp_path / "kernel.trace"
    plan.write_text(text)
    assert main(["commands", str(plan), "--format", "aim", "-o", str(trace)]) == 2
    message = capsys.readouterr().err.strip()
    assert expected in message
    assert "\n" not in message
    assert not trace.exists()


def test_a_format_of_another_device_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """AttAcc's trace has no commands of HBM-PIM."""
    plan = tmp_path / "plan.json"
    words = ["compile", "relu", "--sizes", "B=1,N=300", "--device", "hbm-pim", "--channels", "1", "--json"]
    assert main([*words, str(plan)]) == 0
    assert main(["commands", str(plan), "--format", "attacc", "-o", str(tmp_path / "t")]) == 2
    assert "has no command" in capsys.readouterr().err


def test_softmax_is_timed_on_the_host_by_formula(tmp_path: Path) -> None:
    """64 rows of 1000 on 108 cores: occupancy 64 / 108; 4 bytes an element at 0.85 x 3352 GB/s are slower than 5
    operations at 0.8 x 312 TFLOP/s."""
    file = tmp_path / "host.json"
    assert main(["compile", "softmax", "--sizes", "B=64,N=1000", "--device", "hbm-pim", "--json", str(file)]) == 0
    plan = json.loads(file.read_text())
    assert plan["status"] == "HOST"
    assert plan["objective"] == pytest.approx(4 * 64000 / (0.85 * 3352e9 * 64 / 108) * 1e12, abs=1)


def test_pruning_rules_never_gain_and_rule_1_never_loses() -> None:
    """A subset of the drafts has no better best; one mapping function a dimension makes rule 1 void; rule 2 keeps only
    multiples of 16 along the depth."""
    bound = shipped_kernel("gemv").bind({"B": 2, "N": 24, "K": 96})
    contraction, target = contraction_of(bound, bound.statements[0]), target_of(read_device("attacc"))
    drafts = drafts_of(contraction, target, 4)
    results = {result.rule: result for result in prune(drafts, contraction, target, ("1", "2", "3", "3-lengths"))}
    assert all(result.time_ps >= results["none"].time_ps for result in results.values())
    assert results["1"].drafts == results["none"].drafts == len(drafts)
    assert results["3-lengths"].drafts <= results["3"].drafts <= len(drafts)
    best = best_mapping(contraction, target, 4)
    assert best is not None
    assert results["none"].time_ps == best.time_ps


def test_unknown_rules_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names the rules."""
    assert main(["drafts", "gemv", "--sizes", "B=1,N=8,K=8", "--rules", "4"]) == 2
    assert "there are 1, 2, 3, 3-lengths" in capsys.readouterr().err
