"""PyTorch's side of a call: the operators rapt::attend and rapt::attend_backward for graphs, and a short way for eager calls."""

import copy
import math
import os
import re
from typing import Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .. import _attend as _api
from .. import _core
from . import _options
from ._options import BIAS, COUNT, FIRST_AT, FIRST_QUERY, KEY_LENGTHS, LENGTHS_AT, MASK, NAMES, NORMALIZER, PARAMS, SCHEMA, SCORE

_LSE, _SAVED = 1, 4
_TWICE = "attend: expected one differentiation, got two: a gradient of a gradient is not computed"

# Rapt works on the threads that PyTorch computes on, and on as many: two pools would fight for the processors.
_core.use_openmp(os.path.dirname(torch.__file__), torch.get_num_threads)


def _empty_like(q):
    if q.is_cpu:
        return _cpu_empty
    device = q.device
    return lambda shape, name: torch.empty(shape, dtype=getattr(torch, name), device=device)


_TYPES = {name: getattr(torch, name) for name in ("float32", "float64", "float16", "bfloat16")}
_default_type = torch.get_default_dtype
_function_modes = torch._C._len_torch_function_stack


def _cpu_empty(shape, name):
    dtype = _TYPES[name]
    if shape and dtype is _default_type() and _function_modes() == 0:  # no default device either: the shortest way
        return torch.empty(*shape)
    return torch.empty(shape, dtype=dtype, device="cpu")


# PyTorch's attention gives its result in the order of q, so that the heads of a position can be joined without a copy.
def _joins_heads(q):
    """Whether q is [batch, positions, heads, dim] in memory, as after a projection."""
    return q.dim() == 4 and q.shape[1] > 1 and q.shape[2] > 1 and q.stride(1) < q.stride(2)


def _joined_empty(shape, dtype, device):
    return torch.empty((shape[0], shape[2], shape[1], shape[3]), dtype=dtype, device=device).transpose(1, 2)


def _contiguous_empty(shape, dtype, device):
    return torch.empty(shape, dtype=dtype, device=device)


def _allocator(q, count=None):
    """Allocates outputs in the order of q; of gradients the first `count`, which are those of q, k and v."""
    if not _joins_heads(q):
        return _empty_like(q)
    plain, device = _empty_like(q), q.device
    left = [2**62 if count is None else count]

    def allocate(shape, name):
        left[0] -= 1
        return _joined_empty(shape, _TYPES[name], device) if len(shape) == 4 and left[0] >= 0 else plain(shape, name)

    return allocate


def _with_stream(q, packed):
    if not q.is_cuda:
        return packed
    return packed[:-1] + (torch.cuda.current_stream(q.device).cuda_stream,)


def _readable(grad_out, grad_lse):
    """Gradients with contiguous rows: those of a sum are one number, expanded. What is marked as negated becomes so."""
    grad_out = [(g.contiguous() if g.stride(-1) != 1 else g).resolve_neg() for g in grad_out]
    return grad_out, None if grad_lse is None else grad_lse.contiguous().resolve_neg()


# Shapes, as rapt._core computes them.
def _out_shapes(q, k, v) -> Tuple[list, list, torch.dtype, torch.dtype]:
    """(shapes of the outputs, shape of lse, type of the outputs, type of computation)."""
    inputs = [q, k, *v]
    rank = max(x.dim() for x in inputs)
    size = lambda x, n: x.shape[n] if x.dim() >= -n else 1
    batch, heads = 1, 1
    for x in inputs:
        batch = size(x, -4) if batch == 1 else batch
        heads = size(x, -3) if heads == 1 else heads
    if size(q, -3) != 1:
        heads = size(q, -3)
    lead = [batch, heads][4 - rank :] if rank < 4 else [batch, heads]
    compute = torch.float64 if any(x.dtype == torch.float64 for x in inputs) else torch.float32
    same = all(x.dtype == q.dtype for x in inputs)
    rows = lead + [q.shape[-2]]
    return [rows + [x.shape[-1]] for x in v], rows, q.dtype if same else compute, compute


