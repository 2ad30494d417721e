"""PyTorch's flex_attention: score_mod and mask_mod are traced once and become formulas, forward and backward on every device."""

import numbers
import threading

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .. import _arrays
from .. import _attend as _api
from .._symbols import FUNCTIONS, Symbol, call, condition, limits, name_of, number, tracer_of
from .._words import counted
from ..formulas import Formula
from ._blocks import is_known, mask_mod_of
from ._compiling import may_have_gradients, value_of
from ._maximum import row_maximum
from ._others import Through, refuse_other_gradients
from ._rows import Product, Score, widened
from ._vector import Read, Vector


_BITS = {"&": torch.bitwise_and, "|": torch.bitwise_or, "^": torch.bitwise_xor, "~": torch.bitwise_not,
         "<<": torch.bitwise_left_shift, ">>": torch.bitwise_right_shift}  # fmt: skip


class _Index(Symbol):
    """An index of a mod. Formulas have no bits: what is done to those of one index becomes a table, when it is used."""

    def __init__(self, captured, name, size, values=None):
        self.captured, self.name, self.size, self.values = captured, name, size, values
        self.is_condition, self.is_whole = False, 2
        self.limits = (0, size - 1) if values is None else _limits(values)

    @property
    def text(self):
        if self.values is None:
            return self.name
        return f"{self.captured.parameter(self.values, 'bits', lambda t: t)}[{self.name}]"

    def on_bits(self, name, *given):
        known = [x for x in given if isinstance(x, _Index)]
        if any(x.name != self.name for x in known) or any(isinstance(x, Symbol) and not isinstance(x, _Index) for x in given):
            raise TypeError(f"flex_attention: {name}: expected bits of one index and of integers, got those of others")
        number = lambda x: x if not isinstance(x, _Index) else torch.arange(x.size) if x.values is None else x.values
        return _Index(self.captured, self.name, self.size, _BITS[name](*(number(x) for x in given)))

    __hash__ = object.__hash__


class _Captured(TorchFunctionMode):
    """While a mod is traced: tensors that it reads become parameters of the formula."""

    def __init__(self, heads, dtype, device):
        super().__init__()
        self.heads, self.dtype, self.device = heads, dtype, device  # dtype: of computation
        self.names = {}  # (id of the tensor, layout) → name
        self.params = {}
        self.kept = []  # the tensors
        self._graded, self.is_odd = torch.is_grad_enabled(), False  # odd: a part has a gradient of its own, or none

    def wrote(self):
        """A symbol was written: without gradients where a Function of autograd computes, whose gradient is its own."""
        self.is_odd = self.is_odd or torch.is_grad_enabled() != self._graded

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = options or {}
        name = name_of(function)
        if name == "__getitem__" and isinstance(arguments[0], Tensor):
            indices = arguments[1] if isinstance(arguments[1], tuple) else (arguments[1],)
            if any(isinstance(p, (Symbol, Read)) for p in indices):
                return self.read(arguments[0], indices)
        if name in ("dot", "vdot", "inner") and len(arguments) == 2 and all(isinstance(x, Read) for x in arguments):
            return Product(*arguments)
        if any(isinstance(x, (Read, Vector)) for x in arguments):
            return Vector.__torch_function__(function, types, arguments, options)
        symbolic = lambda x: isinstance(x, Symbol) or (isinstance(x, (list, tuple)) and any(map(symbolic, x)))
        if not any(symbolic(x) for x in arguments) and not any(symbolic(x) for x in options.values()):
            return function(*arguments, **options)
        if name.startswith("ops.") and not options:
            found = Through(self.__torch_function__).call(function, arguments)
            if found is not None:
                self.is_odd = True
                return found
        if name not in FUNCTIONS:
            raise TypeError(f"flex_attention: expected a function that formulas have, got torch.{name}")
        return call(name, arguments, options)

    def type_of(self, symbol):
        return torch.bool if symbol.is_condition else torch.int64 if symbol.is_whole == 2 else self.dtype

    def parameter(self, tensor, key, shaped):
        """The name of a parameter; the same tensor in the same layout is one."""
        if (id(tensor), key) not in self.names:
            name = f"captured_{len(self.names):03}"  # none is the beginning of another
            self.names[id(tensor), key] = name
            self.kept.append(tensor)
            value = shaped(tensor)
            self.params[name] = value if value.is_floating_point() else _exact(value, self.dtype)
        return self.names[id(tensor), key]

    def symbol(self, tensor):
        """A captured number."""
        if tensor.numel() != 1:
            raise TypeError(f"flex_attention: expected a captured number or one that is indexed, got shape {list(tensor.shape)}")
        found = Symbol(self.parameter(tensor, "number", lambda t: t.reshape(1)), is_whole=0 if tensor.is_floating_point() else 2)
        return Symbol(condition(found), True) if tensor.dtype == torch.bool else found

    def read(self, tensor, indices):
        if len(indices) > tensor.dim():
            raise IndexError(f"flex_attention: expected {counted(tensor.dim(), 'index', 'indices')} in a captured tensor, got {len(indices)}")
        if any(isinstance(p, slice) or p is None or p is Ellipsis for p in indices):
            raise TypeError("flex_attention: expected an index for every dimension of a captured tensor, got a slice")
        if len(indices) < tensor.dim():
            return Read(self, tensor, indices)
        texts = [number(_counted(p, size)) for p, size in zip(indices, tensor.shape)]
        # A dimension that is read at the head itself becomes the parameter's own; of the others two may stay.
        at_head = next((n for n, text in enumerate(texts) if text == "head" and tensor.shape[n] == self.heads), None)
        rest = [n for n in range(tensor.dim()) if n != at_head]
        order = ([] if at_head is None else [at_head]) + rest
        lead = [] if at_head is None else [self.heads]
        sizes = [tensor.shape[n] for n in rest]
        inner = texts if at_head is None else [t for n, t in enumerate(texts) if n != at_head]
        flat = sizes if len(rest) <= 2 else [-1, sizes[-1]]
        name = self.parameter(tensor, (tuple(order), tuple(flat)), lambda t: t.permute(order).reshape(lead + flat).contiguous())
        if len(inner) > 2:  # row by row
            row = inner[0]
            within = [limits(p) for n, p in enumerate(indices) if n != at_head]
            for size, text, (low, high) in zip(sizes[1:-1], inner[1:-1], within[1:-1]):
                # An index that is too large must not be one of the next row.
                text = text if -size <= low and high < size else f"where({text} >= 0 and {text} < {size}, {text}, inf)"
                row = f"({row})*{size} + {text}"
            inner = [row, inner[-1]]
        text = f"{name}[{', '.join(inner)}]" if inner else name
        found = Symbol(text, is_whole=0 if tensor.is_floating_point() else 2, limits=_limits(tensor))
        return Symbol(f"({found.text} != 0)", True) if tensor.dtype == torch.bool else found


