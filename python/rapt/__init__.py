"""Attention for arrays of NumPy, PyTorch, JAX and others: every mechanism as one fused kernel, forward and backward.

    out = rapt.attend(q, k, v, score="alibi", params={"m": slopes}, causal="bottom_right")

`rapt.torch`, `rapt.jax`, `rapt.transformers` and `rapt.onnx` are imported when they are used, and need their libraries then.
"""

import importlib
from typing import TYPE_CHECKING

from ._attend import (
    Partial,
    Plan,
    Statistics,
    attend,
    gradients,
    mechanisms,
    merge,
    normalizers,
    partial,
    set_threads,
    statistics,
    threads,
    use_host_threads,
    use_openmp_threads,
    weights,
)
from .formulas import Formula, formula

__version__ = "0.1.0"
_MODULES = ("torch", "jax", "transformers", "onnx", "notebook", "explorer")
_ELSEWHERE = {"show": ".notebook", "explore": ".explorer", "TrainedModel": ".trained_model"}

__all__ = [
    "Formula", "Partial", "Plan", "Statistics", "TrainedModel", "attend", "explore", "formula", "gradients", "mechanisms", "merge", "normalizers", "partial",
    "set_threads", "show", "statistics", "threads", "use_host_threads", "use_openmp_threads", "weights",
]  # fmt: skip


if TYPE_CHECKING:  # type checkers know these names, and no others
    from . import explorer, jax, notebook, onnx, torch, transformers
    from .explorer import explore
    from .notebook import show
    from .trained_model import TrainedModel
else:

    def __getattr__(name):
        if name in _MODULES:
            return importlib.import_module("." + name, __name__)
        if name in _ELSEWHERE:
            return getattr(importlib.import_module(_ELSEWHERE[name], __name__), name)
        raise AttributeError(f"module 'rapt' has no attribute '{name}'")
