"""The explorer of docs/explorer.md in a notebook: all layers and heads of one text, from rows that are computed when they are shown."""

from __future__ import annotations

import base64
import html
import json
import os
import secrets
import subprocess
import tempfile
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence, overload

import numpy as np

from . import _attend, _core, _files
from ._words import counted
from .notebook import _array, _edges, show

if TYPE_CHECKING:
    from .trained_model import TrainedModel

_MOST_CELLS = 1 << 25  # of a page: docs/explorer.md
_INLINE_CELLS = 1 << 22  # a page with more would make the notebook's file large: a server shows it
_AT_ONCE = 1 << 22  # weights in memory
_THUMBNAIL = 48
_SCRIPTS = ("text", "store", "painter", "saving", "overview", "map_view", "lines_view", "steps_view", "image_view", "app")
_GROUPS = {"attention": "Attention", "encoder": "Encoder", "decoder": "Decoder", "cross": "Decoder → source"}


def _asset(name):
    with open(os.path.join(os.path.dirname(__file__), "explorer_page", name), encoding="utf-8") as file:
        return file.read()


def page(data, blocks=(), connect="'none'"):
    """The page with its data, as the tool makes it (src/explorer/page.cc). Nothing that was put in is looked at again."""
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    nonce = secrets.token_hex(8)
    rest, made = _asset("page.html"), []
    parts = [
        ("nonce", nonce), ("connect", connect), ("style", _asset("style.css")), ("data", text), ("weights", "".join(blocks)),
        ("nonce", nonce), ("script", "".join(_asset(f"{name}.js") for name in _SCRIPTS)),
    ]  # fmt: skip
    for name, part in parts:
        before, _, rest = rest.partition("{{" + name + "}}")
        made += [before, part]
    return "".join(made) + rest


