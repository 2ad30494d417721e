"""Whether two trainers learn alike: python compare.py RUN… --with RUN…

Compares the training losses of runs of `rapt train cifar10` with those of train.py, epoch by epoch: the means over the
seeds, their difference, and the noise: the standard error of that difference from the seeds of both. Two curves are the
same within noise where no difference is beyond 3 of its standard errors and its floor, half a percent of the loss.
"""

import argparse
import json
import pathlib
import statistics


def losses(run):
    lines = (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


def compare(first, second):
    """[(epoch, mean, mean, difference, allowed), …] of lists of curves."""
    epochs = min(len(curve) for curve in (*first, *second))
    rows = []
    for n in range(epochs):
        groups = [[curve[n] for curve in group] for group in (first, second)]
        means = [statistics.mean(group) for group in groups]
        noise = sum(statistics.variance(group) / len(group) if len(group) > 1 else 0 for group in groups) ** 0.5
        rows.append((n + 1, *means, means[0] - means[1], max(3 * noise, 0.005 * means[0])))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path)
    parser.add_argument("--with", dest="others", nargs="+", type=pathlib.Path, required=True)
    given = parser.parse_args()
    rows = compare([losses(run) for run in given.runs], [losses(run) for run in given.others])
    print("epoch   loss    other   difference  within")
    for epoch, one, other, difference, allowed in rows:
        print(
            f"{epoch:5}  {one:.4f}  {other:.4f}  {difference:+.4f}    ±{allowed:.4f}  {'' if abs(difference) <= allowed else 'beyond noise'}"
        )
    beyond = sum(abs(row[3]) > row[4] for row in rows)
    print("the same within noise" if not beyond else f"beyond noise in {beyond} of {len(rows)} epochs")


if __name__ == "__main__":
    main()
