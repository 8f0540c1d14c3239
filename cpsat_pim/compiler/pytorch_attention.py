"""Attention of one new token over past keys and values in a PyTorch module: where it runs, and its numbers in FP16.

Found are `scaled_dot_product_attention`, and a product, softmax and product written out, of a query with one token.
Heads of queries that share keys and values get copies of them, as such modules repeat them. All lengths asked for keep
one layout of keys and values, and one place (`coupling.attention`): the host, PIM with the softmax in the channels, or
PIM with the softmax on the host. A mask, or a softmax written out, leaves the softmax to the host.

Scores and contexts are what the commands of the mappings give, bit by bit. The softmax is taken in FP32, and its result
rounded. Tokens that the longest length has more are zeros, which add nothing; tokens are dealt to cores and lanes in
turn. Needs the extra `torch`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from attrs import frozen
from numpy.typing import NDArray

from cpsat_pim.compiler.attention import Attention
from cpsat_pim.compiler.coupling.attention import AttentionOption, attention_options
from cpsat_pim.compiler.host import host_of
from cpsat_pim.compiler.language import KernelMistake
from cpsat_pim.compiler.mapping import Contraction, Mapping
from cpsat_pim.compiler.mapping.contraction import DEPTH
from cpsat_pim.compiler.models.block import Block
from cpsat_pim.compiler.models.transformer import Transformer
from cpsat_pim.compiler.precision import fp16_result
from cpsat_pim.compiler.target import Target
from tables.commands.steps import ceiling

Ints = NDArray[np.int64]
Floats = NDArray[Any]

ATEN = torch.ops.aten
#: Operators that may lie between the products of an attention written out: scale, mask, types.
BETWEEN = (
    ATEN.mul.Tensor,
    ATEN.mul.Scalar,
    ATEN.div.Tensor,
    ATEN.div.Scalar,
    ATEN.add.Tensor,
    ATEN.add.Scalar,
    ATEN.where.self,
    ATEN.masked_fill.Scalar,
    ATEN.to.dtype,
    ATEN._to_copy.default,
    ATEN.dropout.default,
    ATEN.clone.default,
    ATEN.contiguous.default,
    ATEN.type_as.default,
)
#: What `torch.export` adds without a result.
ASSERTIONS = (ATEN._assert_tensor_metadata.default,)
SOFTMAXES = (ATEN.softmax.int, ATEN._softmax.default)


@frozen
class PlacedAttention:
    """An attention of the module: its shape, what host and PIM take for all lengths (`pim_ps` is None if no mapping
    fits), and the option if it is on PIM."""

    name: str
    heads: int
    head_size: int
    lengths: range
    host_ps: int
    pim_ps: int | None
    option: AttentionOption | None

    @property
    def is_on_pim(self) -> bool:
        """Whether it was replaced."""
        return self.option is not None

    @property
    def time_ps(self) -> int:
        """Picoseconds of all lengths where it runs."""
        return self.host_ps if self.option is None else self.option.time_ps

    @property
    def shape(self) -> str:
        """As a report states it."""
        first, last = self.lengths[0], self.lengths[-1]
        tokens = str(first) if first == last else f"{first}:{last}"
        return f"{self.heads} x {tokens} x {self.head_size}"

    @property
    def place(self) -> str:
        """As a report states it."""
        return "host" if self.option is None else self.option.place


@frozen
class FoundAttention:
    """The nodes of an attention: one operator, or two products with a softmax between them."""

    nodes: tuple[Any, ...]
    query: Any
    has_mask: bool

    @property
    def name(self) -> str:
        """The name of the last node."""
        return str(self.nodes[-1].name)


def replace_attentions(graph: Any, target: Target, tokens: range | None) -> tuple[PlacedAttention, ...]:
    """Replace every attention of a graph that is faster on PIM, in place. `tokens`: the lengths that it will see;
    that of the example if None."""
    return tuple(_placed(found, target, tokens) for found in list(_attentions(graph)))


# --- Finding them -----------------------------------------------------------------------------------------------------


def _attentions(graph: Any) -> Iterator[FoundAttention]:
    for node in graph.nodes:
        if node.target is ATEN.scaled_dot_product_attention.default:
            given = dict(zip(("q", "k", "v", "mask", "dropout", "causal"), node.args, strict=False))
            given |= {"mask": node.kwargs.get("attn_mask", given.get("mask"))}
            if not given.get("dropout") and not given.get("causal") and _is_one_token(given["q"]):
                yield FoundAttention((node,), given["q"], given["mask"] is not None)
        elif node.target in SOFTMAXES:
            score, context = _product_before(node), _product_behind(node)
            if score is not None and context is not None and _is_one_token(score.args[0]):
                yield FoundAttention((score, context), score.args[0], True)


def _product_before(node: Any) -> Any:
    """The product whose result comes to a node through operators between products, or None."""
    for given in node.args:
        if getattr(given, "target", None) is ATEN.matmul.default:
            return given
        if getattr(given, "target", None) in BETWEEN:
            found = _product_before(given)
            if found is not None:
                return found
    return None


def _product_behind(node: Any) -> Any:
    """The product whose first operand comes from a node through operators between products, or None."""
    while len(users := [user for user in node.users if user.target not in ASSERTIONS]) == 1:
        if users[0].target is ATEN.matmul.default:
            return users[0] if users[0].args[0] is node else None
        if users[0].target not in BETWEEN:
            return None
        node = users[0]
    return None


def _shape(node: Any) -> tuple[int, ...]:
    """The sizes of a tensor, of the example where they may change."""
    return tuple(int(getattr(getattr(size, "node", None), "hint", size)) for size in node.meta["val"].shape)


def _is_one_token(query: Any) -> bool:
    shape = _shape(query)
    return len(shape) == 4 and shape[2] == 1


# --- Where they run ---------------------------------------------------------------------------------------------------


def _placed(found: FoundAttention, target: Target, tokens: range | None) -> PlacedAttention:
    """Choose the fastest place over all lengths; on PIM, replace the nodes."""
    batch, heads, _, size = _shape(found.query)
    other = found.nodes[0].args[1]
    lengths = tokens or range((length := _shape(other)[2 if len(found.nodes) == 1 else 3]), length + 1)
    model = Transformer(name=found.name, blocks=1, hidden=heads * size, heads=heads, feed_forward=1, is_gated=False)
    options = list(attention_options(Block(model, batch, host_of(target.device), target), lengths))
    host = next(option for option in options if option.place == "host")
    pim = [option for option in options if option.mappings and not (found.has_mask and "channels" in option.place)]
    best = min(pim, key=lambda option: option.time_ps, default=None)
    pays = best is not None and best.time_ps < host.time_ps
    pim_ps = best.time_ps if best is not None else None
    placed = PlacedAttention(found.name, heads * batch, size, lengths, host.time_ps, pim_ps, best if pays else None)
    if placed.option is not None:
        _replace(found, placed, target)
    return placed


def _replace(found: FoundAttention, placed: PlacedAttention, target: Target) -> None:
    numbers = AttentionNumbers(placed, target)
    if len(found.nodes) == 1:
        found.nodes[0].target = numbers.attend
    else:
        found.nodes[0].target, found.nodes[1].target = numbers.transposed_scores, numbers.contexts


# --- Numbers ----------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class AttentionNumbers:
    """What the commands of a placed attention compute, as functions in place of PyTorch's operators."""

    placed: PlacedAttention
    target: Target

    def attend(
        self,
        query: Any,
        keys: Any,
        values: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        """In place of `scaled_dot_product_attention`. The query is scaled before it is rounded."""
        repeats = query.shape[1] // keys.shape[1]
        keys, values = (one.repeat_interleave(repeats, 1) if repeats > 1 else one for one in (keys, values))
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        scores = self.scores(query * factor, keys).float()
        if attn_mask is not None:
            bias = torch.where(attn_mask, 0.0, -torch.inf) if attn_mask.dtype == torch.bool else attn_mask
            scores = scores + bias
        return self.contexts(torch.softmax(scores, -1).to(query.dtype), values)

    def scores(self, query: Any, keys: Any) -> Any:
        """[batch, heads, 1, tokens] of a query [batch, heads, 1, size] and keys [batch, heads, tokens, size]."""
        tokens = self._checked(keys.shape[2])
        contraction = Attention(self.placed.heads, tokens, self.placed.head_size).score
        result = fp16_result(self._mappings[0], contraction, self.target, _flat(keys), _flat(query)[:, 0])
        return _shaped(result, query, tokens)

    def transposed_scores(self, query: Any, keys: Any) -> Any:
        """The same with keys [batch, heads, size, tokens]."""
        return self.scores(query, keys.transpose(2, 3))

    def contexts(self, probabilities: Any, values: Any) -> Any:
        """[batch, heads, 1, size] of probabilities [batch, heads, 1, tokens] and values [batch, heads, tokens,
        size]."""
        tokens, longest = self._checked(values.shape[2]), self.placed.lengths[-1]
        contraction = Attention(self.placed.heads, longest, self.placed.head_size).context
        places = dealt_tokens(self._mappings[1], contraction, self.target)[:tokens]
        matrix = np.zeros((self.placed.heads, longest, self.placed.head_size), np.float16)
        inputs = np.zeros((self.placed.heads, longest), np.float16)
        matrix[:, places], inputs[:, places] = _flat(values), _flat(probabilities)[:, 0]
        result = fp16_result(self._mappings[1], contraction, self.target, matrix, inputs)
        return _shaped(result, probabilities, self.placed.head_size)

    @property
    def _mappings(self) -> tuple[Mapping, ...]:
        assert self.placed.option is not None
        return self.placed.option.mappings

    def _checked(self, tokens: int) -> int:
        if tokens not in self.placed.lengths:
            raise KernelMistake(f"{self.placed.name}: compiled for {self.placed.shape} tokens (got {tokens})")
        return tokens


def dealt_tokens(mapping: Mapping, contraction: Contraction, target: Target) -> Ints:
    """The place of every token in the depth of the longest length: column by column, to all channels, cores and lanes
    in turn."""
    extent = contraction.extents[DEPTH]
    chunk = ceiling(extent, mapping.splits[DEPTH])
    size = ceiling(chunk, mapping.parts(target)[DEPTH])
    place = np.arange(extent)
    column = place % chunk % size // (target.device.core.lanes if mapping.is_tree else 1)
    return np.lexsort((place, column))


def _flat(tensor: Any) -> Floats:
    """float16[batch x heads, ...]."""
    return np.asarray(tensor.detach().to(torch.float16).flatten(0, 1).numpy())


def _shaped(result: Floats, like: Any, columns: int) -> Any:
    """[batch, heads, 1, columns] of [heads of all, 1, columns], in the type of another tensor."""
    return torch.from_numpy(np.ascontiguousarray(result)).to(like.dtype).reshape(*like.shape[:2], 1, columns)
