"""Modules that count elements along other axes (windows, merged patches, shuffled pixels), or whose layers add to their
outputs. No biases, no activations.
"""

import torch
from torch import nn

SIDE, WINDOW, HEADS, CHANNELS = 4, 2, 2, 4


class Windows(nn.Module):
    """Attention without a softmax in windows that are rolled or not, added to what it reads."""

    def __init__(self, roll: int) -> None:
        super().__init__()
        self.roll = roll
        self.qkv = nn.Linear(CHANNELS, 3 * CHANNELS, bias=False)
        self.proj = nn.Linear(CHANNELS, CHANNELS, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, rows, columns, channels]."""
        n, side = x.shape[0], SIDE // WINDOW
        shifted = torch.roll(x, (-self.roll, -self.roll), (1, 2)) if self.roll else x
        cut = shifted.reshape(n, side, WINDOW, side, WINDOW, CHANNELS).permute(0, 1, 3, 2, 4, 5)
        windows = cut.reshape(n * side * side, WINDOW * WINDOW, CHANNELS)
        heads = self.qkv(windows).reshape(-1, WINDOW * WINDOW, 3, HEADS, CHANNELS // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        context = ((q @ k.transpose(-2, -1)) @ v).transpose(1, 2).reshape(windows.shape)
        made = self.proj(context).reshape(n, side, side, WINDOW, WINDOW, CHANNELS)
        whole = made.permute(0, 1, 3, 2, 4, 5).reshape(x.shape)
        return x + (torch.roll(whole, (self.roll, self.roll), (1, 2)) if self.roll else whole)


class Merging(nn.Module):
    """Four pixels of a square become channels of one."""

    def __init__(self) -> None:
        super().__init__()
        self.reduction = nn.Linear(4 * CHANNELS, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, rows, columns, channels]."""
        corners = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
        return self.reduction(torch.cat(corners, -1))


