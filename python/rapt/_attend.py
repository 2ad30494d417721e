"""The functions of the package: attention, its weights, statistics and gradients, its parts and plans."""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

import numpy as np

from . import _arrays, _core
from ._options import Array, Options, PartOptions, shown
from .formulas import Formula

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LSE, _PARTS, _SAVED = 1, 2, 4
_ndarray = np.ndarray
_numpy_empty = _arrays.numpy_empty

# The order of Option in python/src/options.h.
OPTIONS = (
    "score",
    "params",
    "normalizer",
    "causal",
    "scale",
    "softcap",
    "bias",
    "mask",
    "window",
    "key_lengths",
    "first_query",
    "first_key",
    "query_starts",
    "key_starts",
    "grid",
    "rotary",
    "threads",
    "path",
    "stream",
)

_GIVEN = OPTIONS[:-1]  # the stream is the one of q's library

_SETTINGS = {entry["name"]: {s["name"] for s in entry["settings"]} for entry in _core.mechanisms()}


def is_setting(score, name):
    """Whether params has a number under that name that is part of the mechanism, and no array."""
    return name in _SETTINGS.get(score or "scaled_dot", ())


def pack(operation, options, q=None):
    """The tuple that rapt._core takes, of the options by their names. On a GPU it has q's stream, and parameters lie there."""
    for name in options:
        if name not in _GIVEN:
            raise TypeError(f"{operation}: expected options among {', '.join(_GIVEN)}, got '{name}'")
    if isinstance(options.get("score"), Formula):
        options = {**options, "score": options["score"].encoded}
    stream = _arrays.stream_of(q)
    if stream is not None:
        options = {**options, "stream": stream}
        score, params = options.get("score"), options.get("params") or {}
        options["params"] = {n: x if x is None or is_setting(score, n) else _arrays.on_device(q, x) for n, x in params.items()}
    return tuple(map(options.get, OPTIONS)) if options else None


def attend(
    q: Array,
    k: Array,
    v: Array | Sequence[Array],
    *,
    score: str | Formula | None = None,
    params: Mapping[str, Array | float] | None = None,
    causal: str | None = None,
    normalizer: str | None = "softmax",
    scale: float | None = None,
    softcap: float = 0.0,
    bias: Array | None = None,
    mask: Array | None = None,
    window: tuple[int, int] | None = None,
    key_lengths: Array | Sequence[int] | int | None = None,
    first_query: Array | Sequence[int] | int | None = None,
    query_starts: Array | Sequence[int] | None = None,
    key_starts: Array | Sequence[int] | None = None,
    grid: tuple[int, int] | None = None,
    rotary: int | tuple | None = None,
    first_key: int | None = None,
    return_lse: bool = False,
    threads: int | None = None,
    path: str | None = None,
) -> Any:
    """Attention: out = normalize(score(q, k)) · v, storing nothing of size queries × keys.

    q is [batch, heads, queries, dim], k and v are [batch, key heads, keys, dim]; leading dimensions may be omitted, a batch
    size or head count of 1 is broadcast, and the key heads divide the heads. Strides are free, rows are contiguous. The result
    is of the same kind as q: NumPy arrays give NumPy arrays; PyTorch tensors are differentiable; JAX arrays may be traced.

    score        name of a mechanism, default scaled_dot (`rapt.mechanisms()` lists them), or a `rapt.formula`
    params       its parameters, settings, and those of the normaliser, by name: arrays or numbers
    causal       "top_left" or "bottom_right"
    normalizer   `rapt.normalizers()` lists them
    scale        replaces 1/√dim, or 1 where the mechanism has none
    softcap      c > 0: the score becomes c·tanh(score/c)
    bias         added to the scores, [batch or 1, heads or 1, queries or 1, keys]
    mask         booleans of the same shape, true = attend
    window       (left, right) around the query's position; a negative number means no limit
    key_lengths  keys at and beyond it are hidden: one number, or one per batch
    first_query  query i is at position first_query + i: one number, or one per batch
    query_starts, key_starts   packed sequences: the start of each, and the end
    grid         (rows, columns), for mechanisms on a grid
    rotary       dims, or (dims, base, interleaved): rotary position encoding of q and k
    first_key    key j is at position first_key + j, where the keys are part of a longer sequence
    return_lse   (out, lse) instead of out; lse is [batch, heads, queries]
    threads      default all processors, or PyTorch's number if it is loaded
    path         "reference" stores the scores, for checking; "generic" avoids specialised paths

    Several value sets under one set of weights: v=[v1, v2] gives [out1, out2].

    >>> import numpy as np, rapt
    >>> q = np.random.rand(2, 8, 100, 64).astype(np.float32)
    >>> rapt.attend(q, q, q, score="alibi", params={"m": [0.5] * 8}, causal="top_left").shape
    (2, 8, 100, 64)
    """
    if score.__class__ is Formula:
        score = score.encoded
    if (scale is not None and scale.__class__ is not float) or softcap.__class__ is not float:
        _arrays.refuse_learned("attend", scale=scale, softcap=softcap)
    packed = (
        score, params, normalizer, causal, scale, softcap, bias, mask, window, key_lengths, first_query, first_key,
        query_starts, key_starts, grid, rotary, threads, path, None,
    )  # fmt: skip
    if type(q) is _ndarray:
        if type(k) is not _ndarray or type(v) is not _ndarray or params is not None or bias is not None:
            _arrays.refuse_learning("attend", v, k=k, bias=bias, params=params)
            if "torch" in sys.modules:
                k, v, packed = _plain(k), _plain_sets(v), _plain_packed(packed)
        if not return_lse:
            return _core.attend(q, k, v, _numpy_empty, packed)
        return _core.forward("attend", q, k, v, _numpy_empty, _LSE, packed)[:2]
    for kind, function in _libraries:
        if isinstance(q, kind):
            return function(q, k, v, packed, return_lse)
    if _arrays.is_torch(q):
        return _add_torch()(q, k, v, packed, return_lse)
    if _arrays.is_jax(q):
        _add_jax()
        return _libraries[-1][1](q, k, v, packed, return_lse)
    _arrays.refuse_learning("attend", v, k=k, bias=bias, params=params)
    if _arrays.is_cupy(q):
        packed = pack("attend", {name: x for name, x in zip(OPTIONS, packed) if x is not None}, q)
    allocate, finish = _arrays.allocator(q)
    out, lse = _core.forward("attend", q, k, v, allocate, _LSE if return_lse else 0, packed)[:2]
    out = [finish(one) for one in out] if isinstance(out, list) else finish(out)
    return (out, finish(lse)) if return_lse else out


