"""ONNX's operator Attention (opsets 23, 24 and 25) on arrays: the same inputs, attributes and results."""

import operator
from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _attend
from ._words import counted

_FLOAT, _FLOAT16, _DOUBLE, _BFLOAT16 = 1, 10, 11, 16  # of onnx.TensorProto


class Outputs(NamedTuple):
    Y: Any
    present_key: Any
    present_value: Any
    qk_matmul_output: Any


class Later:
    """An array that is computed when it is first read: the operator's fourth output, which few ask for."""

    def __init__(self, make):
        self._make, self._made = make, None

    def _array(self):
        if self._made is None:
            self._made = self._make()
        return self._made

    def __array__(self, dtype=None, copy=None):
        return np.array(self._array(), dtype) if copy else np.asarray(self._array(), dtype)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._array(), name)

    def __repr__(self):
        return repr(self._array())

    def __reduce__(self):
        return _the_same, (self._array(),)

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        read = lambda x: x._array() if isinstance(x, cls) else x
        return function(*map(read, arguments), **{name: read(x) for name, x in (options or {}).items()})


def _the_same(array):
    return array


def _forward(name):
    function = getattr(operator, name)
    return lambda self, *others: function(self._array(), *others)


for _name in ("add", "sub", "mul", "truediv", "matmul", "pow", "neg", "abs", "eq", "ne", "lt", "le", "gt", "ge", "getitem"):
    setattr(Later, f"__{_name}__", _forward(f"__{_name}__"))
Later.__len__ = lambda self: len(self._array())
Later.__hash__ = object.__hash__


class _Numpy:
    """The few operations that differ between NumPy's arrays and PyTorch's tensors."""

    concatenate = staticmethod(lambda a, b: np.concatenate((a, b), axis=2))
    transpose = staticmethod(lambda x: x.transpose(0, 2, 1, 3))
    is_boolean = staticmethod(lambda x: x.dtype == np.bool_)
    is_float = staticmethod(lambda x: x.dtype.kind == "f" or x.dtype.name == "bfloat16")
    cast = staticmethod(lambda x, like: x.astype(like.dtype, copy=False))
    float32 = staticmethod(lambda x: x.astype(np.float32))
    float64 = staticmethod(lambda x: x.astype(np.float64))
    tanh = staticmethod(np.tanh)
    repeat = staticmethod(lambda x, n: np.repeat(x, n, axis=1))

    @staticmethod
    def pad(x, count, value):
        return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count)], constant_values=value)

    @staticmethod
    def hidden(scores, visible):
        return np.where(visible, scores, scores.dtype.type(-np.inf))


class _Torch:
    def __init__(self):
        import torch

        self.concatenate = lambda a, b: torch.cat((a, b), 2)
        self.transpose = lambda x: x.transpose(1, 2)
        self.is_boolean = lambda x: x.dtype == torch.bool
        self.is_float = lambda x: x.dtype.is_floating_point
        self.cast = lambda x, like: x.to(like.dtype)
        self.float32 = lambda x: x.to(torch.float32)
        self.float64 = lambda x: x.to(torch.float64)
        self.tanh = torch.tanh
        self.repeat = lambda x, n: x.repeat_interleave(n, 1)
        self.pad = lambda x, count, value: torch.nn.functional.pad(x, (0, count), value=value)
        self.hidden = lambda scores, visible: scores.masked_fill(~torch.as_tensor(visible), -float("inf"))


def _fail(what):
    raise ValueError(f"onnx.attention: {what}")


