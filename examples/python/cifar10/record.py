"""Turns runs into stored results: python record.py [RUNS] [--speed speed.json] [--tool RUN… --example RUN…] [--reason CLAIM=TEXT]…

Reads result.json, metrics.jsonl and centres of every run below RUNS, a benchmark's file, and the losses of runs of
`rapt train cifar10` (--tool) beside those of train.py with the same settings (--example), and writes
data/experiments/cifar10.json: what was measured ("measured"), where and how ("provenance"), and from these the tables and
claims that `rapt reproduce` shows. What is not given stays as the file has it. `python record.py --check FILE` makes
tables and claims again from what was measured and compares. --reason says why a claim that does not hold does not;
claims are accuracy, spread, grid, speed and curves.
"""

import argparse
import json
import pathlib
import statistics
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]

import centers  # noqa: E402
import compare  # noqa: E402
import pieces  # noqa: E402
import stored  # noqa: E402

TITLE = "Attention and convolution on CIFAR-10"
DOCUMENT = "Assignment 6, Q2"
NAMES = {
    "quadratic": "quadratic", "gaussian": "Gaussian", "learned": "learned, without content",
    "learned_content": "learned, with content", "resnet18": "ResNet-18",
}  # fmt: skip
PAPER = {"quadratic": "93.8 %", "learned": "91.8 %", "learned_content": "87.1 %", "resnet18": "93.8 %"}


def read_run(directory):
    result = json.loads((directory / "result.json").read_text())
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    run = {
        key: result[key]
        for key in ("model", "attention", "seed", "precision", "parameters", "memory_bytes", "test_accuracy", "seconds")
    }
    run["epochs"], run["images"], run["settings"] = result["epoch"], result["images"], result["settings"]
    run["images_per_second"] = statistics.median(line["images_per_second"] for line in lines)
    run["losses"] = [round(line["loss"], 5) for line in lines]
    run["test_accuracies"] = [line["test_accuracy"] for line in lines]
    if (directory / "centers.npy").exists():
        run["centers"] = centers.report(np.load(directory / "centers.npy"), np.load(directory / "covariances.npy"))
    return run, result


def named(facts):
    return f"{facts['device']}, PyTorch {facts['torch']}"


def origin_of_runs(directory, results):
    commands = pieces.commands_of(directory) or sorted({r["command"] for r in results})
    return {
        "of": "runs",
        "date": max(r["date"] for r in results),
        "machine": "; ".join(sorted({named(r["machine"]) for r in results})),
        "commands": commands,
    }


def read_curves(tool, example):
    """Losses of both, and the settings that the example's runs had; (curves, origin)."""
    configs = [json.loads((run / "config.json").read_text()) for run in example]
    settings = configs[0]["settings"]
    if any(config["settings"] != settings for config in configs):
        raise SystemExit("curves: expected runs of the same settings, got others")
    curves = {
        "tool": [compare.losses(run) for run in tool],
        "example": [compare.losses(run) for run in example],
        "settings": settings,
    }
    words = configs[0]["command"].split()[2:]
    at = {word: n for n, word in enumerate(words) if word.startswith("--")}
    gone = {
        n + d
        for name in ("--seed", "--out", "--data", "--resume", "--test-size")
        if name in at
        for n in [at[name]]
        for d in (0, name != "--resume")
    }
    options = " ".join(word for n, word in enumerate(words) if n not in gone)
    seeds = ", ".join(str(config["seed"]) for config in configs)
    commands = [
        f"rapt train cifar10 --config examples/python/cifar10/settings.json --data DIR {options} --seed N --out RUN   # N = {seeds}",
        f"python examples/python/cifar10/train.py --data DIR {options} --seed N --out RUN",
    ]
    return curves, {"of": "curves", "date": configs[0]["date"], "machine": named(configs[0]["machine"]), "commands": commands}


def by_model(runs):
    groups = {}
    for run in runs:
        groups.setdefault(run["model"], []).append(run)
    return {name: groups[name] for name in NAMES if name in groups}


def accuracy_table(groups):
    rows = []
    for name, runs in groups.items():
        accuracies = [run["test_accuracy"] for run in runs]
        memory = max(run["memory_bytes"] or 0 for run in runs)
        rows.append([
            NAMES[name], PAPER.get(name, ""), stored.percent(accuracies), str(len(runs)), f"{runs[0]['parameters']:,}",
            "/".join(sorted({str(run["epochs"]) for run in runs})), f"{statistics.mean(run['seconds'] / run['epochs'] for run in runs):.1f} s",
            f"{memory / 2**30:.1f} GiB" if memory else "", "/".join(sorted({run["attention"] for run in runs})) if name != "resnet18" else "",
        ])  # fmt: skip
    head = ["model", "paper", "test accuracy", "seeds", "parameters", "epochs", "an epoch", "memory", "attention"]
    return {
        "caption": "CIFAR-10, JPEG copy: test accuracy after the last epoch, mean ± deviation over the seeds",
        "head": head,
        "rows": rows,
    }


