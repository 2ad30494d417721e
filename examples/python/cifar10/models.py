"""The paper's classifier of attention layers, and ResNet-18 for images of 32 × 32."""

import math

import torch
from attention import SCORES, grid_attention, mixed_type
from torch import nn

MODELS = (*SCORES, "resnet18")


class Block(nn.Module):
    def __init__(self, width, inner, attention, dropout):
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(width), attention
        self.inner_norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Dropout(dropout), nn.Linear(inner, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        normed = self.attention_norm(x)  # f32; the attention moves it about, half the bytes are enough
        x = x + self.dropout(self.attention(normed.to(mixed_type(normed))))
        return x + self.dropout(self.inner(self.inner_norm(x)))


class AttentionClassifier(nn.Module):
    """images [batch, 32, 32, 3]. The same network as `rapt train cifar10`: norms before, residuals around, mean over the grid."""

    def __init__(self, score, implementation, *, width, layers, heads, inner, patch, dropout=0.0, side=32, classes=10):
        super().__init__()
        self.patch, self.grid = patch, (side // patch, side // patch)
        self.score, self.heads, self.width, self.inner_width = score, heads, width, inner
        self.embedding = nn.Linear(3 * patch * patch, width)
        self.blocks = nn.ModuleList(
            Block(width, inner, grid_attention(score, width, heads, self.grid, implementation), dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, classes)

    def cells(self, images):
        """Patches of patch × patch pixels, row by row, as numbers of one cell."""
        rows, cols = self.grid
        parts = images.unflatten(2, (cols, self.patch)).unflatten(1, (rows, self.patch))
        return self.embedding(parts.permute(0, 1, 3, 2, 4, 5).flatten(3))

    def forward(self, images):
        x = self.cells(images)
        x = x.to(torch.promote_types(x.dtype, torch.float32))  # sums of layers keep all digits
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x).mean((1, 2)))

    def multiply_adds(self, factorised=False):
        """Of one image forward. factorised: position scores as a pass over rows and one over columns."""
        cells, heads, width = self.grid[0] * self.grid[1], self.heads, self.width
        layer = cells * heads * width * width + 2 * cells * width * self.inner_width
        if self.score == "learned_content":
            layer += 2 * cells * width * heads * width + heads * cells * cells * width
            layer += heads * cells * width * 2 * (sum(self.grid) - 1)
            factorised = False
        layer += heads * cells * width * (sum(self.grid) if factorised else cells)
        return len(self.blocks) * layer + cells * 3 * self.patch**2 * width + width * self.output.out_features


class ResidualBlock(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.first = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(out)
        self.skip = nn.Identity()
        if stride != 1 or into != out:
            self.skip = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.first_norm(self.first(x)).relu()
        return (self.second_norm(self.second(y)) + self.skip(x)).relu()


class ResNet18(nn.Module):
    """Two blocks in each of four stages; 3 × 3 at first and no pooling there, as is usual for 32 × 32."""

    def __init__(self, width=64, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        blocks, into = [], width
        for stage in range(4):
            out = width << stage
            blocks += [ResidualBlock(into, out, 1 if stage == 0 else 2), ResidualBlock(out, out, 1)]
            into = out
        self.blocks = nn.Sequential(*blocks)
        self.output = nn.Linear(into, classes)

    def forward(self, images):
        x = self.blocks(self.stem(images.permute(0, 3, 1, 2)))  # channels last in memory already
        return self.output(x.mean((2, 3)))

    def multiply_adds(self, factorised=False):
        side, count = 32, 0
        for module in (*self.stem, *self.blocks):
            for conv in module.modules():
                if isinstance(conv, nn.Conv2d):
                    # A block's first convolution and its skip read the larger side, and write the smaller one.
                    after = side // 2 if isinstance(module, ResidualBlock) and module.first.stride[0] == 2 else side
                    count += after * after * conv.weight.numel()
            if isinstance(module, ResidualBlock) and module.first.stride[0] == 2:
                side //= 2
        return count + self.output.weight.numel()


@torch.no_grad()
def initialize(model, seed):
    """The same numbers for every implementation of a model: by name, in the order of names, from the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda p, deviation: p.copy_(torch.randn(p.shape, generator=generator) * deviation)
    for name, p in sorted(model.named_parameters()):
        kind = name.rsplit(".", 1)[-1]
        if kind == "center":
            normal(p, 1.0)
        elif kind == "alpha":
            p.fill_(1.0)
        elif kind == "gamma":
            p.copy_(math.sqrt(2.0) * torch.eye(2).expand_as(p))  # as wide as α = 1
        elif kind in ("u", "row", "col"):
            normal(p, 1.0 if kind == "u" else 1 / math.sqrt(p.shape[-1]))
        elif p.dim() == 4:
            normal(p, math.sqrt(2 / (p.shape[0] * p.shape[2] * p.shape[3])))
        elif p.dim() == 2:
            bound = math.sqrt(6 / sum(p.shape))
            p.copy_((torch.rand(p.shape, generator=generator) * 2 - 1) * bound)
        else:
            p.fill_(1.0 if kind == "weight" else 0.0)  # norms and biases
    return model


def make(name, settings, implementation="rapt", seed=1):
    """settings: the section `model` of a file of settings."""
    if name not in MODELS:
        raise SystemExit(f"model: expected one of {', '.join(MODELS)}, got '{name}'")
    if name == "resnet18":
        return initialize(ResNet18(), seed).to(memory_format=torch.channels_last)
    sizes = {key: settings[key] for key in ("width", "layers", "heads", "inner", "patch", "dropout")}
    return initialize(AttentionClassifier(name, implementation, **sizes), seed)
