"""Trains several models in pieces: python runs.py quadratic:1 resnet18:1,2,3 --data DIR --out RUNS [--minutes 8] [options of train.py]

Each is MODEL:SEEDS, or MODEL/IMPLEMENTATION:SEEDS (quadratic/plain:1). Runs that are done are passed over, others go on
where they stopped, so the same line is given again until it says that all are done. --parallel N trains N at a time, which
pays where one alone leaves the GPU waiting for Python. --collect FILE.tar.gz packs what came out, without the weights.
"""

import argparse
import pathlib
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).parent
KEPT = ("config.json", "metrics.jsonl", "result.json", "centers.npy", "covariances.npy")


def parse(words):
    """[(name of the run, model, implementation, seed), …]."""
    runs = []
    for word in words:
        model, colon, seeds = word.partition(":")
        model, _, implementation = model.partition("/")
        if not colon or not all(seed.isdigit() for seed in seeds.split(",")):
            raise SystemExit(f"runs: expected MODEL:SEED,…, got '{word}'")
        for seed in seeds.split(","):
            name = "_".join(part for part in (model, implementation, seed) if part)
            runs.append((name, model, implementation or "rapt", int(seed)))
    return runs


def collect(out, path):
    with tarfile.open(path, "w:gz") as tar:
        for file in sorted(file for name in KEPT for file in out.glob(f"*/{name}")):
            tar.add(file, str(file.relative_to(out)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--collect", type=pathlib.Path)
    given, options = parser.parse_known_args()
    began = time.monotonic()
    left = lambda: given.minutes - (time.monotonic() - began) / 60
    sys.path.insert(0, str(HERE))
    import data

    data.load(given.data)  # a pack is decoded once, before several programs want it
    todo = [run for run in parse(given.runs) if not (given.out / run[0] / "result.json").exists()]
    running, failed = [], []
    while todo or running:
        while todo and len(running) < given.parallel and (not given.minutes or left() > 0.2):
            name, model, implementation, seed = todo.pop(0)
            command = [sys.executable, str(HERE / "train.py"), "--model", model, "--attention", implementation, "--seed", str(seed)]
            command += ["--data", str(given.data), "--out", str(given.out / name), "--resume", *options]
            command += ["--minutes", f"{left():.2f}"] if given.minutes else []
            running.append((name, subprocess.Popen(command)))
        if not running:
            break
        time.sleep(0.2)
        for one in [one for one in running if one[1].poll() is not None]:
            running.remove(one)
            failed += [one[0]] if one[1].returncode else []
    if given.collect:
        collect(given.out, given.collect)
    unfinished = [run[0] for run in parse(given.runs) if not (given.out / run[0] / "result.json").exists()]
    print("all are done" if not unfinished else f"not done yet: {', '.join(unfinished)}", flush=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
