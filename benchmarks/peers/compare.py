"""Measures Rapt and its peers in one run, in turn, on the same numbers and threads; outputs are compared first.

Ratios are the peer's time ÷ Rapt's: above 1, Rapt is faster.
"""

import argparse
import dataclasses
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import torch
import torch._functorch.config

import mechanisms
import others
import rapt_c

PAUSE = 0.005  # between engines: a thread pool waits busily for a while after its last call


@dataclasses.dataclass
class Case:
    name: str
    shape: tuple  # B, H, S, D
    mechanism: str = "scaled_dot"
    normalizer: str = "softmax"
    causal: str | None = None
    window: tuple | None = None
    softcap: float = 0.0
    has_bias: bool = False
    queries: int = 0
    dtype: torch.dtype = torch.float32
    directions: tuple = ("forward", "backward")

    def __post_init__(self):
        self.keys = self.shape[2]
        self.queries = self.queries or self.keys
        self.grid = mechanisms.grid_of(self.keys) if self.mechanism in mechanisms.GRID else None

    def visible_pairs(self):
        mask = mechanisms.visible(self)
        pairs = self.queries * self.keys if mask is None else int(mask.sum())
        return self.shape[0] * self.shape[1] * pairs


ALL = ("forward", "backward", "both")


def all_cases():
    cases = []
    for dim in (64, 128):
        cases += [Case("scaled_dot", (1, 8, length, dim), directions=ALL) for length in (1024, 4096)]
        cases.append(Case("scaled_dot", (1, 8, 8192, dim), directions=("forward",)))
        cases += [Case("causal", (1, 8, length, dim), causal="top_left") for length in (1024, 2048, 8192)]
        cases.append(Case("short", (8, 8, 128, dim), directions=ALL))
        cases.append(Case("window256", (1, 8, 8192, dim), window=(128, 127), directions=("forward",)))
        cases.append(Case("decode", (1, 8, 16384, dim), queries=1, directions=("forward",)))
    cases += [Case("scaled_dot", (1, 8, length, 64)) for length in (1000, 2049)]
    cases += [Case("causal", (1, 8, length, 64), causal="top_left") for length in (1000, 2049)]
    cases += [Case("scaled_dot", (1, 8, 1024, dim)) for dim in (32, 80, 96, 192)]
    cases += [Case("causal", (1, 8, 1024, dim), causal="top_left") for dim in (32, 80, 96, 192)]
    usual = (1, 8, 1024, 64)
    cases.append(Case("softcap", usual, softcap=20.0))
    cases.append(Case("bias", usual, has_bias=True))
    for name in mechanisms.SCORES:
        if name in ("scaled_dot", "additive", "quadratic"):
            continue
        cases.append(Case(name, usual, mechanism=name))
    for name in ("sparsemax", "entmax15", "sigmoid"):
        cases += [Case(name, (1, 8, length, 64), normalizer=name, directions=ALL) for length in (1024, 2048)]
    cases.append(Case("additive", (8, 1, 256, 64), mechanism="additive", directions=ALL))
    cases.append(Case("additive", (4, 1, 512, 64), mechanism="additive", directions=ALL))
    cases.append(Case("quadratic", usual, mechanism="quadratic"))
    cases.append(Case("quadratic", (1, 2, 4096, 64), mechanism="quadratic"))
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "f16"), (torch.float64, "f64")):
        cases.append(Case(name, usual, dtype=dtype))
    return cases


