"""Networks with parameters against published numbers of parameters and operations."""

import pytest

from cpsat_pim.workload.network import Network, read_network

#: Name: blocks, width, heads, feed-forward size, its matrices, vocabulary.
DECODERS = {
    "gpt3-13b": (40, 5120, 40, 20480, 2, 50_257),
    "llama-7b": (32, 4096, 32, 11_008, 3, 32_000),
    "llama-33b": (60, 6656, 52, 17_920, 3, 32_000),
}
each_decoder = pytest.mark.parametrize("name", DECODERS)


def macs_by_name(network: Network) -> dict[str, int]:
    """Return the MACs of each layer times its count."""
    return {node.name: node.count * node.workload.macs for node in network.layers}


@pytest.mark.parametrize(
    ("name", "others", "published", "tolerance"),
    [
        # GPT-3, table D.1: 12,850 million, given in tens of millions. Positions 2048 x 5120; per block biases of
        # 4 + 4 + 1 widths and two norms of 2 widths each, 13 x 5120; a last norm. Its output matrix is its embedding.
        ("gpt3-13b", 2048 * 5120 + 40 * 13 * 5120 + 2 * 5120, 12_850e6, 5e6),
        # Parameters of the released weights (huggyllama/llama-7b, -30b): an embedding, 2 norms a block, a last one.
        ("llama-7b", 32_000 * 4096 + (2 * 32 + 1) * 4096, 6_738_415_616, 0),
        ("llama-33b", 32_000 * 6656 + (2 * 60 + 1) * 6656, 32_528_943_616, 0),
        # torchvision's vit_l_16: per block biases of 3 + 1 + 4 + 1 widths and two norms of 2, 13 x 1024; a bias of the
        # patches, 197 positions, the class token, a last norm, a bias of the head.
        ("vit-l", 24 * 13 * 1024 + 1024 + 197 * 1024 + 1024 + 2 * 1024 + 1000, 304_326_632, 0),
    ],
)
def test_weights_with_what_is_no_product_are_the_published_parameters(name, others, published, tolerance):
    """A network's weights, with embeddings, norms and biases that the files leave out."""
    assert abs(read_network(name).total_weights + others - published) <= tolerance


def test_operations_of_vit_are_torchvisions():
    """61.555 billion multiply-accumulates for 224 x 224 pixels (`_ops` of vit_l_16)."""
    assert read_network("vit-l").total_macs == pytest.approx(61.555e9, rel=0, abs=0.0005e9)


@each_decoder
@pytest.mark.parametrize(("batch", "prompt", "kv"), [(1, 128, 0), (4, 1, 1024), (2, 16, 100)])
def test_products_are_those_of_a_transformer(name, batch, prompt, kv):
    """Each token meets each weight of the blocks, and 2 x width x context in attention; one token a sequence the
    vocabulary.
    """
    blocks, width, _, feed_forward, matrices, vocabulary = DECODERS[name]
    network = read_network(name, parameters={"batch": batch, "prompt": prompt, "kv": kv})
    tokens, context = batch * prompt, kv + prompt
    per_token = 4 * width**2 + matrices * width * feed_forward + 2 * width * context
    assert network.total_macs == blocks * tokens * per_token + batch * vocabulary * width


@each_decoder
def test_decoding_all_tokens_is_a_prefill_without_the_mask(name):
    """Steps behind 0, 1, ... tokens make, with a causal mask, half of a prefill's attention and all of its other
    products but the logits.
    """
    tokens = 6
    prefill = macs_by_name(read_network(name, parameters={"prompt": tokens}))
    steps = [macs_by_name(read_network(name, parameters={"prompt": 1, "kv": kv})) for kv in range(tokens)]
    summed = {layer: sum(step[layer] for step in steps) for layer in prefill}
    for layer in prefill.keys() - {"lm_head"}:
        is_half = layer in ("scores", "context")
        assert summed[layer] * (2 * tokens if is_half else 1) == prefill[layer] * (tokens + 1 if is_half else 1)
    assert summed["lm_head"] == tokens * prefill["lm_head"]


@each_decoder
def test_heads_make_up_the_width(name):
    """Heads of 128 channels; each sequence has its own keys and values."""
    _, width, heads, *_ = DECODERS[name]
    layers = {node.name: node for node in read_network(name, parameters={"batch": 3}).layers}
    assert (layers["scores"].workload.G, layers["scores"].workload.C * heads) == (3 * heads, width)
    assert [name for name, node in layers.items() if not node.weights] == ["scores", "context"]