_with_options = shown(attend)

# Libraries that trace calls, as they are first met: (class of their arrays, their attend). torch.compile follows this list.
_libraries: list = []


def _add_torch():
    from .torch import _attend  # adds itself; torch.compile has read the list before

    return _attend


def _add_jax():
    from . import jax  # noqa: F401  adds itself


_plain = _arrays.plain


def _plain_sets(v):
    return [_plain(one) for one in v] if isinstance(v, (list, tuple)) else _plain(v)


def _plain_packed(packed):
    return tuple(_detached(dict(zip(OPTIONS, packed))).values())


def _detached(options):
    result = {name: _plain(value) for name, value in options.items()}
    params = options.get("params")
    if params and hasattr(params, "keys"):  # another kind is refused with the engine's sentence
        result["params"] = {name: _plain(params[name]) for name in params.keys()}
    return result


def _place(value, name):
    """An integer that the library's indices hold, and one more does too."""
    try:
        place = operator.index(value)
    except TypeError:
        raise TypeError(f"weights: {name}: expected an integer, a slice of integers, or None, got {value!r}") from None
    if not -(2**63) < place < 2**63 - 1:
        raise ValueError(f"weights: {name}: expected an integer of 64 bits, got {place}")
    return place


def _range(index, name):
    """(begin, end, dropped) of an index, a slice or None; an end of −1 is everything."""
    if index is None:
        return 0, -1, False
    if isinstance(index, slice):
        if index.step not in (None, 1):
            raise ValueError(f"weights: {name}: expected a slice with a step of 1, got {index.step}")
        begin, end = _place(index.start or 0, name), -1 if index.stop is None else _place(index.stop, name)
        if begin < 0 or (index.stop is not None and end < 0):
            raise ValueError(f"weights: {name}: expected a slice from 0, got {index}")
        return begin, end, False
    index = _place(index, name)
    if index < 0:
        raise ValueError(f"weights: {name}: expected 0 or more, got {index}")
    return index, index + 1, True


