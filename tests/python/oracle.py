"""Attention as its definition says, in float64 NumPy: every score, mask and normaliser again, with nothing of the package."""

import numpy as np


def softmax(s):
    top = s.max(-1, keepdims=True) if s.shape[-1] else np.zeros(s.shape[:-1] + (1,))
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def entmax(s, alpha):
    """By bisection on the threshold: alpha 2 is sparsemax, 1.5 entmax15."""
    result = np.zeros_like(s)
    for at in np.ndindex(s.shape[:-1]):
        row = s[at] * (alpha - 1)
        if not np.isfinite(row).any():
            continue
        low, high = row.max() - 1, row.max()
        for _ in range(100):
            middle = (low + high) / 2
            mass = np.clip(row - middle, 0, None) ** (1 / (alpha - 1))
            low, high = (middle, high) if mass.sum() >= 1 else (low, middle)
        weight = np.clip(row - low, 0, None) ** (1 / (alpha - 1))
        result[at] = weight / weight.sum()
    return result


def argmax(s):
    result = np.zeros_like(s)
    for at in np.ndindex(s.shape[:-1]):
        if np.isfinite(s[at]).any():
            result[at][s[at].argmax()] = 1
    return result


def normalize(s, name, b=None):
    if name == "softmax":
        return softmax(s)
    if name == "argmax":
        return argmax(s)
    if name == "sparsemax":
        return entmax(s, 2.0)
    if name == "entmax15":
        return entmax(s, 1.5)
    if name == "sigmoid":
        shift = -np.log(s.shape[-1]) if b is None else np.reshape(b, (-1, 1, 1))
        return np.where(np.isfinite(s), 1 / (1 + np.exp(-(s + shift))), 0.0)
    raise KeyError(name)


def t5_bucket(distance, buckets, most):
    """T5's bidirectional buckets, as its authors' code has them."""
    half = buckets // 2
    bucket = np.where(distance > 0, half, 0)
    far = np.abs(distance)
    exact = half // 2
    large = exact + (np.log(np.maximum(far, 1) / exact) / np.log(most / exact) * (half - exact)).astype(int)
    return bucket + np.where(far < exact, far, np.minimum(large, half - 1))


