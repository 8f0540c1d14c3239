"""The kernel language: what it accepts, what it says about the rest, and what a kernel computes."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.compiler.language import (
    KernelMistake,
    dimension_sets,
    evaluate,
    kernel_of_text,
    read_kernel,
    shipped_kernel,
)

FIGURE_4 = """
@kernel
def fig4(old: "B+1 2*I", b: "I K", c: "B K") -> "B I":
    a = zeros(B, I)
    for b0 in range(B):
        for i in range(I):
            for k in range(K):
                a[b0, i] += old[b0 + 1, i * 2] + b[i][k] * c[b0][k]
    return a
"""


def read_text(folder: Path, text: str, name: str) -> object:
    """The kernel of a file with the given text."""
    file = folder / "kernels.py"
    file.write_text(text)
    return read_kernel(f"{file}:{name}")


def mistake_of(folder: Path, body: str, head: str = 'w: "N K", x: "K"') -> str:
    """The one line that a kernel with this body causes, without the folder."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    with pytest.raises(KernelMistake) as caught:
        read_text(folder, f'@kernel\ndef f({head}) -> "N":\n{lines}', "f")
    assert "\n" not in str(caught.value)
    return re.sub(r"^.*kernels\.py:", "", str(caught.value))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return w", "2:28: the result has the shape 'N K'"),
        ("y = zeros(N)", "2:1: f must end with return TENSOR"),
        ("y = zeros(N)\nwhile 1: pass\nreturn y", "4:5: unknown statement"),
        ("y = zeros(N * K)\nreturn y", "3:15: N * K is not affine (a product of two names)"),
        ("y = zeros(N)\nfor n in range(N):\n    y[n] = w[n, n * n]\nreturn y", "5:21: n * n is not affine"),
        ("y = zeros(N)\nfor n in range(N):\n    y[n] = w[n]\nreturn y", "5:16: w has 2 dimension(s) (got 1 indices)"),
        ("y = zeros(N)\nfor n in range(N):\n    y[n] = v[n]\nreturn y", "5:16: unknown tensor v"),
        ("y = zeros(N)\nfor n in range(N):\n    y[n] = sin(x[n])\nreturn y", "5:16: unknown function sin"),
        ("y = zeros(N)\nfor n in range(N):\n    x[n] = 1\nreturn y", "5:9: x is a parameter and cannot be written"),
        ("y = zeros(N)\nfor n in range(N):\n    y[n] = y[n + 1]\nreturn y", "5:9: reads elements of y"),
        (
            "y = zeros(N)\nfor n in range(N):\n    y[0] = 1\nreturn y",
            "5:9: every iteration of n writes the same element",
        ),
        ("y = zeros(N)\nfor n in range(N):\n    y[n] -= 1\nreturn y", "5:9: unknown statement"),
        ("y = zeros(N)\nfor n in [1]:\n    y[n] = 1\nreturn y", "4:14: expected range(stop) or range(start, stop)"),
        ("y = nothing(x)\nreturn y", "3:9: unknown kernel nothing"),
        ("y = red(x)\nreturn y", "3:9: x does not fit parameter a of red"),
        ("y = red(x", "3:12: '(' was never closed"),
    ],
)
def test_mistake_names_line_column_and_expectation(tmp_path: Path, body: str, expected: str) -> None:
    """Whatever the language lacks is one line with the place in the file."""
    found = mistake_of(tmp_path, body)
    assert found.startswith(expected)


def test_figure_4_has_the_dimension_sets_of_the_paper(tmp_path: Path) -> None:
    """DCC, fig. 4: (A0, C0) by b, (A1, B0) by i, (B1, C1) by k; here the old A is a tensor of its own."""
    sets = dimension_sets(read_text(tmp_path, FIGURE_4, "fig4"))  # type: ignore[arg-type]
    assert {s.name: set(s.dimensions) for s in sets} == {
        "b0": {("old", 0), ("a", 0), ("c", 0)},
        "i": {("old", 1), ("a", 1), ("b", 0)},
        "k": {("b", 1), ("c", 1)},
    }


def test_figure_4_computes_what_its_loops_say(tmp_path: Path) -> None:
    """The vectorised reference equals the loops, element by element."""
    kernel = read_text(tmp_path, FIGURE_4, "fig4")
    rng = np.random.default_rng(1)
    old, b, c = (rng.integers(-9, 9, shape) for shape in ((4, 10), (5, 7), (3, 7)))
    expected = np.zeros((3, 5), np.int64)
    for b0, i, k in np.ndindex(3, 5, 7):
        expected[b0, i] += old[b0 + 1, i * 2] + b[i, k] * c[b0, k]
    assert (evaluate(kernel, {"old": old, "b": b, "c": c})["a"] == expected).all()  # type: ignore[arg-type]


@given(st.integers(1, 5), st.integers(1, 7), st.integers(1, 9), st.integers(0, 99))
def test_gemv_is_a_matrix_product(batch: int, rows: int, columns: int, seed: int) -> None:
    """GEMV of every shape equals numpy's own product."""
    rng = np.random.default_rng(seed)
    w, x = rng.integers(-9, 9, (batch, rows, columns)), rng.integers(-9, 9, (batch, columns))
    assert (evaluate(shipped_kernel("gemv"), {"w": w, "x": x})["y"] == np.einsum("bnk,bk->bn", w, x)).all()


