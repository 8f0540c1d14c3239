"""Indices in compiled kernels mean what they mean in NumPy, which runs the same functions without the compiler."""

import itertools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from tables.compiler import KernelCompiler


def use_line(array: Any, i: int) -> Any:
    """Read and write elements of one dim."""
    array[i] += array[-1]
    array[0] -= 2 * array[i]
    return array[i]


def use_plane(array: Any, i: int, j: int) -> Any:
    """Read and write elements of two dims, and of lines of them."""
    line = array[i]
    line[j] -= array[0, j]
    array[-1, j] += line[-1]
    return array[i, j]


def use_block(array: Any, i: int, j: int, k: int) -> Any:
    """Read and write elements of three dims, and of lines and planes of them."""
    plane, line = array[i], array[i, j]
    line[k] += plane[j][0]
    array[0, -1, k] -= array[-1][j, k]
    plane[-1, k] += len(line) + plane.shape[0]
    return array[i, j, k]


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize(("use", "shape"), [(use_line, (5,)), (use_plane, (3, 4)), (use_block, (2, 3, 4))])
def test_indices_mean_what_they_mean_to_numpy(use: Callable[..., Any], shape: tuple[int, ...], dtype: type) -> None:
    """Counted from the start and from the end, in arrays that are contiguous and in parts of larger ones."""
    compiled = numba.njit(pipeline_class=KernelCompiler)(use)
    large = np.arange(np.prod([n + 2 for n in shape])).reshape([n + 2 for n in shape]).astype(dtype)
    inner = tuple(slice(1, n + 1) for n in shape)
    for index in itertools.product(*(range(-n, n) for n in shape)):
        for whole in (large, large[inner].copy()):
            ours, theirs = whole.copy(), whole.copy()
            part = inner if whole is large else ...
            assert compiled(ours[part], *index) == use(theirs[part], *index)
            assert np.array_equal(ours, theirs)


def use_new(sizes: Any, i: int) -> Any:
    """Make arrays of numbers and of truths."""
    counts, flags, halves = np.zeros(i, np.int64), np.zeros(i, np.bool_), np.empty(sizes, np.float64)
    halves[:] = 0.5
    for k in range(i):
        counts[k] += k
        flags[k] ^= counts[k] == 1
    return counts, flags, halves, np.zeros(3, np.int64), np.empty((2, i), np.int64).shape


@pytest.mark.parametrize("sizes", [2, (4,), (2, 3), (1, 2, 3)])
def test_new_arrays_are_those_of_numpy(sizes: int | tuple[int, ...]) -> None:
    """Sizes are a number or a tuple, constant or not; zeros are zeros also in memory that held other numbers."""
    compiled = numba.njit(pipeline_class=KernelCompiler)(use_new)
    for i in (0, 1, 5, 1000):
        for ours, theirs in zip(compiled(sizes, i), use_new(sizes, i), strict=True):
            assert np.array_equal(ours, theirs)
            assert getattr(ours, "dtype", None) == getattr(theirs, "dtype", None)


def test_negative_sizes_are_refused() -> None:
    """As NumPy does."""
    compiled = numba.njit(pipeline_class=KernelCompiler)(use_new)
    with pytest.raises(ValueError, match="negative dimensions"):
        compiled(2, -1)
