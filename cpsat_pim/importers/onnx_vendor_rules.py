"""Sizes of the results of onnxruntime's less common operators."""

import math

import numpy as np
from onnx import TensorProto

from cpsat_pim.importers.onnx_call import BLOCKED, VENDOR, Call
from cpsat_pim.importers.onnx_partial_sizes import ordered_shapes, paged_shapes, sparse_shapes
from cpsat_pim.importers.onnx_rules import Rule, Shapes, channels_first, channels_last, pooled, spatial, standard
from cpsat_pim.importers.products import Shape

# --- Fourier transforms: real elements along the last axis, half of their transform -----------------------------------


def _half(call: Call) -> list[Shape | None]:
    """Return the sizes of the transform of real elements: half of it and one more, in two parts."""
    *rows, count = call.shape(0)
    return [(*rows, count // 2 + 1, 2)]


def _whole(call: Call) -> list[Shape | None]:
    """Return the sizes of the real elements that half of a transform belongs to."""
    *rows, count, _ = call.shape(0)
    return [(*rows, 2 * (count - 1))]


# --- Products ---------------------------------------------------------------------------------------------------------


def _pairs(call: Call) -> Shapes:
    return [(call.shape(0)[0], call.shape(1)[0])]


def _block_quantized(call: Call) -> Shapes:
    return [(*call.shape(0)[:-1], call.shape(1)[0])]


def _delta_rule(call: Call) -> Shapes:
    """A row of values for each token and head, and the state of the heads."""
    values = call.shape(2)
    return [(*values[:-2], max(values[-2], call.shape(0)[-2]), values[-1]), call.optional(6)]


def _position_gate(call: Call) -> Shapes:
    """A bias for each head, query and key; packed rows have where they were as their last input."""
    place = call.shape(6) if call.optional(6) else call.shape(0)
    return [(place[0], *call.shape(2)[1:])]


def _packed_causal(call: Call) -> Shapes:
    state = call.shape(4)
    return [call.shape(0), state, (state[0], int(call.given.get("state_update_capacity", 0)), state[1])]


def _words(call: Call) -> Shapes:
    return [(*call.shape(0)[:-1], call.shape(1)[0])]


def _dynamically_padded(call: Call) -> Shapes:
    """A transposed convolution whose padding is an input."""
    given, pads = dict(call.given), call.values[2] if len(call.values) > 2 else None
    if pads is None and call.optional(2) is not None:
        return [None]
    known = {} if pads is None else {"pads": [int(pad) for pad in pads.reshape(-1)]}
    return [standard("ConvTranspose", [call.shape(0), call.shape(1)], given | known)]


# --- Elements that are moved ------------------------------------------------------------------------------------------


def _padded(call: Call) -> Shapes:
    """All axes' padding before, then behind, is an input."""
    shape, pads = call.shape(0), call.values[1]
    if pads is None:
        return [None]
    before, behind = pads.reshape(2, len(shape))
    return [tuple(int(sum(sizes)) for sizes in zip(before, shape, behind, strict=True))]


def _gathered(call: Call) -> Shapes:
    """Slices that the last axis of the indices names."""
    data, indices = call.shape(0), call.shape(1)
    return [(*indices[:-1], *data[indices[-1] :])]


def _cropped(call: Call) -> Shapes:
    """A crop of each region; how large one is, is an input."""
    size = call.values[3]
    return [None if size is None else (call.shape(1)[0], call.shape(0)[1], *(int(side) for side in size))]


def _counted(call: Call) -> Shapes:
    """Numbers from the first to the second input by the third, or by one."""
    start, limit, *step = call.values
    if start is None or limit is None or None in step:
        return [None]
    by = step[0] if step and step[0] is not None else np.ones(1)
    return [(max(0, math.ceil((limit.item() - start.item()) / by.item())),)]


def _into_blocks(call: Call) -> Shapes:
    shape = call.shape(0)
    return [channels_first(shape) if call.given.get("channels_last") else shape]


def _out_of_blocks(call: Call) -> Shapes:
    """As many channels as an attribute says, without what filled the last block."""
    shape = call.shape(0)
    out = (shape[0], int(call.given.get("channels", shape[1])), *shape[2:])
    return [channels_last(out) if call.given.get("channels_last") else out]


def _scaled(call: Call) -> Shapes:
    """Each axis is as many times as large as an attribute says."""
    return [tuple(size * int(times) for size, times in zip(call.shape(0), call.given["scales"], strict=True))]


def _same(call: Call) -> Shapes:
    return [call.shape(0)] * 2


def _none(call: Call) -> Shapes:
    return [()]


_RULES: dict[str, Rule] = {
    "Rfft": Rule(_half),
    "Irfft": Rule(_whole),
    "CDist": Rule(_pairs),
    **dict.fromkeys(("MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight"), Rule(_block_quantized)),
    **dict.fromkeys(("EngramGate", "GatedAdd", "DecoderAttention"), Rule(_same)),
    "GatedDeltaNet": Rule(_delta_rule),
    "GatedRelativePositionBias": Rule(_position_gate),
    "VarlenCausalConvWithState": Rule(_packed_causal),
    "WordConvEmbedding": Rule(_words, like=(1,)),
    "ConvTransposeWithDynamicPads": Rule(_dynamically_padded),
    "SparseAttention": Rule(sparse_shapes),
    "PagedAttention": Rule(paged_shapes),
    "QOrderedAttention": Rule(ordered_shapes),
    **dict.fromkeys(("LongformerAttention", "QOrderedLongformerAttention"), Rule(_same)),
    "Pad": Rule(_padded),
    "GatherND": Rule(_gathered),
    "CropAndResize": Rule(_cropped),
    "Range": Rule(_counted),
    "QuantizeWithOrder": Rule(_same, like=(), elements=TensorProto.INT8),
    "DequantizeWithOrder": Rule(_same, like=(1,)),
    "IsAllFinite": Rule(_none, like=(), elements=TensorProto.BOOL),
}

#: Operators on channels in blocks, whose numbers of channels include what fills the last block.
_BLOCKED: dict[str, Rule] = {
    "Conv": Rule(spatial("Conv", 0, 1)),
    **{kind: Rule(spatial(kind, 0)) for kind in ("MaxPool", "AveragePool")},
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool"), Rule(pooled)),
    "Upsample": Rule(_scaled),
    "ReorderInput": Rule(_into_blocks),
    "ReorderOutput": Rule(_out_of_blocks),
}

#: The rules by kind of operator.
VENDOR_RULES = {
    **{VENDOR + kind: rule for kind, rule in _RULES.items()},
    **{BLOCKED + kind: rule for kind, rule in _BLOCKED.items()},
}
