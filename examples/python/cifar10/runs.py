"""Trains several models in pieces: python runs.py quadratic:1 resnet18:1,2,3 --data DIR --out RUNS [--minutes 8] [options of train.py]

Each is MODEL:SEEDS, or MODEL/IMPLEMENTATION:SEEDS (quadratic/plain:1). Runs that are done are passed over, others go on
where they stopped, so the same line is given again until it says that all are done. --parallel N trains N at a time, which
pays where one alone leaves the GPU waiting for Python. --collect FILE.tar.gz packs what came out, without the weights.
"""

import argparse
import pathlib
import sys

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--collect", type=pathlib.Path)
    given, options = parser.parse_known_args()
    sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
    import data
    import pieces

    pieces.note_command(given.out, "examples/python/cifar10/runs.py", sys.argv[1:])
    data.load(given.data)  # a pack is decoded once, before several programs want it
    runs = []
    for name, model, implementation, seed in parse(given.runs):
        out = given.out / name
        command = [sys.executable, str(HERE / "train.py"), "--model", model, "--attention", implementation, "--seed", str(seed)]
        command += ["--data", str(given.data), "--out", str(out), "--resume", *options]
        runs.append((name, (out / "result.json").exists, command))
    failed = pieces.run_all(runs, given.minutes, given.parallel)
    if given.collect:
        pieces.collect(given.out, KEPT, given.collect)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