class Problem:
    """The numbers of a case and every engine that can do it."""

    def __init__(self, case, library, threads, compiled):
        torch._dynamo.reset()  # its limit on versions of one function would silently fall back to slow code
        self.case, self.threads = case, threads
        batch, heads, keys, dim = case.shape
        random = torch.Generator().manual_seed(1)
        self.q, self.k, self.v, self.grad_out = (
            torch.randn(batch, heads, length, dim, generator=random).to(case.dtype)
            for length in (case.queries, keys, keys, case.queries))
        self.bias = torch.randn(1, heads, case.queries, keys, generator=random) if case.has_bias else None
        self.parameters = mechanisms.parameters_of(case.mechanism, heads, keys, dim, case.grid, random)
        if case.dtype == torch.float64:
            self.parameters = {n: p.double() for n, p in self.parameters.items()}
        self.rapt = rapt_c.Attention(
            library, self.q, self.k, self.v, threads=threads, score=case.mechanism, parameters=self.parameters,
            grid=case.grid, softcap=case.softcap, bias=self.bias, causal=case.causal, window=case.window,
            normalizer=case.normalizer)
        self.rapt.grad_out.copy_(self.grad_out)
        self.torch_paths = self.find_torch_paths(compiled)

    def find_torch_paths(self, compiled):
        paths = {}
        fused, composed = mechanisms.fused(self.case), mechanisms.composed(self.case)
        if fused:
            paths["sdpa"] = fused
        # Where there is a fused call, separate operations are never the best path.
        if not fused or self.case.mechanism in ("quadratic", "gaussian"):
            paths["eager"] = composed
        if compiled:
            for name in list(paths):
                paths[f"{name} compiled"] = torch.compile(paths[name], dynamic=False)
            flex = mechanisms.flexible(self.case)
            if flex:
                paths["flex"] = flex
        return paths

    def engines(self, direction):
        if direction == "forward":
            return self.forward_engines()
        return self.backward_engines() if direction == "backward" else self.step_engines()

    def forward_engines(self):
        def call(path):
            def run():
                with torch.no_grad():
                    return path(self.q, self.k, self.v, self.bias, self.parameters)
            return run

        engines = {"rapt": self.rapt.forward}
        engines |= {name: call(path) for name, path in self.torch_paths.items()}
        jax = others.jax_calls(self.case, self.q, self.k, self.v, self.grad_out)
        if jax:
            engines["jax"] = jax["forward"]
        onnx = others.onnx_call(self.case, self.q, self.k, self.v, self.threads)
        if onnx:
            engines["onnx"] = onnx
        return engines

    def differentiable(self, path):
        """The output of a path, and all that its gradient is taken of."""
        leaves = [x.detach().requires_grad_() for x in (self.q, self.k, self.v)]
        named = {n: p.detach().requires_grad_() for n, p in self.parameters.items()}
        bias = None if self.bias is None else self.bias.detach().requires_grad_()
        wanted = leaves + ([] if bias is None else [bias]) + list(named.values())
        return lambda: path(*leaves, bias, named), wanted

    def keeps(self):
        return self.case.mechanism != "quadratic"  # the factorised pass has no row sums to keep

    # FlexAttention has no backward pass on a CPU.
    def differentiable_paths(self):
        return {name: path for name, path in self.torch_paths.items() if name != "flex"}

    def backward_engines(self):
        def call(path):
            forward, wanted = self.differentiable(path)
            kept = []

            def run():
                if not kept:
                    kept.append(forward())
                return torch.autograd.grad(kept[0], wanted, self.grad_out, retain_graph=True, allow_unused=True)

            return run

        self.rapt.forward(keep=self.keeps())
        engines = {"rapt": lambda: list(self.rapt.backward(saved=self.keeps()).values())}
        return engines | {name: call(path) for name, path in self.differentiable_paths().items()}

    def step_engines(self):
        """Forward and backward together, as a training step runs them."""
        def call(path):
            forward, wanted = self.differentiable(path)
            return lambda: torch.autograd.grad(forward(), wanted, self.grad_out, allow_unused=True)

        def ours():
            self.rapt.forward(keep=self.keeps())
            return list(self.rapt.backward(saved=self.keeps()).values())

        engines = {"rapt": ours} | {name: call(path) for name, path in self.differentiable_paths().items()}
        jax = others.jax_calls(self.case, self.q, self.k, self.v, self.grad_out)
        if jax:
            engines["jax"] = jax["both"]
        return engines


def to_list(result):
    results = result if isinstance(result, (list, tuple)) else [result]
    return [x.double() if isinstance(x, torch.Tensor) else torch.tensor(x).double() for x in results if x is not None]


