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
