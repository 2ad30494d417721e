"""Attention as modules: every mechanism and normaliser, with their parameters learned."""

import math

import torch
from torch import Tensor, nn

from .. import _attend as _api
from .. import _core
from ..formulas import Formula

_MECHANISMS = {entry["name"]: entry for entry in _core.mechanisms()}
_NORMALIZERS = {entry["name"]: entry for entry in _core.normalizers()}


def alibi_slopes(heads: int) -> Tensor:
    """The slopes of ALiBi's paper: 2^(−8h/H), and for other numbers of heads those between."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    slopes += [2 ** (-8 * (h + 0.5) / power) for h in range(heads - power)]
    return torch.tensor(slopes)


def _waves(distance: int, dim: int) -> Tensor:
    """[2·distance + 1, dim]: sines and cosines of the offsets, the encoding of Transformer-XL's paper."""
    offsets = torch.arange(-distance, distance + 1)[:, None]
    angles = offsets * torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :dim]


def _fresh(score, heads, dim, buckets, distance, grid=None):
    """(parameters, settings) before anything was learned, where they are known from the sizes."""
    normal = lambda *shape: torch.randn(*shape) / math.sqrt(dim)
    if isinstance(score, Formula):
        known = {"w": lambda: normal(heads, dim)} if score.pair else {}
        sized = {spec["name"]: spec["rank"] == 0 for spec in score.parameters}
        return {n: known[n]() if n in known else torch.ones(heads) for n, is_number in sized.items() if is_number or n in known}, {}
    if score == "transformer_xl":
        farthest = 512 if distance is None else distance
        params = {"r": _waves(farthest, dim), "u": torch.zeros(heads, dim), "v": torch.zeros(heads, dim)}
        return params, {"origin": farthest}
    distance = 16 if distance is None else distance
    made = {
        "alibi": lambda: {"m": alibi_slopes(heads)},
        "t5": lambda: {"table": torch.zeros(heads, buckets)},
        "shaw": lambda: {"a": normal(2 * distance + 1, dim)},
        "cosine": lambda: {"tau": torch.full((heads,), 10.0)},
        "distance": lambda: {"gamma": torch.full((heads,), 1 / math.sqrt(dim))},
        "bilinear": lambda: {"W": torch.eye(dim).repeat(heads, 1, 1) / math.sqrt(dim)},
        "additive": lambda: {"w": normal(heads, dim)},
        "quadratic": lambda: {"alpha": torch.ones(heads), "center": torch.randn(heads, 2) * 2},
        "gaussian": lambda: {"center": torch.randn(heads, 2) * 2, "gamma": torch.eye(2).repeat(heads, 1, 1)},
    }
    if score == "learned_2d" and grid is not None:
        made["learned_2d"] = lambda: {"row": normal(2 * grid[0] - 1, dim), "col": normal(2 * grid[1] - 1, dim)}
    return made[score]() if score in made else {}, {}


def _initial(value):
    """A parameter of what the caller gave: numbers, or a tuple of sizes, which begins at 0."""
    if isinstance(value, nn.Parameter):
        return value
    if isinstance(value, tuple) and all(isinstance(n, int) for n in value):
        return nn.Parameter(torch.zeros(value))
    return nn.Parameter(torch.as_tensor(value, dtype=None if hasattr(value, "dtype") else torch.get_default_dtype()))


class _Scored(nn.Module):
    """What all modules have: a score, a normaliser, and the parameters of both by name."""

    def __init__(self, score, normalizer, params, settings=None):
        super().__init__()
        if not isinstance(score, Formula) and score not in _MECHANISMS:
            raise ValueError(f"{type(self).__name__}: score: expected one of {', '.join(_MECHANISMS)}, got '{score}'")
        if normalizer not in _NORMALIZERS:
            raise ValueError(
                f"{type(self).__name__}: normalizer: expected one of {', '.join(_NORMALIZERS)}, got '{normalizer}'"
            )
        self.score, self.normalizer = score, normalizer
        self.settings = dict(settings or {})
        made = isinstance(score, Formula)
        specs, formula = (score.parameters, repr(score)) if made else (_MECHANISMS[score]["parameters"], _MECHANISMS[score]["formula"])
        self.score_parameters = nn.ParameterDict({name: _initial(value) for name, value in params.items()})
        for spec in specs:
            if spec["required"] and spec["name"] not in params:
                sizes = "; a tuple of sizes begins at 0" if made else ""
                raise ValueError(
                    f"{type(self).__name__}: params: expected '{spec['name']}' of {'the formula' if made else score} ({formula}), got none{sizes}"
                )

    def attend(self, q, k, v, **options):
        params = {**dict(self.score_parameters.items()), **self.settings}
        return _api.attend(q, k, v, score=self.score, normalizer=self.normalizer, params=params or None, **options)

    def extra_repr(self):
        return f"score={self.score!r}, normalizer={self.normalizer!r}"


