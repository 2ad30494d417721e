"""Attention as modules: every mechanism and normaliser, with their parameters learned."""

import math

import torch
from torch import Tensor, nn

from .. import _attend as _api
from .. import _core

_MECHANISMS = {entry["name"]: entry for entry in _core.mechanisms()}
_NORMALIZERS = {entry["name"]: entry for entry in _core.normalizers()}


def alibi_slopes(heads: int) -> Tensor:
    """The slopes of ALiBi's paper: 2^(−8h/H), and for other numbers of heads those between."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    slopes += [2 ** (-8 * (h + 0.5) / power) for h in range(heads - power)]
    return torch.tensor(slopes)


def _fresh(score, heads, dim, buckets, distance):
    """What a mechanism's parameters are before they have learned anything, where that is known from the sizes."""
    normal = lambda *shape: torch.randn(*shape) / math.sqrt(dim)
    if score == "alibi":
        return {"m": alibi_slopes(heads)}
    if score == "t5":
        return {"table": torch.zeros(heads, buckets)}
    if score == "shaw":
        return {"a": normal(2 * distance + 1, dim)}
    if score == "cosine":
        return {"tau": torch.full((heads,), 10.0)}
    if score == "distance":
        return {"gamma": torch.full((heads,), 1 / math.sqrt(dim))}
    if score == "bilinear":
        return {"W": torch.eye(dim).repeat(heads, 1, 1) / math.sqrt(dim)}
    if score == "additive":
        return {"w": normal(heads, dim)}
    return {}


class _Scored(nn.Module):
    """What all modules have: a score, a normaliser, and the parameters of both by name."""

    def __init__(self, score, normalizer, params, settings=None):
        super().__init__()
        if score not in _MECHANISMS:
            raise ValueError(f"{type(self).__name__}: score: expected one of {', '.join(_MECHANISMS)}, got '{score}'")
        if normalizer not in _NORMALIZERS:
            raise ValueError(
                f"{type(self).__name__}: normalizer: expected one of {', '.join(_NORMALIZERS)}, got '{normalizer}'"
            )
        self.score, self.normalizer = score, normalizer
        self.settings = dict(settings or {})
        self.score_parameters = nn.ParameterDict(
            {name: value if isinstance(value, nn.Parameter) else nn.Parameter(torch.as_tensor(value)) for name, value in params.items()}
        )
        for spec in _MECHANISMS[score]["parameters"]:
            if spec["required"] and spec["name"] not in params:
                raise ValueError(
                    f"{type(self).__name__}: params: expected '{spec['name']}' of {score} "
                    f"({_MECHANISMS[score]['formula']}), got none"
                )

    def attend(self, q, k, v, **options):
        params = {**dict(self.score_parameters.items()), **self.settings}
        return _api.attend(q, k, v, score=self.score, normalizer=self.normalizer, params=params or None, **options)

    def extra_repr(self):
        return f"score={self.score!r}, normalizer={self.normalizer!r}"


class MultiHeadAttention(_Scored):
    """Multi-head attention with any mechanism, normaliser and positions.

    score, normalizer   as in `rapt.attend`; params: initial values of their parameters, which are learned. Those whose shape
                        follows from the sizes (alibi, t5, shaw, cosine, distance, bilinear, additive) may be left out
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
        buckets=32, distance=16, batch_first=True,
    ):  # fmt: skip
        if embed_dim % heads != 0:
            raise ValueError(f"MultiHeadAttention: heads: expected a divisor of {embed_dim}, got {heads}")
        key_heads = heads if key_heads is None else key_heads
        if heads % key_heads != 0:
            raise ValueError(f"MultiHeadAttention: key_heads: expected a divisor of {heads}, got {key_heads}")
        dim = embed_dim // heads
        super().__init__(score, normalizer, {**_fresh(score, heads, dim, buckets, distance), **(params or {})}, settings)
        self.embed_dim, self.heads, self.key_heads, self.dim = embed_dim, heads, key_heads, dim
        self.batch_first = batch_first
        self.options = {
            name: value
            for name, value in dict(rotary=rotary, causal=causal, window=window, softcap=softcap, scale=scale).items()
            if value is not None
        }
        self.q_proj = nn.Linear(embed_dim, heads * dim, bias)
        self.k_proj = nn.Linear(embed_dim if key_dim is None else key_dim, key_heads * dim, bias)
        self.v_proj = nn.Linear(embed_dim if value_dim is None else value_dim, key_heads * dim, bias)
        self.out_proj = nn.Linear(heads * dim, embed_dim, bias)

    def forward(self, query, key=None, value=None, *, need_weights=False, **options):
        """out, or (out, weights [batch, heads, queries, keys]). Options are those of `rapt.attend`: mask, key_lengths, …"""
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
        super().__init__(score, normalizer, {**_fresh(score, heads, hidden, 32, 16), **(params or {})})
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
