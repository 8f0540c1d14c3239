"""Modules that the tests import as a user's would be, with the functions that return them."""

import itertools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Bottleneck(nn.Module):
    """A residual block of three convolutions, with a projection where the shape changes; the sum is in place."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(size) for size in (width, width, 4 * width))
        changes = stride > 1 or channels != 4 * width
        self.downsample = nn.Conv2d(channels, 4 * width, 1, stride, bias=False) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block."""
        out = torch.relu(self.norms[0](self.conv1(x)))
        out = torch.relu(self.norms[1](self.conv2(out)))
        out = self.norms[2](self.conv3(out))
        out += self.downsample(x)
        return torch.relu_(out)


class ResNet50(nn.Module):
    """He et al., CVPR 2016, table 1, strided in the 3x3 convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        channels = 64
        for stage, blocks in enumerate((3, 4, 6, 3)):
            width, layers = 64 << stage, nn.Sequential()
            for block in range(blocks):
                layers.append(Bottleneck(channels, width, 2 if stage and not block else 1))
                channels = 4 * width
            self.add_module(f"layer{stage + 1}", layers)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores."""
        x = nn.functional.max_pool2d(torch.relu(self.conv1(x)), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class BertLayer(nn.Module):
    """Devlin et al., NAACL 2019: attention and a feed-forward net, each with a shortcut."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.attention_output = (nn.Linear(width, width) for _ in range(4))
        self.intermediate, self.output = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads, self.fused = heads, fused

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attention in one operator, or written out."""
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, k, v)
        return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer."""
        batch, length, width = x.shape
        q, k, v = (
            linear(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        context = self.attend(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = self.norm1(self.attention_output(context) + x)
        return self.norm2(self.output(nn.functional.gelu(self.intermediate(x))) + x)


class Assorted(nn.Module):
    """One of each: dilated and grouped, transposed, einsum, in-place writes, products with constants and vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.grouped = nn.Conv1d(8, 16, 3, stride=2, dilation=2, groups=4, padding="valid")
        self.up = nn.ConvTranspose1d(16, 8, 4, 2, 1)
        self.mix = nn.Parameter(torch.zeros(6, 8))
        self.fixed = nn.Parameter(torch.zeros(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, 8, 25] to [batch, 6]."""
        up = self.up(self.grouped(x))  # 25 -> (25 - 2*2 - 1) // 2 + 1 = 11 -> 22
        kept = torch.zeros_like(up)
        kept[:, :, ::2] = up[:, :, 1::2]
        mixed = (self.mix @ self.fixed) @ kept  # the first product is of constants
        scores = torch.einsum("bct,bcs->bts", mixed, mixed)
        return torch.mv(scores[0], scores[0, 0])


class Recurrent(nn.Module):
    """A recurrent layer before a linear one."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.fc = nn.LSTM(4, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[time, batch, 4] to [time, batch, 2]."""
        return self.fc(self.rnn(x)[0])


def block() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The first block of ResNet-50's second stage."""
    return Bottleneck(256, 128, 2), (torch.randn(1, 256, 56, 56),)


def resnet50() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The whole network."""
    return ResNet50(), (torch.randn(1, 3, 224, 224),)


def bert(length: int, batch: int = 1, fused: int = 0) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A layer of BERT-base."""
    return BertLayer(768, 12, bool(fused)), (torch.randn(batch, length, 768),)


def assorted() -> tuple[nn.Module, torch.Tensor]:
    """An only input may stand for the tuple."""
    return Assorted(), torch.randn(2, 8, 25)


def recurrent() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A recurrent layer and what reads it."""
    return Recurrent(), (torch.randn(5, 3, 4),)


class Stacked(nn.Module):
    """Two GRU layers in both directions behind a projecting LSTM, of sequences behind their batch."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, batch_first=True, proj_size=5)
        self.gru = nn.GRU(5, 4, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, time, 6] to [batch, time, 8]."""
        return self.gru(self.lstm(x)[0])[0]


def stacked(batch: int = 2, steps: int = 7) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The stack."""
    return Stacked(), (torch.randn(batch, steps, 6),)


class StateInForward(nn.Module):
    """A tensor is made in `forward` without a device; the first product is of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.rec = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, time, 6] to [batch, 6]."""
        state = torch.zeros(x.shape[0], 6)
        for step in range(x.shape[1]):
            state = x[:, step] + self.rec(state)
        return state


def state_in_forward(steps: int = 4) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A recurrence written out."""
    return StateInForward(), (torch.randn(3, steps, 6),)


class Named(nn.Module):
    """Inputs by name."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
        """[rows, 8] to [rows, 4]."""
        return self.lin(x * mask)


#: What is made on the CPU, when this module is imported.
SAMPLE = torch.randn(2, 8)


def sample_of_module() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """Its input is made elsewhere than its parameters."""
    return nn.Linear(8, 4), (SAMPLE,)


def named() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """All inputs by name."""
    return Named(), {"x": torch.randn(2, 8), "mask": torch.ones(2, 8)}


def partly_named() -> tuple[nn.Module, tuple[torch.Tensor], dict[str, torch.Tensor]]:
    """One by position, one by name."""
    return Named(), (torch.randn(2, 8),), {"mask": torch.ones(2, 8)}


class Products(nn.Module):
    """Element-wise products whose sum or mean contracts an axis of both, and some that contract none."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8, 5))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """A product with weights, a product of rows, squares, and a scaled tensor."""
        weighted = (x.unsqueeze(-1) * self.weight).sum(1)
        return weighted.mean() + (x * y).mean(-1).sum() + (x * x).mean(-1).sum() + (2 * x).sum()


def products() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """Three rows of 8 channels."""
    return Products(), (torch.randn(3, 8), torch.randn(3, 8))


class Function(nn.Module):
    """A function of tensors, with modules that it uses."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Call it."""
        return self.function(self, *tensors)


def inverse() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """What cannot be mapped. A layer reads it."""
    return Function(lambda own, x: own.fc(torch.linalg.inv(x)), fc=nn.Linear(3, 2)), (torch.randn(5, 3, 3),)


def bilinear() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """A product of three operands."""
    return nn.Bilinear(3, 4, 8), (torch.randn(5, 3), torch.randn(5, 4))


def added_products() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The sum of a batch of products."""
    sizes = ((4, 6), (3, 4, 5), (3, 5, 6))
    return Function(lambda _, *tensors: torch.addbmm(*tensors)), tuple(torch.randn(size) for size in sizes)


def narrow_product(kind: str, *types: torch.dtype) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Six rows of 64 channels to 32 outputs, in one operator for narrow elements."""
    weight = {"_weight_int4pack_mm": (4, 4, 32, 4), "_weight_int8pack_mm": (32, 64)}.get(kind, (64, 32))
    more: dict[str, tuple[Any, ...]] = {
        "_weight_int4pack_mm": (32, torch.zeros(2, 32, 2, dtype=types[0])),
        "_weight_int8pack_mm": (torch.zeros(32, dtype=types[0]),),
    }
    operands = torch.zeros(6, 64, dtype=types[0]), torch.zeros(weight, dtype=types[1])
    return Function(lambda _, x, w, *others: getattr(torch, kind)(x, w, *others)), (*operands, *more.get(kind, ()))


def four_bits() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Weights of 4 bits."""
    return narrow_product("_weight_int4pack_mm", torch.bfloat16, torch.int32)


def eight_bits() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Weights of 8 bits."""
    return narrow_product("_weight_int8pack_mm", torch.bfloat16, torch.int8)


def integers() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Both operands of 8 bits."""
    return narrow_product("_int_mm", torch.int8, torch.int8)


def single_attention() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Attention without batch and heads."""
    function = nn.functional.scaled_dot_product_attention
    return Function(lambda _, *tensors: function(*tensors)), tuple(torch.randn(size, 4) for size in (3, 7, 7))


def quantised_while_training() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """An operator that has no implementation for the meta device."""

    def run(own: Any, x: torch.Tensor) -> torch.Tensor:
        rounded: torch.Tensor = own.fc(torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127))
        return rounded

    return Function(run, fc=nn.Linear(8, 4)), (torch.randn(6, 8),)