class Windowed(nn.Module):
    """A convolution, two blocks of windows, the second one rolled, and merged patches."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.blocks = nn.Sequential(Windows(0), Windows(1))
        self.merging = Merging()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        return self.merging(self.blocks(self.patches(x).permute(0, 2, 3, 1)))


class Shuffled(nn.Module):
    """Pixels become channels, and channels pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 3, 1, bias=False)
        self.down = nn.Conv2d(12, 8, 3, padding=1, bias=False)
        self.up = nn.Conv2d(2, 3, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        small = self.down(nn.functional.pixel_unshuffle(self.first(x), 2))
        return self.up(nn.functional.pixel_shuffle(small, 2))


class Grid(nn.Module):
    """Attention among pixels that lie half of the side apart, by PyTorch's own operator for each head."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 3 * CHANNELS, 1, bias=False)
        self.last = nn.Conv2d(CHANNELS, 3, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        step, depth = SIDE // WINDOW, CHANNELS // HEADS
        cut = self.first(x).reshape(-1, 3, HEADS, depth, WINDOW, step, WINDOW, step)
        q, k, v = cut.permute(1, 0, 5, 7, 2, 4, 6, 3).reshape(3, -1, HEADS, WINDOW * WINDOW, depth)
        context = (q @ k.transpose(-2, -1)) @ v
        whole = context.reshape(-1, step, step, HEADS, WINDOW, WINDOW, depth).permute(0, 3, 6, 4, 1, 5, 2)
        return self.last(whole.reshape(-1, CHANNELS, SIDE, SIDE))


class Local(nn.Module):
    """PyTorch's attention in windows that lie along axes of their own, of normalised queries."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.qkv = nn.Linear(CHANNELS, 3 * CHANNELS, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        side, tokens = SIDE // WINDOW, WINDOW * WINDOW
        cut = self.first(x).permute(0, 2, 3, 1).reshape(-1, side, WINDOW, side, WINDOW, CHANNELS).transpose(2, 3)
        heads = self.qkv(cut).reshape(-1, side * side, tokens, 3, HEADS, CHANNELS // HEADS)
        q, k, v = heads.permute(3, 0, 1, 4, 2, 5)
        return nn.functional.scaled_dot_product_attention(nn.functional.normalize(q, dim=-1), k, v)


class Partial(nn.Module):
    """Half of the channels pass a residual block of their own (cross stage partial); both halves are read together."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 2 * CHANNELS, 1, bias=False)
        self.once = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.again = nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
        self.behind = nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
        self.last = nn.Conv2d(2 * CHANNELS, 3, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        left, right = self.first(x).chunk(2, 1)
        right = self.once(right) + right
        right = self.again(right) + right
        return self.last(torch.cat([left, self.behind(right)], 1))


class Aggregated(nn.Module):
    """Two residual blocks whose sums are read side by side (deep layer aggregation)."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.once = nn.Conv2d(2, CHANNELS, 3, padding=1, bias=False)
        self.again = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.root = nn.Conv2d(2 * CHANNELS, 3, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        one = self.once(x) + self.project(x)
        two = self.again(one) + one
        return self.root(torch.cat([two, one], 1))


class Hierarchical(nn.Module):
    """Each third of the channels is added to what the one before becomes (Res2Net), which others read alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 3 * CHANNELS, 1, bias=False)
        self.once = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.again = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.last = nn.Conv2d(3 * CHANNELS, 3, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        left, middle, right = self.first(x).chunk(3, 1)
        one = self.once(left)
        return self.last(torch.cat([one, self.again(one + middle), right], 1))


class Mixed(nn.Module):
    """Pixels are mixed in each channel, then channels in each pixel, each added to what is read (MLP-Mixer)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.pixels = nn.Linear(SIDE * SIDE, SIDE * SIDE, bias=False)
        self.channels = nn.Linear(CHANNELS, CHANNELS, bias=False)
        self.again = nn.Linear(SIDE * SIDE, SIDE * SIDE, bias=False)
        self.last = nn.Linear(CHANNELS, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        x = self.first(x).flatten(2).transpose(1, 2)
        x = x + self.pixels(x.transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(x)
        x = x + self.again(x.transpose(1, 2)).transpose(1, 2)
        return self.last(x)


class Fused(nn.Module):
    """Two residual branches of two sizes, each added to the other one as that is read, and residual blocks behind
    (HRNet). The larger branch is read alone, too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.large = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.small = nn.Conv2d(2, CHANNELS, 1, 2, bias=False)
        self.once = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.again = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.up = nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
        self.down = nn.Conv2d(CHANNELS, CHANNELS, 1, 2, bias=False)
        self.behind = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False) for _ in range(3))
        self.over = nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
        self.last = nn.Conv2d(CHANNELS, 3, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        large, small = self.large(x), self.small(x)
        large, small = large + self.once(large), small + self.again(small)
        up = nn.functional.interpolate(self.up(small), scale_factor=2, mode="nearest")
        large, small = large + up, self.down(large) + small
        for block in self.behind[:2]:
            large = large + block(large)
        small = small + self.behind[2](small)
        return self.last(large + nn.functional.interpolate(self.over(small), scale_factor=2, mode="nearest"))


class Nested(nn.Module):
    """Sums that are only operands of others: of branches side by side, in a row, and of what is resized."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.once = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.side = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.again = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.beside = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.small = nn.Conv2d(2, CHANNELS, 1, 2, bias=False)
        self.last = nn.Conv2d(CHANNELS, 3, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        first = self.first(x)
        inner = self.once(first) + first
        middle = self.side(x) + inner
        outer = (self.again(middle) + middle) + self.beside(x)
        return self.last(outer + nn.functional.interpolate(self.small(x), scale_factor=2, mode="nearest"))


class Phased(nn.Module):
    """Transposed convolutions: of like and of unlike phases, in groups, one behind the other, beside a map as it is and
    beside each other.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, CHANNELS, 2, 2, bias=False)
        self.twice = nn.ConvTranspose2d(CHANNELS, 3, 2, 2, bias=False)
        self.skip = nn.Conv2d(2, 2, 1, bias=False)
        self.mix = nn.Conv2d(5, CHANNELS, 3, 2, padding=1, bias=False)
        self.over = nn.ConvTranspose2d(CHANNELS, CHANNELS, 4, 2, padding=1, groups=2, bias=False)
        self.once = nn.ConvTranspose2d(CHANNELS, 3, 3, 2, padding=1, output_padding=1, bias=False)
        self.wide = nn.ConvTranspose2d(CHANNELS, 2, 8, 4, padding=2, bias=False)
        self.last = nn.Conv2d(5, 3, 3, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        first = self.first(x)
        mixed = self.mix(torch.cat([self.skip(x), self.twice(first)], 1))
        return self.last(torch.cat([self.once(self.over(mixed)), self.wide(mixed)], 1))


class Crossed(nn.Module):
    """Attention without a softmax between channels: pixels are what queries and keys are summed over."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.qkv = nn.Linear(CHANNELS, 3 * CHANNELS, bias=False)
        self.proj = nn.Linear(CHANNELS, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        tokens = self.first(x).flatten(2).transpose(1, 2)
        heads = self.qkv(tokens).reshape(len(x), SIDE * SIDE, 3, HEADS, CHANNELS // HEADS)
        q, k, v = heads.permute(2, 0, 3, 4, 1)
        context = (q @ k.transpose(-2, -1)) @ v
        return self.proj(context.permute(0, 3, 1, 2).reshape(len(x), SIDE * SIDE, CHANNELS))


class Queried(nn.Module):
    """Attention of constant queries, in one operator or without a softmax: scores are computed transposed."""

    def __init__(self, is_one: bool) -> None:
        super().__init__()
        self.is_one = is_one
        self.first = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.queries = nn.Parameter(torch.zeros(HEADS, 5, CHANNELS // HEADS))
        self.kv = nn.Linear(CHANNELS, 2 * CHANNELS, bias=False)
        self.proj = nn.Linear(CHANNELS, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        tokens = self.first(x).flatten(2).transpose(1, 2)
        heads = self.kv(tokens).reshape(len(x), SIDE * SIDE, 2, HEADS, CHANNELS // HEADS)
        k, v = heads.permute(2, 0, 3, 1, 4)
        if self.is_one:
            context = nn.functional.scaled_dot_product_attention(self.queries[None], k, v)
        else:
            context = (self.queries @ k.transpose(-2, -1)) @ v
        return self.proj(context.transpose(1, 2).reshape(len(x), 5, CHANNELS))


class Einstein(nn.Module):
    """Attention without a softmax in a grid of windows, in Einstein sums."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.qkv = nn.Linear(CHANNELS, 3 * CHANNELS, bias=False)
        self.proj = nn.Linear(CHANNELS, CHANNELS, bias=False)
        self.last = nn.Conv2d(CHANNELS, 3, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        n, side = x.shape[0], SIDE // WINDOW
        cut = self.first(x).permute(0, 2, 3, 1).reshape(n, WINDOW, side, WINDOW, side, CHANNELS)
        grid = cut.permute(0, 2, 4, 1, 3, 5).reshape(n, side * side, WINDOW * WINDOW, CHANNELS)
        heads = self.qkv(grid).reshape(n, side * side, WINDOW * WINDOW, 3, HEADS, CHANNELS // HEADS)
        q, k, v = heads.permute(3, 0, 1, 4, 2, 5)
        context = torch.einsum("bghij,bghjd->bgihd", torch.einsum("bghid,bghjd->bghij", q, k), v)
        made = self.proj(context.reshape(grid.shape)).reshape(n, side, side, WINDOW, WINDOW, CHANNELS)
        return self.last(made.permute(0, 5, 3, 1, 4, 2).reshape(n, CHANNELS, SIDE, SIDE))


class Linked(nn.Module):
    """Sums of what transposed convolutions make and of skips: a map that is pooled elsewhere, and a residual sum that
    other layers read, too; and of these again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.inner = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.down = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False) for _ in range(2))
        self.twice = nn.ConvTranspose2d(CHANNELS, CHANNELS, 2, 2, bias=False)
        self.over = nn.ConvTranspose2d(CHANNELS, CHANNELS, 4, 2, padding=1, bias=False)
        self.mix = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False) for _ in range(2))
        self.last = nn.Conv2d(CHANNELS, 3, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        first = self.first(x)
        whole = self.inner(first) + first
        half = self.down[0](nn.functional.avg_pool2d(whole, 2, divisor_override=1))
        small = self.down[1](nn.functional.avg_pool2d(half, 2, divisor_override=1))
        linked = self.mix[0](self.over(small) + half)
        large = self.twice(linked) + whole
        return self.last(self.mix[1](large) + large)


class Tokens(nn.Module):
    """Windows whose pixels are one row of tokens again, which are added to others, either way round, and become pixels
    of a convolution.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, CHANNELS, 1, bias=False)
        self.mix = nn.ModuleList(nn.Linear(CHANNELS, CHANNELS, bias=False) for _ in range(2))
        self.proj = nn.ModuleList(nn.Linear(CHANNELS, CHANNELS, bias=False) for _ in range(2))
        self.last = nn.Conv2d(CHANNELS, 3, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        n, side = x.shape[0], SIDE // WINDOW
        tokens = self.first(x).flatten(2).transpose(1, 2)
        for is_first, (mix, proj) in enumerate(zip(self.mix, self.proj, strict=True)):
            cut = tokens.reshape(n, side, WINDOW, side, WINDOW, CHANNELS).transpose(2, 3)
            mixed = mix(cut.reshape(n, side * side, WINDOW * WINDOW, CHANNELS))
            whole = mixed.reshape(n, side, side, WINDOW, WINDOW, CHANNELS).transpose(2, 3)
            made = proj(whole.reshape(n, SIDE * SIDE, CHANNELS))
            tokens = made + tokens if is_first else tokens + made
        return self.last(tokens.transpose(1, 2).reshape(n, CHANNELS, SIDE, SIDE))


class UNet(nn.Module):
    """Two levels: each is halved, doubled again by a transposed convolution, and concatenated with what was there."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(2 * level, 2 * level + 2, 3, padding=1, bias=False) for level in (1, 2, 3))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * level + 2, 2 * level, 2, 2, bias=False) for level in (3, 2))
        self.join = nn.ModuleList(nn.Conv2d(4 * level, 2 * level, 3, padding=1, bias=False) for level in (3, 2))
        self.head = nn.Conv2d(4, 3, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [samples, channels, rows, columns]."""
        kept = []
        for down in self.down:
            x = down(x if not kept else nn.functional.avg_pool2d(x, 2, divisor_override=1))
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[1::-1], strict=True):
            x = join(torch.cat([up(x), skip], 1))
        return self.head(x)


def _model(module: nn.Module) -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The module with small integers as weights, and an input of such."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randint(-1, 2, weight.shape))
    return module.eval().double(), (torch.randint(-1, 2, (1, 2, SIDE, SIDE)).double(),)


def windowed():
    """Windows and merged patches."""
    return _model(Windowed())


def shuffled():
    """Pixel shuffle both ways."""
    return _model(Shuffled())


def grid():
    """Attention on a grid."""
    return _model(Grid())


def local():
    """Attention in windows."""
    return _model(Local())


def partial():
    """A partial residual."""
    return _model(Partial())


def aggregated():
    """Sums side by side."""
    return _model(Aggregated())


def mixed():
    """Sums of what lies in two orders."""
    return _model(Mixed())


def fused():
    """Sums with what is resized, of what others read alone."""
    return _model(Fused())


def nested():
    """Sums of sums that nobody reads alone."""
    return _model(Nested())


def phased():
    """Transposed convolutions."""
    return _model(Phased())


def crossed():
    """Attention between channels."""
    return _model(Crossed())


def queried(is_one: bool = False):
    """Attention of constant queries."""
    return _model(Queried(is_one))


def einstein():
    """Einstein sums."""
    return _model(Einstein())


def linked():
    """Sums of what transposed convolutions make."""
    return _model(Linked())


def tokens():
    """Windows of tokens."""
    return _model(Tokens())


def unet():
    """A U-Net, of twice the rows and columns."""
    module, _ = _model(UNet())
    return module, (torch.randint(-1, 2, (1, 2, 2 * SIDE, 2 * SIDE)).double(),)


def hierarchical():
    """Sums of what others read alone."""
    return _model(Hierarchical())
