"""PyTorch programs with sizes that data decide, and operators of torchvision."""

import pytest

torch = pytest.importorskip("torch", reason="needs the extra: pip install 'cpsat-pim[torch]'")

from cpsat_pim.importers import import_network  # noqa: E402 -- behind the line that skips
from tests.importers.test_torch import MODELS, complaint, in_this_directory, layer, layers, save_program  # noqa: E402

__all__ = ["in_this_directory", "save_program"]  # fixtures

CHOSEN = layer("fc", P=2, C=4, K=2)


@pytest.mark.parametrize("name", ["u0", "index.0"])
def test_size_that_data_decide_is_bound_in_a_function(name):
    """2 of 3 rows are chosen; the size is a symbol, and an axis of what first has it."""
    assert layers(import_network(f"{MODELS}:masked", {name: 2}).network) == CHOSEN


def test_size_that_data_decide_is_bound_in_a_program(save_program):
    """The same of a saved one."""
    import torch_models

    path = save_program(*torch_models.masked())
    assert layers(import_network(path, {"u0": 2}).network) == CHOSEN
    assert complaint(path, u1=2) == "no open dim is named 'u1', there are u0 or index.0"
    assert complaint(path, u0=0) == "the size 'u0' must be positive (got 0)"


def test_size_that_data_decide_is_named():
    """With what to write."""
    assert complaint(f"{MODELS}:masked") == "linear: a size depends on the data (u0), --bind u0=... tells it"


def test_operators_of_torchvision_are_known(save_program):
    """A deformable convolution samples its input for each tap: 64 positions, 9 x 4 channels to 6. Samples of 5 regions,
    7 x 7 each, and a sampling at 5 x 2 points are no products. Whoever reads the saved program need not import them.
    """
    ops = pytest.importorskip("torchvision").ops

    class Sampled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.deform, self.point = ops.DeformConv2d(4, 6, 3, padding=1, bias=False), torch.nn.Conv2d(6, 8, 1)
            self.fc = torch.nn.Linear(6 * 49, 10)

        def forward(self, x, offsets, regions, grid):
            x = self.deform(x, offsets)
            points = torch.nn.functional.grid_sample(x, grid, align_corners=False)
            return self.point(points), self.fc(ops.roi_align(x, regions, 7).flatten(1))

    inputs = torch.randn(1, 4, 8, 8), torch.randn(1, 18, 8, 8), torch.randn(5, 5), torch.randn(1, 5, 2, 2)
    network = import_network(save_program(Sampled(), inputs)).network
    expected = layer("deform", P=8, Q=8, C=36, K=6) | layer("point", P=2, Q=5, C=6, K=8)
    assert layers(network) == expected | layer("fc", P=5, C=294, K=10)


def test_library_of_operators_that_is_not_there_is_named(save_program, monkeypatch):
    """A program with operators that only its author has."""
    from cpsat_pim.importers import torch_program

    monkeypatch.setattr(torch_program, "_libraries", lambda path: ["aten", "theirs"])
    path = save_program(torch.nn.Linear(4, 2), (torch.randn(3, 4),))
    assert complaint(path).startswith("has operators of the library 'theirs', which no package has registered")
