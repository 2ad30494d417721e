"""What a call from Python costs: tiny arrays, so that nearly all of the time is the way to the engine and back."""

import argparse
import json
import time

import numpy as np

import rapt


def measure(call, window=1e-3, repeats=300):
    """The best of many short windows, in microseconds a call: other programs disturb most of them, not all."""
    for _ in range(20):
        call()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        if time.perf_counter() - start > window:
            break
        count *= 2
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - start) / count)
    return best * 1e6


def numpy_calls():
    q = np.random.rand(1, 1, 4, 8).astype(np.float32)
    out = np.ones_like(q)
    plan = rapt.Plan(q, q, q)
    params = {"m": np.ones(1, np.float32)}
    yield "numpy: attend", lambda: rapt.attend(q, q, q)
    yield "numpy: attend, alibi, causal", lambda: rapt.attend(q, q, q, score="alibi", params=params, causal="top_left")
    yield "numpy: plan", plan.run
    yield "numpy: gradients", lambda: rapt.gradients(q, q, q, out)


def torch_calls():
    try:
        import torch
    except ImportError:
        return
    sdpa = torch.nn.functional.scaled_dot_product_attention
    q = torch.rand(1, 1, 4, 8)
    learned = q.clone().requires_grad_()

    def train(function):
        function(learned, learned, learned).sum().backward()

    yield "torch: attend", lambda: rapt.attend(q, q, q)
    yield "torch: SDPA of PyTorch", lambda: sdpa(q, q, q)
    yield "torch: attend, with a graph", lambda: rapt.attend(learned, learned, learned)
    yield "torch: SDPA, with a graph", lambda: sdpa(learned, learned, learned)
    yield "torch: attend and backward", lambda: train(rapt.attend)
    yield "torch: SDPA and backward", lambda: train(sdpa)


def jax_calls():
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return
    q = jnp.ones((1, 1, 4, 8))
    compiled = jax.jit(lambda x: rapt.attend(x, x, x))
    yield "jax: attend", lambda: rapt.attend(q, q, q).block_until_ready()
    yield "jax: attend under jit", lambda: compiled(q).block_until_ready()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print a list of results")
    arguments = parser.parse_args()
    results = []
    for calls in (numpy_calls, torch_calls, jax_calls):
        for name, call in calls():
            results.append({"call": name, "microseconds": round(measure(call), 2)})
            if not arguments.json:
                print(f"{results[-1]['microseconds']:10.2f} µs  {name}", flush=True)
    if arguments.json:
        print(json.dumps(results))


main()
