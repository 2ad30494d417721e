"""Attention among the cells of a grid, as the paper on attention and convolution has it, computed in three ways.

rapt    Rapt's kernels: factorised over rows and columns where the score allows it, never an N × N matrix in memory
flex    PyTorch's FlexAttention, compiled where it can be
plain   PyTorch's operations over the N × N matrix
none    no mixing: each head passes its cell on. Not the model; the benchmark's bound for attention that writes what it mixed

Every head mixes whole cells and has a matrix of its own in the output projection, so that nine heads on the nine
neighbours are a 3 × 3 convolution. Parameters have the same names and shapes in all three.

quadratic        −α(‖δ‖² − 2 δ·Δ), δ = key − query on the grid
gaussian         −½ ‖Γ(δ − Δ)‖²
learned          u·(row[δ₁] + col[δ₂])/√D, u of each head: by position alone
learned_content  q·(row[δ₁] + col[δ₂] + k)/√D, q and k of full width
"""

import functools
import math

import torch
from torch import nn

IMPLEMENTATIONS = ("rapt", "flex", "plain", "none")
SCORES = ("quadratic", "gaussian", "learned", "learned_content")


def grid_attention(score, width, heads, grid, implementation):
    if score not in SCORES:
        raise ValueError(f"score: expected one of {', '.join(SCORES)}, got '{score}'")
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(f"attention: expected one of {', '.join(IMPLEMENTATIONS)}, got '{implementation}'")
    if score == "quadratic" and implementation == "rapt":
        import rapt.torch

        return rapt.torch.QuadraticAttention2d(width, heads)
    made = ContentAttention if score == "learned_content" else PositionAttention
    return made(score, width, heads, grid, implementation)


def offsets(grid, device):
    """Rows and columns from each query to each key, [cells, cells] each."""
    rows, cols = (t.flatten() for t in torch.meshgrid(*(torch.arange(n, device=device) for n in grid), indexing="ij"))
    return rows[None, :] - rows[:, None], cols[None, :] - cols[:, None]


def in_full_precision(function):
    """Scores are few, and bf16 has too few digits for squares of offsets."""

    @functools.wraps(function)
    def call(*arguments):
        with torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False):
            return function(*arguments)

    return call


@in_full_precision
def learned_tables(p):
    """The scores of every offset down and right, [heads, 2R − 1] each."""
    return [p["u"] @ p[name].mT / math.sqrt(p["u"].shape[1]) for name in ("row", "col")]


@in_full_precision
def position_scores(score, p, grid):
    """[heads, cells, cells] in f32, of the parameters by name."""
    down, right = offsets(grid, p["center" if "center" in p else "row"].device)
    if score == "learned":
        rows, cols = learned_tables(p)
        return rows[:, down + grid[0] - 1] + cols[:, right + grid[1] - 1]
    down, right = down.float(), right.float()
    center = p["center"][:, :, None, None]
    if score == "quadratic":
        return -p["alpha"][:, None, None] * (down * down + right * right - 2 * (down * center[:, 0] + right * center[:, 1]))
    away = torch.stack([down - center[:, 0], right - center[:, 1]], 1)  # [heads, 2, cells, cells]
    return -0.5 * torch.einsum("hij,hjqk->hiqk", p["gamma"], away).square().sum(1)


