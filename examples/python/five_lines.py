"""Attention with a score that no fused kernel of NumPy's or PyTorch's has, forward and backward."""

import numpy as np

import rapt

q, k, v = (np.random.rand(2, 8, 128, 64).astype(np.float32) for _ in range(3))
slopes = 2.0 ** -np.arange(1, 9)
out = rapt.attend(q, k, v, score="alibi", params={"m": slopes}, causal="top_left")
dq, dk, dv, d = rapt.gradients(q, k, v, np.ones_like(out), score="alibi", params={"m": slopes}, causal="top_left")
print(out.shape, dq.shape, d["m"].shape)
