"""The core ATen operators by what they do: products, operators that only pass data on, and those without data."""

import torch

from cpsat_pim.importers.torch_recurrent import RECURRENT

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "convolution")
TRANSPOSED_CONVOLUTIONS = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
DEFORMABLE = ("torchvision::deform_conv2d",)
ATTENTION = "scaled_dot_product_attention"

#: With those of programs that were lowered before they were saved.
ATTENTIONS = (
    ATTENTION, "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable", "_scaled_dot_product_attention_math",
    "_scaled_dot_product_attention_math_for_mps",
)  # fmt: skip

#: The argument names of the operands of a matrix product.
OPERANDS = {
    "addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "baddbmm": ("batch1", "batch2"), "bmm": ("self", "mat2"),
    "dot": ("self", "tensor"), "linear": ("input", "weight"), "matmul": ("self", "other"), "mm": ("self", "mat2"),
    "mv": ("self", "vec"), "vdot": ("self", "other"), "_int_mm": ("self", "mat2"), "_scaled_mm": ("self", "mat2"),
    "_scaled_mm_v2": ("self", "mat2"), "_weight_int8pack_mm": ("self", "mat2"),
}  # fmt: skip

#: Those whose second operand has a row per output.
TRANSPOSED = ("linear", "_weight_int8pack_mm")

#: Products with weights of 4 bits in an order of their own: the argument names of their operands.
PACKED = {
    "_weight_int4pack_mm": ("self", "mat2"),
    "_weight_int4pack_mm_for_cpu": ("self", "mat2"),
    "_weight_int4pack_mm_with_scales_and_zeros": ("self", "mat2"),
    "_dyn_quant_matmul_4bit": ("inp", "packed_weights"),
}

#: Products that are Einstein sums: the equation, and the argument names of the operands.
EQUATIONS = {
    "addbmm": ("brc,bck->rk", ("batch1", "batch2")),
    "bilinear": ("...i,oij,...j->...o", ("input1", "weight", "input2")),
}

#: Products of rows with one matrix each of a group, such as experts.
GROUPED = ("_grouped_mm", "_scaled_grouped_mm", "_scaled_grouped_mm_v2")

#: Parts of the names of operators that change only how elements are stored.
QUANTISING = ("quantized_decomposed::", "quantize_")

#: Operators that must not be decomposed: some would become sums of element-wise products and be lost, or moves along
#: indices that are computed.
KEPT = (
    *CONVOLUTIONS, *TRANSPOSED_CONVOLUTIONS, *OPERANDS, *PACKED, *EQUATIONS, "einsum", ATTENTION,
    *RECURRENT, *GROUPED, "roll",
)  # fmt: skip

#: Operators that put tensors side by side, the last one as the real and the imaginary parts.
JOINING = ("cat", "complex")

#: Operators that add along axes; of an element-wise product they make a layer.
SUMS = frozenset(("sum", "mean"))

#: Operators whose result does not depend on the network's input data.
WITHOUT_DATA = {
    "arange", "empty", "empty_like", "empty_strided", "fill", "full", "full_like", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm", "scalar_tensor",
}  # fmt: skip

#: Tags of the operators that compute on single elements or reduce them, and of those that move them.
PASSING_TAGS = {torch.Tag.pointwise, torch.Tag.reduction, torch.Tag.view_copy}

_OTHER_PASSING = """
_adaptive_avg_pool2d _adaptive_avg_pool3d _embedding_bag _fused_rms_norm _log_softmax _native_batch_norm_legit
_native_batch_norm_legit_functional _native_batch_norm_legit_no_training _safe_softmax _softmax _to_copy _unsafe_view
_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d adaptive_avg_pool1d
adaptive_max_pool2d avg_pool1d avg_pool2d avg_pool3d bucketize col2im constant_pad_nd copy cummax cumprod cumsum
embedding flip gather grid_sampler_2d grid_sampler_3d im2col index index_add index_copy index_put index_select
masked_scatter max_pool2d max_pool2d_with_indices max_pool3d_with_indices native_batch_norm native_dropout
native_group_norm native_layer_norm nonzero polar reflection_pad1d reflection_pad2d reflection_pad3d repeat
repeat_interleave replication_pad1d replication_pad2d replication_pad3d roll scatter scatter_add scatter_reduce
searchsorted select_scatter sort topk tril triu torchvision::nms torchvision::ps_roi_align torchvision::ps_roi_pool
torchvision::roi_align torchvision::roi_pool upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
upsample_nearest2d
"""

#: Core operators without such a tag that are not products.
PASSING = frozenset(_OTHER_PASSING.split())