@_with_options
def weights(
    q: Array,
    k: Array,
    *,
    batch: int | slice | None = None,
    head: int | slice | None = None,
    rows: int | slice | None = None,
    v: Array | None = None,
    **options: Unpack[Options],
) -> Any:
    """The weights of chosen batches, heads and rows, from the fused pass: nothing else of their size is stored.

    batch, head and rows are each an integer, a slice, or None for all. Integers drop their dimension, so
    `weights(q, k, batch=0, head=3, rows=slice(0, 8))` is [8, keys]. Other options are those of `attend`. The numbers are
    float64 for float64 inputs, else float32. Tensors of PyTorch have no gradient here.

    >>> import numpy as np, rapt
    >>> q = np.random.rand(1, 4, 16, 8)
    >>> rapt.weights(q, q, batch=0, head=3, rows=slice(0, 8)).shape
    (8, 16)
    """
    options = _detached(options)
    ranges = [_range(batch, "batch"), _range(head, "head"), _range(rows, "rows")]
    limits = [n for begin, end, _ in ranges for n in (begin, end)]
    allocate, finish = _arrays.allocator(q)
    result = _core.weights(_plain(q), _plain(k), _plain(v), allocate, limits, pack("weights", options, q))
    return finish(result)[tuple(0 if dropped else slice(None) for _, _, dropped in ranges)]


class Statistics(NamedTuple):
    """Facts about each row of weights, each [batch, heads, queries] and what follows.

    >>> import numpy as np, rapt
    >>> q = np.random.rand(1, 4, 16, 8)
    >>> facts = rapt.statistics(q, q, positions_on=(4, 4))
    >>> facts.entropy.shape, facts["position"].shape, facts.covariance.shape
    ((1, 4, 16), (1, 4, 16, 2), (1, 4, 16, 2, 2))
    """

    entropy: Any  # in nats
    argmax: Any  # key of the largest score, the first of equals; −1 where nothing is visible
    position: Any  # expected key position; on a grid [.., 2]
    covariance: Any  # of it; on a grid [.., 2, 2]
    lse: Any
    top_indices: Any = None  # [.., top_k], largest first
    top_weights: Any = None

    def __getitem__(self, name):  # by name too: facts["entropy"]
        return getattr(self, name) if isinstance(name, str) else tuple.__getitem__(self, name)


@_with_options
def statistics(
    q: Array,
    k: Array,
    *,
    top_k: int = 0,
    v: Array | None = None,
    positions_on: tuple[int, int] | None = None,
    **options: Unpack[Options],
) -> Statistics:
    """Entropy, arg-max, expected position and its covariance, lse and the top k keys of every row, in linear memory.

    positions_on=(rows, columns): positions are places on a grid; the option `grid` says so too. Others are those of `attend`.
    Tensors of PyTorch have no gradient here.

    >>> import numpy as np, rapt
    >>> q = np.random.rand(1, 4, 16, 8)
    >>> rapt.statistics(q, q, top_k=2).top_indices.shape
    (1, 4, 16, 2)
    """
    options = _detached(options)
    grid = list(positions_on or options.get("grid") or [])
    allocate, finish = _arrays.allocator(q)
    found = _core.statistics(
        _plain(q), _plain(k), _plain(v), allocate, _arrays.integers(q), top_k, grid, pack("statistics", options, q)
    )
    if grid:
        found["covariance"] = found["covariance"].reshape(*found["covariance"].shape[:-1], 2, 2)
    return Statistics(**{name: finish(value) for name, value in found.items()})


@_with_options
def gradients(
    q: Array,
    k: Array,
    v: Array | Sequence[Array],
    grad_out: Array | Sequence[Array],
    *,
    grad_lse: Array | None = None,
    **options: Unpack[Options],
) -> tuple[Array, Array, Any, dict[str, Array]]:
    """(dq, dk, dv, d) of a loss whose gradient with respect to out is grad_out; d["bias"] and d[name of a parameter] are the
    others. Options are those of `attend`; grad_lse, [batch, heads, queries], is the loss's gradient of lse.

    >>> import numpy as np, rapt
    >>> q = np.random.rand(1, 2, 5, 8)
    >>> dq, dk, dv, d = rapt.gradients(q, q, q, np.ones_like(q), score="alibi", params={"m": [0.5, 0.25]})
    >>> d["m"].shape
    (2,)
    """
    grad_lse = _plain(grad_lse)
    packed = pack("gradients", _detached(options), q)
    allocate, finish = _arrays.allocator(q)
    sets, grad_out = _plain_sets(v), _plain_sets(grad_out)
    q, k = _plain(q), _plain(k)
    out, _, _, _, saved = _core.forward("gradients", q, k, sets, allocate, _SAVED, packed)
    want = (True, True, True, True, None)
    dq, dk, dv, dbias, found = _core.backward(q, k, sets, out, grad_out, saved, grad_lse, want, allocate, packed)
    found = {name: finish(value) for name, value in found.items()}
    if dbias is not None:
        found["bias"] = finish(dbias)
    dv = [finish(one) for one in dv] if isinstance(dv, list) else finish(dv)
    return finish(dq), finish(dk), dv, found