def disagreement(ours, theirs, dtype):
    """The largest difference, as a share of the largest number; and whether it is rounding."""
    if [a.shape for a in ours] != [b.shape for b in theirs]:
        return float("inf"), False
    worst = 0.0
    for a, b in zip(ours, theirs):
        # A comparison with NaN would pass.
        if not (torch.isfinite(a).all() and torch.isfinite(b).all()):
            return float("inf"), False
        size = max(b.abs().max().item(), 1e-6)
        worst = max(worst, (a - b).abs().max().item() / size)
    bound = {torch.float32: 1e-3, torch.float64: 1e-9, torch.bfloat16: 4e-2, torch.float16: 6e-3}[dtype]
    return worst, worst <= bound


def failure(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:160]


def working(engines, dtype, notes):
    """Runs each once, compares with Rapt, and drops those that fail; a disagreement is an error of the run."""
    ours = to_list(engines["rapt"]())
    good = {"rapt": engines["rapt"]}
    for name, run in engines.items():
        if name == "rapt":
            continue
        try:
            theirs = to_list(run())
        except Exception as error:  # a peer without this feature must not end the run
            notes.append(f"{name}: {failure(error)}")
            continue
        # Gradients that a peer leaves out (q and k of a score of positions only) are zeros of ours.
        pairs = [a for a in ours if a.abs().max() > 0] if len(theirs) < len(ours) else ours
        worst, agrees = disagreement(pairs, theirs, dtype)
        if not agrees:
            raise AssertionError(f"{name} and Rapt differ by {worst:.2g} of the largest number")
        good[name] = run
    return good


def timed(engines, rounds, budget, now):
    """Medians of rounds in which every engine has its turn."""
    single = {}
    for name, run in engines.items():
        run()
        start = now()
        run()
        single[name] = now() - start
    rounds = max(3, min(rounds, int(budget / max(sum(single.values()), 1e-9))))
    times = {name: [] for name in engines}
    order = list(engines)
    for turn in range(rounds):
        for name in order if turn % 2 == 0 else reversed(order):
            run = engines[name]
            time.sleep(PAUSE)
            if single[name] < 0.05:
                run()
            inner = max(1, min(200, int(0.02 / max(single[name], 1e-7))))
            start = now()
            for _ in range(inner):
                run()
            times[name].append((now() - start) / inner)
    return {name: statistics.median(list_) for name, list_ in times.items()}


def matrix_rate(now, size=2048):
    """PyTorch's sgemm in GFLOP/s: the roof of this run."""
    a, b = torch.rand(size, size), torch.rand(size, size)
    torch.mm(a, b)
    times = []
    for _ in range(3):
        start = now()
        torch.mm(a, b)
        times.append(now() - start)
    return 2 * size**3 / statistics.median(times) / 1e9


def measure(case, library, options):
    problem = Problem(case, library, options.threads, options.compile)
    rows = []
    for direction in case.directions:
        notes = []
        engines = working(problem.engines(direction), case.dtype, notes)
        now = time.process_time if options.processor_time else time.perf_counter
        roof = matrix_rate(now)
        times = timed(engines, options.rounds, options.budget, now)
        # Two products forward and five backward; one and two where the score is one of positions only.
        products = (1, 2) if case.grid else (2, 5)
        products = {"forward": products[0], "backward": products[1], "both": sum(products)}[direction]
        flops = 2 * products * case.visible_pairs() * case.shape[3]
        rapt = times.pop("rapt")
        best = min(times, key=times.get) if times else None
        rows.append({
            "name": case.name, "mechanism": case.mechanism, "direction": direction, "shape": list(case.shape),
            "queries": case.queries, "dtype": str(case.dtype).removeprefix("torch."), "threads": options.threads,
            "rapt_seconds": rapt, "peer_seconds": times, "ratios": {n: t / rapt for n, t in times.items()},
            "best_peer": best, "ratio": times[best] / rapt if best else None,
            "rapt_gflops": flops / rapt / 1e9, "matrix_rate": roof, "fraction": flops / rapt / 1e9 / roof,
            "notes": notes})
    return rows