def _remainder_columns(device, outs):
    """Of what rounding takes from an output of 16 bits, which GPUs keep."""
    return outs[0].shape[-1] if device.type == "cuda" and len(outs) == 1 and outs[0].element_size() == 2 else 0


def _rows_shape(device, outs):
    """Two numbers a row, [2, …]; one dimension where a remainder is behind them."""
    rows, columns = outs[0].shape[:-1], _remainder_columns(device, outs)
    return [_device_floats(math.prod(rows), columns)] if columns else [2, *rows]


def _device_floats(count, columns):
    """As rapt._core.device_floats, of sizes that may be symbolic."""
    return (2 * count + 3) // 4 * 4 + (count * columns + 1) // 2


@torch.library.custom_op("rapt::attend", mutates_args=(), schema=f"(Tensor q, Tensor k, Tensor[] v, {SCHEMA}) -> Tensor[]")
def attend_op(q, k, v, *arguments):
    """[out of each value set, lse, and what `_rows_shape` says of every row for the backward pass]."""
    packed = _with_stream(q, _options.to_packed(arguments))
    outs, lse, _, _, saved = _core.forward("attend", q, k, list(v), _allocator(q), _LSE | _SAVED, packed)
    if q.is_cuda:
        return [*outs, lse, saved.memory.view(_rows_shape(q.device, outs))]
    rows = torch.empty((2, *lse.shape), dtype=lse.dtype, device="cpu")
    saved.store(rows.view(2, lse.numel()))
    return [*outs, lse, rows]


@attend_op.register_fake
def _(q, k, v, *arguments):
    shapes, rows, dtype, compute = _out_shapes(q, k, v)
    joins = _joins_heads(q)
    outs = [_joined_empty(s, dtype, q.device) if joins and len(s) == 4 else q.new_empty(s, dtype=dtype) for s in shapes]
    return outs + [q.new_empty(rows, dtype=compute), q.new_empty(_rows_shape(q.device, outs), dtype=compute)]


def _without_lse(grad_out, grad_lse):
    """Graphs give zeros for what nobody used. Another gradient of this lse is refused; on a GPU, where asking would wait for
    it, the rows that have one get NaN."""
    if grad_lse.is_cuda:
        return [grad_out[0].masked_fill((grad_lse != 0).unsqueeze(-1), torch.nan), *grad_out[1:]], None
    return grad_out, grad_lse if grad_lse.any() else None


@torch.library.custom_op(
    "rapt::attend_backward",
    mutates_args=(),
    schema="(Tensor[] grad_out, Tensor? grad_lse, Tensor[] out, Tensor rows, Tensor q, Tensor k, "
    f"Tensor[] v, {SCHEMA}) -> Tensor[]",
)
def backward_op(grad_out, grad_lse, out, rows, q, k, v, *arguments):
    """[dq, dk, dv…, dbias where there is one, gradient of each parameter]."""
    saved = _core.Saved()
    saved.load(rows.contiguous(), math.prod(out[0].shape[:-1]), _remainder_columns(q.device, out))
    packed = _with_stream(q, _options.to_packed(arguments))
    want = (True, True, True, True, None)
    grad_out, grad_lse = _readable(grad_out, grad_lse)
    if grad_lse is not None and arguments[NORMALIZER] != "softmax":
        grad_out, grad_lse = _without_lse(grad_out, grad_lse)
    dq, dk, dv, dbias, found = _core.backward(
        q, k, list(v), list(out), grad_out, saved, grad_lse, want, _allocator(q, 2 + len(v)), packed
    )
    return [dq, dk, *dv] + ([] if dbias is None else [dbias]) + [found[name] for name in _options.names_of(arguments[NAMES])]


