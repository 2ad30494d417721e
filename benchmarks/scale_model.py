"""scale_model.py [--check FILE] | --sequence S --machines N,...: what many machines would do, as docs/scale.md has it.

A calculation, from the costs of src/distributed/cost.cc; with --check the exit is 1 where FILE has another table. With
--sequence one length on machines of one's own, to be held beside what `mpirun -n N rapt bench processes` measures.
"""
import argparse
import math
import sys
from pathlib import Path

SHORTEST, LONGEST, PIECES = 16, 512, 32  # src/distributed/cut.cc
WAITED = 32                              # sum_groups() of ring.cc
KEY_BUFFERS = 4                          # feed.h
SUMS = 2 + 1 + 4 + 2                     # ring.cc: ahead, at hand, results, on their way


def units_of(length):
    piece = min(max(math.ceil(length // PIECES / SHORTEST) * SHORTEST, SHORTEST), LONGEST)
    return max(1, (math.ceil(length / piece) + 1) // 2), piece


class Ring:
    """One causal call over `machines`, forward and backward; times in seconds, memory in bytes."""

    def __init__(self, length, machines, rate, bandwidth, heads, dim, causal=True, wide=False):
        units, piece = units_of(length)
        size = 8 if wide else 4
        row = heads * dim * size
        groups = max(1, min(math.ceil(WAITED * (machines - 1) / (2 * units)), heads))
        products = heads * length * length * (0.5 if causal else 1) * 2 * dim * 2  # of two, as operations
        part = math.ceil(units / machines) / units
        self.compute = products * part / rate
        self.bytes = 0 if machines == 1 else 2 * row * length
        self.transfer = self.bytes / bandwidth
        self.forward = max(self.compute, self.transfer) + (machines - 1) * self.transfer / units
        backward = 2.5 * self.compute
        self.backward = max(backward, 2 * self.transfer) + (machines - 1) * backward / (2 * units * groups)
        self.efficiency = products / rate / machines / self.forward
        self.backward_efficiency = 2.5 * products / rate / machines / self.backward
        rows = 2 * piece * math.ceil(units / machines)
        self.arrays = 8 * row * rows
        unit = 2 * row * 2 * piece
        self.buffers = KEY_BUFFERS * unit + SUMS * unit / 2 / groups + 2 * heads * size * rows


def duration(seconds):
    for limit, unit, size, digits in ((1, "s", 1, 2), (10, "s", 1, 1), (100, "s", 1, 0), (6000, "min", 60, 0)):
        if seconds < limit:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds / 3600:.0f} h"


def table():
    """Machines of 1 TFLOP/s in f32, half of it in f64, at 100 Gb/s; H 8, D 64, causal."""
    lines = ["| S | machines | compute | transfer | forward | efficiency | backward | efficiency | sent by each, forward "
             "| arrays and buffers of each |", "| --- " * 10 + "|"]
    for length in (2 ** 20, 2 ** 24, 10 ** 8):
        wide = length > 2 ** 24
        for machines in (8, 64, 256, 1024):
            r = Ring(length, machines, 0.5e12 if wide else 1e12, 12.5e9, 8, 64, wide=wide)
            lines.append(f"| {length:,}{' (f64)' if wide else ''} | {machines} | {duration(r.compute)} "
                         f"| {duration(r.transfer)} | {duration(r.forward)} | {r.efficiency:.2f} "
                         f"| {duration(r.backward)} | {r.backward_efficiency:.2f} | {r.bytes / 1e9:.1f} GB "
                         f"| {(r.arrays + r.buffers) / 2 ** 30:.2f} GiB |")
    return "\n".join(lines)


def own(options):
    lines = ["| processes | forward | efficiency | backward | efficiency | arrays | arrays and buffers |",
             "| --- " * 7 + "|"]
    for machines in (int(n) for n in options.machines.split(",")):
        r = Ring(options.sequence, machines, options.rate, options.bandwidth, options.heads, options.dim, options.causal)
        lines.append(f"| {machines} | {duration(r.forward)} | {r.efficiency:.2f} | {duration(r.backward)} "
                     f"| {r.backward_efficiency:.2f} | {r.arrays / 1e6:.0f} MB "
                     f"| {(r.arrays + r.buffers) / 1e6:.0f} MB |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="FILE", help="exit with 1 where FILE does not have the table")
    parser.add_argument("--sequence", type=int, metavar="S")
    parser.add_argument("--machines", default="1,2,4,8", metavar="N,...")
    parser.add_argument("--rate", type=float, default=1e12, help="operations a second of a process [1e12]")
    parser.add_argument("--bandwidth", type=float, default=12.5e9, help="bytes a second [12.5e9]")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--causal", action="store_true")
    options = parser.parse_args()
    if options.sequence:
        print(own(options))
        return 0
    if not options.check:
        print(table())
        return 0
    if table() in Path(options.check).read_text():
        return 0
    print(f"{options.check}: expected the table of benchmarks/scale_model.py, got another", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