def _limits(tensor):
    """What captured integers lie between, where they can be read at once."""
    if tensor.dtype == torch.uint8:
        return 0, 255
    if tensor.is_floating_point() or tensor.dtype == torch.bool or not is_known(tensor) or not tensor.is_cpu or not tensor.numel():
        return Symbol.limits
    least, most = tensor.aminmax()
    return least.item(), most.item()


def _counted(index, size):
    """A negative index counts from the end."""
    low, _ = limits(index)
    if low >= 0:
        return index
    if isinstance(index, Symbol):
        text = number(index)
        return Symbol(f"({text} + where({text} < 0, {size}, 0))", is_whole=index.is_whole)
    if isinstance(index, numbers.Integral) and low < -size:
        raise IndexError(f"flex_attention: expected an index of a captured tensor from {-size} to {size - 1}, got {index}")
    return index + size if isinstance(index, numbers.Integral) else index


def _exact(integers, dtype):
    """Captured integers as numbers of computation, where those hold them: others would become equal to their neighbours."""
    limit = 2**24 if dtype == torch.float32 else 2**53
    if integers.dtype != torch.bool and torch.iinfo(integers.dtype).max > limit and integers.numel():
        wrong = (
            f"flex_attention: expected captured integers within ±{limit}, which {str(dtype)[6:]} holds, got larger ones; "
            "torch.unique(x, return_inverse=True)[1] numbers them anew"
        )
        sized = integers if integers.dtype.is_signed else integers.to(torch.float64)
        fit = ((sized <= limit) & (sized >= -limit)).all()
        if torch.compiler.is_compiling():  # the numbers are known when the graph runs
            torch._assert_async(fit, wrong)
        elif not fit:
            raise ValueError(wrong)
    return integers.to(dtype)


_INDICES = ("batch", "head", "i", "j")


def trace(score_mod, mask_mod, sizes, dtype, device, captured=None):
    """(formula, parameters, products of captured rows) of PyTorch's two functions. sizes: batch, heads, queries, keys; dtype is that of computation."""
    captured = _Captured(sizes[1], dtype, device) if captured is None else captured
    is_compiling = torch.compiler.is_compiling()
    if score_mod is not None and torch.compiler.is_dynamo_compiling() and torch.is_grad_enabled():
        from torch._dynamo.comptime import comptime

        comptime(_check_while_compiling)  # now, and not in the graph
    score, visible, used = _texts(score_mod, mask_mod, sizes, captured, 0 if is_compiling else threading.get_ident())
    if captured.is_odd and score_mod is not None and torch.is_grad_enabled() and not is_compiling:
        refuse_other_gradients(score_mod, device)
    params = {name: value for name, value in captured.params.items() if name in score or name in visible}  # others were read in vain
    return Formula(score, "", visible), params, used[0] if used else ()