def _places(count, cells):
    """Where each group begins, when `cells` share `count` things in order: thing n goes to n · cells // count."""
    return -(-np.arange(cells) * count // cells)


def _largest(cells, place, rows, columns):
    """Puts each row into the line of cells at its place, which never falls: the largest number in each cell stays."""
    begins = np.flatnonzero(np.diff(place, prepend=-1))
    found = np.maximum.reduceat(np.fmax.reduceat(rows, begins, 0), columns, 1)
    cells[place[begins]] = np.fmax(cells[place[begins]], found)


class Layer(NamedTuple):
    """One attention layer of what is explored."""

    name: str
    heads: int
    queries: int
    keys: int
    group: str = "attention"
    mechanism: str = ""
    query_tokens: Optional[list] = None
    key_tokens: Optional[list] = None


class Explorer:
    """Attention of all layers and heads in a notebook: heads at a glance, maps, and lines between tokens.

    A small one is a page within the notebook. A large one is served by this process, which computes the rows that are looked at, so that
    thousands of tokens work. `save(path)` writes a page, `serve()` gives an address, `map(layer, head)` is one map, averaged, and
    `rows(layer, head, begin, end)` are rows as they are.

    >>> import numpy as np, rapt
    >>> explorer = rapt.explore((np.random.rand(1, 4, 16, 8),) * 2)  # q and k, [batch, heads, positions, dim]
    >>> len(explorer), explorer.layers[0].heads, explorer.map(0, 3, 8).shape, explorer.rows(0, 3, 4, 6).shape
    (1, 4, (8, 8), (2, 16))
    """

    def __init__(self, layers, weights, title="", batch=0):
        self.layers, self._weights, self.title, self.batch = layers, weights, title, batch
        self._summaries, self._server = {}, None

    def __len__(self):
        return len(self.layers)

    @property
    def cells(self):
        return sum(layer.heads * layer.queries * layer.keys for layer in self.layers)

    def rows(self, layer, head, begin, end):
        """Weights of queries from begin to end, [end − begin, keys]."""
        return _array(self._weights(layer, head, begin, end))

    def _blocks(self, layer, head, begin, end):
        """(first, rows) of all of them, some at a time."""
        step = max(64, _AT_ONCE // max(1, self.layers[layer].keys) // 64 * 64)
        for first in range(begin, end, step):
            rows = self._weights(layer, head, first, min(first + step, end))
            yield first, np.asarray(rows.cpu() if hasattr(rows, "cpu") else rows.get() if hasattr(rows, "get") else rows, np.float32)

    def map(self, layer, head, cells=512):
        """A map of at most cells × cells, each the mean of what it stands for."""
        _, _, queries, keys, *_ = self.layers[layer]
        edges, columns = _edges(queries, cells), _edges(keys, cells)
        result = np.zeros((len(edges) - 1, len(columns) - 1))
        for first, block in self._blocks(layer, head, 0, queries):
            block = np.add.reduceat(block, columns[:-1], 1, dtype=np.float64) / np.diff(columns)
            place = np.searchsorted(edges, np.arange(first, first + len(block)), "right") - 1
            np.add.at(result, place, block)
        return result / np.diff(edges)[:, None]

    def pooled(self, layer, head, part, height, width):
        """The largest weight in each of height × width cells of a part (top, bottom, left, right)."""
        top, bottom, left, right = part
        height, width = min(height, bottom - top), min(width, right - left)
        columns = _places(right - left, width)
        result = np.zeros((height, width), np.float32)
        for first, block in self._blocks(layer, head, top, bottom):
            place = np.arange(first - top, first - top + len(block)) * height // (bottom - top)
            _largest(result, place, block[:, left:right], columns)
        return result

    def summary(self, layer, head):
        """What the overview shows of a head."""
        if (layer, head) not in self._summaries:
            self._summaries[layer, head] = self._summarize(layer, head)
        return self._summaries[layer, head]

    def _summarize(self, layer, head):
        _, _, queries, keys, *_ = self.layers[layer]
        height, width = min(_THUMBNAIL, queries), min(_THUMBNAIL, keys)
        columns, cells = _places(keys, width), np.zeros((height, width), np.float32)
        sums, seeing, key = np.zeros(3), 0, np.arange(keys, dtype=np.float32)
        for first, block in self._blocks(layer, head, 0, queries):
            block = np.nan_to_num(block)
            query = np.arange(first, first + len(block))
            largest = block.max(1)
            logs = np.log(block, where=block > 0, out=np.zeros_like(block))
            distance = np.einsum("ij,ij->i", block, np.abs(key - query[:, None].astype(np.float32)))
            sums += [-np.einsum("ij,ij->", block, logs), distance.sum(), largest.sum()]
            seeing += int((largest > 0).sum())
            _largest(cells, query * height // queries, block, columns)
        entropy, distance, mean = (sums / max(seeing, 1)).tolist()
        peak = float(cells.max(initial=0))
        thumbnail = np.rint(255 * np.sqrt(cells / (peak or 1.0))).astype(np.uint8)
        return {
            "entropy": entropy, "distance": distance, "largest": mean, "peak": peak, "rows": height, "cols": width,
            "thumbnail": base64.b64encode(thumbnail.tobytes()).decode(),
        }  # fmt: skip

    def exhibit(self):
        """Everything that the page is given."""
        tokens = []

        def place(given, count):
            names = [str(n) for n in range(count)] if given is None else [str(token) for token in given]
            if names not in tokens:
                tokens.append(names)
            return tokens.index(names)

        layers = [
            {
                "name": one.name, "mechanism": one.mechanism, "group": one.group, "groupTitle": _GROUPS[one.group],
                "queryTokens": place(one.query_tokens, one.queries), "keyTokens": place(one.key_tokens, one.keys),
                "heads": one.heads, "queries": one.queries, "keys": one.keys,
            }
            for one in self.layers
        ]  # fmt: skip
        return {
            "title": self.title, "input": "text", "text": "", "target": "", "note": "", "tokens": tokens, "layers": layers,
            "steps": [], "epochs": [],
        }  # fmt: skip

    def page(self):
        """One HTML page with all weights, which needs nothing else."""
        if self.cells > _MOST_CELLS:
            raise ValueError(f"explore: expected at most {_MOST_CELLS} weights on a page, got {self.cells}; serve() computes the rows that are shown")
        blocks, summaries = [], []
        for n, layer in enumerate(self.layers):
            summaries.append([self.summary(n, head) for head in range(layer.heads)])
            for head in range(layer.heads):
                packed = zlib.compress(np.asarray(self.rows(n, head, 0, layer.queries), "<f2").tobytes(), 6)
                text = base64.b64encode(packed).decode()
                blocks.append(f'<script type="application/octet-stream" id="w{n}-{head}">{text}</script>\n')
        data = {"served": False, "palette": _palette(), "exhibit": self.exhibit(), "summaries": summaries}
        return page(data, blocks)

    def save(self, path):
        _files.write(path, self.page())

    def serve(self):
        """The address of the explorer, served on this machine alone while the explorer lives, or is one of the last eight."""
        if self._server is None:
            from ._explorer_server import Server

            self._server = Server(self, page({"served": True, "live": False, "palette": _palette()}, connect="'self'"))
        return self._server.address

    def show(self, layer, head, begin=0, end=None):
        """One map with its tokens, or its rows from begin to end, as a picture."""
        one = self.layers[layer]
        end = one.queries if end is None else end
        title = f"{one.name}, head {head}, queries {begin} to {end}"
        if (end - begin) * one.keys > _AT_ONCE:
            return show(self.map(layer, head, 1024), title=title)
        tokens = None if one.query_tokens is None else one.query_tokens[begin:end]
        return show(self.rows(layer, head, begin, end), tokens, one.key_tokens, title)

    def _repr_html_(self):
        style = 'style="width: 100%; height: 720px; border: 1px solid #888" title="Attention"'
        if self.cells > _INLINE_CELLS:
            return f'<iframe src="{self.serve()}" {style}></iframe>'
        # A frame of its own: the page's names and colours are not the notebook's, and it may not look at the notebook.
        return f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{html.escape(self.page())}" {style}></iframe>'


class Page:
    """A page that the tool made, which notebooks show."""

    def __init__(self, text):
        self._text = text

    def page(self):
        return self._text

    save, _repr_html_, cells = Explorer.save, Explorer._repr_html_, 0


def _palette():
    return base64.b64encode(_core.palette()).decode()


def _of_arrays(q, k, tokens, key_tokens, batch, options):
    q_shape, k_shape = tuple(q.shape), tuple(k.shape)
    heads = q_shape[-3] if len(q_shape) > 2 else 1
    names = [tokens, key_tokens if key_tokens is not None or q_shape[-2] != k_shape[-2] else tokens]
    for name, given, size in (("tokens", names[0], q_shape[-2]), ("key_tokens", names[1], k_shape[-2])):
        if given is not None and len(given) != size:
            raise ValueError(f"explore: {name}: expected {size}, got {len(given)}")
    layer = Layer("attention", heads, q_shape[-2], k_shape[-2], "attention", str(options.get("score") or "scaled_dot"), *names)
    rows = lambda _, head, begin, end: _attend.weights(q, k, batch=batch, head=head, rows=slice(begin, end), **options)
    return Explorer([layer], rows, "Arrays", batch)


def _group(name):
    """Which part of a Transformer a module belongs to, by its name in the model."""
    parts = name.lower().replace("_", "").split(".")
    if any(part.startswith(("crossatt", "encoderattn", "encdecatt")) for part in parts):
        return "cross"
    is_part = lambda word: any(part.startswith(word) for part in parts[:-1])
    both = is_part("encoder"), is_part("decoder")
    return "encoder" if both == (True, False) else "decoder" if both == (False, True) else "attention"


def _of_calls(calls, tokens, key_tokens, batch, title):
    layers = []
    for n in range(len(calls)):
        _, heads, queries, keys = calls.shape(n)
        name = calls.name(n)
        fits = lambda given, size: given if given is not None and len(given) == size else None
        query_names = fits(tokens, queries) or fits(key_tokens, queries)
        key_names = fits(key_tokens, keys) or fits(tokens, keys)
        layers.append(Layer(name, heads, queries, keys, _group(name), "", query_names, key_names))
    groups = {layer.group for layer in layers}
    if len(groups - {"attention"}) < 2:  # an encoder alone: nothing to tell apart
        layers = [layer._replace(group="attention") for layer in layers]
    rows = lambda layer, head, begin, end: calls.weights(layer, batch=batch, head=head, rows=slice(begin, end))
    return Explorer(layers, rows, title, batch)


def _of_trained(model, text):
    if not isinstance(text, str):
        raise ValueError(f"explore: inputs: expected a text for a trained model, got {text!r}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        command = [model._tool, "explore", model.run, "--text", text, "--out", path]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise ValueError(result.stderr.strip() or f"explore: rapt explore ended with {result.returncode}")
        with open(path, encoding="utf-8") as file:
            return Page(file.read())


@overload
def explore(source: TrainedModel, inputs: str) -> Page: ...
@overload
def explore(
    source: Any, inputs: Any = None, *, tokens: Sequence | None = None, key_tokens: Sequence | None = None, batch: int = 0,
    layers: Sequence[int] | None = None, **options: Any,
) -> Explorer: ...  # fmt: skip
def explore(source, inputs=None, *, tokens=None, key_tokens=None, batch=0, layers=None, **options):
    """The explorer of every layer and head, for a notebook.

    source      a model of Transformers with attn_implementation="rapt", and inputs what it is called with;
                or what `rapt.transformers.record` gave; or (q, k), with options of `rapt.attend`;
                or a `rapt.TrainedModel`, and inputs a text
    tokens      what is written beside the queries, and beside the keys where there are as many and key_tokens is not given
    batch       which of the batch is shown
    layers      numbers of the layers that are recorded; all

    >>> import numpy as np, rapt
    >>> q = np.random.rand(1, 4, 16, 8)
    >>> explorer = rapt.explore((q, q), causal="top_left")
    >>> explorer.rows(0, 3, 0, 8).shape
    (8, 16)
    """
    from .trained_model import TrainedModel

    if isinstance(source, TrainedModel):
        if source.ensemble:
            raise ValueError(f"explore: source: expected a model of one run, got an ensemble of {1 + len(source.ensemble)}")
        return _of_trained(source, inputs)
    if isinstance(source, tuple):
        if len(source) != 2:
            raise ValueError(f"explore: source: expected (q, k), got {counted(len(source), 'array')}")
        return _of_arrays(*source, tokens, key_tokens, batch, options)
    if options:
        raise TypeError(f"explore: expected options of attend with (q, k) alone, got '{next(iter(options))}'")
    if hasattr(source, "calls"):
        return _of_calls(source, tokens, key_tokens, batch, "Attention")
    if inputs is None:
        raise ValueError("explore: inputs: expected what the model is called with, got none")
    import torch

    from .transformers import record

    with torch.no_grad(), record(layers, source) as calls:
        source(**inputs) if hasattr(inputs, "keys") else source(inputs)
    if len(calls) == 0:
        raise ValueError('explore: expected a model with attn_implementation="rapt", got one whose attention Rapt does not compute')
    return _of_calls(calls, tokens, key_tokens, batch, type(source).__name__)
