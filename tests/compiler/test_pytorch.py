"""PyTorch modules with products on PIM; skipped without torch."""

from importlib import import_module

import numpy as np
import pytest

from cpsat_pim.compiler.language import shipped_kernel
from cpsat_pim.compiler.lowering import lower
from cpsat_pim.compiler.models.compiled import weight_contraction
from cpsat_pim.compiler.search import best_mapping
from cpsat_pim.compiler.verify import compare_on_fp16

torch = pytest.importorskip("torch", reason="needs the extra: pip install 'cpsat-pim[torch]'")
pim = import_module("cpsat_pim.compiler.pytorch")


class Feed(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Two products with an activation between them."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256, bias=False)

    def forward(self, x: object) -> object:
        """As in a transformer."""
        return self.narrow(torch.relu(self.wide(x)))


def test_module_computes_in_fp16_what_it_computed_before() -> None:
    """Both products run on PIM; the result differs from float32 by rounding only, and bias and shape are kept."""
    torch.manual_seed(0)
    module, x = Feed().eval(), torch.randn(2, 1, 256)
    fast = pim.compile(module, "attacc", (x,))
    assert [found.is_on_pim for found in fast.placed] == [True, True]
    assert [(f.product.m, f.product.n, f.product.k) for f in fast.placed] == [(2, 1024, 256), (2, 256, 1024)]
    result, expected = fast(x).detach().numpy(), module(x).detach().numpy()
    assert result.shape == (2, 1, 256)
    assert not np.array_equal(result, expected)
    assert np.abs(result - expected).max() < 0.02
    assert fast.time_ps == sum(found.pim_ps for found in fast.placed)
    assert "PIM" in fast.report()


def test_result_is_that_of_the_commands() -> None:
    """The mapping of a replaced product, executed on numbers, gives the FP16 result bit by bit."""
    x = torch.randn(1, 64)
    fast = pim.compile(torch.nn.Linear(64, 80), "attacc", (x,))
    found = fast.placed[0]
    contraction = weight_contraction(found.product)
    best = best_mapping(contraction, fast.target, counts=False)
    assert best is not None
    assert found.pim_ps == best.time_ps
    kernel = shipped_kernel("gemm").bind({"B": 1, "N": 80, "K": 64})
    assert compare_on_fp16(kernel, contraction, lower(best.mapping, contraction, fast.target), fast.target) > 0