class Partial(NamedTuple):
    """Attention over a part of the keys: what `merge` needs to put parts together.

    >>> import numpy as np, rapt
    >>> q = np.random.rand(1, 2, 5, 8)
    >>> part = rapt.partial(q, q, q)
    >>> part.out.shape, part.row_max.shape, np.allclose(part.lse, rapt.attend(q, q, q, return_lse=True)[1])
    ((1, 2, 5, 8), (1, 2, 5), True)
    """

    out: Any  # [batch, heads, queries, dim]
    row_max: Any  # [batch, heads, queries]
    row_sum: Any

    @property
    def lse(self):
        """log Σ exp(score) of this part."""
        if _arrays.is_torch(self.row_max):
            return self.row_max + self.row_sum.log()
        with np.errstate(divide="ignore"):
            return self.row_max + np.log(self.row_sum)


@_with_options
def partial(q: Array, k: Array, v: Array, *, first_key: int = 0, **options: Unpack[PartOptions]) -> Partial:
    """Attention over part of the keys, the first of which is at position first_key, under softmax. Options are those of `attend`.

    The result has no gradient, which is said once by a RuntimeWarning where tensors that learn are given.

    >>> import numpy as np, rapt
    >>> q = np.random.rand(1, 2, 5, 8); k = np.random.rand(1, 2, 20, 8)
    >>> parts = [rapt.partial(q, k[:, :, a : a + 10], k[:, :, a : a + 10], first_key=a) for a in (0, 10)]
    >>> np.allclose(rapt.merge(parts).out, rapt.attend(q, k, k))
    True
    """
    options = _detached(options)
    options["first_key"] = first_key
    _arrays.warn_of_gradients("partial", q, k, v)
    allocate, finish = _arrays.allocator(q)
    found = _core.forward("partial", _plain(q), _plain(k), _plain(v), allocate, _PARTS, pack("partial", options, q))
    return Partial(finish(found[0]), finish(found[2]), finish(found[3]))


def merge(parts: Sequence[Partial]) -> Partial:
    """The whole of its parts, merged in their order: exact to rounding, the same bits for any number of threads.

    Neither parts nor the whole have gradients.

    >>> import numpy as np, rapt
    >>> q = np.random.rand(1, 2, 5, 8)  # [batch, heads, queries, dim]
    >>> parts = [rapt.partial(q, q[:, :, a:b], q[:, :, a:b], first_key=a) for a, b in ((0, 3), (3, 5))]
    >>> np.allclose(rapt.merge(parts).out, rapt.attend(q, q, q))
    True
    """
    try:
        parts = list(parts)
        _arrays.warn_of_gradients("merge", *(array for part in parts for array in part))
        parts = [tuple(_plain(array) for array in part) for part in parts]
    except TypeError:
        raise TypeError("merge: parts: expected a list of what rapt.partial gave, got something else") from None
    if not parts:
        raise ValueError("merge: parts: expected at least one, got none")
    allocate, finish = _arrays.allocator(parts[0][0])
    return Partial(*map(finish, _core.merge(parts, allocate)[:3]))


def _refuse_views(**arrays):
    """Plans keep addresses, where a view of negated numbers has others than those it stands for."""
    arrays.update(arrays.get("params") or {})
    for name, value in arrays.items():
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if _arrays.is_torch(one) and (one.is_neg() or one.is_conj()):
                raise ValueError(f"Plan: {name}: expected a tensor of its own numbers, got a view of negated ones; resolve_neg() copies it")


class Plan:
    """A prepared call: checked once, run many times, allocating nothing.

    Arrays of a run have the shape, type and strides of those the plan was made with; what is not given is as it was.
    The result is the same array every time, unless out is given. One run at a time; on a GPU all on one stream.

    >>> import numpy as np, rapt
    >>> k = np.random.rand(1, 2, 64, 8); q = np.random.rand(1, 2, 1, 8)
    >>> plan = rapt.Plan(q, k, k, causal="top_left", key_lengths=1)
    >>> for step in range(64):
    ...     out = plan.run(q, key_lengths=step + 1, first_query=step)
    """

    @_with_options
    def __init__(self, q: Array, k: Array, v: Array | Sequence[Array], **options: Unpack[Options]):
        _refuse_views(q=q, k=k, v=v, **options)
        sets = _plain_sets(v)
        allocate, self._finish = _arrays.allocator(q)
        self._plan = _core.Plan(_plain(q), _plain(k), sets, allocate, pack("Plan", _detached(options), q))
        self._stream, self._like = _arrays.stream_of(q), q if _arrays.stream_of(q) is not None else None

    def run(
        self, q=None, k=None, v=None, *, key_lengths=None, first_query=None, bias=None, mask=None, out=None
    ) -> Any:
        if self._like is not None and _arrays.stream_of(self._like) != self._stream:
            raise ValueError("Plan: run: expected the stream that was current when the plan was made, got another")
        for one in (q, k, v, bias, mask, out):
            if one is not None and one.__class__ is not _ndarray:
                _refuse_views(q=q, k=k, v=v, bias=bias, mask=mask, out=out)
                break
        result = self._plan.run(q, k, v, key_lengths, first_query, bias, mask, out)
        return [self._finish(one) for one in result] if isinstance(result, list) else self._finish(result)

    def __reduce__(self):
        raise TypeError("Plan: expected to stay in its process, as it holds addresses; make one in each")


