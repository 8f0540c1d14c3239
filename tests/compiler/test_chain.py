"""Kernels of several statements: results on numbers, the optimum against enumeration, formulas, and what is refused."""

import json
from itertools import product
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpsat_pim.cli import main
from cpsat_pim.compiler.chain.candidates import HOST, PIM, Candidate, Choices, Layout, Setting, candidates_of
from cpsat_pim.compiler.chain.compile import compile_chain
from cpsat_pim.compiler.chain.model import choose
from cpsat_pim.compiler.chain.numbers import ROUNDED, compare_chain, compare_statement, run_chain
from cpsat_pim.compiler.chain.roofline import host_time
from cpsat_pim.compiler.chain.statements import parts_of
from cpsat_pim.compiler.host import A100_HBM3
from cpsat_pim.compiler.language import Kernel, KernelMistake, kernel_of_text
from cpsat_pim.compiler.lowering import lower
from cpsat_pim.compiler.lowering.data import Placement
from cpsat_pim.compiler.mapping import contraction_of
from cpsat_pim.compiler.target import target_of
from cpsat_pim.device import Device, read_device

MLP = """
@kernel
def mlp(w: "H K", v: "N H", x: "B K") -> "B N":
    h = zeros(B, H)
    for b in range(B):
        for i in range(H):
            for k in range(K):
                h[b, i] += w[i, k] * x[b, k]
    r = zeros(B, H)
    for b in range(B):
        for i in range(H):
            r[b, i] = relu(h[b, i])
    y = zeros(B, N)
    for b in range(B):
        for n in range(N):
            for i in range(H):
                y[b, n] += v[n, i] * r[b, i]
    return y
"""
RESIDUAL = """
@kernel
def residual(w: "N K", x: "K", z: "B K", c: "N") -> "B N":
    g = zeros(N)
    for n in range(N):
        for k in range(K):
            g[n] += w[n, k] * x[k]
    y = zeros(B, N)
    for b in range(B):
        for n in range(1, N):
            y[b, n] = g[n] + c[n]
    for b in range(B):
        for n in range(N):
            for k in range(K):
                y[b, n] += w[n, k] * z[b, k]
    for b in range(B):
        for n in range(N):
            y[b, n] = relu(y[b, n])
    return y
"""
PACKED = """
@kernel
def packed(a: "N M", s: "M K", x: "K", z: "K") -> "N":
    w = zeros(N, K)
    for n in range(N):
        for m in range(M):
            for k in range(K):
                w[n, k] += a[n, m] * s[m, k]
    y = zeros(N)
    for n in range(N):
        for k in range(K):
            y[n] += w[n, k] * x[k]
    for i in range(N):
        for j in range(K):
            y[i] += w[i, j] * z[j]
    return y
"""
SIZES = {"B": 2, "H": 48, "K": 40, "N": 33}


def _kernel(text: str) -> Kernel:
    return kernel_of_text(text, "chain.py", text.split("def ")[1].split("(")[0])


def _with_rows(name: str, rows: int) -> Device:
    device = read_device(name)
    return evolve(device, core=evolve(device.core, rows=rows))


def _enumerated(choices: tuple[Choices, ...], rows: int) -> int | None:
    """The least time of all combinations: times, every layout's packing once, rows of layouts and of elements."""
    best = None
    for combination in product(*(found.candidates for found in choices)):
        layouts = {c.layout.key: (c.layout.rows, c.layout.packing_ps) for c in combination if c.layout is not None}
        if sum(r for r, _ in layouts.values()) + max(c.working_rows for c in combination) <= rows:
            time = sum(c.time_ps for c in combination) + sum(p for _, p in layouts.values())
            best = time if best is None else min(best, time)
    return best


# --- Results -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attacc", "hbm-pim", "gddr6-aim"])
def test_every_combination_of_candidates_computes_what_numpy_does(name: str) -> None:
    """The commands of every choice give relu(x w') v', each statement on what the one before it delivered."""
    device, bound = read_device(name), _kernel(MLP).bind(SIZES)
    parts = parts_of(bound)
    choices = candidates_of(parts, Setting(device, 3))
    rng = np.random.default_rng(1)
    w, v, x = (rng.integers(-4, 5, shape) for shape in ((48, 40), (33, 48), (2, 40)))
    expected = np.maximum(x @ w.T, 0) @ v.T
    assert [{c.place for c in found.candidates} for found in choices][::2] == [{HOST, PIM}] * 2
    for chosen in product(*(found.candidates for found in choices)):
        assert (run_chain(bound, parts, chosen, device, {"w": w, "v": v, "x": x}) == expected).all()