def attention(
    Q, K, V, attn_mask=None, past_key=None, past_value=None, nonpad_kv_seqlen=None, *, is_causal=0, kv_num_heads=None,
    q_num_heads=None, qk_matmul_output_mode=None, scale=None, softcap=0.0, softmax_precision=None, left_window_size=-1,
    right_window_size=-1,
):  # fmt: skip
    """(Y, present_key, present_value, qk_matmul_output) of ONNX's Attention.

    Q, K, V are [batch, heads, sequence, dim], or [batch, sequence, heads · dim] with q_num_heads and kv_num_heads. A boolean
    attn_mask is true where to attend, a number is added; one that is shorter than the keys hides the rest. Causal is aligned by
    the cache: query i stands after past_key's keys, or at nonpad_kv_seqlen[b] − queries + i. Windows are those of opset 25.
    qk_matmul_output's modes: 0 scaled products, 1 after the softcap, 2 with mask and bias, 3 the weights. Where no mode is
    given it is that of mode 0, computed when it is first read: only then something of the size queries × keys is stored. Softmax is computed in float32 or float64 whatever
    softmax_precision says, and in float64 where it asks for it.

    >>> import numpy as np, rapt.onnx
    >>> x = np.random.rand(2, 5, 3 * 8).astype(np.float32)
    >>> rapt.onnx.attention(x, x, x, q_num_heads=3, kv_num_heads=3, is_causal=1).Y.shape
    (2, 5, 24)
    """
    xp = _Torch() if _arrays.is_torch(Q) else _Numpy
    is_flat = Q.ndim == 3
    if not Q.ndim == K.ndim == V.ndim or Q.ndim not in (3, 4):
        _fail(f"Q, K, V: expected all of three or all of four dimensions, got {Q.ndim}, {K.ndim} and {V.ndim}")
    if (past_key is None) != (past_value is None):
        _fail("past_value: expected together with past_key, got one of them")
    if nonpad_kv_seqlen is not None and past_key is not None:
        _fail("nonpad_kv_seqlen: expected none with past_key, got both")
    if softmax_precision not in (None, _FLOAT, _FLOAT16, _DOUBLE, _BFLOAT16):
        _fail(f"softmax_precision: expected 1, 10, 11 or 16, got {softmax_precision}")
    if qk_matmul_output_mode not in (None, 0, 1, 2, 3):
        _fail(f"qk_matmul_output_mode: expected 0 to 3, got {qk_matmul_output_mode}")
    if is_flat:
        if not q_num_heads or not kv_num_heads:
            _fail("q_num_heads, kv_num_heads: expected both where the inputs have three dimensions, got none")
        if min(q_num_heads, kv_num_heads) < 0:
            _fail(f"q_num_heads, kv_num_heads: expected 1 or more, got {q_num_heads} and {kv_num_heads}")
        Q = _split(xp, Q, q_num_heads, "Q")
        K = _split(xp, K, kv_num_heads, "K")
        V = _split(xp, V, kv_num_heads, "V")
    elif q_num_heads is not None or kv_num_heads is not None:
        _fail(f"q_num_heads, kv_num_heads: expected none where the inputs have four dimensions, got {q_num_heads} and {kv_num_heads}")
    like = Q
    past = 0 if past_key is None else past_key.shape[2]
    present_key = K if past_key is None else xp.concatenate(past_key, K)
    present_value = V if past_value is None else xp.concatenate(past_value, V)
    q, k, v = Q, present_key, present_value
    if softmax_precision == _DOUBLE:
        q, k, v = xp.float64(q), xp.float64(k), xp.float64(v)

    keys = k.shape[2]
    bias = mask = None
    if attn_mask is not None:
        is_boolean = xp.is_boolean(attn_mask)
        if attn_mask.shape[-1] < keys:
            attn_mask = xp.pad(attn_mask, keys - attn_mask.shape[-1], False if is_boolean else -float("inf"))
        if is_boolean:
            mask = attn_mask
        else:
            bias = attn_mask if xp.is_float(attn_mask) else xp.float32(attn_mask)
    lengths = None if nonpad_kv_seqlen is None else [int(n) for n in nonpad_kv_seqlen.reshape(-1).tolist()]
    first = past if lengths is None else [length - q.shape[2] for length in lengths]
    window = (left_window_size, right_window_size)
    if min(window) < -1:
        _fail(f"left_window_size, right_window_size: expected −1 or more, got {window[0]} and {window[1]}")
    masks = dict(
        causal="top_left" if is_causal else None,
        window=window if max(window) >= 0 else None,
        key_lengths=lengths,
        first_query=first if is_causal or max(window) >= 0 else None,
        mask=mask,
    )
    options = dict(masks, scale=scale, softcap=softcap or 0.0, bias=bias)
    Y = xp.cast(_attend.attend(q, k, v, **options), like)
    if qk_matmul_output_mode is None:
        products = Later(lambda: xp.cast(_products(xp, q, k, scale, softcap, bias, masks, 0), like))
    elif qk_matmul_output_mode == 3:
        products = xp.cast(_attend.weights(q, k, **options), like)
    else:
        products = xp.cast(_products(xp, q, k, scale, softcap, bias, masks, qk_matmul_output_mode), like)
    if is_flat:
        Y = xp.transpose(Y)
        Y = Y.reshape(*Y.shape[:2], -1)
    return Outputs(Y, present_key, present_value, products)


def _split(xp, x, heads, name):
    if x.shape[2] % heads != 0:
        _fail(f"{name}: expected a last dimension that {counted(heads, 'head')} divide, got {x.shape[2]}")
    return xp.transpose(x.reshape(*x.shape[:2], heads, x.shape[2] // heads))


def _products(xp, q, k, scale, softcap, bias, masks, mode):
    """The scores before softmax, which the engine never stores."""
    if str(q.dtype).split(".")[-1] in ("float16", "bfloat16"):
        q, k = xp.float32(q), xp.float32(k)
    if q.shape[1] != k.shape[1]:
        k = xp.repeat(k, q.shape[1] // k.shape[1])
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mode >= 1 and softcap:
        scores = softcap * xp.tanh(scores / softcap)
    if mode < 2:
        return scores
    if bias is not None:
        scores = scores + bias
    queries, keys = scores.shape[-2:]
    first = masks["first_query"]
    first = np.reshape([0] if first is None else first, (-1, 1, 1, 1))
    at, key = first + np.arange(queries)[:, None], np.arange(keys)
    visible = np.ones((queries, keys), bool)
    if masks["causal"]:
        visible = visible & (key <= at)
    if masks["window"] is not None:
        left, right = masks["window"]
        visible = visible & ((left < 0) | (key >= at - left)) & ((right < 0) | (key <= at + right))
    if masks["key_lengths"] is not None:
        visible = visible & (key < np.reshape(masks["key_lengths"], (-1, 1, 1, 1)))
    if masks["mask"] is not None:
        visible = visible & np.asarray(masks["mask"])
    return xp.hidden(scores, visible)
