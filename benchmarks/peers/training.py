"""Training and greedy decoding: `rapt bench train` and the same models in PyTorch, in turn, on the same threads.

Ratios are PyTorch's time ÷ Rapt's: above 1, Rapt is faster. PyTorch's time is that of its fastest variant. On a machine
that others use too, waiting threads lose more than busy ones; there the ratio of processor times on one thread is fair.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import models

FIRST_SYMBOL = 4
# What is not in the rows of `rapt bench train`: the sizes of the models.
MAKERS = {
    "small_lstm": lambda symbols: models.Seq2seq(symbols, 64, 64),
    "medium_lstm": lambda symbols: models.Seq2seq(symbols, 256, 512),
    "small_transformer": lambda symbols: models.Transformer(symbols, 256, 4, 1024, 4),
}
CLIP = 1.0


def rapt_rows(rapt, name, options):
    command = [rapt, "bench", "train", name, "--json", "--threads", str(options.threads)]
    if options.quick:
        command += ["--repeat", "3"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return {row["direction"]: row for row in json.loads(done.stdout)["rows"]}


class Trainer:
    """Steps of one batch: forward, backward, clipping, Adam."""

    def __init__(self, model, row, compiled):
        self.model = model
        batch, source, target = row["shape"]
        time_first = isinstance(model, models.Seq2seq)
        letters = lambda steps: torch.randint(FIRST_SYMBOL, row["symbols"], (batch, steps))
        self.source = letters(source)
        answer = self.source.flip(1)[:, :target - 1]
        self.target_in = torch.cat((torch.full((batch, 1), models.BEGIN), answer), 1)
        self.target_out = torch.cat((answer, torch.full((batch, 1), models.END)), 1).flatten()
        if time_first:
            self.source, self.target_in = self.source.t().contiguous(), self.target_in.t().contiguous()
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        try:
            self.optimizer = torch.optim.Adam(self.parameters, lr=1e-3, fused=True)
        except RuntimeError:
            self.optimizer = torch.optim.Adam(self.parameters, lr=1e-3, foreach=True)
        self.loss = torch.compile(self.plain_loss, dynamic=False) if compiled else self.plain_loss

    def plain_loss(self):
        logits = self.model(self.source, self.target_in)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.target_out, ignore_index=models.PAD)

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP, foreach=True)
        self.optimizer.step()
        return loss.item()


class Decoding:
    def __init__(self, model, row):
        self.model = model.eval()
        model.never_end()
        batch, source, self.steps = row["shape"]
        shape = (source, batch) if isinstance(model, models.Seq2seq) else (batch, source)
        self.source = torch.randint(FIRST_SYMBOL, row["symbols"], shape)

    def __call__(self):
        return self.model.greedy(self.source, self.steps)


def seconds_of(run, budget, least):
    """The median time of single runs after one that is not counted, and the mean processor time of all threads."""
    run()
    times = []
    begin, processor = time.perf_counter(), time.process_time()
    while len(times) < least or time.perf_counter() - begin < budget:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times), (time.process_time() - processor) / len(times)


def check_decoding(decoding):
    """One step after the other must give what the whole pass gives."""
    found = decoding()
    time_first = isinstance(decoding.model, models.Seq2seq)
    steps = 0 if time_first else 1
    begin = torch.full_like(found.narrow(steps, 0, 1), models.BEGIN)
    given = torch.cat((begin, found.narrow(steps, 0, found.shape[steps] - 1)), steps)
    with torch.inference_mode():
        whole = decoding.model(decoding.source, given).argmax(-1)
    agree = (whole == (found.t() if time_first else found)).float().mean().item()
    if agree < 0.999:
        raise AssertionError(f"decoding and the whole pass agree on {agree:.4f} of the tokens")


def peers_of(name, row, options):
    """Every variant of PyTorch that works, with the loss of its first step."""
    torch.manual_seed(1)
    if row["direction"] == "decode":
        decoding = Decoding(MAKERS[name](row["symbols"]), row)
        check_decoding(decoding)
        return {"eager": decoding}, None, []
    variants, losses, notes = {}, [], []
    for variant in ("eager", "compiled") if options.compile else ("eager",):
        torch.manual_seed(1)
        torch._dynamo.reset()
        trainer = Trainer(MAKERS[name](row["symbols"]), row, variant == "compiled")
        counted = sum(p.numel() for p in trainer.parameters)
        if counted != row["parameters"]:
            raise AssertionError(f"{name}: PyTorch learns {counted} parameters, Rapt {row['parameters']}")
        try:
            start = time.perf_counter()
            losses.append(trainer())
            notes.append(f"{variant}: first step {time.perf_counter() - start:.1f} s")
            variants[variant] = trainer
        except Exception as error:  # a variant that cannot be compiled here is left out
            notes.append(f"{variant}: {type(error).__name__}: {str(error).strip().splitlines()[0][:120]}")
    return variants, losses[0], notes


def measure(name, options):
    """Rounds in which Rapt and each variant have their turn."""
    rows = rapt_rows(options.rapt, name, options)
    peers = {direction: peers_of(name, row, options) for direction, row in rows.items()}
    times = {direction: {"rapt": []} for direction in rows}
    processor = {direction: {"rapt": []} for direction in rows}
    fractions = {direction: [] for direction in rows}
    for _ in range(options.rounds):
        for direction, row in rapt_rows(options.rapt, name, options).items():
            times[direction]["rapt"].append(row["seconds"])
            processor[direction]["rapt"].append(row["processor_seconds"])
            fractions[direction].append(row["fraction"])
        for direction, (variants, _, _) in peers.items():
            for variant, run in variants.items():
                wall, busy = seconds_of(run, options.budget, 3)
                times[direction].setdefault(variant, []).append(wall)
                processor[direction].setdefault(variant, []).append(busy)
    results = []
    for direction, row in rows.items():
        medians = {engine: statistics.median(list_) for engine, list_ in times[direction].items()}
        rapt = medians.pop("rapt")
        best = min(medians, key=medians.get)
        busy = {engine: statistics.median(list_) for engine, list_ in processor[direction].items()}
        sequences, source, target = row["shape"]
        variants, loss, notes = peers[direction]
        results.append({
            "name": name, "direction": direction, "shape": row["shape"], "threads": options.threads,
            "parameters": row["parameters"], "rapt_seconds": rapt, "peer_seconds": medians, "best_peer": best,
            "ratio": medians[best] / rapt, "ratios_of_rounds": round_ratios(times[direction], best),
            "processor_seconds": busy, "processor_ratio": min(t for e, t in busy.items() if e != "rapt") / busy["rapt"],
            "rapt_tokens_per_second": sequences * target / rapt,
            "peer_tokens_per_second": sequences * target / medians[best],
            "rapt_sequences_per_second": sequences / rapt, "peer_sequences_per_second": sequences / medians[best],
            "fraction": statistics.median(fractions[direction]), "rapt_loss": row["loss"], "peer_loss": loss,
            "notes": notes})
        check_loss(results[-1])
    return results


def round_ratios(times, best):
    return [peer / rapt for peer, rapt in zip(times[best], times["rapt"])]


def check_loss(row):
    """Other random numbers from the same distributions: losses of the same kind, not the same loss."""
    if row["direction"] == "train" and not math.isclose(row["rapt_loss"], row["peer_loss"], rel_tol=0.1):
        raise AssertionError(
            f"{row['name']}: first loss {row['rapt_loss']:.3f} of Rapt, {row['peer_loss']:.3f} of PyTorch")


def cells(row):
    rate = "tokens_per_second" if row["direction"] == "train" else "sequences_per_second"
    unit = "tokens/s" if row["direction"] == "train" else "sequences/s"
    number = lambda x: "–" if x is None else f"{x:.3f}"
    low, high = min(row["ratios_of_rounds"]), max(row["ratios_of_rounds"])
    return [row["name"], row["direction"], ",".join(map(str, row["shape"])), str(row["parameters"]),
            f"{row['rapt_seconds'] * 1e3:.3g} ms", f"{min(row['peer_seconds'].values()) * 1e3:.3g} ms",
            f"{row['rapt_' + rate]:,.0f} {unit}", f"{row['peer_' + rate]:,.0f} {unit}", f"{row['ratio']:.2f}",
            f"{low:.2f}–{high:.2f}", f"{row['processor_ratio']:.2f}", row["best_peer"], f"{row['fraction']:.2f}",
            number(row["rapt_loss"]) if row["direction"] == "train" else "–", number(row["peer_loss"])]


def tables(report):
    head = ["model", "direction", "batch,source,target", "parameters", "Rapt", "PyTorch", "Rapt's rate",
            "PyTorch's rate", "PyTorch ÷ Rapt", "of rounds", "processor time", "PyTorch's best", "Rapt of sgemm",
            "first loss", "PyTorch's"]
    grid = [head] + [cells(row) for row in report["rows"]]
    widths = [max(len(line[n]) for line in grid) for n in range(len(head))]
    text = "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in grid)
    markdown = "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head)] + grid[1:])
    about = (f"Training and greedy decoding, PyTorch {report['torch']}, {report['threads']} threads, medians of "
             f"{report['rounds']} rounds in turn. Losses differ by their random numbers only.")
    return f"{about}\n\n{text}\n", f"{about}\n\n{markdown}\n"


def save(report, folder):
    text, markdown = tables(report)
    for name, content in (("training.json", json.dumps(report, indent=2) + "\n"), ("training.txt", text),
                          ("training.md", markdown)):
        partial = folder / (name + ".part")
        partial.write_text(content, encoding="utf-8")
        partial.replace(folder / name)
    return text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(MAKERS)}; none: all")
    parser.add_argument("--rapt", required=True, help="the command-line tool")
    parser.add_argument("--out", type=Path, required=True, help="where training.txt, .json and .md go")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=1.5, help="seconds for one variant in one round")
    parser.add_argument("--quick", action="store_true", help="few rounds, nothing compiled")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave torch.compile out")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.budget, options.compile = 2, 0.2, False
    for name in options.names:
        if name not in MAKERS:
            parser.error(f"expected a model ({', '.join(MAKERS)}), got '{name}'")
    return options


def main():
    options = arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])
    torch.set_num_threads(options.threads)
    report = {"torch": torch.__version__, "threads": options.threads, "machine": platform.machine(),
              "rounds": options.rounds, "failures": [], "rows": []}
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or MAKERS:
        if sys.stderr.isatty():
            print(f"\r{name}\x1b[K", end="", file=sys.stderr, flush=True)
        try:
            report["rows"] += measure(name, options)
        except (AssertionError, subprocess.CalledProcessError) as error:
            report["failures"].append(f"{name}: {error}")
        text = save(report, options.out)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    print(text)
    for failed in report["failures"]:
        print(f"wrong: {failed}", file=sys.stderr)
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
