"""Measures Rapt on a GPU beside PyTorch's cuDNN, flash-attention and FlexAttention: one process, turn by turn.

Outputs and gradients are compared first. Each engine then has its turn in every round: a burst (a few calls after a rest)
and calls back to back for half a second, with a product of cuBLAS of 8192³ in each round. Ratios are the peer's time ÷ Rapt's:
above 1, Rapt is faster.
"""

import argparse
import dataclasses
import json
import math
import statistics
import sys
import time
from pathlib import Path

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    sys.exit(f"bench-cuda: expected PyTorch in this Python, found none ({error})")

import mechanisms
import rapt_c

DEVICE = "cuda"
REST = 0.05
PRODUCT = 8192


@dataclasses.dataclass
class Case:
    name: str
    shape: tuple  # B, H, S, D
    mechanism: str = "scaled_dot"
    causal: bool = False
    softcap: float = 0.0
    key_heads: int = 0
    queries: int = 0
    packed: int = 0  # sequences of equal length in one batch; 0: none
    has_bias: bool = False
    dtype: torch.dtype = torch.bfloat16
    backward: bool = True

    def __post_init__(self):
        self.keys = self.shape[2]
        self.queries = self.queries or self.keys
        self.key_heads = self.key_heads or self.shape[1]
        self.grid = mechanisms.grid_of(self.keys) if self.mechanism in mechanisms.GRID else None

    def pairs(self):
        """Visible ones, over all batches and heads."""
        length = self.keys // self.packed if self.packed else self.keys
        each = length * (length + 1) // 2 if self.causal else self.queries * self.keys // max(self.packed, 1) ** 2
        return self.shape[0] * self.shape[1] * max(self.packed, 1) * each

    def flops(self, direction):
        products = (1, 2) if self.grid else (2, 5)
        return 2 * products[direction == "backward"] * self.pairs() * self.shape[3]


def all_cases():
    cases = []
    for shape in ((2, 16, 8192, 128), (2, 32, 8192, 64), (2, 8, 8192, 256), (8, 16, 2048, 128), (8, 32, 2048, 64),
                  (32, 16, 512, 128)):
        cases += [Case("full", shape), Case("causal", shape, causal=True)]
    for shape in ((8, 16, 1000, 128), (4, 16, 2049, 128), (8, 16, 2048, 80), (8, 16, 1000, 96), (4, 16, 4096, 192)):
        cases += [Case("odd", shape), Case("odd_causal", shape, causal=True)]
    cases += [Case("grouped", (2, 32, 4096, 128), key_heads=8), Case("grouped", (2, 32, 4096, 128), key_heads=8, causal=True)]
    cases.append(Case("packed", (1, 16, 16384, 128), packed=16, causal=True))
    usual = (2, 16, 8192, 128)
    for name in ("alibi", "t5", "gaussian", "quadratic"):
        cases.append(Case(name, usual, mechanism=name))
    cases.append(Case("softcap", usual, softcap=20.0))
    cases.append(Case("bias", (8, 16, 2048, 128), has_bias=True))
    for name in ("shaw", "transformer_xl"):
        cases.append(Case(name, (2, 16, 2048, 128), mechanism=name))
    cases += [Case(name, (8, 1, 2048, 64), mechanism=name) for name in ("additive", "distance")]
    cases += [Case("decode", (8, 16, 16384, 128), queries=1, backward=False),
              Case("decode", (1, 16, 131072, 128), queries=1, backward=False)]
    cases.append(Case("f16", usual, dtype=torch.float16))
    cases.append(Case("f32", (8, 16, 2048, 128), dtype=torch.float32))
    return cases


def expanded(case, x):
    """Keys of grouped heads repeated, for what has no such argument."""
    return x.repeat_interleave(case.shape[1] // case.key_heads, 1) if case.key_heads != case.shape[1] else x


def sdpa(case, backend):
    """scaled_dot_product_attention by one backend; None where it cannot say the case."""
    if case.mechanism not in ("scaled_dot", "alibi", "t5") or case.softcap or case.packed:
        return None
    added = case.mechanism != "scaled_dot" or case.has_bias
    if added and backend == SDPBackend.FLASH_ATTENTION:
        return None
    if case.mechanism != "scaled_dot" and case.keys > 2048:
        return None  # the bias alone would take gigabytes, and its gradient as much

    def attention(q, k, v, bias, p):
        if case.mechanism == "alibi":
            bias = mechanisms.alibi_bias(p["m"], case.keys)[None]
        if case.mechanism == "t5":
            bias = mechanisms.t5_bias(p["table"], case.keys)[None]
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=None if bias is None else bias.to(q.dtype),
                                                  is_causal=case.causal, enable_gqa=case.key_heads != case.shape[1])

    return attention


