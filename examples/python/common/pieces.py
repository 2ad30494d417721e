"""Training in pieces: files that are whole or not there, a clock that stops, several runs after and beside each other."""

import math
import os
import pathlib
import platform
import signal
import subprocess
import tarfile
import time

import torch


def write_atomically(path, write):
    """A reader, or a power cut, finds the old file or the new one."""
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_text(path, text):
    write_atomically(path, lambda file: file.write(text.encode()))


class Stop:
    """True after that many minutes (0: never), and after Ctrl-C or SIGTERM."""

    def __init__(self, minutes=0):
        self.end = time.monotonic() + 60 * minutes if minutes else math.inf
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.ask)

    def ask(self, *_):
        self.asked = True

    def __bool__(self):
        return self.asked or time.monotonic() >= self.end


def rate_at(training, step, total):
    """The learning rate of step 1 … total, as `rapt train` has it."""
    warmup = training["warmup"]
    if step <= warmup:
        return training["rate"] * step / warmup
    if training["schedule"] == "constant":
        return training["rate"]
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    return training["rate"] * 0.5 * (1 + math.cos(math.pi * done))


def processor():
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        if cpuinfo.exists()
        else []
    )
    return names[0] if names else platform.machine()


def machine(device):
    device = torch.device(device)
    facts = {"torch": torch.__version__, "python": platform.python_version()}
    if device.type == "cuda":
        facts["device"] = torch.cuda.get_device_name(device)
    else:
        facts["device"] = f"{processor()}, {torch.get_num_threads()} threads"
    return facts


def run_all(runs, minutes=0, parallel=1):
    """runs: [(name, whether it is done, command that continues it), …]; `--minutes` is added. Names that failed."""
    began = time.monotonic()
    left = lambda: minutes - (time.monotonic() - began) / 60
    todo, running, failed = [run for run in runs if not run[1]()], [], []
    while todo or running:
        while todo and len(running) < parallel and (not minutes or left() > 0.2):
            name, _, command = todo.pop(0)
            limit = ["--minutes", f"{left():.2f}"] if minutes else []
            running.append((name, subprocess.Popen([*command, *limit])))
        if not running:
            break
        time.sleep(0.2)
        for one in [one for one in running if one[1].poll() is not None]:
            running.remove(one)
            failed += [one[0]] if one[1].returncode else []
    unfinished = [name for name, is_done, _ in runs if not is_done()]
    print("all are done" if not unfinished else f"not done yet: {', '.join(unfinished)}", flush=True)
    return failed


# What says when, how long and to where, and not what is measured.
_PASSING = ("--minutes", "--collect", "--record", "--reason")


def note_command(directory, script, words):
    """Adds the line that was given to commands.txt of the runs, once."""
    kept, skip = [], False
    for word in words:
        skip, passed = word in _PASSING, skip or word.partition("=")[0] in _PASSING
        kept += [] if passed else [word]
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "commands.txt"
    lines = commands_of(directory)
    line = " ".join(["python", script, *kept])
    if line not in lines:
        write_text(path, "".join(one + "\n" for one in [*lines, line]))


def commands_of(directory):
    path = directory / "commands.txt"
    return path.read_text().splitlines() if path.exists() else []


def collect(directory, names, path):
    """Packs commands.txt and the files of these names in all runs below a directory."""
    with tarfile.open(path, "w:gz") as tar:
        found = sorted(file for name in names for file in directory.glob(f"*/{name}"))
        for file in [*directory.glob("commands.txt"), *found]:
            tar.add(file, str(file.relative_to(directory)))
