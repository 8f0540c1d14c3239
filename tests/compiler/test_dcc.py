# ruff: noqa: F722, F821 -- the kernel is parsed, never run
"""The names of DCC's table I."""

from typing import Any

import numpy as np
import pytest

from cpsat_pim.compiler.dcc import DCC_kernel, init_kernel
from cpsat_pim.compiler.language import KernelMistake, shipped_kernel


@DCC_kernel
def product(weight: "N K", x: "K") -> "N":  # type: ignore[no-untyped-def]
    """A matrix and a vector."""
    y = zeros(N)
    for n in range(N):
        for k in range(K):
            y[n] += weight[n, k] * x[k]
    return y


@pytest.mark.parametrize("device", ["attacc", "hbm-pim", "gddr6-aim"])
def test_kernel_runs_with_pre_loaded_weights(device: str) -> None:
    """A decorated function is compiled, its weight pre-loaded and changed in part, and run; sums of small integers are
    exact in FP16, so that the result is numpy's."""
    rng = np.random.default_rng(0)
    weight, x = rng.integers(-3, 4, (20, 40)), rng.integers(-3, 4, 40)
    compiled = init_kernel(product, {"N": 20, "K": 40}, device)
    address = compiled.pre_load(weight)
    assert np.array_equal(compiled.run(address, x), weight @ x)
    compiled.write(address, (3, 0), np.ones((1, 40)))
    changed: Any = weight.copy()
    changed[3] = 1
    assert np.array_equal(compiled(address, x), changed @ x)
    assert compiled.plan.status == "OPTIMAL"


def test_kernel_is_compiled_for_other_sizes() -> None:
    """`update` finds the best mapping of other sizes; an elementwise kernel runs, too."""
    compiled = init_kernel(shipped_kernel("va"), {"B": 1, "N": 30}, "hbm-pim")
    compiled.update({"B": 2, "N": 50})
    a, b = np.arange(100).reshape(2, 50), np.ones((2, 50))
    assert np.array_equal(compiled.run(a, b), a + b)
    with pytest.raises(KernelMistake, match="must have the shape"):
        compiled.run(a[:1], b)
    with pytest.raises(KernelMistake, match="expected a, b"):
        compiled.run(a)