class MultiHeadAttention(_Scored):
    """Multi-head attention with any mechanism, normaliser and positions.

    score, normalizer   as in `rapt.attend`; a score may be a `rapt.formula`
    params              initial values of their parameters, which are learned: numbers, or a tuple of sizes, which begins at 0.
                        Those of mechanisms may be left out, and so may a formula's numbers, which begin at 1 for each head;
                        its tables need their sizes
    grid                (rows, columns), for mechanisms on a grid
    buckets, distance   of t5's table; how far shaw's table (16) and transformer_xl's (512) reach
    key_heads           fewer heads of keys and values than of queries
    rotary              dims, or (dims, base, interleaved)
    causal, window, softcap, scale   as in `rapt.attend`

    batch_first         x is [batch, sequence, embed_dim], or [sequence, batch, embed_dim]; weights begin with the batch anyway

    `from_torch` takes over a torch.nn.MultiheadAttention with its layout. load_state_dict takes such a module's weights too, and
    leaves the parameters of the score as they are.

    >>> import torch, rapt.torch
    >>> layer = rapt.torch.MultiHeadAttention(512, 8, score="t5", causal="top_left")
    >>> out, weights = layer(torch.randn(2, 100, 512), need_weights=True)  # x is [batch, sequence, embed_dim]
    >>> out.shape, weights.shape, layer.score_parameters["table"].shape
    (torch.Size([2, 100, 512]), torch.Size([2, 8, 100, 100]), torch.Size([8, 32]))
    """

    def __init__(
        self, embed_dim, heads, *, key_heads=None, key_dim=None, value_dim=None, bias=True, score="scaled_dot",
        normalizer="softmax", params=None, settings=None, rotary=None, causal=None, window=None, softcap=0.0, scale=None,
        buckets=32, distance=None, grid=None, batch_first=True,
    ):  # fmt: skip
        if embed_dim % heads != 0:
            raise ValueError(f"MultiHeadAttention: heads: expected a divisor of {embed_dim}, got {heads}")
        key_heads = heads if key_heads is None else key_heads
        if heads % key_heads != 0:
            raise ValueError(f"MultiHeadAttention: key_heads: expected a divisor of {heads}, got {key_heads}")
        dim = embed_dim // heads
        fresh, preset = _fresh(score, heads, dim, buckets, distance, grid)
        if params and "r" in params:  # a table of one's own has its own origin
            preset = {}
        super().__init__(score, normalizer, {**fresh, **(params or {})}, {**preset, **(settings or {})})
        self.embed_dim, self.heads, self.key_heads, self.dim = embed_dim, heads, key_heads, dim
        self.batch_first = batch_first
        self.options = {
            name: value
            for name, value in dict(rotary=rotary, causal=causal, window=window, softcap=softcap, scale=scale, grid=grid).items()
            if value is not None
        }
        self.q_proj = nn.Linear(embed_dim, heads * dim, bias)
        self.k_proj = nn.Linear(embed_dim if key_dim is None else key_dim, key_heads * dim, bias)
        self.v_proj = nn.Linear(embed_dim if value_dim is None else value_dim, key_heads * dim, bias)
        self.out_proj = nn.Linear(heads * dim, embed_dim, bias)

    def forward(self, query, key=None, value=None, *, need_weights=False, **options):
        """out, or (out, weights [batch, heads, queries, keys], without a gradient). Options are those of `rapt.attend`: mask, …"""
        key = query if key is None else key
        value = key if value is None else value
        turned = not self.batch_first and query.dim() == 3
        if turned:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q = self.q_proj(query).unflatten(-1, (self.heads, self.dim)).transpose(-3, -2)
        k = self.k_proj(key).unflatten(-1, (self.key_heads, self.dim)).transpose(-3, -2)
        v = self.v_proj(value).unflatten(-1, (self.key_heads, self.dim)).transpose(-3, -2)
        options = {**self.options, **options}
        out = self.out_proj(self.attend(q, k, v, **options).transpose(-3, -2).flatten(-2))
        out = out.transpose(0, 1) if turned else out
        if not need_weights:
            return out
        params = {**dict(self.score_parameters.items()), **self.settings}
        weights = _api.weights(q, k, v=v, score=self.score, normalizer=self.normalizer, params=params or None, **options)
        return out, weights

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention, **options):
        """The same attention with the weights and the layout of PyTorch's module; options as in the constructor.

        >>> import torch, rapt.torch
        >>> theirs = torch.nn.MultiheadAttention(64, 4, batch_first=True)
        >>> x = torch.randn(2, 10, 64)  # [batch, sequence, embed_dim]
        >>> torch.allclose(rapt.torch.MultiHeadAttention.from_torch(theirs)(x), theirs(x, x, x)[0], atol=1e-5)
        True
        """
        for name in ("bias_k", "bias_v"):
            if getattr(module, name) is not None:
                raise ValueError(f"MultiHeadAttention: {name}: expected none, got a parameter")
        if module.add_zero_attn or module.dropout:
            raise ValueError("MultiHeadAttention: expected neither add_zero_attn nor dropout")
        options.setdefault("batch_first", module.batch_first)
        made = cls(
            module.embed_dim, module.num_heads, key_dim=module.kdim, value_dim=module.vdim,
            bias=module.in_proj_bias is not None, **options,
        )  # fmt: skip
        made.to(module.out_proj.weight)
        made.load_state_dict(module.state_dict())
        return made.train(module.training)

    def _load_from_state_dict(self, state_dict, prefix, *arguments):
        names = ("q_proj", "k_proj", "v_proj")
        if any(f"{prefix}{name}" in state_dict for name in ("in_proj_weight", "q_proj_weight")):
            for name, value in self.score_parameters.items():  # PyTorch's module has none of them
                state_dict.setdefault(f"{prefix}score_parameters.{name}", value.detach())
        for kind in ("weight", "bias"):  # PyTorch keeps the three in one
            together = state_dict.pop(f"{prefix}in_proj_{kind}", None)
            if together is not None:
                for name, part in zip(names, together.chunk(3)):
                    state_dict[f"{prefix}{name}.{kind}"] = part
        for name in names:
            apart = state_dict.pop(f"{prefix}{name}_weight", None)
            if apart is not None:
                state_dict[f"{prefix}{name}.weight"] = apart
        super()._load_from_state_dict(state_dict, prefix, *arguments)


