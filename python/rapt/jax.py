"""Rapt for JAX: `rapt.attend` on its arrays, under jit, grad and vmap, on CPU and GPU.

Traced calls are XLA's own calls (jax.ffi) with a custom_vjp: handlers in rapt._core read and write XLA's buffers on XLA's
streams, without Python. Arrays in this processor's memory that are not traced go straight to the engine.
"""

import functools
import os
import re
from typing import Any, NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _arrays, _core
from . import _attend as _api

_LSE = 1


def _version():
    """The minor version of XLA's foreign function interface. All of version 0 are laid out alike, and XLA asks for its own."""
    path = os.path.join(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    try:
        with open(path, encoding="utf-8") as file:
            found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", file.read()))
    except OSError:
        found = {}
    if found.get("MAJOR") != "0" or "MINOR" not in found:
        raise ImportError(f"rapt.jax: expected version 0 of XLA's foreign function interface in {path}, got {found or 'no such file'}")
    return int(found["MINOR"])


for _target, _platform, _handler in _core.xla_handlers(_version()):
    jax.ffi.register_ffi_target(_target, _handler, platform=_platform)


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

    def arrays(self, names):
        """(role, array) of each that is given."""
        listed = [("q", self.q), ("k", self.k), *(("v", one) for one in self.v)]
        listed += [(f"param:{name}", one) for name, one in zip(names, self.params)]
        listed += [(name, getattr(self, name)) for name in ("bias", "mask", "key_lengths", "first_query")]
        return [(role, array) for role, array in listed if array is not None]


class _Static(NamedTuple):
    """Everything else; hashable."""

    names: Tuple  # of params
    options: Tuple  # (name, value): a string, a number, or a tuple of integers
    with_lse: bool


def _shapes(inputs):
    """Outputs and rows, as rapt._core computes them."""
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


def _run(target, static, arguments, results):
    """An XLA call: arguments are (role, array), results (role, shape and type). Wrong ones are refused here, with a ValueError."""
    attributes = {
        name: value if isinstance(value, str) else np.float64(value) if isinstance(value, float) else np.array(value, np.int64)
        for name, value in static.options
    }
    for kind, listed in (("argument", arguments), ("result", results)):
        attributes[f"{kind}s"] = ",".join(role for role, _ in listed)
        attributes[f"{kind}_ranks"] = np.array([array.ndim for _, array in listed], np.int64)
    describe = lambda listed: [(array.dtype.name, tuple(map(int, array.shape))) for _, array in listed]
    _core.xla_check(target == "rapt_attend_backward", describe(arguments), describe(results), attributes)
    call = jax.ffi.ffi_call(target, [array for _, array in results], vmap_method="expand_dims")
    return call(*(array for _, array in arguments), **attributes)


def _statistics(rows, outs):
    """Softmax statistics of every row; where one output has 16 bits, with room for what rounding removes, which GPUs keep too."""
    columns = outs[0].shape[-1] if outs[0].dtype.itemsize == 2 and len(outs) == 1 else 0
    return jax.ShapeDtypeStruct((_core.device_floats(int(np.prod(rows.shape)), columns),), rows.dtype)


def _forward_call(static, inputs, with_rows):
    outs, rows = _shapes(inputs)
    results = [("out", out) for out in outs]
    results += [("lse", rows)] if static.with_lse else []
    results += [("rows", _statistics(rows, outs))] if with_rows else []
    found = _run("rapt_attend", static, inputs.arrays(static.names), results)
    out, found = tuple(found[: len(outs)]), found[len(outs) :]
    return (out, found[0] if static.with_lse else None), found[-1] if with_rows else None


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _call(static, inputs):
    return _forward_call(static, inputs, False)[0]


def _forward(static, inputs):
    (out, lse), rows = _forward_call(static, inputs, True)
    return (out, lse), (inputs, out, rows)


def _backward(static, saved, grads):
    inputs, out, rows = saved
    grad_out, grad_lse = grads
    arguments = inputs.arrays(static.names)
    learned = [(role, jax.ShapeDtypeStruct(x.shape, x.dtype)) for role, x in arguments if jnp.issubdtype(x.dtype, jnp.floating)]
    arguments += [("out", one) for one in out] + [("rows", rows)] + [("grad_out", one) for one in grad_out]
    arguments += [] if grad_lse is None else [("grad_lse", grad_lse)]
    found = iter(_run("rapt_attend_backward", static, arguments, learned))
    gradient = lambda x: None if x is None else next(found) if jnp.issubdtype(x.dtype, jnp.floating) else np.zeros(x.shape, jax.dtypes.float0)
    q, k = gradient(inputs.q), gradient(inputs.k)
    v, params = tuple(map(gradient, inputs.v)), tuple(map(gradient, inputs.params))
    return (_Inputs(q, k, v, params, *map(gradient, inputs[4:])),)


_call.defvjp(_forward, _backward)


def _parameter(value, dtype):
    return jnp.asarray(value) if isinstance(value, (jax.Array, np.ndarray)) else jnp.asarray(value, dtype)


def _static(options):
    """Options that are no arrays, as (name, value)."""
    result = []
    for name in ("score", "normalizer", "causal", "path"):
        if options[name] is not None:
            if not isinstance(options[name], str):
                raise TypeError(f"attend: {name}: expected a string, got {options[name]!r}")
            result.append((name, options[name]))
    for name in ("scale", "softcap"):
        if options[name] is not None:
            result.append((name, float(options[name])))
    for name in ("window", "grid", "first_key", "threads", "query_starts", "key_starts", "key_lengths", "first_query"):
        if options[name] is not None:
            value = tuple(int(n) for n in np.atleast_1d(options[name]))
            if name in ("window", "grid") and len(value) != 2:
                raise ValueError(f"attend: {name}: expected two integers, got {len(value)}")
            result.append((name, value))
    if options["rotary"] is not None:
        given = (options["rotary"],) if isinstance(options["rotary"], int) else tuple(options["rotary"])
        dims, base, interleaved = given + (0, 10000.0, False)[len(given) :]
        result += [("rotary", (int(dims), int(interleaved))), ("rotary_base", float(base))]
    return result


def _attend(q, k, v, packed, return_lse):
    is_list = isinstance(v, (list, tuple))
    if k is None or v is None:
        raise TypeError(f"attend: {'k' if k is None else 'v'}: expected an array, got None")
    options = dict(zip(_api.OPTIONS, packed))
    sets = list(v) if is_list else [v]
    params = {name: value for name, value in (options["params"] or {}).items() if value is not None}
    arrays = [q, k, *sets, *params.values(), *(options[name] for name in ("bias", "mask", "key_lengths", "first_query"))]
    if not any(isinstance(x, jax.core.Tracer) or _is_elsewhere(x) for x in arrays):
        _, finish = _arrays.allocator(q)
        found = _core.forward("attend", q, k, v, _arrays.numpy_empty, _LSE if return_lse else 0, packed)
        out = [finish(one) for one in found[0]] if is_list else finish(found[0])
        return (out, finish(found[1])) if return_lse else out
    normalizer = options["normalizer"] or "softmax"
    if return_lse and normalizer != "softmax":
        raise ValueError(f"attend: return_lse: expected the normaliser softmax where JAX traces the call, got {normalizer}")
    settings = [name for name in params if _api.is_setting(options["score"], name)]
    array = lambda x: None if x is None else jnp.asarray(x)
    compute = jnp.float64 if any(array(x).dtype == np.float64 for x in (q, k, *sets)) else jnp.float32
    learned = {name: _parameter(value, compute) for name, value in params.items() if name not in settings}
    traced = {}
    for name in ("key_lengths", "first_query"):  # numbers that are known stay so: a GPU takes no others
        if isinstance(options[name], jax.core.Tracer):
            traced[name], options[name] = jnp.atleast_1d(options[name]).astype(jnp.int32), None
    inputs = _Inputs(
        array(q), array(k), tuple(map(array, sets)), tuple(learned.values()), array(options["bias"]), array(options["mask"]),
        traced.get("key_lengths"), traced.get("first_query"),
    )  # fmt: skip
    fixed = _static(options) + [(f"setting_{name}", float(value)) for name, value in params.items() if name in settings]
    out, lse = _call(_Static(tuple(learned), tuple(fixed), return_lse), inputs)
    out = list(out) if is_list else out[0]
    return (out, lse) if return_lse else out


def _is_elsewhere(array):
    """Whether the array is on a device other than the CPU."""
    return isinstance(array, jax.Array) and any(device.platform != "cpu" for device in array.devices())


attend = _api.attend
_api._libraries.append((jax.Array, _attend))
