"""Writes the measured tables of docs/speed.md: speed_tables.py DOC --bench BENCH.json [--peers RESULTS.json].

BENCH.json comes from `rapt bench --json`, RESULTS.json from `make bench-peers`. A table stands between the lines
`<!-- NAME -->` and `<!-- end NAME -->`; everything else in the document stays as it is.
"""

import argparse
import json
import re
import sys
from pathlib import Path


def milliseconds(seconds):
    return f"{seconds * 1e3:.3g}"


def table(head, rows):
    lines = [head, ["---"] * len(head)] + rows
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def bench_table(report):
    """One line for each name and shape, forward and backward side by side."""
    lines = {}
    for row in report["rows"]:
        lines.setdefault((row["name"], tuple(row["shape"])), {})[row["direction"]] = row
    rows = []
    for (name, shape), ways in lines.items():
        cells = [name, " ".join(f"{letter}{size}" for letter, size in zip("BHSD", shape))]
        for direction in ("forward", "backward"):
            row = ways.get(direction)
            if row is None:
                cells += ["", "", ""]
                continue
            if row.get("bandwidth_fraction"):
                share = f"{row['bandwidth_fraction']:.2f} of reading"
            elif row["unit"] == "G pairs/s":
                share = f"{row['rate']:.1f} G pairs/s"
            else:
                share = f"{row['fraction']:.2f}"
            ratio = row.get("scaled_dot_ratio")
            cells += [milliseconds(row["seconds"]), share, f"{ratio:.2f}" if ratio else ""]
        rows.append(cells)
    roofs = report["roofs"]
    first = report["rows"][0]
    about = (f"{first['threads']} threads, {first['isa']}. sgemm {roofs['sgemm_rate']:.0f} GFLOP/s, reading memory "
             f"{roofs['read_bandwidth']:.0f} GB/s, in the same run.")
    head = ["", "shape", "forward ms", "of sgemm", "scaled_dot ÷", "backward ms", "of sgemm", "scaled_dot ÷"]
    return f"{about}\n\n{table(head, rows)}"


def peers_table(report):
    peers = []
    for row in report["rows"]:
        peers += [p for p in row["ratios"] if p not in peers]
    rows = []
    for row in report["rows"]:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        if row["ratio"] is not None and row["ratio"] < 1:
            ratio = f"**{ratio}**"
        rows.append([row["name"], row["direction"], ",".join(map(str, row["shape"])), milliseconds(row["rapt_seconds"]),
                     f"{row['fraction']:.2f}", ratio]
                    + [f"{row['ratios'][p]:.2f}" if p in row["ratios"] else "" for p in peers])
    about = f"PyTorch {report['torch']}, {report['threads']} threads, {report['isa']}; each number is the peer's time ÷ Rapt's."
    return f"{about}\n\n{table(['', 'direction', 'B,H,S,D', 'Rapt ms', 'of sgemm', 'best'] + peers, rows)}"


def replace(text, name, content):
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    if not pattern.search(text):
        sys.exit(f"speed_tables: the document has no lines <!-- {name} --> and <!-- end {name} -->")
    return pattern.sub(lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path)
    parser.add_argument("--bench", type=Path)
    parser.add_argument("--peers", type=Path)
    options = parser.parse_args()
    text = options.document.read_text(encoding="utf-8")
    if options.bench:
        text = replace(text, "bench", bench_table(json.loads(options.bench.read_text(encoding="utf-8"))))
    if options.peers:
        text = replace(text, "peers", peers_table(json.loads(options.peers.read_text(encoding="utf-8"))))
    options.document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
