"""PyTorch's functions, under their own signatures."""

import torch

from .. import _arrays
from .. import _attend as _api
from .._words import counted


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """torch.nn.functional.scaled_dot_product_attention: the same arguments, shapes and results.

    A boolean attn_mask is true where to attend, a float one is added (and has a gradient). is_causal aligns the first query
    with the first key. Two differences: a row that sees nothing is 0 in every case, and dropout_p must be 0.

    >>> import torch, rapt.torch
    >>> q = torch.randn(2, 8, 100, 64, requires_grad=True)  # [batch, heads, queries, dim]
    >>> k, v = torch.randn(2, 2, 2, 120, 64)  # two of [batch, key heads, keys, dim]
    >>> out = rapt.torch.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    >>> out.sum().backward()
    >>> out.shape, q.grad.shape
    (torch.Size([2, 8, 100, 64]), torch.Size([2, 8, 100, 64]))
    """
    _arrays.refuse_learned("scaled_dot_product_attention", scale=scale)
    if dropout_p != 0.0:
        raise ValueError(f"scaled_dot_product_attention: dropout_p: expected 0, as weights are not dropped, got {dropout_p}")
    if is_causal and attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: attn_mask: expected None where is_causal is set, got a mask")
    if not enable_gqa and query.dim() > 2 and key.dim() > 2 and query.shape[-3] != key.shape[-3]:
        if query.shape[-3] != 1 and key.shape[-3] != 1:
            raise ValueError(
                f"scaled_dot_product_attention: key: expected {counted(query.shape[-3], 'head')} as in query, got {key.shape[-3]}; "
                "enable_gqa=True repeats them"
            )
    lead = None
    if max(query.dim(), key.dim(), value.dim()) > 4:  # any number of batch dimensions becomes one
        lead = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
        flat = lambda x: x.expand(*lead, *x.shape[-3:]).reshape(-1, *x.shape[-3:])
        if attn_mask is not None:
            mask = attn_mask[(None,) * max(0, len(lead) + 3 - attn_mask.dim())]
            attn_mask = flat(mask)
        query, key, value = flat(query), flat(key), flat(value)
    bias = mask = None
    if attn_mask is not None:
        if attn_mask.dim() > max(query.dim(), key.dim()) and attn_mask.dim() > 4:
            raise ValueError(f"scaled_dot_product_attention: attn_mask: expected at most 4 dimensions, got {attn_mask.dim()}")
        if attn_mask.shape[-1] != key.shape[-2]:
            attn_mask = attn_mask.expand(*attn_mask.shape[:-1], key.shape[-2])
        if attn_mask.stride(-1) != 1 and attn_mask.shape[-1] > 1:
            attn_mask = attn_mask.contiguous()
        if attn_mask.dtype == torch.bool:
            mask = attn_mask
        else:
            bias = attn_mask
    out = _api.attend(
        query, key, value, bias=bias, mask=mask, scale=scale, causal="top_left" if is_causal else None
    )
    if attn_mask is not None and attn_mask.dim() == 4 and out.dim() < 4:
        out = out.expand(*attn_mask.shape[:-2], *out.shape[-2:])
    return out if lead is None else out.reshape(*lead, *out.shape[1:])