class AdditiveAttention(_Scored):
    """w · tanh(q Wq + k Wk). q is [batch, (heads,) queries, query_dim], k and v likewise.

    >>> import torch, rapt.torch
    >>> layer = rapt.torch.AdditiveAttention(query_dim=48, key_dim=32, hidden=64)
    >>> q, k, v = torch.randn(2, 10, 48), torch.randn(2, 20, 32), torch.randn(2, 20, 16)
    >>> layer(q, k, v).shape
    torch.Size([2, 10, 16])
    """

    def __init__(self, query_dim, key_dim, hidden, *, heads=None, normalizer="softmax"):
        lead = () if heads is None else (heads,)
        uniform = lambda rows, *shape: (torch.rand(*lead, *shape) * 2 - 1) / math.sqrt(rows)
        params = {
            "w": uniform(hidden, hidden),
            "Wq": uniform(query_dim, query_dim, hidden),
            "Wk": uniform(key_dim, key_dim, hidden),
        }
        super().__init__("additive", normalizer, params)

    def forward(self, q, k, v, **options):
        return _with_heads(self, q, k, v, options)


class BilinearAttention(_Scored):
    """q W k. q is [batch, (heads,) queries, query_dim], k and v likewise.

    >>> import torch, rapt.torch
    >>> layer = rapt.torch.BilinearAttention(query_dim=48, key_dim=32, heads=4)
    >>> q, k, v = torch.randn(2, 4, 10, 48), torch.randn(2, 4, 20, 32), torch.randn(2, 4, 20, 16)
    >>> layer(q, k, v).shape
    torch.Size([2, 4, 10, 16])
    """

    def __init__(self, query_dim, key_dim, *, heads=None, normalizer="softmax"):
        shape = (query_dim, key_dim) if heads is None else (heads, query_dim, key_dim)
        super().__init__("bilinear", normalizer, {"W": torch.randn(*shape) / math.sqrt(query_dim * key_dim)})

    def forward(self, q, k, v, **options):
        return _with_heads(self, q, k, v, options)