def scores(q, k, score, p, first=0, grid=None):
    """q [.., H, Sq, D], k [.., H, Sk, D] → [.., H, Sq, Sk]."""
    dot = q @ np.swapaxes(k, -1, -2)
    queries, keys = dot.shape[-2:]
    i, j = first + np.arange(queries)[:, None], np.arange(keys)
    root = np.sqrt(q.shape[-1])
    head = lambda x: np.reshape(x, (-1, 1, 1))
    if score == "dot":
        return dot
    if score == "scaled_dot":
        return dot / root
    if score == "bilinear":
        return q @ p["W"] @ np.swapaxes(k, -1, -2)
    if score == "additive":
        a, b = q @ p["Wq"], k @ p["Wk"]
        return (np.tanh(a[..., :, None, :] + b[..., None, :, :]) * p["w"][..., None, None, :]).sum(-1)
    if score == "cosine":
        unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
        return head(p["tau"]) * (unit(q) @ np.swapaxes(unit(k), -1, -2))
    if score == "distance":
        return -head(p["gamma"]) * ((q[..., :, None, :] - k[..., None, :, :]) ** 2).sum(-1)
    if score == "alibi":
        return dot / root - head(p["m"]) * np.abs(i - j)
    if score == "t5":
        table = p["table"]
        return dot / root + table[:, t5_bucket(j - i, table.shape[1], p.get("max_distance", 128))]
    if score == "shaw":
        reach = p["a"].shape[0] // 2
        a = p["a"][np.clip(j - i, -reach, reach) + reach]  # [Sq, Sk, D]
        return (dot + np.einsum("...id,ijd->...ij", q, a)) / root
    if score == "transformer_xl":
        r = p["r"][..., j - i + p["r"].shape[-2] - keys, :]  # [H?, Sq, Sk, D]
        u, v = p["u"][:, None, :], p["v"][:, None, :]
        r = r if r.ndim == 4 else r[None]
        positions = np.einsum("...hid,hijd->...hij", q + v, np.broadcast_to(r, (q.shape[-3],) + r.shape[1:]))
        return ((q + u) @ np.swapaxes(k, -1, -2) + positions) / root
    rows, columns = grid
    place = lambda n: np.stack([n // columns, n % columns], -1)
    delta = place(np.arange(keys))[None, :] - place(i[:, 0])[:, None]  # [Sq, Sk, 2]
    if score == "quadratic":
        return -head(p["alpha"]) * ((delta**2).sum(-1) - 2 * np.einsum("ijc,hc->hij", delta, p["center"])) + 0 * dot
    if score == "gaussian":
        moved = np.einsum("hab,hijb->hija", p["gamma"], delta[None] - p["center"][:, None, None, :])
        return -0.5 * (moved**2).sum(-1) + 0 * dot
    if score == "learned_2d":
        table = p["row"][delta[..., 0] + rows - 1] + p["col"][delta[..., 1] + columns - 1]
        return (np.einsum("...id,ijd->...ij", q, table) + p.get("content", 0) * dot) / root
    raise KeyError(score)


def attend(
    q, k, v, score="scaled_dot", params=None, causal=None, normalizer="softmax", scale=None, softcap=0.0, bias=None,
    mask=None, window=None, key_lengths=None, first_query=None, grid=None,
):  # fmt: skip
    """(out, weights, lse) for four-dimensional arrays."""
    p = {name: np.asarray(value, np.float64) if not np.isscalar(value) else value for name, value in (params or {}).items()}
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    batch, heads = max(q.shape[0], k.shape[0]), max(q.shape[1], k.shape[1])
    spread = lambda x: np.repeat(np.broadcast_to(x, (batch,) + x.shape[1:]), heads // x.shape[1], 1)
    q, k, v = spread(q), spread(k), spread(v)
    queries, keys = q.shape[2], k.shape[2]
    lengths = np.broadcast_to(keys if key_lengths is None else key_lengths, (batch,))
    first = np.broadcast_to(0 if first_query is None else first_query, (batch,))
    if causal == "bottom_right":
        first = lengths - queries
    s = np.stack([scores(q[b], k[b], score, p, first[b], grid) for b in range(batch)])
    if scale is not None:
        s = s * scale * (np.sqrt(q.shape[-1]) if score in ("scaled_dot", "alibi") else 1)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if bias is not None:
        s = s + np.asarray(bias, np.float64)
    at = first[:, None, None, None] + np.arange(queries)[:, None]
    key = np.arange(keys)
    visible = np.broadcast_to(key < lengths[:, None, None, None], s.shape)
    if causal:
        visible = visible & (key <= at)
    if window is not None:
        left, right = window
        visible = visible & ((left < 0) | (key >= at - left)) & ((right < 0) | (key <= at + right))
    if mask is not None:
        visible = visible & np.asarray(mask)
    s = np.where(visible, s, -np.inf)
    w = normalize(s, normalizer, p.get("b"))
    if "sink" in p:
        top = np.where(np.isfinite(s.max(-1)), s.max(-1), 0)
        total = np.exp(s - top[..., None]).sum(-1)
        w = w * (total / (total + np.exp(p["sink"][:, None] - top)))[..., None]
    with np.errstate(divide="ignore"):
        top = np.where(np.isfinite(s.max(-1)), s.max(-1), 0) if keys else np.zeros(s.shape[:-1])
        lse = top + np.log(np.exp(s - top[..., None]).sum(-1))
    return w @ v, w, lse


def parameters(random, score, heads, dim, queries=0, keys=0, grid=(0, 0), hidden=5):
    """Something for every parameter of a mechanism."""
    n = random.standard_normal
    return {
        "dot": lambda: {}, "scaled_dot": lambda: {},
        "bilinear": lambda: {"W": n((heads, dim, dim)) * 0.3},
        "additive": lambda: {"w": n((heads, hidden)), "Wq": n((heads, dim, hidden)) * 0.5, "Wk": n((heads, dim, hidden)) * 0.5},
        "cosine": lambda: {"tau": 1 + random.random(heads)},
        "distance": lambda: {"gamma": 0.1 + random.random(heads)},
        "alibi": lambda: {"m": random.random(heads)},
        "t5": lambda: {"table": n((heads, 8)), "max_distance": 16},
        "shaw": lambda: {"a": n((7, dim))},
        "transformer_xl": lambda: {"r": n((heads, queries + keys - 1, dim)), "u": n((heads, dim)), "v": n((heads, dim))},
        "quadratic": lambda: {"alpha": 0.1 + random.random(heads), "center": n((heads, 2))},
        "gaussian": lambda: {"center": n((heads, 2)), "gamma": n((heads, 2, 2)) * 0.5},
        "learned_2d": lambda: {"row": n((2 * grid[0] - 1, dim)), "col": n((2 * grid[1] - 1, dim)), "content": 1},
    }[score]()  # fmt: skip
