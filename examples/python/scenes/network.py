"""The network of `rapt train scenes`: one encoder for all tasks, a decoder for each, attention shared between them or not.

`shared`: at every stage of the decoders one attention map for all tasks, from the encoder's features of that stage, over
`rapt.torch.SharedAttention`. `none`: each task attends by itself, from its own features.
"""

import math

import torch
from torch import nn

# Name: numbers for a pixel, and the factor that brings its loss to the size of the others.
TASKS = {"segmentation": (6, 1.0), "depth": (1, 3.0), "normals": (3, 3.0), "edges": (1, 1.0), "reshading": (1, 4.0)}
SCORES = {
    "segmentation": "segmentation_miou",
    "depth": "depth_rmse",
    "normals": "normals_angle",
    "edges": "edges_f1",
    "reshading": "reshading_l1",
}
HIGHER = ("segmentation_miou", "edges_f1")
MIDDLE_DEPTH = 8.0
SIZES = {"size": 32, "patch": 2, "width": 32, "stages": 2, "blocks": 1, "heads": 2, "inner": 64, "decoder_inner": 64, "window": 8}


class PlainSharedAttention(nn.Module):
    """rapt.torch.SharedAttention with PyTorch's operations: the same parameters by the same names."""

    def __init__(self, map_width, width, tasks, heads):
        super().__init__()
        self.heads, self.score_parameters = heads, nn.ParameterDict()
        self.q_proj, self.k_proj = nn.Linear(map_width, map_width), nn.Linear(map_width, map_width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(tasks))
        self.v_projs = nn.ModuleList(nn.Linear(width, width) for _ in range(tasks))
        self.out_projs = nn.ModuleList(nn.Linear(width, width) for _ in range(tasks))

    def forward(self, x, tasks, bias):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(-3, -2)
        q, k = split(self.q_proj(x)), split(self.k_proj(x))
        weights = (q @ k.mT / math.sqrt(q.shape[-1]) + bias).softmax(-1)
        values = [split(v(n(t))) for t, n, v in zip(tasks, self.norms, self.v_projs)]
        return [t + o((weights @ v).transpose(-3, -2).flatten(-2)) for t, o, v in zip(tasks, self.out_projs, values)]


def shared_attention(width, tasks, heads, implementation):
    if implementation == "plain":
        return PlainSharedAttention(width, width, tasks, heads)
    import rapt.torch

    return rapt.torch.SharedAttention(width, width, tasks, heads)


