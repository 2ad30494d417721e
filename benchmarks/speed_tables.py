"""Writes the measured tables of docs/speed.md: speed_tables.py DOC [--bench BENCH.json] [--peers RESULTS.json]
[--random RANDOM.json] [--cuda-bench BENCH.json] [--cuda-peers RESULTS.json].

BENCH.json comes from `rapt bench --json` (with --device cuda), RESULTS.json from `make bench-peers` (`make bench-cuda`). A table stands between the lines
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


def ratio_text(ratio):
    return f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.2f}"


def quantile(numbers, share):
    """Of a sorted list, between its neighbours."""
    place = share * (len(numbers) - 1)
    low = int(place)
    high = min(low + 1, len(numbers) - 1)
    return numbers[low] + (numbers[high] - numbers[low]) * (place - low)


def random_summary(rows, keys, head):
    groups = {}
    for row in rows:
        groups.setdefault(tuple(str(row[key]) for key in keys), []).append(row)
    lines = []
    for values, members in groups.items():
        ratios = sorted(row["ratio"] for row in members)
        turns = sorted(row["alternating"]["ratio"] for row in members if "alternating" in row)
        slower = sorted(row["alternating"]["slowdown"] for row in members if "alternating" in row)
        lines.append([*values, str(len(ratios)), *[ratio_text(quantile(ratios, share)) for share in (0, 0.1, 0.5, 0.9, 1)],
                      str(sum(r < 1 for r in ratios)), ratio_text(quantile(turns, 0.5)) if turns else "",
                      f"{quantile(slower, 0.5):.2f}" if slower else ""])
    return table([*head, "rows", "lowest", "10 %", "median", "90 %", "highest", "behind", "alternating", "slowdown"], lines)


def random_tables(report):
    """`make bench-peers` on random shapes: the distribution by dtype, pass and threads, and by kind, and then every row."""
    rows = report["rows"]
    about = (f"{report['shapes']} shapes of seed {report['seed']}, {len(rows)} rows; Rapt {report['isa']}, PyTorch {report['torch']}, "
             f"{report['clock']} time. PyTorch's best path ÷ Rapt: above 1, Rapt is faster.")
    if report["threads_left_out"]:
        about += f" Left out, as the machine has fewer: {', '.join(map(str, report['threads_left_out']))} threads."
    for failed in report["failures"]:
        about += f"\n\n**Disagrees:** {failed}."
    kinds = "\n".join(f"- `{name}`: {work}" for name, work in report["kinds"].items())
    lines = []
    for row in rows:
        heads = str(row["heads"]) if row["heads"] == row["key_heads"] else f"{row['heads']}/{row['key_heads']}"
        shape = f"B{row['batch']} H{heads} {row['queries']}×{row['keys']} D{row['dim']}"
        lines.append([row["kind"], shape, row["dtype"], row["direction"], str(row["threads"]), milliseconds(row["rapt_seconds"]),
                      ratio_text(row["ratio"]), row["best_peer"]])
    whole = table(["", "shape", "dtype", "", "threads", "Rapt ms", "PyTorch ÷ Rapt", "its best path"], lines)
    return "\n\n".join([
        about, kinds, random_summary(rows, ("dtype", "direction", "threads"), ["dtype", "", "threads"]),
        random_summary(rows, ("kind", "dtype", "direction", "threads"), ["", "dtype", "", "threads"]),
        f"<details><summary>Every row</summary>\n\n{whole}\n\n</details>"])


def shape_text(row):
    return " ".join(f"{letter}{size}" for letter, size in zip("BHSD", row["shape"]))


def cuda_bench_table(report):
    """`rapt bench --device cuda`: one line for each name and shape, forward and backward side by side."""
    lines = {}
    for row in report["rows"]:
        lines.setdefault((row["name"], shape_text(row), row["dtype"]), {})[row["direction"]] = row
    rows = []
    for (name, shape, dtype), ways in lines.items():
        cells = [name, shape, dtype]
        for direction in ("forward", "backward"):
            row = ways.get(direction)
            if row is None:
                cells += [""] * 4
                continue
            rate = f"{row['burst_tflops']:.3g}, {row['tflops']:.3g}"
            if row["bandwidth"]:
                rate = f"{row['bandwidth']:.0f} GB/s"
            share = row["bandwidth_fraction"] or row["fraction"]
            ratio = row["scaled_dot_ratio"]
            cells += [milliseconds(row["seconds"]), rate, f"{share:.2f}" if share else "", f"{ratio:.2f}" if ratio else ""]
        rows.append(cells)
    about = (f"{report['device']}; copying memory {report['copy_bandwidth']:.0f} GB/s. TFLOP/s in a burst and back to back; \"of\": back to back, of cuBLAS "
             f"{report['cublas_size']}³ just before, or of copying memory for one query.")
    if report["cublas_missing"]:
        about += f" No ratio to cuBLAS: {report['cublas_missing']}."
    for wrong in report["wrong"]:
        about += f"\n\n**Wrong, and not timed:** {wrong}."
    way = ["ms", "TFLOP/s", "of", "scaled_dot ÷"]
    return f"{about}\n\n{table(['', 'shape', 'dtype', 'forward ' + way[0], *way[1:], 'backward ' + way[0], *way[1:]], rows)}"


def cuda_peers_table(report):
    """One line for each case and direction: rates, and every peer's time ÷ Rapt's, in a burst and back to back."""
    peers = []
    for row in report["rows"]:
        peers += [p for p in row["ratios"] if p not in peers]
    rows = []
    for row in report["rows"]:
        name = row["name"] + (" causal" if row["causal"] and "causal" not in row["name"] else "")
        rate = ", ".join(f"{x:.3g}" for x in row["rapt_tflops"])
        matrix = f"{row['cublas_tflops'][1]:.0f}"
        if "bandwidth" in row:
            rate = f"{row['bandwidth'][1]:.0f} GB/s, {row['bandwidth'][1] / report['copy_bandwidth']:.2f} of copying"
        cells = [name, row["direction"], shape_text(row), row["dtype"], milliseconds(row["rapt_seconds"][1]), rate, matrix]
        for peer in peers:
            ratios = row["ratios"].get(peer)
            text = "" if ratios is None else ", ".join(f"{x:.2f}" for x in ratios)
            cells.append(f"**{text}**" if ratios and min(ratios) < 1 else text)
        rows.append(cells)
    about = (f"{report['device']}, PyTorch {report['torch']}, cuDNN {report['cudnn']}; copying memory {report['copy_bandwidth']:.0f} GB/s. "
             "Rates and ratios in a burst and back to back; a ratio is the peer's time ÷ Rapt's.")
    for failed in report["failures"]:
        about += f"\n\n**Disagrees:** {failed}."
    head = ["", "direction", "shape", "dtype", "Rapt ms", "Rapt TFLOP/s", "cuBLAS"] + peers
    return f"{about}\n\n{table(head, rows)}"


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
    parser.add_argument("--random", type=Path)
    parser.add_argument("--cuda-bench", type=Path)
    parser.add_argument("--cuda-peers", type=Path)
    options = parser.parse_args()
    text = options.document.read_text(encoding="utf-8")
    writers = {"bench": bench_table, "peers": peers_table, "random": random_tables, "cuda_bench": cuda_bench_table, "cuda_peers": cuda_peers_table}
    for name, write in writers.items():
        if path := getattr(options, name):
            text = replace(text, name.replace("_", "-"), write(json.loads(path.read_text(encoding="utf-8"))))
    options.document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
