"""Whole kernels: commands on numbers, attention, host formulas, figure 8, the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpsat_pim.cli import main
from cpsat_pim.compiler.attention import Attention, best_attention, lower_attention
from cpsat_pim.compiler.compile import compile_kernel, stream_of
from cpsat_pim.compiler.host import A100_HBM3, Product, move_seconds, norm_seconds, product_seconds
from cpsat_pim.compiler.language import read_kernel, shipped_kernel
from cpsat_pim.compiler.lowering import lower
from cpsat_pim.compiler.models.block import Request
from cpsat_pim.compiler.models.llm import generation_seconds
from cpsat_pim.compiler.models.transformer import read_transformer
from cpsat_pim.compiler.target import target_of
from cpsat_pim.compiler.traces import attacc_trace
from cpsat_pim.compiler.verify import compare_on_fp16, compare_on_numbers
from cpsat_pim.device import read_device
from cpsat_pim.device.rules import rules_of
from tests.compiler.strategies import contractions, mappings
from tracesim.commands import simulate

TARGET = target_of(read_device("attacc"))


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=20)
@given(st.data())
def test_commands_compute_what_numpy_computes(data: st.DataObject) -> None:
    """The commands of every channel, executed on integers in banks, add up to the kernel's own result, exactly."""
    kernel, contraction = data.draw(contractions(20_000))
    mapping = data.draw(mappings(contraction, TARGET))
    channels = compare_on_numbers(kernel, contraction, lower(mapping, contraction, TARGET), TARGET)
    assert channels == np.prod(mapping.splits)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=20)
@given(st.data())
def test_commands_add_up_in_the_stated_fp16_order(data: st.DataObject) -> None:
    """On FP16 numbers every bit of the result is what the mapping's order of sums gives, which is stated apart."""
    kernel, contraction = data.draw(contractions(20_000))
    mapping = data.draw(mappings(contraction, TARGET))
    channels = compare_on_fp16(kernel, contraction, lower(mapping, contraction, TARGET), TARGET)
    assert channels == np.prod(mapping.splits)


@pytest.mark.parametrize(("heads", "tokens", "head_size"), [(40, 128, 128), (7, 97, 64), (200, 3000, 32)])
def test_attention_takes_the_simulators_ticks(heads: int, tokens: int, head_size: int) -> None:
    """Score, softmax and context as one stream take what the simulator says, at most 5 % above the bound."""
    best = best_attention(Attention(heads, tokens, head_size), TARGET)
    stream = lower_attention(Attention(heads, tokens, head_size), best.mapping, TARGET)
    assert simulate(rules_of(TARGET.device), stream).finish == best.ticks
    assert best.bound <= best.ticks <= 1.05 * best.bound


def test_memory_bound_product_takes_its_bytes_over_the_bandwidth() -> None:
    """A vector times 5120 x 13824: 108 tiles of 128 columns fill the 108 cores.

    The whole vector and result fit the L2 cache, so that matrix, vector and result are read or written once.
    """
    seconds = product_seconds(A100_HBM3, Product(1, 13824, 5120))
    moved = 2 * (13824 * 5120 + 5120 + 13824)
    assert seconds == pytest.approx(moved / (0.85 * 3352e9))


def test_fitted_formulas_are_the_published_ones() -> None:
    """`devices.py`: 6.87 us + 1.6e-6 us a byte at 1555 GB/s for a normalisation; a link of half of 600 GB/s."""
    assert norm_seconds(A100_HBM3, 0) == pytest.approx(6.87e-6)
    assert norm_seconds(A100_HBM3, 10**6) == pytest.approx((6.87 + 1.6e-6 * 6e6 * 1555 / 3352) * 1e-6)
    assert move_seconds(A100_HBM3, 300) == pytest.approx(1e-9)


def test_figure_8_is_reproduced_for_gpt3() -> None:
    """DCC, fig. 8, GPT-3 13B, batch 1, 2048 given and 128 generated tokens: base 1.16, full 2.74; compiled 1.56."""
    request = Request(read_transformer("gpt3-13b"), 1, 2048, 128)
    seconds = {
        system: sum(generation_seconds(request, system, TARGET).values())
        for system in ("gpu", "base", "full", "compiled-base")
    }
    assert seconds["gpu"] / seconds["base"] == pytest.approx(1.16, abs=0.01)
    assert seconds["gpu"] / seconds["full"] == pytest.approx(2.74, abs=0.02)
    assert seconds["gpu"] / seconds["compiled-base"] >= 1.56


def test_compile_writes_a_proven_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`compile` prints and writes status, bound, ticks, simulation and functional check of the best mapping."""
    file = tmp_path / "plan.json"
    assert main(["compile", "gemv", "--sizes", "B=2,N=60,K=48", "--channels", "4", "--json", str(file)]) == 0
    plan = json.loads(file.read_text())
    assert plan["status"] == "OPTIMAL"
    assert plan["objective"] == plan["bound"] == plan["ticks"] * 769 + plan["parts"]["host_ps"]
    assert plan["simulated"]["ticks"] == plan["ticks"]
    assert plan["functional"]["channels_equal"] > 0
    assert "OPTIMAL" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["compile", "gemv", "--sizes", "B=2"], "gemv: size N has no value (its sizes are B, N, K)"),
        (["compile", "nothing"], "no kernel nothing (there are gemv"),
        (["compile", "va", "--sizes", "B=2,N=9", "--objective", "energy"], "expected time, since attacc has no"),
        (["compile", "gemv", "--sizes", "b=2"], "expected sizes such as B=32,N=4096 (got 'b=2')"),
        (["compile", "gemv", "--sizes", "B=1,N=1,K=1", "--channels", "81"], "--channels: attacc has 80"),
    ],
)
def test_mistakes_are_one_line(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be compiled ends with one line and the code of bad input."""
    assert main(words) == 2
    message = capsys.readouterr().err.strip()
    assert expected in message
    assert "\n" not in message


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


@pytest.mark.parametrize("sizes", [{"B": 2, "N": 17, "K": 37}, {"B": 1, "N": 5, "K": 3}])
def test_affine_accesses_are_packed_where_they_are_used(tmp_path: Path, sizes: dict[str, int]) -> None:
    """Offsets and strides in the indices of both operands: the commands compute the kernel's own result."""
    file = tmp_path / "halo.py"
    file.write_text(HALO)
    plan = compile_kernel(read_kernel(f"{file}:strided"), sizes, TARGET.device, 3)
    assert plan.functional > 0
    assert plan.simulated == plan.ticks


def test_attacc_trace_states_pseudochannel_rank_bankgroup_bank_row_column() -> None:
    """Only commands of AttAcc's trace; the first MAC reads row 0, column 0 of core 0."""
    device = TARGET.device
    plan = compile_kernel(shipped_kernel("gemv"), {"B": 2, "N": 1, "K": 1}, device, 1)
    lines = attacc_trace(stream_of(plan, shipped_kernel("gemv"), device), device).splitlines()
    macs = [line for line in lines if line.startswith("PIM_MAC_AB")]
    assert macs[0] == "PIM_MAC_AB 0x00000000"
    assert {line.split()[0] for line in lines} <= {"PIM_WR_GB", "PIM_MAC_AB", "PIM_MV_SB", "PIM_BARRIER"}
