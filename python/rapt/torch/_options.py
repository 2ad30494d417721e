"""Options of one call as PyTorch's graphs carry them: tensors, lists of numbers, strings."""

import numpy as np
import torch

from .._attend import is_setting

# The tail of both operators' schemas; OPTIONS of rapt._attend in another form.
SCHEMA = (
    "Tensor? bias, Tensor? mask, Tensor[] params, Tensor? lengths_at, Tensor? first_at, str names, str settings, "
    "str score, str normalizer, str causal, float? scale, float softcap, SymInt[]? window, "
    "SymInt[]? key_lengths, SymInt[]? first_query, SymInt? first_key, SymInt[]? query_starts, SymInt[]? key_starts, "
    "SymInt[]? grid, SymInt rotary_dims, float rotary_base, bool rotary_interleaved, SymInt threads, str path"
)
COUNT = 24
BIAS, MASK, PARAMS, LENGTHS_AT, FIRST_AT, NAMES = range(6)
SCORE, NORMALIZER = 7, 8
KEY_LENGTHS, FIRST_QUERY = 13, 14


def _integers(value):
    """(tensor, list): one of them, or none."""
    if value is None:
        return None, None
    if isinstance(value, torch.Tensor):
        return value, None
    if isinstance(value, int):
        return None, [value]
    return None, [int(n) for n in value]


def _list(value):
    return None if value is None else [int(n) for n in value]


def parameter(value, q, others=()):
    """A tensor of a number or a list of them, in the type of computation."""
    if isinstance(value, torch.Tensor):
        return value
    is_double = any(x.dtype == torch.float64 for x in (q, *others))
    return torch.tensor(value, dtype=torch.float64 if is_double else torch.float32, device=q.device)


def as_tensor(array, name, q):
    """A tensor of another kind of array beside a tensor q. A copy where gradients are kept: its owner may write into it."""
    if array is None or isinstance(array, torch.Tensor):
        return array
    if not hasattr(array, "__array__") and not hasattr(array, "__dlpack__"):
        raise TypeError(f"attend: {name}: expected an array, got {type(array).__name__}")
    array = np.asarray(array) if hasattr(array, "__array__") else np.from_dlpack(array)
    if torch.is_grad_enabled() or not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    if array.dtype.name == "bfloat16":  # ml_dtypes', which PyTorch does not know
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(q.device)
    return torch.as_tensor(array, device=q.device)


def to_arguments(q, packed, others=()):
    """The packed options of rapt._attend as arguments of an operator; others: k and v."""
    (
        score, params, normalizer, causal, scale, softcap, bias, mask, window, key_lengths, first_query, first_key,
        query_starts, key_starts, grid, rotary, threads, path, _,
    ) = packed  # fmt: skip
    names, tensors, settings = [], [], []
    for name, value in (params or {}).items():
        if value is None:
            continue
        if is_setting(score, name):
            settings.append(f"{name}={float(value)}")
        else:
            names.append(name)
            tensors.append(parameter(value, q, others))
    lengths_at, key_lengths = _integers(key_lengths)
    first_at, first_query = _integers(first_query)
    dims, base, interleaved = 0, 10000.0, False
    if rotary is not None:
        rotary = (rotary,) if isinstance(rotary, int) else tuple(rotary)
        dims, base, interleaved = rotary + (dims, base, interleaved)[len(rotary) :]
    return (
        bias, mask, tensors, lengths_at, first_at, ",".join(names), ",".join(settings), score or "scaled_dot",
        normalizer or "softmax", causal or "", None if scale is None else float(scale), float(softcap), _list(window),
        key_lengths, first_query, first_key, _list(query_starts), _list(key_starts), _list(grid), dims, float(base),
        bool(interleaved), threads or 0, path or "automatic",
    )  # fmt: skip


def names_of(text):
    return text.split(",") if text else []


def to_packed(arguments):
    """And back, for rapt._core."""
    (
        bias, mask, params, lengths_at, first_at, names, settings, score, normalizer, causal, scale, softcap, window,
        key_lengths, first_query, first_key, query_starts, key_starts, grid, dims, base, interleaved, threads,
        path,
    ) = arguments  # fmt: skip
    found = dict(zip(names_of(names), params))
    for setting in names_of(settings):
        name, value = setting.split("=")
        found[name] = float(value)
    return (
        score, found or None, normalizer, causal or None, scale, softcap, bias, mask, window,
        lengths_at if lengths_at is not None else key_lengths, first_at if first_at is not None else first_query,
        first_key, query_starts, key_starts, grid, (dims, base, interleaved) if dims else None, threads or None, path,
        None,
    )  # fmt: skip
