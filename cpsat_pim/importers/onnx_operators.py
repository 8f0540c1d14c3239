"""Operators of ONNX files that are no products: some have results without data, the others only propagate."""

from cpsat_pim.importers.onnx_call import BLOCKED, VENDOR
from cpsat_pim.importers.onnx_shapes import SHAPE_READERS

#: Operators whose result does not depend on the network's input data.
WITHOUT_DATA = {
    *SHAPE_READERS, "BlackmanWindow", "Constant", "ConstantOfShape", "EyeLike", "HammingWindow", "HannWindow",
    "MelWeightMatrix", "OptionalHasElement", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
    "Range", "SequenceEmpty", "SequenceLength", f"{VENDOR}Range",
}  # fmt: skip

_ELEMENTWISE = """
Abs Acos Acosh Add And Asin Asinh Atan Atanh Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Equal Erf Exp Floor Gelu
Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod
Mul Neg Not Or PRelu Pow QuantizeLinear Reciprocal Relu RotaryEmbedding Round Selu Shrink Sigmoid Sign Sin Sinh
Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu Trilu Where Xor
"""
_MOVING = """
CenterCropPad Col2Im Compress DepthToSpace Expand Flatten Gather GatherElements GatherND GridSample Multinomial OneHot
Pad Reshape Resize ReverseSequence Scatter ScatterElements ScatterND Slice SpaceToDepth Split Squeeze TensorScatter
Tile Transpose Unsqueeze Upsample
ConcatFromSequence SequenceAt SequenceConstruct SequenceErase SequenceInsert SplitToSequence Optional
OptionalGetElement
"""
_REDUCING = """
ArgMax ArgMin AveragePool CumProd CumSum GlobalLpPool GlobalMaxPool LpPool MaxPool MaxRoiPool
MaxUnpool NegativeLogLikelihoodLoss NonMaxSuppression NonZero ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
ReduceMin ReduceProd ReduceSumSquare RoiAlign SoftmaxCrossEntropyLoss TopK Unique
"""
_STRINGS = """
ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer
"""
_NORMALISING = """
BatchNormalization GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization LogSoftmax LpNormalization
MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization Softmax
"""


#: Operators of onnxruntime without a product: fused element-wise ones, normalisations, quantisation, embeddings.
_VENDOR = """
BiasAdd BiasDropout BiasGelu BiasSoftmax BiasSplitGelu BifurcationDetector BitmaskBiasDropout BitmaskDropout ComplexMul
ComplexMulConj CropAndResize DequantizeBFP DequantizeLinear DequantizeWithOrder DynamicTimeWarping
EmbedLayerNormalization ExpandDims FastGelu GatedAdd GatedRMSNorm GatherBlockQuantized GatherND Gelu
GemmaRotaryEmbedding GridSample GroupNorm IsAllFinite LinearAttentionGate MRotaryEmbedding MaxpoolWithMask MulInteger
MurmurHash3 NGramHashMapping NGramRepeatBlock NhwcMaxPool Pad QEmbedLayerNormalization QLinearAdd QLinearAveragePool
QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid QLinearSoftmax QLinearWhere
QOrderedGelu QOrderedLayerNormalization QuantizeBFP QuantizeLinear QuantizeWithOrder QuickGelu ReduceSumInteger
RelativePositionBias RemovePadding RestorePadding RotaryEmbedding ScaledSiLU SkipGroupNorm SkipLayerNormalization
SkipSimplifiedLayerNormalization SwiGLU Tokenizer TorchEmbedding Trilu UnfoldTensor Unique VarlenNGramHashMapping
"""

_BLOCKED = "AveragePool GlobalAveragePool GlobalMaxPool MaxPool ReorderInput ReorderOutput Upsample"

_COMPILED = "compiled for an accelerator, the file does not tell what it computes"
_SEARCH = "a search that runs whole models, import its encoder and decoder as files of their own"

#: Why operators cannot be mapped whatever their inputs are.
REASONS = {
    **{VENDOR + kind: _COMPILED for kind in ("EPContext", "Snpe")},
    **{VENDOR + kind: _SEARCH for kind in ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")},
}

#: Operators that compute each element of their result from one element of each operand.
ELEMENTWISE = frozenset(_ELEMENTWISE.split())

#: Operators without a product along an axis of two tensors: they only propagate.
PASSING = frozenset(
    [
        *" ".join((_ELEMENTWISE, _MOVING, _REDUCING, _STRINGS, _NORMALISING)).split(),
        *(VENDOR + kind for kind in _VENDOR.split()),
        *(BLOCKED + kind for kind in _BLOCKED.split()),
    ]
)

#: Operators that add along axes; of an element-wise product they make a layer.
SUMS = frozenset(("ReduceSum", "ReduceMean", "GlobalAveragePool"))

#: Operators whose result consists of their operands side by side.
JOINING = frozenset(("Concat", f"{VENDOR}QLinearConcat"))
