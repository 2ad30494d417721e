"""What a head looks at, from the fused pass: no matrix of weights is stored but the rows that are asked for."""

import numpy as np

import rapt

q, k = (np.random.default_rng(n).standard_normal((1, 4, 4096, 32), np.float32) for n in (0, 1))
facts = rapt.statistics(q, k, causal="top_left", top_k=3)
print("entropy of head 2, on average:", facts.entropy[0, 2].mean())
print("its last query looks most at keys", facts.top_indices[0, 2, -1], "with weights", facts.top_weights[0, 2, -1])
rows = rapt.weights(q, k, causal="top_left", batch=0, head=2, rows=slice(4000, 4004))
print("four rows:", rows.shape, "each sums to", rows.sum(-1))
