"""Does sharing attention help? python compare.py --out RUNS [--seeds 1,2,3] [--minutes 8.5] [--parallel 6] [options of train.py]

Trains for each seed a backbone (segmentation alone, other scenes, more epochs), then from it all variants: a network for each
task, one for all without sharing, with sharing, and with sharing at equal parameters and at equal compute. Runs that are
done are passed over and others go on, so the same line is given again until all are done; then it prints the table.
--record FILE stores the results for `rapt reproduce` (default: data/experiments/scenes.json), --check FILE checks one.
Differences are of the same seed: the same backbone, scenes and order. A difference counts where its 95 % confidence
interval over the seeds (Student's) does not hold 0.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]

import network  # noqa: E402
import pieces  # noqa: E402
import stored  # noqa: E402

SINGLE = [f"single:{task}" for task in network.TASKS]
VARIANTS = [*SINGLE, "none", "shared", "shared_parameters", "shared_compute"]
NAMES = {
    "single": "a network for each task", "none": "one network, no sharing", "shared": "shared attention",
    "shared_parameters": "shared, equal parameters", "shared_compute": "shared, equal compute",
}  # fmt: skip
TITLES = {
    "segmentation_miou": "segmentation mIoU ↑", "depth_rmse": "depth RMSE ↓", "normals_angle": "normals angle ↓",
    "edges_f1": "edges F1 ↑", "reshading_l1": "reshading L1 ↓",
}  # fmt: skip
KEPT = ("config.json", "metrics.jsonl", "result.json")
DOCUMENT = "MulT, 5"


def run_name(variant, seed):
    return f"{variant.replace(':', '_')}_{seed}"


def measured_of(directory):
    """{variant: {seed: {scores, parameters, …}}}; a network for each task is one variant, `single`."""
    found = {}
    for path in sorted(directory.glob("*/result.json")):
        result = json.loads(path.read_text())
        if result["variant"] == "pretrain":
            continue
        variant = result["variant"].partition(":")[0]
        one = found.setdefault(variant, {}).setdefault(
            str(result["seed"]), {"scores": {}, "parameters": 0, "multiply_adds": 0, "seconds": 0.0}
        )
        one["scores"].update(result["scores"])
        for key in ("parameters", "multiply_adds", "seconds"):
            one[key] += result[key]
    whole = lambda one: len(one["scores"]) == len(network.TASKS)
    return {name: {seed: one for seed, one in found[name].items() if whole(one)} for name in NAMES if name in found}


def gain(score, ours, other):
    """By how many percent a score is better than another, in the direction that is good for it."""
    change = 100 * (ours - other) / abs(other)
    return change if score in network.HIGHER else -change


def differences(variants, ours, other):
    """{score: [gain of each seed]}, of seeds that both have."""
    seeds = sorted(set(variants[ours]) & set(variants[other]))
    values = lambda name, seed, score: variants[name][seed]["scores"][score]
    return {score: [gain(score, values(ours, seed, score), values(other, seed, score)) for seed in seeds] for score in TITLES}


def number(score, values):
    mean, half = stored.interval(values)
    scale, digits, unit = (100, 2, " %") if score in network.HIGHER else (1, 3, "°" if "angle" in score else "")
    text = f"{scale * mean:.{digits}f}"
    return text + (f" ± {scale * half:.{digits}f}" if len(values) > 1 else "") + unit


def effect(values):
    """What a list of gains shows: better, worse, or nothing beyond chance."""
    mean, half = stored.interval(values)
    return "better" if mean - half > 0 else "worse" if mean + half < 0 else "no difference"


def signed(values):
    mean, half = stored.interval(values)
    return f"{mean:+.2f}" + (f" ± {half:.2f}" if len(values) > 1 else "") + " %"


def derive(measured, reasons=None):
    variants = measured["variants"]
    rows = []
    for name, seeds in variants.items():
        each = list(seeds.values())
        scores = [number(score, [one["scores"][score] for one in each]) for score in TITLES]
        cost = [
            f"{each[0]['parameters']:,}",
            f"{1e-6 * each[0]['multiply_adds']:.1f} M",
            f"{statistics.mean(one['seconds'] for one in each):.0f} s",
        ]
        rows.append([NAMES[name], *scores, *cost])
    count = max((len(seeds) for seeds in variants.values()), default=0)
    tables = [{
        "caption": f"{measured['test']:,} test scenes; mean and 95 % confidence interval over {count} seeds",
        "head": ["network", *TITLES.values(), "parameters", "multiply-adds", "time"], "rows": rows,
    }]  # fmt: skip
    pairs = [(ours, other) for other, names in (("none", list(NAMES)[2:]), ("single", list(NAMES)[1:])) for ours in names]
    pairs = [(ours, other) for ours, other in pairs if ours in variants and other in variants]
    rows = [[f"{NAMES[a]}, against {NAMES[b]}", *(signed(v) for v in differences(variants, a, b).values())] for a, b in pairs]
    caption = "By how many percent each score is better, seed against the same seed, with 95 % confidence intervals"
    tables.append({"caption": caption, "head": ["networks", *TITLES.values()], "rows": rows})
    claims, reasons = [], reasons or {}
    texts = {
        "shared": "Sharing attention between tasks improves each of them (10,000 scenes)",
        "shared_parameters": "The same at equal parameters", "shared_compute": "The same at equal compute",
    }  # fmt: skip
    for name, text in texts.items():
        if name in variants and "none" in variants:
            found = {score: effect(values) for score, values in differences(variants, name, "none").items()}
            claims.append(told(name, text.replace("10,000", f"{measured['train']:,}"), found, count, reasons))
    if "single" in variants and "shared" in variants:
        found = {score: effect(values) for score, values in differences(variants, "shared", "single").items()}
        text = "One network with sharing is better than a network for each task"
        claims.append(told("single", text, found, count, reasons))
    return {"tables": tables, "claims": claims}


def told(name, text, found, seeds, reasons):
    of = lambda kind: [TITLES[score].split()[0] for score, one in found.items() if one == kind]
    parts = [f"{kind}: {', '.join(of(kind))}" for kind in ("better", "worse", "no difference") if of(kind)]
    why = f"Beyond chance over {seeds} seeds, {len(of('better'))} of {len(found)} tasks are better and {len(of('worse'))} worse; the table has the intervals."
    return stored.claim(
        name,
        DOCUMENT,
        text,
        "each task improves",
        "; ".join(parts),
        "every task better beyond chance",
        len(of("better")) == len(found),
        why,
        reasons,
    )


def record(directory, path, reasons):
    results = [json.loads(file.read_text()) for file in sorted(directory.glob("*/result.json"))]
    if not results:
        raise SystemExit(f"{directory}: expected runs that are done, got none")
    data, training = results[0]["data"], results[0]["training"]
    backbone = next((r for r in results if r["variant"] == "pretrain"), None)
    measured = {
        "train": data["train"],
        "test": data["test"],
        "training": training,
        "data": data,
        "variants": measured_of(directory),
    }
    measured["pretrained"] = None if backbone is None else {**backbone["training"], "scenes": backbone["data"]["train"]}
    machines = sorted({f"{r['machine']['device']}, PyTorch {r['machine']['torch']}" for r in results})
    commands = pieces.commands_of(directory) or sorted({r["command"] for r in results})
    where = [{"of": "variants", "date": max(r["date"] for r in results), "machine": "; ".join(machines), "commands": commands}]
    about = (
        f"Networks for five tasks on every pixel, {training['epochs']} epochs on {data['train']:,} ray-cast scenes of "
        f"{data['size']} × {data['size']} pixels"
        + (
            f", from a backbone trained on segmentation for {backbone['training']['epochs']} epochs on other scenes"
            if backbone
            else ""
        )
        + "; examples/python/scenes has them."
    )
    stored.write(path, "Sharing attention between tasks", DOCUMENT, about, where, measured, derive, reasons)


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--pretrain-epochs", type=int, default=60, help="of the backbone; 0: all begin with random numbers")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--collect", type=pathlib.Path)
    parser.add_argument("--record", type=pathlib.Path, nargs="?", const=stored.DIRECTORY / "scenes.json")
    parser.add_argument("--reason", action="append", default=[])
    parser.add_argument("--only-record", action="store_true", help="train nothing")
    parser.add_argument("--check", type=pathlib.Path)
    given, options = parser.parse_known_args()
    if given.check:
        return stored.check(given.check, derive)
    if not given.out:
        parser.error("expected --out or --check, got neither")
    if not given.only_record:
        pieces.note_command(given.out, "examples/python/scenes/compare.py", sys.argv[1:])
        train_all(given, options)
    if given.record:
        record(given.out, given.record, given.reason)
    else:
        measured = {"train": 0, "test": 0, "variants": measured_of(given.out)}
        for table in derive(measured)["tables"][1:]:
            print("\n".join(" | ".join(row) for row in (table["head"], *table["rows"])))


def train_all(given, options):
    began = time.monotonic()
    common = [sys.executable, str(HERE / "train.py"), "--cache", str(given.out / "scenes"), "--resume", *options]
    seeds = [int(seed) for seed in given.seeds.split(",")]

    def run(variant, seed, *more):
        out = given.out / run_name(variant, seed)
        return (
            run_name(variant, seed),
            (out / "result.json").exists,
            [*common, "--variant", variant, "--seed", str(seed), "--out", str(out), *more],
        )

    backbones = [run("pretrain", seed, "--epochs", str(given.pretrain_epochs)) for seed in seeds] if given.pretrain_epochs else []
    todo = [
        run(v, s, *(["--backbone", str(given.out / run_name("pretrain", s))] if backbones else []))
        for s in seeds
        for v in given.variants.split(",")
    ]
    # The first one alone: it renders the scenes for all.
    groups = [(backbones[:1], 1), (backbones[1:], given.parallel), (todo[:1], 1), (todo[1:], given.parallel)]
    failed = []
    for group, parallel in groups:
        left = given.minutes - (time.monotonic() - began) / 60
        if not group or failed or (given.minutes and left < 0.2):
            continue
        failed += pieces.run_all(group, max(left, 0) if given.minutes else 0, parallel)
        if not all(done() for _, done, _ in group):
            break
    if given.collect:
        pieces.collect(given.out, KEPT, given.collect)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
