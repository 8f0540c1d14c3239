"""Both strategies for matrix elements that are not next to each other: copied alone, or with what lies between."""

from random import Random
from typing import Any

import pytest

from cpsat_pim.compiler.compile import compile_kernel
from cpsat_pim.compiler.language import Kernel, KernelMistake, kernel_of_text, shipped_kernel
from cpsat_pim.compiler.lowering import lower
from cpsat_pim.compiler.lowering.bank_contraction import BankContraction
from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order import InOrderContraction
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.compiler.mapping import Contraction, contraction_of
from cpsat_pim.compiler.search.objective import best_by, best_with_hull, bytes_read, matrix_bytes
from cpsat_pim.compiler.target import target_of
from cpsat_pim.compiler.verify import compare_on_fp16, compare_on_numbers, execute_on_numbers
from cpsat_pim.device import read_device
from cpsat_pim.device.rules import rules_of
from tables.commands.window import NOT_EXACT
from tests.compiler.drawing import affine_contraction, drawn_broadcast, drawn_mapping
from tracesim.commands import simulate

ATTACC = target_of(read_device("attacc"))
STRIDED = """
@kernel
def strided(w: "2*N 3*K", x: "K") -> "N":
    y = zeros(N)
    for n in range(N):
        for k in range(K):
            y[n] += w[2 * n + 1, 3 * k + 2] * x[k]
    return y
"""


def strided(**sizes: int) -> tuple[Kernel, Contraction]:
    """The kernel above, and its contraction."""
    bound = kernel_of_text(STRIDED, "strided.py", "strided").bind(sizes)
    return bound, contraction_of(bound, bound.statements[0])


def drawn(seed: int) -> tuple[Random, Kernel, Contraction]:
    """A random kernel with strides, offsets and windows that has a hull."""
    for draw in map(Random, range(1000 * seed, 1000 * seed + 1000)):
        kernel = affine_contraction(draw)
        contraction = contraction_of(kernel, kernel.statements[0])
        if contraction.strides:
            return draw, kernel, contraction
    raise AssertionError("no kernel has a hull")


@pytest.mark.parametrize("seed", range(25))
def test_commands_of_a_hull_take_the_simulators_ticks_and_compute_numpys_result(seed: int) -> None:
    """AttAcc: elements between those that are needed change no result, in integers and bit by bit in FP16."""
    draw, kernel, contraction = drawn(seed)
    lowered = lower(drawn_mapping(draw, contraction, ATTACC), contraction, ATTACC)
    assert simulate(ATTACC.rules, lowered.stream).finish == lowered.ticks
    assert compare_on_numbers(kernel, contraction, lowered, ATTACC) > 0
    assert compare_on_fp16(kernel, contraction, lowered, ATTACC) > 0


@pytest.mark.parametrize("name", ["hbm-pim", "gddr6-aim", "upmem"])
@pytest.mark.parametrize("seed", range(10))
def test_the_same_holds_where_inputs_are_sent_to_all_cores(name: str, seed: int) -> None:
    """HBM-PIM, AiM, UPMEM: ticks of the simulator, and numpy's result."""
    device = read_device(name)
    target: Any = BankTarget(device) if name == "hbm-pim" else InOrderTarget(device)
    form: Any = BankContraction if name == "hbm-pim" else InOrderContraction
    draw, kernel, contraction = drawn(seed)
    mapping = drawn_broadcast(draw, contraction, target)
    lowered = form(contraction.with_hull(mapping.hull), mapping, target)
    if lowered.ticks != NOT_EXACT:
        assert simulate(rules_of(device), lowered.program.stream).finish == lowered.ticks
        assert execute_on_numbers(kernel, lowered, device) > 0


def test_hull_runs_from_the_first_to_the_last_needed_element() -> None:
    """5 outputs, 2 apart: 9 positions; 4 depth elements, 3 apart: 10. Both strategies of each: four choices."""
    _, contraction = strided(N=5, K=4)
    assert contraction.strides == {"n": 2, "k": 3}
    assert list(contraction.hulls()) == [(), ("n",), ("k",), ("n", "k")]
    assert contraction.extents == (1, 1, 5, 4)
    assert contraction.with_hull(("n", "k")).extents == (1, 1, 9, 10)


def test_packing_reads_whole_bursts() -> None:
    """Every third element of a row: copied alone, the host reads 3 bytes for each that it writes; with what lies
    between, it writes all that it reads. 5 outputs of 4 elements of 2 bytes, or of 10."""
    _, contraction = strided(N=5, K=4)
    hull, split = contraction.with_hull(("k",)), (1, 1, 1, 1)
    assert (matrix_bytes(contraction, ATTACC, split), bytes_read(contraction, ATTACC)) == (40, 3)
    assert (matrix_bytes(hull, ATTACC, split), bytes_read(hull, ATTACC)) == (100, 1)


def test_the_better_strategy_is_chosen() -> None:
    """The optimum over both strategies is the least of the optima of each, and their spaces are added up."""
    _, contraction = strided(N=33, K=40)
    every = best_by("time", contraction, ATTACC, 3, packs=True)
    assert every is not None
    found = [best_with_hull("time", contraction.with_hull(h), ATTACC, 3, True) for h in contraction.hulls()]
    values = [answer.value for answer in found if answer is not None]
    mappings = sum(answer.optimum.mappings for answer in found if answer is not None)
    assert every.value == min(values)
    assert every.optimum.mappings == mappings


def test_plan_states_the_strategy() -> None:
    """What the plan states was executed; a sum without factors has no inputs that could be 0, so that its depth
    has no hull."""
    plan = compile_kernel(kernel_of_text(STRIDED, "strided.py", "strided"), {"N": 33, "K": 40}, ATTACC.device, 3)
    assert plan.mappings["strided"].hull in ((), ("n",), ("k",), ("n", "k"))
    assert plan.functional > 0
    red = shipped_kernel("red").bind({"B": 2, "N": 9})
    with pytest.raises(KernelMistake, match="expected a hull of nothing"):
        contraction_of(red, red.statements[0]).with_hull(("n",))
