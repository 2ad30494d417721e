"""CIFAR-10 in memory: from the binary files, or from a pack of JPEG images of a fifth of their size.

    python data.py pack TAR PACK     packs the JPEG copy (train/CLASS/NNNN.jpg, test/CLASS/NNNN.jpg) into one file
    python data.py unpack PACK DIR   writes the binary files (data_batch_1.bin … test_batch.bin), as `rapt train cifar10` reads them
    python data.py show PATH         what is there

All images of the copy begin with the same 623 bytes (tables and sizes), so the pack has those once, then the scans.
Decoding needs Pillow or torchvision; the pixels are checked against the hash in the pack.
"""

import argparse
import hashlib
import io
import pathlib
import random
import struct
import sys
import tarfile

import numpy as np
import torch

CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()
MAGIC = b"RAPTJPG1"
SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE
END_OF_TABLES = b"\xff\xda"  # the scan's own header follows, whose length comes first


class Images:
    """images u8 [N, 32, 32, 3], labels i64 [N]."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def first(self, count):
        if count > len(self):
            raise SystemExit(f"data: expected at most {len(self)} images, got {count}")
        return Images(self.images[:count], self.labels[:count]) if count else self

    def to(self, device):
        return Images(self.images.to(device), self.labels.to(device))


def load(path):
    """(train, test) of a directory of binary files, or of a pack (a file, or a directory with cifar10.pack)."""
    path = pathlib.Path(path)
    if path.is_dir() and (path / "cifar10.pack").is_file() and not (path / "test_batch.bin").is_file():
        path = path / "cifar10.pack"
    if path.is_file():
        return _from_records(*decoded(path))
    train = sorted(path.glob("data_batch_*.bin"))
    if not train or not (path / "test_batch.bin").is_file():
        raise SystemExit(f"data: expected data_batch_1.bin … and test_batch.bin, or cifar10.pack in {path}, got neither")
    read = lambda file: np.fromfile(file, np.uint8)
    return _from_records(np.concatenate([read(file) for file in train]), read(path / "test_batch.bin"))


def _from_records(*parts):
    sets = []
    for records in parts:
        if records.size == 0 or records.size % RECORD:
            raise SystemExit(f"data: expected records of {RECORD} bytes, got {records.size} bytes")
        records = torch.from_numpy(records.reshape(-1, RECORD))
        labels = records[:, 0].long()
        if labels.max() >= len(CLASSES):
            raise SystemExit(f"data: expected labels from 0 to {len(CLASSES) - 1}, got {int(labels.max())}")
        sets.append(Images(records[:, 1:].reshape(-1, 3, SIDE, SIDE).permute(0, 2, 3, 1).contiguous(), labels))
    return tuple(sets)


def decode(jpeg):
    """[32, 32, 3] u8 of the bytes of a JPEG file."""
    try:
        from PIL import Image
    except ImportError:
        from torchvision.io import ImageReadMode, decode_jpeg

        buffer = torch.frombuffer(bytearray(jpeg), dtype=torch.uint8)
        return decode_jpeg(buffer, ImageReadMode.RGB).permute(1, 2, 0).numpy()
    return np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))


def records_of(jpegs, labels):
    """The binary version's records, one after the other."""
    records = np.empty((len(labels), RECORD), np.uint8)
    for record, jpeg, label in zip(records, jpegs, labels):
        record[0] = label
        record[1:] = decode(jpeg).transpose(2, 0, 1).ravel()
    return records.ravel()


def read_tar(path):
    """{"train": [(label, jpeg), …], "test": …}, in the order that the copy's own `unpack` writes."""
    parts = {"train": [], "test": []}
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile():
                part, name, _ = member.name.split("/")
                parts[part].append((CLASSES.index(name), tar.extractfile(member).read()))
    for seed, part in enumerate(("train", "test")):
        random.Random(seed).shuffle(parts[part])
    return parts


def digest(*records):
    whole = hashlib.sha256()
    for part in records:
        whole.update(part.tobytes())
    return whole.digest()


def split_jpeg(jpeg):
    """(tables, scan)."""
    at = jpeg.index(END_OF_TABLES) + 2
    at += struct.unpack(">H", jpeg[at : at + 2])[0]
    return jpeg[:at], jpeg[at:]


def write_pack(path, parts, pixels_digest):
    """parts: (train, test), each a list of (label, jpeg)."""
    everything = [image for part in parts for image in part]
    pieces = [split_jpeg(jpeg) for _, jpeg in everything]
    tables = {piece[0] for piece in pieces}
    if len(tables) != 1:
        raise SystemExit(f"pack: expected images with the same tables, got {len(tables)} kinds")
    tables = tables.pop()
    lengths = np.array([len(scan) for _, scan in pieces], "<u4")
    with open(path, "wb") as file:
        file.write(MAGIC + struct.pack("<III", len(tables), *(len(part) for part in parts)) + pixels_digest + tables)
        file.write(bytes(label for label, _ in everything) + lengths.tobytes())
        file.writelines(scan for _, scan in pieces)


def read_pack(path):
    """((train, test) as in write_pack, the digest of the pixels)."""
    data = pathlib.Path(path).read_bytes()
    size = len(MAGIC) + 12
    if data[: len(MAGIC)] != MAGIC or len(data) < size + 32:
        raise SystemExit(f"{path}: expected a pack, got something else")
    length, *counts = struct.unpack("<III", data[len(MAGIC) : size])
    wanted, at = data[size : size + 32], size + 32
    tables, at = data[at : at + length], at + length
    total = sum(counts)
    labels, at = data[at : at + total], at + total
    lengths = np.frombuffer(data, "<u4", total, at) if len(data) >= at + 4 * total else np.zeros(0)
    ends = at + 4 * total + np.cumsum(lengths, dtype=np.int64)
    if lengths.size != total or (total and ends[-1] != len(data)):
        raise SystemExit(f"{path}: expected {total} images, got a file that is cut or longer")
    images = [(label, tables + data[end - n : end]) for label, n, end in zip(labels, lengths.tolist(), ends.tolist())]
    return (images[: counts[0]], images[counts[0] :]), wanted


