"""Times a training step of each model with each implementation of its attention: python benchmark.py [--batch 128] [--json FILE]

A step is forward, backward, clipping and the optimiser, on one batch that stays in memory. Implementations take turns, and
the median of the rounds counts. `none` leaves the mixing out and only writes each cell once a head: no attention that writes
what it mixed makes the step shorter than that.
FLOP/s are of the operations that the implementation needs (2 per multiply-add, backward twice the forward pass), beside
the rate of a bf16 product of 8192 × 8192 matrices in the same run (f32 of 1024 on a CPU).
"""

import argparse
import datetime
import gc
import json
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import models  # noqa: E402
import train  # noqa: E402
from attention import IMPLEMENTATIONS  # noqa: E402


def matmul_rate(device):
    size, dtype = (8192, torch.bfloat16) if device.type == "cuda" else (1024, torch.float32)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    times = timed(lambda: a @ b, device, 10, 3)
    return 2 * size**3 / statistics.median(times)


def timed(call, device, count, warmup):
    """Seconds of each of `count` calls."""
    for _ in range(warmup):
        call()
    if device.type != "cuda":
        times = []
        for _ in range(count):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return times
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda.synchronize()
    for mark in marks[:-1]:
        mark.record()
        call()
    marks[-1].record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])]


class Candidate:
    def __init__(self, name, implementation, settings, given, pixels, labels):
        self.name, self.implementation = name, implementation
        device = torch.device(given.device)
        if device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
            before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
        self.run = train.Run(name, implementation, settings, 1, device, given.precision, given.compile)
        self.call = lambda: self.run.train_batch(pixels, labels, 1_000_000)
        self.times = []
        timed(self.call, device, 1, given.warmup)
        self.memory = torch.cuda.max_memory_allocated(device) - before if device.type == "cuda" else None
        self.operations = 6 * self.run.model.multiply_adds(implementation == "rapt" and name == "quadratic") * len(labels)
        if implementation == "none":
            self.operations = None

    def row(self, roof, images):
        seconds = statistics.median(self.times)
        rate = None if self.operations is None else self.operations / seconds
        return {
            "model": self.name, "attention": self.implementation, "milliseconds": 1e3 * seconds, "images_per_second": images / seconds,
            "memory_bytes": self.memory, "flops": rate, "of_matmul": None if rate is None else rate / roof,
            "parameters": sum(p.numel() for p in self.run.model.parameters()),
        }  # fmt: skip


def measure(given, settings):
    device = torch.device(given.device)
    torch.manual_seed(0)
    pixels, labels = torch.randn(given.batch, 32, 32, 3, device=device), torch.randint(10, (given.batch,), device=device)
    roof = matmul_rate(device)
    rows = []
    for name in given.models:
        candidates = []
        for implementation in ("plain",) if name == "resnet18" else given.attention:
            try:
                candidates.append(Candidate(name, implementation, settings, given, pixels, labels))
            except Exception as error:  # what an implementation does not take is a row, too
                text = (str(error).strip() or type(error).__name__).splitlines()[0]
                rows.append({"model": name, "attention": implementation, "error": f"{type(error).__name__}: {text}"[:300]})
        for _ in range(given.rounds):
            for candidate in candidates:
                candidate.times += timed(candidate.call, device, given.steps, 1)
        rows += [candidate.row(roof, given.batch) for candidate in candidates]
        candidates.clear()
    return {
        "date": datetime.date.today().isoformat(), "machine": train.machine(device), "batch": given.batch, "precision": given.precision,
        "compiled": given.compile, "matmul_flops": roof, "command": " ".join(["python", "examples/python/cifar10/benchmark.py", *sys.argv[1:]]),
        "rows": rows,
    }  # fmt: skip


def table(found):
    lines = [
        f"matmul: {found['matmul_flops'] / 1e12:.3g} TFLOP/s; batch {found['batch']}, {found['precision']}, {found['machine']['device']}"
    ]
    lines.append(f"{'model':16} {'attention':9} {'ms/step':>9} {'images/s':>9} {'memory':>9} {'TFLOP/s':>8} {'of matmul':>9}")
    for row in found["rows"]:
        if "error" in row:
            lines.append(f"{row['model']:16} {row['attention']:9} {row['error']}")
            continue
        memory = "" if row["memory_bytes"] is None else f"{row['memory_bytes'] / 2**30:.2f} GiB"
        rate = "" if row["flops"] is None else f"{row['flops'] / 1e12:8.3g} {row['of_matmul']:9.3f}"
        lines.append(
            f"{row['model']:16} {row['attention']:9} {row['milliseconds']:9.2f} {row['images_per_second']:9.0f} {memory:>9} {rate}"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=models.MODELS, default=list(models.MODELS))
    parser.add_argument("--attention", nargs="+", choices=IMPLEMENTATIONS, default=list(IMPLEMENTATIONS))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=("bf16", "f32"), default=None)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--config", type=pathlib.Path, default=train.HERE / "settings.json")
    parser.add_argument("--json", type=pathlib.Path)
    for name, value in train.MODEL.items():
        parser.add_argument("--" + name, type=type(value), default=None)
    given = parser.parse_args()
    given.precision = given.precision or ("bf16" if given.device.startswith("cuda") else "f32")
    torch.backends.cudnn.benchmark = True
    found = measure(given, train.read_settings(given.config, {name: getattr(given, name) for name in train.MODEL}))
    print(table(found))
    if given.json:
        train.write_text(given.json, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