@pytest.mark.parametrize("name", ["attacc", "hbm-pim"])
def test_a_sum_onto_values_and_a_partial_write_keep_what_was_there(name: str) -> None:
    """y has earlier values when w z is added, its column 0 is not written by the statement before, and the last
    statement reads what it writes."""
    device, bound = read_device(name), _kernel(RESIDUAL).bind({"B": 3, "N": 20, "K": 24})
    parts = parts_of(bound)
    choices = candidates_of(parts, Setting(device, 2))
    rng = np.random.default_rng(2)
    w, x, z, c = (rng.integers(-4, 5, shape) for shape in ((20, 24), (24,), (3, 24), (20,)))
    expected = np.maximum(np.where(np.arange(20) > 0, w @ x + c, 0) + z @ w.T, 0)
    assert [part.adds for part in parts] == [False, False, True, False]
    for chosen in product(*(found.candidates for found in choices)):
        assert (run_chain(bound, parts, chosen, device, {"w": w, "x": x, "z": z, "c": c}) == expected).all()


def test_a_compiled_chain_is_simulated_and_equal_on_numbers() -> None:
    """Every statement on the device has been executed, and the chain as a whole; its time is the sum of its lines."""
    plan = compile_chain(_kernel(MLP), {"B": 1, "H": 256, "K": 512, "N": 96}, read_device("attacc"))
    assert [line.chosen.place for line in plan.lines] == [PIM, HOST, PIM]
    assert plan.whole == "equal"
    assert plan.status == "OPTIMAL"
    assert all(line.functional > 0 for line in plan.lines if line.chosen.place == PIM)
    assert plan.time_ps == sum(line.chosen.time_ps for line in plan.lines) == plan.bound_ps


GATED = """
@kernel
def gated(u: "H K", g: "H K", d: "K H", x: "B K") -> "B K":
    a = gemm(u, x)
    s = gemm(g, x)
    t = zeros(B, H)
    for b in range(B):
        for h in range(H):
            t[b, h] = s[b, h] / (1 + exp(-s[b, h]))
    m = mul(a, t)
    y = gemm(d, m)
    return va(x, y)
"""


@pytest.mark.parametrize("name", ["attacc", "hbm-pim"])
def test_numbers_that_are_no_integers_are_rounded_before_the_device(name: str) -> None:
    """A gated feed-forward with SiLU: by commands and by numpy the same, and without the device the kernel itself."""
    device, bound = read_device(name), _kernel(GATED).bind({"B": 2, "H": 40, "K": 24})
    parts = parts_of(bound)
    choices = candidates_of(parts, Setting(device, 2))
    on_pim = tuple(found.candidates[-1] for found in choices)
    assert [c.place for c in on_pim].count(PIM) == (3 if name == "attacc" else 5)
    assert compare_chain(bound, parts, on_pim, device) == ROUNDED


def test_a_wrong_order_of_statements_is_found() -> None:
    """If a statement is computed from another tensor than the kernel says, the comparison of the whole fails."""
    device, bound = read_device("attacc"), _kernel(MLP).bind(SIZES)
    parts = parts_of(bound)
    chosen = tuple(found.candidates[-1] for found in candidates_of(parts, Setting(device, 3)))
    with pytest.raises(KernelMistake, match="another result"):
        compare_chain(bound, (parts[0], evolve(parts[1], target="h"), parts[2]), chosen, device)


# --- The choice ----------------------------------------------------------------------------------------------------


@st.composite
def invented_choices(draw: st.DrawFn) -> tuple[Choices, ...]:
    """Up to four statements with up to four candidates; layouts are drawn from five, so that some are shared."""
    part = parts_of(_kernel(MLP).bind(SIZES))[0]
    numbers = st.integers(0, 12)
    layouts = [Layout(key=(i,), tensor="w", rows=draw(numbers), packing_ps=draw(numbers)) for i in range(5)]
    mapped = st.builds(
        Candidate,
        place=st.just(PIM),
        time_ps=numbers,
        working_rows=st.sampled_from((0, 0, 4, 9)),
        layout=st.sampled_from((None, *layouts)),
    )
    host = st.builds(Candidate, place=st.just(HOST), time_ps=st.integers(0, 40))
    count = draw(st.integers(1, 4))
    return tuple(Choices(part, (draw(host), *draw(st.lists(mapped, max_size=3))), "", 1) for _ in range(count))


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
@given(invented_choices(), st.integers(0, 30))
def test_the_choice_is_the_best_of_all_combinations(choices: tuple[Choices, ...], rows: int) -> None:
    """CP-SAT finds the least time of all combinations that the rows of a bank hold, and proves it."""
    choice = choose(choices, rows)
    assert choice.value_ps == choice.bound_ps == _enumerated(choices, rows)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 16])
