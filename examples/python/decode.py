"""Decoding with kept keys and values: a plan is checked once, and every step is the last row of the whole pass, bit for bit."""

import numpy as np

import rapt

steps, heads, dim = 64, 4, 32
random = np.random.default_rng(0)
queries, keys, values = (random.standard_normal((1, heads, steps, dim), np.float32) for _ in range(3))
query = np.empty((1, heads, 1, dim), np.float32)
plan = rapt.Plan(query, keys, values, causal="top_left")
outs = []
for step in range(steps):
    query[:] = queries[:, :, step : step + 1]
    outs.append(plan.run(key_lengths=step + 1, first_query=step).copy())
whole = rapt.attend(queries, keys, values, causal="top_left")
assert np.array_equal(np.concatenate(outs, 2), whole)
print(steps, "steps, the bits of the whole pass")