def _with_heads(module, q, k, v, options):
    """[batch, sequence, dim] is one head."""
    if q.dim() == 3:
        return module.attend(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), **options).squeeze(1)
    return module.attend(q, k, v, **options)


class QuadraticAttention2d(_Scored):
    """Attention among the pixels of an image by their positions alone: each head has a centre and a width.

    x is [batch, rows, columns, width]. Every head mixes whole pixels, and the output projection holds a matrix for each head,
    so that heads on the nine neighbours are a 3 × 3 convolution.

    >>> import torch, rapt.torch
    >>> layer = rapt.torch.QuadraticAttention2d(width=16, heads=9, out=32)
    >>> layer(torch.randn(2, 12, 14, 16)).shape
    torch.Size([2, 12, 14, 32])
    """

    def __init__(self, width, heads, *, out=None, spread=2.0, bias=True):
        super().__init__("quadratic", "softmax", {"alpha": torch.full((heads,), 1.0), "center": torch.randn(heads, 2) * spread})
        self.heads = heads
        self.out_proj = nn.Linear(heads * width, width if out is None else out, bias)

    def forward(self, x):
        batch, rows, columns, width = x.shape
        # Scores read nothing of q and k. Heads lie side by side there, and so they do in what is mixed.
        places = x.new_zeros(rows * columns, 1).expand(1, self.heads, rows * columns, 1)
        mixed = self.attend(places, places, x.reshape(batch, 1, rows * columns, width), grid=(rows, columns))
        return self.out_proj(mixed.transpose(1, 2).reshape(batch, rows, columns, self.heads * width))


class SharedAttention(_Scored):
    """One map for several tasks: queries and keys from one place, values from each task, which gets its result added.

    x is [batch, sequence, map_width]; tasks is a list of [batch, sequence, width], and so is the result.

    >>> import torch, rapt.torch
    >>> layer = rapt.torch.SharedAttention(map_width=64, width=32, tasks=3, heads=4)
    >>> outs = layer(torch.randn(2, 50, 64), [torch.randn(2, 50, 32) for _ in range(3)])
    >>> [tuple(out.shape) for out in outs]
    [(2, 50, 32), (2, 50, 32), (2, 50, 32)]
    """

    def __init__(self, map_width, width, tasks, heads, *, hidden=None, score="scaled_dot", normalizer="softmax", params=None):
        hidden = map_width // heads if hidden is None else hidden
        if width % heads != 0:
            raise ValueError(f"SharedAttention: heads: expected a divisor of {width}, got {heads}")
        fresh, preset = _fresh(score, heads, hidden, 32, None)
        if params and "r" in params:
            preset = {}
        super().__init__(score, normalizer, {**fresh, **(params or {})}, preset)
        self.heads, self.hidden = heads, hidden
        self.q_proj = nn.Linear(map_width, heads * hidden)
        self.k_proj = nn.Linear(map_width, heads * hidden)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(tasks))
        self.v_projs = nn.ModuleList(nn.Linear(width, width) for _ in range(tasks))
        self.out_projs = nn.ModuleList(nn.Linear(width, width) for _ in range(tasks))

    def forward(self, x, tasks, **options):
        if len(tasks) != len(self.norms):
            raise ValueError(f"SharedAttention: tasks: expected {len(self.norms)}, got {len(tasks)}")
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(-3, -2)
        values = [split(v(n(t))) for t, n, v in zip(tasks, self.norms, self.v_projs)]
        outs = self.attend(split(self.q_proj(x)), split(self.k_proj(x)), values, **options)
        return [t + o(y.transpose(-3, -2).flatten(-2)) for t, o, y in zip(tasks, self.out_projs, outs)]