@backward_op.register_fake
def _(grad_out, grad_lse, out, rows, q, k, v, *arguments):
    like = [q, k, *v] + ([] if arguments[BIAS] is None else [arguments[BIAS]]) + list(arguments[PARAMS])
    joins = 2 + len(v) if _joins_heads(q) else 0
    empty = [_joined_empty if n < joins and x.dim() == 4 else _contiguous_empty for n, x in enumerate(like)]
    return [make(x.shape, x.dtype, x.device) for make, x in zip(empty, like)]


def _setup_context(ctx, inputs, output):
    q, k, v, *arguments = inputs
    sets, params = len(v), arguments[PARAMS]
    ctx.sets, ctx.params = sets, len(params)
    tensors = [arguments[n] for n in (BIAS, MASK, LENGTHS_AT, FIRST_AT)]
    ctx.save_for_backward(q, k, *v, *params, *tensors, *output[:sets], output[sets + 1])
    ctx.arguments = [None if n in (BIAS, MASK, LENGTHS_AT, FIRST_AT, PARAMS) else a for n, a in enumerate(arguments)]
    ctx.mark_non_differentiable(output[sets + 1])
    ctx.set_materialize_grads(False)


def _backward(ctx, grads):
    sets = ctx.sets
    saved = list(ctx.saved_tensors)
    q, k, v = saved[0], saved[1], saved[2 : 2 + sets]
    params = saved[2 + sets : 2 + sets + ctx.params]
    rest = saved[2 + sets + ctx.params :]
    arguments = list(ctx.arguments)
    arguments[PARAMS] = params
    for n, tensor in zip((BIAS, MASK, LENGTHS_AT, FIRST_AT), rest):
        arguments[n] = tensor
    out, rows = rest[4 : 4 + sets], rest[4 + sets]
    grad_out = [torch.zeros_like(o) if g is None else g for o, g in zip(out, grads)]
    found = torch.ops.rapt.attend_backward(grad_out, grads[sets], out, rows, q, k, v, *arguments)
    dq, dk, dv, found = found[0], found[1], found[2 : 2 + sets], found[2 + sets :]
    tail = [None] * COUNT
    if arguments[BIAS] is not None:
        tail[BIAS], found = found[0], found[1:]
    tail[PARAMS] = list(found)
    return (dq, dk, list(dv), *tail)


def _refuse(ctx, *grads):
    raise RuntimeError(_TWICE)


attend_op.register_autograd(_backward, setup_context=_setup_context)
backward_op.register_autograd(_refuse, setup_context=lambda ctx, inputs, output: None)


def _four(x, dim):
    """[N?, B, H, S, D] of a tensor with the vmapped dimension at `dim`, or without one."""
    if x is None:
        return None, False
    mapped = dim is not None
    if mapped:
        x = x.movedim(dim, 0)
    while x.dim() < (5 if mapped else 4):
        x = x.unsqueeze(1 if mapped else 0)
    return x if x.shape[-1] <= 1 or x.stride(-1) == 1 else x.contiguous(), mapped


def _fold(x, mapped, count, batch):
    """The vmapped dimension becomes part of the batch; what is the same for all stays a batch of one."""
    if x is None or (not mapped and x.shape[0] == 1):
        return x
    if not mapped:
        x = x.unsqueeze(0).expand(count, *x.shape)
    elif x.shape[1] == 1 and batch > 1:
        x = x.expand(-1, batch, -1, -1, -1)
    return x.reshape(count * x.shape[1], *x.shape[2:])


