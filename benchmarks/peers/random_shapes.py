"""Measures PyTorch beside Rapt on shapes that `rapt bench --random N --seed S --dry-run --json` draws.

Each side runs alone, in blocks of its own, and then in turn with an operation of PyTorch, as in a model: there Rapt works on PyTorch's
OpenMP threads. Ratios are PyTorch's best path ÷ Rapt: above 1, Rapt is faster. Results are compared first.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import rapt_c
from compare import disagreement, failure, to_list, write

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
REST = 0.05  # between blocks: a pool waits busily after its last call, libgomp for up to 20 ms
BEHIND = 0.97


class Problem:
    """The numbers of a shape, and every path that computes it."""

    def __init__(self, shape, dtype, threads, library, compiled):
        torch._dynamo.reset()
        random = torch.Generator().manual_seed(1)
        batch, dim = shape["batch"], shape["dim"]
        self.shape = shape
        self.causal = shape["causal"]
        self.group = shape["heads"] // shape["key_heads"]

        def made(heads, length):
            return torch.randn(batch, heads, length, dim, generator=random).to(dtype)

        self.q, self.grad_out = made(shape["heads"], shape["queries"]), made(shape["heads"], shape["queries"])
        self.k, self.v = made(shape["key_heads"], shape["keys"]), made(shape["key_heads"], shape["keys"])
        self.rapt = rapt_c.Attention(library, self.q, self.k, self.v, threads=threads,
                                     causal="top_left" if self.causal else None)
        self.rapt.grad_out.copy_(self.grad_out)
        self.paths = {"sdpa": self.sdpa, "matmul": self.products}
        if self.group > 1 and shape["queries"] == 1:
            self.paths["sdpa, a group as queries"] = self.folded
        if compiled:
            self.paths |= {f"{name} compiled": torch.compile(path, dynamic=False) for name, path in self.paths.items()}
        self.paths["sdpa math"] = self.math

    def sdpa(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.group > 1)

    def math(self, q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            return self.sdpa(q, k, v)

    # Heads of a group that share their keys are rows of one product: keys are read once.
    def folded(self, q, k, v):
        rows = q.view(q.shape[0], k.shape[1], self.group, q.shape[3])
        return F.scaled_dot_product_attention(rows, k, v).reshape(q.shape)

    # Two products of oneDNN or MKL and what is between them.
    def products(self, q, k, v):
        rows = q.view(q.shape[0], k.shape[1], self.group * q.shape[2], q.shape[3])
        scores = torch.matmul(rows, k.transpose(-1, -2)) * q.shape[3] ** -0.5
        if self.causal:
            hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        return torch.matmul(torch.softmax(scores, -1), v).view(q.shape)

    def engines(self, direction):
        if direction == "forward":
            return {"rapt": self.rapt.forward} | {name: self.forward(path) for name, path in self.paths.items()}
        self.rapt.forward(keep=True)
        ours = {"rapt": lambda: list(self.rapt.backward().values())}
        return ours | {name: self.backward(path) for name, path in self.paths.items()}

    def forward(self, path):
        def run():
            with torch.no_grad():
                return path(self.q, self.k, self.v)
        return run

    def backward(self, path):
        leaves = [x.detach().requires_grad_() for x in (self.q, self.k, self.v)]
        kept = []

        def run():
            if not kept:
                kept.append(path(*leaves))
            return torch.autograd.grad(kept[0], leaves, self.grad_out, retain_graph=True)
        return run


def agreeing(engines, dtype, clock, notes):
    """Those that run and give what Rapt gives, with the time of a second call; a disagreement ends the row.

    A path several times behind another is not the best one, and is left out.
    """
    ours = [x.clone() for x in to_list(engines["rapt"]())]
    single = {"rapt": clock.once(engines["rapt"])}
    fastest = float("inf")
    for name, run in engines.items():
        if name == "rapt":
            continue
        try:
            theirs = to_list(run())
        except (RuntimeError, torch._dynamo.exc.TorchDynamoException) as error:
            notes.append(f"{name}: {failure(error)}")
            continue
        worst, agrees = disagreement(ours, theirs, dtype)
        if not agrees:
            raise AssertionError(f"{name} and Rapt differ by {worst:.2g} of the largest number")
        single[name] = clock.once(run)
        fastest = min(fastest, single[name])
    return {name: time_ for name, time_ in single.items() if name == "rapt" or time_ < 2.5 * fastest}


class Clock:
    def __init__(self, options):
        # What else runs on the machine does not count. Of all threads, so only where one works.
        self.now = time.process_time if options.processor_time else time.perf_counter
        self.block, self.rounds = options.block, options.rounds

    def once(self, run):
        start = self.now()
        run()
        return self.now() - start

    def calls(self, single):
        return max(1, min(1000, int(self.block / max(single, 1e-7))))

    def alone(self, engines, single):
        """Medians over rounds of blocks: calls of one engine back to back, then a rest."""
        times = {name: [] for name in engines}
        for turn in range(self.rounds):
            for name in list(engines) if turn % 2 == 0 else reversed(list(engines)):
                run, calls = engines[name], self.calls(single[name])
                time.sleep(REST)
                if single[name] < self.block:
                    run()
                start = self.now()
                for _ in range(calls):
                    run()
                times[name].append((self.now() - start) / calls)
        return {name: statistics.median(list_) for name, list_ in times.items()}

    def alternating(self, run, single, between):
        """The median of a call that follows an operation of PyTorch each time; the operation is not timed."""
        times = []
        for _ in range(max(5, min(200, self.rounds * self.calls(single)))):
            between()
            times.append(self.once(run))
        return statistics.median(times)


def between_calls(threads):
    """A layer's product, large enough to wake all of PyTorch's threads."""
    a, b = torch.rand(256, 256), torch.rand(256, 128 * threads)
    return lambda: torch.mm(a, b)


def measure(shape, dtype, threads, direction, problem, library, clock, between):
    notes = []
    engines = problem.engines(direction)
    single = agreeing(engines, DTYPES[dtype], clock, notes)
    engines = {name: engines[name] for name in single}
    times = clock.alone(engines, single)
    rapt = times.pop("rapt")
    best = min(times, key=times.get)
    row = {**shape, "direction": direction, "dtype": dtype, "threads": threads, "rapt_seconds": rapt,
           "peer_seconds": times, "best_peer": best, "ratio": times[best] / rapt, "notes": notes}
    if between:
        theirs = clock.alternating(engines[best], single[best], between)
        own = clock.alternating(engines["rapt"], single["rapt"], between)
        lent = own
        if threads > 1 and library.use_openmp_threads(os.path.dirname(torch.__file__)):
            lent = clock.alternating(engines["rapt"], single["rapt"], between)
            library.use_own_threads()
        row["alternating"] = {"rapt_seconds": lent, "rapt_own_threads_seconds": own, "peer_seconds": theirs,
                              "ratio": theirs / lent, "slowdown": lent / rapt, "slowdown_own_threads": own / rapt}
    return row


def summary(rows, *keys):
    """Lowest, median and how many are behind, for every value of the keys, in the order of the rows."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    lines = []
    for values, members in groups.items():
        ratios = [row["ratio"] for row in members]
        line = dict(zip(keys, values)) | {
            "rows": len(members), "lowest": min(ratios), "median": statistics.median(ratios),
            "behind": sum(r < 1 for r in ratios), "behind_by_3_percent": sum(r < BEHIND for r in ratios)}
        turns = [row["alternating"] for row in members if "alternating" in row]
        if turns:
            line["alternating_lowest"] = min(t["ratio"] for t in turns)
            line["alternating_median"] = statistics.median(t["ratio"] for t in turns)
            line["alternating_slowdown"] = statistics.median(t["slowdown"] for t in turns)
            line["alternating_slowdown_own_threads"] = statistics.median(t["slowdown_own_threads"] for t in turns)
        lines.append(line)
    return lines


