"""The mechanisms as someone would write them in PyTorch: scores, softmax, product; and the fused calls it has for some."""

import math

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


def positions(length):
    place = torch.arange(length)
    return place[None, :] - place[:, None]  # [Sq, Sk]: key − query


def grid_offsets(grid):
    place = torch.arange(grid[0] * grid[1])
    row, col = place // grid[1], place % grid[1]
    return row[None, :] - row[:, None], col[None, :] - col[:, None]


def buckets(offset, count, max_distance=128):
    """T5's bidirectional buckets."""
    half = count // 2
    first = (offset > 0).long() * half
    distance = offset.abs()
    exact = half // 2
    place = torch.log(distance.clamp(min=1).double() / exact) / math.log(max_distance / exact) * (half - exact)
    return first + torch.where(distance < exact, distance, (exact + place.long()).clamp(max=half - 1))


def dot(q, k):
    return q @ k.mT


def scaled_dot(q, k):
    return q @ k.mT / math.sqrt(k.shape[-1])


def bilinear(q, k, W):
    return q @ W @ k.mT


def additive(q, k, w, Wq, Wk):
    hidden = torch.tanh((q @ Wq)[..., :, None, :] + (k @ Wk)[..., None, :, :])  # [B, H, Sq, Sk, A]
    return (hidden @ w[:, None, :, None]).squeeze(-1)


def cosine(q, k, tau):
    return tau[:, None, None] * (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT)


def distance(q, k, gamma):
    square = (q * q).sum(-1)[..., :, None] + (k * k).sum(-1)[..., None, :] - 2 * (q @ k.mT)
    return -gamma[:, None, None] * square


def alibi_bias(m, length):
    return -m[:, None, None] * positions(length).abs()


def alibi(q, k, m):
    return scaled_dot(q, k) + alibi_bias(m, k.shape[-2])


def t5_bias(table, length):
    return table[:, buckets(positions(length), table.shape[1])]


def t5(q, k, table):
    return scaled_dot(q, k) + t5_bias(table, k.shape[-2])


def shaw(q, k, a):
    clip = (a.shape[0] - 1) // 2
    index = positions(k.shape[-2]).clamp(-clip, clip) + clip  # [Sq, Sk]
    # One product with the table, then a choice: better than a [Sq, Sk, D] tensor.
    relative = (q @ a.mT).gather(-1, index.expand(*q.shape[:2], -1, -1))
    return (q @ k.mT + relative) / math.sqrt(k.shape[-1])


def transformer_xl(q, k, r, u, v):
    length = k.shape[-2]
    index = (positions(length) + length - 1).expand(*q.shape[:2], -1, -1)
    relative = ((q + v[:, None]) @ r.mT).gather(-1, index)
    return ((q + u[:, None]) @ k.mT + relative) / math.sqrt(k.shape[-1])


def quadratic(q, k, alpha, center, grid):
    row, col = (x.to(q.dtype) for x in grid_offsets(grid))
    shift = row * center[:, 0, None, None] + col * center[:, 1, None, None]
    return (-alpha[:, None, None] * (row * row + col * col - 2 * shift))[None]


def gaussian(q, k, center, gamma, grid):
    row, col = (x.to(q.dtype) for x in grid_offsets(grid))
    x, y = row - center[:, 0, None, None], col - center[:, 1, None, None]
    g = gamma[:, :, :, None, None]
    return (-0.5 * ((g[:, 0, 0] * x + g[:, 0, 1] * y) ** 2 + (g[:, 1, 0] * x + g[:, 1, 1] * y) ** 2))[None]


def learned_2d(q, k, row, col, grid):
    down, right = grid_offsets(grid)
    down = (down + grid[0] - 1).expand(*q.shape[:2], -1, -1)
    right = (right + grid[1] - 1).expand(*q.shape[:2], -1, -1)
    return ((q @ row.mT).gather(-1, down) + (q @ col.mT).gather(-1, right)) / math.sqrt(k.shape[-1])


SCORES = {f.__name__: f for f in (dot, scaled_dot, bilinear, additive, cosine, distance, alibi, t5, shaw, transformer_xl,
                                  quadratic, gaussian, learned_2d)}
GRID = {"quadratic", "gaussian", "learned_2d"}