class Block(nn.Module):
    """Attention under one map within windows, and a feed-forward layer for each of some tasks. Cells are [batch, R, C, width]."""

    def __init__(self, width, side, tasks, heads, inner, window, implementation):
        super().__init__()
        self.window = window if 0 < window < side else side
        self.map_norm = nn.LayerNorm(width)
        self.attention = shared_attention(width, tasks, heads, implementation)
        self.bias = nn.Parameter(torch.zeros(heads, 2 * self.window - 1, 2 * self.window - 1))  # by the offset of two cells
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(tasks))
        self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width)) for _ in range(tasks))
        place = torch.arange(self.window**2)
        rows, cols = place // self.window, place % self.window
        offset = lambda x: x[None, :] - x[:, None] + self.window - 1
        self.register_buffer("offsets", torch.stack([offset(rows), offset(cols)]), persistent=False)

    def to_windows(self, x):
        """[batch · windows, window², width]."""
        x = x.unflatten(2, (-1, self.window)).unflatten(1, (-1, self.window))  # [batch, a, window, b, window, width]
        return x.transpose(2, 3).reshape(-1, self.window**2, x.shape[-1])

    def from_windows(self, x, shape):
        batch, rows, cols, width = shape
        x = x.reshape(batch, rows // self.window, cols // self.window, self.window, self.window, width)
        return x.transpose(2, 3).reshape(shape)

    def forward(self, map_from, tasks):
        bias = self.bias[:, self.offsets[0], self.offsets[1]][None]  # [1, heads, window², window²]
        shape = tasks[0].shape
        found = self.attention(self.to_windows(self.map_norm(map_from)), [self.to_windows(t) for t in tasks], bias=bias)
        found = [self.from_windows(t, shape) for t in found]
        return [t + mlp(norm(t)) for t, norm, mlp in zip(found, self.norms, self.mlps)]


def merge_cells(x, side):
    """Squares of side × side cells become one, their numbers row by row."""
    x = x.unflatten(2, (-1, side)).unflatten(1, (-1, side))
    return x.transpose(2, 3).flatten(3)


def split_cells(x, side):
    """The way back: [batch, R, C, side² · width] → [batch, R · side, C · side, width]."""
    batch, rows, cols, _ = x.shape
    x = x.reshape(batch, rows, cols, side, side, -1).transpose(2, 3)
    return x.reshape(batch, rows * side, cols * side, -1)


class Encoder(nn.Module):
    def __init__(self, sizes, implementation):
        super().__init__()
        self.patch = sizes["patch"]
        side, width = sizes["size"] // self.patch, sizes["width"]
        self.embed = nn.Linear(3 * self.patch**2, width)
        self.positions = nn.Parameter(torch.randn(side, side, width) / math.sqrt(width))
        self.norms, self.merges, self.stages = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for s in range(sizes["stages"]):
            if s:
                self.norms.append(nn.LayerNorm(4 * (width << (s - 1))))
                self.merges.append(nn.Linear(4 * (width << (s - 1)), width << s))
            block = lambda: Block(
                width << s, side >> s, 1, sizes["heads"] << s, sizes["inner"] << s, sizes["window"], implementation
            )
            self.stages.append(nn.ModuleList(block() for _ in range(sizes["blocks"])))

    def forward(self, rgb):
        x = self.embed(merge_cells(4 * (rgb - 0.5), self.patch)) + self.positions
        skips = []
        for s, blocks in enumerate(self.stages):
            if s:
                x = self.merges[s - 1](self.norms[s - 1](merge_cells(x, 2)))
            for block in blocks:
                x = block(x, [x])[0]
            skips.append(x)
        return skips


class Network(nn.Module):
    """rgb [batch, S, S, 3] → a list of [batch, S, S, channels], one for each task."""

    def __init__(self, tasks=tuple(TASKS), sharing="shared", implementation="rapt", **sizes):
        super().__init__()
        sizes = {**SIZES, **sizes}
        self.tasks, self.sharing, self.sizes = tuple(tasks), sharing, sizes
        if sharing not in ("none", "shared"):
            raise ValueError(f"sharing: expected none or shared, got '{sharing}'")
        side, width, count = sizes["size"] // sizes["patch"], sizes["width"], len(self.tasks)
        self.encoder = Encoder(sizes, implementation)
        self.skips, self.ups, self.up_norms, self.decoder = (nn.ModuleList() for _ in range(4))
        for s in range(sizes["stages"]):
            own = width << s
            self.skips.append(nn.ModuleList(nn.Linear(own, own) for _ in self.tasks))
            last = s + 1 == sizes["stages"]
            self.up_norms.append(nn.ModuleList(nn.LayerNorm(2 * own) for _ in self.tasks if not last))
            self.ups.append(nn.ModuleList(nn.Linear(2 * own, 4 * own) for _ in self.tasks if not last))
            inner = sizes["decoder_inner"] << s
            block = lambda n: Block(own, side >> s, n, sizes["heads"] << s, inner, sizes["window"], implementation)
            self.decoder.append(nn.ModuleList([block(count)] if sharing == "shared" else [block(1) for _ in self.tasks]))
        self.head_norms = nn.ModuleList(nn.LayerNorm(width) for _ in self.tasks)
        self.heads = nn.ModuleList(nn.Linear(width, sizes["patch"] ** 2 * TASKS[task][0]) for task in self.tasks)

    def forward(self, rgb):
        skips, tasks = self.encoder(rgb), None
        for s in range(self.sizes["stages"] - 1, -1, -1):
            from_skip = [layer(skips[s]) for layer in self.skips[s]]
            if tasks is None:
                tasks = from_skip
            else:
                ups = [up(norm(t)) for t, norm, up in zip(tasks, self.up_norms[s], self.ups[s])]
                tasks = [split_cells(t, 2) + f for t, f in zip(ups, from_skip)]
            if self.sharing == "shared":
                tasks = self.decoder[s][0](skips[s], tasks)
            else:
                tasks = [block(t, [t])[0] for t, block in zip(tasks, self.decoder[s])]
        return [split_cells(head(norm(t)), self.sizes["patch"]) for t, norm, head in zip(tasks, self.head_norms, self.heads)]

    def parameter_count(self):
        return sum(p.numel() for p in self.parameters())

    def multiply_adds(self):
        """Of one picture forward, by the shapes of all layers."""
        side = self.sizes["size"] // self.sizes["patch"]
        cells = lambda s: (side >> s) ** 2
        of = lambda linear, s: linear.weight.numel() * cells(s)
        count = of(self.encoder.embed, 0) + sum(of(head, 0) for head in self.heads)
        for s in range(self.sizes["stages"]):
            width = self.sizes["width"] << s
            if s:
                count += of(self.encoder.merges[s - 1], s)
            count += sum(of(layer, s) for layer in self.skips[s]) + sum(of(up, s + 1) for up in self.ups[s])
            for block in (*self.encoder.stages[s], *self.decoder[s]):
                count += sum(of(m, s) for m in block.modules() if isinstance(m, nn.Linear))
                count += cells(s) * block.window**2 * width * (1 + len(block.mlps))
        return count


def initialize(network, seed):
    """As `rapt train` begins: Xavier for matrices, 0 for biases; from the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(network.named_parameters()):
            if name.endswith("positions"):
                p.copy_(torch.randn(p.shape, generator=generator) / math.sqrt(p.shape[-1]))
            elif p.dim() == 2:
                p.copy_((2 * torch.rand(p.shape, generator=generator) - 1) * math.sqrt(6 / sum(p.shape)))
            else:
                p.fill_(1.0 if name.endswith("weight") else 0.0)
    return network


def edge_weights(edges):
    """Weights of (no edge, edge) that give both the same total."""
    ones = float(edges.float().mean())
    return (1.0, 1.0) if ones in (0.0, 1.0) else (0.5 / (1 - ones), 0.5 / ones)


def loss_of(task, x, truth, weights):
    """The mean over all pixels; those without truth (the sky's depth and normal) add nothing."""
    x = x.float()
    if task == "segmentation":
        return nn.functional.cross_entropy(x.flatten(0, 2), truth["segmentation"].long().flatten())
    x = x.squeeze(-1)
    if task == "depth":
        target = (truth["depth"] / MIDDLE_DEPTH).log()
        return torch.where(target.isnan(), 0.0, (x - target.nan_to_num()).abs()).mean()
    if task == "normals":
        cosine = (x * truth["normals"]).sum(-1) / (x.square().sum(-1) + 1e-12).sqrt()
        return torch.where((truth["normals"] == 0).all(-1), 0.0, 1 - cosine).mean()
    if task == "edges":
        edge = truth["edges"].float()
        own = weights[0] + (weights[1] - weights[0]) * edge
        return nn.functional.binary_cross_entropy_with_logits(x, edge, weight=own)
    return (x - truth["reshading"]).abs().mean()


def total_loss(tasks, found, truth, weights):
    return sum(TASKS[task][1] * loss_of(task, x, truth, weights) for task, x in zip(tasks, found))


class Scores:
    """Scores of all tasks over many batches, as src/training/pixel_scores.cc defines them."""

    THRESHOLDS = 1001

    def __init__(self, tasks, device):
        zeros = lambda *shape: torch.zeros(*shape, dtype=torch.float64, device=device)
        self.tasks = tasks
        self.confusion, self.sums = zeros(6, 6), {task: zeros(2) for task in tasks}
        self.edges, self.others = zeros(self.THRESHOLDS), zeros(self.THRESHOLDS)

    def add(self, found, truth):
        for task, x in zip(self.tasks, found):
            x = x.double()
            if task == "segmentation":
                pairs = 6 * truth["segmentation"].long().flatten() + x.argmax(-1).flatten()
                self.confusion += torch.bincount(pairs, minlength=36).reshape(6, 6)
            elif task == "edges":
                bins = (x.squeeze(-1).sigmoid() * (self.THRESHOLDS - 1)).long().flatten()
                edge = truth["edges"].flatten().bool()
                self.edges += torch.bincount(bins[edge], minlength=self.THRESHOLDS)
                self.others += torch.bincount(bins[~edge], minlength=self.THRESHOLDS)
            elif task == "depth":
                there = ~truth["depth"].isnan()
                error = (MIDDLE_DEPTH * x.squeeze(-1).exp() - truth["depth"]).square()[there]
                self.count(task, error)
            elif task == "normals":
                there = (truth["normals"] != 0).any(-1)
                normal = truth["normals"].double()
                cosine = (x * normal).sum(-1) / (x.norm(dim=-1) * normal.norm(dim=-1)).clamp_min(1e-30)
                self.count(task, torch.rad2deg(torch.acos(cosine.clamp(-1, 1)))[there])
            else:
                self.count(task, (x.squeeze(-1) - truth["reshading"]).abs())

    def count(self, task, errors):
        self.sums[task] += torch.stack([errors.double().sum(), torch.tensor(float(errors.numel()), device=errors.device).double()])

    def named(self):
        found = {}
        for task in self.tasks:
            if task == "segmentation":
                both = self.confusion.diagonal()
                either = self.confusion.sum(0) + self.confusion.sum(1) - both
                value = (both / either)[either > 0].mean()
            elif task == "edges":
                hits, called = (t.flip(0).cumsum(0) for t in (self.edges, self.edges + self.others))
                value = (2 * hits / (self.edges.sum() + called)).nan_to_num().max()
            else:
                value = self.sums[task][0] / self.sums[task][1]
                value = value.sqrt() if task == "depth" else value
            found[SCORES[task]] = float(value)
        return found