def shape_text(row):
    heads = f"{row['heads']}" if row["heads"] == row["key_heads"] else f"{row['heads']}/{row['key_heads']}"
    return f"{row['batch']},{heads},{row['queries']}×{row['keys']},{row['dim']}"


def aligned(grid):
    widths = [max(len(line[n]) for line in grid) for n in range(len(grid[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in grid)


def text_of(report):
    head = ["kind", "B,H,queries×keys,D", "direction", "dtype", "threads", "Rapt ms", "PyTorch ÷ Rapt", "best path", "alternating", "slowdown"]
    grid = [head]
    for row in report["rows"]:
        turn = row.get("alternating")
        grid.append([row["kind"], shape_text(row), row["direction"], row["dtype"], str(row["threads"]),
                     f"{row['rapt_seconds'] * 1e3:.3g}", f"{row['ratio']:.2f}", row["best_peer"],
                     f"{turn['ratio']:.2f}" if turn else "–", f"{turn['slowdown']:.2f}" if turn else "–"])
    parts = [aligned(grid)]
    for name, lines in report["summary"].items():
        keys = list(lines[0])
        cells = [[f"{line[key]:.2f}" if isinstance(line[key], float) else str(line[key]) for key in keys] for line in lines]
        parts.append(f"{name}\n{aligned([keys] + cells)}")
    return "\n\n".join(parts) + "\n"


def summaries(rows):
    return {"by kind": summary(rows, "kind", "direction", "dtype", "threads"),
            "by dtype, pass and threads": summary(rows, "dtype", "direction", "threads"),
            "all": summary(rows)}


def save(report, folder):
    report["summary"] = summaries(report["rows"]) if report["rows"] else {}
    write(folder / "random.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    text = text_of(report)
    write(folder / "random.txt", text)
    return text


def drawn(options):
    command = [options.rapt, "bench", "--random", str(options.random), "--seed", str(options.seed), "--dry-run", "--json"]
    for name in ("threads", "dtype"):
        if value := getattr(options, name):
            command += [f"--{name}", value]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or f"bench-peers: {command[0]} ended with {done.returncode}")
    plan = json.loads(done.stdout)
    wanted = options.kinds.split(",") if options.kinds else list(plan["kinds"])
    for kind in wanted:
        if kind not in plan["kinds"]:
            sys.exit(f"bench-peers: --kinds: expected some of {', '.join(plan['kinds'])}, got '{kind}'")
    plan["shapes"] = [shape for shape in plan["shapes"] if shape["kind"] in wanted]
    return plan


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="librapt_attend, the shared library")
    parser.add_argument("--rapt", required=True, help="the program, which draws the shapes")
    parser.add_argument("--out", type=Path, required=True, help="where random.json and random.txt go")
    parser.add_argument("--random", type=int, default=40, metavar="N", help="how many shapes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", help="a list; unless given 1, 2, 8 and all, as far as the machine has them")
    parser.add_argument("--dtype", help="a list; unless given f32 and bf16")
    parser.add_argument("--kinds", help="a list; unless given all")
    parser.add_argument("--direction", choices=("forward", "backward", "both"), default="both")
    parser.add_argument("--rounds", type=int, default=5, help="blocks of each path")
    parser.add_argument("--block", type=float, default=0.05, help="seconds of a block")
    parser.add_argument("--compile", action="store_true", help="torch.compile of each path too: half a minute for each row")
    parser.add_argument("--no-alternating", dest="alternating", action="store_false")
    parser.add_argument("--processor-time", action="store_true",
                        help="for a machine that others use; with --threads 1")
    options = parser.parse_args()
    if options.processor_time and options.threads != "1":
        parser.error(f"--processor-time: expected --threads 1 with it, got {options.threads or 'none'}")
    return options


def main():
    options = arguments()
    plan = drawn(options)
    torch._functorch.config.donated_buffer = False  # the backward pass is run again and again
    library = rapt_c.Library(options.library)
    clock = Clock(options)
    directions = ("forward", "backward") if options.direction == "both" else (options.direction,)
    report = {"rapt": library.version(), "isa": library.isa(), "torch": torch.__version__, "seed": plan["seed"],
              "shapes": len(plan["shapes"]), "kinds": plan["kinds"], "threads": plan["threads"],
              "threads_left_out": plan["threads_left_out"], "clock": "processor" if options.processor_time else "wall",
              "failures": [], "rows": []}
    options.out.mkdir(parents=True, exist_ok=True)
    total = len(plan["threads"]) * len(plan["shapes"]) * len(plan["dtypes"])
    done = 0
    text = ""
    for threads in plan["threads"]:
        torch.set_num_threads(threads)
        between = between_calls(threads) if options.alternating else None
        for shape in plan["shapes"]:
            for dtype in plan["dtypes"]:
                done += 1
                if sys.stderr.isatty():
                    print(f"\r{done}/{total} {shape['kind']} {shape_text(shape)} {dtype}\x1b[K", end="", file=sys.stderr, flush=True)
                try:
                    problem = Problem(shape, DTYPES[dtype], threads, library, options.compile)
                    for direction in directions:
                        report["rows"].append(measure(shape, dtype, threads, direction, problem, library, clock, between))
                except (AssertionError, rapt_c.RaptError) as error:
                    report["failures"].append(f"{shape['kind']} {shape_text(shape)} {dtype} {threads} threads: {error}")
                text = save(report, options.out)  # what is there stays there if a later row is stopped
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    print(text)
    if report["threads_left_out"]:
        print(f"left out: {', '.join(map(str, report['threads_left_out']))} threads; this process may not use so many")
    for failed in report["failures"]:
        print(f"wrong: {failed}", file=sys.stderr)
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