class Info(str):
    """A name with what is known of it: info.formula, info["parameters"]."""

    def __new__(cls, known):
        self = str.__new__(cls, known["name"])
        self.__dict__.update(known)
        return self

    def __getitem__(self, key):
        return self.__dict__[key] if isinstance(key, str) else str.__getitem__(self, key)

    def __reduce__(self):
        return Info, (dict(self.__dict__),)


def mechanisms() -> list[Info]:
    """The names of all mechanisms, each with its formula, parameters, settings, and whether it needs a grid.

    >>> import rapt
    >>> "alibi" in rapt.mechanisms(), [m.formula for m in rapt.mechanisms()][0]
    (True, 'q·k')
    """
    return [Info(known) for known in _core.mechanisms()]


def normalizers() -> list[Info]:
    """The names of all normalisers, each with its formula and parameters.

    >>> import rapt
    >>> "sparsemax" in rapt.normalizers(), [parameter["name"] for parameter in rapt.normalizers()[0].parameters]
    (True, ['sink'])
    """
    return [Info(known) for known in _core.normalizers()]


def set_threads(threads: int) -> None:
    """How many threads work when a call does not say. Where PyTorch is loaded, torch.set_num_threads says it.

    >>> import rapt
    >>> before = rapt.threads()
    >>> rapt.set_threads(2)
    >>> rapt.set_threads(before)
    """
    if not hasattr(threads, "__index__"):
        raise TypeError(f"set_threads: expected an integer, got {threads!r}")
    count = threads.__index__()
    if not 1 <= count < 2**31:
        raise ValueError(f"set_threads: expected 1 to 2147483647, got {count}")
    _core.set_default_threads(count)


def use_host_threads(run: int | None) -> None:
    """Lends a program's own threads to every call. None: Rapt's own threads again.

    `run` is the address of a C function `void run(int workers, void (*work)(void *job, int worker), void *job)` that calls work(job, worker)
    once for each worker in [0, workers), at the same time or one after the other, and then returns (ctypes.cast(f, ctypes.c_void_p).value).
    It is called without Python's lock and has to stay there until other threads are lent.

    >>> import ctypes, numpy as np, rapt
    >>> Work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
    >>> @ctypes.CFUNCTYPE(None, ctypes.c_int, Work, ctypes.c_void_p)
    ... def one_after_the_other(workers, work, job):
    ...     for worker in range(workers):
    ...         work(job, worker)
    >>> rapt.use_host_threads(ctypes.cast(one_after_the_other, ctypes.c_void_p).value)
    >>> out = rapt.attend(*np.random.rand(3, 1, 2, 5, 8))
    >>> rapt.use_host_threads(None)
    """
    if run is None:
        _core.use_own_threads()
    elif isinstance(run, int) and run > 0:
        _core.use_host_threads(run)
    else:
        raise TypeError(f"use_host_threads: expected the address of a C function or None, got {run!r}")


def use_openmp_threads(folder: str = "") -> bool:
    """Lends the threads of an OpenMP runtime that the process has loaded, first of all one from `folder`. False: there is none.

    Importing rapt.torch does this with PyTorch's runtime.

    >>> import rapt
    >>> if not rapt.use_openmp_threads():
    ...     rapt.use_host_threads(None)  # Rapt's own
    """
    if not isinstance(folder, str):
        raise TypeError(f"use_openmp_threads: expected the path of a folder, got {folder!r}")
    return _core.use_openmp_threads(folder)


def threads() -> int:
    """How many threads work when a call does not say: those that were lent, or those of `set_threads`.

    >>> import rapt
    >>> rapt.threads() >= 1
    True
    """
    return _core.lent_threads() or _core.default_threads()