def flex(case):
    """FlexAttention, compiled; None where it cannot say the case."""
    if case.mechanism not in ("scaled_dot", "alibi", "t5", "gaussian", "quadratic") or case.queries == 1 or case.dtype == torch.float32:
        return None
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    length = case.keys // case.packed if case.packed else case.keys
    block_mask = None
    if case.causal or case.packed:
        def sees(b, h, i, j):
            same = i // length == j // length
            return same & (j <= i) if case.causal else same

        block_mask = create_block_mask(sees, None, None, case.queries, case.keys, device=DEVICE)
    compiled = torch.compile(flex_attention, dynamic=False)
    places = None
    if case.mechanism == "t5":
        places = mechanisms.buckets(torch.arange(1 - case.keys, case.keys, device=DEVICE), 32)

    def attention(q, k, v, bias, p):
        def change(s, b, h, i, j):
            if case.mechanism == "alibi":
                s = s - p["m"][h] * (i - j).abs()
            if case.mechanism == "t5":
                s = s + p["table"][h, places[j - i + case.keys - 1]]
            if case.grid:
                row, col = j // case.grid[1] - i // case.grid[1], j % case.grid[1] - i % case.grid[1]
                if case.mechanism == "quadratic":
                    shift = row * p["center"][h, 0] + col * p["center"][h, 1]
                    s = -p["alpha"][h] * (row * row + col * col - 2 * shift)
                else:
                    x, y, g = row - p["center"][h, 0], col - p["center"][h, 1], p["gamma"]
                    s = -0.5 * ((g[h, 0, 0] * x + g[h, 0, 1] * y) ** 2 + (g[h, 1, 0] * x + g[h, 1, 1] * y) ** 2)
            if case.softcap:
                s = case.softcap * torch.tanh(s / case.softcap)
            if case.has_bias:
                s = s + bias[0, h, i, j]
            return s

        plain = case.mechanism == "scaled_dot" and not case.softcap and not case.has_bias
        return compiled(q, k, v, score_mod=None if plain else change, block_mask=block_mask,
                        enable_gqa=case.key_heads != case.shape[1])

    return attention


def additive(q, k, w, Wq, Wk):
    """As a sum, which the compiler joins with the tanh, so that no [Sq, Sk, A] is stored."""
    hidden = torch.tanh((q @ Wq)[..., :, None, :] + (k @ Wk)[..., None, :, :])
    return (hidden.float() * w[:, None, None, :].float()).sum(-1)


def composed(case):
    """Separate operations, compiled: what is left for mechanisms that nothing fused can say."""
    if case.mechanism not in ("additive", "distance", "shaw", "transformer_xl"):
        return None
    score = additive if case.mechanism == "additive" else mechanisms.SCORES[case.mechanism]
    # Squares of lengths less products of 16 bits would leave nothing but rounding.
    inner = torch.float32 if case.mechanism == "distance" else case.dtype

    def attention(q, k, v, bias, p):
        scores = score(q.to(inner), k.to(inner), **{n: x.to(inner) for n, x in p.items()})
        return torch.softmax(scores.float(), -1).to(v.dtype) @ v

    return torch.compile(attention, dynamic=False)


