"""Pictures of weights in a notebook: `show` for one map or the heads of a layer, `explore` for all layers and heads of a text."""

import base64
import html
import math
import struct
import zlib

import numpy as np

from . import _attend

_CELLS = 2048  # a picture has at most so many pixels a side; larger maps are averaged
_LABELS = 80  # tokens are written beside a map of at most so many


def _array(x):
    return np.asarray(x.detach().cpu().float() if hasattr(x, "detach") else x, np.float64)


def _png(map_):
    """A PNG of numbers in [0, 1], white to dark blue."""
    shade = np.clip(np.nan_to_num(map_), 0, 1)[..., None]
    stops = np.array([[255, 255, 255], [158, 202, 225], [49, 130, 189], [8, 48, 107]], float)
    at = shade * (len(stops) - 1)
    low = np.minimum(at.astype(int), len(stops) - 2)[..., 0]
    pixels = (stops[low] + (at - low[..., None]) * (stops[low + 1] - stops[low])).round().astype(np.uint8)
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
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)


def show(weights, tokens=None, key_tokens=None, title=None) -> Picture:
    """A map of weights [queries, keys], or one for each head of [heads, queries, keys].

    tokens are written beside the queries, and beside the keys too where key_tokens is not given. Large maps are averaged.

    >>> import numpy as np, rapt
    >>> picture = rapt.show(np.eye(3), ["a", "b", "c"])
    """
    maps = _array(weights)
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
    cell = max(2.0, min(18.0, (640 if heads == 1 else 220) / max(queries, keys)))
    cell = max(cell, 11.0) if any(labels) else min(cell, (640 if heads == 1 else 220) / max(queries, keys))
    width, height = keys * cell, queries * cell
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
                parts.append(f'<text x="{x - 4:.1f}" y="{y + (n + 0.75) * cell:.1f}" text-anchor="end">{html.escape(str(token))}</text>')
        if labels[1]:
            for n, token in enumerate(key_tokens):
                place = f"{x + (n + 0.75) * cell:.1f} {y - 4:.1f}"
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


class _Arrays:
    """Queries and keys as a recorder of one call."""

    def __init__(self, q, k, options):
        self._q, self._k, self._options = q, k, options

    def __len__(self):
        return 1

    def layer(self, n):
        return 0

    def shape(self, n):
        q, k = self._q.shape, self._k.shape
        return (q[0] if len(q) > 3 else 1, q[-3] if len(q) > 2 else 1, q[-2], k[-2])

    def weights(self, n, batch=None, head=None, rows=None):
        return _attend.weights(self._q, self._k, batch=batch, head=head, rows=rows, **self._options)


class Explorer:
    """Maps of all layers and heads of one text. Weights are computed some rows at a time, so that thousands of tokens work.

    A notebook shows an overview; `map(layer, head)` is one map, averaged, `rows(layer, head, begin, end)` are rows as they are.
    """

    def __init__(self, calls, tokens=None, batch=0, overview=96):
        self._calls, self.tokens, self.batch, self._overview = calls, tokens, batch, overview

    def __len__(self):
        return len(self._calls)

    def rows(self, call, head, begin, end):
        return _array(self._calls.weights(call, batch=self.batch, head=head, rows=slice(begin, end)))

    def map(self, call, head, cells=512):
        """A map of at most cells × cells, each the mean of what it stands for."""
        _, _, queries, keys = self._calls.shape(call)
        edges, columns = _edges(queries, cells), _edges(keys, cells)
        result = np.empty((len(edges) - 1, len(columns) - 1))
        step = max(1, (1 << 22) // max(keys, 1) // max(1, int(np.diff(edges).max(initial=1))))  # at most 4 M weights at a time
        for first in range(0, len(edges) - 1, step):
            last = min(first + step, len(edges) - 1)
            block = self.rows(call, head, int(edges[first]), int(edges[last]))
            block = np.add.reduceat(block, columns[:-1], 1) / np.diff(columns)
            places = edges[first:last] - edges[first]
            result[first:last] = np.add.reduceat(block, places, 0) / np.diff(edges[first : last + 1])[:, None]
        return result

    def show(self, call, head, begin=0, end=None):
        """One map with its tokens, or its rows from begin to end."""
        _, _, queries, keys = self._calls.shape(call)
        end = queries if end is None else end
        title = f"layer {self._calls.layer(call)}, head {head}, queries {begin} to {end}"
        tokens = self.tokens if self.tokens is not None and len(self.tokens) == keys else None
        if (end - begin) * keys > 1 << 22:
            return show(self.map(call, head, 1024), title=title)
        aligned = tokens[begin:end] if tokens is not None and queries == keys else None
        return show(self.rows(call, head, begin, end), aligned, tokens, title)

    def _repr_html_(self):
        pictures = []
        for call in range(len(self)):
            _, heads, queries, keys = self._calls.shape(call)
            cells = []
            for head in range(heads):
                map_ = self.map(call, head, self._overview)
                data = base64.b64encode(_png(np.sqrt(map_ / (map_.max() or 1.0)))).decode()
                name = f"layer {self._calls.layer(call)}, head {head}: {queries} queries, {keys} keys"
                cells.append(f'<img data-name="{name}" title="{name}" src="data:image/png;base64,{data}">')
            pictures.append(f"<div><span>layer {self._calls.layer(call)}</span>{''.join(cells)}</div>")
        return _PAGE.replace("PICTURES", "".join(pictures)).replace("NUMBER", str(id(self)))


_PAGE = """<div id="raptNUMBER"><style>
#raptNUMBER {font: 12px sans-serif} #raptNUMBER div {display: flex; align-items: center; gap: 4px; margin: 2px 0}
#raptNUMBER span {width: 60px} #raptNUMBER img {width: 72px; height: 72px; image-rendering: pixelated; border: 1px solid #aaa; cursor: pointer}
#raptNUMBER figure {margin: 8px 0} #raptNUMBER figure img {width: 420px; height: 420px}
</style>PICTURES<figure hidden><img><figcaption></figcaption></figure><script>
(() => { const root = document.getElementById("raptNUMBER"), figure = root.querySelector("figure");
for (const picture of root.querySelectorAll("div img")) picture.onclick = () => {
  figure.hidden = false; figure.querySelector("img").src = picture.src; figure.querySelector("figcaption").textContent = picture.dataset.name; };
})();</script></div>"""


def explore(source, inputs=None, *, tokens=None, batch=0, layers=None, **options) -> Explorer:
    """Maps of every layer and head.

    source   a model of Transformers with attn_implementation="rapt", and inputs what it is called with;
             or what `rapt.transformers.record` gave; or (q, k), with options of `rapt.attend`
    tokens   what is written beside the maps
    """
    if isinstance(source, tuple):
        return Explorer(_Arrays(source[0], source[1], options), tokens, batch)
    if hasattr(source, "calls"):
        return Explorer(source, tokens, batch)
    if inputs is None:
        raise ValueError("explore: inputs: expected what the model is called with, got none")
    import torch

    from .transformers import record

    with torch.no_grad(), record(layers) as calls:
        source(**inputs) if hasattr(inputs, "keys") else source(inputs)
    if len(calls) == 0:
        raise ValueError('explore: expected a model with attn_implementation="rapt", got one whose attention Rapt does not compute')
    return Explorer(calls, tokens, batch)