def cells(row, peers):
    ratio = lambda x: "–" if x is None else f"{x:.2f}"
    return ([row["name"], row["direction"], ",".join(map(str, row["shape"])), f"{row['rapt_seconds'] * 1e3:.3g} ms",
             f"{row['fraction']:.2f}", ratio(row["ratio"]), row["best_peer"] or "–"]
            + [ratio(row["ratios"].get(peer)) for peer in peers])


def tables(report):
    peers = []
    for row in report["rows"]:
        peers += [p for p in row["ratios"] if p not in peers]
    head = ["case", "direction", "B,H,S,D", "Rapt", "of sgemm", "best peer ÷ Rapt", "best peer"] + peers
    grid = [head] + [cells(row, peers) for row in report["rows"]]
    widths = [max(len(line[n]) for line in grid) for n in range(len(head))]
    text = "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in grid)
    markdown = "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head)] + grid[1:])
    clock = " of processor time" if report["processor_time"] else ""
    about = (f"Rapt {report['rapt']} ({report['isa']}), PyTorch {report['torch']}, {report['threads']} threads{clock}. "
             "Each number is the peer's time ÷ Rapt's: above 1, Rapt is faster.")
    return f"{about}\n\n{text}\n", f"{about}\n\n{markdown}\n"


def write(path, text):
    partial = path.with_suffix(path.suffix + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def save(report, folder):
    text, markdown = tables(report)
    write(folder / "results.json", json.dumps(report, indent=2) + "\n")
    write(folder / "results.txt", text)
    write(folder / "results.md", markdown)
    return text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases to run; none: all")
    parser.add_argument("--library", required=True, help="librapt_attend, the shared library")
    parser.add_argument("--out", type=Path, required=True, help="where results.txt, .json and .md go")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=20, help="seconds for one row")
    parser.add_argument("--processor-time", action="store_true",
                        help="time in which the threads worked, for a busy machine; with one thread that is fair")
    parser.add_argument("--quick", action="store_true", help="S 1024 and less, few rounds, nothing compiled")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave torch.compile and FlexAttention out")
    options = parser.parse_args()
    if options.processor_time and options.threads != 1:
        parser.error(f"--processor-time: expected --threads 1 with it, got {options.threads}")
    if options.quick:
        options.rounds, options.budget, options.compile = 3, 3, False
    known = sorted({case.name for case in all_cases()})
    for name in options.names:
        if name not in known:
            parser.error(f"expected a case ({', '.join(known)}), got '{name}'")
    return options


def main():
    options = arguments()
    # Peers that ask the system how many processors there are see as many as threads were asked for.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])
    torch.set_num_threads(options.threads)
    torch._functorch.config.donated_buffer = False  # the backward pass is run again and again
    library = rapt_c.Library(options.library)
    cases = [c for c in all_cases() if not options.names or c.name in options.names]
    if options.quick:
        cases = [c for c in cases if c.keys <= 1024]
    report = {"rapt": library.version(), "isa": library.isa(), "torch": torch.__version__, "threads": options.threads,
              "processor_time": options.processor_time, "machine": platform.machine(), "failures": [], "rows": []}
    options.out.mkdir(parents=True, exist_ok=True)
    for n, case in enumerate(cases):
        if sys.stderr.isatty():
            print(f"\r{n + 1}/{len(cases)} {case.name} {case.shape}\x1b[K", end="", file=sys.stderr, flush=True)
        try:
            report["rows"] += measure(case, library, options)
        except (AssertionError, rapt_c.RaptError) as error:
            report["failures"].append(f"{case.name} {case.shape}: {error}")
        text = save(report, options.out)  # what is there stays there if a later case is stopped
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    print(text)
    for failed in report["failures"]:
        print(f"wrong: {failed}", file=sys.stderr)
    slower = [r for r in report["rows"] if r["ratio"] is not None and r["ratio"] < 1]
    print(f"{len(report['rows'])} rows, slower than the best peer in {len(slower)}"
          + "".join(f"\n  {r['name']} {r['direction']} {r['shape']}: {r['ratio']:.2f} of {r['best_peer']}" for r in slower))
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