def speed_table(speed):
    rows = []
    for row in speed["rows"]:
        first = [NAMES[row["model"]], "" if row["model"] == "resnet18" else row["attention"]]
        if "error" in row:
            rows.append([*first, "not taken", "", "", "", ""])
            continue
        memory, rate = row["memory_bytes"], row["flops"]
        rows.append([
            *first, f"{row['milliseconds']:.1f}", f"{row['images_per_second']:,.0f}", "" if memory is None else f"{memory / 2**30:.2f} GiB",
            "" if rate is None else f"{rate / 1e12:.3g}", "" if rate is None else f"{row['of_matmul']:.3f}",
        ])  # fmt: skip
    caption = (
        f"A training step of {speed['batch']} images, {speed['precision']}{', torch.compile' if speed.get('compiled') else ''}; matrix products run at {speed['matmul_flops'] / 1e12:.3g} TFLOP/s; "
        "none: without mixing, the bound for attention that writes what it mixed"
    )
    return {"caption": caption, "head": ["model", "attention", "ms", "images/s", "memory", "TFLOP/s", "of products"], "rows": rows}


def centers_table(run):
    rows = []
    for layer in run["centers"]["layers"]:
        two = lambda name: [f"{layer[name][0]:.2f}", f"{layer[name][-1]:.2f}"]
        rows.append([
            str(layer["layer"]), *two("distance"), *two("spread"), f"{layer['grid_first']:.2f}", f"{layer['grid_last']:.2f}",
            f"{layer['grid_random']:.2f}", f"{100 * layer['nearer_than']:.0f} %",
        ])  # fmt: skip
    caption = (
        f"Centres of the quadratic model, seed {run['seed']}, in cells of the 16 × 16 grid: mean distance from the query; spread; "
        "mean distance of a 3 × 3 kernel's pixels from heads of their own, beside centres drawn at random as far out"
    )
    head = [
        "layer",
        "distance before",
        "after",
        "spread before",
        "after",
        "to the kernel before",
        "after",
        "random",
        "nearer than random",
    ]
    return {"caption": caption, "head": head, "rows": rows}


def curves_table(curves):
    rows = [
        [str(epoch), f"{one:.4f}", f"{other:.4f}", f"{difference:+.4f}", f"± {allowed:.4f}"]
        for epoch, one, other, difference, allowed in compare.compare(curves["tool"], curves["example"])
    ]
    caption = (
        f"Training loss on {curves['settings']['data']['train_size']:,} images, quadratic, the same settings file: rapt train on a CPU and "
        f"PyTorch, means of {len(curves['tool'])} and {len(curves['example'])} seeds"
    )
    return {"caption": caption, "head": ["epoch", "rapt train", "PyTorch", "difference", "noise"], "rows": rows}