def computed_sizes() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """Layers whose sizes a tensor computes, as RegNet's widths are: 8, 16 and 24 channels."""
    widths = (torch.arange(3) * 8 + 8).int().tolist()
    layers = [nn.Linear(have, made) for have, made in itertools.pairwise(widths)]
    return nn.Sequential(*layers), (torch.randn(6, 8),)


def half_terms() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """A product of narrow elements that is summed in wide ones."""
    pair = torch.zeros(6, 8, dtype=torch.float16), torch.zeros(6, 8, dtype=torch.float16)
    return Function(lambda _, x, y: (x * y).float().sum(-1)), pair


def pooled_activations() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """Activations that multiply a tensor with a function of it, before a pooling."""

    def run(own: Any, x: torch.Tensor) -> torch.Tensor:
        active = nn.functional.mish(nn.functional.silu(own.conv(x)))
        pooled: torch.Tensor = nn.functional.adaptive_avg_pool2d(active, 1)
        return pooled

    return Function(run, conv=nn.Conv2d(4, 6, 3)), (torch.randn(1, 4, 5, 5),)


def grouped_queries(way: str = "shared") -> tuple[nn.Module, tuple[torch.Tensor]]:
    """Attention of four query heads on two heads of keys and values, shared or repeated."""

    def run(own: Any, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (make(x).reshape(1, 5, -1, 3).transpose(1, 2) for make in (own.query, own.key, own.value))
        if way != "shared":
            key, value = (one[:, :, None].expand(1, 2, 2, 5, 3).reshape(1, 4, 5, 3) for one in (key, value))
        if way == "products":
            attended = torch.softmax(query @ key.transpose(-1, -2), -1) @ value
        else:
            attended = nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=way == "shared")
        out: torch.Tensor = own.out(attended.transpose(1, 2).reshape(1, 5, 12))
        return out

    model = Function(run, query=nn.Linear(6, 12), key=nn.Linear(6, 6), value=nn.Linear(6, 6), out=nn.Linear(12, 6))
    return model, (torch.randn(1, 5, 6),)