def parameters_of(name, heads, length, dim, grid, generator):
    """Random parameters in the shapes that both sides take."""
    def normal(*shape, size=0.3):
        return torch.randn(*shape, generator=generator) * size

    def positive(*shape):
        return 0.05 + 0.45 * torch.rand(*shape, generator=generator)

    root = 1 / math.sqrt(dim)
    return {
        "dot": dict,
        "scaled_dot": dict,
        "bilinear": lambda: {"W": normal(heads, dim, dim, size=root)},
        "additive": lambda: {"w": normal(heads, dim), "Wq": normal(heads, dim, dim, size=root),
                             "Wk": normal(heads, dim, dim, size=root)},
        "cosine": lambda: {"tau": positive(heads)},
        "distance": lambda: {"gamma": positive(heads)},
        "alibi": lambda: {"m": positive(heads)},
        "t5": lambda: {"table": normal(heads, 32)},
        "shaw": lambda: {"a": normal(129, dim)},
        "transformer_xl": lambda: {"r": normal(heads, 2 * length - 1, dim), "u": normal(heads, dim), "v": normal(heads, dim)},
        "quadratic": lambda: {"alpha": positive(heads), "center": positive(heads, 2)},
        "gaussian": lambda: {"center": positive(heads, 2), "gamma": positive(heads, 2, 2)},
        "learned_2d": lambda: {"row": normal(2 * grid[0] - 1, dim), "col": normal(2 * grid[1] - 1, dim)},
    }[name]()


def grid_of(length):
    cols = math.isqrt(length)
    while length % cols:
        cols -= 1
    return (length // cols, cols)


def visible(case):
    """[Sq, Sk] booleans, true = attend; None: everything."""
    offset = torch.arange(case.keys)[None, :] - torch.arange(case.queries)[:, None]
    mask = None
    if case.causal:
        mask = offset <= 0
    if case.window:
        inside = (offset >= -case.window[0]) & (offset <= case.window[1])
        mask = inside if mask is None else mask & inside
    return mask


def normalizer_of(case):
    """Scores → weights. The sparse ones are those of the entmax package."""
    if case.normalizer == "softmax":
        return lambda s: torch.softmax(s, -1)
    if case.normalizer == "sigmoid":
        return lambda s: torch.sigmoid(s - math.log(case.keys))

    def sparse(s):
        import entmax  # where it is missing, this path fails and is left out
        return getattr(entmax, case.normalizer)(s, dim=-1)

    return sparse


def composed(case):
    """attention(q, k, v, bias, p) from separate operations; p: the parameters by name."""
    score = SCORES[case.mechanism]
    grid = {"grid": case.grid} if case.mechanism in GRID else {}
    mask = visible(case)
    normalize = normalizer_of(case)

    def attention(q, k, v, bias, p):
        s = score(q, k, **p, **grid)
        if case.softcap:
            s = case.softcap * torch.tanh(s / case.softcap)
        if bias is not None:
            s = s + bias
        if mask is not None:
            s = s.masked_fill(~mask, float("-inf"))
        return normalize(s) @ v

    return attention


def fused(case):
    """The same through scaled_dot_product_attention; None where it cannot say it."""
    if case.normalizer != "softmax" or case.softcap or case.mechanism not in ("dot", "scaled_dot", "bilinear", "alibi", "t5", "quadratic", "gaussian"):
        return None
    mask = None if case.causal and not case.window else visible(case)

    def attention(q, k, v, bias, p):
        added, scale = bias, None
        if case.mechanism in ("dot", "bilinear"):
            scale = 1.0
        if case.mechanism == "bilinear":
            q = q @ p["W"]
        if case.mechanism == "alibi":
            added = alibi_bias(p["m"], case.keys)[None]
        if case.mechanism == "t5":
            added = t5_bias(p["table"], case.keys)[None]
        if case.mechanism in ("quadratic", "gaussian"):
            added, scale = SCORES[case.mechanism](q, k, **p, grid=case.grid), 0.0
        if mask is not None:
            added = mask if added is None else added.masked_fill(~mask, float("-inf"))
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=added, is_causal=bool(case.causal) and mask is None, scale=scale)

    return attention


def flexible(case):
    """The same through FlexAttention, compiled, forward only on a CPU; None where it cannot say it."""
    if case.normalizer != "softmax" or case.mechanism not in ("dot", "scaled_dot", "alibi", "t5") or case.dtype != torch.float32 or case.queries == 1:
        return None
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    block_mask = None
    if case.causal or case.window:
        left, right = case.window or (case.keys, case.keys)
        causal = bool(case.causal)

        def sees(b, h, i, j):
            inside = (j - i >= -left) & (j - i <= right)
            return inside & (j <= i) if causal else inside

        block_mask = create_block_mask(sees, None, None, case.queries, case.keys, device="cpu")
    compiled = torch.compile(flex_attention, dynamic=False)

    def attention(q, k, v, bias, p):
        def change(s, b, h, i, j):
            if case.mechanism == "alibi":
                s = s - p["m"][h] * (i - j).abs()
            if case.mechanism == "t5":
                s = s + lookup[h, i, j]
            if case.softcap:
                s = case.softcap * torch.tanh(s / case.softcap)
            if bias is not None:
                s = s + bias[0, h, i, j]
            return s

        lookup = t5_bias(p["table"], case.keys) if case.mechanism == "t5" else None
        plain = case.mechanism in ("dot", "scaled_dot") and not case.softcap and bias is None
        return compiled(q, k, v, score_mod=None if plain else change, block_mask=block_mask,
                        scale=1.0 if case.mechanism == "dot" else None)

    return attention
