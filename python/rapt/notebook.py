"""Pictures of weights in a notebook: `show` for one map or the heads of a layer. explorer.py has all layers and heads of a text."""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from typing import Any, Sequence

import numpy as np

from . import _core, _files

_CELLS = 2048  # most pixels a side of a picture; larger maps are averaged
_LABELS = 80  # most tokens that are written beside a map


def _array(x):
    return np.asarray(x.detach().cpu().float() if hasattr(x, "detach") else x, np.float64)


def _png(map_):
    """A PNG of numbers in [0, 1], in the colours of all of Rapt's pictures."""
    colors = np.frombuffer(_core.palette(), np.uint8).reshape(256, 3)
    pixels = colors[np.rint(np.clip(np.nan_to_num(map_), 0, 1) * 255).astype(int)]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", map_.shape[1], map_.shape[0], 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


def _edges(size, most):
    """Where `size` cells become at most `most`."""
    return np.unique(np.linspace(0, size, min(size, most) + 1).round().astype(int))


def _pooled(map_, most=_CELLS):
    for axis in (0, 1):
        edges = _edges(map_.shape[axis], most)
        counts = np.diff(edges)
        map_ = np.add.reduceat(map_, edges[:-1], axis) / (counts[:, None] if axis == 0 else counts)
    return map_


def _picture(map_, x, y, width, height, scale):
    data = base64.b64encode(_png(_pooled(map_) / scale)).decode()
    return (
        f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="none" stroke="#888" stroke-width="0.5"/>'
    )


class Picture:
    """An SVG that notebooks show; `save(path)` writes it."""

    def __init__(self, svg):
        self.svg = svg

    def _repr_svg_(self):
        return self.svg

    def save(self, path):
        _files.write(path, self.svg)


def show(
    weights: Any, tokens: Sequence | None = None, key_tokens: Sequence | None = None, title: str | None = None
) -> Picture:
    """A map of weights [queries, keys], or one per head of [heads, queries, keys].

    tokens are written beside the queries, and beside the keys too where key_tokens is not given. Large maps are averaged.

    >>> import numpy as np, rapt
    >>> picture = rapt.show(np.eye(3), ["a", "b", "c"])
    """
    try:
        maps = _array(weights)
    except (TypeError, ValueError):
        raise TypeError(f"show: weights: expected an array of numbers, got {type(weights).__name__}") from None
    maps = maps[None] if maps.ndim == 2 else maps
    if maps.ndim != 3:
        raise ValueError(f"show: weights: expected [queries, keys] or [heads, queries, keys], got shape {list(maps.shape)}")
    heads, queries, keys = maps.shape
    if 0 in maps.shape:
        raise ValueError(f"show: weights: expected at least one number, got shape {list(maps.shape)}")
    if key_tokens is None and tokens is not None and queries == keys:
        key_tokens = tokens
    for name, list_, size in (("tokens", tokens, queries), ("key_tokens", key_tokens, keys)):
        if list_ is not None and len(list_) != size:
            raise ValueError(f"show: {name}: expected {size}, got {len(list_)}")
    labels = tokens is not None and queries <= _LABELS, key_tokens is not None and keys <= _LABELS
    cell = min(18.0, (640 if heads == 1 else 220) / max(queries, keys))
    # Square, but for labels on one side and for few rows of a long text.
    down, across = (max(cell, 11.0 if labelled else min(11.0, 40 / n)) for labelled, n in zip(labels, (queries, keys)))
    width, height = keys * across, queries * down
    longest = lambda list_: 6.5 * max((len(str(t)) for t in list_), default=0) + 8
    left, top = (longest(tokens) if labels[0] else 8), (longest(key_tokens) if labels[1] else 8) + (20 if title else 0)
    caption = 18 if heads > 1 else 4
    columns = min(heads, max(1, int(1000 // (width + left))))
    full = columns * (width + left) + 8, math.ceil(heads / columns) * (height + top + caption) + 8
    scale = maps.max() or 1.0
    parts = []
    for head in range(heads):
        x = (head % columns) * (width + left) + left
        y = (head // columns) * (height + top + caption) + top
        parts.append(_picture(maps[head], x, y, width, height, scale))
        if labels[0]:
            for n, token in enumerate(tokens):
                parts.append(f'<text x="{x - 4:.1f}" y="{y + (n + 0.75) * down:.1f}" text-anchor="end">{html.escape(str(token))}</text>')
        if labels[1]:
            for n, token in enumerate(key_tokens):
                place = f"{x + (n + 0.75) * across:.1f} {y - 4:.1f}"
                parts.append(f'<text transform="translate({place}) rotate(-90)">{html.escape(str(token))}</text>')
        if heads > 1:
            parts.append(f'<text x="{x:.1f}" y="{y + height + 13:.1f}">head {head}</text>')
    if title:
        parts.append(f'<text x="8" y="14" font-weight="bold">{html.escape(title)}</text>')
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full[0]:.0f} {full[1]:.0f}" width="{full[0]:.0f}" '
        f'height="{full[1]:.0f}" font-family="sans-serif" font-size="10"><rect width="100%" height="100%" fill="white"/>'
        + "".join(parts)
        + "</svg>"
    )