def test_few_rows_of_a_bank_move_statements_to_the_host(rows: int) -> None:
    """With the candidates of a real chain, too; two matrices of at least a row each do not fit one row."""
    bound = _kernel(MLP).bind({"B": 1, "H": 256, "K": 512, "N": 96})
    choices = candidates_of(parts_of(bound), Setting(read_device("attacc"), 8))
    choice = choose(choices, rows)
    assert choice.value_ps == _enumerated(choices, rows)
    assert sum(c.place == PIM for c in choice.chosen) <= rows


def test_no_choice_without_a_host_is_one_line() -> None:
    """If the device's host is not modelled, and the matrices do not fit, there is no choice."""
    part = parts_of(_kernel(MLP).bind(SIZES))[0]
    layout = Layout(key=(0,), tensor="w", rows=3, packing_ps=0)
    only = Candidate(place=PIM, time_ps=1, layout=layout)
    with pytest.raises(KernelMistake, match="no choice fits the 2 rows of a bank"):
        choose((Choices(part, (only,), "", 1),), 2)


# --- Matrices that statements share ----------------------------------------------------------------------------------


def test_one_copy_of_a_packed_matrix_serves_two_statements() -> None:
    """w is a result, so that it is packed: once for both statements that read it, whatever their loops are called."""
    device, bound = read_device("attacc"), _kernel(PACKED).bind({"N": 300, "M": 16, "K": 400})
    plan = compile_chain(_kernel(PACKED), {"N": 300, "M": 16, "K": 400}, device)
    choices = candidates_of(parts_of(bound), Setting(device, plan.channels))
    assert plan.time_ps == _enumerated(choices, device.core.rows)
    second, third = ({c.layout.key for c in found.candidates if c.layout is not None} for found in choices[1:])
    assert second == third
    assert all(c.layout.packing_ps > 0 for c in choices[1].candidates if c.layout is not None)
    assert all(c.layout.packing_ps == 0 for c in choices[0].candidates if c.layout is not None)


@pytest.mark.parametrize("rows", [1, 16384])
def test_equal_layouts_are_equal_bank_contents(rows: int) -> None:
    """Candidates of two statements with one key have the same elements in the same places of every channel."""
    device = _with_rows("attacc", rows)
    parts, target = parts_of(_kernel(RESIDUAL).bind({"B": 3, "N": 70, "K": 90})), target_of(device)
    choices = candidates_of(parts, Setting(device, 6))
    w = np.arange(70 * 90).reshape(70, 90) + 1
    contents: dict[Any, list[Any]] = {}
    for part, found in zip(parts, choices, strict=True):
        contraction = contraction_of(part.kernel, part.statement) if part.number in (0, 2) else None
        for c in found.candidates:
            if c.layout is not None and contraction is not None:
                placement = Placement(lower(c.mapping, contraction, target), contraction, target)  # type: ignore[arg-type]
                distinct = {str(p[:1] + p[2:]): placement.bank_contents(p, w) for p in placement.channels()}
                contents.setdefault(c.layout.key, []).append(distinct)
                assert compare_statement(part, c, device) == prod(c.mapping.splits)  # type: ignore[union-attr]
    assert any(len(found) > 1 for found in contents.values())
    for first, *others in contents.values():
        for other in others:
            assert first.keys() == other.keys()
            assert all((first[at] == other[at]).all() for at in first)


# --- The host ------------------------------------------------------------------------------------------------------


def test_the_hosts_time_is_its_roofline() -> None:
    """relu of 2 x 48 elements: each is read and written in 2 bytes, at 3,352 GB/s x 0.85; one operation an element
    takes less. The last statement of the residual, 3 x 20 elements, likewise."""
    relu, last = parts_of(_kernel(MLP).bind(SIZES))[1], parts_of(_kernel(RESIDUAL).bind({"B": 3, "N": 20, "K": 9}))[3]
    assert host_time(relu, A100_HBM3, 2)[0] == ceil(2 * 48 * 2 * 2 / (3352e9 * 0.85) * 1e12)
    assert host_time(last, A100_HBM3, 2)[0] == ceil(3 * 20 * 2 * 2 / (3352e9 * 0.85) * 1e12)


def test_a_sum_is_read_and_written_where_it_adds_to_values() -> None:
    """The third statement of the residual as a roofline: w (20 x 24), z (3 x 24), and y (3 x 20) twice; 2 bytes."""
    part = parts_of(_kernel(RESIDUAL).bind({"B": 3, "N": 20, "K": 24}))[2]
    elements = 20 * 24 + 3 * 24 + 2 * 3 * 20
    assert host_time(part, A100_HBM3, 2)[0] == ceil(elements * 2 / (3352e9 * 0.85) * 1e12)


