"""Transformers on HBM-PIM and AiM: which layers of how many blocks run on PIM."""

from itertools import product
from pathlib import Path

import pytest

from cpsat_pim.cli import main
from cpsat_pim.compiler.broadcast import best_of_kernel
from cpsat_pim.compiler.language import shipped_kernel
from cpsat_pim.compiler.models.block import Request
from cpsat_pim.compiler.models.broadcast_llm import BroadcastGeneration
from cpsat_pim.compiler.models.transformer import Transformer
from cpsat_pim.device import read_device

TINY = Transformer(name="tiny", blocks=3, hidden=1024, heads=8, feed_forward=4096, is_gated=False)


@pytest.mark.parametrize("name", ["gddr6-aim", "hbm-pim-hbm3"])
def test_choice_is_the_best_of_all_that_fit(name: str) -> None:
    """Every number of blocks of every layer whose matrices fit the banks: none takes less time."""
    device = read_device(name)
    generation = BroadcastGeneration(Request(TINY, 1, 32, 16), device)
    choices, most = generation.choices, device.core.rows
    gains = [choice.host_ps - choice.pim_ps for choice in choices]
    best = max(
        sum(n * gain for n, gain in zip(counts, gains, strict=True))
        for counts in product(range(TINY.blocks + 1), repeat=len(choices))
        if sum(n * choice.rows for n, choice in zip(counts, choices, strict=True)) <= most
    )
    chosen = [generation.blocks_on_pim[choice.name] for choice in choices]
    assert sum(n * gain for n, gain in zip(chosen, gains, strict=True)) == best > 0


def test_seconds_are_those_of_the_compiled_kernels() -> None:
    """15 tokens of 3 blocks: a projection that is on PIM takes the ticks of its kernel for each."""
    device = read_device("gddr6-aim")
    generation = BroadcastGeneration(Request(TINY, 1, 32, 16), device)
    kernel = shipped_kernel("gemm").bind({"B": 1, "N": 1024, "K": 1024})
    ticks = best_of_kernel(kernel, device, 32).ticks
    assert generation.blocks_on_pim["proj"] == 3
    assert generation.seconds("compiled")["projection"] == pytest.approx(15 * 3 * ticks * device.tick_ps * 1e-12)
    assert generation.seconds("gpu")["other"] == generation.seconds("compiled")["other"]


def test_command_prints_gain_and_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`llm FILE --device gddr6-aim`: two systems, and for how many blocks each layer is on PIM."""
    file = tmp_path / "tiny.yaml"
    file.write_text("version: 1\nname: tiny\nblocks: 3\nhidden: 1024\nheads: 8\nfeed_forward: 4096\nis_gated: false\n")
    assert main(["llm", str(file), "--lin", "32", "--lout", "4", "--device", "gddr6-aim"]) == 0
    printed = capsys.readouterr().out
    assert "compiled" in printed
    assert "of 3 (OPTIMAL)" in printed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--device", "upmem"], "its host is not modelled"),
        (["--device", "hbm-pim", "--plan", "time"], "for AttAcc only"),
        (["--device", "hbm-pim", "--place", "full"], "for AttAcc only"),
    ],
)
def test_what_a_device_lacks_is_one_line(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No host model, no decision over a model: one line, exit code 2."""
    assert main(["llm", "gpt3-13b", *words]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.count("\n") == 1
