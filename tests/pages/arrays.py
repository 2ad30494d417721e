"""Directories of arrays to look at, made without further libraries."""

import array
import pathlib
import random
import struct

# Tokens that would do harm if a page took them for markup or code.
HOSTILE = ["<script>window.hacked=1</script>", "</script><script>window.hacked=2</script>",
           "<img src=x onerror=\"window.hacked=3\">", "\"><svg onload=window.hacked=4>", "'; window.hacked=5; '",
           "{{script}}", "{{nonce}}", "\u2028", "\u202eright to left", "", "   ", "a" * 5000, "日本語" * 50,
           "\x00\x01\x07", "&lt;b&gt;", "e\u0301\u0301\u0301", "<!--", "-->", "]]>", "${window.hacked=6}"]


def write_npy(path, shape, numbers):
    """f32, from any iterable."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    data = array.array("f", numbers)
    pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data.tobytes())


def weights(directory, layers, heads, queries, keys, tokens=None):
    """Stored weights whose rows sum to 1; head h looks h places back, and a little everywhere."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)

    def numbers():
        for layer in range(layers):
            for head in range(heads):
                for i in range(queries):
                    place = max(0, min(keys - 1, i - head))
                    rest = 0.1 * (layer + 1) / keys
                    for j in range(keys):
                        yield rest + (1 - rest * keys if j == place else 0)

    write_npy(directory / "weights.npy", [layers, heads, queries, keys], numbers())
    if tokens:
        (directory / "tokens.txt").write_bytes("".join(t.replace("\n", " ") + "\n" for t in tokens).encode())
    return directory


def scored(directory, layers, heads, length, dim, seed=1):
    """Queries and keys: the engine computes the weights."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    count = layers * heads * length * dim
    q = [rng.gauss(0, 1) for _ in range(count)]
    write_npy(directory / "q.npy", [layers, heads, length, dim], q)
    write_npy(directory / "k.npy", [layers, heads, length, dim], (0.6 * x + rng.gauss(0, 1) for x in q))
    return directory