@pytest.mark.parametrize(
    ("name", "sizes", "operations"),
    [
        ("gemv", {"B": 2, "N": 3, "K": 5}, 2 * 30),  # a multiplication, and an addition to what is there
        ("va", {"B": 2, "N": 3}, 6),
        ("relu", {"B": 2, "N": 3}, 6),
        ("red", {"B": 2, "N": 3}, 6),  # the first value is added to zero
        ("softmax", {"B": 2, "N": 3}, 5 * 6),  # a maximum, a difference and its exponential, a sum, a quotient
    ],
)
def test_operations_are_those_of_all_points(name: str, sizes: dict[str, int], operations: int) -> None:
    """Counted by hand."""
    assert shipped_kernel(name).bind(sizes).operations == operations


def test_attention_is_score_softmax_context() -> None:
    """The calls of other kernels are inlined: the result is scaled-exponential weighting of the values."""
    rng = np.random.default_rng(2)
    q, k, v = rng.random((3, 8)), rng.random((3, 5, 8)), rng.random((3, 5, 8))
    kernel = shipped_kernel("attention")
    assert kernel.calls == ("gemv", "softmax", "context")
    weights = np.exp(np.einsum("bnk,bk->bn", k, q))
    expected = np.einsum("bn,bnk->bk", weights / weights.sum(1, keepdims=True), v)
    assert np.allclose(evaluate(kernel, {"q": q, "keys": k, "values": v})[kernel.result], expected)


def test_layernorm_has_mean_0_and_deviation_1() -> None:
    """Normalised rows, up to the epsilon of 1e-5 under the root."""
    rows = np.random.default_rng(3).random((4, 50)) * 9
    values = evaluate(shipped_kernel("layernorm"), {"a": rows, "g": np.ones(50), "h": np.zeros(50)})["y"]
    assert np.allclose(values.mean(1), 0)
    assert np.allclose(values.std(1), 1, atol=1e-3)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"B": 1, "N": 2}, "gemv: size K has no value (its sizes are B, N, K)"),
        ({"B": 1, "N": 2, "K": 3, "M": 1}, "gemv: unknown size M (its sizes are B, N, K)"),
        ({"B": 1, "N": 0, "K": 3}, "gemv: size N must be a positive integer (got 0)"),
    ],
)
def test_sizes_are_checked(sizes: dict[str, int], expected: str) -> None:
    """A size that lacks, is unknown or is not positive is named."""
    with pytest.raises(KernelMistake, match=re.escape(expected)):
        shipped_kernel("gemv").bind(sizes)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", "k.py:1:1: plain is no kernel: expected def with the decorator @kernel"),
        ("inner", "k.py:6:5: inner is no kernel: expected def with the decorator @kernel"),
        ("nothing", "k.py:1:1: no kernel nothing (there are f)"),
    ],
)
def test_name_without_a_kernel_has_a_place(name: str, expected: str) -> None:
    """A function without decorator or within a class is named where it stands, else the file."""
    text = 'def plain(x: "N"):\n    return x\n\nclass A:\n    @kernel\n    def inner(x: "N"):\n        return x\n'
    with pytest.raises(KernelMistake) as raised:
        kernel_of_text(text + '\n@kernel\ndef f(x: "N"):\n    return x\n', "k.py", name)
    assert str(raised.value).startswith(expected)


def test_file_is_text_and_names_a_kernel(tmp_path: Path) -> None:
    """A file that is no UTF-8, and a file without the name of a kernel, are one line with a place."""
    path = tmp_path / "k.py"
    path.write_bytes(b"\xff\xfe")
    for reference, expected in ((f"{path}:f", "expected text in UTF-8"), (str(path), "expected FILE.py:NAME")):
        with pytest.raises(KernelMistake, match=rf"{re.escape(str(path))}:1:1: {re.escape(expected)}"):
            read_kernel(reference)


def test_access_outside_a_tensor_is_refused(tmp_path: Path) -> None:
    """Once sizes are known, an index that leaves its tensor names statement, index, range and extent."""
    text = FIGURE_4.replace('"B+1 2*I"', '"B 2*I"')
    kernel = read_text(tmp_path, text, "fig4")
    with pytest.raises(KernelMistake, match=r"kernels.py:8:17: index 0 of old runs from 1 to 3, outside its extent 3"):
        kernel.bind({"B": 3, "I": 5, "K": 7})  # type: ignore[attr-defined]


WINDOWS = """
@kernel
def wrong(x: "N") -> "N":
    return z


@kernel
def windows(w: "M R", x: "L") -> "M P":
    y = zeros(M, P)
    for m in range(M):
        for p in range(P):
            for r in range(R):
                y[m, p] += w[m, r] * x[2 * p + r]
    return y


@kernel
def calls(w: "M R", x: "L") -> "M P":
    return windows(w, x)
"""


def test_result_may_have_sizes_of_its_own(tmp_path: Path) -> None:
    """The number of windows is no extent of an operand; a wrong kernel of the same file does not matter."""
    kernel = read_text(tmp_path, WINDOWS, "windows")
    w, x = np.arange(6).reshape(2, 3), np.arange(9) ** 2
    expected = [[w[m] @ x[2 * p : 2 * p + 3] for p in range(4)] for m in range(2)]
    bound = kernel.bind({"M": 2, "R": 3, "L": 9, "P": 4})  # type: ignore[attr-defined]
    assert np.array_equal(evaluate(bound, {"w": w, "x": x})["y"], expected)


def test_sizes_of_a_call_follow_from_its_arguments(tmp_path: Path) -> None:
    """A caller cannot say how many windows there are."""
    with pytest.raises(KernelMistake, match="size P of windows does not follow from the shapes of its arguments"):
        read_text(tmp_path, WINDOWS, "calls")