def claims(measured, reasons):
    groups, found = by_model(measured.get("runs", [])), []
    if "quadratic" in groups and "resnet18" in groups:
        means = [statistics.mean(run["test_accuracy"] for run in groups[name]) for name in ("quadratic", "resnet18")]
        seeds = min(len(groups[name]) for name in ("quadratic", "resnet18"))
        epochs = groups["quadratic"][0]["epochs"]
        below = 100 * (means[1] - means[0])
        found.append(stored.claim(
            "accuracy", DOCUMENT, "Quadratic encoding does as well as ResNet-18 on CIFAR-10", "93.8 % and 93.8 %",
            f"{100 * means[0]:.2f} % and {100 * means[1]:.2f} % after {epochs} epochs, "
            f"{'one seed' if seeds == 1 else f'means of {seeds} seeds'}, JPEG copy",
            "within 0.5 points, both at least 92 %", below <= 0.5 and min(means) >= 0.92,
            f"The quadratic model is {below:.2f} points below ResNet-18 after {epochs} epochs, where the paper trained 300.", reasons,
        ))  # fmt: skip
    if any("centers" in run for run in groups.get("quadratic", [])):
        all_centers = [run["centers"] for run in groups["quadratic"]]
        layers = len(all_centers[0]["layers"])
        total = layers * len(all_centers)
        wider, farther, like = (
            sum(c[key] for c in all_centers) for key in ("layers_wider", "layers_farther", "layers_like_a_grid")
        )
        start, end = (statistics.mean(c["spread"][n] for c in all_centers) for n in (0, 1))
        near, far = (statistics.mean(c["distance"][n] for c in all_centers) for n in (0, 1))
        of = f"{total} layers of {len(all_centers)} runs" if len(all_centers) > 1 else f"{total} layers"
        found.append(stored.claim(
            "spread", DOCUMENT, "Heads begin local, then cover a larger area in all layers (CIFAR-10)", "in all layers",
            f"spread {start:.2f} → {end:.2f}, distance {near:.2f} → {far:.2f}; {wider} of {of} are wider, {farther} farther out",
            "every layer wider at the end", wider == total,
            f"{total - wider} of the {of} are narrower at the end than at the start: the table has them.", reasons,
        ))  # fmt: skip
        found.append(stored.claim(
            "grid", DOCUMENT, "At the end the centres of a layer resemble a kernel's grid (CIFAR-10)", "resemble a grid",
            f"{like} of {of} are nearer to the 3 × 3 pixels than 95 of 100 random ones",
            "every layer", like == total,
            f"{total - like} of the {of} are not; with a mean spread of {end:.2f} cells heads overlap, and the theorem's grid "
            "is needed only where each head looks at one pixel.", reasons,
        ))  # fmt: skip
    rows = {
        row["attention"]: row
        for row in (measured.get("speed") or {"rows": []})["rows"]
        if row["model"] == "quadratic" and "error" not in row
    }
    if "rapt" in rows and "plain" in rows:
        times = {name: row["milliseconds"] for name, row in rows.items()}
        ratio, bound = times["plain"] / times["rapt"], times["plain"] / times["none"] if "none" in times else None
        found.append(stored.claim(
            "speed", "(Rapt)", "Factorised, a training step of the quadratic model is faster than with N × N weights", "≥ 3 × is the aim",
            f"{ratio:.2f} ×" + (f"; with no mixing at all {bound:.2f} ×" if bound else ""), "at least 3", ratio >= 3,
            f"With the mixing left out altogether the step is {bound:.2f} times as fast: the heads' matrices take the time, not the mixing."
            if bound else "Measured as it is.", reasons,
        ))  # fmt: skip
    if measured.get("curves"):
        rows = compare.compare(measured["curves"]["tool"], measured["curves"]["example"])
        within = sum(abs(row[3]) <= row[4] for row in rows)
        most = max(abs(row[3]) for row in rows)
        found.append(stored.claim(
            "curves", "(Rapt)", "rapt train cifar10 learns as the model in PyTorch does", "the same loss curve",
            f"{within} of {len(rows)} epochs within noise, at most {most:.3f} apart", "every epoch within noise", within == len(rows),
            f"{len(rows) - within} of {len(rows)} epochs differ by more than three standard errors of the seeds: the table has them.", reasons,
        ))  # fmt: skip
    return found


def derive(measured, reasons=None):
    groups = by_model(measured.get("runs", []))
    tables = [accuracy_table(groups)] if groups else []
    first = next((run for run in groups.get("quadratic", []) if "centers" in run), None)
    tables += [centers_table(first)] if first else []
    tables += [speed_table(measured["speed"])] if measured.get("speed") else []
    tables += [curves_table(measured["curves"])] if measured.get("curves") else []
    return {"tables": tables, "claims": claims(measured, reasons or {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=pathlib.Path)
    parser.add_argument("--speed", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=stored.DIRECTORY / "cifar10.json")
    parser.add_argument("--reason", action="append", default=[])
    parser.add_argument("--tool", nargs="+", type=pathlib.Path, default=[])
    parser.add_argument("--example", nargs="+", type=pathlib.Path, default=[])
    parser.add_argument("--check", type=pathlib.Path)
    given = parser.parse_args()
    if given.check:
        return stored.check(given.check, derive)
    if bool(given.tool) != bool(given.example):
        parser.error("expected --tool and --example together, got one of them")
    before = json.loads(given.out.read_text()) if given.out.exists() else {"measured": {}, "provenance": [], "reasons": {}}
    measured, origins = dict(before["measured"]), {origin["of"]: origin for origin in before["provenance"]}
    if given.runs:
        pairs = [read_run(path.parent) for path in sorted(given.runs.glob("*/result.json"))]
        if not pairs:
            raise SystemExit(f"{given.runs}: expected runs that are done, got none")
        measured["runs"] = [run for run, _ in pairs]
        origins["runs"] = origin_of_runs(given.runs, [result for _, result in pairs])
    if given.speed:
        speed = measured["speed"] = json.loads(given.speed.read_text())
        origins["speed"] = {
            "of": "speed",
            "date": speed["date"],
            "machine": named(speed["machine"]),
            "commands": [speed["command"]],
        }
    if given.tool:
        measured["curves"], origins["curves"] = read_curves(given.tool, given.example)
    if not measured:
        parser.error("expected something to record, got nothing")
    about = (
        "Six layers of nine full-width heads on a 16 × 16 grid, and ResNet-18, with one recipe for all: "
        "the same augmentation, schedule, epochs and optimiser; examples/python/cifar10 has them."
    )
    reasons = [f"{name}={text}" for name, text in before["reasons"].items()] + given.reason
    where = [origins[name] for name in ("runs", "speed", "curves") if name in origins]
    stored.write(given.out, TITLE, DOCUMENT, about, where, measured, derive, reasons)


if __name__ == "__main__":
    main()
