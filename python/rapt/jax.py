"""Rapt for JAX: `rapt.attend` on its arrays, under jit, grad and vmap.

Arrays that are not traced go straight to the engine. Traced calls are host callbacks (jax.pure_callback) with a custom_vjp:
jax.ffi would have to be compiled against XLA's headers, and make JAX a requirement of the build.
"""

import functools
from typing import Any, NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _arrays, _core
from . import _attend as _api

_LSE, _SAVED = 1, 4
_AT = {name: n for n, name in enumerate(_api.OPTIONS)}
_SETTINGS = {entry["name"]: {s["name"] for s in entry["settings"]} for entry in _core.mechanisms()}
_ARRAYS = ("params", "bias", "mask", "key_lengths", "first_query", "stream")


class _Inputs(NamedTuple):
    """Everything of a call that may be traced."""

    q: Any
    k: Any
    v: Tuple
    params: Tuple
    bias: Optional[Any]
    mask: Optional[Any]
    key_lengths: Optional[Any]
    first_query: Optional[Any]


class _Static(NamedTuple):
    """Everything else; hashable."""

    names: Tuple
    settings: Tuple
    options: Tuple  # in the order of _api.OPTIONS, None for what is in _Inputs


def _shapes(inputs):
    arrays = [inputs.q, inputs.k, *inputs.v]
    rank = max(x.ndim for x in arrays)
    size = lambda x, n: x.shape[n] if x.ndim >= -n else 1
    batch = heads = 1
    for x in arrays:
        batch = size(x, -4) if batch == 1 else batch
        heads = size(x, -3) if heads == 1 else heads
    heads = heads if size(inputs.q, -3) == 1 else size(inputs.q, -3)
    rows = ((batch, heads) if rank >= 4 else (heads,) if rank == 3 else ()) + (inputs.q.shape[-2],)
    compute = np.float64 if any(x.dtype == np.float64 for x in arrays) else np.float32
    same = all(x.dtype == inputs.q.dtype for x in arrays)
    out = inputs.q.dtype if same else compute
    return [jax.ShapeDtypeStruct(rows + (x.shape[-1],), out) for x in inputs.v], jax.ShapeDtypeStruct(rows, compute)


def _packed(static, inputs):
    options = list(static.options)
    params = {**dict(zip(static.names, inputs.params)), **dict(static.settings)}
    options[_AT["params"]] = params or None
    for name in ("bias", "mask", "key_lengths", "first_query"):
        options[_AT[name]] = getattr(inputs, name)
    return tuple(options)


def _on_host(tree):
    return jax.tree.map(np.asarray, tree)


def _forward_on_host(static, inputs):
    inputs = _on_host(inputs)
    packed = _packed(static, inputs)
    out, lse, _, _, saved = _core.forward(
        "attend", inputs.q, inputs.k, list(inputs.v), _arrays.numpy_empty, _LSE | _SAVED, packed
    )
    row_max, row_sum = np.empty_like(lse), np.empty_like(lse)
    saved.store(row_max, row_sum)
    return tuple(out), lse, row_max, row_sum


def _backward_on_host(static, inputs, out, row_max, row_sum, grad_out, grad_lse):
    inputs, out, row_max, row_sum, grad_out, grad_lse = _on_host((inputs, out, row_max, row_sum, grad_out, grad_lse))
    saved = _core.Saved()
    saved.load(np.ascontiguousarray(row_max), np.ascontiguousarray(row_sum))
    grad_lse = None if static.options[_AT["normalizer"]] not in (None, "softmax") else np.ascontiguousarray(grad_lse)
    want = (True, True, True, True, None)
    dq, dk, dv, dbias, found = _core.backward(
        inputs.q, inputs.k, list(inputs.v), list(out), list(grad_out), saved, grad_lse, want, _arrays.numpy_empty,
        _packed(static, inputs),
    )  # fmt: skip
    return (dq, dk, tuple(dv), dbias, tuple(found[name] for name in static.names))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _call(static, inputs):
    return _forward(static, inputs)[0]


def _forward(static, inputs):
    outs, rows = _shapes(inputs)
    shapes = (tuple(outs), rows, rows, rows)
    callback = functools.partial(_forward_on_host, static)
    out, lse, row_max, row_sum = jax.pure_callback(callback, shapes, inputs, vmap_method="sequential")
    return (out, lse), (inputs, out, row_max, row_sum)


def _backward(static, saved, grads):
    inputs, out, row_max, row_sum = saved
    like = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
    shapes = jax.tree.map(like, (inputs.q, inputs.k, inputs.v, inputs.bias, inputs.params))
    callback = functools.partial(_backward_on_host, static)
    dq, dk, dv, dbias, dparams = jax.pure_callback(
        callback, shapes, inputs, out, row_max, row_sum, *grads, vmap_method="sequential"
    )
    none = lambda x: None if x is None else np.zeros(x.shape, jax.dtypes.float0)
    rest = (none(inputs.mask), none(inputs.key_lengths), none(inputs.first_query))
    return (_Inputs(dq, dk, dv, dparams, dbias, *rest),)


_call.defvjp(_forward, _backward)


def _attend(q, k, v, packed, return_lse):
    is_list = isinstance(v, (list, tuple))
    options = dict(zip(_api.OPTIONS, packed))
    names, values, settings = [], [], []
    for name, value in (options["params"] or {}).items():
        if value is None:
            continue
        if name in _SETTINGS.get(options["score"] or "scaled_dot", ()):
            settings.append((name, float(value)))
        else:
            names.append(name)
            values.append(jnp.asarray(value) if isinstance(value, (jax.Array, np.ndarray)) else jnp.asarray(value, jnp.float32))
    integers = lambda x: None if x is None else jnp.atleast_1d(jnp.asarray(x, jnp.int32))
    arrays = [q, k, *(v if is_list else [v]), options["bias"], options["mask"], options["key_lengths"], options["first_query"]]
    if not any(isinstance(x, jax.core.Tracer) for x in [*arrays, *values]):
        _, finish = _arrays.allocator(q)
        found = _core.forward("attend", q, k, v, _arrays.numpy_empty, _LSE if return_lse else 0, packed)
        out = [finish(one) for one in found[0]] if is_list else finish(found[0])
        return (out, finish(found[1])) if return_lse else out
    inputs = _Inputs(
        jnp.asarray(q), jnp.asarray(k), tuple(map(jnp.asarray, v)) if is_list else (jnp.asarray(v),), tuple(values),
        options["bias"], options["mask"], integers(options["key_lengths"]), integers(options["first_query"]),
    )  # fmt: skip
    for name in _ARRAYS:
        options[name] = None
    hashable = lambda x: tuple(int(n) for n in x) if isinstance(x, (list, np.ndarray)) else x
    static = _Static(tuple(names), tuple(settings), tuple(hashable(options[name]) for name in _api.OPTIONS))
    normalizer = options["normalizer"] or "softmax"
    if return_lse and normalizer != "softmax":
        raise ValueError(f"attend: return_lse: expected the normaliser softmax for arrays of JAX, got {normalizer}")
    out, lse = _call(static, inputs)
    out = list(out) if is_list else out[0]
    return (out, lse) if return_lse else out


attend = _api.attend
_api._libraries.append((jax.Array, _attend))