def _check_while_compiling(context):
    """Refuses what refuse_other_gradients does, of the score_mod of `trace`, which Dynamo is tracing."""
    variable = lambda name: context.get_local(name)._i_will_not_complain_if_bc_breaks_VariableTracker()
    device = value_of(variable("device"))
    with torch.enable_grad():
        captured = _Captured(1, torch.float32, device)
        try:
            score_mod = value_of(variable("score_mod"))
            _texts(score_mod, None, (1, 1, 8, 8), captured, threading.get_ident())
        except Exception as error:  # of any kind: it reads what is not known before the graph runs, or cannot be traced
            if may_have_gradients(variable("score_mod")):
                raise TypeError(
                    "flex_attention: score_mod: expected one that is defined outside the compiled function, or has neither "
                    "torch.no_grad nor an autograd.Function, whose gradient cannot be compared with the derivative here"
                ) from error
            return
        if captured.is_odd:
            refuse_other_gradients(score_mod, device)


def _texts(score_mod, mask_mod, sizes, captured, thread):
    """(score, condition, products) as text."""
    score, visible, used = "", "", []
    indices = [_Index(captured, name, size) for name, size in zip(_INDICES, sizes)]
    tracer_of[thread] = captured
    try:
        with captured:
            if score_mod is not None:
                score = number(score_mod(Score(used), *indices))
            if mask_mod is not None:
                visible = condition(mask_mod(*indices))
    finally:
        del tracer_of[thread]
    return score, visible, used


def flex_attention(
    query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False, kernel_options=None,
    *, return_aux=None,
):  # fmt: skip
    """torch.nn.attention.flex_attention.flex_attention: the same arguments and results, and a backward pass on CPU.

    score_mod(score, b, h, q_idx, kv_idx) and block_mask.mask_mod(b, h, q_idx, kv_idx) are called once, with indices that are
    symbols: they may use operators, PyTorch's functions of single numbers, torch.where for choices, and read captured
    tensors at any index. Captured tensors get gradients. A block_mask shows the blocks that it lists as full, and of those that
    it lists as partial what its mask_mod says; a mask_mod may be given in its place. return_aux=AuxRequest(lse=True, max_scores=True) adds an AuxOutput; max_scores has no
    gradient, and costs another pass over queries and keys. kernel_options are of PyTorch's kernels, and mean nothing here.

    >>> import torch, rapt.torch
    >>> q, k, v = torch.randn(3, 2, 8, 100, 64)  # three of [batch, heads, sequence, dim]
    >>> bias = torch.zeros(8, 199, requires_grad=True)  # [heads, distances]
    >>> near = lambda score, b, h, q_idx, kv_idx: score + bias[h, kv_idx - q_idx + 99]
    >>> out = rapt.torch.flex_attention(q, k, v, near)
    >>> out.sum().backward()
    >>> out.shape, bias.grad.shape
    (torch.Size([2, 8, 100, 64]), torch.Size([8, 199]))
    """
    _arrays.refuse_learned("flex_attention", scale=scale)
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(
            f"flex_attention: key: expected {counted(query.shape[1], 'head')} as in query, got {key.shape[1]}; enable_gqa=True repeats them"
        )
    if return_lse and return_aux is not None:
        raise ValueError("flex_attention: return_aux: expected None where return_lse is set, got a request; AuxRequest(lse=True) is the same")
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise ValueError("flex_attention: query, key, value: expected [batch, heads, sequence, dim] each")
    dtype = torch.float64 if any(x.dtype == torch.float64 for x in (query, key, value)) else torch.float32
    sizes = (*query.shape[:3], key.shape[2])
    mask_mod = block_mask
    if block_mask is not None and (hasattr(block_mask, "mask_mod") or not callable(block_mask)):

        def text_of(mod):
            captured = _Captured(sizes[1], dtype, query.device)
            return trace(None, mod, sizes, dtype, query.device, captured)[0].visible, captured.kept

        mask_mod = mask_mod_of(block_mask, sizes, text_of)
    score, params, products = trace(score_mod, mask_mod, sizes, dtype, query.device)
    if products:
        heads = key.shape[1]
        query, key, scale = *widened(query, key, products, scale), None
        value = value if key.shape[1] == heads else value.repeat_interleave(key.shape[1] // heads, 1)
    uses_scale = not score.score or "scale" in score.score
    options = dict(score=score, params=params or None, scale=scale if uses_scale else None, softcap=0.0)
    result = _api.attend(query, key, value, return_lse=return_lse or return_aux is not None, **options)
    if return_aux is None:
        return result
    from torch.nn.attention.flex_attention import AuxOutput

    maximum = row_maximum(query, key, _api.pack("attend", options, query)) if return_aux.max_scores else None
    return result[0], AuxOutput(lse=result[1] if return_aux.lse else None, max_scores=maximum)