def test_statements_are_written_as_in_the_language() -> None:
    """The text of a statement names the target of the kernel, also where it is read."""
    texts = [part.text for part in parts_of(_kernel(RESIDUAL).bind({"B": 3, "N": 20, "K": 24}))]
    assert texts[1:] == ["y[b, n] = g[n] + c[n]", "y[b, n] += w[n, k] * z[b, k]", "y[b, n] = relu(y[b, n])"]


# --- The command -----------------------------------------------------------------------------------------------------


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["compile", *arguments])
    out, err = capsys.readouterr()
    return code, out + err


@pytest.fixture
def mlp(tmp_path: Path) -> str:
    """The kernel as a file of a user."""
    file = tmp_path / "net.py"
    file.write_text(MLP)
    return f"{file}:mlp"


GIVEN = ("--sizes", "B=1,H=128,K=256,N=64")


def test_compile_writes_a_line_and_data_of_every_statement(
    mlp: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text states place, time and proof; the JSON the same."""
    code, text = _run(capsys, mlp, *GIVEN, "--json", str(tmp_path / "plan.json"))
    data = json.loads((tmp_path / "plan.json").read_text())
    assert code == 0
    assert "OPTIMAL: the best of" in text
    assert "functional    the chain: equal" in text
    assert [line["statement"] for line in data["statements"]][1] == "r[b, i] = relu(h[b, i])"
    assert data["objective"] == data["bound"] == sum(line["time_ps"] for line in data["statements"])
    code = main(["commands", str(tmp_path / "plan.json"), "--format", "attacc", "-o", str(tmp_path / "t")])
    assert code == 2
    assert "expected a plan of one statement" in capsys.readouterr().err


def test_packing_charges_parameters(mlp: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --pack no choice is faster than with resident matrices."""
    times = []
    for more in ((), ("--pack",)):
        assert _run(capsys, mlp, *GIVEN, *more, "--json", str(tmp_path / "plan.json"))[0] == 0
        times.append(json.loads((tmp_path / "plan.json").read_text())["objective"])
    assert times[0] < times[1]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (("attention", "--sizes", "B=2,N=40,K=64"), "for this device (the host of upmem is not modelled)"),
        (("softmax", "--sizes", "B=2,N=40"), "no commands for softmax by itself, and its host is not modelled"),
    ],
)
def test_what_needs_a_host_that_is_not_modelled_is_one_line(
    kernel: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """UPMEM's host is no GPU: a statement without a mapping has no time there."""
    code, text = _run(capsys, *kernel, "--device", "upmem")
    assert code == 2
    assert expected in text
    assert len(text.strip().splitlines()) == 1


def test_products_and_vectors_run_wholly_on_upmem(mlp: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No statement of a multi-layer perceptron needs the host; the commands compute what numpy does."""
    file = tmp_path / "plan.json"
    assert _run(capsys, mlp, *GIVEN, "--device", "upmem", "--json", str(file))[0] == 0
    plan = json.loads(file.read_text())
    assert plan["status"] == "OPTIMAL"
    assert [statement["place"] for statement in plan["statements"]] == ["PIM"] * 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((*GIVEN, "--objective", "energy"), "--objective: expected time, since mlp has 3 statements (got energy)"),
        ((*GIVEN, "--html", "{}/page.html"), "--html, --trace: expected a kernel of one statement (mlp has 3"),
        (("--sizes", "B=1,H=8"), "size K has no value"),
    ],
)
def test_what_a_chain_cannot_is_one_line(
    arguments: tuple[str, ...], expected: str, mlp: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where, what, and what was expected."""
    code, text = _run(capsys, mlp, *(argument.format(tmp_path) for argument in arguments))
    assert code == 2
    assert expected in text
    assert "Traceback" not in text
    assert len(text.strip().splitlines()) == 1


@pytest.mark.parametrize("device", ["attacc", "gddr6-aim", "hbm-pim"])
def test_a_statement_without_commands_runs_on_the_host(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A maximum is in the language, but no device has a command for it: nothing is proven, numbers are
    compared."""
    file = tmp_path / "mine.py"
    file.write_text(
        '@kernel\ndef biggest(x: "B N") -> "B":\n    y = full(-1, B)\n    for b in range(B):\n'
        "        for n in range(N):\n            y[b] = max(y[b], x[b, n])\n    return y\n"
    )
    plan = tmp_path / "plan.json"
    code, text = _run(capsys, f"{file}:biggest", "--sizes", "B=3,N=50", "--device", device, "--json", str(plan))
    assert code == 0
    assert "equal" in text
    assert json.loads(plan.read_text())["status"] == "HOST"
    code, text = _run(capsys, f"{file}:biggest", "--sizes", "B=3,N=50", "--device", device, "--objective", "energy")
    assert code == 2
    assert f"expected time, since {device} has no commands for biggest" in text