def decoded(path):
    """Records of a pack: (train, test). Kept in a file beside it, where that can be written."""
    path = pathlib.Path(path)
    kept = path.with_suffix(".records.npy")
    parts, wanted = read_pack(path)
    if kept.is_file():
        records = np.load(kept)
        cut = len(parts[0]) * RECORD
        if digest(records[:cut], records[cut:]) == wanted:
            return records[:cut], records[cut:]
    found = [records_of([jpeg for _, jpeg in part], [label for label, _ in part]) for part in parts]
    if digest(*found) != wanted:
        print(f"{path}: this machine's JPEG decoder gives other pixels than the one that packed", file=sys.stderr)
        return tuple(found)
    try:
        temporary = kept.with_suffix(".part.npy")
        np.save(temporary, np.concatenate(found))
        temporary.replace(kept)
    except OSError:
        pass  # a read-only directory: decoded again next time
    return tuple(found)


def statistics(images):
    """Mean and deviation of each channel, 0 to 1, as `rapt train` normalises by them."""
    pixels = images.images.reshape(-1, 3)
    sums, squares = (torch.zeros(3, dtype=torch.float64) for _ in range(2))
    for part in pixels.split(1 << 22):
        values = part.to("cpu", torch.float64)
        sums += values.sum(0)
        squares += values.square().sum(0)
    mean = sums / len(pixels)
    return mean / 255, (squares / len(pixels) - mean.square()).sqrt() / 255


class Batches:
    """Normalised batches [batch, 32, 32, 3] on the images' device; all of an epoch follows from seed, epoch and place."""

    def __init__(self, images, batch, *, mean, deviation, flip=False, crop_margin=0, seed=1, shuffle=True, dtype=torch.float32):
        self.data, self.batch, self.flip, self.margin, self.seed, self.shuffle = images, batch, flip, crop_margin, seed, shuffle
        device = images.images.device
        self.factor = (1 / (255 * deviation)).to(device, dtype)
        self.shift = (-mean / deviation).to(device, dtype)
        self.rows = torch.arange(SIDE, device=device)

    def __len__(self):
        return -(-len(self.data) // self.batch)

    def epoch(self, number, first=0):
        """Batches `first` … of an epoch: (pixels, labels)."""
        count, device = len(self.data), self.data.images.device
        # Drawn on the CPU, so that every device sees the same images.
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        order = torch.randperm(count, generator=generator) if self.shuffle else torch.arange(count)
        flips = torch.randint(2, (count,), generator=generator).bool() & self.flip
        shifts = torch.randint(-self.margin, self.margin + 1, (2, count), generator=generator)
        order, flips, shifts = order.to(device), flips.to(device), shifts.to(device)
        for at in range(first * self.batch, count, self.batch):
            chosen = order[at : at + self.batch]
            yield self.pixels(chosen, flips[chosen], shifts[:, chosen]), self.data.labels[chosen]

    def pixels(self, chosen, flips, shifts):
        """Each image shifted by its own rows and columns, with black beyond its border, then flipped."""
        images = self.data.images
        rows = self.rows + shifts[0, :, None]  # [batch, 32]
        cols = torch.where(flips[:, None], SIDE - 1 - self.rows, self.rows) + shifts[1, :, None]
        inside = ((rows >= 0) & (rows < SIDE))[:, :, None] & ((cols >= 0) & (cols < SIDE))[:, None, :]
        rows, cols = rows.clamp(0, SIDE - 1), cols.clamp(0, SIDE - 1)
        found = images[chosen[:, None, None], rows[:, :, None], cols[:, None, :]]  # [batch, 32, 32, 3]
        return found.to(self.factor.dtype) * self.factor * inside[..., None] + self.shift


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, arguments in (("pack", ("tar", "pack")), ("unpack", ("pack", "directory")), ("show", ("path",))):
        verb = verbs.add_parser(name)
        for argument in arguments:
            verb.add_argument(argument, type=pathlib.Path)
    given = parser.parse_args()
    if given.verb == "pack":
        parts = read_tar(given.tar)
        records = [records_of([jpeg for _, jpeg in parts[p]], [label for label, _ in parts[p]]) for p in ("train", "test")]
        given.pack.parent.mkdir(parents=True, exist_ok=True)
        write_pack(given.pack, (parts["train"], parts["test"]), digest(*records))
        print(f"{given.pack}: {given.pack.stat().st_size:,} bytes")
    elif given.verb == "unpack":
        train, test = decoded(given.pack)
        given.directory.mkdir(parents=True, exist_ok=True)
        batches = np.array_split(train.reshape(-1, RECORD), 5)
        for n, batch in enumerate(batches):
            batch.tofile(given.directory / f"data_batch_{n + 1}.bin")
        test.tofile(given.directory / "test_batch.bin")
    else:
        train, test = load(given.path)
        mean, deviation = statistics(train)
        print(f"{len(train):,} images to train on, {len(test):,} to test on")
        print(f"mean {mean.tolist()}, deviation {deviation.tolist()}")


if __name__ == "__main__":
    main()