def _rows_of_each(rows, out, count):
    """Statistics of rows with a remainder behind them: [count, …], as `count` calls would have made them."""
    size, columns = math.prod(out.shape[:-1]), out.shape[-1]
    first = (2 * size + 3) // 4 * 4
    remainder = rows[first:].view(torch.int16)[: size * columns].view(count, -1)
    each = rows.new_zeros(count, _device_floats(size // count, columns))
    each[:, : 2 * size // count] = rows[: 2 * size].view(2, count, -1).transpose(0, 1).reshape(count, -1)
    first = each.shape[1] - (remainder.shape[1] + 1) // 2
    each[:, first:].view(torch.int16)[:, : remainder.shape[1]] = remainder
    return each


def _is_mapped(dims) -> bool:
    return any(_is_mapped(d) for d in dims) if isinstance(dims, (list, tuple)) else dims is not None


def _at(argument, dim, n):
    if isinstance(argument, (list, tuple)) and isinstance(dim, (list, tuple)):
        return [_at(a, d, n) for a, d in zip(argument, dim)]
    return argument if dim is None or isinstance(dim, (list, tuple)) else argument.select(dim, n)


def _one_by_one(op, info, in_dims, args):
    results = [op(*(_at(a, d, n) for a, d in zip(args, in_dims))) for n in range(info.batch_size)]
    return [torch.stack(tensors) for tensors in zip(*results)], [0] * len(results[0])


def _reads_batch(score) -> bool:
    """Whether the score is a formula that names the batch, which is another one where it has the vmapped dimension in it."""
    return score.startswith("\x1f") and re.search(r"\bbatch\b", score) is not None


@attend_op.register_vmap
def _(info, in_dims, *args):
    dims = in_dims[3:]
    if _is_mapped(dims[PARAMS]) or any(args[3 + n] is not None for n in (LENGTHS_AT, FIRST_AT)) or _reads_batch(args[3 + SCORE]):
        return _one_by_one(torch.ops.rapt.attend, info, in_dims, args)
    count = info.batch_size
    q, k, v = args[:3]
    arguments = list(args[3:])
    rank = max(x.dim() - (d is not None) for x, d in [(q, in_dims[0]), (k, in_dims[1]), *zip(v, in_dims[2])])
    given = [_four(q, in_dims[0]), _four(k, in_dims[1])] + [_four(x, d) for x, d in zip(v, in_dims[2])]
    given += [_four(arguments[n], dims[n]) for n in (BIAS, MASK)]
    batch = max(x.shape[1] if mapped else x.shape[0] for x, mapped in given if x is not None)
    folded = [_fold(x, mapped, count, batch) for x, mapped in given]
    if all(x.shape[0] != count * batch for x in folded[:-2]):  # only the bias or the mask is mapped
        folded[0] = folded[0].expand(count * batch, -1, -1, -1)
    for n in (KEY_LENGTHS, FIRST_QUERY):
        if arguments[n] is not None and len(arguments[n]) > 1:
            arguments[n] = list(arguments[n]) * count
    arguments[BIAS], arguments[MASK] = folded[-2:]
    results = torch.ops.rapt.attend(folded[0], folded[1], folded[2:-2], *arguments)
    unfolded, places = [], []
    for result in results:
        at = 1 if result is results[-1] else 0  # rows have their two numbers first
        if result.dim() == 1:
            unfolded.append(_rows_of_each(result, results[0], count))
            places.append(0)
            continue
        result = result.reshape(*result.shape[:at], count, batch, *result.shape[at + 1 :])
        for _ in range(4 - rank):
            result = result.squeeze(at + 1)
        unfolded.append(result)
        places.append(at)
    return unfolded, places


@backward_op.register_vmap
def _(info, in_dims, *args):
    return _one_by_one(torch.ops.rapt.attend_backward, info, in_dims, args)


class _Eager(torch.autograd.Function):
    """An eager call with gradients. The rows between the passes stay an object, and nothing is dispatched twice."""

    @staticmethod
    def forward(ctx, packed, names, sets, with_lse, *tensors):
        q, k, bias, mask = tensors[:4]
        v = tensors[4] if sets == 1 else list(tensors[4 : 4 + sets])
        ctx.packed, ctx.names, ctx.sets, ctx.with_lse = packed, names, sets, with_lse
        allocate = _allocator(q)
        if not q.is_cpu:
            packed = _with_stream(q, packed)
        want = _LSE | _SAVED if with_lse else _SAVED
        out, lse, _, _, ctx.rows = _core.forward("attend", q, k, v, allocate, want, packed)
        out = (out,) if sets == 1 else out
        ctx.save_for_backward(*tensors, *out)
        ctx.set_materialize_grads(False)
        if with_lse:
            return (*out, lse)
        return out[0] if sets == 1 else tuple(out)

    @staticmethod
    def backward(ctx, *grads):
        if torch.is_grad_enabled():  # create_graph: what follows must not be taken for a constant
            return _Once.apply(ctx, len(grads), *grads, *ctx.saved_tensors)
        many = _unwrapped(grads)
        if many is None:
            return _Eager.gradients(ctx, grads)
        count, take, give = many
        each = [_Eager.backward(ctx, *take(n)) for n in range(count)]
        return tuple(None if x[0] is None else give(torch.stack(x)) for x in zip(*each))

    @staticmethod
    def gradients(ctx, grads):
        sets, names = ctx.sets, ctx.names
        tensors = ctx.saved_tensors
        tensors, out = tensors[:-sets], tensors[-sets:]
        q, k, bias, mask = tensors[:4]
        v, params = list(tensors[4 : 4 + sets]), tensors[4 + sets :]
        packed = _with_tensors(ctx.packed, bias, mask, names, params)
        needs = ctx.needs_input_grad[4:]
        wanted = {name for name, need in zip(names, needs[4 + sets :]) if need}
        want = (needs[0], needs[1], any(needs[4 : 4 + sets]), needs[2], wanted)
        grad_out = [torch.zeros_like(o) if g is None else g for o, g in zip(out, grads)]
        grad_out, grad_lse = _readable(grad_out, grads[sets] if ctx.with_lse else None)
        allocate = _allocator(q, want[0] + want[1] + (sets if want[2] else 0))
        dq, dk, dv, dbias, found = _core.backward(
            q, k, v, list(out), grad_out, ctx.rows, grad_lse, want, allocate, _with_stream(q, packed)
        )
        dv = [None] * sets if dv is None else dv
        return (None, None, None, None, dq, dk, dbias, None, *dv, *(found.get(name) for name in names))


def _unwrapped(grads):
    """(how many, take, give) of gradients under vmap or is_grads_batched: take(n) is the n-th of each; None: they are plain."""
    functorch = torch._C._functorch
    legacy = next((g for g in grads if g is not None and functorch.is_legacy_batchedtensor(g)), None)
    found = [g for g in grads if g is not None and functorch.is_batchedtensor(g)]
    if legacy is not None:
        level = torch._C._vmapmode_increment_nesting() - 1
        torch._C._vmapmode_decrement_nesting()
        is_mapped, remove, add = functorch.is_legacy_batchedtensor, torch._remove_batch_dim, torch._add_batch_dim
    elif found:
        level = max(map(functorch.maybe_get_level, found))
        is_mapped = lambda g: functorch.is_batchedtensor(g) and functorch.maybe_get_level(g) == level
        remove, add = functorch._remove_batch_dim, functorch._add_batch_dim
    else:
        return None
    lists = [remove(g, level, 1, 0).unbind() if g is not None and is_mapped(g) else g for g in grads]
    count = next(len(x) for x in lists if isinstance(x, tuple))
    return count, lambda n: [x[n] if isinstance(x, tuple) else x for x in lists], lambda x: add(x, 0, level)


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, count, *tensors):
        return _Eager.gradients(call, tensors[:count])

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(_TWICE)


class _Functional(torch.autograd.Function):
    """A call under torch.func's grad, vjp and vmap, which an operator's own autograd does not take."""

    generate_vmap_rule = True

    @staticmethod
    def forward(arguments, sets, *tensors):
        return tuple(torch.ops.rapt.attend(*_Functional.call(arguments, sets, tensors)))

    @staticmethod
    def call(arguments, sets, tensors):
        """Arguments of the operator: q, k, the four of _TENSORS, v…, parameters… in their places."""
        given = list(arguments)
        for n, tensor in zip(_TENSORS, tensors[2:6]):
            given[n] = tensor
        given[PARAMS] = list(tensors[6 + sets :])
        return (tensors[0], tensors[1], list(tensors[6 : 6 + sets]), *given)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.arguments, ctx.sets, *tensors = inputs
        ctx.mark_non_differentiable(output[-1])
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def jvp(ctx, *tangents):
        raise RuntimeError(_ONE_MODE)

    @staticmethod
    def backward(ctx, *grads):
        sets = ctx.sets
        count = len(ctx.saved_tensors) - sets - 2
        found = list(_FunctionalBackward.apply(ctx.arguments, sets, count, *grads[: sets + 1], *ctx.saved_tensors))
        tensors = ctx.saved_tensors[:count]
        dq, dk, *found = found
        dv, found = found[:sets], found[sets:]
        dbias = None if tensors[2] is None else found.pop(0)
        return (None, None, dq, dk, dbias, None, None, None, *dv, *found)


class _FunctionalBackward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(arguments, sets, count, *given):
        grads, given = given[: sets + 1], given[sets + 1 :]
        tensors, (*out, _, rows) = given[:count], given[count:]
        call = _Functional.call(arguments, sets, tensors)
        return tuple(torch.ops.rapt.attend_backward(list(grads[:sets]), grads[sets], out, rows, *call))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(_TWICE)


def _functional(q, k, v, arguments):
    tensors = (q, k, *(arguments[n] for n in _TENSORS), *v, *arguments[PARAMS])
    static = tuple(None if n in _TENSORS or n == PARAMS else a for n, a in enumerate(arguments))
    return _Functional.apply(static, len(v), *tensors)


_TENSORS = (BIAS, MASK, LENGTHS_AT, FIRST_AT)

# Places in the packed options.
_AT = {name: n for n, name in enumerate(_api.OPTIONS)}


def _with_tensors(packed, bias, mask, names, params):
    changed = list(packed)
    changed[_AT["bias"]], changed[_AT["mask"]] = bias, mask
    if names:
        changed[_AT["params"]] = {**packed[_AT["params"]], **dict(zip(names, params))}
    return tuple(changed)


def _autocast(q, k, v):
    device = q.device.type
    if not torch.is_autocast_enabled(device):
        return q, k, v
    dtype = torch.get_autocast_dtype(device)
    cast = lambda x: x if x.dtype == torch.float64 else x.to(dtype)
    return cast(q), cast(k), [cast(x) for x in v] if isinstance(v, (list, tuple)) else cast(v)


def _result(out, lse, is_list, return_lse):
    out = list(out) if is_list else out[0]
    return (out, lse) if return_lse else out


def _through_operator(q, k, v, packed, return_lse, call):
    is_list = isinstance(v, (list, tuple))
    q, k, v = _autocast(q, k, v)
    sets = list(v) if is_list else [v]
    results = call(q, k, sets, _options.to_arguments(q, packed, (k, *sets)))
    return _result(results[: len(sets)], results[len(sets)], is_list, return_lse)


def _operator(q, k, v, arguments):
    return torch.ops.rapt.attend(q, k, v, *arguments)


_functorch_level = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_tracing = torch._C._get_tracing_state
_any_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
_grad_enabled = torch.is_grad_enabled
_BIAS, _MASK, _PARAMS = _AT["bias"], _AT["mask"], _AT["params"]


_NUMBERS = tuple(_AT[name] for name in ("key_lengths", "first_query", "query_starts", "key_starts", "window", "grid", "rotary"))
_ONE_MODE = "attend: expected gradients in reverse mode, got a tensor with a tangent, as forward-mode differentiation makes them"


def _as_tensors(q, k, v, packed):
    """Arrays of other libraries beside a tensor q become tensors."""
    packed = list(packed)
    for n, name in ((_BIAS, "bias"), (_MASK, "mask")):
        packed[n] = _options.as_tensor(packed[n], name, q)
    is_list = isinstance(v, (list, tuple))
    v = [_options.as_tensor(x, "v", q) for x in v] if is_list else _options.as_tensor(v, "v", q)
    return q, _options.as_tensor(k, "k", q), v, tuple(packed)


def _frozen(packed):
    """The options as they are now: before the backward pass their owner may write into lists and arrays."""
    packed = list(packed)
    for n in _NUMBERS:
        x = packed[n]
        if x is not None and type(x) not in (int, tuple):
            packed[n] = x.tolist() if hasattr(x, "tolist") else tuple(x) if isinstance(x, list) else x
    if packed[_PARAMS]:
        keep = lambda x: x if isinstance(x, (Tensor, float, int)) else copy.deepcopy(x)
        packed[_PARAMS] = {name: keep(x) for name, x in packed[_PARAMS].items()}
    return tuple(packed)


def _attend(q, k, v, packed, return_lse):
    is_list = isinstance(v, (list, tuple))
    if k is None or v is None:
        raise TypeError(f"attend: {'k' if k is None else 'v'}: expected an array, got None")
    params, bias, mask = packed[_PARAMS], packed[_BIAS], packed[_MASK]
    if params is not None and not hasattr(params, "items"):
        raise TypeError(f"attend: params: expected a mapping of names to arrays, got {params!r}")
    given = (q, k, bias, mask, *v) if is_list else (q, k, bias, mask, v)
    for x in given:
        if x is not None and not isinstance(x, Tensor):
            return _attend(*_as_tensors(q, k, v, packed), return_lse)
    if torch.compiler.is_compiling():
        return _through_operator(q, k, v, packed, return_lse, _operator)
    if params and q.is_cuda:
        params = {n: x if x is None or _api.is_setting(packed[0], n) else _options.parameter(x, q) for n, x in params.items()}
        packed = (*packed[:_PARAMS], params, *packed[_PARAMS + 1 :])
    tensors = {n: x for n, x in params.items() if isinstance(x, Tensor)} if params else {}
    is_plain = _dispatch_modes() == 0 and _tracing() is None
    for x in (*given, *tensors.values()) if tensors else given:
        if x is not None and (type(x) not in _PLAIN or x.is_neg()):
            is_plain = False
    if forward_ad._current_level >= 0:
        for x in (*given, *tensors.values()):
            if x is not None and forward_ad.unpack_dual(x).tangent is not None:
                raise RuntimeError(_ONE_MODE)
    if not is_plain:
        return _through_operator(q, k, v, packed, return_lse, _operator)
    if _functorch_level() is not None:
        return _through_operator(q, k, v, packed, return_lse, _functional)
    if _any_autocast():
        q, k, v = _autocast(q, k, v)
    graded = _grad_enabled() and (
        q.requires_grad
        or k.requires_grad
        or (any(x.requires_grad for x in v) if is_list else v.requires_grad)
        or (bias is not None and bias.requires_grad)
        or (params is not None and any(x.requires_grad for x in tensors.values()))
    )
    if not graded:
        allocate = _allocator(q)
        if not q.is_cpu:
            packed = _with_stream(q, packed)
        if not return_lse:
            return _core.attend(q, k, v, allocate, packed)
        return _core.forward("attend", q, k, v, allocate, _LSE, packed)[:2]
    sets = list(v) if is_list else [v]
    names = list(tensors)
    found = _Eager.apply(_frozen(packed), names, len(sets), return_lse, q, k, bias, mask, *sets, *tensors.values())
    if not return_lse and len(sets) == 1:
        return [found] if is_list else found
    return _result(found[: len(sets)], found[-1], is_list, return_lse)


_PLAIN = (Tensor, torch.nn.Parameter)
