"""Attention with past keys and values in PyTorch modules; skipped without torch."""

from importlib import import_module

import numpy as np
import pytest

from cpsat_pim.compiler.execution import run_on_arrays
from cpsat_pim.compiler.language import KernelMistake, shipped_kernel
from cpsat_pim.device import read_device

torch = pytest.importorskip("torch", reason="needs the extra: pip install 'cpsat-pim[torch]'")
pim = import_module("cpsat_pim.compiler.pytorch")
attention = import_module("cpsat_pim.compiler.pytorch_attention")

HEADS, SIZE = 4, 32
HIDDEN = HEADS * SIZE


class Decode(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A decoder's attention as HF-style modules have it: new token and past keys and values in, both caches out."""

    def __init__(self, form: str, past_heads: int = HEADS) -> None:
        super().__init__()
        self.form, self.past_heads = form, past_heads
        self.query = torch.nn.Linear(HIDDEN, HIDDEN)
        self.key, self.value = (torch.nn.Linear(HIDDEN, past_heads * SIZE) for _ in range(2))
        self.out = torch.nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x: object, past_keys: object, past_values: object) -> object:
        """One step of generation."""
        batch = x.shape[0]  # type: ignore[attr-defined]
        query, key, value = (
            layer(x).reshape(batch, 1, -1, SIZE).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        keys, values = torch.cat([past_keys, key], 2), torch.cat([past_values, value], 2)
        mask = torch.zeros(batch, 1, 1, keys.shape[2])
        if self.form == "written out":
            scores = torch.matmul(query, keys.transpose(2, 3)) / SIZE**0.5 + mask
            heads = torch.matmul(torch.softmax(scores, -1, dtype=torch.float32).to(x.dtype), values)  # type: ignore[attr-defined]
        else:
            given = {"attn_mask": mask} if self.form == "masked" else {}
            groups = self.past_heads != HEADS
            heads = torch.nn.functional.scaled_dot_product_attention(query, keys, values, enable_gqa=groups, **given)
        return self.out(heads.transpose(1, 2).reshape(batch, 1, HIDDEN)), keys, values


def step(batch: int = 2, past: int = 70, heads: int = HEADS) -> tuple[object, ...]:
    """A new token and its past."""
    torch.manual_seed(1)
    return (torch.randn(batch, 1, HIDDEN), *(torch.randn(batch, heads, past, SIZE) for _ in range(2)))


def distance(one: object, other: object) -> float:
    """The largest difference of two tensors."""
    return float((one - other).detach().abs().max())  # type: ignore[operator]


@pytest.fixture(scope="module")
def growing() -> object:
    """A module compiled for 1 to 71 keys."""
    return pim.compile(Decode("masked").eval(), "attacc", step(), tokens=range(1, 72))


@pytest.mark.parametrize("form", ["operator", "masked", "written out"])
def test_attention_over_past_keys_runs_on_pim(form: str) -> None:
    """It is found in every form, replaced, and its result differs from FP32 by rounding only. Where a mask or a softmax
    of the module stands between the products, the softmax is the host's."""
    module, given = Decode(form).eval(), step()
    fast = pim.compile(module, "attacc", given)
    placed = fast.attentions[0]
    assert (placed.heads, placed.head_size, placed.lengths) == (2 * HEADS, SIZE, range(71, 72))
    assert placed.is_on_pim
    assert placed.pim_ps < placed.host_ps
    assert form == "operator" or placed.place == "PIM, softmax on the host"
    results, expected = fast(*given), module(*given)
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == wanted.shape
        assert distance(result, wanted) < 0.01
    assert not torch.equal(results[0], expected[0])
    assert f"{2 * HEADS} x 71 x {SIZE}" in fast.report()


def test_a_cache_may_grow_within_the_lengths_that_are_stated() -> None:
    """One compiled module generates token after token; beyond the lengths, one line says what was expected."""
    module, given = Decode("operator").eval(), step(batch=1, past=70)
    length = torch.export.Dim("past", min=64, max=80)
    shapes = (None, {2: length}, {2: length})
    fast = pim.compile(module, "attacc", given, tokens=range(71, 74), dynamic_shapes=shapes)
    x, *past = given
    for _ in range(3):
        result, expected = fast(x, *past), module(x, *past)
        assert distance(result[0], expected[0]) < 0.01
        past = list(expected[1:])
    with pytest.raises(KernelMistake, match=r"compiled for 4 x 71:73 x 32 tokens \(got 74\)"):
        fast(x, *past)


def test_heads_that_share_keys_get_copies() -> None:
    """Grouped queries: 4 heads on 2 heads of keys."""
    module, given = Decode("operator", past_heads=2).eval(), step(heads=2)
    fast = pim.compile(module, "attacc", given)
    assert [(one.heads, one.is_on_pim) for one in fast.attentions] == [(2 * HEADS, True)]
    assert distance(fast(*given)[0], module(*given)[0]) < 0.01


def test_attention_of_several_tokens_stays() -> None:
    """A prefill is no matter of PIM."""
    query, keys = torch.randn(1, HEADS, 5, SIZE), torch.randn(1, HEADS, 9, SIZE)

    class Prefill(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, query: object, keys: object) -> object:
            return torch.nn.functional.scaled_dot_product_attention(query, keys, keys)

    assert pim.compile(Prefill(), "attacc", (query, keys)).attentions == ()


@pytest.mark.parametrize("tokens", [71, 60, 1])
def test_numbers_are_those_of_the_commands(growing: object, tokens: int) -> None:
    """Scores, and contexts of fewer tokens than the 71 of the layout, bit by bit: the commands are executed with keys
    and values where the mapping puts them, and zeros where there is no token."""
    placed, target = growing.attentions[0], growing.target  # type: ignore[attr-defined]
    numbers, device = attention.AttentionNumbers(placed, target), read_device("attacc")
    rng = np.random.default_rng(tokens)
    heads, sizes = placed.heads, {"B": placed.heads, "K": SIZE}
    keys, values = (rng.standard_normal((heads, tokens, SIZE)).astype(np.float16) for _ in range(2))
    query, weights = rng.standard_normal((heads, SIZE)).astype(np.float16), rng.random((heads, tokens), np.float32)
    weights = weights.astype(np.float16)
    shaped = [torch.from_numpy(one).reshape(2, HEADS, -1, SIZE) for one in (query, keys, values)]
    scores = numbers.scores(shaped[0], shaped[1]).numpy().reshape(heads, tokens)
    kernel = shipped_kernel("gemv").bind({**sizes, "N": tokens})
    wanted = run_on_arrays(kernel, placed.option.mappings[0], device, {"w": keys, "x": query})
    assert np.array_equal(scores, wanted.astype(np.float16))
    contexts = numbers.contexts(torch.from_numpy(weights).reshape(2, HEADS, 1, tokens), shaped[2])
    kernel = shipped_kernel("context").bind({**sizes, "N": 71})
    places = attention.dealt_tokens(placed.option.mappings[1], attention.Attention(heads, 71, SIZE).context, target)
    assert sorted(places) == list(range(71))
    spread_values, spread_weights = np.zeros((heads, 71, SIZE), np.float16), np.zeros((heads, 71), np.float16)
    spread_values[:, places[:tokens]], spread_weights[:, places[:tokens]] = values, weights
    names = [tensor.name for tensor in kernel.parameters]
    arrays = dict(zip(names, (spread_weights, spread_values), strict=True))
    wanted = run_on_arrays(kernel, placed.option.mappings[1], device, arrays)
    assert np.array_equal(contexts.numpy().reshape(heads, SIZE), wanted.astype(np.float16))
