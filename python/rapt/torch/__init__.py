"""Rapt for PyTorch: `rapt.attend` on tensors, PyTorch's own functions under their signatures, and modules."""

import torch

from .. import _attend as _api
from ._op import _attend
from .flex import flex_attention
from .functional import scaled_dot_product_attention
from .modules import AdditiveAttention, BilinearAttention, MultiHeadAttention, QuadraticAttention2d, SharedAttention

attend = _api.attend
if not any(function is _attend for _, function in _api._libraries):
    _api._libraries.insert(0, (torch.Tensor, _attend))  # first: torch.compile cannot ask whether a tensor is an array of JAX

__all__ = [
    "AdditiveAttention", "BilinearAttention", "MultiHeadAttention", "QuadraticAttention2d", "SharedAttention", "attend",
    "flex_attention", "scaled_dot_product_attention",
]  # fmt: skip
