"""arrays.py make DIR ROWS [rows] | lines FILE | same A B | near A B TOLERANCE: .npy files for the test of several processes, without NumPy."""
import ast
import math
import random
import struct
import sys
from pathlib import Path


def write(path, shape, numbers):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (tuple(shape),)
    head += " " * ((64 - (10 + len(head) + 1) % 64) % 64) + "\n"
    Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
                           + struct.pack("<%df" % len(numbers), *numbers))


def read(path):
    data = Path(path).read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + length].decode())
    code = {"<f4": "f", "<f8": "d"}[head["descr"]]
    body = data[10 + length:]
    return head["shape"], struct.unpack("<%d%s" % (len(body) // struct.calcsize(code), code), body)


def make(directory, rows, only_rows):
    draw = random.Random(5)
    def numbers(count, size=1.0):
        return [draw.gauss(0, size) for _ in range(count)]
    b, h, d = 2, 4, 16
    for name in ("q", "k", "v", "grad"):
        write(f"{directory}/{name}.npy", (b, h, rows, d), numbers(b * h * rows * d))
    if only_rows:
        return
    write(f"{directory}/bias.npy", (1, h, rows, rows), numbers(h * rows * rows, 0.5))
    write(f"{directory}/map.npy", (d, d), numbers(d * d, 0.3))


def lines(path):
    draw = random.Random(7)
    words = ["".join(draw.choice("abcdefgh") for _ in range(draw.randint(2, 9))) for _ in range(400)]
    Path(path).write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))


def main():
    if sys.argv[1] == "lines":
        return lines(sys.argv[2])
    if sys.argv[1] == "make":
        return make(sys.argv[2], int(sys.argv[3]), len(sys.argv) > 4)
    names = sorted(path.name for path in Path(sys.argv[2]).glob("*.npy"))
    if not names or names != sorted(path.name for path in Path(sys.argv[3]).glob("*.npy")):
        sys.exit(f"other files in {sys.argv[2]} than in {sys.argv[3]}")
    for name in names:
        one, other = Path(sys.argv[2]) / name, Path(sys.argv[3]) / name
        if sys.argv[1] == "same":
            if one.read_bytes() != other.read_bytes():
                sys.exit(f"{one} and {other} differ")
            continue
        (shape, got), (wanted_shape, want) = read(one), read(other)
        largest = max((abs(x) for x in want if math.isfinite(x)), default=0) or 1
        worst = max((abs(x - y) for x, y in zip(got, want) if x != y), default=0)
        if shape != wanted_shape or not worst <= float(sys.argv[4]) * largest:
            sys.exit(f"{one}: {worst} from {other}, whose largest is {largest}")


main()