class Problem:
    def __init__(self, case, library, stream=None):
        torch._dynamo.reset()
        self.case = case
        batch, heads, keys, dim = case.shape
        random = torch.Generator(device=DEVICE).manual_seed(1)
        made = lambda h, s: torch.randn(batch, h, s, dim, generator=random, device=DEVICE).to(case.dtype)
        self.q, self.k, self.v = made(heads, case.queries), made(case.key_heads, keys), made(case.key_heads, keys)
        self.grad_out = made(heads, case.queries)
        self.bias = torch.randn(1, heads, case.queries, keys, generator=random, device=DEVICE) if case.has_bias else None
        with torch.device("cpu"):
            cpu = torch.Generator(device="cpu").manual_seed(1)
            parameters = mechanisms.parameters_of(case.mechanism, heads, keys, dim, case.grid, cpu)
        self.parameters = {name: value.to(DEVICE) for name, value in parameters.items()}
        starts = [n * keys // case.packed for n in range(case.packed + 1)] if case.packed else None
        self.rapt = rapt_c.Attention(
            library, self.q, self.k, self.v, score=case.mechanism, parameters=self.parameters, grid=case.grid,
            softcap=case.softcap, bias=self.bias, causal="top_left" if case.causal else None, gradients=case.backward,
            stream=stream, starts=starts)
        if case.backward:
            self.rapt.grad_out.copy_(self.grad_out)
        paths = {"cuDNN": sdpa(case, SDPBackend.CUDNN_ATTENTION), "flash-attention": sdpa(case, SDPBackend.FLASH_ATTENTION),
                 "FlexAttention": flex(case), "compiled": composed(case)}
        self.paths = {name: path for name, path in paths.items() if path}

    def engines(self, direction):
        return self.forward_engines() if direction == "forward" else self.backward_engines()

    def forward_engines(self):
        def call(path):
            def run():
                with torch.no_grad():
                    return [path(self.q, self.k, self.v, self.bias, self.parameters)]
            return run

        return {"rapt": lambda: [self.rapt.forward()]} | {name: call(path) for name, path in self.paths.items()}

    def backward_engines(self):
        def call(path):
            leaves = [x.detach().requires_grad_() for x in (self.q, self.k, self.v)]
            bias = None if self.bias is None else self.bias.detach().requires_grad_()
            named = {n: p.detach().requires_grad_() for n, p in self.parameters.items()}
            wanted = leaves + ([] if bias is None else [bias]) + list(named.values())
            kept = []

            def run():
                if not kept:
                    kept.append(path(*leaves, bias, named))
                return torch.autograd.grad(kept[0], wanted, self.grad_out, retain_graph=True, allow_unused=True)
            return run

        self.rapt.forward(keep=True)
        return ({"rapt": lambda: list(self.rapt.backward().values())}
                | {name: call(path) for name, path in self.paths.items()})


def disagreement(ours, theirs, dtype):
    """None where results agree; else a sentence. Compared by mean: single numbers of 16 bits differ by rounding."""
    bound = {torch.float32: 2e-3, torch.bfloat16: 3e-2, torch.float16: 6e-3}[dtype]
    for place, (a, b) in enumerate(zip(ours, theirs)):
        if b is None:
            continue  # a gradient that the peer does not give
        a, b = a.float(), b.float()
        if not torch.isfinite(a).all():
            return f"result {place} of Rapt is not finite"
        size = b.abs().mean().item()
        far = (a - b).abs().mean().item()
        if not far <= bound * max(size, 1e-6):
            return f"result {place} differs by {far:.2g} in the mean, of numbers of size {size:.2g}"
    return None


def failure(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:160]


def working(engines, dtype, notes, wrong):
    """Runs each once and compares with Rapt; a peer without this feature is left out with a note."""
    ours = [x.clone() for x in engines["rapt"]()]
    good = {"rapt": engines["rapt"]}
    for name, run in engines.items():
        if name == "rapt":
            continue
        try:
            theirs = run()
            torch.cuda.synchronize()
        except Exception as error:
            notes.append(f"{name}: {failure(error)}")
            continue
        difference = disagreement(ours, theirs, dtype)
        if difference:
            wrong.append(f"{name}: {difference}")
        good[name] = run
    return good


def seconds_of(run, count):
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        run()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / 1e3 / count


def timed(engines, options):
    """{name: (burst, back to back)}, medians of rounds in which every engine has its turn."""
    single = {}
    for name, run in engines.items():
        seconds_of(run, 2)
        single[name] = seconds_of(run, 1)
    burst, end = {name: [] for name in engines}, {name: [] for name in engines}
    order = list(engines)
    for turn in range(options.rounds):
        for name in order if turn % 2 == 0 else reversed(order):
            time.sleep(REST)
            burst[name].append(seconds_of(engines[name], max(1, min(20, int(0.005 / single[name])))))
            end[name].append(seconds_of(engines[name], max(1, min(100000, math.ceil(options.seconds / single[name])))))
    return {name: (statistics.median(burst[name]), statistics.median(end[name])) for name in engines}


class Product:
    """cuBLAS, 8192³, in the dtype of a case."""

    def __init__(self):
        self.dtype = None

    def run_of(self, dtype):
        if dtype != self.dtype:
            self.a, self.b = (torch.randn(PRODUCT, PRODUCT, device=DEVICE).to(dtype) for _ in range(2))
            self.out = torch.empty_like(self.a)
            self.dtype = dtype
        return lambda: torch.mm(self.a, self.b, out=self.out)


def copy_bandwidth():
    a = torch.empty(1 << 30, dtype=torch.uint8, device=DEVICE)
    b = torch.empty_like(a)
    run = lambda: b.copy_(a)
    seconds_of(run, 3)
    return 2 * a.numel() / seconds_of(run, 100) / 1e9


def measure(case, library, product, options):
    problem = Problem(case, library, torch.cuda.current_stream().cuda_stream)
    rows, wrong = [], []
    for direction in ("forward", "backward") if case.backward else ("forward",):
        notes, here = [], []
        engines = working(problem.engines(direction), case.dtype, notes, here)
        wrong += [f"{case.name} {case.shape} {direction}: {text}" for text in here]
        times = timed(engines | {"cuBLAS": product.run_of(case.dtype)}, options)
        matrix = [2 * PRODUCT**3 / t / 1e12 for t in times.pop("cuBLAS")]
        rapt = times.pop("rapt")
        rate = lambda pair: [case.flops(direction) / t / 1e12 for t in pair]
        row = {"name": case.name, "mechanism": case.mechanism, "direction": direction, "shape": list(case.shape),
               "key_heads": case.key_heads, "queries": case.queries, "dtype": str(case.dtype).removeprefix("torch."),
               "causal": case.causal, "rapt_seconds": rapt, "rapt_tflops": rate(rapt), "cublas_tflops": matrix,
               "peer_seconds": times, "peer_tflops": {n: rate(t) for n, t in times.items()},
               "ratios": {n: [theirs / ours for theirs, ours in zip(t, rapt)] for n, t in times.items()}, "notes": notes}
        if case.queries == 1:
            read = (problem.k.numel() + problem.v.numel()) * problem.k.element_size()
            row["bandwidth"] = [read / t / 1e9 for t in rapt]
        rows.append(row)
    return rows, wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases to run; none: all")
    parser.add_argument("--library", required=True, help="librapt_attend, the shared library, built with CUDA")
    parser.add_argument("--out", type=Path, required=True, help="the file of results, JSON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="back to back, for each engine and round")
    parser.add_argument("--quick", action="store_true", help="S 2048 and less, one round: to see that it works")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.05
    known = sorted({case.name for case in all_cases()})
    for name in options.names:
        if name not in known:
            parser.error(f"expected a case ({', '.join(known)}), got '{name}'")
    return options


def save(report, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


def line_of(row):
    ratios = "  ".join(f"{name} {a:.2f} {b:.2f}" for name, (a, b) in row["ratios"].items())
    rate = (f"{row['bandwidth'][1]:.0f} GB/s" if "bandwidth" in row
            else f"{row['rapt_tflops'][0]:.0f} {row['rapt_tflops'][1]:.0f} TFLOP/s")
    causal = " causal" if row["causal"] and "causal" not in row["name"] else ""
    return (f"{row['name']}{causal} {row['direction']} {','.join(map(str, row['shape']))} {row['dtype']}: "
            f"{row['rapt_seconds'][1] * 1e3:.3g} ms, {rate}; {ratios or 'no peer'}"
            + "".join(f"\n    without {note}" for note in row["notes"]))


def main():
    options = arguments()
    if not torch.cuda.is_available():
        sys.exit("bench-cuda: expected a GPU that PyTorch can use, found none")
    if not Path(options.library).exists():
        sys.exit(f"bench-cuda: {options.library} is not there; make bench-cuda builds it")
    torch.set_default_device(DEVICE)
    torch.backends.cuda.matmul.allow_tf32 = False
    import torch._functorch.config as functorch_config
    functorch_config.donated_buffer = False  # the backward pass is run again and again
    library = rapt_c.Library(options.library)
    cases = [c for c in all_cases() if not options.names or c.name in options.names]
    if options.quick:
        cases = [c for c in cases if c.keys <= 2049]
    report = {"rapt": library.version(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
              "device": torch.cuda.get_device_name(), "copy_bandwidth": copy_bandwidth(), "failures": [], "rows": []}
    product = Product()
    for case in cases:
        try:
            rows, wrong = measure(case, library, product, options)
        except Exception as error:  # one case must not end the run; it ends with 1
            rows, wrong = [], [f"{case.name} {case.shape}: {failure(error)}"]
        report["rows"] += rows
        report["failures"] += wrong
        for row in rows:
            print(line_of(row), flush=True)
        save(report, options.out)  # what is there stays there if a later case is stopped
        torch.cuda.empty_cache()
    for text in report["failures"]:
        print(f"wrong: {text}", file=sys.stderr)
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
