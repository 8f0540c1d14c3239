"""PyTorch models with complex tensors. `complex_elements=0` gives the same model with real ones."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

Inputs = tuple[torch.Tensor, ...]


class Function(nn.Module):
    """A function of tensors as a module; the operands behind the inputs are parameters."""

    def __init__(self, function: Callable[..., torch.Tensor], *parameters: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.operands = nn.ParameterList(parameters)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Call it."""
        return self.function(*inputs, *self.operands)


def _tensors(complex_elements: int, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    dtype = torch.complex64 if complex_elements else torch.float32
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def matrices(complex_elements: int = 1) -> tuple[nn.Module, Inputs]:
    """A product with constants and one of activations, of two batches."""
    x, w = _tensors(complex_elements, (2, 3, 4), (4, 5))
    return Function(lambda x, w: (x @ w).transpose(1, 2) @ x, w), (x,)


def linear(complex_elements: int = 1) -> tuple[nn.Module, Inputs]:
    """A linear layer with a bias."""
    x, w, b = _tensors(complex_elements, (3, 4), (5, 4), (5,))
    return Function(functional.linear, w, b), (x,)


def vectors(complex_elements: int = 1) -> tuple[nn.Module, Inputs]:
    """A matrix times a vector, and an inner product."""
    w, x = _tensors(complex_elements, (5, 4), (4,))
    return Function(lambda x, w: torch.dot(torch.mv(w, x)[:4], x), w), (x,)


def swapped(complex_elements: int = 1) -> tuple[nn.Module, Inputs]:
    """Constants on the left."""
    w, x = _tensors(complex_elements, (5, 4), (4, 3))
    return Function(lambda x, w: w @ x, w), (x,)


def convolutions(complex_elements: int = 1) -> tuple[nn.Module, Inputs]:
    """One of two groups, and a transposed one."""
    x, w, back = _tensors(complex_elements, (1, 4, 6, 5), (6, 2, 3, 3), (6, 3, 2, 2))
    return Function(
        lambda x, w, back: functional.conv_transpose2d(functional.conv2d(x, w, padding=1, groups=2), back, stride=2),
        w,
        back,
    ), (x,)


def einsum(complex_elements: int = 1) -> tuple[nn.Module, Inputs]:
    """Three operands."""
    x, w, v = _tensors(complex_elements, (3, 4), (4, 5), (5, 6))
    return Function(lambda x, w, v: torch.einsum("bi,ij,jk->bk", x, w, v), w, v), (x,)


def multiply_and_sum(complex_elements: int = 1) -> tuple[nn.Module, Inputs]:
    """An inner product of each row."""
    x, w = _tensors(complex_elements, (3, 4), (4,))
    return Function(lambda x, w: (x * w).sum(-1), w), (x,)


def mixed() -> tuple[nn.Module, Inputs]:
    """Complex data times real constants, and real data times complex constants."""
    (x,) = _tensors(1, (3, 4))
    (y,) = _tensors(0, (3, 4))
    real, both = torch.randn(4), torch.randn(4, dtype=torch.complex64)
    return Function(lambda x, y, real, both: (x * real).sum(-1) + (y * both).sum(-1), real, both), (x, y)


def power() -> tuple[nn.Module, Inputs]:
    """A tensor times its conjugate, which is its squared magnitude, and a product."""
    x, w = _tensors(1, (3, 4), (4, 2))
    return Function(lambda x, w: (x * x.conj()).sum(-1)[:, None] + x @ w, w), (x,)


def joined() -> tuple[nn.Module, Inputs]:
    """Two products as the real and the imaginary parts of what a third one reads."""
    x, a, b = _tensors(0, (3, 4), (4, 5), (4, 5))
    (w,) = _tensors(1, (5, 2))
    return Function(lambda x, a, b, w: torch.complex(x @ a, x @ b) @ w, a, b, w), (x,)