def pyramid(mode: str = "nearest", corners: bool = False) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A convolution of what is halved, up-sampled again beside what it came from."""

    def run(own: Any, x: torch.Tensor) -> torch.Tensor:
        skip = own.skip(x)
        deep = own.deep(nn.functional.max_pool2d(skip, 2))
        up = nn.functional.interpolate(deep, size=(9, 8), mode=mode, align_corners=corners or None)
        both: torch.Tensor = own.both(torch.cat([skip, up], 1))
        return both

    model = Function(run, skip=nn.Conv2d(3, 4, 1), deep=nn.Conv2d(4, 6, 1), both=nn.Conv2d(10, 2, 3, padding=1))
    return model, (torch.randn(1, 3, 9, 8),)


def scanned() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """A state that meets weights in each of 5 steps."""
    from torch._higher_order_ops.scan import scan

    def run(own: Any, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        last: torch.Tensor = scan(lambda h, row: (torch.tanh(own.fc(h) + row), h.clone()), state, x, dim=0)[0]
        return last

    return Function(run, fc=nn.Linear(8, 8)), (torch.randn(5, 6, 8), torch.randn(6, 8))


def chosen_terms() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A layer, and a sum of as many elements as are positive."""
    return Function(lambda own, x: own.fc(x) + x[x > 0].sum(), fc=nn.Linear(8, 4)), (torch.randn(6, 8),)


def chosen(other: bool, wide: int) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """One of two layers by the data, the second of them `wide`; then none, or a scaling; then a layer."""

    def run(own: Any, x: torch.Tensor) -> torch.Tensor:
        second = own.second if other else own.first
        x = torch.cond(x.sum() > 0, lambda v: own.first(v), lambda v: second(v)[..., :8].relu(), (x,))
        x = torch.cond(x.sum() > 0, lambda v: 2 * v, lambda v: v.clone(), (x,))
        last: torch.Tensor = own.last(x)
        return last

    return Function(run, first=nn.Linear(8, 8), second=nn.Linear(8, wide), last=nn.Linear(8, 4)), (torch.randn(6, 8),)


def looped(multiplies: bool) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A loop that ends by the data, of a layer or of a scaling; then a layer."""
    from torch._higher_order_ops import while_loop

    def run(own: Any, x: torch.Tensor) -> torch.Tensor:
        step = (lambda v: own.first(v)) if multiplies else (lambda v: 0.5 * v)
        (x,) = while_loop(lambda v: v.sum() > 1, lambda v: (step(v),), (x,))
        last: torch.Tensor = own.last(x)
        return last

    return Function(run, first=nn.Linear(8, 8), last=nn.Linear(8, 4)), (torch.randn(6, 8),)


def nothing() -> int:
    """No module."""
    return 0


def failing() -> None:
    """An error of the user's own, of two lines."""
    raise KeyError("first\nsecond")


def ending() -> None:
    """What a script does that is imported and given no arguments."""
    sys.exit("usage: train")


class Masked(nn.Module):
    """As many rows as are positive."""

    def __init__(self) -> None:
        """Of four features."""
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What is chosen, mapped."""
        rows: torch.Tensor = self.fc(x[x[:, 0] > 0])
        return rows


def masked() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A module with sizes that depend on the data."""
    return Masked(), (torch.randn(3, 4),)


class Branching(nn.Module):
    """What depends on data cannot be exported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A branch on a value."""
        return x if x.sum() > 0 else -x


def branching() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A module that is not exportable."""
    return Branching(), (torch.randn(3),)


not_callable = 3


class Reordered(nn.Module):
    """Queries, keys and values of one product, two heads of 4; and halves of shuffled channels."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.a, self.b = (nn.Conv2d(3, 4, 1) for _ in range(2))
        self.c = nn.Conv2d(4, 4, 1)
        self.d = nn.Conv2d(8, 2, 1)

    def forward(self, tokens: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The result of each."""
        query, key, value = self.qkv(tokens).reshape(1, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        context = torch.softmax(query @ key.transpose(-1, -2), -1) @ value
        both = torch.cat([self.a(image), self.b(image)], 1)
        first, second = both.view(1, 2, 4, 2, 2).transpose(1, 2).reshape(1, 8, 2, 2).chunk(2, 1)
        joined = torch.cat([first, self.c(second)], 1)
        return self.out(context.transpose(1, 2).reshape(1, 5, 8)), self.d(joined)


def reordered() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """Attention on five tokens, and convolutions of two by two positions."""
    return Reordered(), (torch.randn(1, 5, 8), torch.randn(1, 3, 2, 2))


class Fourier(nn.Module):
    """Real and complex transforms of two axes, and back."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of six rows of eight."""
        mixed = torch.fft.fft2(x.to(torch.complex64)).real
        return mixed + torch.fft.irfft2(2 * torch.fft.rfft2(x), s=(6, 8))


def fourier() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """Two samples."""
    return Fourier(), (torch.randn(2, 6, 8),)