class PositionAttention(nn.Module):
    """Scores by position alone: one map for all images. x is [batch, rows, columns, width]."""

    def __init__(self, score, width, heads, grid, implementation):
        super().__init__()
        self.score, self.heads, self.grid, self.implementation = score, heads, tuple(grid), implementation
        shapes = {
            "quadratic": {"alpha": (heads,), "center": (heads, 2)},
            "gaussian": {"center": (heads, 2), "gamma": (heads, 2, 2)},
        }
        dim = -(-width // heads)
        shapes["learned"] = {"u": (heads, dim), "row": (2 * grid[0] - 1, dim), "col": (2 * grid[1] - 1, dim)}
        self.score_parameters = nn.ParameterDict({name: nn.Parameter(torch.empty(shape)) for name, shape in shapes[score].items()})
        self.out_proj = nn.Linear(heads * width, width)

    def parameters_by_name(self):
        return dict(self.score_parameters.items())

    def weights(self, x=None):
        """[1, heads, cells, cells], whatever the implementation."""
        return position_scores(self.score, self.parameters_by_name(), self.grid).softmax(-1)[None]

    def forward(self, x):
        batch, width = x.shape[0], x.shape[3]
        cells = x.reshape(batch, -1, width)
        mixed = getattr(self, self.implementation)(cells)  # [batch, cells, heads · width]
        return self.out_proj(mixed).reshape(x.shape)

    def none(self, cells):
        return cells.repeat(1, 1, self.heads)

    def plain(self, cells):
        weights = self.weights()[0].to(mixed_type(cells))
        count = cells.shape[1]
        # One product for each image, and no copy: the weights' rows are (query, head), so heads come out side by side.
        rows = weights.transpose(0, 1).reshape(count * self.heads, count)
        return torch.matmul(rows, cells.to(rows.dtype)).reshape(len(cells), count, -1)

    def rapt(self, cells):
        import rapt

        parameters = self.parameters_by_name()
        count, score = cells.shape[1], {"learned": "learned_2d"}.get(self.score, self.score)
        values = _side_by_side(cells, 128 if cells.is_cuda else 0)
        if self.score == "learned":
            q = parameters.pop("u")[None, :, None, :].expand(1, -1, count, -1).to(values.dtype)
            k = q.detach()
            parameters["content"] = 0
        elif cells.is_cuda:
            # The scores read nothing of them, but the tensor cores' kernels take them whole, in rows of 16 bytes.
            q = values.new_zeros(len(values), self.heads, count, 8)
            k = q[:, :1]
        else:
            q = k = values.new_zeros(1).expand(1, self.heads, count, 1)
        mixed = rapt.attend(q, k, values, score=score, grid=self.grid, params=parameters)
        return _apart(mixed, cells.shape)

    def flex(self, cells):
        p, (rows, cols) = self.parameters_by_name(), self.grid
        values = _side_by_side(cells, 64).to(mixed_type(cells))
        # A score_mod may read each tensor that has a gradient in one place only.
        if self.score == "learned":
            tables = learned_tables(p)
        else:
            center_down, center_right = p["center"].unbind(1)
            g00, g01, g10, g11 = p["gamma"].flatten(1).unbind(1) if self.score == "gaussian" else [None] * 4

        def score_mod(score, b, h, q, k):
            down, right = k // cols - q // cols, k % cols - q % cols
            if self.score == "learned":
                return tables[0][h, down + rows - 1] + tables[1][h, right + cols - 1]
            if self.score == "quadratic":
                return -p["alpha"][h] * (down * down + right * right - 2 * (down * center_down[h] + right * center_right[h]))
            down, right = down - center_down[h], right - center_right[h]
            first, second = g00[h] * down + g01[h] * right, g10[h] * down + g11[h] * right
            return -0.5 * (first * first + second * second)

        q = values.new_zeros(len(values), self.heads, cells.shape[1], 16)
        mixed = _flex_attention(values.device.type)(q, q[:, :1], values, score_mod=score_mod, enable_gqa=True)
        return _apart(mixed, cells.shape)


class ContentAttention(nn.Module):
    """learned_content: queries and keys of full width, values are the cells."""

    def __init__(self, score, width, heads, grid, implementation):
        super().__init__()
        self.score, self.heads, self.grid, self.implementation = score, heads, tuple(grid), implementation
        self.score_parameters = nn.ParameterDict(
            {"row": nn.Parameter(torch.empty(2 * grid[0] - 1, width)), "col": nn.Parameter(torch.empty(2 * grid[1] - 1, width))}
        )
        self.q_proj = nn.Linear(width, heads * width)
        self.k_proj = nn.Linear(width, heads * width)
        self.out_proj = nn.Linear(heads * width, width)

    def projected(self, x):
        cells = x.reshape(x.shape[0], -1, x.shape[3])
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [batch, heads, cells, width]
        return cells, split(self.q_proj(cells)), split(self.k_proj(cells))

    def position_terms(self, q):
        """q·row and q·col of every offset, [batch, heads, cells, 2R − 1] each, not yet scaled."""
        return [q @ self.score_parameters[name].mT.to(q.dtype) for name in ("row", "col")]

    def scores(self, q, k):
        rows, cols = self.grid
        of_row, of_col = self.position_terms(q)
        place = torch.arange(rows * cols, device=q.device)
        down = torch.arange(rows, device=q.device) - (place // cols)[:, None] + rows - 1  # [cells, rows]
        right = torch.arange(cols, device=q.device) - (place % cols)[:, None] + cols - 1
        of_row = of_row.gather(-1, down.expand(*of_row.shape[:2], -1, -1))
        of_col = of_col.gather(-1, right.expand(*of_col.shape[:2], -1, -1))
        both = (of_row[..., :, None] + of_col[..., None, :]).flatten(-2)
        return (q @ k.mT + both).float() / math.sqrt(q.shape[-1])

    def weights(self, x):
        _, q, k = self.projected(x)
        return self.scores(q, k).softmax(-1)

    def forward(self, x):
        cells, q, k = self.projected(x)
        mixed = getattr(self, self.implementation)(cells, q, k)  # [batch, heads, cells, width]
        return self.out_proj(mixed.transpose(1, 2).flatten(-2)).reshape(x.shape)

    def none(self, cells, q, k):
        return cells[:, None].expand(-1, self.heads, -1, -1)

    def plain(self, cells, q, k):
        weights = self.scores(q, k).softmax(-1).to(q.dtype)
        return weights @ cells[:, None].to(q.dtype)

    def rapt(self, cells, q, k):
        import rapt

        values = cells[:, None].expand(-1, self.heads, -1, -1)
        parameters = {**dict(self.score_parameters.items()), "content": 1}
        return rapt.attend(q, k, values, score="learned_2d", grid=self.grid, params=parameters)

    def flex(self, cells, q, k):
        rows, cols = self.grid
        scale = 1 / math.sqrt(q.shape[-1])
        of_row, of_col = (t * scale for t in self.position_terms(q))

        def score_mod(score, b, h, i, j):
            down, right = j // cols - i // cols, j % cols - i % cols
            return score + of_row[b, h, i, down + rows - 1] + of_col[b, h, i, right + cols - 1]

        values = cells[:, None].expand(-1, self.heads, -1, -1).to(q.dtype)
        return _flex_attention(q.device.type)(q, k, values, score_mod=score_mod, scale=scale)


def mixed_type(x):
    """What products with x are computed in."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def _side_by_side(cells, chunk):
    """All images' numbers of a cell in one row, [1, 1, cells, batch · width]; cut into rows of `chunk` where that is not 0."""
    batch, count, width = cells.shape
    rows = cells.transpose(0, 1).reshape(count, batch * width)
    if not chunk:
        return rows[None, None]
    rows = nn.functional.pad(rows, (0, -rows.shape[1] % chunk))
    return rows.reshape(count, -1, chunk).transpose(0, 1).unsqueeze(1).contiguous()  # [chunks, 1, cells, chunk]


def _apart(mixed, shape):
    """[batch, cells, heads · width] of what attention over _side_by_side gave: [chunks, heads, cells, chunk]."""
    batch, count, width = shape
    rows = mixed.permute(1, 2, 0, 3).flatten(2)[:, :, : batch * width]  # [heads, cells, batch · width]
    return rows.unflatten(2, (batch, width)).permute(2, 1, 0, 3).reshape(batch, count, -1)


@functools.cache
def _flex_attention(device):
    from torch.nn.attention.flex_attention import flex_attention

    if device != "cuda":
        return flex_attention
    torch._dynamo.config.recompile_limit = 64  # one for each layer, with and without gradients
    return torch.compile(flex_attention, dynamic=False)
