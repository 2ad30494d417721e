"""The largest score of every row, from a pass over queries and keys of its own."""

import torch

from .. import _core
from . import _options
from ._op import _at, _autocast, _empty_like, _out_shapes, _with_stream
from ._options import SCHEMA

_PARTS = 2


@torch.library.custom_op("rapt::row_maximum", mutates_args=(), schema=f"(Tensor q, Tensor k, {SCHEMA}) -> Tensor")
def row_maximum_op(q, k, *arguments):
    """[batch, heads, queries]: under softmax, after softcap, bias and masks; −inf where nothing is visible."""
    packed = _with_stream(q, _options.to_packed(arguments))
    column = k.new_zeros(1).expand(*k.shape[:-1], 1)
    return _core.forward("attend", q, k, column, _empty_like(q), _PARTS, packed)[2]


@row_maximum_op.register_fake
def _(q, k, *arguments):
    _, rows, _, compute = _out_shapes(q, k, [k[..., :1]])
    return q.new_empty(rows, dtype=compute)


@row_maximum_op.register_vmap
def _(info, in_dims, *args):
    results = [torch.ops.rapt.row_maximum(*(_at(a, d, n) for a, d in zip(args, in_dims))) for n in range(info.batch_size)]
    return torch.stack(results), 0


def row_maximum(q, k, packed):
    """Without a gradient."""
    q, k, _ = _autocast(q, k, k)
    arguments = [x.detach() if isinstance(x, torch.Tensor) else x for x in _options.to_arguments(q, packed)]
    arguments[_options.PARAMS] = [x.detach() for x in arguments[_options.PARAMS]]
    return torch.ops.rapt.row_maximum(q.detach(), k.detach(), *arguments)
